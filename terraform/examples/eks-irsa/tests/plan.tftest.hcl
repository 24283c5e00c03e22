mock_provider "aws" {
  source = "../../tests/mocks"

  # The chart takes the ARN of a role and nothing else.
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/sundown-shop_eu-west-1" }
  }
}

variables {
  cluster_name       = "shop"
  region             = "eu-west-1"
  subnet_ids         = ["subnet-1", "subnet-2"]
  launch_template_id = "lt-1"
}

run "it_is_planned_before_anything_is_there" {
  command = plan
}

run "the_service_account_gets_the_role" {
  assert {
    condition     = strcontains(module.sundown.trust_policy_json, "\"oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF:sub\":\"system:serviceaccount:sundown:sundown\"")
    error_message = module.sundown.trust_policy_json
  }
  assert {
    condition     = yamldecode(output.helm_values).serviceAccount.annotations["eks.amazonaws.com/role-arn"] == module.sundown.role_arn
    error_message = output.helm_values
  }
  assert {
    condition     = module.sundown.lifecycle_hooks == { general = [] } && yamldecode(output.helm_values).config.lifecycleHook == ["sundown-terminate"]
    error_message = "Hooks come when Sundown runs, and it knows them before."
  }
}

run "then_the_hooks" {
  variables {
    enable_hooks = true
  }
  assert {
    condition     = module.sundown.lifecycle_hooks == { general = ["sundown-terminate"] } && keys(module.sundown.permission_policy_arns) == ["check"]
    error_message = jsonencode(module.sundown.lifecycle_hooks)
  }
}
