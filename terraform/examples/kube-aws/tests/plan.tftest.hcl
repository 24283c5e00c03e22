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

# The role is the controllers': on workers the pods would have no credentials.
run "the_pods_are_put_where_the_role_is" {
  assert {
    condition     = yamldecode(output.helm_values).nodeSelector == { "kubernetes.io/os" = "linux", "node-role.kubernetes.io/control-plane" = "" }
    error_message = output.helm_values
  }
  assert {
    condition     = contains([for toleration in yamldecode(output.helm_values).tolerations : "${toleration.key} ${toleration.operator}"], "node-role.kubernetes.io/control-plane Exists")
    error_message = output.helm_values
  }
  assert {
    condition     = yamldecode(output.helm_values).config.clusterName == "k8s.example.com" && module.sundown.lifecycle_hooks == { controllers = [], general = [] }
    error_message = output.helm_values
  }
}

run "the_instances_role_gets_the_policy_and_all_groups_their_hooks" {
  variables {
    enable_hooks = true
  }
  assert {
    condition     = module.sundown.role_name == "controllers" && module.sundown.lifecycle_hooks == { controllers = ["sundown-terminate"], general = ["sundown-terminate"] } && keys(module.sundown.permission_policy_arns) == ["check"]
    error_message = jsonencode(module.sundown.lifecycle_hooks)
  }
  assert {
    condition     = strcontains(module.sundown.policy_json, "aws:ResourceTag/kubernetes.io/cluster/k8s.example.com")
    error_message = module.sundown.policy_json
  }
}
