locals {
  # For rules whose queue is in another account: EventBridge sends as this role. The queue's own account lists it among its senders.
  delivery_trust = {
    Version = "2012-10-17"
    Statement = [{
      Sid       = "Rules"
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = ["sts:AssumeRole"]
      Condition = {
        StringEquals = { "aws:SourceAccount" = var.account_id }
        ArnLike      = { "aws:SourceArn" = "arn:${var.partition}:events:${var.region}:${var.account_id}:rule/*" }
      }
    }]
  }
  delivery_policy = {
    Version = "2012-10-17"
    Statement = concat(
      [for arn in [lookup(var.queue_arns, "queue", null)] : {
        Sid      = "Send"
        Effect   = "Allow"
        Action   = ["sqs:SendMessage"]
        Resource = [arn]
      } if contains(keys(var.queue_arns), "queue")],
      [for arn in [var.kms_key_arn] : {
        Sid      = "Key"
        Effect   = "Allow"
        Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource = [arn]
      } if arn != null],
    )
  }

  # Where AWS offers no interruption of spot instances: all of China, Jakarta, Osaka, UAE.
  fault_injection_offered = !startswith(var.region, "cn-") && !contains(["ap-southeast-3", "ap-northeast-3", "me-central-1"], var.region)

  fault_trust = {
    Version = "2012-10-17"
    Statement = [{
      Sid       = "FaultInjection"
      Effect    = "Allow"
      Principal = { Service = "fis.amazonaws.com" }
      Action    = ["sts:AssumeRole"]
      Condition = {
        StringEquals = { "aws:SourceAccount" = var.account_id }
        ArnLike      = { "aws:SourceArn" = "arn:${var.partition}:fis:${var.region}:${var.account_id}:experiment/*" }
      }
    }]
  }
  fault_policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "Find"
        Effect    = "Allow"
        Action    = ["ec2:DescribeInstances"]
        Resource  = ["*"]
        Condition = { StringEquals = { "aws:RequestedRegion" = [var.region] } }
      },
      {
        Sid       = "Interrupt"
        Effect    = "Allow"
        Action    = ["ec2:SendSpotInstanceInterruptions"]
        Resource  = ["arn:${var.partition}:ec2:${var.region}:${var.account_id}:instance/*"]
        Condition = { StringEquals = { for key, value in var.fault_target_tags : "aws:ResourceTag/${key}" => [value] } }
      },
    ]
  }
}
