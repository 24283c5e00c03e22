//! What `sundown enroll` and `check` report about launch hooks, and about groups that a person has
//! changed, at moto. Nothing waits in a hook there: `readings.rs` lists what moto has none of.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::account::Account;

/// The answers at a point, by what they are about.
fn answers<'a>(findings: &'a [Value], point: &str) -> BTreeMap<&'a str, &'a str> {
    findings
        .iter()
        .filter(|finding| finding["point"].as_str() == Some(point))
        .map(|f| (f["about"].as_str().unwrap(), f["answer"].as_str().unwrap()))
        .collect()
}

/// boto3's call that puts a launch hook with AWS's default result.
fn put_launch_hook(name: &str, heartbeat_timeout: u64) -> (&'static str, Value) {
    let hook = json!({
        "AutoScalingGroupName": "asg", "LifecycleHookName": name,
        "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
        "HeartbeatTimeout": heartbeat_timeout, "DefaultResult": "ABANDON",
    });
    ("autoscaling.put_lifecycle_hook", hook)
}

/// `sundown enroll` of the group ends with this code, and prints all of these words.
async fn enroll(account: &Account, flags: &[&str], code: i32, words: &[&str]) {
    let output = account.tool(&[&["enroll", "--asg", "asg"][..], flags].concat()).await;
    assert!(
        output.code == Some(code) && words.iter().all(|word| output.out.contains(word)),
        "{flags:?}: {:?} {}{}",
        output.code,
        output.out,
        output.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn moto_keeps_the_launch_hook_that_enroll_makes_and_check_reads_it() {
    let Some(account) = Account::new().await else { return };
    let add = "add sundown-launch (launch, heartbeat 5m, then CONTINUE)";
    enroll(&account, &["--launch", "--check"], 3, &[add]).await;
    enroll(&account, &["--launch", "--yes"], 0, &[add, "2 hooks made"]).await;
    enroll(&account, &["--launch", "--check"], 0, &["sundown-launch is there", "nothing to do"])
        .await;
    let hooks = account.boto3(&["hooks"]).await;
    let hooks = hooks.as_array().unwrap();
    let launch = hooks.iter().find(|hook| hook["LifecycleHookName"] == "sundown-launch").unwrap();
    assert_eq!(
        (hooks.len(), &launch["LifecycleTransition"]),
        (2, &"autoscaling:EC2_INSTANCE_LAUNCHING".into())
    );
    assert_eq!(
        (&launch["HeartbeatTimeout"], &launch["DefaultResult"]),
        (&300.into(), &"CONTINUE".into())
    );

    let findings = account.findings(&[]).await;
    let both = |answer| {
        BTreeMap::from([("asg/sundown-launch", answer), ("asg/sundown-terminate", answer)])
    };
    assert_eq!(answers(&findings, "hook"), both("yes"), "{findings:#?}");
    for point in ["hook.heartbeat", "hook.completion"] {
        assert_eq!(answers(&findings, point), both("cannot-tell"), "moto has neither");
    }
    let is_reported =
        |text: &str| findings.iter().any(|f| f["message"].as_str().unwrap().contains(text));
    assert!(is_reported("launch hook, heartbeat 5m"), "{findings:#?}");

    // Another tool puts a hook of its own, and a person changes ours.
    account.calls(&[put_launch_hook("boot", 60), put_launch_hook("sundown-launch", 120)]).await;
    let findings = account.findings(&[]).await;
    for (point, about, answer) in [
        ("hook", "asg/sundown-terminate", "yes"),
        ("hook.timeout", "asg/sundown-launch", "no"),
        ("hook.default", "asg/sundown-launch", "no"),
        ("hook.others", "asg", "cannot-tell"),
    ] {
        let expected = BTreeMap::from([(about, answer)]);
        assert_eq!(answers(&findings, point), expected, "{point}: {findings:#?}");
    }
    // Every hook of moto's notifies a queue, and such a hook is not changed.
    let differences = "heartbeat 2m to 5m, default result ABANDON to CONTINUE";
    let left = "Sundown leaves the launch hook boot to whoever made it";
    let ours = "sundown-launch is left as it is: it notifies arn:aws:sqs:";
    enroll(&account, &["--launch", "--yes"], 0, &[ours, differences, left]).await;
    enroll(&account, &["--remove", "--yes"], 0, &["2 hooks removed"]).await;
    let hooks = account.boto3(&["hooks"]).await;
    let names: Vec<&Value> =
        hooks.as_array().unwrap().iter().map(|hook| &hook["LifecycleHookName"]).collect();
    assert_eq!(names, ["boot"], "the other tool keeps its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_a_group_at_moto_that_replaces_no_unhealthy_instance() {
    let Some(account) = Account::new().await else { return };
    let check = async || {
        account.findings(&["--on", "impaired=drain", "--then", "impaired=unhealthy"]).await
    };
    let findings = check().await;
    assert_eq!(answers(&findings, "impaired")["status checks"], "yes", "{findings:#?}");
    for point in ["group.replacement", "group.warm-pool"] {
        assert!(answers(&findings, point).is_empty(), "{findings:#?}");
    }

    let processes =
        |names: Value| json!({ "AutoScalingGroupName": "asg", "ScalingProcesses": names });
    account
        .calls(&[
            ("autoscaling.suspend_processes", processes(json!(["Launch", "ReplaceUnhealthy"]))),
            ("autoscaling.put_warm_pool", json!({ "AutoScalingGroupName": "asg", "MinSize": 1 })),
        ])
        .await;
    let findings = check().await;
    let finding = findings.iter().find(|finding| finding["point"] == "group.replacement").unwrap();
    assert_eq!((&finding["about"], &finding["answer"]), (&"asg".into(), &"no".into()));
    assert_eq!(
        finding["remedy"],
        "aws autoscaling resume-processes --auto-scaling-group-name asg --scaling-processes \
         ReplaceUnhealthy",
        "launches alone replace nothing"
    );
    assert_eq!(answers(&findings, "group.warm-pool"), BTreeMap::from([("asg", "yes")]));

    account
        .calls(&[("autoscaling.resume_processes", processes(json!(["ReplaceUnhealthy"])))])
        .await;
    let findings = check().await;
    assert!(answers(&findings, "group.replacement").is_empty(), "{findings:#?}");
}
