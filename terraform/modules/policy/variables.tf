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
    condition     = var.name == null || can(regex("^[0-9A-Za-z][0-9A-Za-z-]{0,127}$", var.name))
    error_message = "name: 1 to 128 letters, digits and -, with a letter or digit first; an underscore tells the parts from the name."
  }
}

variable "queue_name" {
  description = "Name of the queue; the names of the other queues begin with it. null: as set by name."
  type        = string
  default     = null
  validation {
    condition     = var.queue_name == null || (can(regex("^[0-9A-Za-z_-]{1,80}$", var.queue_name)) && !endswith(coalesce(var.queue_name, "-"), "-trial"))
    error_message = "queue_name: 1 to 80 letters, digits, - and _. It must not end with -trial, which marks the queue of a trial."
  }
}

variable "rule_name_prefix" {
  description = "What the names of the rules begin with; null: as set by name."
  type        = string
  default     = null
  validation {
    condition     = var.rule_name_prefix == null || can(regex("^[0-9A-Za-z._-]{1,64}$", var.rule_name_prefix))
    error_message = "rule_name_prefix: 1 to 64 letters, digits, dots, - and _."
  }
}

variable "role_name" {
  description = "Name of the service's role; null: as set by name."
  type        = string
  default     = null
  validation {
    condition     = var.role_name == null || can(regex("^[0-9A-Za-z+=,.@_-]{1,64}$", var.role_name))
    error_message = "role_name: 1 to 64 letters, digits and + = , . @ _ -."
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
  # A wildcard would open the queue to everybody and switch the Deny off: ArnNotEquals takes wildcards.
  validation {
    condition     = alltrue([for arn in var.sender_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/[^*?]+$", arn))])
    error_message = "sender_arns: whole ARNs of roles or users (arn:aws:iam::ACCOUNT:role/NAME), without wildcards."
  }
}

variable "reader_arns" {
  description = "ARNs of roles of other accounts that receive from the queue; in the queue's own account the role's policy is enough."
  type        = list(string)
  default     = []
  validation {
    condition     = alltrue([for arn in var.reader_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/[^*?]+$", arn))])
    error_message = "reader_arns: whole ARNs of roles (arn:aws:iam::ACCOUNT:role/NAME), without wildcards."
  }
}

variable "kms_key_arn" {
  description = "ARN of the queue's key; null: none of one's own."
  type        = string
  default     = null
  # KMS authorises against the key's ARN: a policy that names an alias allows nothing.
  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[0-9a-z-]+:[0-9]{12}:key/[0-9A-Za-z-]+$", var.kms_key_arn))
    error_message = "kms_key_arn: a key's ARN (arn:aws:kms:REGION:ACCOUNT:key/ID), not an alias or an id."
  }
}

variable "group_tags" {
  description = "Tags of the groups whose hooks may be answered, each sufficient; without a value, its presence. null: eks:cluster-name, and kubernetes.io/cluster/NAME."
  type        = list(object({ key = string, value = optional(string) }))
  default     = null
}

variable "group_names" {
  description = "Names of groups whose hooks may be answered whatever their tags, besides the groups with the tags."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "limit_to_group_names" {
  description = "Whether only the groups in group_names may be answered, and the tags count for nothing."
  type        = bool
  default     = false
  nullable    = false
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

variable "trial_namespace" {
  description = "Namespace of the trial's pods."
  type        = string
  default     = "sundown-trial"
}

variable "trial_service_account" {
  description = "Service account of the trial's pods."
  type        = string
  default     = "sundown-trial"
}

variable "disable_session_tags" {
  description = "Whether Pod Identity sends no session tags. The trust policy then cannot name cluster, namespace and service account."
  type        = bool
  default     = false
  nullable    = false
}

variable "target_role_arn" {
  description = "ARN of the role that Pod Identity takes for the pods by way of the service's role; null: none."
  type        = string
  default     = null
  validation {
    condition     = var.target_role_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/[^*?]+$", var.target_role_arn))
    error_message = "target_role_arn: the whole ARN of a role (arn:aws:iam::ACCOUNT:role/NAME), without wildcards."
  }
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
