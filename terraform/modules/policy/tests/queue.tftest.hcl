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
    condition = jsondecode(output.queue_policies.dead).Statement == [
      {
        Sid       = "NobodyElse"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:SendMessage"
        Resource  = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop-dead"
        Condition = { BoolIfExists = { "aws:PrincipalIsAWSService" = "false" } }
      },
      {
        Sid       = "EncryptedInTransit"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop-dead"
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
    error_message = output.queue_policies.dead
  }
}

# Redrive: what lies among dead letters is received and deleted there, and sent to the queue. Only sending is denied.
run "who_moves_dead_letters_back_is_not_denied_what_that_needs" {
  command = plan
  variables {
    sender_arns = ["arn:aws:iam::123456789012:role/operators"]
  }
  assert {
    condition     = [for statement in jsondecode(output.queue_policies.dead).Statement : statement.Action if statement.Effect == "Deny" && statement.Sid != "EncryptedInTransit"] == ["sqs:SendMessage"] && !strcontains(output.queue_policies.dead, "operators")
    error_message = output.queue_policies.dead
  }
  assert {
    condition     = strcontains(output.queue_policies.queue, "role/operators")
    error_message = output.queue_policies.queue
  }
}

run "everybody_is_no_sender" {
  command = plan
  variables {
    sender_arns = ["*"]
  }
  expect_failures = [var.sender_arns]
}

run "nor_is_every_role" {
  command = plan
  variables {
    sender_arns = ["arn:aws:iam::123456789012:role/*"]
  }
  expect_failures = [var.sender_arns]
}

# These two are allowed and then denied by NobodyElse, silently.
run "nor_is_a_session" {
  command = plan
  variables {
    sender_arns = ["arn:aws:sts::123456789012:assumed-role/notifications/one"]
  }
  expect_failures = [var.sender_arns]
}

run "nor_is_an_account" {
  command = plan
  variables {
    sender_arns = ["arn:aws:iam::123456789012:root"]
  }
  expect_failures = [var.sender_arns]
}

run "nobody_reads_by_a_wildcard" {
  command = plan
  variables {
    reader_arns = ["arn:aws:iam::123456789012:role/*"]
  }
  expect_failures = [var.reader_arns]
}

run "a_role_of_another_account_reads" {
  command = plan
  variables {
    reader_arns = ["arn:aws:iam::210987654321:role/sundown-shop_eu-west-1"]
  }
  assert {
    condition = [for statement in jsondecode(output.queue_policies.queue).Statement : statement if statement.Sid == "Readers"] == [{
      Sid       = "Readers"
      Effect    = "Allow"
      Principal = { AWS = ["arn:aws:iam::210987654321:role/sundown-shop_eu-west-1"] }
      Action    = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
      Resource  = "arn:aws:sqs:eu-west-1:123456789012:sundown-shop"
    }]
    error_message = output.queue_policies.queue
  }
  assert {
    condition     = [for statement in jsondecode(output.key_policy).Statement : [statement.Action, statement.Principal] if statement.Sid == "Readers"] == [[["kms:Decrypt"], { AWS = ["arn:aws:iam::210987654321:role/sundown-shop_eu-west-1"] }]]
    error_message = output.key_policy
  }
  assert {
    condition     = [for statement in jsondecode(output.queue_policies.dead).Statement : statement.Action if statement.Sid == "Readers"] == [["sqs:GetQueueAttributes"]]
    error_message = output.queue_policies.dead
  }
  assert {
    condition     = alltrue([for part in ["undelivered", "trial"] : !strcontains(output.queue_policies[part], "210987654321")])
    error_message = "Only the queue and its dead letters have readers elsewhere."
  }
}

run "a_key_is_no_alias" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:alias/own"
  }
  expect_failures = [var.kms_key_arn]
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
