data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

locals {
  name          = coalesce(var.name, substr("sundown-${var.cluster_name}", 0, 48))
  group_tag_key = coalesce(var.group_tag_key, "kubernetes.io/cluster/${var.cluster_name}")

  # What Sundown acts on. EC2's events carry an instance id and nothing else, so these cannot be narrowed to a group.
  rules = {
    terminate = {
      source      = ["aws.autoscaling"]
      detail-type = ["EC2 Instance-terminate Lifecycle Action"]
    }
    spot = {
      source      = ["aws.ec2"]
      detail-type = ["EC2 Spot Instance Interruption Warning"]
    }
    capacity = {
      source      = ["aws.ec2"]
      detail-type = ["EC2 Capacity Reservation Instance Interruption Warning"]
    }
    state = {
      source      = ["aws.ec2"]
      detail-type = ["EC2 Instance State-change Notification"]
      detail      = { state = ["stopping", "stopped", "shutting-down", "terminated"] }
    }
  }
}

# Takes what cannot be understood, and what EventBridge could not deliver. Never under a key of one's own: a key that EventBridge may not use
# would lose the event twice.
resource "aws_sqs_queue" "dead" {
  name                      = "${local.name}-dead"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_sqs_queue" "this" {
  name = local.name
  # Four days. A moved message keeps the time at which it was sent, so the dead-letter queue keeps longer.
  message_retention_seconds  = 345600
  visibility_timeout_seconds = 60
  receive_wait_time_seconds  = 20
  kms_master_key_id          = var.kms_key_arn
  sqs_managed_sse_enabled    = var.kms_key_arn == null ? true : null
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead.arn
    maxReceiveCount     = var.max_receive_count
  })
  tags = var.tags
}

data "aws_iam_policy_document" "queue" {
  for_each = { this = aws_sqs_queue.this.arn, dead = aws_sqs_queue.dead.arn }

  statement {
    sid       = "Events"
    actions   = ["sqs:SendMessage"]
    resources = [each.value]
    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }
    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [for rule in aws_cloudwatch_event_rule.this : rule.arn]
    }
  }

  # Within the account an IAM policy is enough to send, whatever a queue's policy allows; and whoever sends can drain nodes.
  statement {
    sid       = "NobodyElse"
    effect    = "Deny"
    actions   = ["sqs:SendMessage"]
    resources = [each.value]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "BoolIfExists"
      variable = "aws:PrincipalIsAWSService"
      values   = ["false"]
    }
    dynamic "condition" {
      for_each = length(var.extra_senders) == 0 ? [] : [var.extra_senders]
      content {
        test     = "ArnNotLike"
        variable = "aws:PrincipalArn"
        values   = condition.value
      }
    }
  }
}

resource "aws_sqs_queue_policy" "this" {
  queue_url = aws_sqs_queue.this.url
  policy    = data.aws_iam_policy_document.queue["this"].json
}

resource "aws_sqs_queue_policy" "dead" {
  queue_url = aws_sqs_queue.dead.url
  policy    = data.aws_iam_policy_document.queue["dead"].json
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each = local.rules

  name          = "${local.name}-${each.key}"
  description   = "For Sundown in cluster ${var.cluster_name}"
  event_pattern = jsonencode(each.value)
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = local.rules

  rule = aws_cloudwatch_event_rule.this[each.key].name
  arn  = aws_sqs_queue.this.arn

  # Both: one that is left out is sent as 0, which would mean a single attempt.
  retry_policy {
    maximum_event_age_in_seconds = 3600
    maximum_retry_attempts       = 185
  }
  dead_letter_config {
    arn = aws_sqs_queue.dead.arn
  }

  depends_on = [aws_sqs_queue_policy.this, aws_sqs_queue_policy.dead]
}

resource "aws_autoscaling_lifecycle_hook" "this" {
  for_each = var.lifecycle_hooks

  name                   = each.value.hook_name
  autoscaling_group_name = each.value.group_name
  lifecycle_transition   = "autoscaling:EC2_INSTANCE_TERMINATING"
  heartbeat_timeout      = each.value.heartbeat_timeout
  default_result         = "CONTINUE"

  # A hook that comes before its queue sends the first terminations nowhere.
  depends_on = [aws_cloudwatch_event_target.this]
}

# For the role that the pods run as: with EKS Pod Identity, with a role for the service account, or on the instance profile.
data "aws_iam_policy_document" "service" {
  statement {
    sid       = "Queue"
    actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"]
    resources = [aws_sqs_queue.this.arn]
  }

  statement {
    sid       = "Hooks"
    actions   = ["autoscaling:RecordLifecycleActionHeartbeat", "autoscaling:CompleteLifecycleAction"]
    resources = ["arn:${data.aws_partition.this.partition}:autoscaling:*:${data.aws_caller_identity.this.account_id}:autoScalingGroup:*:autoScalingGroupName/*"]
    condition {
      test     = "Null"
      variable = "aws:ResourceTag/${local.group_tag_key}"
      values   = ["false"]
    }
  }

  # These know no resources.
  statement {
    sid       = "Look"
    actions   = ["autoscaling:DescribeLifecycleHooks", "autoscaling:DescribeAutoScalingGroups", "ec2:DescribeInstances"]
    resources = ["*"]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]
    content {
      sid       = "Key"
      actions   = ["kms:Decrypt"]
      resources = [statement.value]
    }
  }
}

resource "aws_iam_policy" "service" {
  name        = local.name
  description = "What Sundown calls, for cluster ${var.cluster_name}"
  policy      = data.aws_iam_policy_document.service.json
  tags        = var.tags
}
