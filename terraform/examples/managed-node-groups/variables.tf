variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
}

variable "region" {
  description = "Region of the cluster."
  type        = string
}

variable "node_role_arn" {
  description = "Role of the nodes."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the nodes."
  type        = list(string)
}

variable "node_groups" {
  description = "Node groups by their name."
  type = map(object({
    instance_types = list(string)
    capacity_type  = optional(string, "ON_DEMAND")
    min_size       = optional(number, 2)
    max_size       = optional(number, 10)
  }))
}

variable "alarm_actions" {
  description = "ARNs that alarms tell."
  type        = list(string)
  default     = []
}
