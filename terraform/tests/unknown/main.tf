# Everything that may be given is known only after apply.

terraform {
  required_version = ">= 1.7"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.2"
    }
  }
}

resource "aws_sqs_queue" "own" {
  name_prefix = "own-"
}

resource "aws_kms_key" "own" {
}

resource "aws_iam_role" "own" {
  name_prefix        = "own-"
  assume_role_policy = "{}"
}

resource "aws_cloudwatch_metric_alarm" "own" {
  alarm_name          = "own"
  comparison_operator = "GreaterThanThreshold"
  evaluation_periods  = 1
}

resource "aws_autoscaling_group" "own" {
  min_size = 0
  max_size = 1
}

module "sundown" {
  source = "../.."

  cluster_name              = "shop"
  region                    = "eu-west-1"
  create_queue              = false
  queue_arn                 = aws_sqs_queue.own.arn
  queue_url                 = aws_sqs_queue.own.url
  kms_key_arn               = aws_kms_key.own.arn
  create_role               = false
  role_arn                  = aws_iam_role.own.arn
  role_permissions_boundary = aws_iam_role.own.arn
  identity                  = "irsa"
  oidc_provider_arn         = "arn:aws:iam::123456789012:oidc-provider/${aws_iam_role.own.name}"
  create_delivery_role      = true
  sender_arns               = [aws_iam_role.own.arn]
  reader_arns               = [aws_iam_role.own.arn]
  alarm_actions             = [aws_cloudwatch_metric_alarm.own.arn]
  permissions               = { check = true, test = true, afterwards = true, impaired = true }
  trial_queue               = true
  limit_to_groups           = true
  fault_injection           = { target_tags = { team = aws_autoscaling_group.own.name }, stop_alarm_arn = aws_cloudwatch_metric_alarm.own.arn }
  autoscaling_groups        = { own = { name = aws_autoscaling_group.own.name, launch = true } }
}

# The same with what the module makes itself.
module "made" {
  source = "../.."

  cluster_name       = "shop"
  region             = "eu-west-1"
  create_kms_key     = true
  use_name_prefix    = true
  sender_arns        = [aws_iam_role.own.arn]
  autoscaling_groups = { own = { name = aws_autoscaling_group.own.name } }
}
