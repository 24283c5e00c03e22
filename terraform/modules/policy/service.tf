locals {
  # Which call needs which action, on what. The only place that says so: every policy below comes out of it, and the tests hold it against the
  # code and against AWS's own list of actions.
  calls = jsondecode(file("${path.module}/calls.json"))

  # Alternatives need statements of their own: two tags in one Condition would both be asked for.
  group_tags = var.group_tags != null ? var.group_tags : [
    { key = "eks:cluster-name", value = var.cluster_name },
    { key = "kubernetes.io/cluster/${var.cluster_name}", value = null },
  ]
  group_arn = "arn:${var.partition}:autoscaling:${var.region}:${var.account_id}:autoScalingGroup:*:autoScalingGroupName"

  by_tag = [for tag in local.group_tags : {
    resources = ["${local.group_arn}/*"]
    condition = (
      tag.value == null
      ? { Null = { "aws:ResourceTag/${tag.key}" = ["false"] } }
      : { StringEquals = { "aws:ResourceTag/${tag.key}" = [tag.value] } }
    )
  }]
  # A statement without a resource is malformed: no names, no statement.
  by_name = length(var.group_names) == 0 ? [] : [{
    resources = [for name in var.group_names : "${local.group_arn}/${name}"]
    condition = {}
  }]

  # What a call is on, of which the table may name several: one or more alternatives, each a list of resources with a condition. Describe calls know no resources.
  places = {
    queue        = [for arn in [lookup(var.queue_arns, "queue", null)] : { resources = [arn], condition = {} } if contains(keys(var.queue_arns), "queue")]
    dead_queue   = [for arn in [lookup(var.queue_arns, "dead", null)] : { resources = [arn], condition = {} } if contains(keys(var.queue_arns), "dead")]
    other_queues = [for arns in [[for part, arn in var.queue_arns : arn if part != "queue"]] : { resources = arns, condition = {} } if length(arns) > 0]
    trial_queue  = [for arn in [lookup(var.queue_arns, "trial", null)] : { resources = [arn], condition = {} } if contains(keys(var.queue_arns), "trial")]
    groups       = concat([for place in local.by_tag : place if !var.limit_to_group_names], local.by_name)
    region       = [{ resources = ["*"], condition = { StringEquals = { "aws:RequestedRegion" = [var.region] } } }]
    rules        = [for arns in [var.rule_arns] : { resources = arns, condition = {} } if length(arns) > 0]
    test_bus = [{
      resources = ["arn:${var.partition}:events:${var.region}:${var.account_id}:event-bus/default"]
      # One call carries several events: every one of them must be a test. (ForAllValues is true of none, hence the Null.)
      condition = {
        "ForAllValues:StringEquals" = {
          "events:source"      = [local.test_source]
          "events:detail-type" = sort(distinct(flatten([for pattern in local.patterns : pattern.detail-type])))
        }
        Null = { "events:source" = ["false"], "events:detail-type" = ["false"] }
      }
    }]
  }

  sids = {
    queue        = "Queue"
    dead_queue   = "DeadLetters"
    other_queues = "OtherQueues"
    trial_queue  = "TrialQueue"
    groups       = "Groups"
    region       = "Region"
    rules        = "Rules"
    test_bus     = "TestEvents"
  }

  # One statement for each place and alternative, with the actions of all calls there.
  statements = {
    for scope, calls in local.calls : scope => flatten([
      for on in sort(distinct(flatten([for call in calls : call.on]))) : [
        for index, place in local.places[on] : merge(
          {
            Sid      = length(local.places[on]) == 1 ? local.sids[on] : "${local.sids[on]}${index + 1}"
            Effect   = "Allow"
            Action   = sort(distinct(flatten([for call in calls : call.actions if contains(flatten([call.on]), on)])))
            Resource = place.resources
          },
          { for key, value in { Condition = place.condition } : key => value if length(value) > 0 },
        )
      ]
    ])
  }

  # EventBridge has sent under the key; the service reads.
  key_statements = [for arn in [var.kms_key_arn] : {
    Sid      = "Key"
    Effect   = "Allow"
    Action   = ["kms:Decrypt"]
    Resource = [arn]
  } if arn != null]

  # Pod Identity takes the target role as the service's role, which must be allowed to.
  target_statements = [for arn in [var.target_role_arn] : {
    Sid      = "TargetRole"
    Effect   = "Allow"
    Action   = ["sts:AssumeRole", "sts:TagSession"]
    Resource = [arn]
  } if arn != null]

  extra_statements = [for statement in var.extra_statements : merge(
    { for key, value in { Sid = statement.sid } : key => value if value != null },
    { Effect = statement.effect, Action = statement.actions, Resource = statement.resources },
    { for key, value in { Condition = statement.conditions } : key => value if length(value) > 0 },
  )]

  service_policy = {
    Version   = "2012-10-17"
    Statement = concat(local.statements.service, local.key_statements, local.target_statements, local.extra_statements)
  }
}
