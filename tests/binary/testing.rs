//! `sundown send-test`: through EventBridge or straight to the queue, to a service that only
//! reports what it would do.

use serde_json::Value;
use sundown::sim::{aws::Rule, kube::Workload};

use crate::stage::Stage;

impl Stage {
    /// Messages of Events with this reason.
    fn event_messages(&self, reason: &str) -> Vec<String> {
        let events = self.world.kube.objects("events");
        events
            .iter()
            .filter(|e| e["reason"] == reason)
            .map(|e| e["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_goes_the_whole_way_and_is_only_reported() {
    let stage = Stage::new(80).await;
    let instances = stage.group(2);
    stage.world.aws.reroute(Rule::usual(stage.world.queue()).with_tests());
    let mut sundown = stage.leader("sundown", &[]).await;
    for (n, (kind, outcome)) in
        [("spot", "the node would be cordoned"), ("terminate-hook", "the node would be cordoned")]
            .into_iter()
            .enumerate()
    {
        // It asks to be real, and the service does not allow that.
        let output = stage.tool(&["send-test", &instances[n], "--kind", kind, "--real"]).await;
        assert!(
            output.code == Some(0) && output.out.contains("on the default bus"),
            "{}{}",
            output.out,
            output.err
        );
        stage.until("an Event reports it", || stage.event_messages("TestReceived").len() > n).await;
        assert!(
            stage
                .event_messages("TestReceived")
                .iter()
                .any(|m| m.contains(&instances[n]) && m.contains(outcome)),
            "{:?}",
            stage.event_messages("TestReceived")
        );
        stage.until("the message is deleted", || stage.in_queue() == 0).await;
        assert!(
            !stage.is_cordoned(&instances[n])
                && stage.node(&instances[n])["metadata"]["annotations"]
                    .get("sundown.dev/record")
                    .is_none()
        );
    }
    assert_eq!(
        sundown.metric("messages_total{kind=\"spot\",outcome=\"test\"}").await.to_string(),
        "1"
    );
    assert_eq!(sundown.lines("Test event: if it were real").len(), 2);
    assert!(!sundown.lines("--accept-real-tests").is_empty());
    assert_eq!(
        stage.world.aws.count("autoscaling:CompleteLifecycleAction")
            + stage.world.aws.count("autoscaling:RecordLifecycleActionHeartbeat"),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_does_not_match_tests_lets_none_through_and_the_queue_takes_them_directly() {
    let stage = Stage::new(81).await;
    let instance = stage.group(1).remove(0);
    assert_eq!(stage.tool(&["send-test", &instance]).await.code, Some(0));
    assert_eq!(stage.in_queue(), 0);
    let output =
        stage.tool(&["send-test", &instance, "--to", "queue", "--kind", "state-change"]).await;
    assert!(
        output.code == Some(0) && output.out.contains(stage.world.queue()),
        "{}{}",
        output.out,
        output.err
    );
    assert_eq!(stage.in_queue(), 1);
    // The hook of a terminate test is that of the instance's own group.
    let output = stage.tool(&["send-test", &instance, "--kind", "terminate-hook", "--print"]).await;
    let event: Value = serde_json::from_str(&output.out)
        .unwrap_or_else(|e| panic!("{e}: {}{}", output.out, output.err));
    assert_eq!(
        (&event["detail"]["AutoScalingGroupName"], &event["detail"]["LifecycleHookName"]),
        (&"asg".into(), &"drain".into())
    );
    assert_eq!(
        (&event["source"], &event["account"], &event["detail"]["sundown"]["real"]),
        (&"sundown.test".into(), &"123456789012".into(), &false.into())
    );
    let into_pool = ["--kind", "terminate-hook", "--destination", "WarmPool", "--print"];
    let output = stage.tool(&[&["send-test", instance.as_str()][..], &into_pool].concat()).await;
    let event: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(
        (&event["detail"]["Origin"], &event["detail"]["Destination"]),
        (&"AutoScalingGroup".into(), &"WarmPool".into())
    );
    let backward = ["--kind", "launch-successful", "--origin", "EC2", "--print"];
    let output = stage.tool(&[&["send-test", instance.as_str()][..], &backward].concat()).await;
    assert!(
        output.code == Some(2) && output.err.contains("use one of: WarmPool to AutoScalingGroup"),
        "{}",
        output.err
    );
    assert_eq!(stage.in_queue(), 1, "what is printed is not sent");
    let output = stage.tool(&["send-test", &instance, "--kind", "launch-hook"]).await;
    assert!(
        output.code == Some(1)
            && output.err.contains("has no launch hook")
            && output.err.contains("--hook"),
        "{}",
        output.err
    );
    let output = stage.tool(&["send-test", "web-1"]).await;
    assert!(output.code == Some(2) && output.err.contains("web-1"), "{}", output.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_test_is_acted_on_while_the_service_takes_such() {
    let stage = Stage::new(82).await;
    let instances = stage.spot_group(2);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 4));
    stage.pods_run(4).await;
    let mut sundown = stage.leader("sundown", &["--accept-real-tests", "1h"]).await;
    assert!(
        !sundown.lines("everyone who can send one to the queue can have nodes drained").is_empty()
    );
    // Without --real it is only reported, even now.
    stage.tool(&["send-test", &instances[0], "--to", "queue"]).await;
    stage.until("an Event reports it", || stage.event_messages("TestReceived").len() == 1).await;
    assert!(!stage.is_cordoned(&instances[0]));
    stage.tool(&["send-test", &instances[1], "--to", "queue", "--real"]).await;
    stage.until("the node is cordoned", || stage.is_cordoned(&instances[1])).await;
    let node = stage.node_of(&instances[1]);
    stage.until("its pods are gone", || stage.world.kube.pods_on(&node).is_empty()).await;
    assert_eq!(
        sundown.metric("messages_total{kind=\"spot\",outcome=\"accepted\"}").await.to_string(),
        "1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn send_test_with_wait_prints_the_services_event_and_its_exit_code_shows_that_none_came() {
    let stage = Stage::new(83).await;
    let instances = stage.spot_group(2);
    stage.world.aws.reroute(Rule::usual(stage.world.queue()).with_tests());
    // No service runs yet: the event is sent, and no Event reports it.
    let output = stage.tool(&["send-test", &instances[0], "--wait", "2s"]).await;
    assert!(
        output.code == Some(3) && output.out.contains("after 2s no Event reports it"),
        "{:?} {}{}",
        output.code,
        output.out,
        output.err
    );
    let mut sundown = stage.leader("sundown", &["--accept-real-tests", "1h"]).await;
    stage
        .until("an Event reports the first one", || {
            !stage.event_messages("TestReceived").is_empty()
        })
        .await;
    // That one is no answer to the next.
    for flags in [&[][..], &["--to", "queue"]] {
        let words: Vec<_> = ["send-test", &instances[0], "--wait", "1m"]
            .into_iter()
            .chain(flags.iter().copied())
            .collect();
        let output = stage.tool(&words).await;
        assert!(
            output.code == Some(0) && output.out.contains("the node would be cordoned and drained"),
            "{:?} {}{}",
            output.code,
            output.out,
            output.err
        );
        let id = output.out.split_whitespace().nth(2).unwrap();
        assert!(
            output.out.matches(id).count() == 2,
            "the Event that is printed is about this one: {}",
            output.out
        );
    }
    let output = stage.tool(&["send-test", &instances[1], "--wait", "1m", "--real"]).await;
    assert!(
        output.code == Some(0)
            && output.out.contains(&format!("spot of {}: cordoned", instances[1])),
        "{:?} {}{}",
        output.code,
        output.out,
        output.err
    );
    assert!(stage.is_cordoned(&instances[1]) && !stage.is_cordoned(&instances[0]));
    assert_eq!(
        sundown.metric("messages_total{kind=\"spot\",outcome=\"test\"}").await.to_string(),
        "3"
    );

    // Who may not see Events sends nothing.
    let denied = stage.world.kube.deny("list", "events");
    let output = stage.tool(&["send-test", &instances[0], "--to", "queue", "--wait", "5s"]).await;
    stage.world.kube.lift(denied);
    assert!(
        output.code == Some(1) && output.err.contains("nothing was sent"),
        "{:?} {}",
        output.code,
        output.err
    );
    assert_eq!(
        sundown.metric("messages_total{kind=\"spot\",outcome=\"test\"}").await.to_string(),
        "3"
    );
}
