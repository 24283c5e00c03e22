# A trial has a role of its own: it reads its queue and looks things up, and answers no hook.
resource "aws_iam_policy" "trial" {
  count = local.create_trial ? 1 : 0

  name        = var.use_name_prefix ? null : module.policy.names.trial_policy
  name_prefix = var.use_name_prefix ? module.policy.prefixes.trial_policy : null
  path        = var.role_path
  description = "What a trial of Sundown calls, for cluster ${var.cluster_name}"
  policy      = module.policy.permission_policies["trial"]
  tags        = var.tags
}

resource "aws_iam_role" "trial" {
  count = local.create_trial_role ? 1 : 0

  name                  = var.use_name_prefix ? null : module.policy.names.trial_role
  name_prefix           = var.use_name_prefix ? module.policy.prefixes.trial_role : null
  path                  = var.role_path
  permissions_boundary  = var.role_permissions_boundary
  description           = "A trial of Sundown in cluster ${var.cluster_name}"
  assume_role_policy    = module.policy.trial_trust_policy
  force_detach_policies = true
  tags                  = var.tags
}

# The instance's role is the only one there is on plain EC2; a role of one's own for the service is not given what is the trial's.
resource "aws_iam_role_policy_attachment" "trial" {
  count = local.create_trial_role || (local.create_trial && var.attach_policies && var.identity == "instance-profile") ? 1 : 0

  role       = local.create_trial_role ? one(aws_iam_role.trial[*].name) : local.role_name
  policy_arn = one(aws_iam_policy.trial[*].arn)
}

resource "aws_eks_pod_identity_association" "trial" {
  count = local.create_trial_role && var.identity == "pod-identity" && var.create_pod_identity_association ? 1 : 0

  region               = var.region
  cluster_name         = var.cluster_name
  namespace            = var.trial_namespace
  service_account      = var.trial_service_account
  role_arn             = one(aws_iam_role.trial[*].arn)
  disable_session_tags = var.disable_session_tags
  tags                 = var.tags
}
