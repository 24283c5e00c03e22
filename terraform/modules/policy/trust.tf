locals {
  # arn:…:oidc-provider/ISSUER, and ISSUER:aud and ISSUER:sub are the claims.
  issuer = var.oidc_provider_arn == null ? "" : replace(var.oidc_provider_arn, "/^[^/]*//", "")

  # Who the pods are, of the service and of a trial beside it.
  accounts = {
    service = { namespace = var.namespace, name = var.service_account }
    trial   = { namespace = var.trial_namespace, name = var.trial_service_account }
  }

  trusts = { for whose, account in local.accounts : whose => {
    # A role that any cluster of the account could take would be no role of this cluster. Without session tags nothing else can be asked.
    pod-identity = [{
      Sid       = "PodIdentity"
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = { StringEquals = merge(
        { "aws:SourceAccount" = var.account_id },
        { for tag, value in {
          "aws:RequestTag/eks-cluster-name"           = var.cluster_name
          "aws:RequestTag/kubernetes-namespace"       = account.namespace
          "aws:RequestTag/kubernetes-service-account" = account.name
        } : tag => value if !var.disable_session_tags },
      ) }
    }]
    irsa = [{
      Sid       = "ServiceAccount"
      Effect    = "Allow"
      Principal = { Federated = var.oidc_provider_arn }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = { StringEquals = {
        "${local.issuer}:aud" = var.oidc_audience
        "${local.issuer}:sub" = "system:serviceaccount:${account.namespace}:${account.name}"
      } }
    }]
    instance-profile = [{
      Sid       = "Instances"
      Effect    = "Allow"
      Principal = { Service = var.partition == "aws-cn" ? "ec2.amazonaws.com.cn" : "ec2.amazonaws.com" }
      Action    = ["sts:AssumeRole"]
    }]
  } }

  trust_policies = { for whose, trust in local.trusts : whose => { Version = "2012-10-17", Statement = trust[var.identity] } }
}
