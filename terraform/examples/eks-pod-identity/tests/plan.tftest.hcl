mock_provider "aws" {
  source = "../../tests/mocks"
}

variables {
  cluster_name       = "shop"
  region             = "eu-west-1"
  autoscaling_groups = { general = { name = "shop-general" } }
}

run "it_is_planned_before_anything_is_there" {
  command = plan
}

run "without_an_alarm_there_are_no_drills" {
  assert {
    condition     = module.sundown.fault_injection_template_id == null && module.sundown.kms_key_arn != null && keys(module.sundown.permission_policy_arns) == ["check"]
    error_message = jsonencode(module.sundown.permission_policy_arns)
  }
}

run "with_one_there_are" {
  variables {
    stop_alarm_arn = "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:errors"
  }
  assert {
    condition     = module.sundown.fault_injection_template_id != null
    error_message = "There is no template."
  }
}
