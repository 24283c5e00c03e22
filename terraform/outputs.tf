output "queue_url" {
  description = "For SUNDOWN_QUEUE_URL."
  value       = aws_sqs_queue.this.url
}

output "queue_arn" {
  description = "For a policy of your own."
  value       = aws_sqs_queue.this.arn
}

output "dead_letter_queue_url" {
  description = "What was not understood or not delivered. An alarm on its size is worth having."
  value       = aws_sqs_queue.dead.url
}

output "policy_arn" {
  description = "To be attached to the role that the pods run as."
  value       = aws_iam_policy.service.arn
}

output "policy_json" {
  description = "The same, for a role that is made elsewhere."
  value       = data.aws_iam_policy_document.service.json
}
