# Every ARN is of the account's own partition.

variables {
  cluster_name      = "shop"
  account_id        = "123456789012"
  fault_target_tags = { team = "shop" }
}

run "commercial" {
  command = plan
  variables {
    partition = "aws"
    region    = "eu-west-1"
  }
  assert {
    condition     = alltrue([for arn in regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy]))) : startswith(arn, "arn:aws:")]) && length(regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy])))) >= 8
    error_message = jsonencode(regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy]))))
  }
}

run "china" {
  command = plan
  variables {
    partition = "aws-cn"
    region    = "cn-north-1"
  }
  assert {
    condition     = alltrue([for arn in regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy]))) : startswith(arn, "arn:aws-cn:")]) && length(regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy])))) >= 8
    error_message = jsonencode(regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy]))))
  }
}

run "govcloud" {
  command = plan
  variables {
    partition = "aws-us-gov"
    region    = "us-gov-west-1"
  }
  assert {
    condition     = alltrue([for arn in regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy]))) : startswith(arn, "arn:aws-us-gov:")]) && length(regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy])))) >= 8
    error_message = jsonencode(regexall("arn:[^\"]*", join(" ", concat(values(output.permission_policies), [output.service_policy, output.key_policy, output.delivery_trust_policy, output.fault_trust_policy, output.fault_policy]))))
  }
}

run "another_cloud_is_none" {
  command = plan
  variables {
    partition = "gcp"
    region    = "eu-west-1"
  }
  expect_failures = [var.partition]
}

run "a_zone_is_no_region" {
  command = plan
  variables {
    region = "eu-west-1a"
  }
  expect_failures = [var.region]
}
