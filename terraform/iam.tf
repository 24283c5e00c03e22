locals {
  attach = var.create && var.attach_policies
  # What is for people is not attached to the role.
  more     = toset([for scope, on in var.permissions : scope if on && var.create])
  attached = toset([for scope in local.more : scope if scope != "test" && var.attach_policies])

  # A role's name is the last part of its ARN, after its path.
  role_name        = local.create_role ? one(aws_iam_role.this[*].name) : try(element(split("/", var.role_arn), length(split("/", var.role_arn)) - 1), null)
  role_name_prefix = coalesce(var.iam_role_use_name_prefix, var.use_name_prefix)
}

resource "aws_iam_role" "this" {
  count = local.create_role ? 1 : 0

  name                  = local.role_name_prefix ? null : module.policy.names.role
  name_prefix           = local.role_name_prefix ? module.policy.prefixes.role : null
  path                  = var.role_path
  permissions_boundary  = var.role_permissions_boundary
  max_session_duration  = var.iam_role_max_session_duration
  description           = coalesce(var.iam_role_description, "Sundown in cluster ${var.cluster_name}")
  assume_role_policy    = module.policy.trust_policy
  force_detach_policies = true
  tags                  = var.tags

  lifecycle {
    precondition {
      condition     = var.identity != "irsa" || var.oidc_provider_arn != null
      error_message = "identity is irsa: oidc_provider_arn must say which provider vouches for the service account."
    }
  }
}

resource "aws_iam_policy" "this" {
  count = var.create ? 1 : 0

  name        = var.use_name_prefix ? null : module.policy.names.policy
  name_prefix = var.use_name_prefix ? module.policy.prefixes.policy : null
  path        = var.role_path
  description = "What Sundown calls, for cluster ${var.cluster_name}"
  policy      = module.policy.service_policy
  tags        = var.tags

  lifecycle {
    precondition {
      condition     = !var.limit_to_groups || length(var.autoscaling_groups) > 0
      error_message = "limit_to_groups: autoscaling_groups names no group, so the role could answer no hook. Name the groups, or leave limit_to_groups false: groups are then known by their tags."
    }
    precondition {
      condition     = length(module.policy.service_policy) <= 6144
      error_message = "The role's policy has ${length(module.policy.service_policy)} characters, and IAM takes 6144. Most of them name the ${length(var.autoscaling_groups)} groups of autoscaling_groups: tag these groups for the cluster (group_tags), and say allow_groups_by_name = false and limit_to_groups = false."
    }
  }
}

resource "aws_iam_role_policy_attachment" "this" {
  count = local.attach ? 1 : 0

  role       = local.role_name
  policy_arn = one(aws_iam_policy.this[*].arn)

  lifecycle {
    precondition {
      condition     = var.create_role || var.role_arn != null
      error_message = "create_role is false: role_arn must say which role gets the policy, or attach_policies be false."
    }
  }
}

resource "aws_iam_policy" "more" {
  for_each = local.more

  name        = var.use_name_prefix ? null : module.policy.names[each.key]
  name_prefix = var.use_name_prefix ? module.policy.prefixes[each.key] : null
  path        = var.role_path
  description = "${each.key}, for Sundown in cluster ${var.cluster_name}"
  policy      = module.policy.permission_policies[each.key]
  tags        = var.tags
}

resource "aws_iam_role_policy_attachment" "more" {
  for_each = local.attached

  role       = local.role_name
  policy_arn = aws_iam_policy.more[each.key].arn
}

resource "aws_iam_role_policy_attachment" "given" {
  for_each = { for key, arn in var.iam_role_policies : key => arn if local.attach }

  role       = local.role_name
  policy_arn = each.value
}

resource "aws_eks_pod_identity_association" "this" {
  count = var.create && var.identity == "pod-identity" && var.create_pod_identity_association ? 1 : 0

  region               = var.region
  cluster_name         = var.cluster_name
  namespace            = var.namespace
  service_account      = var.service_account
  role_arn             = local.role_arn
  target_role_arn      = var.target_role_arn
  disable_session_tags = var.disable_session_tags
  tags                 = var.tags

  lifecycle {
    precondition {
      condition     = var.create_role || var.role_arn != null
      error_message = "create_role is false: role_arn must say which role the service account gets, or create_pod_identity_association be false."
    }
  }
}

resource "aws_iam_instance_profile" "this" {
  count = local.create_role && var.identity == "instance-profile" ? 1 : 0

  name        = local.role_name_prefix ? null : module.policy.names.role
  name_prefix = local.role_name_prefix ? module.policy.prefixes.role : null
  path        = var.role_path
  role        = one(aws_iam_role.this[*].name)
  tags        = var.tags
}
