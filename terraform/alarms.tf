locals {
  # CloudWatch has these two only where they are not zero, so no data is good news. What could not be sent to the queue of undelivered events is lost.
  rule_metrics = {
    FailedInvocations              = "did not reach the queue; look into the queue of undelivered events, the queue's policy and its key"
    InvocationsFailedToBeSentToDlq = "are lost: they reached neither the queue nor the queue of undelivered events"
  }
  rule_alarms = var.create && var.create_alarms ? {
    for pair in setproduct(local.rules, keys(local.rule_metrics)) : "${pair[0]}-${pair[1]}" => { rule = pair[0], metric = pair[1] }
  } : {}

  letter_alarms = var.create && var.create_alarms ? merge(
    { undelivered = "EventBridge could not deliver an event to the queue" },
    local.create_queue ? { dead = "a message was received ${var.max_receive_count} times and not understood or not taken on" } : {},
  ) : {}
}

resource "aws_cloudwatch_metric_alarm" "rule" {
  for_each = local.rule_alarms

  region              = var.region
  alarm_name          = "${module.policy.names.queue}-${each.key}"
  alarm_description   = "Sundown in cluster ${var.cluster_name}: events of the rule ${each.value.rule} ${local.rule_metrics[each.value.metric]}."
  namespace           = "AWS/Events"
  metric_name         = each.value.metric
  dimensions          = { RuleName = aws_cloudwatch_event_rule.this[each.value.rule].name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "letters" {
  for_each = local.letter_alarms

  region              = var.region
  alarm_name          = "${module.policy.names.queue}-${each.key}"
  alarm_description   = "Sundown in cluster ${var.cluster_name}: ${each.value}."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = each.key == "dead" ? one(aws_sqs_queue.dead[*].name) : one(aws_sqs_queue.undelivered[*].name) }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "age" {
  count = var.create && var.create_alarms ? 1 : 0

  region              = var.region
  alarm_name          = "${module.policy.names.queue}-age"
  alarm_description   = "Sundown in cluster ${var.cluster_name}: a message has waited for more than ${var.queue_age_alarm_seconds} s; nobody receives."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = local.queue_name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 2
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.queue_age_alarm_seconds
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = var.tags
}
