mock_provider "aws" {
  source = "../../tests/mocks"
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
    condition     = module.sundown.lifecycle_hooks == { general = ["sundown-terminate"] }
    error_message = jsonencode(module.sundown.lifecycle_hooks)
  }
}
