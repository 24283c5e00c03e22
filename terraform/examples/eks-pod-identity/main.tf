# An EKS cluster with the Pod Identity agent, a queue under a key of its own, and a drill for spot interruptions.

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

# Without the agent the association does nothing, and pods have the role of their node. A cluster that has the add-on already says so at apply.
resource "aws_eks_addon" "pod_identity" {
  count = var.create_pod_identity_agent ? 1 : 0

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
  # For `sundown send-test`, which drains nothing unless the service is started to obey tests.
  enable_test_events = true

  # Off until Sundown runs: nobody would answer them, and each instance that goes would wait for its heartbeat timeout.
  enable_hooks = var.enable_hooks

  fault_injection = var.stop_alarm_arn == null ? null : {
    target_tags    = { "eks:cluster-name" = var.cluster_name }
    stop_alarm_arn = var.stop_alarm_arn
  }
}
