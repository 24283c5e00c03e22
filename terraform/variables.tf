variable "create" {
  description = "Whether anything is made at all."
  type        = bool
  default     = true
  nullable    = false
}

variable "cluster_name" {
  description = "Name of the cluster: the queue belongs to it alone, and the role may answer hooks only of groups with its tag, and of those in `autoscaling_groups`."
  type        = string
  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z._-]{0,99}$", var.cluster_name))
    error_message = "cluster_name: 1 to 100 letters, digits, dots, - and _, with a letter or digit first."
  }
}

variable "region" {
  description = "Region of the cluster's Auto Scaling groups; queue and rules must be there too."
  type        = string
  validation {
    condition     = can(regex("^[a-z]{2,5}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region: a region's name, such as eu-west-1."
  }
}

variable "name" {
  description = "What all names begin with; null: `sundown-` and the cluster's name. Names that become too long are cut and get a hash; those of IAM, which is global, end with the region."
  type        = string
  default     = null
  validation {
    condition     = var.name == null || can(regex("^[0-9A-Za-z][0-9A-Za-z-]{0,127}$", var.name))
    error_message = "name: 1 to 128 letters, digits and -, with a letter or digit first; an underscore tells the parts from the name."
  }
}

variable "use_name_prefix" {
  description = "Whether Terraform appends something unique to the names of queues, rules, roles, policies and alarms."
  type        = bool
  default     = false
  nullable    = false
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "autoscaling_groups" {
  description = <<-TEXT
    Groups that get lifecycle hooks, and whose hooks the role may answer with or without the tag. The keys are yours and must be known before anything is applied; the names may come out of other resources.
    `launch`: also a hook for launching instances. `heartbeat_timeout`: seconds that AWS waits when nobody answers, at least 180 with `launch`; Sundown
    keeps a hook open for as long as the drain takes. `metadata`: text that comes along with each event.
  TEXT
  type = map(object({
    name              = string
    launch            = optional(bool, false)
    heartbeat_timeout = optional(number, 300)
    metadata          = optional(string)
  }))
  default  = {}
  nullable = false
  validation {
    condition     = alltrue([for group in var.autoscaling_groups : group.heartbeat_timeout >= 30 && group.heartbeat_timeout <= 7200])
    error_message = "autoscaling_groups: heartbeat_timeout is 30 to 7200 seconds."
  }
  # After the leader crashes, the next leader receives the message of a launch within a minute. `sundown check` asks for as much.
  validation {
    condition     = alltrue([for group in var.autoscaling_groups : group.heartbeat_timeout >= 180 if group.launch])
    error_message = "autoscaling_groups: heartbeat_timeout is at least 180 seconds for a group with launch = true. With a shorter one, the launch hook can time out after a crash of the leader."
  }
  validation {
    condition     = alltrue([for key in keys(var.autoscaling_groups) : can(regex("^[0-9A-Za-z._-]+$", key))])
    error_message = "autoscaling_groups: keys have letters, digits, dots, - and _."
  }
}

variable "enable_hooks" {
  description = "Whether the groups get their hooks: switch it on once Sundown runs, since a hook that nobody answers holds each terminating instance until its heartbeat timeout. Deleting a hook ends what waits in it: before you switch it off, or destroy the module, wait until no instance is in `Terminating:Wait`."
  type        = bool
  default     = true
  nullable    = false
}
