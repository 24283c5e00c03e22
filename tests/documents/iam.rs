//! The IAM policies that the README and the Terraform module give, and the names by which both give them to the pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sundown::aws::Api;

use crate::{files, read};

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
        Api::DescribeInstances => "ec2:DescribeInstances",
    }
}

/// What a call is on, as the table names places.
fn place(api: Api) -> &'static str {
    match api {
        Api::ReceiveMessage | Api::DeleteMessageBatch | Api::ChangeMessageVisibilityBatch | Api::GetQueueAttributes => "queue",
        Api::RecordLifecycleActionHeartbeat | Api::CompleteLifecycleAction => "groups",
        Api::DescribeLifecycleHooks | Api::DescribeAutoScalingGroups | Api::DescribeInstances => "region",
    }
}

/// Every policy of the module comes out of this table; `tests/terraform/permissions.py` holds them against it.
#[test]
fn the_table_of_the_module_has_every_call_of_the_service_and_no_other() {
    let table: Value = serde_json::from_str(&read("terraform/modules/policy/calls.json")).unwrap();
    let row = |api: Api| (api.as_str().to_owned(), serde_json::json!({ "actions": [action(api)], "on": place(api) }));
    let needed: BTreeMap<String, Value> = Api::ALL.map(row).into();
    let said: BTreeMap<String, Value> = serde_json::from_value(table["service"].clone()).unwrap();
    assert_eq!(said, needed);
}

fn actions(policy: &Value) -> BTreeSet<&str> {
    let statements = policy["Statement"].as_array().unwrap();
    statements.iter().flat_map(|s| s["Action"].as_array().unwrap()).map(|a| a.as_str().unwrap()).collect()
}

#[test]
fn the_policy_of_the_readme_allows_what_is_called_and_nothing_else() {
    let readme = read("README.md");
    let text = readme.split("```json\n").map(|b| b.split("```").next().unwrap()).find(|b| b.contains("sqs:ReceiveMessage")).unwrap();
    let policy: Value = serde_json::from_str(text).unwrap();
    assert_eq!(actions(&policy), BTreeSet::from(Api::ALL.map(action)));
    assert_eq!(policy["Version"], "2012-10-17");
}

/// The default of a variable of the module.
fn default(variable: &str) -> String {
    let text = read("terraform/variables.iam.tf");
    let block = text.split(&format!("variable \"{variable}\" {{")).nth(1).unwrap().split("\n}").next().unwrap().to_owned();
    block.split("default").nth(1).unwrap().split('"').nth(1).unwrap().to_owned()
}

/// The names of the objects of this kind in the manifests.
fn named(kind: &str) -> BTreeSet<String> {
    let manifests = files("deploy", ".yaml").into_iter().filter(|f| !f.contains("/templates/"));
    let texts: Vec<String> = manifests.map(|f| read(&f)).collect();
    let documents = texts.iter().flat_map(|t| t.split("\n---\n")).filter(|d| d.lines().any(|l| l == format!("kind: {kind}")));
    let name =
        |d: &str| d.split("\nmetadata:\n").nth(1).unwrap().split("  name: ").nth(1).unwrap().lines().next().unwrap().trim_matches('"').to_owned();
    documents.map(name).collect()
}

/// A role that trusts another service account gives the pods nothing.
#[test]
fn the_role_trusts_the_service_account_that_the_manifests_make() {
    assert_eq!(named("Namespace"), BTreeSet::from([default("namespace")]));
    assert_eq!(named("ServiceAccount"), BTreeSet::from([default("service_account")]));
}

/// The rules that the module makes by default are those whose events are acted on.
#[test]
fn what_is_not_acted_on_has_no_rule_by_default() {
    let text = read("terraform/variables.rules.tf");
    let off = ["rebalance", "health", "warm_pool"];
    for (event, on) in ["terminate", "spot", "capacity", "state"].map(|e| (e, true)).into_iter().chain(off.map(|e| (e, false))) {
        let line = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).find(|l| l.starts_with(&format!("{event} = optional")));
        assert_eq!(line, Some(format!("{event} = optional(bool, {on})")));
    }
    let page = read("docs/interruptions.md");
    let list = page.split("\n## Not acted on yet\n").nth(1).unwrap().split("\n## ").next().unwrap();
    for kind in ["Rebalance Recommendation", "AWS Health Event", "Launch Successful"] {
        assert!(list.contains(kind), "{kind} is acted on now: terraform/variables.rules.tf should listen for it");
    }
}
