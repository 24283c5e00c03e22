variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z._-]{0,99}$", var.cluster_name))
    error_message = "cluster_name: 1 to 100 letters, digits, dots, - and _, with a letter or digit first."
  }
}

variable "name" {
  description = "What the names of everything begin with; null: sundown- and the cluster's name."
  type        = string
  default     = null
  validation {
    condition     = var.name == null || can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,127}$", var.name))
    error_message = "name: 1 to 128 letters, digits, - and _, with a letter or digit first."
  }
}

variable "region" {
  description = "Region of the queue, the rules and the groups."
  type        = string
  validation {
    condition     = can(regex("^[a-z]{2,5}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region: a region's name, such as eu-west-1."
  }
}

variable "partition" {
  description = "Partition of the account: aws, aws-cn, aws-us-gov or another of AWS's."
  type        = string
  default     = "aws"
  validation {
    condition     = can(regex("^aws(-[a-z]+)*$", var.partition))
    error_message = "partition: aws, aws-cn, aws-us-gov or another of AWS's."
  }
}

variable "account_id" {
  description = "Account of the queue, the rules and the groups."
  type        = string
  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "account_id: 12 digits."
  }
}

variable "enable_test_events" {
  description = "Whether the patterns also match events of the source sundown.test."
  type        = bool
  default     = false
}

variable "queue_arns" {
  description = "ARNs of the queues by their part: queue, dead, undelivered, trial. The parts are static, the ARNs need not be known."
  type        = map(string)
  default     = {}
  validation {
    condition     = length(setsubtract(keys(var.queue_arns), ["queue", "dead", "undelivered", "trial"])) == 0
    error_message = "queue_arns: the parts are queue, dead, undelivered and trial."
  }
}

variable "rule_arns" {
  description = "ARNs of the rules that send to the queues."
  type        = list(string)
  default     = []
}

variable "sender_arns" {
  description = "ARNs of roles and users that may send to the queue besides EventBridge."
  type        = list(string)
  default     = []
}

variable "kms_key_arn" {
  description = "Key of the queue; null: none of one's own."
  type        = string
  default     = null
}

variable "group_tags" {
  description = "Tags of the groups whose hooks may be answered, each sufficient; without a value, its presence. null: eks:cluster-name, and kubernetes.io/cluster/NAME."
  type        = list(object({ key = string, value = optional(string) }))
  default     = null
}

variable "group_names" {
  description = "Names of the only groups whose hooks may be answered; null: those with the tags."
  type        = list(string)
  default     = null
}

variable "extra_statements" {
  description = "More statements of the service's policy."
  type = list(object({
    sid        = optional(string)
    effect     = optional(string, "Allow")
    actions    = list(string)
    resources  = list(string)
    conditions = optional(map(map(list(string))), {})
  }))
  default = []
}

variable "extra_queue_statements" {
  description = "More statements of the queue's policy; the resource is the queue."
  type = list(object({
    sid        = optional(string)
    effect     = optional(string, "Allow")
    actions    = list(string)
    principals = map(list(string))
    conditions = optional(map(map(list(string))), {})
  }))
  default = []
}

variable "identity" {
  description = "How the pods get the role: pod-identity, irsa or instance-profile."
  type        = string
  default     = "pod-identity"
  validation {
    condition     = contains(["pod-identity", "irsa", "instance-profile"], var.identity)
    error_message = "identity: pod-identity, irsa or instance-profile."
  }
}

variable "namespace" {
  description = "Namespace of the pods."
  type        = string
  default     = "sundown"
}

variable "service_account" {
  description = "Service account of the pods."
  type        = string
  default     = "sundown"
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's OIDC provider, for irsa."
  type        = string
  default     = null
}

variable "oidc_audience" {
  description = "Audience of the service account's token, for irsa."
  type        = string
  default     = "sts.amazonaws.com"
}

variable "fault_target_tags" {
  description = "Tags of the spot instances that fault injection may interrupt."
  type        = map(string)
  default     = {}
}
