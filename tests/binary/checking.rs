//! `sundown check`: what it asks, what it makes of the answers, and that it changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sundown::sim::{
    aws::{EventKind, Fault, FaultRule, GroupSpec, HookSpec, How, QueueSettings, Redrive, Rule},
    http::loopback,
    kube::Away,
};

use crate::stage::Stage;

/// A rule for all that Sundown acts on.
fn rule(stage: &Stage) -> Rule {
    let mut rule = Rule::usual(stage.world.queue());
    rule.kinds.insert(EventKind::LaunchSuccessful);
    rule
}

/// A world as the Terraform module makes it: a queue with all that belongs to it, its rule, a group
/// with its hook.
async fn sound(seed: u64) -> Stage {
    let stage = Stage::new(seed).await;
    stage.group(2);
    let retention = std::time::Duration::from_hours(14 * 24);
    stage.world.aws.create_queue("dead", QueueSettings { retention, ..QueueSettings::default() });
    let redrive = Some(Redrive { queue: "dead".to_owned(), max_receives: 10 });
    let settings = stage.world.aws.queue_settings(stage.world.queue()).unwrap();
    stage.world.aws.create_queue(stage.world.queue(), QueueSettings { redrive, ..settings });
    stage.world.aws.reroute(rule(&stage));
    stage
}

/// Answers by their points: of several of one point the worst.
struct Report {
    code: Option<i32>,
    findings: Vec<Value>,
}

impl Report {
    fn answers(&self) -> BTreeMap<&str, &str> {
        let mut all = BTreeMap::new();
        for finding in &self.findings {
            let (point, answer) =
                (finding["point"].as_str().unwrap(), finding["answer"].as_str().unwrap());
            let worst = all.entry(point).or_insert(answer);
            if *worst == "yes" {
                *worst = answer;
            }
        }
        all
    }

    /// Points whose answer is not yes.
    fn wrong(&self) -> BTreeSet<(&str, &str)> {
        self.answers().into_iter().filter(|(_, answer)| *answer != "yes").collect()
    }

    fn at(&self, point: &str) -> &Value {
        let at = |answer: &str| {
            self.findings.iter().find(move |f| f["point"] == point && f["answer"] == answer)
        };
        at("no")
            .or_else(|| at("cannot-tell"))
            .or_else(|| at("yes"))
            .unwrap_or_else(|| panic!("nothing of {point}"))
    }
}

impl Stage {
    async fn check(&self, flags: &[&str]) -> Report {
        self.check_with(flags, &[]).await
    }

    async fn check_with(&self, flags: &[&str], variables: &[(&str, &str)]) -> Report {
        let words: Vec<_> =
            ["check", "-o", "json"].into_iter().chain(flags.iter().copied()).collect();
        let output = self.tool_with(&words, variables).await;
        let report: Value = serde_json::from_str(&output.out)
            .unwrap_or_else(|e| panic!("{e}: «{}» «{}»", output.out, output.err));
        Report { code: output.code, findings: report["findings"].as_array().unwrap().clone() }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_is_well_every_point_answers_yes_and_nothing_is_changed() {
    let stage = sound(60).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    let readyz = format!("http://{}/readyz", sundown.address_of("/readyz").await);
    stage.world.aws.clear_journal();
    let report = stage.check(&["--readyz", &readyz]).await;
    assert_eq!((report.wrong(), report.code), (BTreeSet::new(), Some(0)), "{:#?}", report.findings);
    let points: Vec<_> = report.answers().into_keys().collect();
    let all = [
        "clock",
        "credentials",
        "credentials.direct",
        "group.scaling",
        "groups",
        "hook",
        "hook.completion",
        "hook.heartbeat",
        "host",
        "instances",
        "instances.events",
        "kubernetes",
        "lease",
        "no-other-handler",
        "not-paused",
        "queue",
        "queue.delete",
        "queue.encryption",
        "queue.policy",
        "queue.receive",
        "queue.redrive",
        "queue.retention",
        "queue.senders",
        "queue.visibility",
        "rights",
        "rule",
        "rules",
    ];
    assert_eq!(points, all);
    let changing = ["SendMessage", "PutLifecycleHook", "DeleteLifecycleHook", "PutEvents"];
    for call in stage.world.aws.calls() {
        assert!(!changing.iter().any(|c| call.api.ends_with(c)), "{}", call.api);
    }
    assert!(stage.world.aws.actions().is_empty() && stage.world.aws.deletions().is_empty());
    // The same for people.
    let output = stage.tool(&["check", "--readyz", &readyz]).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    assert!(
        output.out.contains("yes  queue.delete")
            && output
                .out
                .trim_end()
                .ends_with("0 NO, 0 no (advice: it works without), 0 ? (cannot tell)"),
        "{}",
        output.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_permission_that_is_missing_is_named_with_its_remedy_and_the_other_points_are_asked() {
    let stage = sound(61).await;
    let points = stage.check(&["--receive"]).await.answers().len();
    // What is denied; the point that reports it, its answer, what its remedy names; points that
    // then cannot be asked.
    for (api, point, answer, named, without) in [
        ("sqs:DeleteMessageBatch", "queue.delete", "no", "sqs:DeleteMessage ", 0),
        (
            "sqs:ChangeMessageVisibilityBatch",
            "queue.visibility",
            "no",
            "sqs:ChangeMessageVisibility ",
            0,
        ),
        ("sqs:ReceiveMessage", "queue.receive", "no", "sqs:ReceiveMessage", 0),
        ("sqs:GetQueueAttributes", "queue", "no", "sqs:GetQueueAttributes", 7),
        (
            "autoscaling:RecordLifecycleActionHeartbeat",
            "hook.heartbeat",
            "no",
            "autoscaling:RecordLifecycleActionHeartbeat",
            0,
        ),
        (
            "autoscaling:CompleteLifecycleAction",
            "hook.completion",
            "no",
            "autoscaling:CompleteLifecycleAction",
            0,
        ),
        (
            "autoscaling:DescribeLifecycleHooks",
            "hook",
            "no",
            "autoscaling:DescribeLifecycleHooks",
            3,
        ),
        (
            "autoscaling:DescribeAutoScalingGroups",
            "groups",
            "no",
            "autoscaling:DescribeAutoScalingGroups",
            4,
        ),
        ("ec2:DescribeInstances", "instances", "no", "ec2:DescribeInstances", 0),
        ("ec2:DescribeInstanceStatus", "instances.events", "no", "ec2:DescribeInstanceStatus", 0),
        // The service does without these.
        (
            "autoscaling:DescribePolicies",
            "group.scaling",
            "cannot-tell",
            "autoscaling:DescribePolicies",
            0,
        ),
        ("events:DescribeRule", "rule", "cannot-tell", "events:DescribeRule", 1),
    ] {
        let fault = stage.world.aws.fault(FaultRule::new(api, Fault::AccessDenied, How::Always));
        let report = stage.check(&["--receive"]).await;
        stage.world.aws.end_fault(fault);
        assert_eq!(
            report.wrong(),
            BTreeSet::from([(point, answer)]),
            "{api}: {:#?}",
            report.findings
        );
        // Without scheduled events it works, too.
        let is_missing = answer == "no" && point != "instances.events";
        assert_eq!(report.code, Some(i32::from(is_missing)), "{api}");
        let remedy = report.at(point)["remedy"].as_str().unwrap();
        assert!(remedy.contains(named), "{api}: {remedy}");
        assert_eq!(report.answers().len(), points - without, "{api}: {:?}", report.answers());
    }
    let forbidden = stage.world.kube.deny("delete", "pods");
    let report = stage.check(&["--receive"]).await;
    stage.world.kube.lift(forbidden);
    assert_eq!((report.wrong(), report.code), (BTreeSet::from([("rights", "no")]), Some(1)));
    assert_eq!(report.at("rights")["about"], "delete pods");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_to_ask_for_warm_pools_is_checked_if_a_group_has_one() {
    let stage = sound(68).await;
    assert!(!stage.check(&[]).await.answers().contains_key("group.warm-pool"));
    stage.world.aws.put_warm_pool("asg");
    let report = stage.check(&[]).await;
    assert_eq!(report.at("group.warm-pool")["answer"], "yes");
    let api = "autoscaling:DescribeWarmPool";
    stage.world.aws.fault(FaultRule::new(api, Fault::AccessDenied, How::Always));
    let report = stage.check(&["--receive"]).await;
    assert_eq!(
        (report.wrong(), report.code),
        (BTreeSet::from([("group.warm-pool", "no")]), Some(0))
    );
    assert!(report.at("group.warm-pool")["remedy"].as_str().unwrap().contains(api));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_hook_of_ours_needs_its_rule_unless_it_is_ignored() {
    let stage = sound(69).await;
    let mut without = rule(&stage);
    without.kinds.remove(&EventKind::LaunchAction);
    stage.world.aws.reroute(without);
    let rules = async |flags: &[&str]| stage.check(flags).await.at("rules").clone();
    assert_eq!(rules(&[]).await["answer"], "yes", "no group has a launch hook");
    stage.world.aws.put_hook("asg", HookSpec::launching("sundown-launch"));
    let found = rules(&[]).await;
    assert_eq!((&found["answer"], &found["needed"]), (&json!("no"), &json!(false)), "{found}");
    assert!(found["message"].as_str().unwrap().ends_with("asg/sundown-launch needs"), "{found}");
    assert_eq!(rules(&["--on", "launch-hook=ignore"]).await["answer"], "yes");
    stage.world.aws.reroute(rule(&stage));
    assert_eq!(rules(&[]).await["answer"], "yes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_away_keeps_no_other_point_from_being_asked() {
    let stage = sound(62).await;
    stage.world.aws.delete_queue(stage.world.queue());
    let report = stage.check(&[]).await;
    assert_eq!((report.at("queue")["answer"].as_str(), report.code), (Some("no"), Some(1)));
    assert!(
        report.at("queue")["message"].as_str().unwrap().contains(stage.world.queue()),
        "{}",
        report.at("queue")
    );
    assert_eq!(
        (report.at("hook.heartbeat")["answer"].as_str(), report.at("rights")["answer"].as_str()),
        (Some("yes"), Some("yes"))
    );

    stage.world.kube.go_away(Away::Refusing);
    let report = stage.check(&[]).await;
    stage.world.kube.come_back();
    assert_eq!(report.at("kubernetes")["answer"], "no");
    assert_eq!(report.at("hook.heartbeat")["answer"], "yes");

    let nowhere = format!("http://{}", loopback().await.unwrap().local_addr().unwrap());
    let report = stage.check(&["--aws-endpoint-url", &nowhere]).await;
    for point in ["credentials", "queue", "instances", "groups"] {
        assert_eq!(
            (&report.at(point)["answer"], &report.at(point)["needed"]),
            (&json!("no"), &json!(true)),
            "{:#?}",
            report.findings
        );
    }
    // A closed network must not look like one that could not be checked.
    assert_eq!(
        (report.at("clock")["answer"].as_str(), report.code),
        (Some("cannot-tell"), Some(1))
    );
    assert_eq!(report.at("rights")["answer"], "yes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_hook_a_short_one_and_another_reader_are_reported() {
    let stage = sound(63).await;
    stage.spot_group(1);
    let short = HookSpec::launching("short").heartbeat_timeout(std::time::Duration::from_secs(30));
    stage.world.add_group(
        GroupSpec { simple_policies: vec!["cpu".to_owned()], ..GroupSpec::new("old", 1) },
        &[short],
    );
    stage.world.aws.reroute(Rule { enabled: false, ..Rule::usual(stage.world.queue()) });
    let reader = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": "reader", "namespace": "ops"
    },
        "spec": {
            "containers": [{
                "name": "reader", "image": "reader",
                "args": [format!("--queue={}", stage.world.queue_url())]
            }]
        } });
    stage.world.kube.put(reader);
    let report = stage.check(&["--receive", "--drain-timeout", "48h"]).await;
    let no = |point: &str| {
        report
            .findings
            .iter()
            .filter(|f| f["point"] == point && f["answer"] == "no")
            .map(|f| f["about"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(no("hook"), ["old", "spot"]);
    assert_eq!(no("hook.timeout"), ["asg/drain", "old/short"]);
    assert_eq!(no("hook.default"), ["old/short"]);
    assert_eq!(no("group.scaling"), ["old"]);
    assert_eq!(no("no-other-handler"), ["ops/reader"]);
    assert_eq!(no("rule"), [format!("{}-events", stage.world.queue())]);
    assert_eq!(report.code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_through_the_proxy_and_no_proxy_is_kept_to() {
    let stage = sound(64).await;
    let (proxy, elsewhere) = (stage.aws_url(), "http://aws.example.test");
    stage.world.aws.clear_journal();
    // The embedded AWS answers as a proxy would: nobody else knows the host.
    let through = [("HTTP_PROXY", proxy.as_str()), ("NO_PROXY", "127.0.0.1")];
    let report = stage.check_with(&["--aws-endpoint-url", elsewhere, "--receive"], &through).await;
    assert_eq!(report.at("queue")["answer"], "yes", "{:#?}", report.findings);
    assert!(stage.world.aws.count("sqs:GetQueueAttributes") > 0);
    assert_eq!(
        (
            report.at("credentials.direct")["answer"].as_str(),
            report.at("credentials.direct")["needed"].as_bool()
        ),
        (Some("no"), Some(false))
    );
    assert!(
        report.at("host")["message"].as_str().unwrap().contains(&format!("through {proxy}")),
        "{}",
        report.at("host")
    );
    let named = [
        ("HTTP_PROXY", proxy.as_str()),
        ("NO_PROXY", "127.0.0.1,.example.test,169.254.170.23,fd00:ec2::23,169.254.169.254"),
    ];
    let report = stage.check_with(&["--aws-endpoint-url", elsewhere], &named).await;
    assert_eq!(
        (report.at("credentials.direct")["answer"].as_str(), report.at("queue")["answer"].as_str()),
        (Some("yes"), Some("no"))
    );
    assert_eq!(
        (report.at("host")["answer"].as_str(), report.at("host")["about"].as_str()),
        (Some("no"), Some("aws.example.test"))
    );
    let pod_identity = [
        through[0],
        through[1],
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials"),
    ];
    let report = stage.check_with(&["--receive"], &pod_identity).await;
    assert_eq!(
        (
            report.at("credentials.direct")["answer"].as_str(),
            report.at("credentials.direct")["needed"].as_bool(),
            report.code
        ),
        (Some("no"), Some(true), Some(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn receiving_costs_a_message_one_receive_and_is_asked_for_by_name() {
    let stage = sound(65).await;
    stage.world.aws.send_event(stage.world.queue(), "a message");
    let count = || stage.world.aws.queue(stage.world.queue()).unwrap().messages[0].receive_count;
    assert_eq!(stage.check(&[]).await.at("queue.receive")["answer"], "cannot-tell");
    assert_eq!(count(), 0);
    assert_eq!(stage.check(&["--receive"]).await.at("queue.receive")["answer"], "yes");
    assert_eq!((count(), stage.in_queue()), (1, 1));
    let wrong = stage.tool(&["check", "--max-pollers", "17"]).await;
    assert_eq!(wrong.code, Some(2), "a wrong setting is reported as by run: {}", wrong.err);
    let help = stage.tool(&["check", "--help"]).await;
    assert!(help.out.contains("counts one receive more"), "{}", help.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_configured_and_asked_by_nobody_else_is_looked_at_and_needed_by_no_drain() {
    let stage = sound(66).await;
    let dead = stage.world.aws.queue_url("dead");
    let flags = ["--receive", "--dlq-url", &dead, "--webhook-url", "http://127.0.0.1:9/T0K3N"];
    let report = stage.check(&flags).await;
    assert_eq!((report.wrong(), report.code), (BTreeSet::new(), Some(0)), "{:#?}", report.findings);
    assert_eq!(
        (report.at("dlq")["about"].as_str(), report.at("dlq")["message"].as_str()),
        (Some("dead"), Some("0 messages"))
    );
    let webhook = |report: &Report| {
        let of_webhook = |f: &&Value| {
            f["point"] == "host" && f["message"].as_str().unwrap().starts_with("the webhook: ")
        };
        report.findings.iter().find(of_webhook).unwrap().clone()
    };
    assert_eq!(webhook(&report)["about"], "127.0.0.1");

    let fault = stage.world.aws.fault(
        FaultRule::new("sqs:GetQueueAttributes", Fault::AccessDenied, How::Always).about("dead"),
    );
    let report = stage
        .check(&[
            "--receive",
            "--dlq-url",
            &dead,
            "--webhook-url",
            "https://chat.example.invalid/T0K3N",
        ])
        .await;
    stage.world.aws.end_fault(fault);
    // The look-up of the redrive policy's queue is the same call.
    assert_eq!(
        report.wrong(),
        BTreeSet::from([("dlq", "no"), ("host", "no"), ("queue.redrive", "cannot-tell")]),
        "{:#?}",
        report.findings
    );
    assert_eq!((report.code, report.at("dlq")["needed"].as_bool()), (Some(0), Some(false)));
    let webhook = webhook(&report);
    assert_eq!(
        (webhook["about"].as_str(), webhook["needed"].as_bool()),
        (Some("chat.example.invalid"), Some(false))
    );
    assert!(webhook["remedy"].as_str().unwrap().contains("Drains go on without it"), "{webhook}");
    assert!(!format!("{:?}", report.findings).contains("T0K3N"));
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_drains_are_reported_with_the_command_that_resumes_them() {
    let stage = sound(67).await;
    let _sundown = stage.leader("sundown", &[]).await;
    assert_eq!(stage.check(&["--receive"]).await.at("not-paused")["answer"], "yes");
    assert_eq!(stage.tool(&["pause"]).await.code, Some(0));
    let report = stage.check(&["--receive"]).await;
    let paused = report.at("not-paused");
    assert_eq!(
        (paused["answer"].as_str(), paused["needed"].as_bool(), report.code),
        (Some("no"), Some(false), Some(0)),
        "{paused}"
    );
    assert!(paused["remedy"].as_str().unwrap().contains("sundown.dev/pause-"), "{paused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_cannot_be_had_is_reported_before_anybody_waits_for_a_leader() {
    let stage = sound(68).await;
    let report = stage.check(&["--receive"]).await;
    let lease = report.at("lease");
    assert_eq!((lease["answer"].as_str(), report.code), (Some("yes"), Some(0)), "{lease}");
    assert!(lease["message"].as_str().unwrap().contains("does not exist yet"), "{lease}");
    let name = lease["about"].as_str().unwrap().split_once('/').unwrap();
    assert!(stage.world.kube.object("leases", name.0, name.1).is_none(), "nothing is changed");
    let report = stage.check(&["--receive", "--lease-namespace", "nowhere"]).await;
    assert_eq!(
        (report.wrong(), report.code),
        (BTreeSet::from([("lease", "no")]), Some(1)),
        "{:#?}",
        report.findings
    );
    let lease = report.at("lease");
    assert!(
        lease["message"].as_str().unwrap().contains("namespace nowhere does not exist"),
        "{lease}"
    );
    assert!(lease["remedy"].as_str().unwrap().contains("--lease-namespace"), "{lease}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_has_nodes_here_and_no_tag_of_the_cluster_is_named_and_its_hooks_are_looked_at()
 {
    let stage = sound(67).await;
    // A group that a person made by hand: its instances joined, and nothing is tagged.
    let instances = stage
        .world
        .aws
        .create_group(GroupSpec { replace_after: None, ..GroupSpec::new("by-hand", 2) });
    stage.world.aws.put_hook(
        "by-hand",
        HookSpec::terminating("sundown").heartbeat_timeout(std::time::Duration::from_secs(30)),
    );
    for instance in &instances {
        stage.world.join(instance);
    }
    // Its nodes are not ours to drain, so the check ignores their group.
    let karpenter = stage
        .world
        .aws
        .create_group(GroupSpec { replace_after: None, ..GroupSpec::new("other", 1) });
    stage.world.join(&karpenter[0]);
    let node = stage.node_of(&karpenter[0]);
    stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["labels"]["karpenter.sh/nodepool"] = "default".into();
    });

    let report = stage.check(&["--receive"]).await;
    let unready: Vec<_> =
        report.findings.iter().filter(|f| f["point"] == "groups" && f["answer"] == "no").collect();
    assert_eq!(unready.len(), 1, "{:#?}", report.findings);
    assert_eq!((&unready[0]["about"], &unready[0]["needed"]), (&json!("by-hand"), &json!(false)));
    assert!(
        unready[0]["message"].as_str().unwrap().starts_with("it has 2 nodes of this cluster"),
        "{}",
        unready[0]
    );
    let short = report
        .findings
        .iter()
        .find(|f| f["point"] == "hook.timeout")
        .expect("its hook is looked at");
    assert_eq!(short["about"], "by-hand/sundown");
    assert!(
        report
            .findings
            .iter()
            .any(|f| f["point"] == "hook.heartbeat" && f["about"] == "by-hand/sundown"),
        "{:#?}",
        report.findings
    );
    assert!(
        !report.findings.iter().any(|f| f["about"].as_str().unwrap().starts_with("other")),
        "{:#?}",
        report.findings
    );
    // Without a name of the cluster the groups of its nodes are known all the same.
    let nameless = stage.check_with(&["--receive"], &[("SUNDOWN_CLUSTER_NAME", "")]).await;
    assert_eq!(nameless.at("groups")["answer"], "cannot-tell");
    assert!(
        nameless.findings.iter().any(|f| f["about"] == "asg/drain"),
        "{:#?}",
        nameless.findings
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_are_reported_once() {
    let stage = sound(68).await;
    let none = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
    let report = stage.check_with(&["--receive"], &none).await;
    let missing: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f["answer"] == "no")
        .map(|f| f["point"].as_str().unwrap())
        .collect();
    assert_eq!((missing, report.code), (vec!["credentials"], Some(1)), "{:#?}", report.findings);
    assert!(
        report.at("credentials")["message"].as_str().unwrap().contains("were not asked about"),
        "{}",
        report.at("credentials")
    );
    assert_eq!(
        (&report.at("rights")["answer"], &report.at("clock")["answer"]),
        (&json!("yes"), &json!("cannot-tell"))
    );
    // For people it is the last line before the sum.
    let output = stage.tool_with(&["check", "--receive"], &none).await;
    let lines: Vec<_> =
        output.out.lines().filter(|line| !line.is_empty() && !line.contains("->")).collect();
    assert!(lines[lines.len() - 2].starts_with("NO   credentials"), "{}", output.out);
}
