variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
}

variable "region" {
  description = "Region of the cluster."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the nodes."
  type        = list(string)
}

variable "launch_template_id" {
  description = "Launch template of the nodes."
  type        = string
}

variable "alarm_actions" {
  description = "ARNs that alarms tell."
  type        = list(string)
  default     = []
}
