resource "aws_cloudwatch_event_rule" "this" {
  for_each = local.rules

  region        = var.region
  name          = var.use_name_prefix ? null : module.policy.names["rule_${each.key}"]
  name_prefix   = var.use_name_prefix ? module.policy.prefixes["rule_${each.key}"] : null
  description   = "${each.key}, for Sundown in cluster ${var.cluster_name}"
  event_pattern = module.policy.patterns[each.key]
  state         = "ENABLED"
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = local.rules

  region    = var.region
  rule      = aws_cloudwatch_event_rule.this[each.key].name
  target_id = "queue"
  arn       = local.queue_arn
  role_arn  = one(aws_iam_role.delivery[*].arn)

  # Both: one that is left out is sent as 0, which would mean a single attempt.
  retry_policy {
    maximum_event_age_in_seconds = var.maximum_event_age_in_seconds
    maximum_retry_attempts       = var.maximum_retry_attempts
  }
  dead_letter_config {
    arn = one(aws_sqs_queue.undelivered[*].arn)
  }

  lifecycle {
    precondition {
      condition     = var.create_queue || (var.queue_arn != null && var.queue_url != null)
      error_message = "create_queue is false: queue_arn and queue_url must say which queue the rules fill and Sundown reads."
    }
  }

  # An event that comes before the policies would be refused.
  depends_on = [aws_sqs_queue_policy.this, aws_sqs_queue_policy.undelivered, aws_iam_role_policy.delivery]
}

resource "aws_cloudwatch_event_target" "trial" {
  for_each = var.trial_queue ? local.rules : toset([])

  region    = var.region
  rule      = aws_cloudwatch_event_rule.this[each.key].name
  target_id = "trial"
  arn       = one(aws_sqs_queue.trial[*].arn)

  retry_policy {
    maximum_event_age_in_seconds = var.maximum_event_age_in_seconds
    maximum_retry_attempts       = var.maximum_retry_attempts
  }
  dead_letter_config {
    arn = one(aws_sqs_queue.undelivered[*].arn)
  }

  depends_on = [aws_sqs_queue_policy.trial, aws_sqs_queue_policy.undelivered]
}

# A queue of another account is sent to as a role of this one.
resource "aws_iam_role" "delivery" {
  count = local.create_delivery ? 1 : 0

  name                  = var.use_name_prefix ? null : module.policy.names.delivery
  name_prefix           = var.use_name_prefix ? module.policy.prefixes.delivery : null
  path                  = var.role_path
  permissions_boundary  = var.role_permissions_boundary
  description           = "EventBridge sends as this role to the queue of Sundown in cluster ${var.cluster_name}"
  assume_role_policy    = module.policy.delivery_trust_policy
  force_detach_policies = true
  tags                  = var.tags
}

resource "aws_iam_role_policy" "delivery" {
  count = local.create_delivery ? 1 : 0

  name   = "send"
  role   = one(aws_iam_role.delivery[*].name)
  policy = module.policy.delivery_policy
}
