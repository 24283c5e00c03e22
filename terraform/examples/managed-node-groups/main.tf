# Managed node groups. EKS drains them itself where it acts (updates, scaling by its API), by hooks of its own, which Sundown leaves alone; what Auto
# Scaling or EC2 does (a zone out of balance, a scale-in by another hand, an instance that fails its checks) is Sundown's.

terraform {
  required_version = ">= 1.7"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0"
    }
  }
}

provider "aws" {
  region = var.region
}

resource "aws_eks_node_group" "this" {
  for_each = var.node_groups

  cluster_name    = var.cluster_name
  node_group_name = each.key
  node_role_arn   = var.node_role_arn
  subnet_ids      = var.subnet_ids
  capacity_type   = each.value.capacity_type
  instance_types  = each.value.instance_types

  scaling_config {
    min_size     = each.value.min_size
    max_size     = each.value.max_size
    desired_size = each.value.min_size
  }
}

module "sundown" {
  source = "../.."

  cluster_name  = var.cluster_name
  region        = var.region
  alarm_actions = var.alarm_actions

  # EKS names the Auto Scaling groups when it makes them: the keys are those of the node groups, which are known before.
  autoscaling_groups = {
    for key, group in aws_eks_node_group.this : key => { name = group.resources[0].autoscaling_groups[0].name }
  }
}
