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

run "each_node_group_has_a_hook_of_its_own_beside_those_of_eks" {
  assert {
    condition     = module.sundown.lifecycle_hooks == { general = ["sundown-terminate"], spot = ["sundown-terminate"] }
    error_message = jsonencode(module.sundown.lifecycle_hooks)
  }
}
