# Names: within their limits, apart from each other, and the same every time.

variables {
  region     = "eu-west-1"
  account_id = "123456789012"
}

run "a_short_name_stays_as_it_is" {
  command = plan
  variables {
    cluster_name = "shop"
  }
  assert {
    condition     = output.names.queue == "sundown-shop" && output.names.dead == "sundown-shop_dead" && output.names.rule_spot == "sundown-shop_spot"
    error_message = jsonencode(output.names)
  }
  # What src/config/validate.rs takes for the queue of a trial.
  assert {
    condition     = endswith(output.names.trial, "-trial") && endswith(output.prefixes.trial, "-trial-") && !endswith(output.names.queue, "-trial")
    error_message = jsonencode([output.names.trial, output.prefixes.trial])
  }
  assert {
    condition     = output.prefixes.role == "sundown-shop-" && output.prefixes.rule_terminate == "sundown-shop_terminate-"
    error_message = jsonencode(output.prefixes)
  }
}

run "a_name_of_ones_own_is_taken" {
  command = plan
  variables {
    cluster_name = "shop"
    name         = "nodes"
  }
  assert {
    condition     = output.names.queue == "nodes" && output.names.policy == "nodes_eu-west-1"
    error_message = jsonencode(output.names)
  }
}

# A hundred characters, which is what EKS allows.
run "the_longest_cluster_name_is_cut_with_a_hash" {
  command = plan
  variables {
    cluster_name = "a-cluster-with-a-name-as-long-as-amazon-eks-allows-it-to-be-which-is-one-hundred-characters-in-all-1"
  }
  assert {
    condition     = length(var.cluster_name) == 100
    error_message = "The name of this test has ${length(var.cluster_name)} characters."
  }
  assert {
    condition = alltrue([
      for thing, name in output.names :
      length(name) <= (contains(["queue", "dead", "undelivered", "trial"], thing) ? 80 : contains(["policy", "check", "test", "afterwards", "impaired", "trial_policy"], thing) ? 128 : 64)
    ])
    error_message = jsonencode({ for thing, name in output.names : thing => length(name) })
  }
  # A role's prefix may have 38 characters, a rule's too; Terraform appends 26.
  assert {
    condition = alltrue([
      for thing, prefix in output.prefixes :
      endswith(prefix, "-") && length(prefix) + 26 <= (contains(["queue", "dead", "undelivered", "trial"], thing) ? 80 : contains(["policy", "check", "test", "afterwards", "impaired", "trial_policy"], thing) ? 128 : 64)
    ])
    error_message = jsonencode({ for thing, prefix in output.prefixes : thing => length(prefix) })
  }
  assert {
    condition     = length(distinct([for thing, name in output.names : name if !contains(["policy", "trial_policy"], thing)])) == length(output.names) - 2 && endswith(output.names.rule_terminate, "_terminate") && endswith(output.names.undelivered, "_undelivered")
    error_message = jsonencode(output.names)
  }
  assert {
    condition     = alltrue([for name in concat(values(output.names), values(output.prefixes)) : can(regex("^[0-9A-Za-z_-]+$", name))])
    error_message = jsonencode([output.names, output.prefixes])
  }
}

run "a_name_that_differs_in_its_last_character_is_another" {
  command = plan
  variables {
    cluster_name = "a-cluster-with-a-name-as-long-as-amazon-eks-allows-it-to-be-which-is-one-hundred-characters-in-all-2"
  }
  assert {
    condition = length(setintersection(
      values(output.names), values(run.the_longest_cluster_name_is_cut_with_a_hash.names)
    )) == 0
    error_message = jsonencode(output.names)
  }
  assert {
    condition = length(setintersection(
      values(output.prefixes), values(run.the_longest_cluster_name_is_cut_with_a_hash.prefixes)
    )) == 0
    error_message = jsonencode(output.prefixes)
  }
}

# A cluster of kops is named like a host; a queue must not be.
run "dots_are_replaced_and_the_hash_keeps_it_apart" {
  command = plan
  variables {
    cluster_name = "k8s.example.com"
  }
  assert {
    condition     = can(regex("^sundown-k8s-example-com-[0-9a-f]{8}$", output.names.queue))
    error_message = output.names.queue
  }
}

# IAM is global: the same cluster name in two regions is two roles.
run "another_region_has_other_names_in_iam" {
  command = plan
  variables {
    cluster_name = "shop"
    region       = "us-east-1"
  }
  assert {
    condition     = length(setintersection([for thing in ["role", "delivery", "fault", "trial_role", "policy", "check", "test", "afterwards", "impaired", "trial_policy"] : output.names[thing]], values(run.a_short_name_stays_as_it_is.names))) == 0
    error_message = jsonencode(output.names)
  }
  assert {
    condition     = output.names.queue == run.a_short_name_stays_as_it_is.names.queue
    error_message = "What is of a region needs not name it."
  }
}

# Each of these clusters is named like a part of cluster "shop".
run "no_cluster_is_named_like_a_part_of_another" {
  command = plan
  variables {
    cluster_name = "shop-test"
  }
  assert {
    condition     = length(setintersection(values(output.names), values(run.a_short_name_stays_as_it_is.names))) == 0
    error_message = jsonencode(output.names)
  }
}

run "nor_with_an_underscore" {
  command = plan
  variables {
    cluster_name = "shop_dead"
  }
  assert {
    condition     = length(setintersection(values(output.names), values(run.a_short_name_stays_as_it_is.names))) == 0 && can(regex("^sundown-shop-dead-[0-9a-f]{8}$", output.names.queue))
    error_message = jsonencode(output.names)
  }
}

run "a_name_holds_no_underscore" {
  command = plan
  variables {
    cluster_name = "shop"
    name         = "shop_dead"
  }
  expect_failures = [var.name]
}

run "no_cluster_has_an_empty_name" {
  command = plan
  variables {
    cluster_name = ""
  }
  expect_failures = [var.cluster_name]
}

run "no_cluster_has_a_name_of_101_characters" {
  command = plan
  variables {
    cluster_name = "a-cluster-with-a-name-as-long-as-amazon-eks-allows-it-to-be-which-is-one-hundred-characters-in-all-12"
  }
  expect_failures = [var.cluster_name]
}

run "a_name_holds_no_slash" {
  command = plan
  variables {
    cluster_name = "shop"
    name         = "team/shop"
  }
  expect_failures = [var.name]
}

run "names_that_are_given_are_taken_as_they_are" {
  command = plan
  variables {
    cluster_name     = "shop"
    queue_name       = "Nodes_of_shop"
    rule_name_prefix = "team.nodes"
    role_name        = "NodesOfShop"
  }
  assert {
    condition = [output.names.queue, output.names.dead, output.names.undelivered, output.names.trial, output.names.rule_spot, output.names.role] == [
      "Nodes_of_shop", "Nodes_of_shop_dead", "Nodes_of_shop_undelivered", "Nodes_of_shop_queue-trial", "team.nodes_spot", "NodesOfShop",
    ]
    error_message = jsonencode(output.names)
  }
  assert {
    condition     = [output.prefixes.queue, output.prefixes.rule_spot, output.prefixes.role] == ["Nodes_of_shop-", "team.nodes_spot-", "NodesOfShop-"]
    error_message = jsonencode(output.prefixes)
  }
  # What is not given is named after the cluster, as before.
  assert {
    condition     = [output.names.policy, output.names.delivery, output.names.trial_role] == ["sundown-shop_eu-west-1", "sundown-shop_delivery_eu-west-1", "sundown-shop_trial_eu-west-1"]
    error_message = jsonencode(output.names)
  }
}

run "the_longest_names_that_are_given_stay_within_the_limits" {
  command = plan
  variables {
    cluster_name     = "shop"
    queue_name       = "a-queue-with-the-longest-name-that-sqs-takes-which-is-eighty-characters-in-all-1"
    rule_name_prefix = "a-prefix-as-long-as-the-name-of-a-rule-may-be-sixty-four-in-all1"
    role_name        = "a-role-with-the-longest-name-that-iam-takes-sixty-four-in-all--1"
  }
  assert {
    condition     = [length(var.queue_name), length(var.rule_name_prefix), length(var.role_name)] == [80, 64, 64]
    error_message = jsonencode([length(var.queue_name), length(var.rule_name_prefix), length(var.role_name)])
  }
  assert {
    condition     = [output.names.queue, output.names.role] == [var.queue_name, var.role_name]
    error_message = jsonencode(output.names)
  }
  assert {
    condition = alltrue(flatten([for thing, limit in { queue = 80, dead = 80, undelivered = 80, trial = 80, role = 64, rule_spot = 64, rule_terminate = 64 } :
      [length(output.names[thing]) <= limit, length(output.prefixes[thing]) + 26 <= limit]
    ]))
    error_message = jsonencode([output.names, output.prefixes])
  }
  assert {
    condition     = length(distinct([for thing in ["queue", "dead", "undelivered", "trial"] : output.names[thing]])) == 4 && endswith(output.names.trial, "-trial") && output.names.rule_spot != output.names.rule_state
    error_message = jsonencode(output.names)
  }
}

run "a_given_name_that_is_too_long_is_refused" {
  command = plan
  variables {
    cluster_name     = "shop"
    queue_name       = "a-queue-with-a-name-that-is-longer-than-what-sqs-takes-which-is-eighty-characters-1"
    rule_name_prefix = "a-prefix-as-long-as-the-name-of-a-rule-may-be-sixty-four-in-all-1"
    role_name        = "a-role-with-the-longest-name-that-iam-takes-which-is-sixty-four-1"
  }
  expect_failures = [var.queue_name, var.rule_name_prefix, var.role_name]
}

run "no_queue_is_called_like_one_of_a_trial" {
  command = plan
  variables {
    cluster_name = "shop"
    queue_name   = "shop-trial"
  }
  expect_failures = [var.queue_name]
}
