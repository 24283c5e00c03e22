locals {
  # CloudWatch has these two only where they are not zero, so no data is good news. What could not be sent to the queue of undelivered events is lost.
  rule_metrics = {
    FailedInvocations              = var.trial_queue ? "did not reach the queue or the trial queue, which count together; look into the queue of undelivered events, which has only those for the queue, into the policies and the key" : "did not reach the queue; look into the queue of undelivered events, the queue's policy and its key"
    InvocationsFailedToBeSentToDlq = "are lost: they reached neither the queue nor the queue of undelivered events"
  }
  rule_alarms = var.create && var.create_alarms ? {
    for pair in setproduct(local.rules, keys(local.rule_metrics)) : "${pair[0]}-${pair[1]}" => { rule = pair[0], metric = pair[1] }
  } : {}

  # PutMetricAlarm overwrites an alarm of the same name without a word: with a prefix the name is that of a queue that is this module's alone.
  alarm_prefix = var.use_name_prefix ? one(aws_sqs_queue.undelivered[*].name) : module.policy.names.queue

  letter_alarms = var.create && var.create_alarms ? merge(
    { undelivered = "EventBridge could not deliver an event to the queue" },
    local.create_queue ? { dead = "a message was received ${var.max_receive_count} times and not understood or not taken on" } : {},
  ) : {}

  # While only a trial runs nobody is to read the queue; and the metrics of another account's queue are in that account.
  watch_queue = var.create && var.create_alarms && !var.trial_only && !var.create_delivery_role
  # A message that loops is received about once a minute: the module's own dead letters tell of it after max_receive_count minutes.
  dead_letters_are_slow = !local.create_queue || var.max_receive_count > 15
  queue_alarms = { for name, alarm in {
    # The leader asks at least three times a minute, whether or not there are messages. SQS reports nothing of a queue that is not used for
    # six hours, so here no data is bad news.
    receiving = {
      on          = coalesce(var.create_receiving_alarm, length(var.autoscaling_groups) > 0 && var.enable_hooks)
      description = "no replica has asked the queue for messages for five minutes: interruptions are not acted on, and hooks end with their timeout"
      metrics     = { received = "NumberOfMessagesReceived", empty = "NumberOfEmptyReceives" }
      expression  = "received + empty"
      period      = 60
      periods     = 5
      comparison  = "LessThanThreshold"
      threshold   = 1
      missing     = "breaching"
    }
    # Each message is received once and deleted once. One that loops is received four or five times in each period and never deleted.
    looping = {
      on          = local.dead_letters_are_slow
      description = "for a quarter of an hour more messages were received than deleted: a message is received again and again and not decided, or not understood"
      metrics     = { received = "NumberOfMessagesReceived", deleted = "NumberOfMessagesDeleted" }
      expression  = "received - deleted"
      period      = 300
      periods     = 3
      comparison  = "GreaterThanThreshold"
      threshold   = 2
      missing     = "notBreaching"
    }
  } : name => alarm if alarm.on && local.watch_queue }
}

# Alarms on two metrics of the queue together.
resource "aws_cloudwatch_metric_alarm" "queue" {
  for_each = local.queue_alarms

  region              = var.region
  alarm_name          = "${local.alarm_prefix}_${each.key}"
  alarm_description   = "Sundown in cluster ${var.cluster_name}: ${each.value.description}."
  evaluation_periods  = each.value.periods
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  treat_missing_data  = each.value.missing
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = var.tags

  metric_query {
    id          = "result"
    expression  = each.value.expression
    label       = each.key
    return_data = true
  }
  dynamic "metric_query" {
    for_each = each.value.metrics
    content {
      id = metric_query.key
      metric {
        namespace   = "AWS/SQS"
        metric_name = metric_query.value
        dimensions  = { QueueName = local.queue_name }
        period      = each.value.period
        stat        = "Sum"
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "rule" {
  for_each = local.rule_alarms

  region              = var.region
  alarm_name          = "${local.alarm_prefix}_${each.key}"
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
  alarm_name          = "${local.alarm_prefix}_${each.key}"
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

# The age of the oldest message, for messages that nobody receives. It says nothing of messages that loop: from the third receive on SQS leaves a
# message out of this metric until it is deleted. For those there are the dead letters, or the alarm "looping".
resource "aws_cloudwatch_metric_alarm" "age" {
  count = local.watch_queue ? 1 : 0

  region              = var.region
  alarm_name          = "${local.alarm_prefix}_age"
  alarm_description   = "Sundown in cluster ${var.cluster_name}: a message is older than ${var.queue_age_alarm_seconds} s: no replica receives, or the leader holds a message that it cannot decide. A message that is received again and again does not count here."
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
