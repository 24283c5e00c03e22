locals {
  # Who may send. Within the account an IAM policy is enough to send to a queue, whatever the queue's policy allows, and whoever sends can
  # drain nodes: only a Deny keeps others out. Redriving dead letters is sending, too.
  from_rules = length(var.rule_arns) == 0 ? [] : [{
    Sid       = "Rules"
    Effect    = "Allow"
    Principal = { Service = "events.amazonaws.com" }
    Action    = "sqs:SendMessage"
    Condition = { ArnEquals = { "aws:SourceArn" = var.rule_arns } }
  }]

  from_senders = length(var.sender_arns) == 0 ? [] : [{
    Sid       = "Senders"
    Effect    = "Allow"
    Principal = { AWS = var.sender_arns }
    Action    = "sqs:SendMessage"
  }]

  # A role of another account needs the queue's word besides its own policy.
  to_readers = { for place in ["queue", "dead_queue"] : place => [for arns in [var.reader_arns] : {
    Sid       = "Readers"
    Effect    = "Allow"
    Principal = { AWS = arns }
    Action    = sort(distinct(flatten([for call in local.calls.service : call.actions if contains(flatten([call.on]), place)])))
  } if length(arns) > 0] }

  # Senders may send to the queue alone: what the rules did not deliver, a trial and dead letters are no business of theirs. What lies among dead letters
  # is moved to the queue by hand, as a listed sender: without the Deny there, everybody would have a way in.
  nobody_else = { for part, senders in { queue = var.sender_arns, others = [] } : part => [{
    Sid       = "NobodyElse"
    Effect    = "Deny"
    Principal = "*"
    Action    = "sqs:SendMessage"
    Condition = merge(
      { BoolIfExists = { "aws:PrincipalIsAWSService" = "false" } },
      { for operator, arns in { ArnNotEquals = senders } : operator => { "aws:PrincipalArn" = arns } if length(arns) > 0 },
    )
  }] }

  encrypted = [{
    Sid       = "EncryptedInTransit"
    Effect    = "Deny"
    Principal = "*"
    Action    = "sqs:*"
    Condition = { Bool = { "aws:SecureTransport" = "false" } }
  }]

  more = [for statement in var.extra_queue_statements : merge(
    { for key, value in { Sid = statement.sid } : key => value if value != null },
    { Effect = statement.effect, Principal = statement.principals, Action = statement.actions },
    { for key, value in { Condition = statement.conditions } : key => value if length(value) > 0 },
  )]

  # Dead letters come from SQS itself, which needs no permission and is no principal of an account; to move them back is to receive here and to
  # send to the queue. The rules send to the others.
  of_queue = {
    queue       = concat(local.from_rules, local.from_senders, local.to_readers.queue, local.nobody_else.queue, local.encrypted, local.more)
    undelivered = concat(local.from_rules, local.nobody_else.others, local.encrypted)
    trial       = concat(local.from_rules, local.nobody_else.others, local.encrypted)
    dead        = concat(local.to_readers.dead_queue, local.nobody_else.others, local.encrypted)
  }

  queue_policies = {
    for part, arn in var.queue_arns : part => jsonencode({
      Version   = "2012-10-17"
      Statement = [for statement in local.of_queue[part] : merge(statement, { Resource = arn })]
    })
  }

  # Without these two EventBridge cannot send to a queue under a key of one's own, and says nothing but a count of failed invocations.
  key_for_rules = length(var.rule_arns) == 0 ? [] : [{
    Sid       = "Rules"
    Effect    = "Allow"
    Principal = { Service = "events.amazonaws.com" }
    Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource  = "*"
    Condition = { ArnEquals = { "aws:SourceArn" = var.rule_arns } }
  }]

  key_for_senders = length(var.sender_arns) == 0 ? [] : [{
    Sid       = "Senders"
    Effect    = "Allow"
    Principal = { AWS = var.sender_arns }
    Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource  = "*"
  }]

  key_for_readers = length(var.reader_arns) == 0 ? [] : [{
    Sid       = "Readers"
    Effect    = "Allow"
    Principal = { AWS = var.reader_arns }
    Action    = ["kms:Decrypt"]
    Resource  = "*"
  }]

  # IAM policies of the account rule for everybody else, the service among them.
  key_policy = {
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid       = "Account"
        Effect    = "Allow"
        Principal = { AWS = "arn:${var.partition}:iam::${var.account_id}:root" }
        Action    = "kms:*"
        Resource  = "*"
      }],
      local.key_for_rules,
      local.key_for_senders,
      local.key_for_readers,
    )
  }
}
