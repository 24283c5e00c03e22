# Managed node groups. EKS drains their nodes itself: in updates, at every termination by Auto Scaling (by hooks of its own, which Sundown leaves
# alone), and on spot where EC2 recommends to rebalance. But at a termination it waits for 15 minutes at most, whatever the budgets still hold back.
# A hook of one's own is what AWS names to wait longer, and Sundown keeps it open and goes on by the budgets. See terraform/README.md.

terraform {
  required_version = ">= 1.7"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.2"
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

  # What an autoscaler has made of it since is not to be taken back by the next apply.
  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }
}

# Without the agent the association does nothing, and pods have the role of their node. A cluster that has the add-on already says so at apply.
resource "aws_eks_addon" "pod_identity" {
  count = var.create_pod_identity_agent ? 1 : 0

  cluster_name = var.cluster_name
  addon_name   = "eks-pod-identity-agent"
}

module "sundown" {
  source = "../.."

  cluster_name  = var.cluster_name
  region        = var.region
  alarm_actions = var.alarm_actions
  permissions   = { check = true }

  # Off until Sundown runs: nobody would answer them, and each instance that goes would wait for its heartbeat timeout.
  enable_hooks = var.enable_hooks

  # EKS names the Auto Scaling groups when it makes them: the keys are those of the node groups, which are known before.
  autoscaling_groups = {
    for key, group in aws_eks_node_group.this : key => { name = group.resources[0].autoscaling_groups[0].name }
  }
}
