# Who may send to the queues, and who may use their key.

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
  account_id   = "123456789012"
  queue_arns = {
    queue       = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop"
    dead        = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop-dead"
    undelivered = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop-undelivered"
    trial       = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop-trial"
  }
  rule_arns = ["arn:aws:events:eu-west-1:123456789012:rule/sundown-shop-spot", "arn:aws:events:eu-west-1:123456789012:rule/sundown-shop-terminate"]
}

run "these_rules_send_and_nobody_else" {
  command = plan
  assert {
    condition = jsondecode(output.queue_policies.queue) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid       = "Rules"
          Effect    = "Allow"
          Principal = { Service = "events.amazonaws.com" }
          Action    = "sqs:SendMessage"
          Resource  = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop"
          Condition = { ArnEquals = { "aws:SourceArn" = [
            "arn:aws:events:eu-west-1:123456789012:rule/sundown-shop-spot",
            "arn:aws:events:eu-west-1:123456789012:rule/sundown-shop-terminate",
          ] } }
        },
        {
          Sid       = "NobodyElse"
          Effect    = "Deny"
          Principal = "*"
          Action    = "sqs:SendMessage"
          Resource  = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop"
          Condition = { BoolIfExists = { "aws:PrincipalIsAWSService" = "false" } }
        },
        {
          Sid       = "EncryptedInTransit"
          Effect    = "Deny"
          Principal = "*"
          Action    = "sqs:*"
          Resource  = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop"
          Condition = { Bool = { "aws:SecureTransport" = "false" } }
        },
      ]
    }
    error_message = output.queue_policies.queue
  }
  assert {
    condition = alltrue([for part in ["undelivered", "trial"] :
      output.queue_policies[part] == replace(output.queue_policies.queue, "\"${var.queue_arns.queue}\"", "\"${var.queue_arns[part]}\"")
    ])
    error_message = jsonencode(output.queue_policies)
  }
  assert {
    condition     = [for statement in jsondecode(output.queue_policies.dead).Statement : statement.Sid] == ["EncryptedInTransit"]
    error_message = output.queue_policies.dead
  }
}

run "who_is_listed_may_send_too" {
  command = plan
  variables {
    sender_arns = ["arn:aws:iam::123456789012:role/notifications"]
  }
  assert {
    condition = [for statement in jsondecode(output.queue_policies.queue).Statement : statement if statement.Sid == "NobodyElse"][0].Condition == {
      ArnNotEquals = { "aws:PrincipalArn" = ["arn:aws:iam::123456789012:role/notifications"] }
      BoolIfExists = { "aws:PrincipalIsAWSService" = "false" }
    }
    error_message = output.queue_policies.queue
  }
  assert {
    condition = [for statement in jsondecode(output.queue_policies.queue).Statement : statement if statement.Sid == "Senders"][0].Principal == {
      AWS = ["arn:aws:iam::123456789012:role/notifications"]
    }
    error_message = output.queue_policies.queue
  }
  assert {
    condition     = !strcontains(output.queue_policies.trial, "notifications") && !strcontains(output.queue_policies.undelivered, "notifications")
    error_message = "Only the queue itself has other senders."
  }
  assert {
    condition     = strcontains(output.key_policy, "role/notifications")
    error_message = "Who sends to an encrypted queue needs its key."
  }
}

run "rules_may_use_the_key" {
  command = plan
  assert {
    condition = jsondecode(output.key_policy).Statement == [
      {
        Sid       = "Account"
        Effect    = "Allow"
        Principal = { AWS = "arn:aws:iam::123456789012:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Sid       = "Rules"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = "*"
        Condition = { ArnEquals = { "aws:SourceArn" = [
          "arn:aws:events:eu-west-1:123456789012:rule/sundown-shop-spot",
          "arn:aws:events:eu-west-1:123456789012:rule/sundown-shop-terminate",
        ] } }
      },
    ]
    error_message = output.key_policy
  }
}

run "a_statement_of_ones_own_is_added" {
  command = plan
  variables {
    extra_queue_statements = [{
      sid        = "Readers"
      actions    = ["sqs:GetQueueAttributes"]
      principals = { AWS = ["arn:aws:iam::123456789012:role/monitoring"] }
    }]
  }
  assert {
    condition = reverse(jsondecode(output.queue_policies.queue).Statement)[0] == {
      Sid       = "Readers"
      Effect    = "Allow"
      Action    = ["sqs:GetQueueAttributes"]
      Principal = { AWS = ["arn:aws:iam::123456789012:role/monitoring"] }
      Resource  = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop"
    }
    error_message = output.queue_policies.queue
  }
}

# An empty list of ARNs is no policy that AWS takes.
run "without_rules_nobody_sends" {
  command = plan
  variables {
    rule_arns = []
  }
  assert {
    condition     = [for statement in jsondecode(output.queue_policies.queue).Statement : statement.Effect] == ["Deny", "Deny"]
    error_message = output.queue_policies.queue
  }
}

run "no_other_part_has_a_queue" {
  command = plan
  variables {
    queue_arns = { other = "arn:aws:sqs:eu-west-1:123456789012:other" }
  }
  expect_failures = [var.queue_arns]
}
