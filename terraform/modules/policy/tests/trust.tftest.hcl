# Who may take the roles.

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
  account_id   = "123456789012"
}

run "pod_identity_of_this_cluster_and_this_service_account" {
  command = plan
  assert {
    condition = jsondecode(output.trust_policy).Statement == [{
      Sid       = "PodIdentity"
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = { StringEquals = {
        "aws:SourceAccount"                         = "123456789012"
        "aws:RequestTag/eks-cluster-name"           = "shop"
        "aws:RequestTag/kubernetes-namespace"       = "sundown"
        "aws:RequestTag/kubernetes-service-account" = "sundown"
      } }
    }]
    error_message = output.trust_policy
  }
}

run "a_trial_has_a_service_account_of_its_own" {
  command = plan
  assert {
    condition = jsondecode(output.trial_trust_policy) == merge(jsondecode(output.trust_policy), { Statement = [merge(jsondecode(output.trust_policy).Statement[0], {
      Condition = { StringEquals = merge(jsondecode(output.trust_policy).Statement[0].Condition.StringEquals, {
        "aws:RequestTag/kubernetes-namespace"       = "sundown-trial"
        "aws:RequestTag/kubernetes-service-account" = "sundown-trial"
      }) }
    })] })
    error_message = output.trial_trust_policy
  }
}

run "irsa_with_audience_and_subject_equal" {
  command = plan
  variables {
    identity          = "irsa"
    oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF"
    namespace         = "ops"
    service_account   = "drainer"
  }
  assert {
    condition = jsondecode(output.trust_policy).Statement == [{
      Sid       = "ServiceAccount"
      Effect    = "Allow"
      Principal = { Federated = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF" }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = { StringEquals = {
        "oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF:aud" = "sts.amazonaws.com"
        "oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF:sub" = "system:serviceaccount:ops:drainer"
      } }
    }]
    error_message = output.trust_policy
  }
}

run "instances" {
  command = plan
  variables {
    identity = "instance-profile"
  }
  assert {
    condition     = jsondecode(output.trust_policy).Statement[0].Principal == { Service = "ec2.amazonaws.com" }
    error_message = output.trust_policy
  }
}

run "instances_in_china" {
  command = plan
  variables {
    identity  = "instance-profile"
    partition = "aws-cn"
    region    = "cn-north-1"
  }
  assert {
    condition     = jsondecode(output.trust_policy).Statement[0].Principal == { Service = "ec2.amazonaws.com.cn" }
    error_message = output.trust_policy
  }
}

run "there_is_no_fourth_way" {
  command = plan
  variables {
    identity = "kiam"
  }
  expect_failures = [var.identity]
}

run "rules_of_this_account_send_as_the_delivery_role" {
  command = plan
  variables {
    queue_arns  = { queue = "arn:aws:sqs:eu-west-1:210987654321:sundown-shop" }
    kms_key_arn = "arn:aws:kms:eu-west-1:210987654321:key/1"
  }
  assert {
    condition     = jsondecode(output.delivery_trust_policy).Statement[0].Condition.StringEquals == { "aws:SourceAccount" = "123456789012" }
    error_message = output.delivery_trust_policy
  }
  assert {
    condition = [for statement in jsondecode(output.delivery_policy).Statement : [statement.Action, statement.Resource]] == [
      [["sqs:SendMessage"], ["arn:aws:sqs:eu-west-1:210987654321:sundown-shop"]],
      [["kms:Decrypt", "kms:GenerateDataKey"], ["arn:aws:kms:eu-west-1:210987654321:key/1"]],
    ]
    error_message = output.delivery_policy
  }
}

run "faults_are_injected_into_tagged_instances_only" {
  command = plan
  variables {
    fault_target_tags = { "eks:cluster-name" = "shop", "sundown-drill" = "true" }
  }
  assert {
    condition = jsondecode(output.fault_policy).Statement[1] == {
      Sid       = "Interrupt"
      Effect    = "Allow"
      Action    = ["ec2:SendSpotInstanceInterruptions"]
      Resource  = ["arn:aws:ec2:eu-west-1:123456789012:instance/*"]
      Condition = { StringEquals = { "aws:ResourceTag/eks:cluster-name" = ["shop"], "aws:ResourceTag/sundown-drill" = ["true"] } }
    }
    error_message = output.fault_policy
  }
  assert {
    condition     = output.fault_injection_offered
    error_message = "Ireland has it."
  }
}

run "not_in_china" {
  command = plan
  variables {
    partition = "aws-cn"
    region    = "cn-northwest-1"
  }
  assert {
    condition     = !output.fault_injection_offered
    error_message = "China has it not."
  }
}

run "without_session_tags_the_trust_asks_for_none" {
  command = plan
  variables {
    identity             = "pod-identity"
    disable_session_tags = true
  }
  assert {
    condition     = jsondecode(output.trust_policy).Statement[0].Condition == { StringEquals = { "aws:SourceAccount" = "123456789012" } }
    error_message = output.trust_policy
  }
}
