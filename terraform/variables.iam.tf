variable "identity" {
  description = "How the pods get the role: `pod-identity`, `irsa` (a role for the service account) or `instance-profile`."
  type        = string
  default     = "pod-identity"
  nullable    = false
  validation {
    condition     = contains(["pod-identity", "irsa", "instance-profile"], var.identity)
    error_message = "identity: pod-identity, irsa or instance-profile."
  }
}

variable "namespace" {
  description = "Namespace of the pods."
  type        = string
  default     = "sundown"
  nullable    = false
}

variable "service_account" {
  description = "Service account of the pods."
  type        = string
  default     = "sundown"
  nullable    = false
}

variable "create_role" {
  description = "Whether the role is made; if not, the role `role_arn` gets the policies."
  type        = bool
  default     = true
  nullable    = false
}

variable "role_arn" {
  description = "Role of your own, where `create_role` is false. Its trust policy must be `trust_policy_json`, or that of the nodes."
  type        = string
  default     = null
}

variable "attach_policies" {
  description = "Whether the policies are attached to the role. Without a role of either kind: false, and `policy_arn` is yours to attach."
  type        = bool
  default     = true
  nullable    = false
}

variable "iam_role_name" {
  description = "Name of the role; null: as set by `name`, with the region."
  type        = string
  default     = null
  validation {
    condition     = var.iam_role_name == null || can(regex("^[0-9A-Za-z+=,.@_-]{1,64}$", var.iam_role_name))
    error_message = "iam_role_name: 1 to 64 letters, digits and + = , . @ _ -."
  }
}

variable "iam_role_use_name_prefix" {
  description = "Whether Terraform appends something unique to the role's name; null: as set by `use_name_prefix`."
  type        = bool
  default     = null
}

variable "iam_role_description" {
  description = "Description of the role; null: `Sundown in cluster NAME`."
  type        = string
  default     = null
}

variable "iam_role_policies" {
  description = "ARNs of more policies for the role, by keys of your own, which must be known before anything is applied."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "iam_role_max_session_duration" {
  description = "For how long a session of the role may last, in seconds; null: an hour."
  type        = number
  default     = null
  validation {
    condition     = var.iam_role_max_session_duration == null || try(var.iam_role_max_session_duration >= 3600 && var.iam_role_max_session_duration <= 43200, false)
    error_message = "iam_role_max_session_duration: 3600 (an hour) to 43200 (12 hours)."
  }
}

variable "role_path" {
  description = "Path of the roles and policies that are made."
  type        = string
  default     = "/"
  nullable    = false
  validation {
    condition     = can(regex("^/([!-~]+/)?$", var.role_path))
    error_message = "role_path: begins and ends with a slash."
  }
}

variable "role_permissions_boundary" {
  description = "ARN of the policy that bounds the roles that are made."
  type        = string
  default     = null
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's OIDC provider, for `irsa`."
  type        = string
  default     = null
  validation {
    condition     = var.oidc_provider_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:oidc-provider/.+$", var.oidc_provider_arn))
    error_message = "oidc_provider_arn: the ARN of the provider in IAM (arn:aws:iam::ACCOUNT:oidc-provider/ISSUER), not the issuer's URL."
  }
}

variable "oidc_audience" {
  description = "Audience of the service account's token, for `irsa`."
  type        = string
  default     = "sts.amazonaws.com"
  nullable    = false
}

variable "create_pod_identity_association" {
  description = "Whether the service account is given the role, for `pod-identity`. The cluster needs the add-on `eks-pod-identity-agent`."
  type        = bool
  default     = true
  nullable    = false
}

variable "target_role_arn" {
  description = "Role of another account, or of this one, that Pod Identity takes for the pods by way of the module's role. The target role must trust the module's role (`role_arn`) with the external ID `pod_identity_external_id`, and have the policy `policy_json` or your own."
  type        = string
  default     = null
  validation {
    condition     = var.target_role_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/[^*?]+$", var.target_role_arn))
    error_message = "target_role_arn: the whole ARN of a role (arn:aws:iam::ACCOUNT:role/NAME), without wildcards."
  }
}

variable "disable_session_tags" {
  description = "Whether Pod Identity sends no session tags. Without them the role's trust policy names only the account: every cluster of the account for which somebody makes an association can take the role."
  type        = bool
  default     = false
  nullable    = false
}

variable "group_tags" {
  description = "Tags of the groups whose hooks the role may answer besides `autoscaling_groups`, each sufficient; without a value, its presence. null: `eks:cluster-name` with the cluster's name, and `kubernetes.io/cluster/NAME`."
  type        = list(object({ key = string, value = optional(string) }))
  default     = null
  validation {
    condition     = var.group_tags == null || try(length(var.group_tags) > 0, false)
    error_message = "group_tags: name at least one tag, or none at all (null)."
  }
}

variable "allow_groups_by_name" {
  description = "Whether the role may answer the hooks of `autoscaling_groups` whatever their tags. A policy holds some forty names: with more groups, tag them all and set this to false."
  type        = bool
  default     = true
  nullable    = false
}

variable "limit_to_groups" {
  description = "Whether the role may answer hooks only of `autoscaling_groups`: their names count, and tags do not."
  type        = bool
  default     = false
  nullable    = false
}

variable "extra_statements" {
  description = "More statements of the role's policy."
  type = list(object({
    sid        = optional(string)
    effect     = optional(string, "Allow")
    actions    = list(string)
    resources  = list(string)
    conditions = optional(map(map(list(string))), {})
  }))
  default  = []
  nullable = false
}

variable "permissions" {
  description = <<-TEXT
    Policies that only some need. `check`: look-ups of `sundown check` (attached to the role). `test`: sending test events, for people; it is not
    attached to the role. `afterwards`: terminating or detaching an instance after its drain (attached to the role; nothing in Sundown does so yet). `impaired`: what
    `--on impaired` and `--then impaired=unhealthy` call (attached to the role).
  TEXT
  type = object({
    check      = optional(bool, false)
    test       = optional(bool, false)
    afterwards = optional(bool, false)
    impaired   = optional(bool, false)
  })
  default  = {}
  nullable = false
}
