//! What differs whatever the settings are: rights, and behaviour.

/// An action of IAM: whether NTH's policy has it, whether ours does, and why.
pub(super) struct Right {
    pub(super) action: &'static str,
    pub(super) theirs: bool,
    pub(super) ours: bool,
    pub(super) why: &'static str,
}

const fn right(action: &'static str, theirs: bool, ours: bool, why: &'static str) -> Right {
    Right { action, theirs, ours, why }
}

/// NTH's are those of its documentation, on every resource; ours those of the README, on one queue
/// and on groups with the cluster's tag.
pub(super) const RIGHTS: &[Right] = &[
    right("sqs:ReceiveMessage", true, true, ""),
    right("sqs:DeleteMessage", true, true, ""),
    right(
        "sqs:ChangeMessageVisibility",
        false,
        true,
        "what is undecided is kept from others, and given back at the end",
    ),
    right(
        "sqs:GetQueueAttributes",
        false,
        true,
        "readiness: whether the queue is there and may be used",
    ),
    right("autoscaling:CompleteLifecycleAction", true, true, ""),
    right(
        "autoscaling:RecordLifecycleActionHeartbeat",
        false,
        true,
        "hooks are always kept open (NTH needs it too, once heartbeat-interval is set)",
    ),
    right(
        "autoscaling:DescribeLifecycleHooks",
        false,
        true,
        "how long a hook waits (NTH needs it too, once heartbeat-interval is set)",
    ),
    right(
        "autoscaling:DescribeAutoScalingGroups",
        false,
        true,
        "whose a group is, of an instance without a node; and after a change of leader whether an \
         instance waits in its hook",
    ),
    right(
        "ec2:DescribeInstances",
        true,
        true,
        "only of instances that have no node, or that are late",
    ),
    right(
        "autoscaling:DescribeAutoScalingInstances",
        true,
        false,
        "not asked (NTH asks no more either)",
    ),
    right("autoscaling:DescribeTags", true, false, "not asked (NTH asks no more either)"),
];

/// What behaves differently after the move, and why.
pub(super) const BEHAVIOUR: &[(&str, &str)] = &[
    (
        "heartbeats",
        "every lifecycle hook is kept open by itself for as long as the drain takes, up to \
         `--drain-timeout`; nothing is to be switched on",
    ),
    (
        "budgets at a deadline",
        "a pod that its budget holds is deleted when the deadline demands it, as late as its own \
         grace period allows; NTH lets the instance go with the pod on it. `config.forceAfter: \
         never` is NTH's way",
    ),
    (
        "lifecycle hooks of others",
        "NTH completes every hook that its queue tells it of. Sundown leaves hooks alone that \
         stand beside one whose name starts with `sundown`: a hook that was made for NTH is then \
         answered by nobody, so delete it or name it in `config.lifecycleHook`. In a group without \
         a hook `sundown...` it completes all but those of EKS, also another tool's. `sundown \
         check` and `sundown enroll` name both",
    ),
    (
        "restarts",
        "what was begun is written on the Node; a crash, an upgrade or another leader goes on \
         with it",
    ),
    (
        "messages",
        "a message is deleted when its node is marked, not when the drain is over: a dead-letter \
         queue with maxReceiveCount 10 or more makes sense, and so does an alarm on the queue's \
         age",
    ),
    (
        "rebalance recommendations",
        "not acted on yet: NTH drains on each in queue mode. Leave their rule out",
    ),
    (
        "AWS Health",
        "scheduled changes are not acted on yet: NTH drains at once, days before. Plan them by \
         hand until then",
    ),
    (
        "launch hooks",
        "one of ours is answered CONTINUE at once: NTH waits until the node is Ready. Leave \
         launch hooks to others where that matters",
    ),
    (
        "spot",
        "the node has a deadline of 120 s from the notice, less a margin; capacity blocks their \
         stated end",
    ),
    (
        "nodes of others",
        "nodes of Karpenter and of EKS Auto Mode are left alone unless `--node-selector` says \
         otherwise",
    ),
    (
        "put back",
        "a node whose interruption was disproved or released by hand is uncordoned, and its marks \
         are taken away; NTH leaves it cordoned",
    ),
];
