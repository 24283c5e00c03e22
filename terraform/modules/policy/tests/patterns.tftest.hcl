# Patterns. Whether they match what AWS sends is for tests/terraform/events.py.

variables {
  cluster_name = "shop"
  region       = "eu-west-1"
  account_id   = "123456789012"
}

run "there_is_one_for_each_kind" {
  command = plan
  assert {
    condition     = toset(keys(output.patterns)) == toset(["capacity", "health", "launch", "rebalance", "spot", "state", "terminate", "warm-pool"])
    error_message = jsonencode(keys(output.patterns))
  }
  assert {
    condition     = alltrue([for pattern in output.patterns : length(pattern) <= 2048])
    error_message = "EventBridge takes 2048 characters."
  }
}

run "only_aws_is_listened_to" {
  command = plan
  assert {
    condition     = alltrue([for pattern in output.patterns : length(jsondecode(pattern).source) == 1 && startswith(jsondecode(pattern).source[0], "aws.")])
    error_message = jsonencode(output.patterns)
  }
}

run "what_other_accounts_forward_and_what_is_replayed_is_left_out" {
  command = plan
  assert {
    condition = alltrue([for pattern in output.patterns :
      jsondecode(pattern).account == ["123456789012"] && jsondecode(pattern).replay-name == [{ exists = false }]
    ])
    error_message = jsonencode(output.patterns)
  }
}

# A group's name in such a pattern makes a rule that never matches.
run "events_of_ec2_are_asked_for_nothing_that_they_do_not_carry" {
  command = plan
  assert {
    condition = alltrue([
      for event in ["spot", "capacity", "state", "rebalance"] : !strcontains(output.patterns[event], "AutoScalingGroup")
    ])
    error_message = jsonencode(output.patterns)
  }
}

run "test_events_go_through_the_same_rules" {
  command = plan
  variables {
    enable_test_events = true
  }
  assert {
    condition     = alltrue([for pattern in output.patterns : jsondecode(pattern).source[1] == "sundown.test"])
    error_message = jsonencode(output.patterns)
  }
  assert {
    condition     = alltrue([for pattern in output.patterns : length(pattern) <= 2048])
    error_message = "EventBridge takes 2048 characters."
  }
}
