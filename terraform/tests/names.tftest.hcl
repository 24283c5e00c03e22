# The longest name that a cluster may have, as it reaches the resources.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name         = "a-cluster-with-a-name-as-long-as-amazon-eks-allows-it-to-be-which-is-one-hundred-characters-in-all-1"
  region               = "eu-west-1"
  trial_queue          = true
  create_delivery_role = true
  create_queue         = false
  queue_arn            = "arn:aws:sqs:eu-west-1:210987654321:own"
  queue_url            = "https://sqs.eu-west-1.amazonaws.com/210987654321/own"
  permissions          = { check = true, test = true, afterwards = true, impaired = true }
  events               = { launch = true, rebalance = true, health = true, warm_pool = true }
  fault_injection      = { target_tags = { team = "shop" }, stop_alarm_arn = "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:errors" }
}

run "names_fit" {
  command = plan
  assert {
    condition     = alltrue([for queue in concat(aws_sqs_queue.this, aws_sqs_queue.dead, aws_sqs_queue.undelivered, aws_sqs_queue.trial) : length(queue.name) <= 80])
    error_message = jsonencode(aws_sqs_queue.undelivered[0].name)
  }
  assert {
    condition     = length(aws_cloudwatch_event_rule.this) == 8 && alltrue([for rule in aws_cloudwatch_event_rule.this : length(rule.name) <= 64]) && length(distinct([for rule in aws_cloudwatch_event_rule.this : rule.name])) == 8
    error_message = jsonencode([for rule in aws_cloudwatch_event_rule.this : rule.name])
  }
  assert {
    condition     = alltrue([for role in concat(aws_iam_role.this, aws_iam_role.delivery, aws_iam_role.fault, aws_iam_role.trial) : length(role.name) <= 64]) && length(distinct([for role in concat(aws_iam_role.this, aws_iam_role.delivery, aws_iam_role.fault, aws_iam_role.trial) : role.name])) == 4
    error_message = jsonencode([for role in concat(aws_iam_role.this, aws_iam_role.delivery, aws_iam_role.fault, aws_iam_role.trial) : role.name])
  }
  assert {
    condition     = alltrue([for alarm in concat(values(aws_cloudwatch_metric_alarm.rule), values(aws_cloudwatch_metric_alarm.letters), aws_cloudwatch_metric_alarm.age) : length(alarm.alarm_name) <= 255])
    error_message = jsonencode([for alarm in aws_cloudwatch_metric_alarm.rule : alarm.alarm_name])
  }
}

run "prefixes_fit" {
  command = plan
  variables {
    use_name_prefix = true
    identity        = "instance-profile"
  }
  assert {
    condition     = alltrue([for role in concat(aws_iam_role.this, aws_iam_role.delivery, aws_iam_role.fault, aws_iam_instance_profile.this) : length(role.name_prefix) <= 38])
    error_message = jsonencode([for role in concat(aws_iam_role.this, aws_iam_role.delivery, aws_iam_role.fault, aws_iam_role.trial) : role.name_prefix])
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.this : length(rule.name_prefix) <= 38]) && alltrue([for queue in concat(aws_sqs_queue.this, aws_sqs_queue.dead, aws_sqs_queue.undelivered, aws_sqs_queue.trial) : length(queue.name_prefix) <= 54])
    error_message = jsonencode([for rule in aws_cloudwatch_event_rule.this : rule.name_prefix])
  }
}

run "names_of_what_the_module_makes_itself_fit" {
  command = plan
  variables {
    create_delivery_role = false
    create_queue         = true
    queue_arn            = null
    queue_url            = null
    create_kms_key       = true
  }
  assert {
    condition     = alltrue([for queue in concat(aws_sqs_queue.this, aws_sqs_queue.dead) : length(queue.name) <= 80]) && length(concat(aws_sqs_queue.this, aws_sqs_queue.dead)) == 2
    error_message = jsonencode([aws_sqs_queue.this[0].name, aws_sqs_queue.dead[0].name])
  }
}

run "and_with_a_prefix" {
  command = plan
  variables {
    create_delivery_role = false
    create_queue         = true
    queue_arn            = null
    queue_url            = null
    create_kms_key       = true
    use_name_prefix      = true
  }
  assert {
    condition     = alltrue([for queue in concat(aws_sqs_queue.this, aws_sqs_queue.dead) : length(queue.name_prefix) <= 54]) && length(concat(aws_sqs_queue.this, aws_sqs_queue.dead)) == 2
    error_message = jsonencode(aws_sqs_queue.this[0].name_prefix)
  }
}

# PutMetricAlarm overwrites an alarm of the same name.
run "alarms_of_two_modules_with_one_prefix_are_apart" {
  variables {
    use_name_prefix = true
  }
  assert {
    condition     = alltrue([for alarm in concat(values(aws_cloudwatch_metric_alarm.rule), values(aws_cloudwatch_metric_alarm.letters)) : startswith(alarm.alarm_name, aws_sqs_queue.undelivered[0].name)])
    error_message = jsonencode([for alarm in aws_cloudwatch_metric_alarm.rule : alarm.alarm_name])
  }
}

run "a_region_is_one" {
  command = plan
  variables {
    region = "Ireland"
  }
  expect_failures = [var.region]
}

run "a_way_to_the_role_is_one" {
  command = plan
  variables {
    identity = "kiam"
  }
  expect_failures = [var.identity]
}

run "receives_are_not_so_few_that_changes_of_leader_use_them_up" {
  command = plan
  variables {
    max_receive_count = 1
  }
  expect_failures = [var.max_receive_count]
}
