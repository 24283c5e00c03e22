locals {
  # arn:…:oidc-provider/ISSUER, and ISSUER:aud and ISSUER:sub are the claims.
  issuer = var.oidc_provider_arn == null ? "" : replace(var.oidc_provider_arn, "/^[^/]*//", "")

  trust = {
    # A role that any cluster of the account could take would be no role of this cluster.
    pod-identity = [{
      Sid       = "PodIdentity"
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = { StringEquals = {
        "aws:SourceAccount"                         = var.account_id
        "aws:RequestTag/eks-cluster-name"           = var.cluster_name
        "aws:RequestTag/kubernetes-namespace"       = var.namespace
        "aws:RequestTag/kubernetes-service-account" = var.service_account
      } }
    }]
    irsa = [{
      Sid       = "ServiceAccount"
      Effect    = "Allow"
      Principal = { Federated = var.oidc_provider_arn }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = { StringEquals = {
        "${local.issuer}:aud" = var.oidc_audience
        "${local.issuer}:sub" = "system:serviceaccount:${var.namespace}:${var.service_account}"
      } }
    }]
    instance-profile = [{
      Sid       = "Instances"
      Effect    = "Allow"
      Principal = { Service = var.partition == "aws-cn" ? "ec2.amazonaws.com.cn" : "ec2.amazonaws.com" }
      Action    = ["sts:AssumeRole"]
    }]
  }

  trust_policy = { Version = "2012-10-17", Statement = local.trust[var.identity] }
}
