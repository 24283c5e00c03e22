//! The IAM policies that the page `docs/iam.md` and the Terraform module give, and the names by
//! which both give them to the pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sundown::aws::Api;

use crate::{files, first_column, read};

const PAGE: &str = "docs/iam.md";

/// The action that allows a call: batches have none of their own.
fn action(api: Api) -> &'static str {
    match api {
        Api::ReceiveMessage => "sqs:ReceiveMessage",
        Api::DeleteMessageBatch => "sqs:DeleteMessage",
        Api::ChangeMessageVisibilityBatch => "sqs:ChangeMessageVisibility",
        Api::GetQueueAttributes => "sqs:GetQueueAttributes",
        Api::RecordLifecycleActionHeartbeat => "autoscaling:RecordLifecycleActionHeartbeat",
        Api::CompleteLifecycleAction => "autoscaling:CompleteLifecycleAction",
        Api::DescribeLifecycleHooks => "autoscaling:DescribeLifecycleHooks",
        Api::DescribeAutoScalingGroups => "autoscaling:DescribeAutoScalingGroups",
        Api::DescribeWarmPool => "autoscaling:DescribeWarmPool",
        Api::DescribeInstances => "ec2:DescribeInstances",
        Api::GetCallerIdentity => "sts:GetCallerIdentity",
        Api::DescribePolicies => "autoscaling:DescribePolicies",
        Api::DescribeRule => "events:DescribeRule",
        Api::ListTargetsByRule => "events:ListTargetsByRule",
        Api::SendMessage => "sqs:SendMessage",
        Api::PutEvents => "events:PutEvents",
        Api::PutLifecycleHook => "autoscaling:PutLifecycleHook",
        Api::DeleteLifecycleHook => "autoscaling:DeleteLifecycleHook",
        Api::DescribeInstanceStatus => "ec2:DescribeInstanceStatus",
        Api::SetInstanceHealth => "autoscaling:SetInstanceHealth",
    }
}

/// What a call is on, as the table names places.
fn place(api: Api) -> Value {
    match api {
        Api::ReceiveMessage | Api::DeleteMessageBatch | Api::ChangeMessageVisibilityBatch => {
            "queue".into()
        }
        // The second for `--dlq-url`.
        Api::GetQueueAttributes => serde_json::json!(["queue", "dead_queue"]),
        Api::RecordLifecycleActionHeartbeat | Api::CompleteLifecycleAction => "groups".into(),
        Api::DescribeLifecycleHooks
        | Api::DescribeAutoScalingGroups
        | Api::DescribeWarmPool
        | Api::DescribeInstances
        | Api::DescribeInstanceStatus => "region".into(),
        other => panic!("{other:?} is no call of the service"),
    }
}

/// Every policy of the module comes out of this table; `tests/terraform/permissions.py` holds them
/// against it.
#[test]
fn the_table_of_the_module_has_every_call_of_the_service_and_no_other() {
    let table: Value = serde_json::from_str(&read("terraform/modules/policy/calls.json")).unwrap();
    let row = |api: Api| {
        (api.as_str().to_owned(), serde_json::json!({ "actions": [action(api)], "on": place(api) }))
    };
    let needed: BTreeMap<String, Value> = Api::ALL.map(row).into();
    let said: BTreeMap<String, Value> = serde_json::from_value(table["service"].clone()).unwrap();
    assert_eq!(said, needed);
}

/// A trial answers no hook, does not sweep, and does not look for scheduled events.
fn is_of_trial(api: Api) -> bool {
    let is_of_service = matches!(api, Api::DescribeWarmPool | Api::DescribeInstanceStatus);
    place(api) != "groups" && !is_of_service
}

/// A trial reads and empties a queue of its own and looks up what the service looks up; it answers
/// no hook.
#[test]
fn the_table_of_the_module_lets_a_trial_do_what_the_service_does_but_for_the_groups() {
    let table: Value = serde_json::from_str(&read("terraform/modules/policy/calls.json")).unwrap();
    let row = |api: &Api| {
        // A trial's queue has no dead-letter queue.
        let is_on_queue = place(*api) == "queue" || place(*api)[0] == "queue";
        let on = if is_on_queue { "trial_queue".into() } else { place(*api) };
        (api.as_str().to_owned(), serde_json::json!({ "actions": [action(*api)], "on": on }))
    };
    let needed: BTreeMap<String, Value> =
        Api::ALL.iter().filter(|api| is_of_trial(**api)).map(row).collect();
    let said: BTreeMap<String, Value> = serde_json::from_value(table["trial"].clone()).unwrap();
    assert_eq!(said, needed);
    // The place is the trial's queue and no other, and the policy is of the trial's role alone.
    let service = read("terraform/modules/policy/service.tf");
    let line = service.lines().find(|l| l.trim_start().starts_with("trial_queue  =")).unwrap();
    assert!(
        line.contains("lookup(var.queue_arns, \"trial\", null)")
            && line.contains("resources = [arn], condition = {}"),
        "{line}"
    );
    let trial = read("terraform/trial.tf");
    assert!(
        trial.contains("policy      = module.policy.permission_policies[\"trial\"]"),
        "the trial's role has another policy"
    );
}

fn actions(policy: &Value) -> BTreeSet<&str> {
    let statements = policy["Statement"].as_array().unwrap();
    statements
        .iter()
        .flat_map(|s| s["Action"].as_array().unwrap())
        .map(|a| a.as_str().unwrap())
        .collect()
}

/// The tags by which the module knows a group, each in a statement of its own: two in one condition
/// are both asked for.
fn by_tag() -> [Value; 2] {
    [
        serde_json::json!({ "Null": { "aws:ResourceTag/kubernetes.io/cluster/CLUSTER": "false" } }),
        serde_json::json!({ "StringEquals": { "aws:ResourceTag/eks:cluster-name": "CLUSTER" } }),
    ]
}

/// A hook on a group whose hooks the service may not answer holds up its instances.
#[test]
fn who_enrolls_may_change_hooks_of_the_groups_that_the_service_may_answer() {
    let policy: Value =
        serde_json::from_str(&policy_under(&read(PAGE), "## Enrolling groups")).unwrap();
    let statements = policy["Statement"].as_array().unwrap();
    let changes = statements.iter().filter(|s| {
        s["Action"].as_array().unwrap().iter().any(|a| a == "autoscaling:PutLifecycleHook")
    });
    let conditions: Vec<_> = changes.map(|s| s["Condition"].clone()).collect();
    assert_eq!(conditions, by_tag());
}

#[test]
fn the_policy_of_the_service_allows_what_is_called_and_nothing_else() {
    let policy: Value = serde_json::from_str(&policy_under(&read(PAGE), "## The service")).unwrap();
    assert_eq!(actions(&policy), BTreeSet::from(Api::ALL.map(action)));
    assert_eq!(policy["Version"], "2012-10-17");
    // On everything only what changes nothing; hooks of tagged groups alone.
    let mut conditions = Vec::new();
    for statement in policy["Statement"].as_array().unwrap() {
        let may: Vec<_> = statement["Action"]
            .as_array()
            .unwrap()
            .iter()
            .map(|action| action.as_str().unwrap())
            .collect();
        let describes = may.iter().all(|action| action.contains(":Describe"));
        assert_eq!(statement["Resource"] == "*", describes, "{statement}");
        if may.contains(&"autoscaling:CompleteLifecycleAction") {
            assert_eq!(may.len(), 2, "{statement}");
            conditions.push(statement["Condition"].clone());
        }
    }
    assert_eq!(conditions, by_tag());
    let module = read("terraform/modules/policy/service.tf");
    assert!(module.contains(r#"{ key = "eks:cluster-name", value = var.cluster_name }"#));
    assert!(
        module.contains(r#"{ key = "kubernetes.io/cluster/${var.cluster_name}", value = null }"#)
    );
    // Each action is explained.
    let explained: BTreeSet<_> = first_column(&read(PAGE), "## The service");
    assert_eq!(explained, actions(&policy).into_iter().map(str::to_owned).collect());
}

#[test]
fn the_policy_of_a_trial_is_the_services_but_for_the_groups() {
    let policy: Value = serde_json::from_str(&policy_under(&read(PAGE), "## A trial")).unwrap();
    let needed: BTreeSet<_> =
        Api::ALL.iter().filter(|api| is_of_trial(**api)).map(|api| action(*api)).collect();
    assert_eq!(actions(&policy), needed);
    assert!(policy["Statement"][0]["Resource"].as_str().unwrap().ends_with("-trial"));
}

/// What `--on impaired` calls is allowed apart from the rest: on the page and by the module.
#[test]
fn the_policy_for_sick_instances_allows_what_only_that_flag_calls() {
    let policy: Value =
        serde_json::from_str(&policy_under(&read(PAGE), "## Sick instances")).unwrap();
    let needed = [Api::DescribeInstanceStatus, Api::SetInstanceHealth];
    assert_eq!(actions(&policy), BTreeSet::from(needed.map(action)));
    let statements = policy["Statement"].as_array().unwrap();
    let changes = statements.iter().filter(|s| s["Resource"] != "*");
    let conditions: Vec<_> = changes.map(|s| s["Condition"].clone()).collect();
    assert_eq!(conditions, by_tag());
    let table: Value = serde_json::from_str(&read("terraform/modules/policy/calls.json")).unwrap();
    let row = |api: Api, on: &str| {
        (api.as_str().to_owned(), serde_json::json!({ "actions": [action(api)], "on": on }))
    };
    let [describe, set] = needed;
    let rows = BTreeMap::from([row(describe, "region"), row(set, "groups")]);
    let said: BTreeMap<String, Value> = serde_json::from_value(table["impaired"].clone()).unwrap();
    assert_eq!(said, rows);
    let explained = first_column(&read(PAGE), "## Sick instances");
    assert_eq!(explained, actions(&policy).into_iter().map(str::to_owned).collect());
}

/// The default of a variable of the module.
fn default(variable: &str) -> String {
    let text = read("terraform/variables.iam.tf");
    let block = text
        .split(&format!("variable \"{variable}\" {{"))
        .nth(1)
        .unwrap()
        .split("\n}")
        .next()
        .unwrap()
        .to_owned();
    block.split("default").nth(1).unwrap().split('"').nth(1).unwrap().to_owned()
}

/// The names of the objects of this kind in the manifests.
fn named(kind: &str) -> BTreeSet<String> {
    let manifests = files("deploy", ".yaml").into_iter().filter(|f| !f.contains("/templates/"));
    let texts: Vec<String> = manifests.map(|f| read(&f)).collect();
    let documents = texts
        .iter()
        .flat_map(|t| t.split("\n---\n"))
        .filter(|d| d.lines().any(|l| l == format!("kind: {kind}")));
    let name = |d: &str| {
        d.split("\nmetadata:\n")
            .nth(1)
            .unwrap()
            .split("  name: ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .trim_matches('"')
            .to_owned()
    };
    documents.map(name).collect()
}

/// A role that trusts another service account gives the pods nothing.
#[test]
fn the_role_trusts_the_service_account_that_the_manifests_make() {
    assert_eq!(named("Namespace"), BTreeSet::from([default("namespace")]));
    assert_eq!(named("ServiceAccount"), BTreeSet::from([default("service_account")]));
}

/// The rules that the module makes by default are those whose events are acted on. The rule of
/// launch hooks depends on the hooks.
#[test]
fn every_event_that_is_acted_on_has_a_rule_by_default() {
    let text = read("terraform/variables.rules.tf");
    for event in ["terminate", "spot", "capacity", "state", "rebalance", "health", "warm_pool"] {
        let line = text
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .find(|l| l.starts_with(&format!("{event} = optional")));
        assert_eq!(line, Some(format!("{event} = optional(bool, true)")));
    }
}

#[test]
fn every_call_has_the_permission_that_the_code_tells_people() {
    let all = Api::ALL
        .iter()
        .chain(&Api::BY_FLAG)
        .chain(&Api::OF_CHECK)
        .chain(&Api::OF_TESTS)
        .chain(&Api::OF_ENROLLING);
    for api in all {
        assert_eq!(api.permission(), action(*api));
    }
}

/// The first policy under a heading of a page.
pub fn policy_under(page: &str, heading: &str) -> String {
    let section = page
        .split(&format!("\n{heading}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no heading `{heading}`"));
    section.split("```json\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

#[test]
fn the_policies_for_people_allow_what_their_commands_call_and_nothing_else() {
    let page = read(PAGE);
    for (heading, only, shared) in [
        ("## The check", &Api::OF_CHECK[1..], &[Api::GetQueueAttributes][..]),
        (
            "## Enrolling groups",
            &Api::OF_ENROLLING,
            &[Api::DescribeAutoScalingGroups, Api::DescribeLifecycleHooks],
        ),
        (
            "## Sending test events",
            &Api::OF_TESTS,
            &[Api::DescribeInstances, Api::DescribeLifecycleHooks],
        ),
    ] {
        let policy: Value = serde_json::from_str(&policy_under(&page, heading)).unwrap();
        let needed: BTreeSet<_> = only.iter().chain(shared).map(|api| action(*api)).collect();
        assert_eq!(actions(&policy), needed, "{heading}");
    }
}

/// The policies of the module that only some need are those of the same calls.
#[test]
fn the_module_has_the_calls_of_check_and_of_tests_apart_from_the_service() {
    let table: Value = serde_json::from_str(&read("terraform/modules/policy/calls.json")).unwrap();
    let rows =
        |scope: &str| table[scope].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let names = |apis: &[Api]| apis.iter().map(|a| a.as_str().to_owned()).collect::<BTreeSet<_>>();
    // Everybody may ask who he is; the dead-letter queue is another than the service's own.
    let check: Vec<_> =
        Api::OF_CHECK[1..].iter().copied().chain([Api::GetQueueAttributes]).collect();
    assert_eq!(rows("check"), names(&check));
    // Group and hook of an instance are looked up. Straight to the queue goes who is listed in its
    // policy.
    assert_eq!(
        rows("test"),
        names(&[Api::PutEvents, Api::DescribeInstances, Api::DescribeLifecycleHooks])
    );
    for api in [Api::DescribeInstances, Api::DescribeLifecycleHooks] {
        assert_eq!(
            table["test"][api.as_str()],
            table["service"][api.as_str()],
            "the same action on the same place"
        );
    }
}

/// By hand as by the module: whoever may send tests may send nothing else.
#[test]
fn tests_are_bound_to_their_source_and_to_the_kinds_of_the_module() {
    let policy: Value =
        serde_json::from_str(&policy_under(&read(PAGE), "## Sending test events")).unwrap();
    let statement = policy["Statement"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["Action"][0] == "events:PutEvents")
        .unwrap();
    let condition = &statement["Condition"];
    let all = &condition["ForAllValues:StringEquals"];
    assert_eq!(all["events:source"], sundown::interruption::TEST_SOURCE);
    // What is asked of all values holds where there is none.
    assert_eq!(
        condition["Null"],
        serde_json::json!({ "events:source": "false", "events:detail-type": "false" })
    );
    let patterns = read("terraform/modules/policy/patterns.tf");
    let of_the_module = patterns
        .lines()
        .filter_map(|line| line.trim().strip_prefix("detail-type = [")?.strip_suffix(']'));
    let of_the_module: BTreeSet<_> = of_the_module
        .flat_map(|words| words.split(", ").map(|word| word.trim_matches('"')))
        .collect();
    let said: BTreeSet<_> = all["events:detail-type"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(said, of_the_module);
    assert_eq!(said.len(), 10);
}

/// `put-targets` of `events` is `events:PutTargets`.
fn action_of(service: &str, command: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    format!("{service}:{}", command.split('-').map(word).collect::<String>())
}

/// Who installs by hand, or goes away, needs what these commands call.
#[test]
fn what_the_steps_by_hand_call_is_on_the_page() {
    let page = read(PAGE);
    let section = page.split("\n## Installing\n").nth(1).unwrap();
    let mut seen = BTreeSet::new();
    for text in ["docs/install.md", "docs/uninstall.md"].map(read) {
        let services = ["sqs", "events", "iam", "eks", "autoscaling", "cloudwatch"];
        for service in services {
            for rest in text.split(&format!("aws {service} ")).skip(1) {
                let command =
                    rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap();
                seen.insert(action_of(service, command));
            }
        }
    }
    assert!(seen.len() > 15, "{seen:?}");
    for action in seen {
        assert!(section.contains(&format!("`{action}`")), "{PAGE} does not name {action}");
    }
}
