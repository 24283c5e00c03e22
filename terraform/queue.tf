# What the queue could not be read of: after max_receive_count receives. A moved message keeps the time at which it was sent first, so this one
# keeps as long as SQS can.
resource "aws_sqs_queue" "dead" {
  count = local.create_queue ? 1 : 0

  region                            = var.region
  name                              = var.use_name_prefix ? null : module.policy.names.dead
  name_prefix                       = var.use_name_prefix ? module.policy.prefixes.dead : null
  message_retention_seconds         = 1209600
  kms_master_key_id                 = local.kms_key_arn
  kms_data_key_reuse_period_seconds = var.queue_kms_data_key_reuse_period_seconds
  sqs_managed_sse_enabled           = local.kms_key_arn == null ? true : null
  tags                              = var.tags
}

resource "aws_sqs_queue" "this" {
  count = local.create_queue ? 1 : 0

  region                            = var.region
  name                              = var.use_name_prefix ? null : module.policy.names.queue
  name_prefix                       = var.use_name_prefix ? module.policy.prefixes.queue : null
  message_retention_seconds         = var.message_retention_seconds
  visibility_timeout_seconds        = 60
  receive_wait_time_seconds         = 20
  kms_master_key_id                 = local.kms_key_arn
  kms_data_key_reuse_period_seconds = var.queue_kms_data_key_reuse_period_seconds
  # The two exclude each other; false would be a third thing, no encryption.
  sqs_managed_sse_enabled = local.kms_key_arn == null ? true : null
  redrive_policy = jsonencode({
    deadLetterTargetArn = one(aws_sqs_queue.dead[*].arn)
    maxReceiveCount     = var.max_receive_count
  })
  tags = var.tags
}

resource "aws_sqs_queue_redrive_allow_policy" "dead" {
  count = local.create_queue ? 1 : 0

  region    = var.region
  queue_url = one(aws_sqs_queue.dead[*].url)
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [one(aws_sqs_queue.this[*].arn)]
  })
}

# What EventBridge could not deliver. Apart from the dead letters, and never under a key of one's own: a key that EventBridge may not use would
# lose the event twice.
resource "aws_sqs_queue" "undelivered" {
  count = var.create ? 1 : 0

  region                    = var.region
  name                      = var.use_name_prefix ? null : module.policy.names.undelivered
  name_prefix               = var.use_name_prefix ? module.policy.prefixes.undelivered : null
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags

  # What is said of the queue must hold together before anything is made: every target needs this one.
  lifecycle {
    precondition {
      condition     = var.create_queue || (var.queue_arn != null && var.queue_url != null)
      error_message = "create_queue is false: queue_arn and queue_url must say which queue the rules fill and Sundown reads."
    }
    precondition {
      condition     = local.queue_region == null || local.queue_region == var.region
      error_message = "queue_arn: the queue is in ${coalesce(local.queue_region, "no region")}. It must be in ${var.region}, where the rules are: EventBridge sends to no queue of another region."
    }
    precondition {
      condition     = var.create_delivery_role || local.queue_account == null || local.queue_account == local.account_id
      error_message = "queue_arn: the queue is in account ${coalesce(local.queue_account, "-")}, the rules are in ${local.account_id}. Rules send to another account only as a role: create_delivery_role = true."
    }
    precondition {
      condition     = !var.create_delivery_role || local.queue_account == null || local.queue_account != local.account_id
      error_message = "create_delivery_role: the queue is in this account, and its policy denies everybody but the rules themselves: every event would be undelivered. The role is for a queue of another account (create_queue = false, queue_arn)."
    }
    precondition {
      condition     = !var.trial_only || var.trial_queue
      error_message = "trial_only: without trial_queue = true the rules fill no queue at all."
    }
  }
}

# For `sundown run --dry-run` beside what drains today. No redrive: in a dry run messages reappear.
resource "aws_sqs_queue" "trial" {
  count = local.create_trial ? 1 : 0

  region                     = var.region
  name                       = var.use_name_prefix ? null : module.policy.names.trial
  name_prefix                = var.use_name_prefix ? module.policy.prefixes.trial : null
  message_retention_seconds  = 86400
  visibility_timeout_seconds = 60
  receive_wait_time_seconds  = 20
  sqs_managed_sse_enabled    = true
  tags                       = var.tags
}

resource "aws_sqs_queue_policy" "this" {
  count = local.create_queue ? 1 : 0

  region    = var.region
  queue_url = one(aws_sqs_queue.this[*].url)
  policy    = module.policy.queue_policies["queue"]
}

resource "aws_sqs_queue_policy" "dead" {
  count = local.create_queue ? 1 : 0

  region    = var.region
  queue_url = one(aws_sqs_queue.dead[*].url)
  policy    = module.policy.queue_policies["dead"]
}

resource "aws_sqs_queue_policy" "undelivered" {
  count = var.create ? 1 : 0

  region    = var.region
  queue_url = one(aws_sqs_queue.undelivered[*].url)
  policy    = module.policy.queue_policies["undelivered"]
}

resource "aws_sqs_queue_policy" "trial" {
  count = local.create_trial ? 1 : 0

  region    = var.region
  queue_url = one(aws_sqs_queue.trial[*].url)
  policy    = module.policy.queue_policies["trial"]
}

resource "aws_kms_key" "this" {
  count = local.create_key ? 1 : 0

  region                  = var.region
  description             = "The queue of Sundown in cluster ${var.cluster_name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy                  = module.policy.key_policy
  tags                    = var.tags
}

resource "aws_kms_alias" "this" {
  count = local.create_key ? 1 : 0

  region        = var.region
  name          = var.use_name_prefix ? null : "alias/${module.policy.names.queue}"
  name_prefix   = var.use_name_prefix ? "alias/${module.policy.prefixes.queue}" : null
  target_key_id = one(aws_kms_key.this[*].key_id)
}
