# Rules, their targets, alarms on them, and the hooks.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name       = "shop"
  region             = "eu-west-1"
  autoscaling_groups = { general = { name = "shop-general" } }
}

run "what_is_acted_on_has_a_rule_and_nothing_else" {
  command = plan
  assert {
    condition     = keys(aws_cloudwatch_event_rule.this) == ["capacity", "health", "rebalance", "spot", "state", "terminate", "warm-pool"]
    error_message = jsonencode(keys(aws_cloudwatch_event_rule.this))
  }
  assert {
    condition     = alltrue([for event, rule in aws_cloudwatch_event_rule.this : rule.event_pattern == module.policy.patterns[event] && rule.state == "ENABLED" && rule.name == "sundown-shop_${event}" && rule.region == "eu-west-1"])
    error_message = jsonencode(aws_cloudwatch_event_rule.this)
  }
}

run "a_launch_hook_brings_its_rule" {
  command = plan
  variables {
    autoscaling_groups = { general = { name = "shop-general" }, slow = { name = "shop-slow", launch = true, heartbeat_timeout = 600, metadata = "slow" } }
  }
  assert {
    condition     = contains(keys(aws_cloudwatch_event_rule.this), "launch") && keys(aws_autoscaling_lifecycle_hook.launch) == ["slow"] && keys(aws_autoscaling_lifecycle_hook.terminate) == ["general", "slow"]
    error_message = jsonencode(keys(aws_cloudwatch_event_rule.this))
  }
  assert {
    condition = jsonencode([for hook in [aws_autoscaling_lifecycle_hook.terminate["general"], aws_autoscaling_lifecycle_hook.terminate["slow"], aws_autoscaling_lifecycle_hook.launch["slow"]] :
      [hook.name, hook.autoscaling_group_name, hook.lifecycle_transition, hook.heartbeat_timeout, hook.default_result, hook.notification_metadata]
      ]) == jsonencode([
      ["sundown-terminate", "shop-general", "autoscaling:EC2_INSTANCE_TERMINATING", 300, "CONTINUE", null],
      ["sundown-terminate", "shop-slow", "autoscaling:EC2_INSTANCE_TERMINATING", 600, "CONTINUE", "slow"],
      ["sundown-launch", "shop-slow", "autoscaling:EC2_INSTANCE_LAUNCHING", 600, "CONTINUE", "slow"],
    ])
    error_message = jsonencode([aws_autoscaling_lifecycle_hook.terminate, aws_autoscaling_lifecycle_hook.launch])
  }
}

run "a_launch_hook_that_nobody_would_hear_of_is_refused" {
  command = plan
  variables {
    events             = { launch = false }
    autoscaling_groups = { slow = { name = "shop-slow", launch = true } }
  }
  expect_failures = [aws_autoscaling_lifecycle_hook.launch]
}

# Every instance that goes would wait, and would not be drained.
run "a_terminate_hook_that_nobody_would_hear_of_is_refused" {
  command = plan
  variables {
    events = { terminate = false }
  }
  expect_failures = [aws_autoscaling_lifecycle_hook.terminate]
}

run "hooks_wait_for_a_word" {
  command = plan
  variables {
    enable_hooks = false
  }
  assert {
    condition     = length(aws_autoscaling_lifecycle_hook.terminate) == 0 && length(aws_cloudwatch_event_rule.this) == 7
    error_message = "Everything but the hooks is made."
  }
}

run "a_heartbeat_is_one_that_auto_scaling_takes" {
  command = plan
  variables {
    autoscaling_groups = { general = { name = "shop-general", heartbeat_timeout = 10 } }
  }
  expect_failures = [var.autoscaling_groups]
}

# After the leader crashes, the next one needs up to a minute to receive the message of a launch.
run "a_launch_hook_with_a_short_heartbeat_timeout_is_refused" {
  command = plan
  variables {
    autoscaling_groups = { slow = { name = "shop-slow", launch = true, heartbeat_timeout = 179 } }
  }
  expect_failures = [var.autoscaling_groups]
}

run "a_launch_hook_may_have_three_minutes_and_a_terminate_hook_alone_may_have_less" {
  command = plan
  variables {
    autoscaling_groups = { general = { name = "shop-general", heartbeat_timeout = 60 }, slow = { name = "shop-slow", launch = true, heartbeat_timeout = 180 } }
  }
  assert {
    condition     = [aws_autoscaling_lifecycle_hook.terminate["general"].heartbeat_timeout, aws_autoscaling_lifecycle_hook.launch["slow"].heartbeat_timeout] == [60, 180]
    error_message = jsonencode([aws_autoscaling_lifecycle_hook.terminate, aws_autoscaling_lifecycle_hook.launch])
  }
}

run "events_are_chosen" {
  command = plan
  variables {
    events             = { terminate = true, spot = false, capacity = false, state = false, rebalance = true, health = true, warm_pool = false }
    enable_test_events = true
  }
  assert {
    condition     = keys(aws_cloudwatch_event_rule.this) == ["health", "rebalance", "terminate"]
    error_message = jsonencode(keys(aws_cloudwatch_event_rule.this))
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.this : strcontains(rule.event_pattern, "sundown.test")])
    error_message = "Test events go the way of real ones."
  }
}

# The provider sends an attempt count that is left out as 0.
run "delivery_is_tried_by_age_and_by_attempts" {
  assert {
    condition     = alltrue([for target in aws_cloudwatch_event_target.this : target.retry_policy == tolist([{ maximum_event_age_in_seconds = 3600, maximum_retry_attempts = 185 }])])
    error_message = jsonencode(aws_cloudwatch_event_target.this)
  }
  assert {
    condition     = alltrue([for target in aws_cloudwatch_event_target.this : target.dead_letter_config == tolist([{ arn = one(aws_sqs_queue.undelivered[*].arn) }]) && target.arn == one(aws_sqs_queue.this[*].arn)])
    error_message = jsonencode(aws_cloudwatch_event_target.this)
  }
  assert {
    condition     = alltrue([for target in aws_cloudwatch_event_target.this : target.role_arn == null])
    error_message = "In one account the queue's policy is enough."
  }
}

run "a_single_attempt_is_refused" {
  command = plan
  variables {
    maximum_retry_attempts = 0
  }
  expect_failures = [var.maximum_retry_attempts]
}

run "an_age_below_a_minute_is_refused" {
  command = plan
  variables {
    maximum_event_age_in_seconds = 0
  }
  expect_failures = [var.maximum_event_age_in_seconds]
}

run "a_queue_of_another_account_is_sent_to_as_a_role" {
  variables {
    create_queue         = false
    queue_arn            = "arn:aws:sqs:eu-west-1:210987654321:sundown-shop"
    queue_url            = "https://sqs.eu-west-1.amazonaws.com/210987654321/sundown-shop"
    create_delivery_role = true
  }
  assert {
    condition     = alltrue([for target in aws_cloudwatch_event_target.this : target.role_arn == one(aws_iam_role.delivery[*].arn)]) && strcontains(one(aws_iam_role_policy.delivery[*].policy), var.queue_arn)
    error_message = jsonencode(aws_cloudwatch_event_target.this)
  }
  # The queue's metrics are in its own account: an alarm here would never have data, and never ring.
  assert {
    condition     = length(aws_cloudwatch_metric_alarm.age) == 0
    error_message = "The age of another account's queue is not known here."
  }
}

run "the_account_of_the_queue_lets_the_other_send_and_read" {
  variables {
    create_role                     = false
    attach_policies                 = false
    create_pod_identity_association = false
    create_kms_key                  = true
    autoscaling_groups              = {}
    events                          = { terminate = false, spot = false, capacity = false, state = false, rebalance = false, health = false, warm_pool = false }
    sender_arns                     = ["arn:aws:iam::210987654321:role/sundown-shop_delivery_eu-west-1"]
    reader_arns                     = ["arn:aws:iam::210987654321:role/sundown-shop_eu-west-1"]
  }
  assert {
    condition     = [for statement in jsondecode(one(aws_sqs_queue_policy.this[*].policy)).Statement : statement.Sid] == ["Senders", "Readers", "NobodyElse", "EncryptedInTransit"]
    error_message = one(aws_sqs_queue_policy.this[*].policy)
  }
  assert {
    condition     = [for statement in jsondecode(one(aws_kms_key.this[*].policy)).Statement : statement.Sid] == ["Account", "Senders", "Readers"]
    error_message = one(aws_kms_key.this[*].policy)
  }
}

run "alarms_are_quiet_without_data_and_tell_who_asked" {
  variables {
    alarm_actions = ["arn:aws:sns:eu-west-1:123456789012:oncall"]
  }
  assert {
    condition = toset(keys(output.alarm_arns)) == toset(concat(
      ["dead", "undelivered", "age", "receiving"],
      [for pair in setproduct(keys(aws_cloudwatch_event_rule.this), ["FailedInvocations", "InvocationsFailedToBeSentToDlq"]) : "${pair[0]}-${pair[1]}"],
    ))
    error_message = jsonencode(keys(output.alarm_arns))
  }
  assert {
    condition = alltrue([for alarm in concat(values(aws_cloudwatch_metric_alarm.rule), values(aws_cloudwatch_metric_alarm.letters), aws_cloudwatch_metric_alarm.age) :
      alarm.treat_missing_data == "notBreaching" && alarm.alarm_actions == toset(var.alarm_actions) && alarm.ok_actions == toset(var.alarm_actions) && length(alarm.alarm_name) <= 255
    ])
    error_message = jsonencode(aws_cloudwatch_metric_alarm.rule)
  }
  assert {
    condition = [for alarm in [aws_cloudwatch_metric_alarm.rule["spot-FailedInvocations"], aws_cloudwatch_metric_alarm.letters["dead"], aws_cloudwatch_metric_alarm.letters["undelivered"], aws_cloudwatch_metric_alarm.age[0]] :
      [alarm.namespace, alarm.metric_name, alarm.dimensions, alarm.statistic, alarm.period, alarm.evaluation_periods, alarm.comparison_operator, alarm.threshold]
      ] == [
      ["AWS/Events", "FailedInvocations", tomap({ RuleName = "sundown-shop_spot" }), "Sum", 60, 1, "GreaterThanThreshold", 0],
      ["AWS/SQS", "ApproximateNumberOfMessagesVisible", tomap({ QueueName = "sundown-shop_dead" }), "Maximum", 60, 1, "GreaterThanThreshold", 0],
      ["AWS/SQS", "ApproximateNumberOfMessagesVisible", tomap({ QueueName = "sundown-shop_undelivered" }), "Maximum", 60, 1, "GreaterThanThreshold", 0],
      ["AWS/SQS", "ApproximateAgeOfOldestMessage", tomap({ QueueName = "sundown-shop" }), "Maximum", 60, 2, "GreaterThanThreshold", 420],
    ]
    error_message = jsonencode(aws_cloudwatch_metric_alarm.letters)
  }
  # The four above stand for all of their kind.
  assert {
    condition     = alltrue([for alarm in aws_cloudwatch_metric_alarm.rule : [alarm.statistic, alarm.period, alarm.evaluation_periods, alarm.comparison_operator, alarm.threshold] == ["Sum", 60, 1, "GreaterThanThreshold", 0]])
    error_message = jsonencode(aws_cloudwatch_metric_alarm.rule)
  }
}

run "a_queue_that_nobody_asks_rings_without_any_message" {
  assert {
    condition     = keys(aws_cloudwatch_metric_alarm.queue) == ["receiving"]
    error_message = jsonencode(keys(aws_cloudwatch_metric_alarm.queue))
  }
  # SQS reports nothing of a queue that is not used: no data is what it looks like when nobody has asked for long.
  assert {
    condition = [for alarm in values(aws_cloudwatch_metric_alarm.queue) :
      [alarm.treat_missing_data, alarm.evaluation_periods, alarm.comparison_operator, alarm.threshold]
    ] == [["breaching", 5, "LessThanThreshold", 1]]
    error_message = jsonencode(aws_cloudwatch_metric_alarm.queue)
  }
  assert {
    condition = toset([for query in aws_cloudwatch_metric_alarm.queue["receiving"].metric_query : jsonencode([query.id, query.expression, query.return_data, [for metric in query.metric : [metric.namespace, metric.metric_name, metric.dimensions.QueueName, metric.period, metric.stat]]])]) == toset([
      jsonencode(["result", "received + empty", true, []]),
      jsonencode(["received", null, null, [["AWS/SQS", "NumberOfMessagesReceived", "sundown-shop", 60, "Sum"]]]),
      jsonencode(["empty", null, null, [["AWS/SQS", "NumberOfEmptyReceives", "sundown-shop", 60, "Sum"]]]),
    ])
    error_message = jsonencode(aws_cloudwatch_metric_alarm.queue["receiving"].metric_query)
  }
}

# Before the chart is installed nobody asks.
run "it_rings_only_where_hooks_are_on" {
  command = plan
  variables {
    enable_hooks = false
  }
  assert {
    condition     = length(aws_cloudwatch_metric_alarm.queue) == 0 && length(aws_cloudwatch_metric_alarm.age) == 1
    error_message = jsonencode(keys(aws_cloudwatch_metric_alarm.queue))
  }
}

run "or_where_that_is_said" {
  command = plan
  variables {
    autoscaling_groups     = {}
    create_receiving_alarm = true
  }
  assert {
    condition     = keys(aws_cloudwatch_metric_alarm.queue) == ["receiving"]
    error_message = jsonencode(keys(aws_cloudwatch_metric_alarm.queue))
  }
}

# From the third receive on the age of the oldest message leaves a message out, so the age does not tell of one that loops.
run "a_message_that_loops_rings_where_no_dead_letter_would" {
  variables {
    create_queue       = false
    queue_arn          = "arn:aws:sqs:eu-west-1:123456789012:own"
    queue_url          = "https://sqs.eu-west-1.amazonaws.com/123456789012/own"
    autoscaling_groups = {}
  }
  assert {
    condition = { for name, alarm in aws_cloudwatch_metric_alarm.queue : name =>
      [alarm.treat_missing_data, alarm.evaluation_periods, alarm.comparison_operator, alarm.threshold]
    } == { looping = ["notBreaching", 3, "GreaterThanThreshold", 2] }
    error_message = jsonencode(aws_cloudwatch_metric_alarm.queue)
  }
  assert {
    condition = toset([for query in aws_cloudwatch_metric_alarm.queue["looping"].metric_query : jsonencode([query.id, query.expression, [for metric in query.metric : [metric.metric_name, metric.dimensions.QueueName, metric.period]]])]) == toset([
      jsonencode(["result", "received - deleted", []]),
      jsonencode(["received", null, [["NumberOfMessagesReceived", "own", 300]]]),
      jsonencode(["deleted", null, [["NumberOfMessagesDeleted", "own", 300]]]),
    ])
    error_message = jsonencode(aws_cloudwatch_metric_alarm.queue["looping"].metric_query)
  }
}

run "or_where_it_would_come_late" {
  command = plan
  variables {
    max_receive_count = 100
  }
  assert {
    condition     = keys(aws_cloudwatch_metric_alarm.queue) == ["looping", "receiving"]
    error_message = jsonencode(keys(aws_cloudwatch_metric_alarm.queue))
  }
}

run "alarms_can_be_somebody_elses" {
  command = plan
  variables {
    create_alarms = false
  }
  assert {
    condition     = length(aws_cloudwatch_metric_alarm.rule) + length(aws_cloudwatch_metric_alarm.letters) + length(aws_cloudwatch_metric_alarm.age) + length(aws_cloudwatch_metric_alarm.queue) == 0
    error_message = "There are alarms."
  }
}

run "messages_have_no_group_until_one_is_named" {
  command = plan
  assert {
    condition     = alltrue([for target in aws_cloudwatch_event_target.this : length(target.sqs_target) == 0])
    error_message = jsonencode(aws_cloudwatch_event_target.this)
  }
}

# A backlog of state changes of the whole account: SQS gives the notices of spot first.
run "messages_of_a_rule_have_the_group_that_is_named" {
  command = plan
  variables {
    message_group_ids = { state = "state" }
  }
  assert {
    condition     = { for event, target in aws_cloudwatch_event_target.this : event => target.sqs_target[*].message_group_id if length(target.sqs_target) > 0 } == { state = tolist(["state"]) }
    error_message = jsonencode(aws_cloudwatch_event_target.this)
  }
}

run "a_group_is_of_an_event_that_there_is" {
  command = plan
  variables {
    message_group_ids = { spots = "spot" }
  }
  expect_failures = [var.message_group_ids]
}

run "rules_are_named_by_their_prefix_and_shown" {
  variables {
    rule_name_prefix = "team.nodes"
  }
  assert {
    condition     = output.event_rules.spot == { name = "team.nodes_spot", arn = aws_cloudwatch_event_rule.this["spot"].arn, event_pattern = module.policy.patterns.spot } && keys(output.event_rules) == keys(output.rule_arns)
    error_message = jsonencode(output.event_rules)
  }
}
