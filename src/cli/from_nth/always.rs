//! Differences that do not depend on settings: IAM actions and behavior.

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

/// NTH's actions are those of its documentation, on every resource. Ours are those of the README,
/// on one queue and on groups with the cluster's tag.
pub(super) const RIGHTS: &[Right] = &[
    right("sqs:ReceiveMessage", true, true, ""),
    right("sqs:DeleteMessage", true, true, ""),
    right(
        "sqs:ChangeMessageVisibility",
        false,
        true,
        "a message stays invisible to others until it is decided, and is returned to the queue at \
         shutdown",
    ),
    right(
        "sqs:GetQueueAttributes",
        false,
        true,
        "readiness: whether the queue exists and may be used",
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
        "which cluster owns the group of an instance without a node; and after a change of leader, \
         whether an instance waits in its hook",
    ),
    right(
        "autoscaling:DescribeWarmPool",
        false,
        true,
        "whether an instance in the warm pool of its group waits in a hook",
    ),
    right(
        "ec2:DescribeInstances",
        true,
        true,
        "only for instances that have no node, or whose event was read late",
    ),
    right("ec2:DescribeInstanceStatus", false, true, "scheduled events whose message was lost"),
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
        "Sundown keeps every lifecycle hook open for as long as the drain takes, up to \
         `--drain-timeout`, without any setting",
    ),
    (
        "budgets at a deadline",
        "Sundown deletes a pod that its budget blocks when the deadline demands it, as late as the \
         pod's grace period allows; NTH lets the instance go with the pod on it. \
         `config.forceAfter: never` does the same here",
    ),
    (
        "lifecycle hooks of others",
        "NTH completes every hook that has an event in its queue. If a group has a hook whose name \
         starts with `sundown`, Sundown leaves its other hooks alone: nobody answers a hook that \
         was made for NTH then, so delete it or name it in `config.lifecycleHook`. In a group \
         without a hook `sundown...` Sundown completes all hooks except those of EKS, also those \
         of another tool. `sundown check` and `sundown enroll` report both",
    ),
    (
        "restarts",
        "the state of a drain is written on the Node; after a crash, an upgrade or a change of \
         leader the drain goes on",
    ),
    (
        "messages",
        "a message is deleted when its interruption is accepted, not when the drain is over: a \
         dead-letter queue with maxReceiveCount 10 or more makes sense, and so does an alarm on \
         the queue's age",
    ),
    (
        "rebalance recommendations",
        "ignored: NTH drains on each in queue mode. `--on rebalance=drain` drains, too, and puts the \
         node back if no interruption follows. Without it, leave their rule out",
    ),
    (
        "AWS Health",
        "Sundown drains `--scheduled-lead` (1 h) before a scheduled change begins, and puts the node \
         back if AWS cancels it: NTH drains at once, days before",
    ),
    (
        "launch hooks",
        "Sundown answers its own launch hooks with CONTINUE at once: NTH waits until the node is \
         Ready. Leave launch hooks to other tools if that matters",
    ),
    (
        "spot",
        "the node has a deadline of 120 s from the notice, less a margin; the \
         nodes of a Capacity Block until 30 min before its end",
    ),
    (
        "nodes of others",
        "Sundown leaves nodes of Karpenter and of EKS Auto Mode alone unless `--node-selector` \
         selects them",
    ),
    (
        "restored nodes",
        "Sundown uncordons a node whose interruption was disproved or released by hand, and \
         removes its taint and label; NTH leaves it cordoned",
    ),
];
