# A drill: one spot instance gets its two minutes' notice. Nothing starts by itself; an experiment is started from the template by hand.
resource "aws_fis_experiment_template" "this" {
  count = local.create_fault ? 1 : 0

  region      = var.region
  description = "Interrupt one spot instance of cluster ${var.cluster_name}"
  role_arn    = one(aws_iam_role.fault[*].arn)

  action {
    name      = "interrupt"
    action_id = "aws:ec2:send-spot-instance-interruptions"
    parameter {
      key   = "durationBeforeInterruption"
      value = "PT2M"
    }
    target {
      key   = "SpotInstances"
      value = "instances"
    }
  }

  target {
    name           = "instances"
    resource_type  = "aws:ec2:spot-instance"
    selection_mode = "COUNT(1)"
    dynamic "resource_tag" {
      for_each = var.fault_injection.target_tags
      content {
        key   = resource_tag.key
        value = resource_tag.value
      }
    }
    filter {
      path   = "State.Name"
      values = ["running"]
    }
  }

  stop_condition {
    source = "aws:cloudwatch:alarm"
    value  = var.fault_injection.stop_alarm_arn
  }

  tags = merge(var.tags, { Name = module.policy.names.fault })

  lifecycle {
    precondition {
      condition     = module.policy.fault_injection_offered
      error_message = "fault_injection: AWS does not offer interruptions of spot instances in ${var.region}."
    }
  }

  depends_on = [aws_iam_role_policy.fault]
}

resource "aws_iam_role" "fault" {
  count = local.create_fault ? 1 : 0

  name                  = var.use_name_prefix ? null : module.policy.names.fault
  name_prefix           = var.use_name_prefix ? module.policy.prefixes.fault : null
  path                  = var.role_path
  permissions_boundary  = var.role_permissions_boundary
  description           = "Fault injection into cluster ${var.cluster_name}"
  assume_role_policy    = module.policy.fault_trust_policy
  force_detach_policies = true
  tags                  = var.tags
}

resource "aws_iam_role_policy" "fault" {
  count = local.create_fault ? 1 : 0

  name   = "interrupt"
  role   = one(aws_iam_role.fault[*].name)
  policy = module.policy.fault_policy
}
