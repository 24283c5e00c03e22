//! `sundown enroll`, `check`, `send-test` and `run` against moto, a third-party stand-in for AWS.
//!
//! What moto has none of: who may do what; `readings.rs` has the rest of the list.

use std::collections::BTreeMap;

use super::account::Account;
use crate::process::{Process, run};

#[tokio::test(flavor = "multi_thread")]
async fn moto_answers_enroll_and_check() {
    let Some(account) = Account::new().await else { return };
    let tag = ["enroll", "--asg-tag", "kubernetes.io/cluster/shop"];
    let enroll = async |more: &[&str]| account.tool(&[&tag[..], more].concat()).await;
    for (flags, code, word) in [
        (&["--check"][..], 3, "add sundown-terminate"),
        (&[], 0, "Nothing was changed"),
        (&["--yes"], 0, "1 hook made"),
        (&["--yes"], 0, "There is nothing to do"),
        (&["--check"], 0, "sundown-terminate is there"),
    ] {
        let output = enroll(flags).await;
        assert!(
            output.code == Some(code) && output.out.contains(word),
            "{flags:?}: {:?} {}{}",
            output.code,
            output.out,
            output.err
        );
    }
    let hooks = account.boto3(&["hooks"]).await;
    let hook = &hooks[0];
    assert_eq!(
        (hooks.as_array().unwrap().len(), &hook["LifecycleHookName"]),
        (1, &"sundown-terminate".into())
    );
    assert_eq!(
        (&hook["LifecycleTransition"], &hook["HeartbeatTimeout"], &hook["DefaultResult"]),
        (&"autoscaling:EC2_INSTANCE_TERMINATING".into(), &300.into(), &"CONTINUE".into())
    );

    let findings = account.findings(&[]).await;
    let mut answers = BTreeMap::new();
    for finding in &findings {
        answers
            .entry(finding["point"].as_str().unwrap())
            .or_insert_with(Vec::new)
            .push(finding["answer"].as_str().unwrap());
    }
    // Receipts that no queue gave are refused as such; rules, targets and policies are read as the
    // SDK's own tools have written them.
    for point in [
        "credentials",
        "queue",
        "queue.retention",
        "queue.encryption",
        "queue.policy",
        "queue.senders",
        "queue.redrive",
        "queue.delete",
        "queue.visibility",
        "queue.receive",
        "rule",
        "rules",
        "dlq",
        "instances",
        "groups",
        "hook",
        "group.scaling",
        "host",
        "clock",
    ] {
        assert!(answers[point].iter().all(|answer| *answer == "yes"), "{point}: {findings:#?}");
    }
    assert_eq!(
        (&answers["hook.heartbeat"], &answers["hook.completion"]),
        (&vec!["cannot-tell"], &vec!["cannot-tell"]),
        "moto has neither"
    );

    let output = enroll(&["--remove", "--yes"]).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    assert_eq!(account.boto3(&["hooks"]).await, serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_goes_through_motos_rule_and_queue_and_the_service_reports_it() {
    let Some(account) = Account::new().await else { return };
    let instance = account.instance().to_owned();
    // The message in the queue is the one that the command announced.
    let output = account.tool(&["send-test", &instance, "--kind", "spot"]).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    let bodies = account.boto3(&["receive", account.queue()]).await;
    assert_eq!(
        (bodies.as_array().unwrap().len(), &bodies[0]["source"]),
        (1, &"sundown.test".into())
    );
    assert!(
        output.out.contains(bodies[0]["id"].as_str().unwrap()),
        "the id that is printed is the event's own: {} {bodies}",
        output.out
    );
    // Only EventBridge has an endpoint of its own: nothing else is asked there.
    let mut elsewhere = account.command(&["send-test", &instance, "--kind", "state-change"]);
    let variables = [
        ("AWS_ENDPOINT_URL_EVENTBRIDGE", account.url.as_str()),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
    ];
    let output = run(account.folder.path(), elsewhere.envs(variables)).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    assert_eq!(
        account.boto3(&["receive", account.queue()]).await[0]["detail"]["state"],
        "stopping"
    );

    let mut service = account.command(&[
        "run",
        "--metrics-listen",
        "127.0.0.1:0",
        "--probe-listen",
        "127.0.0.1:0",
    ]);
    let mut service = Process::start(
        "sundown",
        account.folder.path(),
        service.env("SUNDOWN_AWS_ENDPOINT_URL", &account.url),
    );
    service.ready().await;
    for way in ["events", "queue"] {
        let output = account.tool(&["send-test", &instance, "--to", way, "--wait", "1m"]).await;
        let expected =
            format!("of {instance}: if it were real, the node would be cordoned and drained");
        assert!(
            output.code == Some(0) && output.out.contains(&expected),
            "{way}: {:?} {}{}",
            output.code,
            output.out,
            output.err
        );
    }
    service.counts("dlq_messages{queue=\"sundown-shop-dead\"}", 0.0).await;
    service.counts("messages_deleted_total", 2.0).await;
}
