//! `--dry-run`: says what it would do, and does nothing.

use serde_json::json;
use sundown::sim::aws::{EventKind, Fault, FaultRule, GroupSpec, HookSpec, How};

use super::{bodies, logs::Logs, tools::continuing_hook};
use crate::{harness::Stage, judge};

/// Every request of a replica that is more than a look, Leases included.
fn kube_writes(stage: &Stage) -> Vec<String> {
    let requests = stage.world.kube.requests().into_iter();
    let writes = requests.filter(|r| r.client.starts_with("sundown") && r.is_write());
    writes.map(|r| format!("{} {} {}", r.verb, r.resource, r.name)).collect()
}

#[tokio::test(start_paused = true)]
async fn c83_a_dry_run_writes_nothing_and_says_once_for_each_event_what_it_would_do() {
    let logs = Logs::keep();
    let stage = Stage::new(150);
    let instances = stage.group(4, 300);
    let spot = stage.spot_group(2);
    stage.shop(8);
    let gone = stage.group_without_nodes("gone", 2, 86_400, &[continuing_hook("drain", 300)]);
    let theirs = stage.foreign_group("theirs", 1, Some("other"), &continuing_hook("drain", 300));
    let url = stage.queue_for(
        "trial",
        [EventKind::TerminateAction, EventKind::SpotWarning, EventKind::LaunchAction],
    );
    stage.pass(60).await;
    let sundown = stage.start("sundown-0", &["--dry-run", "--queue-url", &url]);
    stage.pass(30).await;
    assert_eq!(logs.with(&["WARN", "Dry run", "queue of its own"]).len(), 1);
    stage.world.aws.terminate(&instances[0], true);
    stage.world.aws.terminate(&gone[0], true);
    let boot = HookSpec::launching("boot").heartbeat_timeout(std::time::Duration::from_secs(600));
    stage.world.add_group(GroupSpec { replace_after: None, ..GroupSpec::new("new", 1) }, &[boot]);
    let launched = stage.world.aws.launch("new").unwrap();
    let send = |body: String| drop(stage.world.aws.send_event("trial", &body));
    send(bodies::spot(&spot[0], &stage.now()));
    send(bodies::spot(&theirs[0], &stage.now()));
    send(bodies::state_change(&spot[1], "terminated", &stage.now()));
    send("?".to_owned());
    send(bodies::event("my.app", "Something", &stage.now(), &json!({})));
    send(
        json!({ "Event": "autoscaling:TEST_NOTIFICATION", "AutoScalingGroupName": "asg" })
            .to_string(),
    );
    stage.pass(290).await;
    assert!(kube_writes(&stage).is_empty(), "{:?}", kube_writes(&stage));
    assert!(stage.aws_writes().is_empty(), "{:?}", stage.aws_writes());
    assert_eq!(stage.bodies_in("trial").len(), 9, "they reappear by themselves");
    assert!(stage.world.aws.queue("trial").unwrap().messages.iter().all(|m| m.receive_count >= 4));
    for instance in [&instances[0], &spot[0], &spot[1], &gone[0], &launched] {
        let said = logs.with(&["Dry run: would", &format!("instance={instance}")]);
        assert_eq!(said.len(), 1, "{instance}: {said:?}");
    }
    assert_eq!(logs.with(&["Dry run: would cordon", &instances[0]]).len(), 1);
    assert_eq!(logs.with(&["Dry run: would complete", &gone[0]]).len(), 1);
    assert_eq!(logs.with(&["Dry run: would complete", &launched]).len(), 1);
    let ignored =
        logs.with(&["Dry run: would delete", &format!("instance={}", theirs[0]), "foreign"]);
    assert_eq!(ignored.len(), 1, "{ignored:?}");
    assert_eq!(
        logs.with(&["Dry run: would delete", "queue=trial"]).len(),
        2,
        "an event of others and a test notification, once each"
    );
    assert!(sundown.messages("spot", "dry_run") >= 2.0, "until it is stale");
    assert_eq!(
        (sundown.metric("leader"), sundown.metric("dry_run")),
        (0.0, 1.0),
        "no alert waits for it to lead"
    );
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c83_a_dry_run_takes_nothing_over_that_another_has_begun() {
    let logs = Logs::keep();
    let stage = Stage::new(151);
    let instances = stage.group(3, 300);
    stage.shop(6);
    stage.queue_for("actions", [EventKind::TerminateAction]);
    let real = stage.settled(&[]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(5, "it is taken on", || stage.is_cordoned(&instances[0])).await;
    real.kill();
    stage.world.kube.clear_journal();
    stage.world.aws.clear_journal();
    let url = stage.queue_for("trial", []);
    stage.world.aws.send_event("trial", &stage.bodies_in("actions")[0]);
    let dry = stage.start("sundown-dry", &["--dry-run", "--queue-url", &url]);
    stage.pass(200).await;
    assert_eq!(logs.with(&["Dry run: would", &instances[0]]).len(), 1);
    assert_eq!(
        logs.with(&[
            "Dry run: would delete the message: the node's record holds its interruption",
            &instances[0]
        ])
        .len(),
        1
    );
    assert!(kube_writes(&stage).is_empty() && stage.aws_writes().is_empty());
    dry.stop().await;
    assert!(kube_writes(&stage).is_empty() && stage.aws_writes().is_empty(), "nor at its end");
    stage.end_except(&[judge::Rule::TrueEvents], "the journal begins after the accept");
}

#[tokio::test(start_paused = true)]
async fn c83_a_dry_run_of_a_late_hook_sends_no_heartbeat_to_prove_it() {
    let logs = Logs::keep();
    let stage = Stage::new(152);
    let instances = stage.group(3, 300);
    let url = stage.queue_for("trial", []);
    stage.pass(60).await;
    let dry = stage.start("sundown-0", &["--dry-run", "--queue-url", &url]);
    stage.pass(30).await;
    stage.world.aws.fault(FaultRule::new("ec2:*", Fault::Throttle, How::Times(3)));
    let body = bodies::terminate("asg", "drain", &instances[0], &stage.ago(1000));
    stage.world.aws.send_event("trial", &body);
    stage.pass(200).await;
    assert!(stage.aws_writes().is_empty(), "{:?}", stage.aws_writes());
    assert_eq!(logs.with(&["Dry run: would cordon", &instances[0]]).len(), 1);
    assert_eq!(stage.bodies_in("trial").len(), 1);
    dry.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_test_event_in_a_dry_run_writes_no_event_of_its_node() {
    let logs = Logs::keep();
    let stage = Stage::new(157);
    let instances = stage.spot_group(2);
    stage.shop(2);
    let url = stage.queue_for("trial", []);
    stage.pass(60).await;
    let sundown = stage.start("sundown-0", &["--dry-run", "--queue-url", &url]);
    stage.pass(30).await;
    let mut test: serde_json::Value =
        serde_json::from_str(&bodies::spot(&instances[0], &stage.now())).unwrap();
    test["source"] = "sundown.test".into();
    stage.world.aws.send_event("trial", &test.to_string());
    stage.pass(30).await;
    assert!(!logs.with(&["Test event: if it were real", &instances[0]]).is_empty());
    assert!(kube_writes(&stage).is_empty(), "{:?}", kube_writes(&stage));
    sundown.stop().await;
    stage.end();
}
