//! Steps 1 to 3 of an installation by hand, run with an `aws` that only records its calls.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use crate::{iam::policy_under, read};

const PAGE: &str = "docs/install.md";
const POLICIES: &str = "docs/iam.md";
const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop";
const RULE: &str = "arn:aws:events:eu-west-1:123456789012:rule/sundown-shop";

/// Each run has a folder of its own: tests run side by side.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Records its arguments, each ended by 0x1f and each call by 0x1e.
const AWS: &str = r#"#!/bin/sh
printf '%s\037' "$@" >> "$RECORDED"
printf '\036' >> "$RECORDED"
case "$1 $2" in "sts get-caller-identity") echo 123456789012 ;; esac
"#;

/// The steps as they were run: the calls of `aws`, and the folder with the files that they wrote.
struct Steps {
    calls: Vec<Vec<String>>,
    folder: PathBuf,
}

impl Drop for Steps {
    fn drop(&mut self) {
        // What is left behind is in the build directory.
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl Steps {
    /// Runs the commands of steps 1 to 3 with these changes to their text.
    fn run(changes: &[(&str, &str)]) -> Self {
        let page = read(PAGE);
        let steps = &page[page.find("\n## 1. ").unwrap()..page.find("\n## 4. ").unwrap()];
        let blocks = steps.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let mut script: String = blocks.collect();
        for (from, to) in changes {
            assert_eq!(script.matches(from).count(), 1, "the steps have `{from}` once");
            script = script.replace(from, to);
        }
        let policies = read(POLICIES);
        let name =
            format!("by-hand-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str| folder.join(name);
        fs::write(file("policy.json"), policy_under(&policies, "## The service")).unwrap();
        fs::write(file("check.json"), policy_under(&policies, "## The check")).unwrap();
        fs::write(file("aws"), AWS).unwrap();
        fs::set_permissions(file("aws"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-euc", &script]).current_dir(&folder);
        let output = shell.env("PATH", path).env("RECORDED", file("calls")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

        let recorded = fs::read_to_string(file("calls")).unwrap();
        let calls = recorded.split_terminator('\u{1e}');
        let words = |call: &str| call.split_terminator('\u{1f}').map(str::to_owned).collect();
        Self { calls: calls.map(words).collect(), folder }
    }

    /// The values of this option in all calls of `aws … ACTION`, in order.
    fn option(&self, action: &str, option: &str) -> Vec<&str> {
        let calls = self.calls.iter().filter(|call| call[1] == action);
        let value = |call: &Vec<String>| call.iter().position(|word| word == option).map(|n| n + 1);
        calls.map(|call| call[value(call).unwrap()].as_str()).collect()
    }

    /// The attributes with which a queue is made.
    fn attributes(&self, suffix: &str) -> Value {
        let text = fs::read_to_string(self.folder.join(format!("queue{suffix}.json"))).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    fn queue_policy(&self, suffix: &str) -> Value {
        serde_json::from_str(self.attributes(suffix)["Policy"].as_str().unwrap()).unwrap()
    }
}

/// A policy of the page, for the cluster of the steps.
fn of_the_page(heading: &str) -> Value {
    let text = policy_under(&read(POLICIES), heading);
    let text = [("REGION", "eu-west-1"), ("ACCOUNT", "123456789012"), ("CLUSTER", "shop")]
        .iter()
        .fold(text, |text, (word, value)| text.replace(word, value));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_queue_is_closed_to_all_but_the_rules() {
    let steps = Steps::run(&[]);
    assert_eq!(
        steps.option("create-queue", "--queue-name"),
        ["sundown-shop-dead", "sundown-shop", "sundown-shop-undelivered"],
        "the dead-letter queue is there before the queue that names it"
    );
    let rules: Vec<_> =
        ["terminate", "spot", "capacity", "state", "rebalance", "health", "warm-pool"]
            .map(|rule| format!("{RULE}-{rule}"))
            .into();
    for suffix in ["", "-dead", "-undelivered"] {
        let queue = format!("{QUEUE}{suffix}");
        let closed = json!({
            "Version": "2012-10-17",
            "Statement": [
                { "Sid": "Rules", "Effect": "Allow", "Principal": {
                    "Service": "events.amazonaws.com"
                },
                  "Action": "sqs:SendMessage", "Resource": queue,
                  "Condition": { "ArnEquals": { "aws:SourceArn": rules } } },
                { "Sid": "NobodyElse", "Effect": "Deny", "Principal": "*",
                  "Action": "sqs:SendMessage", "Resource": queue,
                  "Condition": { "BoolIfExists": { "aws:PrincipalIsAWSService": "false" } } },
                { "Sid": "EncryptedInTransit", "Effect": "Deny", "Principal": "*",
                  "Action": "sqs:*", "Resource": queue,
                  "Condition": { "Bool": { "aws:SecureTransport": "false" } } },
            ],
        });
        assert_eq!(steps.queue_policy(suffix), closed);
        if suffix.is_empty() {
            assert_eq!(closed, of_the_page("## The queues"));
        }
        assert!(
            steps
                .option("create-queue", "--attributes")
                .contains(&format!("file://queue{suffix}.json").as_str())
        );
    }
    let (queue, dead) = (steps.attributes(""), steps.attributes("-dead"));
    let redrive: Value = serde_json::from_str(queue["RedrivePolicy"].as_str().unwrap()).unwrap();
    assert_eq!(
        redrive,
        json!({ "deadLetterTargetArn": format!("{QUEUE}-dead"), "maxReceiveCount": "10" })
    );
    assert_eq!(
        (&queue["MessageRetentionPeriod"], &dead["MessageRetentionPeriod"]),
        (&json!("345600"), &json!("1209600"))
    );
    assert_eq!(dead.get("RedrivePolicy"), None);
}

/// `tests/terraform` renders the module's policies; this holds the text of both against each other.
#[test]
fn the_module_closes_its_queues_with_the_same_conditions() {
    let module = read("terraform/modules/policy/queue.tf");
    for condition in [
        r#"BoolIfExists = { "aws:PrincipalIsAWSService" = "false" }"#,
        "{ ArnNotEquals = senders }",
        r#"{ "aws:PrincipalArn" = arns }"#,
        r#"Bool = { "aws:SecureTransport" = "false" }"#,
    ] {
        assert!(module.contains(condition), "{condition}");
    }
}

#[test]
fn a_sender_that_is_named_is_left_out_of_the_deny() {
    let page = read(PAGE);
    let example = page
        .lines()
        .find_map(|line| line.strip_prefix("OTHERS=${OTHERS-}   # for more senders: "))
        .unwrap();
    let steps = Steps::run(&[("OTHERS=${OTHERS-}   # for more senders: ", "")]);
    assert!(example.starts_with("OTHERS="));
    let policy = steps.queue_policy("");
    assert_eq!(
        policy.pointer("/Statement/1/Condition").unwrap(),
        &json!({
            "BoolIfExists": { "aws:PrincipalIsAWSService": "false" },
            "ArnNotEquals": { "aws:PrincipalArn": ["arn:aws:iam::123456789012:role/ROLE"] },
        })
    );
}

/// `sundown check` looks up the rules that the queue's policy names.
#[test]
fn the_policy_names_each_rule_and_each_rule_sends_to_the_queue() {
    let steps = Steps::run(&[]);
    let policy = steps.queue_policy("");
    let named = policy
        .pointer("/Statement/0/Condition/ArnEquals/aws:SourceArn")
        .unwrap()
        .as_array()
        .unwrap();
    let named: BTreeSet<_> =
        named.iter().map(|arn| arn.as_str().unwrap().split_once(":rule/").unwrap().1).collect();
    let made = steps.option("put-rule", "--name");
    assert_eq!(made.iter().copied().collect::<BTreeSet<_>>(), named);
    assert_eq!(made.len(), named.len(), "each rule once");
    assert_eq!(steps.option("put-targets", "--rule"), made);
    for target in steps.option("put-targets", "--targets") {
        let retried = "RetryPolicy={MaximumRetryAttempts=185,MaximumEventAgeInSeconds=3600}";
        assert_eq!(
            target,
            format!("Id=queue,Arn={QUEUE},{retried},DeadLetterConfig={{Arn={QUEUE}-undelivered}}")
        );
    }
}

#[test]
fn the_rules_bring_test_events_only_where_that_is_asked_for() {
    let sources = |steps: &Steps| -> Vec<Vec<String>> {
        let patterns = steps.option("put-rule", "--event-pattern");
        let source =
            |pattern: &str| serde_json::from_str::<Value>(pattern).unwrap()["source"].take();
        patterns
            .into_iter()
            .map(|pattern| serde_json::from_value(source(pattern)).unwrap())
            .collect()
    };
    let off = sources(&Steps::run(&[]));
    assert!(
        !off.is_empty()
            && off.iter().all(|source| source.len() == 1 && source[0].starts_with("aws.")),
        "{off:?}"
    );
    let on = sources(&Steps::run(&[(
        "TESTS=${TESTS-}   # to match test events too, set this before the step: ",
        "",
    )]));
    assert_eq!(on.len(), off.len());
    for (off, on) in off.iter().zip(&on) {
        assert_eq!(on, &[off[0].clone(), sundown::interruption::TEST_SOURCE.to_owned()]);
    }
}

#[test]
fn the_role_is_for_the_pods_and_its_policies_name_the_queue_of_the_cluster() {
    let steps = Steps::run(&[]);
    assert_eq!(steps.option("put-role-policy", "--policy-name"), ["policy", "check"]);
    for text in steps.option("put-role-policy", "--policy-document") {
        let policy: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert!(!["REGION", "ACCOUNT", "CLUSTER"].iter().any(|word| text.contains(word)), "{text}");
        assert!(text.contains(QUEUE), "{policy}");
    }
    let trust = fs::read_to_string(steps.folder.join("trust.json")).unwrap();
    let trust: Value = serde_json::from_str(&trust).unwrap();
    assert_eq!(trust, of_the_page("## Who may take the role"));
    assert_eq!(steps.option("create-pod-identity-association", "--cluster-name"), ["shop"]);
}
