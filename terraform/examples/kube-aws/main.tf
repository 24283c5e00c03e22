# A cluster on plain EC2 (kube-aws, kops): pods have the role of the instance that they run on.

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

resource "aws_launch_template" "controllers" {
  name_prefix   = "${var.cluster_name}-controllers-"
  image_id      = var.image_id
  instance_type = "m7i.large"

  iam_instance_profile {
    name = var.controller_instance_profile
  }

  # A pod is one hop further from the metadata service than its instance: with the default of one it gets no credentials. Every pod on these
  # instances that can reach the service gets them, which is why Sundown runs here, where only pods of the cluster's own do: see outputs.tf.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }
}

resource "aws_autoscaling_group" "controllers" {
  name_prefix         = "${var.cluster_name}-controllers-"
  min_size            = 3
  max_size            = 3
  vpc_zone_identifier = var.subnet_ids

  launch_template {
    id      = aws_launch_template.controllers.id
    version = aws_launch_template.controllers.latest_version
  }

  tag {
    key                 = "kubernetes.io/cluster/${var.cluster_name}"
    value               = "owned"
    propagate_at_launch = true
  }
}

module "sundown" {
  source = "../.."

  cluster_name  = var.cluster_name
  region        = var.region
  identity      = "instance-profile"
  create_role   = false
  role_arn      = var.controller_role_arn
  alarm_actions = var.alarm_actions
  permissions   = { check = true }

  # Off until Sundown runs: nobody would answer them, and each instance that goes would wait for its heartbeat timeout.
  enable_hooks = var.enable_hooks

  # The controllers run Sundown, and are drained by it like any other.
  autoscaling_groups = merge(
    { controllers = { name = aws_autoscaling_group.controllers.name } },
    { for key, name in var.worker_groups : key => { name = name } },
  )
}
