//! When AWS is asked about an instance, and how little.

use sundown::sim::aws::{Fault, FaultRule, How, State};

use super::{bodies, logs::Logs, tools::continuing_hook};
use crate::harness::Stage;

#[tokio::test(start_paused = true)]
async fn c31_a_node_that_the_cluster_knows_waits_for_no_call_of_aws() {
    let stage = Stage::new(80);
    let instances = stage.group(3, 300);
    let spot = stage.spot_group(2);
    let sundown = stage.settled(&[]).await;
    for api in ["ec2:*", "autoscaling:*"] {
        stage.world.aws.fault(FaultRule::new(api, Fault::Hang, How::Always));
    }
    stage.world.aws.terminate(&instances[0], true);
    stage.send(&bodies::spot(&spot[0], &stage.now()));
    stage.send(&bodies::state_change(&spot[1], "shutting-down", &stage.now()));
    stage
        .until(2, "all are cordoned", || {
            [&instances[0], &spot[0], &spot[1]].iter().all(|i| stage.is_cordoned(i))
        })
        .await;
    stage.until(2, "and their messages deleted", || stage.in_queue() == 0).await;
    assert_eq!(stage.describes(), 0);
    assert_eq!(sundown.messages("terminate-hook", "accepted"), 1.0);
    stage.world.aws.end_faults();
    stage
        .until(120, "the hook is completed", || stage.actions(&instances[0])[0].end.is_some())
        .await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c31_describe_instances_that_fails_is_asked_again_with_growing_pauses_and_the_message_is_kept()
 {
    let stage = Stage::new(81);
    let ours = stage.group_without_nodes("asg", 2, 86_400, &[continuing_hook("drain", 300)]);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.fault(FaultRule::new(
        "ec2:DescribeInstances",
        Fault::InternalError,
        How::Times(3),
    ));
    stage.world.aws.fault(FaultRule::new("ec2:DescribeInstances", Fault::Throttle, How::Always));
    stage.world.aws.terminate(&ours[0], true);
    stage.pass(240).await;
    let asked = stage.describes();
    assert!((8..60).contains(&asked), "{asked} calls in four minutes");
    let calls: Vec<_> = stage
        .world
        .aws
        .calls()
        .into_iter()
        .filter(|c| c.api == "ec2:DescribeInstances")
        .map(|c| c.at)
        .collect();
    let pauses: Vec<f64> =
        calls.windows(2).map(|w| w[1].duration_since(w[0]).as_secs_f64()).collect();
    let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
    let (early, late) = (mean(&pauses[..3]), mean(&pauses[pauses.len() - 3..]));
    assert!(late >= 3.0 * early && late <= 60.0, "they grow, and not without end: {pauses:?}");
    assert_eq!(stage.in_queue(), 1, "kept");
    assert!(stage.actions(&ours[0])[0].end.is_none(), "not completed");
    stage.world.aws.end_faults();
    stage.until(60, "it is completed", || stage.actions(&ours[0])[0].end.is_some()).await;
    stage.until(10, "and deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "completed"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c32_c33_an_instance_that_ec2_does_not_know_is_foreign_where_nothing_is_owed() {
    let stage = Stage::new(82);
    stage.group(2, 300);
    let sundown = stage.settled(&[]).await;
    let stranger = "i-00000000000000bad";
    stage.send(&bodies::spot(stranger, &stage.now()));
    stage.send(&bodies::state_change(stranger, "terminated", &stage.now()));
    stage.until(10, "they are deleted", || stage.in_queue() == 0).await;
    assert_eq!(
        sundown.messages("spot", "foreign") + sundown.messages("state-change", "foreign"),
        2.0
    );
    assert!(stage.kube_writes().is_empty());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn many_foreign_instances_are_asked_about_together_and_one_that_comes_again_once() {
    let stage = Stage::new(83);
    stage.group(2, 300);
    let theirs = stage.foreign_group("theirs", 450, Some("other"), &continuing_hook("drain", 300));
    let sundown = stage.settled(&[]).await;
    for instance in &theirs {
        stage.send(&bodies::spot(instance, &stage.now()));
    }
    stage.until(60, "all are deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("spot", "foreign"), 450.0);
    let asked = stage.describes();
    assert!(asked <= 20, "{asked} calls about 450 instances");
    stage.world.aws.clear_journal();
    for n in 0..100 {
        stage.send(&bodies::spot(&theirs[0], &stage.ago(n % 20)));
        stage.send(&bodies::spot("i-00000000000000bad", &stage.ago(n % 20)));
    }
    stage.until(20, "all are deleted", || stage.in_queue() == 0).await;
    assert!(stage.describes() <= 3, "{} calls about the same two", stage.describes());
    assert!(stage.kube_writes().is_empty());
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_list_of_instances_is_never_asked_for_with_nothing_in_it() {
    let stage = Stage::new(84);
    let instances = stage.group(5, 300);
    let theirs = stage.foreign_group("theirs", 3, None, &continuing_hook("drain", 300));
    let sundown = stage.settled(&[]).await;
    for instance in instances.iter().take(2).chain(&theirs) {
        stage.send(&bodies::spot(instance, &stage.ago(600)));
    }
    stage.until(30, "all are decided", || stage.in_queue() == 0).await;
    let calls: Vec<_> =
        stage.world.aws.calls().into_iter().filter(|c| c.api == "ec2:DescribeInstances").collect();
    assert!(!calls.is_empty() && calls.iter().all(|c| c.object.contains("i-")), "{calls:?}");
    assert_eq!(sundown.messages("spot", "stale"), 2.0);
    assert_eq!(sundown.messages("spot", "foreign"), 3.0);
    assert!(instances.iter().all(|i| stage.ec2_says(i) == State::Running));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn interruptions_that_nobody_can_decide_are_told_and_do_not_make_the_intake_deaf() {
    let logs = Logs::keep();
    let stage = Stage::new(85);
    let ours = stage.spot_group(2);
    let theirs = stage.foreign_group("theirs", 60, None, &continuing_hook("drain", 300));
    let sundown = stage.settled(&["--max-held", "100", "--max-pollers", "1"]).await;
    stage.world.aws.fault(FaultRule::new("ec2:*", Fault::AccessDenied, How::Always));
    for n in 0..3 {
        theirs.iter().for_each(|instance| stage.send(&bodies::spot(instance, &stage.ago(n))));
    }
    stage.pass(9).await;
    stage.send(&bodies::spot(&ours[0], &stage.now()));
    stage.until(45, "ours is accepted", || stage.is_cordoned(&ours[0])).await;
    assert!(stage.in_queue() >= 180, "the others are kept");
    assert_eq!(
        logs.with(&["WARN", "Not allowed to ask AWS", "DescribeInstances"]).len(),
        1,
        "once a minute"
    );
    assert_eq!(logs.with(&["WARN", "No room for more messages"]).len(), 1);
    assert!(sundown.metric("intake_events_total{event=\"made_room\"}") >= 80.0);
    let missing = sundown.readiness.missing();
    assert!(format!("{missing:?}").contains("no room for more messages"), "{missing:?}");
    stage.world.aws.end_faults();
    stage.until(150, "all are decided", || stage.in_queue() == 0).await;
    stage.pass(40).await;
    assert!(sundown.readiness.missing().is_empty());
    sundown.stop().await;
    stage.end();
}
