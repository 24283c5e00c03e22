# What AWS would answer. Everything else is made up by Terraform: a mocked ARN is a word of eight letters.

mock_data "aws_caller_identity" {
  defaults = { account_id = "123456789012" }
}

mock_data "aws_partition" {
  defaults = { partition = "aws" }
}

mock_data "aws_eks_cluster" {
  defaults = { identity = [{ oidc = [{ issuer = "https://oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF" }] }] }
}

mock_data "aws_iam_openid_connect_provider" {
  defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF" }
}

# What the provider finds out by itself where it is not told: so a test sees what was not said.
mock_resource "aws_sqs_queue" {
  defaults = { redrive_policy = "not given", sqs_managed_sse_enabled = false }
}
