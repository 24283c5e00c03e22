variable "cluster_name" {
  description = "Name of the cluster: the queue belongs to it alone, and the role may answer hooks only of groups tagged for it."
  type        = string
  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "A cluster's name has 1 to 100 letters, digits, - and _."
  }
}

variable "name" {
  description = "Prefix of everything that is made; null: sundown- and the cluster's name, cut to 48 characters. Rules allow 64 in all."
  type        = string
  default     = null
  validation {
    condition     = var.name == null || can(regex("^[0-9A-Za-z_-]{1,48}$", coalesce(var.name, "x")))
    error_message = "Use 1 to 48 letters, digits, - and _."
  }
}

variable "lifecycle_hooks" {
  description = <<-TEXT
    Groups that get a terminate hook. The keys are yours and must be known before anything is applied; the names of groups may come out of other resources.
    Remove a hook only while no instance waits in it: deleting it ends its open actions.
  TEXT
  type = map(object({
    group_name        = string
    hook_name         = optional(string, "sundown")
    heartbeat_timeout = optional(number, 300)
  }))
  default = {}
  validation {
    condition     = alltrue([for hook in var.lifecycle_hooks : hook.heartbeat_timeout >= 30 && hook.heartbeat_timeout <= 7200])
    error_message = "heartbeat_timeout is 30 to 7200 seconds."
  }
}

variable "group_tag_key" {
  description = "Tag that a group must carry for its hooks to be answered; null: kubernetes.io/cluster/ and the cluster's name."
  type        = string
  default     = null
}

variable "kms_key_arn" {
  description = <<-TEXT
    Key of your own for the queue; null: SQS's own encryption. The key's policy must let events.amazonaws.com call kms:Decrypt and kms:GenerateDataKey:
    without that EventBridge cannot send, and alias/aws/sqs never works.
  TEXT
  type        = string
  default     = null
}

variable "extra_senders" {
  description = "ARNs of roles that may send to the queue besides AWS services: a notification role of Auto Scaling, who tests. Wildcards are allowed."
  type        = list(string)
  default     = []
}

variable "max_receive_count" {
  description = "After so many receives a message goes to the dead-letter queue."
  type        = number
  default     = 10
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
