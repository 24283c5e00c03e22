# A queue under a key.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
}

run "with_a_key_sqs_does_not_encrypt_too" {
  variables {
    create_kms_key = true
  }
  assert {
    condition     = alltrue([for queue in [aws_sqs_queue.this, aws_sqs_queue.dead] : one(queue[*].sqs_managed_sse_enabled) == false && one(queue[*].kms_master_key_id) == one(aws_kms_key.this[*].arn)])
    error_message = jsonencode([aws_sqs_queue.this, aws_sqs_queue.dead])
  }
  assert {
    condition     = one(aws_sqs_queue.undelivered[*].kms_master_key_id) == null && one(aws_sqs_queue.undelivered[*].sqs_managed_sse_enabled)
    error_message = "Under a key that EventBridge may not use an event would be lost twice."
  }
  assert {
    condition     = strcontains(one(aws_kms_key.this[*].policy), "events.amazonaws.com") && strcontains(one(aws_iam_policy.this[*].policy), "kms:Decrypt")
    error_message = "The rules and the service use the key."
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.this : strcontains(one(aws_kms_key.this[*].policy), rule.arn)])
    error_message = one(aws_kms_key.this[*].policy)
  }
}

run "a_key_of_ones_own_is_used" {
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/own"
  }
  assert {
    condition     = length(aws_kms_key.this) == 0 && one(aws_sqs_queue.this[*].kms_master_key_id) == "arn:aws:kms:eu-west-1:123456789012:key/own" && one(aws_sqs_queue.this[*].sqs_managed_sse_enabled) == false
    error_message = jsonencode(aws_sqs_queue.this)
  }
  assert {
    condition     = strcontains(output.kms_key_policy_json, "events.amazonaws.com")
    error_message = "Whose key it is must be told what its policy needs."
  }
}
