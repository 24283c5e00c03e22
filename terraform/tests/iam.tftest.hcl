# The role, its policies, and how the pods get it.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
}

run "pods_get_the_role_by_pod_identity" {
  assert {
    condition = [
      one(aws_eks_pod_identity_association.this[*].cluster_name), one(aws_eks_pod_identity_association.this[*].namespace), one(aws_eks_pod_identity_association.this[*].service_account), one(aws_eks_pod_identity_association.this[*].role_arn),
    ] == ["shop", "sundown", "sundown", one(aws_iam_role.this[*].arn)]
    error_message = jsonencode(aws_eks_pod_identity_association.this)
  }
  assert {
    condition     = one(aws_iam_role.this[*].assume_role_policy) == output.trust_policy_json && one(aws_iam_policy.this[*].policy) == output.policy_json && one(aws_iam_role_policy_attachment.this[*].role) == "sundown-shop_eu-west-1"
    error_message = jsonencode(aws_iam_role.this)
  }
}

run "or_by_irsa" {
  variables {
    identity          = "irsa"
    oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF"
    namespace         = "ops"
    service_account   = "drainer"
  }
  assert {
    condition     = length(aws_eks_pod_identity_association.this) == 0 && strcontains(one(aws_iam_role.this[*].assume_role_policy), "system:serviceaccount:ops:drainer")
    error_message = one(aws_iam_role.this[*].assume_role_policy)
  }
  assert {
    condition     = output.helm_values.serviceAccount == { name = "drainer", annotations = { "eks.amazonaws.com/role-arn" = one(aws_iam_role.this[*].arn) } }
    error_message = jsonencode(output.helm_values)
  }
}

run "an_issuer_is_no_provider" {
  command = plan
  variables {
    identity          = "irsa"
    oidc_provider_arn = "https://oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF"
  }
  expect_failures = [var.oidc_provider_arn]
}

run "irsa_needs_its_provider" {
  command = plan
  variables {
    identity = "irsa"
  }
  expect_failures = [aws_iam_role.this]
}

run "or_by_the_instance" {
  variables {
    identity = "instance-profile"
  }
  assert {
    condition     = one(aws_iam_instance_profile.this[*].role) == one(aws_iam_role.this[*].name) && length(aws_eks_pod_identity_association.this) == 0 && length(output.helm_values.serviceAccount.annotations) == 0
    error_message = jsonencode(aws_iam_instance_profile.this)
  }
}

run "a_role_of_ones_own_gets_the_policy" {
  variables {
    identity    = "instance-profile"
    create_role = false
    role_arn    = "arn:aws:iam::123456789012:role/kops/controllers"
  }
  assert {
    condition     = length(aws_iam_role.this) + length(aws_iam_instance_profile.this) == 0 && one(aws_iam_role_policy_attachment.this[*].role) == "controllers"
    error_message = jsonencode(aws_iam_role_policy_attachment.this)
  }
}

run "a_role_of_ones_own_must_be_named" {
  command = plan
  variables {
    create_role = false
  }
  expect_failures = [aws_iam_role_policy_attachment.this, aws_eks_pod_identity_association.this]
}

run "or_the_policy_is_attached_by_somebody_else" {
  command = plan
  variables {
    create_role                     = false
    attach_policies                 = false
    create_pod_identity_association = false
  }
  assert {
    condition     = length(aws_iam_policy.this) == 1 && length(aws_iam_role_policy_attachment.this) == 0
    error_message = "Only the policy is made."
  }
}

run "what_only_some_need_is_off" {
  command = plan
  assert {
    condition     = length(aws_iam_policy.more) + length(aws_iam_role.delivery) + length(aws_iam_role.trial) + length(aws_iam_policy.trial) + length(aws_iam_role.fault) + length(aws_fis_experiment_template.this) == 0
    error_message = "Something is on by default."
  }
}

run "who_tests_is_a_person" {
  command = plan
  variables {
    permissions = { check = true, test = true, afterwards = true, impaired = true }
  }
  assert {
    condition     = keys(aws_iam_policy.more) == ["afterwards", "check", "impaired", "test"] && keys(aws_iam_role_policy_attachment.more) == ["afterwards", "check", "impaired"]
    error_message = jsonencode(keys(aws_iam_role_policy_attachment.more))
  }
}

run "roles_have_a_path_and_a_boundary" {
  command = plan
  variables {
    role_path                 = "/platform/"
    role_permissions_boundary = "arn:aws:iam::123456789012:policy/boundary"
    create_queue              = false
    queue_arn                 = "arn:aws:sqs:eu-west-1:210987654321:sundown-shop"
    queue_url                 = "https://sqs.eu-west-1.amazonaws.com/210987654321/sundown-shop"
    create_delivery_role      = true
    trial_queue               = true
    fault_injection           = { target_tags = { team = "shop" }, stop_alarm_arn = "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:errors" }
  }
  assert {
    condition     = alltrue([for role in concat(aws_iam_role.this, aws_iam_role.delivery, aws_iam_role.fault, aws_iam_role.trial) : role.path == "/platform/" && role.permissions_boundary == var.role_permissions_boundary])
    error_message = jsonencode(aws_iam_role.this)
  }
  assert {
    condition     = length(concat(aws_iam_role.this, aws_iam_role.delivery, aws_iam_role.fault, aws_iam_role.trial)) == 4
    error_message = "Four roles are made."
  }
}

run "hooks_are_answered_only_of_the_named_groups" {
  command = apply
  variables {
    limit_to_groups    = true
    autoscaling_groups = { general = { name = "shop-general" } }
  }
  assert {
    condition     = [for statement in jsondecode(output.policy_json).Statement : statement.Resource if startswith(statement.Sid, "Groups")] == [["arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:*:autoScalingGroupName/shop-general"]]
    error_message = output.policy_json
  }
}

# The module makes their hooks: a role that may not send heartbeats for them would let each drain end with the hook's timeout.
run "groups_that_get_hooks_are_allowed_without_their_tag" {
  variables {
    autoscaling_groups = { general = { name = "shop-general" }, slow = { name = "shop-slow" } }
  }
  assert {
    condition = flatten([for statement in jsondecode(output.policy_json).Statement : [for arn in statement.Resource : reverse(split("/", arn))[0]] if startswith(statement.Sid, "Groups")]) == [
      "*", "*", "shop-general", "shop-slow",
    ]
    error_message = output.policy_json
  }
}

run "or_not_where_all_have_their_tag" {
  variables {
    allow_groups_by_name = false
    autoscaling_groups   = { general = { name = "shop-general" } }
  }
  assert {
    condition     = !strcontains(output.policy_json, "shop-general") && length(aws_autoscaling_lifecycle_hook.terminate) == 1
    error_message = output.policy_json
  }
}

run "more_groups_than_a_policy_holds_are_refused_before_iam_does" {
  command = plan
  variables {
    autoscaling_groups = { for n in range(60) : "g${n}" => { name = "eks-a-managed-node-group-${n}-12345678-1234-1234-1234-123456789012" } }
  }
  expect_failures = [aws_iam_policy.this]
}

run "thirty_long_names_fit" {
  command = plan
  variables {
    autoscaling_groups = { for n in range(30) : "g${n}" => { name = "eks-a-managed-node-group-${n}-12345678-1234-1234-1234-123456789012" } }
  }
  assert {
    condition     = length(output.policy_json) <= 6144
    error_message = length(output.policy_json)
  }
}

run "no_groups_at_all_are_refused" {
  command = plan
  variables {
    limit_to_groups = true
  }
  expect_failures = [aws_iam_policy.this]
}

run "a_drill_interrupts_one_tagged_instance_and_can_be_stopped" {
  variables {
    fault_injection = { target_tags = { "eks:cluster-name" = "shop" }, stop_alarm_arn = "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:errors" }
  }
  assert {
    condition = [for target in aws_fis_experiment_template.this[0].target : [target.resource_type, target.selection_mode, [for tag in target.resource_tag : [tag.key, tag.value]]]] == [
      ["aws:ec2:spot-instance", "COUNT(1)", [["eks:cluster-name", "shop"]]],
    ]
    error_message = jsonencode(aws_fis_experiment_template.this[0].target)
  }
  assert {
    condition = [for stop in aws_fis_experiment_template.this[0].stop_condition : [stop.source, stop.value]] == [
      ["aws:cloudwatch:alarm", "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:errors"],
    ]
    error_message = jsonencode(aws_fis_experiment_template.this[0].stop_condition)
  }
  assert {
    condition = [for action in aws_fis_experiment_template.this[0].action : [action.action_id, [for parameter in action.parameter : [parameter.key, parameter.value]], [for target in action.target : target.key]]] == [
      ["aws:ec2:send-spot-instance-interruptions", [["durationBeforeInterruption", "PT2M"]], ["SpotInstances"]],
    ]
    error_message = jsonencode(aws_fis_experiment_template.this[0].action)
  }
}

run "no_drill_where_aws_offers_none" {
  command = plan
  variables {
    region          = "ap-southeast-3"
    fault_injection = { target_tags = { "eks:cluster-name" = "shop" }, stop_alarm_arn = "arn:aws:cloudwatch:ap-southeast-3:123456789012:alarm:errors" }
  }
  expect_failures = [aws_fis_experiment_template.this]
}

run "no_drill_on_everything" {
  command = plan
  variables {
    fault_injection = { target_tags = {}, stop_alarm_arn = "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:errors" }
  }
  expect_failures = [var.fault_injection]
}

run "no_drill_that_cannot_be_stopped" {
  command = plan
  variables {
    fault_injection = { target_tags = { "eks:cluster-name" = "shop" }, stop_alarm_arn = "" }
  }
  expect_failures = [var.fault_injection]
}

run "the_role_is_named_described_and_given_policies" {
  variables {
    iam_role_name                 = "NodesOfShop"
    iam_role_description          = "Drains the nodes of shop"
    iam_role_max_session_duration = 7200
    iam_role_policies             = { logs = "arn:aws:iam::aws:policy/CloudWatchLogsFullAccess" }
  }
  assert {
    condition     = [one(aws_iam_role.this[*].name), one(aws_iam_role.this[*].description), one(aws_iam_role.this[*].max_session_duration)] == ["NodesOfShop", "Drains the nodes of shop", 7200]
    error_message = jsonencode(aws_iam_role.this)
  }
  assert {
    condition     = { for key, attachment in aws_iam_role_policy_attachment.given : key => [attachment.role, attachment.policy_arn] } == { logs = ["NodesOfShop", "arn:aws:iam::aws:policy/CloudWatchLogsFullAccess"] }
    error_message = jsonencode(aws_iam_role_policy_attachment.given)
  }
  assert {
    condition     = output.role_name == "NodesOfShop" && output.iam_role_unique_id == one(aws_iam_role.this[*].unique_id) && [output.namespace, output.service_account] == ["sundown", "sundown"]
    error_message = "The outputs say what was made."
  }
}

run "the_role_alone_has_a_prefix" {
  command = plan
  variables {
    iam_role_name            = "NodesOfShop"
    iam_role_use_name_prefix = true
    identity                 = "instance-profile"
  }
  assert {
    condition     = [one(aws_iam_role.this[*].name_prefix), one(aws_iam_instance_profile.this[*].name_prefix)] == ["NodesOfShop-", "NodesOfShop-"] && one(aws_iam_policy.this[*].name) == "sundown-shop_eu-west-1"
    error_message = jsonencode(aws_iam_role.this)
  }
}

run "or_everything_has_one_but_the_role" {
  command = plan
  variables {
    use_name_prefix          = true
    iam_role_use_name_prefix = false
  }
  assert {
    condition     = one(aws_iam_role.this[*].name) == "sundown-shop_eu-west-1" && one(aws_iam_policy.this[*].name_prefix) == "sundown-shop-"
    error_message = jsonencode(aws_iam_role.this)
  }
}

run "a_session_is_an_hour_or_longer" {
  command = plan
  variables {
    iam_role_max_session_duration = 900
  }
  expect_failures = [var.iam_role_max_session_duration]
}

run "pods_may_take_a_role_of_another_account_by_way_of_theirs" {
  variables {
    target_role_arn      = "arn:aws:iam::210987654321:role/nodes"
    disable_session_tags = true
    trial_queue          = true
  }
  assert {
    condition     = [for association in aws_eks_pod_identity_association.this : [association.target_role_arn, association.disable_session_tags, association.role_arn]] == [["arn:aws:iam::210987654321:role/nodes", true, one(aws_iam_role.this[*].arn)]]
    error_message = jsonencode(aws_eks_pod_identity_association.this)
  }
  assert {
    condition     = strcontains(output.policy_json, "TargetRole") && !strcontains(output.trust_policy_json, "aws:RequestTag") && output.pod_identity_external_id == one(aws_eks_pod_identity_association.this[*].external_id)
    error_message = output.trust_policy_json
  }
  # A trial's role trusts in the same way, and takes no other.
  assert {
    condition     = one(aws_eks_pod_identity_association.trial[*].disable_session_tags) && one(aws_eks_pod_identity_association.trial[*].target_role_arn) == null
    error_message = jsonencode(aws_eks_pod_identity_association.trial)
  }
}
