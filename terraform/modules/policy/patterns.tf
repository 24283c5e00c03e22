locals {
  # EKS answers these hooks of its managed node groups itself.
  hooks_of_eks = ["Launch-LC-Hook", "Terminate-LC-Hook"]

  # What each rule matches. Events of EC2 carry an instance's id and nothing of its group: those of the whole account and region come.
  events = {
    terminate = {
      source      = local.sources["aws.autoscaling"]
      detail-type = ["EC2 Instance-terminate Lifecycle Action"]
      detail      = { LifecycleHookName = [{ anything-but = local.hooks_of_eks }] }
    }
    launch = {
      source      = local.sources["aws.autoscaling"]
      detail-type = ["EC2 Instance-launch Lifecycle Action"]
      detail      = { LifecycleHookName = [{ anything-but = local.hooks_of_eks }] }
    }
    warm-pool = {
      source      = local.sources["aws.autoscaling"]
      detail-type = ["EC2 Instance Launch Successful"]
      detail      = { Origin = ["WarmPool"], Destination = ["AutoScalingGroup"] }
    }
    spot = {
      source      = local.sources["aws.ec2"]
      detail-type = ["EC2 Spot Instance Interruption Warning"]
    }
    rebalance = {
      source      = local.sources["aws.ec2"]
      detail-type = ["EC2 Instance Rebalance Recommendation"]
    }
    capacity = {
      source      = local.sources["aws.ec2"]
      detail-type = ["Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning", "EC2 Capacity Reservation Instance Interruption Warning"]
    }
    state = {
      source      = local.sources["aws.ec2"]
      detail-type = ["EC2 Instance State-change Notification"]
      detail      = { state = ["shutting-down", "stopped", "stopping", "terminated"] }
    }
    health = {
      source      = local.sources["aws.health"]
      detail-type = ["AWS Health Event"]
      detail      = { service = ["EC2"], eventTypeCategory = ["scheduledChange"] }
    }
  }

  # Other accounts may forward their events to this bus, and an archive may be replayed onto it: neither is news of an instance of this cluster.
  patterns = { for event, pattern in local.events : event => merge(pattern, {
    account     = [var.account_id]
    replay-name = [{ exists = false }]
  }) }

  # A test event goes the way of the real one: through the same rule to the same queue. Anybody with events:PutEvents can send one, which is why
  # it is off by default; sources that begin with aws. only AWS can use.
  test_source = "sundown.test"
  sources = {
    for source in ["aws.autoscaling", "aws.ec2", "aws.health"] : source =>
    var.enable_test_events ? [source, local.test_source] : [source]
  }
}
