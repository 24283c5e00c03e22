//! The IAM policies that the README and the Terraform module give.

use std::collections::BTreeSet;

use sundown::aws::Api;

use crate::read;

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

fn actions(text: &str) -> BTreeSet<&str> {
    let is_action = |word: &&str| word.split_once(':').is_some_and(|(service, _)| matches!(service, "sqs" | "autoscaling" | "ec2"));
    text.split('"').filter(|w| w.chars().all(|c| c.is_ascii_alphanumeric() || c == ':')).filter(is_action).collect()
}

#[test]
fn both_policies_allow_what_is_called_and_nothing_else() {
    let needed: BTreeSet<_> = Api::ALL.map(action).into();
    let module = read("terraform/main.tf");
    let (_, service) = module.split_once("\"aws_iam_policy_document\" \"service\"").unwrap();
    assert_eq!(actions(service), needed, "terraform/main.tf");
    let readme = read("README.md");
    let policy = readme.split("```json\n").map(|b| b.split("```").next().unwrap()).find(|b| b.contains("sqs:ReceiveMessage")).unwrap();
    assert_eq!(actions(policy), needed, "README.md");
    let parsed: serde_json::Value = serde_json::from_str(policy).unwrap();
    assert_eq!(parsed["Version"], "2012-10-17");
}
