# An EKS cluster with the Pod Identity agent, a queue under a key of its own, and a drill for spot interruptions.

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

resource "aws_eks_addon" "pod_identity" {
  cluster_name = var.cluster_name
  addon_name   = "eks-pod-identity-agent"
}

module "sundown" {
  source = "../.."

  cluster_name       = var.cluster_name
  region             = var.region
  create_kms_key     = true
  alarm_actions      = var.alarm_actions
  autoscaling_groups = var.autoscaling_groups
  permissions        = { check = true }
  enable_test_events = true

  fault_injection = var.stop_alarm_arn == null ? null : {
    target_tags    = { "eks:cluster-name" = var.cluster_name }
    stop_alarm_arn = var.stop_alarm_arn
  }
}
