variable "cluster_name" {
  description = "Name of the cluster, as in the tags `kubernetes.io/cluster/NAME`."
  type        = string
}

variable "region" {
  description = "Region of the cluster."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the controllers."
  type        = list(string)
}

variable "image_id" {
  description = "Image of the controllers."
  type        = string
}

variable "controller_instance_profile" {
  description = "Instance profile of the controllers."
  type        = string
}

variable "controller_role_arn" {
  description = "Role in that profile: it gets the policy."
  type        = string
}

variable "worker_groups" {
  description = "Names of the workers' groups, under keys of your own."
  type        = map(string)
  default     = {}
}

variable "alarm_actions" {
  description = "ARNs that alarms tell."
  type        = list(string)
  default     = []
}
