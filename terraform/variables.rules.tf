variable "events" {
  description = <<-TEXT
    What is listened for. `launch`: null means where a group has a launch hook. `warm_pool`: instances that leave a warm pool, whose nodes are put
    back as they were. `rebalance`: recommendations, which by default only taint the node (`--on`). `health`: scheduled changes.
  TEXT
  type = object({
    terminate = optional(bool, true)
    launch    = optional(bool)
    spot      = optional(bool, true)
    capacity  = optional(bool, true)
    state     = optional(bool, true)
    rebalance = optional(bool, true)
    health    = optional(bool, true)
    warm_pool = optional(bool, true)
  })
  default  = {}
  nullable = false
}

variable "enable_test_events" {
  description = "Whether the rules also match the source `sundown.test`. Whoever may call PutEvents in the account can then send test events."
  type        = bool
  default     = false
  nullable    = false
}

variable "rule_name_prefix" {
  description = "What the names of the rules begin with (`PREFIX_spot`); null: as set by `name`. Where an event bus has rules of several teams, it shows whose they are."
  type        = string
  default     = null
  validation {
    condition     = var.rule_name_prefix == null || can(regex("^[0-9A-Za-z._-]{1,64}$", var.rule_name_prefix))
    error_message = "rule_name_prefix: 1 to 64 letters, digits, dots, - and _."
  }
}

variable "message_group_ids" {
  description = <<-TEXT
    Message group of the messages of each rule, by event (`{ state = "state" }`). With groups the standard queue is a fair queue: where one group has a backlog, SQS gives the messages
    of the others first. A message without a group counts as a group of its own. A request with a group costs more (see the page on sizing).
  TEXT
  type        = map(string)
  default     = {}
  nullable    = false
  validation {
    condition     = length(setsubtract(keys(var.message_group_ids), ["terminate", "launch", "spot", "capacity", "state", "rebalance", "health", "warm-pool"])) == 0
    error_message = "message_group_ids: the events are terminate, launch, spot, capacity, state, rebalance, health and warm-pool."
  }
  validation {
    condition     = alltrue([for group in values(var.message_group_ids) : can(regex("^[!-~]{1,128}$", group))])
    error_message = "message_group_ids: a group has 1 to 128 letters, digits and signs, without spaces."
  }
}

variable "maximum_event_age_in_seconds" {
  description = "How long EventBridge tries to deliver an event, before it goes to the queue of undelivered ones."
  type        = number
  default     = 3600
  nullable    = false
  validation {
    condition     = var.maximum_event_age_in_seconds >= 60 && var.maximum_event_age_in_seconds <= 86400
    error_message = "maximum_event_age_in_seconds: 60 to 86400."
  }
}

variable "maximum_retry_attempts" {
  description = "How often it tries."
  type        = number
  default     = 185
  nullable    = false
  validation {
    condition     = var.maximum_retry_attempts >= 1 && var.maximum_retry_attempts <= 185
    error_message = "maximum_retry_attempts: 1 to 185."
  }
}

variable "create_delivery_role" {
  description = "Whether the rules send as a role, which a queue in another account needs and one in the same account must not have; the queue's account lists it among its `sender_arns`."
  type        = bool
  default     = false
  nullable    = false
}

variable "create_alarms" {
  description = "Whether there are CloudWatch alarms: on failed deliveries, on dead and undelivered letters, and on a queue that nobody reads."
  type        = bool
  default     = true
  nullable    = false
}

variable "create_receiving_alarm" {
  description = "Whether an alarm fires when no replica has asked the queue for messages for five minutes. It also fires before Sundown runs, and while it is scaled to 0. null: where `autoscaling_groups` have their hooks (`enable_hooks`)."
  type        = bool
  default     = null
}

variable "alarm_actions" {
  description = "ARNs that alarms notify, when they fire and when they are over."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "queue_age_alarm_seconds" {
  description = "How old the oldest message may be. A message may wait on purpose for as long as `--join-timeout` or `--launch-timeout` (5 m each), when its instance runs and is no node yet: stay above that. SQS leaves messages out that were received three times or more."
  type        = number
  default     = 420
  nullable    = false
  validation {
    condition     = var.queue_age_alarm_seconds >= 60
    error_message = "queue_age_alarm_seconds: 60 or more; CloudWatch counts in minutes."
  }
}

variable "fault_injection" {
  description = <<-TEXT
    A template of AWS Fault Injection Service that interrupts one spot instance with these tags; null: none. The alarm stops an experiment, and is
    required: one on what your users notice.
  TEXT
  type = object({
    target_tags    = map(string)
    stop_alarm_arn = string
  })
  default = null
  validation {
    condition     = var.fault_injection == null || try(length(var.fault_injection.target_tags) > 0, false)
    error_message = "fault_injection: target_tags must name a tag; without any, every spot instance of the account could be interrupted."
  }
  validation {
    condition     = var.fault_injection == null || try(var.fault_injection.stop_alarm_arn != null && var.fault_injection.stop_alarm_arn != "", false)
    error_message = "fault_injection: stop_alarm_arn is the ARN of a CloudWatch alarm."
  }
}
