# What the service may call. That these are the actions and resources of the table, and that AWS knows them, is for tests/terraform/permissions.py.

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
  account_id   = "123456789012"
  queue_arns   = { queue = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop", dead = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop-dead" }
  rule_arns    = ["arn:aws:events:eu-west-1:123456789012:rule/sundown-shop-spot"]
}

run "groups_are_known_by_either_tag_each_in_a_statement_of_its_own" {
  command = plan
  assert {
    condition = [for statement in jsondecode(output.service_policy).Statement : statement.Condition if startswith(statement.Sid, "Groups")] == [
      { StringEquals = { "aws:ResourceTag/eks:cluster-name" = ["shop"] } },
      { Null = { "aws:ResourceTag/kubernetes.io/cluster/shop" = ["false"] } },
    ]
    error_message = output.service_policy
  }
  assert {
    condition = alltrue([for statement in jsondecode(output.service_policy).Statement :
      statement.Resource == ["arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:*:autoScalingGroupName/*"] if startswith(statement.Sid, "Groups")
    ])
    error_message = output.service_policy
  }
}

run "or_by_tags_of_ones_own" {
  command = plan
  variables {
    group_tags = [{ key = "team", value = "shop" }]
  }
  assert {
    condition     = [for statement in jsondecode(output.service_policy).Statement : statement.Condition if startswith(statement.Sid, "Groups")] == [{ StringEquals = { "aws:ResourceTag/team" = ["shop"] } }]
    error_message = output.service_policy
  }
}

run "no_group_at_all_is_refused" {
  command = plan
  variables {
    limit_to_group_names = true
  }
  expect_failures = [output.service_policy]
}

run "of_the_dead_letter_queue_the_depth_may_be_asked_and_nothing_else" {
  command = plan
  assert {
    condition = [for statement in jsondecode(output.service_policy).Statement : [statement.Action, statement.Resource] if statement.Sid == "DeadLetters"] == [
      [["sqs:GetQueueAttributes"], ["arn:aws:sqs:eu-west-1:123456789012:sundown-shop-dead"]],
    ]
    error_message = output.service_policy
  }
}

run "without_one_it_is_not_spoken_of" {
  command = plan
  variables {
    queue_arns = { queue = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop" }
  }
  assert {
    condition     = !strcontains(output.service_policy, "DeadLetters") && !strcontains(output.service_policy, "null")
    error_message = output.service_policy
  }
}

run "a_trial_reads_its_queue_and_writes_nothing_else" {
  command = plan
  variables {
    queue_arns = { queue = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop", trial = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop_trial" }
  }
  assert {
    condition = [for statement in jsondecode(output.permission_policies.trial).Statement : [statement.Action, statement.Resource]] == [
      [["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeLifecycleHooks", "ec2:DescribeInstances"], ["*"]],
      [["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"], ["arn:aws:sqs:eu-west-1:123456789012:sundown-shop_trial"]],
    ]
    error_message = output.permission_policies.trial
  }
  assert {
    condition     = !strcontains(output.service_policy, "_trial")
    error_message = "The service has no business in the trial's queue."
  }
}

# A group that gets hooks must be one whose hooks may be answered, with or without the tag.
run "groups_that_are_named_are_allowed_besides_those_with_the_tags" {
  command = plan
  variables {
    group_names = ["general"]
  }
  assert {
    condition = [for statement in jsondecode(output.service_policy).Statement : [statement.Sid, reverse(split("/", statement.Resource[0]))[0], try(keys(statement.Condition), [])] if startswith(statement.Sid, "Groups")] == [
      ["Groups1", "*", ["StringEquals"]],
      ["Groups2", "*", ["Null"]],
      ["Groups3", "general", []],
    ]
    error_message = output.service_policy
  }
  assert {
    condition = alltrue([for statement in jsondecode(output.service_policy).Statement :
      statement.Action == ["autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"] if startswith(statement.Sid, "Groups")
    ])
    error_message = output.service_policy
  }
}

run "or_by_name_alone" {
  command = plan
  variables {
    group_names          = ["general", "spot"]
    limit_to_group_names = true
  }
  assert {
    condition = [for statement in jsondecode(output.service_policy).Statement : [statement.Resource, can(statement.Condition)] if startswith(statement.Sid, "Groups")] == [[
      [
        "arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:*:autoScalingGroupName/general",
        "arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:*:autoScalingGroupName/spot",
      ],
      false,
    ]]
    error_message = output.service_policy
  }
}

run "what_knows_no_resource_is_bound_to_the_region" {
  command = plan
  assert {
    condition = [for statement in jsondecode(output.service_policy).Statement : statement.Condition if contains(statement.Resource, "*")] == [
      { StringEquals = { "aws:RequestedRegion" = ["eu-west-1"] } },
    ]
    error_message = output.service_policy
  }
}

run "nothing_is_written_to_queues_but_receipts_and_there_is_no_wildcard_among_actions" {
  command = plan
  assert {
    condition     = length(regexall("SendMessage|PurgeQueue|SetQueueAttributes|PutLifecycleHook|:\\*\"", replace(output.service_policy, "autoScalingGroup:*:", ""))) == 0
    error_message = output.service_policy
  }
}

run "an_encrypted_queue_is_read_with_its_key" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/1"
  }
  assert {
    condition = [for statement in jsondecode(output.service_policy).Statement : statement if statement.Sid == "Key"] == [{
      Sid      = "Key"
      Effect   = "Allow"
      Action   = ["kms:Decrypt"]
      Resource = ["arn:aws:kms:eu-west-1:123456789012:key/1"]
    }]
    error_message = output.service_policy
  }
}

run "without_a_key_there_is_no_statement_of_one" {
  command = plan
  assert {
    condition     = !strcontains(output.service_policy, "kms:")
    error_message = output.service_policy
  }
}

run "a_statement_of_ones_own_is_added" {
  command = plan
  variables {
    extra_statements = [{
      actions    = ["sns:Publish"]
      resources  = ["arn:aws:sns:eu-west-1:123456789012:nodes"]
      conditions = { Bool = { "aws:SecureTransport" = ["true"] } }
    }]
  }
  assert {
    condition = reverse(jsondecode(output.service_policy).Statement)[0] == {
      Effect    = "Allow"
      Action    = ["sns:Publish"]
      Resource  = ["arn:aws:sns:eu-west-1:123456789012:nodes"]
      Condition = { Bool = { "aws:SecureTransport" = ["true"] } }
    }
    error_message = output.service_policy
  }
}

run "what_only_some_need_is_in_policies_of_its_own" {
  command = plan
  assert {
    condition     = keys(output.permission_policies) == ["afterwards", "check", "impaired", "test", "trial"]
    error_message = jsonencode(keys(output.permission_policies))
  }
  assert {
    condition     = length(regexall("PutEvents|TerminateInstance|SetInstanceHealth|DetachInstances|DescribeRule", output.service_policy)) == 0
    error_message = output.service_policy
  }
  assert {
    # The group and the hook of an instance are looked up.
    condition = [for statement in jsondecode(output.permission_policies.test).Statement : statement if statement.Sid != "TestEvents"] == [{
      Sid       = "Region"
      Effect    = "Allow"
      Action    = ["autoscaling:DescribeLifecycleHooks", "ec2:DescribeInstances"]
      Resource  = ["*"]
      Condition = { StringEquals = { "aws:RequestedRegion" = ["eu-west-1"] } }
    }]
    error_message = output.permission_policies.test
  }
  assert {
    condition = [for statement in jsondecode(output.permission_policies.test).Statement : statement if statement.Sid == "TestEvents"] == [{
      Sid      = "TestEvents"
      Effect   = "Allow"
      Action   = ["events:PutEvents"]
      Resource = ["arn:aws:events:eu-west-1:123456789012:event-bus/default"]
      Condition = {
        "ForAllValues:StringEquals" = {
          "events:source" = ["sundown.test"]
          "events:detail-type" = [
            "AWS Health Event",
            "Capacity Block Expiration Warning",
            "Capacity Block Reservation Expiration Warning",
            "EC2 Capacity Reservation Instance Interruption Warning",
            "EC2 Instance Launch Successful",
            "EC2 Instance Rebalance Recommendation",
            "EC2 Instance State-change Notification",
            "EC2 Instance-launch Lifecycle Action",
            "EC2 Instance-terminate Lifecycle Action",
            "EC2 Spot Instance Interruption Warning",
          ]
        }
        Null = { "events:source" = ["false"], "events:detail-type" = ["false"] }
      }
    }]
    error_message = output.permission_policies.test
  }
}

run "all_of_them_fit_into_a_managed_policy" {
  command = plan
  variables {
    cluster_name = "a-cluster-with-a-name-as-long-as-amazon-eks-allows-it-to-be-which-is-one-hundred-characters-in-all-1"
    kms_key_arn  = "arn:aws-us-gov:kms:us-gov-west-1:123456789012:key/12345678-1234-1234-1234-123456789012"
  }
  assert {
    condition     = alltrue([for policy in concat([output.service_policy], values(output.permission_policies)) : length(policy) <= 6144])
    error_message = "A managed policy holds 6144 characters."
  }
}

run "a_target_role_may_be_taken_and_no_other" {
  command = plan
  variables {
    target_role_arn = "arn:aws:iam::210987654321:role/nodes"
  }
  assert {
    condition = [for statement in jsondecode(output.service_policy).Statement : statement if statement.Sid == "TargetRole"] == [{
      Sid      = "TargetRole"
      Effect   = "Allow"
      Action   = ["sts:AssumeRole", "sts:TagSession"]
      Resource = ["arn:aws:iam::210987654321:role/nodes"]
    }]
    error_message = output.service_policy
  }
}

run "a_target_role_is_one" {
  command = plan
  variables {
    target_role_arn = "arn:aws:iam::210987654321:role/*"
  }
  expect_failures = [var.target_role_arn]
}
