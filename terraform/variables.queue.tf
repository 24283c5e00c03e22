variable "create_queue" {
  description = "Whether the queue and its dead-letter queue are made; if not, `queue_arn` and `queue_url` say which to use, and `queue_policy_json` what its policy must be."
  type        = bool
  default     = true
  nullable    = false
}

variable "queue_arn" {
  description = "ARN of a queue of your own, where `create_queue` is false. In another account only with `create_delivery_role`."
  type        = string
  default     = null
}

variable "queue_url" {
  description = "URL of that queue."
  type        = string
  default     = null
}

variable "create_kms_key" {
  description = "Whether the queue gets a key of its own in KMS, with a policy that lets the rules use it. Else SQS encrypts by itself."
  type        = bool
  default     = false
  nullable    = false
}

variable "kms_key_arn" {
  description = "Key of your own for the queue. Its policy must hold the statements of `kms_key_policy_json`, or EventBridge cannot send; `alias/aws/sqs` never works."
  type        = string
  default     = null
  validation {
    condition     = var.kms_key_arn == null || !can(regex("alias/aws/", var.kms_key_arn))
    error_message = "kms_key_arn: a key that AWS manages has a policy that does not let EventBridge use it; make one of your own (create_kms_key)."
  }
}

variable "message_retention_seconds" {
  description = "How long the queue keeps a message; the other queues keep theirs for 14 days."
  type        = number
  default     = 345600
  nullable    = false
  validation {
    condition     = var.message_retention_seconds >= 3600 && var.message_retention_seconds <= 1209600
    error_message = "message_retention_seconds: 3600 (an hour) to 1209600 (14 days)."
  }
}

variable "max_receive_count" {
  description = "After so many receives a message goes to the dead-letter queue. Each change of leader costs a message that is not decided yet one receive."
  type        = number
  default     = 10
  nullable    = false
  validation {
    condition     = var.max_receive_count >= 5 && var.max_receive_count <= 1000
    error_message = "max_receive_count: 5 to 1000."
  }
}

variable "sender_arns" {
  description = "ARNs of roles that may send to the queue besides EventBridge: a notification role of Auto Scaling, the delivery role of another account, who redrives dead letters. Everybody else is denied."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "extra_queue_statements" {
  description = "More statements of the queue's policy; their resource is the queue."
  type = list(object({
    sid        = optional(string)
    effect     = optional(string, "Allow")
    actions    = list(string)
    principals = map(list(string))
    conditions = optional(map(map(list(string))), {})
  }))
  default  = []
  nullable = false
}

variable "trial_queue" {
  description = "Whether the same rules also fill a second queue, without dead letters and alarms, that keeps messages for a day: for trying Sundown beside what drains today."
  type        = bool
  default     = false
  nullable    = false
}
