# An EKS cluster that vouches for its service accounts, with Auto Scaling groups of one's own.

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

data "aws_eks_cluster" "this" {
  name = var.cluster_name
}

data "aws_iam_openid_connect_provider" "this" {
  url = data.aws_eks_cluster.this.identity[0].oidc[0].issuer
}

resource "aws_autoscaling_group" "general" {
  name_prefix         = "${var.cluster_name}-general-"
  min_size            = 2
  max_size            = 10
  vpc_zone_identifier = var.subnet_ids

  mixed_instances_policy {
    instances_distribution {
      on_demand_percentage_above_base_capacity = 50
      spot_allocation_strategy                 = "price-capacity-optimized"
    }
    launch_template {
      launch_template_specification {
        launch_template_id = var.launch_template_id
        version            = "$Latest"
      }
    }
  }

  # By it the role may answer the group's hooks, and Sundown knows the group's instances before they are nodes.
  tag {
    key                 = "kubernetes.io/cluster/${var.cluster_name}"
    value               = "owned"
    propagate_at_launch = true
  }
}

module "sundown" {
  source = "../.."

  cluster_name      = var.cluster_name
  region            = var.region
  identity          = "irsa"
  oidc_provider_arn = data.aws_iam_openid_connect_provider.this.arn
  alarm_actions     = var.alarm_actions
  permissions       = { check = true }

  # Off until Sundown runs: nobody would answer them, and each instance that goes would wait for its heartbeat timeout.
  enable_hooks = var.enable_hooks

  # The key is static, so that Terraform can plan before the group has a name.
  autoscaling_groups = {
    general = { name = aws_autoscaling_group.general.name }
  }
}
