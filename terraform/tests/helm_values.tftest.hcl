# Values for the chart, as AWS would name things. tests/terraform/chart.py holds what comes out against the chart's schema.

mock_provider "aws" {
  source = "./tests/mocks"

  mock_resource "aws_sqs_queue" {
    defaults = { url = "https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop", arn = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/platform/sundown-shop" }
  }
  override_resource {
    target = aws_sqs_queue.dead
    values = { url = "https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop_dead", arn = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop_dead" }
  }
}

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
}

run "pod_identity" {
  assert {
    condition = output.helm_values == {
      aws            = { region = "eu-west-1" }
      config         = { clusterName = "shop", queueUrls = ["https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop"], dlqUrls = ["https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop_dead"] }
      serviceAccount = { name = "sundown", annotations = {} }
    }
    error_message = jsonencode(output.helm_values)
  }
}

run "irsa" {
  variables {
    identity          = "irsa"
    oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF"
    service_account   = "drainer"
  }
  assert {
    condition = output.helm_values == {
      aws            = { region = "eu-west-1" }
      config         = { clusterName = "shop", queueUrls = ["https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop"], dlqUrls = ["https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop_dead"] }
      serviceAccount = { name = "drainer", annotations = { "eks.amazonaws.com/role-arn" = "arn:aws:iam::123456789012:role/platform/sundown-shop" } }
    }
    error_message = jsonencode(output.helm_values)
  }
}

# Hooks of others on the same groups are not Sundown's to answer. Said before the hooks are made: the chart comes first.
run "hooks_of_the_module_alone" {
  variables {
    enable_hooks       = false
    autoscaling_groups = { general = { name = "shop-general" } }
  }
  assert {
    condition     = jsonencode(output.helm_values.config.lifecycleHook) == jsonencode(["sundown-terminate"])
    error_message = jsonencode(output.helm_values)
  }
}

run "launch_hooks_too" {
  variables {
    autoscaling_groups = { general = { name = "shop-general", launch = true } }
  }
  assert {
    condition     = jsonencode(output.helm_values.config.lifecycleHook) == jsonencode(["sundown-terminate", "sundown-launch"]) && toset(output.helm_values.config.lifecycleHook) == toset(output.lifecycle_hooks.general)
    error_message = jsonencode(output.helm_values)
  }
}

run "trial" {
  variables {
    trial_queue       = true
    identity          = "irsa"
    oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF"
  }
  assert {
    condition = output.trial_helm_values == {
      aws            = { region = "eu-west-1" }
      config         = { dryRun = true, trial = true, clusterName = "shop", queueUrls = [one(aws_sqs_queue.trial[*].url)] }
      replicas       = 1
      serviceAccount = { name = "sundown-trial", annotations = { "eks.amazonaws.com/role-arn" = one(aws_iam_role.trial[*].arn) } }
    }
    error_message = jsonencode(output.trial_helm_values)
  }
}

run "instance_profile_in_china" {
  variables {
    region       = "cn-north-1"
    cluster_name = "k8s.example.com"
    identity     = "instance-profile"
    create_queue = false
    queue_url    = "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/own"
    queue_arn    = "arn:aws-cn:sqs:cn-north-1:123456789012:own"
  }
  assert {
    condition     = output.helm_values.config.queueUrls == ["https://sqs.cn-north-1.amazonaws.com.cn/123456789012/own"] && !can(output.helm_values.config.dlqUrls) && output.helm_values.aws.region == "cn-north-1" && length(output.helm_values.serviceAccount.annotations) == 0
    error_message = jsonencode(output.helm_values)
  }
}
