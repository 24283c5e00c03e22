# Queues as they are made.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
}

run "the_queue_is_encrypted_keeps_four_days_and_gives_up_after_ten_receives" {
  assert {
    condition = [
      one(aws_sqs_queue.this[*].name), one(aws_sqs_queue.this[*].region), one(aws_sqs_queue.this[*].message_retention_seconds), one(aws_sqs_queue.this[*].sqs_managed_sse_enabled),
      one(aws_sqs_queue.this[*].visibility_timeout_seconds), one(aws_sqs_queue.this[*].receive_wait_time_seconds),
    ] == ["sundown-shop", "eu-west-1", 345600, true, 60, 20]
    error_message = jsonencode(aws_sqs_queue.this)
  }
  assert {
    condition     = one(aws_sqs_queue.this[*].kms_master_key_id) == null
    error_message = "SQS encrypts by itself, without a key."
  }
  assert {
    condition = jsondecode(one(aws_sqs_queue.this[*].redrive_policy)) == {
      deadLetterTargetArn = one(aws_sqs_queue.dead[*].arn)
      maxReceiveCount     = 10
    }
    error_message = one(aws_sqs_queue.this[*].redrive_policy)
  }
  assert {
    condition     = one(aws_sqs_queue.dead[*].message_retention_seconds) == 1209600 && one(aws_sqs_queue.dead[*].redrive_policy) == "not given"
    error_message = "Dead letters are kept for 14 days."
  }
  assert {
    condition = jsondecode(one(aws_sqs_queue_redrive_allow_policy.dead[*].redrive_allow_policy)) == {
      redrivePermission = "byQueue"
      sourceQueueArns   = [one(aws_sqs_queue.this[*].arn)]
    }
    error_message = one(aws_sqs_queue_redrive_allow_policy.dead[*].redrive_allow_policy)
  }
}

run "each_queue_has_its_policy" {
  assert {
    condition = jsonencode([for policy in [aws_sqs_queue_policy.this, aws_sqs_queue_policy.dead, aws_sqs_queue_policy.undelivered] :
      [one(policy[*].queue_url), distinct(jsondecode(one(policy[*].policy)).Statement[*].Resource)]
      ]) == jsonencode([for queue in [aws_sqs_queue.this, aws_sqs_queue.dead, aws_sqs_queue.undelivered] :
      [one(queue[*].url), [one(queue[*].arn)]]
    ])
    error_message = jsonencode([aws_sqs_queue_policy.this, aws_sqs_queue_policy.dead, aws_sqs_queue_policy.undelivered])
  }
  assert {
    condition = toset(flatten([
      for statement in jsondecode(one(aws_sqs_queue_policy.this[*].policy)).Statement : statement.Condition.ArnEquals["aws:SourceArn"] if statement.Sid == "Rules"
    ])) == toset([for rule in aws_cloudwatch_event_rule.this : rule.arn])
    error_message = one(aws_sqs_queue_policy.this[*].policy)
  }
}

run "undelivered_events_have_a_queue_of_their_own" {
  assert {
    condition     = one(aws_sqs_queue.undelivered[*].message_retention_seconds) == 1209600 && one(aws_sqs_queue.undelivered[*].sqs_managed_sse_enabled) && one(aws_sqs_queue.undelivered[*].arn) != one(aws_sqs_queue.dead[*].arn)
    error_message = jsonencode(aws_sqs_queue.undelivered)
  }
}

run "the_key_that_aws_manages_never_works" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:alias/aws/sqs"
  }
  expect_failures = [var.kms_key_arn]
}

run "an_alias_is_no_key" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:alias/own"
  }
  expect_failures = [var.kms_key_arn]
}

run "nor_is_its_name" {
  command = plan
  variables {
    kms_key_arn = "alias/own"
  }
  expect_failures = [var.kms_key_arn]
}

run "nor_is_an_id" {
  command = plan
  variables {
    kms_key_arn = "12345678-1234-1234-1234-123456789012"
  }
  expect_failures = [var.kms_key_arn]
}

run "not_everybody_sends" {
  command = plan
  variables {
    sender_arns = ["*"]
  }
  expect_failures = [var.sender_arns]
}

run "not_every_role_reads" {
  command = plan
  variables {
    reader_arns = ["arn:aws:iam::210987654321:role/*"]
  }
  expect_failures = [var.reader_arns]
}

run "a_url_is_no_arn" {
  command = plan
  variables {
    create_queue = false
    queue_arn    = "https://sqs.eu-west-1.amazonaws.com/123456789012/own"
    queue_url    = "arn:aws:sqs:eu-west-1:123456789012:own"
  }
  expect_failures = [var.queue_arn, var.queue_url]
}

run "a_fifo_queue_takes_no_events" {
  command = plan
  variables {
    create_queue = false
    queue_arn    = "arn:aws:sqs:eu-west-1:123456789012:own.fifo"
    queue_url    = "https://sqs.eu-west-1.amazonaws.com/123456789012/own.fifo"
  }
  expect_failures = [var.queue_arn]
}

run "a_queue_is_in_the_region_of_its_rules" {
  command = plan
  variables {
    create_queue = false
    queue_arn    = "arn:aws:sqs:us-east-1:123456789012:own"
    queue_url    = "https://sqs.us-east-1.amazonaws.com/123456789012/own"
  }
  expect_failures = [aws_sqs_queue.undelivered]
}

run "a_queue_of_another_account_needs_a_role" {
  command = plan
  variables {
    create_queue = false
    queue_arn    = "arn:aws:sqs:eu-west-1:210987654321:own"
    queue_url    = "https://sqs.eu-west-1.amazonaws.com/210987654321/own"
  }
  expect_failures = [aws_sqs_queue.undelivered]
}

# Its policy denies everybody but the rules: what they send as a role of theirs would be undelivered.
run "the_modules_own_queue_is_not_sent_to_as_a_role" {
  command = plan
  variables {
    create_delivery_role = true
  }
  expect_failures = [aws_sqs_queue.undelivered]
}

run "nor_is_one_of_ones_own_in_the_same_account" {
  command = plan
  variables {
    create_queue         = false
    queue_arn            = "arn:aws:sqs:eu-west-1:123456789012:own"
    queue_url            = "https://sqs.eu-west-1.amazonaws.com/123456789012/own"
    create_delivery_role = true
  }
  expect_failures = [aws_sqs_queue.undelivered]
}

run "a_queue_of_ones_own_is_filled_and_told_what_its_policy_must_be" {
  variables {
    create_queue = false
    queue_arn    = "arn:aws:sqs:eu-west-1:123456789012:own"
    queue_url    = "https://sqs.eu-west-1.amazonaws.com/123456789012/own"
  }
  assert {
    condition     = length(aws_sqs_queue.this) + length(aws_sqs_queue.dead) + length(aws_sqs_queue_policy.this) == 0 && alltrue([for target in aws_cloudwatch_event_target.this : target.arn == var.queue_arn])
    error_message = jsonencode(aws_cloudwatch_event_target.this)
  }
  assert {
    condition     = strcontains(output.queue_policy_json, var.queue_arn) && output.helm_values.config.queueUrls == [var.queue_url]
    error_message = jsonencode(output.helm_values)
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.age[0].dimensions == tomap({ QueueName = "own" })
    error_message = jsonencode(aws_cloudwatch_metric_alarm.age[0].dimensions)
  }
}

run "a_queue_of_ones_own_must_be_named" {
  command = plan
  variables {
    create_queue = false
  }
  expect_failures = [aws_sqs_queue.undelivered]
}

run "even_if_nothing_is_listened_for" {
  command = plan
  variables {
    create_queue = false
    events       = { terminate = false, spot = false, capacity = false, state = false, rebalance = false, health = false, warm_pool = false }
  }
  expect_failures = [aws_sqs_queue.undelivered]
}

run "a_trial_gets_the_same_events_without_dead_letters_and_alarms" {
  variables {
    trial_queue = true
  }
  assert {
    condition = [
      one(aws_sqs_queue.trial[*].message_retention_seconds), one(aws_sqs_queue.trial[*].redrive_policy), one(aws_sqs_queue.trial[*].sqs_managed_sse_enabled),
    ] == [86400, "not given", true]
    error_message = jsonencode(aws_sqs_queue.trial)
  }
  assert {
    condition     = keys(aws_cloudwatch_event_target.trial) == keys(aws_cloudwatch_event_target.this) && alltrue([for event, target in aws_cloudwatch_event_target.trial : target.rule == aws_cloudwatch_event_target.this[event].rule && target.arn == one(aws_sqs_queue.trial[*].arn) && target.target_id != aws_cloudwatch_event_target.this[event].target_id])
    error_message = jsonencode(aws_cloudwatch_event_target.trial)
  }
  assert {
    condition     = alltrue([for alarm in concat(values(aws_cloudwatch_metric_alarm.letters), aws_cloudwatch_metric_alarm.age) : alarm.dimensions.QueueName != one(aws_sqs_queue.trial[*].name)])
    error_message = "A trial wakes nobody."
  }
  assert {
    condition     = length(aws_cloudwatch_event_target.trial) == 7 && alltrue([for target in aws_cloudwatch_event_target.trial : length(target.dead_letter_config) == 0 && target.retry_policy == aws_cloudwatch_event_target.this["spot"].retry_policy])
    error_message = "What a trial misses would be among the undelivered, whose alarm is the service's."
  }
}

run "nothing_is_made_when_nothing_is_wanted" {
  command = plan
  variables {
    create             = false
    trial_queue        = true
    create_kms_key     = true
    permissions        = { check = true, test = true, afterwards = true, impaired = true }
    fault_injection    = { target_tags = { team = "shop" }, stop_alarm_arn = "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:errors" }
    autoscaling_groups = { general = { name = "general", launch = true } }
  }
  assert {
    condition = sum([for of in [
      aws_sqs_queue.this, aws_sqs_queue.dead, aws_sqs_queue.undelivered, aws_sqs_queue.trial, aws_sqs_queue_policy.this, aws_kms_key.this, aws_kms_alias.this,
      aws_cloudwatch_event_rule.this, aws_cloudwatch_event_target.this, aws_cloudwatch_event_target.trial, aws_cloudwatch_metric_alarm.rule,
      aws_cloudwatch_metric_alarm.letters, aws_cloudwatch_metric_alarm.age, aws_autoscaling_lifecycle_hook.terminate, aws_autoscaling_lifecycle_hook.launch,
      aws_iam_role.this, aws_iam_policy.this, aws_iam_policy.more, aws_iam_role_policy_attachment.this, aws_iam_role_policy_attachment.more,
      aws_iam_role.trial, aws_iam_policy.trial, aws_iam_role_policy_attachment.trial, aws_eks_pod_identity_association.trial,
      aws_eks_pod_identity_association.this, aws_fis_experiment_template.this, aws_iam_role.fault,
    ] : length(of)]) == 0
    error_message = "Something is made."
  }
  assert {
    condition     = output.queue_url == null && output.role_arn == null && output.helm_values.config == { clusterName = "shop", queueUrls = [] } && output.trial_helm_values == null
    error_message = jsonencode(output.helm_values)
  }
}

run "a_queue_is_named_and_the_others_after_it" {
  variables {
    queue_name  = "nodes"
    trial_queue = true
  }
  assert {
    condition = concat(aws_sqs_queue.this[*].name, aws_sqs_queue.dead[*].name, aws_sqs_queue.undelivered[*].name, aws_sqs_queue.trial[*].name) == [
      "nodes", "nodes_dead", "nodes_undelivered", "nodes_queue-trial",
    ]
    error_message = jsonencode(aws_sqs_queue.this)
  }
  assert {
    condition     = output.queue_name == "nodes" && aws_cloudwatch_metric_alarm.age[0].dimensions == tomap({ QueueName = "nodes" })
    error_message = output.queue_name
  }
}

run "data_keys_are_reused_for_as_long_as_is_said" {
  variables {
    create_kms_key                          = true
    queue_kms_data_key_reuse_period_seconds = 3600
  }
  assert {
    condition     = [for queue in concat(aws_sqs_queue.this, aws_sqs_queue.dead) : queue.kms_data_key_reuse_period_seconds] == [3600, 3600]
    error_message = jsonencode(aws_sqs_queue.this)
  }
}

run "a_data_key_lasts_a_minute_or_longer" {
  command = plan
  variables {
    queue_kms_data_key_reuse_period_seconds = 30
  }
  expect_failures = [var.queue_kms_data_key_reuse_period_seconds]
}
