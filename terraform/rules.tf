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
  for_each = local.sent_to_queue

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
  # On a standard queue a group makes no order: SQS gives the messages of quiet groups first.
  dynamic "sqs_target" {
    for_each = compact([lookup(var.message_group_ids, each.key, null)])
    content {
      message_group_id = sqs_target.value
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

  # What a trial misses is no letter that anybody must look into.
  retry_policy {
    maximum_event_age_in_seconds = var.maximum_event_age_in_seconds
    maximum_retry_attempts       = var.maximum_retry_attempts
  }

  depends_on = [aws_sqs_queue_policy.trial]
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
