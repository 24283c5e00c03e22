//! `--dlq-url`: how deep the dead-letter queues are.

use sundown::sim::aws::{Fault, FaultRule, How, QueueSettings};

use crate::harness::{Replica, Stage};

/// The depth that a replica tells; `None`: it tells none.
fn depth(replica: &Replica, queue: &str) -> Option<String> {
    let text = replica.metrics.render().unwrap();
    let series = format!("sundown_dlq_messages{{queue=\"{queue}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&series)).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn the_depth_of_each_is_reported_by_every_replica_and_nothing_is_taken_from_it() {
    let stage = Stage::new(190);
    stage.group(1, 300);
    let urls =
        ["dead", "deader"].map(|name| stage.world.aws.create_queue(name, QueueSettings::default()));
    stage.world.aws.send_event("dead", "{}");
    let flags = ["--dlq-url", &urls[0], "--dlq-url", &urls[1]];
    let (leader, standby) = (stage.start("sundown-0", &flags), stage.start("sundown-1", &flags));
    stage.pass(5).await;
    for replica in [&leader, &standby] {
        assert_eq!(
            (depth(replica, "dead").as_deref(), depth(replica, "deader").as_deref()),
            (Some("1"), Some("0")),
            "{}",
            replica.name
        );
    }
    stage.world.aws.send_event("dead", "{}");
    stage.pass(61).await;
    assert_eq!(
        (depth(&leader, "dead").as_deref(), depth(&standby, "dead").as_deref()),
        (Some("2"), Some("2"))
    );
    stage.pass(540).await;
    let asked = stage
        .world
        .aws
        .calls()
        .into_iter()
        .filter(|c| c.object == "dead")
        .map(|c| c.api)
        .collect::<Vec<_>>();
    assert!(asked.iter().all(|api| api == "sqs:GetQueueAttributes"), "{asked:?}");
    // About once a minute, each of the two, for ten minutes.
    assert!((18..=24).contains(&asked.len()), "{}", asked.len());
    assert_eq!(stage.world.aws.queue("dead").unwrap().visible, 2);
    leader.stop().await;
    standby.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_asked_tells_no_old_number_and_keeps_nobody_from_being_ready() {
    let stage = Stage::new(191);
    stage.group(1, 300);
    let url = stage.world.aws.create_queue("dead", QueueSettings::default());
    stage.world.aws.send_event("dead", "{}");
    let sundown = stage.start("sundown-0", &["--dlq-url", &url]);
    stage.pass(20).await;
    assert_eq!(depth(&sundown, "dead").as_deref(), Some("1"));
    let fault = stage.world.aws.fault(
        FaultRule::new("sqs:GetQueueAttributes", Fault::AccessDenied, How::Always).about("dead"),
    );
    stage.pass(61).await;
    assert_eq!(depth(&sundown, "dead"), None);
    assert!(sundown.readiness.missing().is_empty(), "{:?}", sundown.readiness);
    // SundownDenied says that drains wait: for these calls none does.
    assert!(
        stage
            .world
            .aws
            .calls()
            .iter()
            .any(|c| c.object == "dead" && c.outcome != sundown::sim::aws::Outcome::Ok)
    );
    let text = sundown.metrics.render().unwrap();
    assert!(
        !text.lines().any(|line| line.contains("outcome=\"denied\"") && !line.ends_with(" 0")),
        "{text}"
    );
    stage.world.aws.end_fault(fault);
    stage.pass(61).await;
    assert_eq!(depth(&sundown, "dead").as_deref(), Some("1"));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn where_none_is_named_none_is_asked_and_no_series_is_there() {
    let stage = Stage::new(192);
    stage.group(1, 300);
    stage.world.aws.create_queue("dead", QueueSettings::default());
    let sundown = stage.start("sundown-0", &[]);
    stage.pass(130).await;
    let text = sundown.metrics.render().unwrap();
    assert!(!text.lines().any(|line| line.starts_with("sundown_dlq_messages")), "{text}");
    assert!(stage.world.aws.calls().iter().all(|call| call.object != "dead"));
    sundown.stop().await;
    stage.end();
}
