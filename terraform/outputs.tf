output "helm_values" {
  description = "Values of the Helm chart: `values = [yamlencode(module.sundown.helm_values)]`."
  value = {
    aws = { region = var.region }
    # Where the module makes the hooks, Sundown answers those and leaves the hooks of others alone.
    config = merge(
      { queueUrls = [for url in [local.queue_url] : url if url != null], clusterName = var.cluster_name },
      { for key, hooks in { lifecycleHook = local.answered } : key => hooks if length(hooks) > 0 },
      { for key, urls in { dlqUrls = aws_sqs_queue.dead[*].url } : key => urls if local.create_queue },
    )
    serviceAccount = {
      name        = var.service_account
      annotations = { for key, arn in { "eks.amazonaws.com/role-arn" = local.role_arn } : key => arn if var.identity == "irsa" && var.create }
    }
  }
}

output "trial_helm_values" {
  description = "Values of the chart for a trial beside what drains today, in the namespace `trial_namespace`; null without `trial_queue`."
  value = local.create_trial ? {
    aws = { region = var.region }
    # All hooks: a trial is there to see those of others too.
    config   = { dryRun = true, trial = true, queueUrls = aws_sqs_queue.trial[*].url, clusterName = var.cluster_name }
    replicas = 1
    serviceAccount = {
      name        = var.trial_service_account
      annotations = { for arn in aws_iam_role.trial[*].arn : "eks.amazonaws.com/role-arn" => arn if var.identity == "irsa" }
    }
  } : null
}

output "queue_url" {
  description = "URL of the queue, for `--queue-url`."
  value       = local.queue_url
}

output "queue_name" {
  description = "Name of the queue."
  value       = local.queue_name
}

output "queue_arn" {
  description = "ARN of the queue."
  value       = local.queue_arn
}

output "queue_policy_json" {
  description = "Policy of the queue; a queue of your own needs it."
  value       = lookup(module.policy.queue_policies, "queue", null)
}

output "dead_letter_queue_url" {
  description = "URL of the queue of what could not be understood or taken on."
  value       = one(aws_sqs_queue.dead[*].url)
}

output "dead_letter_queue_arn" {
  description = "ARN of it."
  value       = one(aws_sqs_queue.dead[*].arn)
}

output "undelivered_queue_url" {
  description = "URL of the queue of events that EventBridge could not deliver."
  value       = one(aws_sqs_queue.undelivered[*].url)
}

output "undelivered_queue_arn" {
  description = "ARN of it."
  value       = one(aws_sqs_queue.undelivered[*].arn)
}

output "trial_queue_url" {
  description = "URL of the trial queue."
  value       = one(aws_sqs_queue.trial[*].url)
}

output "trial_role_arn" {
  description = "ARN of the trial's role."
  value       = one(aws_iam_role.trial[*].arn)
}

output "trial_policy_arn" {
  description = "ARN of the policy of a trial, for a role that is made elsewhere."
  value       = one(aws_iam_policy.trial[*].arn)
}

output "kms_key_arn" {
  description = "ARN of the queue's key; null: SQS encrypts by itself."
  value       = local.kms_key_arn
}

output "kms_key_policy_json" {
  description = "Policy of the queue's key; a key of your own needs its statement `Rules`."
  value       = module.policy.key_policy
}

output "rule_arns" {
  description = "ARN of each rule by its event."
  value       = { for event, rule in aws_cloudwatch_event_rule.this : event => rule.arn }
}

output "event_rules" {
  description = "Name, ARN and event pattern of each rule by its event."
  value       = { for event, rule in aws_cloudwatch_event_rule.this : event => { name = rule.name, arn = rule.arn, event_pattern = rule.event_pattern } }
}

output "delivery_role_arn" {
  description = "ARN of the role that the rules send as; to be listed among the `sender_arns` of the queue's account."
  value       = one(aws_iam_role.delivery[*].arn)
}

output "lifecycle_hooks" {
  description = "Names of the hooks of each group by its key."
  value = {
    for key, group in var.autoscaling_groups : key => concat(
      [for of, hook in aws_autoscaling_lifecycle_hook.terminate : hook.name if of == key],
      [for of, hook in aws_autoscaling_lifecycle_hook.launch : hook.name if of == key],
    )
  }
}

output "role_arn" {
  description = "ARN of the role."
  value       = local.role_arn
}

output "role_name" {
  description = "Name of the role."
  value       = local.role_name
}

output "iam_role_unique_id" {
  description = "Unique ID of the role that the module makes, which survives no replacement of the role."
  value       = one(aws_iam_role.this[*].unique_id)
}

output "pod_identity_external_id" {
  description = "External ID with which Pod Identity takes the role `target_role_arn`, for its trust policy."
  value       = one(aws_eks_pod_identity_association.this[*].external_id)
}

output "namespace" {
  description = "Namespace of the pods, which the role trusts: `helm install --namespace`."
  value       = var.namespace
}

output "service_account" {
  description = "Service account of the pods, which the role trusts."
  value       = var.service_account
}

output "instance_profile_name" {
  description = "Name of the instance profile, where the role is one of instances."
  value       = one(aws_iam_instance_profile.this[*].name)
}

output "policy_arn" {
  description = "ARN of the policy with what Sundown calls."
  value       = one(aws_iam_policy.this[*].arn)
}

output "policy_json" {
  description = "The policy itself, for a role that is made elsewhere."
  value       = module.policy.service_policy
}

output "trust_policy_json" {
  description = "Trust policy of the role, for a role that is made elsewhere."
  value       = module.policy.trust_policy
}

output "permission_policy_arns" {
  description = "ARNs of the policies that only some need, by what for."
  value       = { for scope, policy in aws_iam_policy.more : scope => policy.arn }
}

output "alarm_arns" {
  description = "ARNs of the alarms by what they are on."
  value = merge(
    { for key, alarm in aws_cloudwatch_metric_alarm.rule : key => alarm.arn },
    { for key, alarm in aws_cloudwatch_metric_alarm.letters : key => alarm.arn },
    { for index, alarm in aws_cloudwatch_metric_alarm.age : "age" => alarm.arn },
    { for key, alarm in aws_cloudwatch_metric_alarm.queue : key => alarm.arn },
  )
}

output "fault_injection_template_id" {
  description = "Id of the template: `aws fis start-experiment --experiment-template-id ID`."
  value       = one(aws_fis_experiment_template.this[*].id)
}
