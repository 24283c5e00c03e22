variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
}

variable "region" {
  description = "Region of the cluster."
  type        = string
}

variable "autoscaling_groups" {
  description = "Groups of the cluster's nodes, under keys of your own."
  type        = map(object({ name = string }))
}

variable "alarm_actions" {
  description = "ARNs that alarms tell."
  type        = list(string)
  default     = []
}

variable "stop_alarm_arn" {
  description = "Alarm that stops a drill; null: no drills."
  type        = string
  default     = null
}
