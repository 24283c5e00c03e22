# Hooks are made last and go first: one that comes before its rule, its target or the role sends the first terminations nowhere, and they hang.
resource "aws_autoscaling_lifecycle_hook" "terminate" {
  for_each = { for key, group in var.autoscaling_groups : key => group if var.create && var.enable_hooks }

  region                 = var.region
  name                   = "sundown-terminate"
  autoscaling_group_name = each.value.name
  lifecycle_transition   = "autoscaling:EC2_INSTANCE_TERMINATING"
  heartbeat_timeout      = each.value.heartbeat_timeout
  default_result         = "CONTINUE"
  notification_metadata  = each.value.metadata

  depends_on = [
    aws_cloudwatch_event_target.this,
    aws_iam_role_policy_attachment.this,
    aws_iam_role_policy_attachment.more,
    aws_eks_pod_identity_association.this,
  ]
}

# CONTINUE for these too: with ABANDON a hook that nobody answers makes every new instance go again.
resource "aws_autoscaling_lifecycle_hook" "launch" {
  for_each = { for key, group in var.autoscaling_groups : key => group if var.create && var.enable_hooks && group.launch }

  region                 = var.region
  name                   = "sundown-launch"
  autoscaling_group_name = each.value.name
  lifecycle_transition   = "autoscaling:EC2_INSTANCE_LAUNCHING"
  heartbeat_timeout      = each.value.heartbeat_timeout
  default_result         = "CONTINUE"
  notification_metadata  = each.value.metadata

  lifecycle {
    precondition {
      condition     = local.listened.launch
      error_message = "Group ${each.key} has a launch hook, and events.launch is false: nobody would hear of it, and each new instance would wait for ${each.value.heartbeat_timeout} s."
    }
  }

  depends_on = [
    aws_cloudwatch_event_target.this,
    aws_iam_role_policy_attachment.this,
    aws_iam_role_policy_attachment.more,
    aws_eks_pod_identity_association.this,
  ]
}
