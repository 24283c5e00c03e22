mock_provider "aws" {
  source = "../../tests/mocks"

  mock_resource "aws_eks_node_group" {
    defaults = { resources = [{ autoscaling_groups = [{ name = "eks-general-0123" }], remote_access_security_group_id = "" }] }
  }
}

variables {
  cluster_name  = "shop"
  region        = "eu-west-1"
  node_role_arn = "arn:aws:iam::123456789012:role/nodes"
  subnet_ids    = ["subnet-1", "subnet-2"]
  node_groups   = { general = { instance_types = ["m7i.large"] }, spot = { instance_types = ["m7i.large", "m6i.large"], capacity_type = "SPOT" } }
}

# The names of the Auto Scaling groups are not known here: a for_each over them would fail.
run "it_is_planned_before_anything_is_there" {
  command = plan
}

run "first_without_hooks_and_with_the_agent" {
  assert {
    condition     = module.sundown.lifecycle_hooks == { general = [], spot = [] } && aws_eks_addon.pod_identity[0].addon_name == "eks-pod-identity-agent"
    error_message = jsonencode(module.sundown.lifecycle_hooks)
  }
}

run "or_the_agent_is_there" {
  command = plan
  variables {
    create_pod_identity_agent = false
  }
  assert {
    condition     = length(aws_eks_addon.pod_identity) == 0
    error_message = "It would be made twice."
  }
}

run "each_node_group_has_a_hook_of_its_own_beside_those_of_eks" {
  variables {
    enable_hooks = true
  }
  assert {
    condition     = module.sundown.lifecycle_hooks == { general = ["sundown-terminate"], spot = ["sundown-terminate"] } && keys(module.sundown.permission_policy_arns) == ["check"]
    error_message = jsonencode(module.sundown.lifecycle_hooks)
  }
}
