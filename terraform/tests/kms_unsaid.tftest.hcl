# With a key, sqs_managed_sse_enabled is not said at all: the provider refuses it beside a key even where it is false. A provider that finds out
# "true" shows whether it was.

mock_provider "aws" {
  source = "./tests/mocks"
}

override_resource {
  target = aws_sqs_queue.this
  values = { sqs_managed_sse_enabled = true }
}

override_resource {
  target = aws_sqs_queue.dead
  values = { sqs_managed_sse_enabled = true }
}

variables {
  cluster_name   = "shop"
  region         = "eu-west-1"
  create_kms_key = true
}

run "encryption_by_sqs_is_left_to_the_provider" {
  assert {
    condition     = one(aws_sqs_queue.this[*].sqs_managed_sse_enabled) && one(aws_sqs_queue.dead[*].sqs_managed_sse_enabled)
    error_message = "It is said to be false."
  }
}
