# A trial: who reads its queue, and what becomes of the other one in the meantime.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
  trial_queue  = true
}

run "a_trial_has_a_role_of_its_own_that_reads_its_queue" {
  assert {
    condition = flatten([for statement in jsondecode(one(aws_iam_policy.trial[*].policy)).Statement : statement.Resource if contains(statement.Action, "sqs:ReceiveMessage")]) == [
      one(aws_sqs_queue.trial[*].arn),
    ]
    error_message = one(aws_iam_policy.trial[*].policy)
  }
  assert {
    condition     = !strcontains(output.policy_json, one(aws_sqs_queue.trial[*].arn)) && !strcontains(one(aws_iam_policy.trial[*].policy), "CompleteLifecycleAction")
    error_message = "The one reads, and only the other answers hooks."
  }
  assert {
    condition = [
      one(aws_iam_role_policy_attachment.trial[*].role), one(aws_iam_role_policy_attachment.trial[*].policy_arn), one(aws_eks_pod_identity_association.trial[*].namespace),
      one(aws_eks_pod_identity_association.trial[*].service_account), one(aws_eks_pod_identity_association.trial[*].role_arn),
    ] == [one(aws_iam_role.trial[*].name), one(aws_iam_policy.trial[*].arn), "sundown-trial", "sundown-trial", one(aws_iam_role.trial[*].arn)]
    error_message = jsonencode([aws_iam_role_policy_attachment.trial, aws_eks_pod_identity_association.trial])
  }
  assert {
    condition     = one(aws_iam_role.trial[*].name) == "sundown-shop_trial_eu-west-1" && strcontains(one(aws_iam_role.trial[*].assume_role_policy), "sundown-trial")
    error_message = jsonencode(aws_iam_role.trial)
  }
}

run "on_plain_ec2_the_instances_role_reads_it_too" {
  variables {
    identity    = "instance-profile"
    create_role = false
    role_arn    = "arn:aws:iam::123456789012:role/kops/controllers"
  }
  assert {
    condition     = length(aws_iam_role.trial) + length(aws_eks_pod_identity_association.trial) == 0 && one(aws_iam_role_policy_attachment.trial[*].role) == "controllers"
    error_message = jsonencode(aws_iam_role_policy_attachment.trial)
  }
}

run "without_roles_of_the_module_the_policy_is_there_to_attach" {
  variables {
    create_role                     = false
    attach_policies                 = false
    create_pod_identity_association = false
  }
  assert {
    condition     = length(aws_iam_role.trial) + length(aws_iam_role_policy_attachment.trial) + length(aws_eks_pod_identity_association.trial) == 0 && output.trial_policy_arn != null && output.trial_role_arn == null
    error_message = jsonencode(aws_iam_role.trial)
  }
}

run "beside_the_real_one_both_queues_are_filled" {
  command = plan
  assert {
    condition     = keys(aws_cloudwatch_event_target.this) == keys(aws_cloudwatch_event_target.trial) && length(aws_cloudwatch_metric_alarm.age) == 1
    error_message = jsonencode(keys(aws_cloudwatch_event_target.this))
  }
}

# Nobody reads the queue: its age would ring from the first event on, and who takes over would find the events of days.
run "while_only_a_trial_runs_the_queue_stays_empty_and_its_age_rings_nobody" {
  command = plan
  variables {
    trial_only   = true
    enable_hooks = false
  }
  assert {
    condition     = length(aws_cloudwatch_event_target.this) == 0 && keys(aws_cloudwatch_event_target.trial) == ["capacity", "health", "rebalance", "spot", "state", "terminate", "warm-pool"] && length(aws_cloudwatch_metric_alarm.age) == 0
    error_message = jsonencode(keys(aws_cloudwatch_event_target.this))
  }
  assert {
    condition     = length(aws_sqs_queue.this) == 1 && length(aws_cloudwatch_metric_alarm.letters) == 2
    error_message = "All else is there to take over."
  }
}

run "nobody_answers_hooks_in_a_trial" {
  command = plan
  variables {
    trial_only         = true
    autoscaling_groups = { general = { name = "shop-general" } }
  }
  expect_failures = [aws_autoscaling_lifecycle_hook.terminate]
}

run "only_a_trial_needs_a_trial" {
  command = plan
  variables {
    trial_queue = false
    trial_only  = true
  }
  expect_failures = [aws_sqs_queue.undelivered]
}
