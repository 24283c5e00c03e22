variable "create_queue" {
  description = "Whether the queue and its dead-letter queue are made; if not, `queue_arn` and `queue_url` name the queue to use, and `queue_policy_json` is the policy that it needs."
  type        = bool
  default     = true
  nullable    = false
}

variable "queue_arn" {
  description = "ARN of a queue of your own, where `create_queue` is false; a standard queue of the module's region. In another account only with `create_delivery_role`."
  type        = string
  default     = null
  validation {
    condition     = var.queue_arn == null || (can(regex("^arn:[a-z-]+:sqs:[0-9a-z-]+:[0-9]{12}:[0-9A-Za-z_.-]+$", var.queue_arn)) && !endswith(coalesce(var.queue_arn, "-"), ".fifo"))
    error_message = "queue_arn: the ARN of a standard queue (arn:aws:sqs:REGION:ACCOUNT:NAME), not its URL and not of a FIFO queue."
  }
}

variable "queue_url" {
  description = "URL of that queue."
  type        = string
  default     = null
  validation {
    condition     = var.queue_url == null || can(regex("^https?://", var.queue_url))
    error_message = "queue_url: the queue's URL (https://sqs.REGION.amazonaws.com/ACCOUNT/NAME), not its ARN."
  }
}

variable "queue_name" {
  description = "Name of the queue; the names of its dead-letter queue, of the queue of undelivered events and of the trial queue begin with it. null: as set by `name`."
  type        = string
  default     = null
  validation {
    condition     = var.queue_name == null || (can(regex("^[0-9A-Za-z_-]{1,80}$", var.queue_name)) && !endswith(coalesce(var.queue_name, "-"), "-trial"))
    error_message = "queue_name: 1 to 80 letters, digits, - and _. It must not end with -trial, which marks the queue of a trial."
  }
}

variable "create_kms_key" {
  description = "Whether the queue gets a key of its own in KMS, with a policy that lets the rules use it. Else SQS encrypts by itself."
  type        = bool
  default     = false
  nullable    = false
}

variable "kms_key_arn" {
  description = "ARN of a key of your own for the queue, not of an alias. Its policy must hold the statements of `kms_key_policy_json`, or EventBridge cannot send; the key that AWS manages never works."
  type        = string
  default     = null
  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[0-9a-z-]+:[0-9]{12}:key/[0-9A-Za-z-]+$", var.kms_key_arn))
    error_message = "kms_key_arn: a key's ARN (arn:aws:kms:REGION:ACCOUNT:key/ID). SQS takes an alias or an id, and the role's policy then allows nothing; alias/aws/sqs never works, since EventBridge may not use that key."
  }
}

variable "queue_kms_data_key_reuse_period_seconds" {
  description = "For how long SQS uses a data key before it asks KMS for another, where the queue has a key. null: SQS's own default, 300."
  type        = number
  default     = null
  validation {
    condition     = var.queue_kms_data_key_reuse_period_seconds == null || try(var.queue_kms_data_key_reuse_period_seconds >= 60 && var.queue_kms_data_key_reuse_period_seconds <= 86400, false)
    error_message = "queue_kms_data_key_reuse_period_seconds: 60 to 86400."
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
  description = "After this many receives a message goes to the dead-letter queue. Each change of leader adds one or two receives to a message that is not decided yet."
  type        = number
  default     = 10
  nullable    = false
  validation {
    condition     = var.max_receive_count >= 5 && var.max_receive_count <= 1000
    error_message = "max_receive_count: 5 to 1000."
  }
}

variable "sender_arns" {
  description = "ARNs of roles that may send to the queue besides EventBridge: a notification role of Auto Scaling, the delivery role of another account, who redrives dead letters. Everybody else is denied. Whole ARNs of roles or users, without wildcards."
  type        = list(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for arn in var.sender_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/[^*?]+$", arn))])
    error_message = "sender_arns: whole ARNs of roles or users (arn:aws:iam::ACCOUNT:role/NAME), without wildcards: one would open the queue, by which nodes are drained, to everybody."
  }
}

variable "reader_arns" {
  description = "ARNs of roles of other accounts that receive from the queue: the role of a Sundown whose groups are in another account than the queue."
  type        = list(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for arn in var.reader_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/[^*?]+$", arn))])
    error_message = "reader_arns: whole ARNs of roles (arn:aws:iam::ACCOUNT:role/NAME), without wildcards."
  }
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
  description = "Whether the same rules also fill a second queue, without dead letters and alarms, that keeps messages for a day, with a role of its own that may read it and write nothing else: for trying Sundown beside what drains today."
  type        = bool
  default     = false
  nullable    = false
}

variable "trial_only" {
  description = "Whether the rules fill the trial queue alone, while nobody reads the other: it then has no alarm on its age, and is empty when Sundown takes over. Needs `trial_queue = true` and `enable_hooks = false`."
  type        = bool
  default     = false
  nullable    = false
}

variable "trial_namespace" {
  description = "Namespace of the trial's pods."
  type        = string
  default     = "sundown-trial"
  nullable    = false
}

variable "trial_service_account" {
  description = "Service account of the trial's pods."
  type        = string
  default     = "sundown-trial"
  nullable    = false
}
