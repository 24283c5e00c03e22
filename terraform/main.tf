data "aws_caller_identity" "this" {
  count = var.create ? 1 : 0
}

data "aws_partition" "this" {
  count = var.create ? 1 : 0
}

locals {
  # Nothing that decides how many there are of a resource depends on what is known only after apply: these are booleans and static keys.
  create_queue    = var.create && var.create_queue
  create_key      = local.create_queue && var.create_kms_key
  create_role     = var.create && var.create_role
  create_delivery = var.create && var.create_delivery_role
  create_trial    = var.create && var.trial_queue
  # On plain EC2 pods have the role of their instance, a trial's too.
  create_trial_role = local.create_trial && var.create_role && var.identity != "instance-profile"
  create_fault      = var.create && var.fault_injection != null

  listened = {
    terminate = var.events.terminate
    launch    = coalesce(var.events.launch, anytrue([for group in var.autoscaling_groups : group.launch]))
    spot      = var.events.spot
    capacity  = var.events.capacity
    state     = var.events.state
    rebalance = var.events.rebalance
    health    = var.events.health
    warm-pool = var.events.warm_pool
  }
  rules = toset([for event, on in local.listened : event if on && var.create])

  # What only a trial reads is sent to it alone.
  sent_to_queue = toset([for event in local.rules : event if !var.trial_only])
  hook_names = {
    terminate = "sundown-terminate"
    launch    = "sundown-launch"
  }
  # Said before the hooks are there: the chart is installed first.
  answered = var.create ? concat(
    [for name in [local.hook_names.terminate] : name if length(var.autoscaling_groups) > 0],
    [for name in [local.hook_names.launch] : name if anytrue([for group in var.autoscaling_groups : group.launch])],
  ) : []

  # The parts of what this module makes or is given, by ARN.
  queue_arn   = local.create_queue ? one(aws_sqs_queue.this[*].arn) : var.queue_arn
  queue_url   = local.create_queue ? one(aws_sqs_queue.this[*].url) : var.queue_url
  queue_name  = local.create_queue ? one(aws_sqs_queue.this[*].name) : try(element(split(":", var.queue_arn), 5), null)
  kms_key_arn = local.create_key ? one(aws_kms_key.this[*].arn) : var.kms_key_arn
  # Those of a queue of one's own may be known only after apply: nothing counts by them.
  queue_account = local.create_queue ? local.account_id : try(element(split(":", var.queue_arn), 4), null)
  queue_region  = local.create_queue ? var.region : try(element(split(":", var.queue_arn), 3), null)
  account_id    = var.create ? one(data.aws_caller_identity.this[*].account_id) : "000000000000"
  role_arn      = local.create_role ? one(aws_iam_role.this[*].arn) : var.role_arn
  queue_arns = merge(
    { for part in ["queue"] : part => local.queue_arn if var.create },
    { for part in ["dead"] : part => one(aws_sqs_queue.dead[*].arn) if local.create_queue },
    { for part in ["undelivered"] : part => one(aws_sqs_queue.undelivered[*].arn) if var.create },
    { for part in ["trial"] : part => one(aws_sqs_queue.trial[*].arn) if local.create_trial },
  )
}

module "policy" {
  source = "./modules/policy"

  cluster_name           = var.cluster_name
  name                   = var.name
  queue_name             = var.queue_name
  rule_name_prefix       = var.rule_name_prefix
  role_name              = var.iam_role_name
  region                 = var.region
  partition              = var.create ? one(data.aws_partition.this[*].partition) : "aws"
  account_id             = local.account_id
  enable_test_events     = var.enable_test_events
  queue_arns             = local.queue_arns
  rule_arns              = [for event in sort(local.rules) : aws_cloudwatch_event_rule.this[event].arn]
  sender_arns            = var.sender_arns
  reader_arns            = var.reader_arns
  kms_key_arn            = local.kms_key_arn
  group_tags             = var.group_tags
  group_names            = var.allow_groups_by_name || var.limit_to_groups ? [for group in values(var.autoscaling_groups) : group.name] : []
  limit_to_group_names   = var.limit_to_groups && length(var.autoscaling_groups) > 0
  extra_statements       = var.extra_statements
  extra_queue_statements = var.extra_queue_statements
  identity               = var.identity
  namespace              = var.namespace
  service_account        = var.service_account
  trial_namespace        = var.trial_namespace
  trial_service_account  = var.trial_service_account
  disable_session_tags   = var.disable_session_tags
  target_role_arn        = var.target_role_arn
  oidc_provider_arn      = var.oidc_provider_arn
  oidc_audience          = var.oidc_audience
  fault_target_tags      = try(var.fault_injection.target_tags, {})
}
