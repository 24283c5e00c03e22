//! Signals.

use std::time::{Duration, Instant};

use sundown::sim::{
    aws,
    kube::{Fault, Match, Rule},
};

use crate::stage::Stage;

/// «Within seconds», on a loaded machine.
const SECONDS: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_gives_messages_and_the_lease_back_and_exits_0() {
    let stage = Stage::new(20).await;
    let instances = stage.group(2);
    // Nothing can be taken on, so the message stays undecided.
    let refused = Fault::Status {
        code: 503,
        reason: "ServiceUnavailable".into(),
        message: "no".into(),
        retry_after: None,
    };
    stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), refused));
    let mut sundown = stage.leader("sundown", &[]).await;
    assert!(stage.holder().is_some());
    stage.world.aws.terminate(&instances[0], true);
    sundown.logged("Cannot accept the interruption yet").await;
    let queue = || stage.world.aws.queue(stage.world.queue()).unwrap();
    assert_eq!((queue().visible, queue().in_flight), (0, 1));
    sundown.counts("messages_held", 1.0).await;
    let begun = Instant::now();
    sundown.signal("TERM");
    assert_eq!(sundown.ended().await.code(), Some(0), "{}", sundown.log());
    assert!(begun.elapsed() < SECONDS, "{:?}", begun.elapsed());
    assert_eq!(
        (queue().visible, queue().in_flight),
        (1, 0),
        "the message can be received by the next one at once"
    );
    assert_eq!(stage.holder(), None, "the Lease is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigint_is_as_good_and_a_standby_takes_over_at_once() {
    let stage = Stage::new(21).await;
    stage.group(1);
    let mut first = stage.leader("first", &[]).await;
    let mut second = stage.start("second", &[]);
    second.ready().await;
    assert_eq!(second.metric("leader").await.to_string(), "0");
    let begun = Instant::now();
    first.signal("INT");
    second.counts("leader", 1.0).await;
    // The default lease lasts 15 s: a lease that was given up need not be waited for.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    // Its long poll lasts 20 s.
    assert_eq!(first.ended().await.code(), Some(0), "{}", first.log());
    assert!(begun.elapsed() < Duration::from_secs(30), "a pod has no more: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let stage = Stage::new(22).await;
    stage.group(1);
    let mut sundown = stage.leader("sundown", &[]).await;
    // Nobody answers any more: the end in good order takes all the time that it is given.
    stage.world.kube.inject(Rule::always(Match::all(), Fault::Hang));
    stage.world.aws.fault(aws::FaultRule::new("*", aws::Fault::Hang, aws::How::Always));
    sundown.signal("TERM");
    sundown.logged("Stopping").await;
    let begun = Instant::now();
    sundown.signal("TERM");
    assert_eq!(sundown.ended().await.code(), Some(130), "{}", sundown.log());
    assert!(begun.elapsed() < SECONDS / 2, "{:?}", begun.elapsed());
    assert!(sundown.log().contains("A second signal"));
}
