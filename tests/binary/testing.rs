//! `sundown send-test`: through EventBridge or straight to the queue, to a service that only tells
//! what it would do.

use serde_json::Value;
use sundown::sim::{aws::Rule, kube::Workload};

use crate::stage::Stage;

impl Stage {
    /// Messages of Events with this reason.
    fn told(&self, reason: &str) -> Vec<String> {
        let events = self.world.kube.objects("events");
        events
            .iter()
            .filter(|e| e["reason"] == reason)
            .map(|e| e["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_goes_the_whole_way_and_is_only_told() {
    let stage = Stage::new(80).await;
    let instances = stage.group(2);
    stage.world.aws.reroute(Rule::usual(stage.world.queue()).with_tests());
    let mut sundown = stage.leader("sundown", &[]).await;
    for (n, (kind, outcome)) in
        [("spot", "the node would be cordoned"), ("terminate-hook", "the node would be cordoned")]
            .into_iter()
            .enumerate()
    {
        // It asks to be real, and nobody takes that.
        let said = stage.tool(&["send-test", &instances[n], "--kind", kind, "--real"]).await;
        assert!(
            said.code == Some(0) && said.out.contains("on the default bus"),
            "{}{}",
            said.out,
            said.err
        );
        stage.until("an Event tells of it", || stage.told("TestReceived").len() > n).await;
        assert!(
            stage
                .told("TestReceived")
                .iter()
                .any(|m| m.contains(&instances[n]) && m.contains(outcome)),
            "{:?}",
            stage.told("TestReceived")
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
    let said =
        stage.tool(&["send-test", &instance, "--to", "queue", "--kind", "state-change"]).await;
    assert!(
        said.code == Some(0) && said.out.contains(stage.world.queue()),
        "{}{}",
        said.out,
        said.err
    );
    assert_eq!(stage.in_queue(), 1);
    // The hook of a terminate test is that of the instance's own group.
    let said = stage.tool(&["send-test", &instance, "--kind", "terminate-hook", "--print"]).await;
    let event: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {}{}", said.out, said.err));
    assert_eq!(
        (&event["detail"]["AutoScalingGroupName"], &event["detail"]["LifecycleHookName"]),
        (&"asg".into(), &"drain".into())
    );
    assert_eq!(
        (&event["source"], &event["account"], &event["detail"]["sundown"]["real"]),
        (&"sundown.test".into(), &"123456789012".into(), &false.into())
    );
    let into_pool = ["--kind", "terminate-hook", "--destination", "WarmPool", "--print"];
    let said = stage.tool(&[&["send-test", instance.as_str()][..], &into_pool].concat()).await;
    let event: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&event["detail"]["Origin"], &event["detail"]["Destination"]),
        (&"AutoScalingGroup".into(), &"WarmPool".into())
    );
    let backward = ["--kind", "launch-successful", "--origin", "EC2", "--print"];
    let said = stage.tool(&[&["send-test", instance.as_str()][..], &backward].concat()).await;
    assert!(
        said.code == Some(2) && said.err.contains("use one of: WarmPool to AutoScalingGroup"),
        "{}",
        said.err
    );
    assert_eq!(stage.in_queue(), 1, "what is printed is not sent");
    let said = stage.tool(&["send-test", &instance, "--kind", "launch-hook"]).await;
    assert!(
        said.code == Some(1)
            && said.err.contains("has no launch hook")
            && said.err.contains("--hook"),
        "{}",
        said.err
    );
    let said = stage.tool(&["send-test", "web-1"]).await;
    assert!(said.code == Some(2) && said.err.contains("web-1"), "{}", said.err);
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
    // Without --real it is told only, even now.
    stage.tool(&["send-test", &instances[0], "--to", "queue"]).await;
    stage.until("an Event tells of it", || stage.told("TestReceived").len() == 1).await;
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
async fn who_waits_hears_what_the_service_tells_and_of_what_nobody_tells_the_exit_code() {
    let stage = Stage::new(83).await;
    let instances = stage.spot_group(2);
    stage.world.aws.reroute(Rule::usual(stage.world.queue()).with_tests());
    // Nobody runs yet: it is sent, and nobody tells of it.
    let said = stage.tool(&["send-test", &instances[0], "--wait", "2s"]).await;
    assert!(
        said.code == Some(3) && said.out.contains("after 2s no Event reports it"),
        "{:?} {}{}",
        said.code,
        said.out,
        said.err
    );
    let mut sundown = stage.leader("sundown", &["--accept-real-tests", "1h"]).await;
    stage.until("the first one is told of", || !stage.told("TestReceived").is_empty()).await;
    // That one is no answer to the next.
    for flags in [&[][..], &["--to", "queue"]] {
        let words: Vec<_> = ["send-test", &instances[0], "--wait", "1m"]
            .into_iter()
            .chain(flags.iter().copied())
            .collect();
        let said = stage.tool(&words).await;
        assert!(
            said.code == Some(0) && said.out.contains("the node would be cordoned and drained"),
            "{:?} {}{}",
            said.code,
            said.out,
            said.err
        );
        let id = said.out.split_whitespace().nth(2).unwrap();
        assert!(said.out.matches(id).count() == 2, "what is told is about this one: {}", said.out);
    }
    let said = stage.tool(&["send-test", &instances[1], "--wait", "1m", "--real"]).await;
    assert!(
        said.code == Some(0) && said.out.contains(&format!("spot of {}: cordoned", instances[1])),
        "{:?} {}{}",
        said.code,
        said.out,
        said.err
    );
    assert!(stage.is_cordoned(&instances[1]) && !stage.is_cordoned(&instances[0]));
    assert_eq!(
        sundown.metric("messages_total{kind=\"spot\",outcome=\"test\"}").await.to_string(),
        "3"
    );

    // Who may not see Events sends nothing.
    let denied = stage.world.kube.deny("list", "events");
    let said = stage.tool(&["send-test", &instances[0], "--to", "queue", "--wait", "5s"]).await;
    stage.world.kube.lift(denied);
    assert!(
        said.code == Some(1) && said.err.contains("nothing was sent"),
        "{:?} {}",
        said.code,
        said.err
    );
    assert_eq!(
        sundown.metric("messages_total{kind=\"spot\",outcome=\"test\"}").await.to_string(),
        "3"
    );
}
