# Nothing decides how many there are of a resource that is known only after apply: a first plan would fail with "Invalid for_each argument".

mock_provider "aws" {
  source = "./tests/mocks"

  # What is given must be what it is said to be.
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-west-1:210987654321:own", url = "https://sqs.eu-west-1.amazonaws.com/210987654321/own" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-west-1:210987654321:key/own" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/own" }
  }
}

run "a_first_plan_is_made_whatever_is_not_known_yet" {
  command = plan
  module {
    source = "./tests/unknown"
  }
}

run "and_it_is_applied" {
  module {
    source = "./tests/unknown"
  }
}
