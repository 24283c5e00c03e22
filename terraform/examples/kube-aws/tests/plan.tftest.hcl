mock_provider "aws" {
  source = "../../tests/mocks"
}

variables {
  cluster_name                = "k8s.example.com"
  region                      = "eu-west-1"
  subnet_ids                  = ["subnet-1", "subnet-2"]
  image_id                    = "ami-1"
  controller_instance_profile = "controllers"
  controller_role_arn         = "arn:aws:iam::123456789012:role/controllers"
  worker_groups               = { general = "general.k8s.example.com" }
}

run "it_is_planned_before_anything_is_there" {
  command = plan
  assert {
    condition     = aws_launch_template.controllers.metadata_options[0].http_put_response_hop_limit == 2 && aws_launch_template.controllers.metadata_options[0].http_tokens == "required"
    error_message = "Pods are one hop further away."
  }
}

run "the_instances_role_gets_the_policy_and_all_groups_their_hooks" {
  assert {
    condition     = module.sundown.role_name == "controllers" && keys(module.sundown.lifecycle_hooks) == ["controllers", "general"]
    error_message = jsonencode(module.sundown.lifecycle_hooks)
  }
  assert {
    condition     = strcontains(module.sundown.policy_json, "aws:ResourceTag/kubernetes.io/cluster/k8s.example.com")
    error_message = module.sundown.policy_json
  }
}
