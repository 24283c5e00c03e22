output "names" {
  description = "Name of each thing, within its limit."
  value       = local.names
}

output "prefixes" {
  description = "Prefix of the name of each thing, within its limit less the 26 characters that Terraform appends."
  value       = local.prefixes
}

output "patterns" {
  description = "Event pattern of each rule."
  value       = { for event, pattern in local.patterns : event => jsonencode(pattern) }
}

output "queue_policies" {
  description = "Policy of each queue of queue_arns."
  value       = local.queue_policies
}

output "key_policy" {
  description = "Policy of the queue's key."
  value       = jsonencode(local.key_policy)
}

output "service_policy" {
  description = "What the service may call."
  value       = jsonencode(local.service_policy)
  precondition {
    condition     = !var.limit_to_group_names || length(var.group_names) > 0
    error_message = "limit_to_group_names: group_names names no group, so no hook could be answered."
  }
}

output "permission_policies" {
  description = "What only some need, by what for: trial, check, test, afterwards, impaired."
  value       = { for scope, statements in local.statements : scope => jsonencode({ Version = "2012-10-17", Statement = statements }) if scope != "service" }
}

output "trust_policy" {
  description = "Who may take the service's role."
  value       = jsonencode(local.trust_policies.service)
}

output "trial_trust_policy" {
  description = "Who may take the trial's role."
  value       = jsonencode(local.trust_policies.trial)
}

output "delivery_trust_policy" {
  description = "Who may take the role that sends to a queue of another account."
  value       = jsonencode(local.delivery_trust)
}

output "delivery_policy" {
  description = "What that role may do."
  value       = jsonencode(local.delivery_policy)
}

output "fault_injection_offered" {
  description = "Whether AWS offers interruptions of spot instances in the region."
  value       = local.fault_injection_offered
}

output "fault_trust_policy" {
  description = "Who may take the role of fault injection."
  value       = jsonencode(local.fault_trust)
}

output "fault_policy" {
  description = "What that role may do."
  value       = jsonencode(local.fault_policy)
}
