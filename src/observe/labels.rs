//! The values of metric labels, as enums: the number of series is bounded and known at the start.

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$vdoc:meta])* $variant:ident = $word:literal), + $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl $name {
            /// All values: each has a series from the start.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value of the label.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }
    };
}

labels!(
    /// The outcome of a message whose body Sundown understood.
    MessageOutcome {
        /// Written on its Node as a new record.
        Accepted = "accepted",
        /// Joined to the open record of its Node.
        Joined = "joined",
        /// A scheduled change, noted on its Node until its drain begins.
        Planned = "planned",
        /// The record of its Node contains it already.
        Repeat = "repeat",
        /// Its hook was completed without a drain: the instance is terminating and has no Node.
        Completed = "completed",
        /// A launch hook was completed with CONTINUE: its node is ready, or the hook is over.
        LaunchAnswered = "launch_answered",
        /// A launch hook was over before its node was ready: the instance ended, or AWS closed it.
        LaunchOver = "launch_over",
        /// A launch hook was completed after `--launch-timeout`, although its node was not ready.
        LaunchTimedOut = "launch_timed_out",
        /// The instance is back in service: its node was restored.
        Restored = "restored",
        /// It concerns a lifecycle hook that Sundown does not manage.
        ForeignHook = "foreign_hook",
        /// It concerns a node that Sundown may not drain.
        NotManaged = "not_managed",
        /// It concerns an instance of another cluster, or of no cluster.
        Foreign = "foreign",
        /// It concerns an instance about which neither Kubernetes nor AWS gave an answer in time.
        Unknown = "unknown",
        /// It concerns a Capacity Block in which no instance runs.
        NoInstance = "no_instance",
        /// Its time has passed and it no longer applies.
        Stale = "stale",
        /// Understood, but Sundown does not act on this kind, or `--on` ignores it.
        NotActedOn = "not_acted_on",
        /// A test notification, or a test event on which Sundown does not act.
        Test = "test",
        /// From another service, or of a kind that concerns no instance.
        Unrelated = "unrelated",
        /// Left in the queue: not for this cluster in a shared queue, no room in the record, or
        /// undecided at shutdown.
        Left = "left",
        /// Sundown only logged what it would have done (`--dry-run`).
        DryRun = "dry_run",
    }
);

impl MessageOutcome {
    /// The outcomes of what the sweep found: it has no messages.
    pub const OF_SWEEP: [Self; 15] = [
        Self::Accepted,
        Self::Joined,
        Self::Repeat,
        Self::Completed,
        Self::ForeignHook,
        Self::NotManaged,
        Self::Foreign,
        Self::Unknown,
        Self::Stale,
        Self::NotActedOn,
        Self::Left,
        Self::LaunchAnswered,
        Self::LaunchTimedOut,
        Self::LaunchOver,
        Self::Restored,
    ];

    /// The outcomes of scheduled events that EC2 shows.
    pub const OF_EVENTS: [Self; 8] = [
        Self::Planned,
        Self::Repeat,
        Self::NotManaged,
        Self::Foreign,
        Self::Unknown,
        Self::Stale,
        Self::NotActedOn,
        Self::Left,
    ];
}

labels!(
    /// How a round of a sweep ended.
    SweepResult {
        /// AWS answered every call.
        Answered = "answered",
        /// AWS throttled a call: the pause to the next round doubles.
        Throttled = "throttled",
        /// A policy forbids the call: the pause to the next round doubles.
        Denied = "denied",
        /// A call failed otherwise.
        Failed = "failed",
    }
);

labels!(
    /// A step of Sundown about a sick instance.
    ImpairedStep {
        /// The drain of its node began.
        Begun = "begun",
        /// It was healthy again, and its node was restored.
        Recovered = "recovered",
        /// Its drain had ended, and Auto Scaling took it as unhealthy.
        SetUnhealthy = "set_unhealthy",
        /// Sundown may not call SetInstanceHealth.
        Denied = "denied",
        /// SetInstanceHealth failed otherwise, and is tried again.
        Failed = "failed",
    }
);

labels!(
    /// What became of the Node of a drained instance that is gone.
    GoneNodeStep {
        /// It has the out-of-service taint.
        Tainted = "tainted",
        /// It was deleted.
        Deleted = "deleted",
        /// Sundown lacks the right for that, or a policy or webhook refuses it.
        Denied = "denied",
    }
);

labels!(
    /// The state of a pod that a drain waits for.
    PodState {
        /// Not evicted or deleted yet.
        Waiting = "waiting",
        /// Its eviction is refused.
        Blocked = "blocked",
        /// It has a deletion timestamp.
        Terminating = "terminating",
    }
);

labels!(
    /// How a drain ended.
    DrainEnd {
        /// No pod was left that has to leave.
        Empty = "empty",
        /// The deadline was reached with pods left.
        DeadlineReached = "deadline_reached",
        /// The Node was deleted.
        NodeGone = "node_gone",
        /// The instance was stopped or terminated.
        InstanceOver = "instance_over",
        /// The node was only tainted or cordoned: `--on` does not ask for evictions.
        NotEvicted = "not_evicted",
        /// No interruption followed a recommendation in time, and the node was restored.
        Expired = "expired",
        /// The node was unreachable.
        Unreachable = "unreachable",
        /// A person released it, or the interruption was disproved.
        Released = "released",
        /// AWS contradicted its lifecycle actions, and the node was restored.
        Contradicted = "contradicted",
        /// The drain timeout was reached, and no deadline forces pods.
        TimedOut = "timed_out",
        /// Its record did not count: see [`RecordEvent::Void`].
        Void = "void",
    }
);

labels!(
    /// The result of a RecordLifecycleActionHeartbeat call.
    HeartbeatResult {
        /// AWS accepted it.
        Accepted = "accepted",
        /// The lifecycle action no longer exists.
        Over = "over",
        /// It failed and is retried.
        Failed = "failed",
        /// Sundown may not make the call.
        Denied = "denied",
    }
);

labels!(
    /// The result of a CompleteLifecycleAction call.
    CompletionResult {
        /// AWS accepted it, with CONTINUE.
        Accepted = "accepted",
        /// AWS accepted it, with ABANDON.
        Abandoned = "abandoned",
        /// The lifecycle action no longer exists.
        Gone = "gone",
        /// It failed and is retried.
        Failed = "failed",
        /// Sundown may not make the call.
        Denied = "denied",
    }
);

labels!(
    /// An event of the record on a Node.
    RecordEvent {
        /// A new record was written.
        Written = "written",
        /// The end of the drain was written into it.
        Released = "released",
        /// It does not count, because it names another instance or an earlier boot.
        Void = "void",
        /// It could not be read.
        Damaged = "damaged",
        /// A person deleted it, and Sundown wrote it back.
        Restored = "restored",
        /// The Node was restored to its state before the drain.
        NodeRestored = "put_back",
        /// The annotation `sundown.dev/planned` could not be read.
        PlannedUnreadable = "planned_unreadable",
        /// An annotation `drain.sundown.dev/NAME` is not obeyed: it is no request, or its deadline
        /// has passed.
        RequestRefused = "request_refused",
        /// The Node had changed before a write, and the write was built again from the new Node.
        Conflict = "conflict",
    }
);

labels!(
    /// The result of sending the spans of a trace.
    TraceResult {
        /// The collector took them.
        Sent = "sent",
        /// Given up, or refused by the collector.
        Failed = "failed",
        /// Never sent, because too many spans waited.
        Dropped = "dropped",
    }
);

labels!(
    /// The result of sending a notification.
    WebhookResult {
        /// The webhook took it.
        Sent = "sent",
        /// An attempt failed and another follows.
        Retried = "retried",
        /// Given up.
        Failed = "failed",
        /// Never sent, because too many notifications waited.
        Dropped = "dropped",
    }
);
