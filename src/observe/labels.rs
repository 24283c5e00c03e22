//! The words that metrics are labelled with: few, known beforehand, from enums.

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
            /// All of them: the families are initialised with them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in the label.
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
    /// What became of a message that was understood.
    MessageOutcome {
        /// Written on its Node as a new record.
        Accepted = "accepted",
        /// Joined to the open record of its Node.
        Joined = "joined",
        /// Says nothing that the record does not say.
        Repeat = "repeat",
        /// Its hook was completed without a drain: the instance is going and has no Node.
        Completed = "completed",
        /// A launch hook was answered CONTINUE.
        LaunchAnswered = "launch_answered",
        /// The instance is back in service: its node was put back as it was.
        Restored = "restored",
        /// About a hook that is not ours.
        ForeignHook = "foreign_hook",
        /// About a node that is not ours to drain.
        NotManaged = "not_managed",
        /// About an instance of another cluster or of none.
        Foreign = "foreign",
        /// About an instance of which nothing could be learnt in time.
        Unknown = "unknown",
        /// Its time was over, and nothing of it is true any more.
        Stale = "stale",
        /// Understood, but of a kind that is not acted on.
        NotActedOn = "not_acted_on",
        /// A test notification.
        Test = "test",
        /// Of another service, or of a kind that concerns no instance.
        Unrelated = "unrelated",
        /// Left in the queue: not for us in a shared queue, or undecided at shutdown.
        Left = "left",
        /// Only said, not done: a dry run.
        DryRun = "dry_run",
    }
);

labels!(
    /// The states of the pods that drains wait for.
    PodState {
        /// Not asked to go yet.
        Waiting = "waiting",
        /// Its eviction is refused.
        Blocked = "blocked",
        /// Going: it has a deletion timestamp.
        Terminating = "terminating",
    }
);

labels!(
    /// How a drain ended.
    DrainEnd {
        /// No pod that counts was left.
        Empty = "empty",
        /// The deadline was reached with pods left.
        DeadlineReached = "deadline_reached",
        /// The Node was deleted.
        NodeGone = "node_gone",
        /// The instance was stopped or terminated.
        InstanceOver = "instance_over",
        /// The node could not be reached.
        Unreachable = "unreachable",
        /// A person released it, or the interruption was disproved.
        Released = "released",
        /// The drain timeout was reached, where no deadline forces.
        TimedOut = "timed_out",
        /// Its record was void.
        Void = "void",
    }
);

labels!(
    /// What came of a heartbeat.
    HeartbeatResult {
        /// Accepted.
        Accepted = "accepted",
        /// There is no such lifecycle action any more.
        Over = "over",
        /// Failed, to be tried again.
        Failed = "failed",
        /// Not allowed.
        Denied = "denied",
    }
);

labels!(
    /// What came of a CompleteLifecycleAction.
    CompletionResult {
        /// Accepted.
        Accepted = "accepted",
        /// There is no such lifecycle action any more.
        Gone = "gone",
        /// Failed, to be tried again.
        Failed = "failed",
        /// Not allowed.
        Denied = "denied",
    }
);

labels!(
    /// What befell a Node's record.
    RecordEvent {
        /// Written anew.
        Written = "written",
        /// Released.
        Released = "released",
        /// It names another instance, or an earlier boot.
        Void = "void",
        /// It could not be read.
        Damaged = "damaged",
        /// Deleted by hand, and written back.
        Restored = "restored",
        /// What was there before was put back.
        PutBack = "put_back",
        /// A write met a newer Node and was rebuilt.
        Conflict = "conflict",
    }
);

labels!(
    /// What came of the spans of a trace.
    TraceResult {
        /// Sent.
        Sent = "sent",
        /// Given up, or not taken by the collector.
        Failed = "failed",
        /// Not tried: too many traces waited.
        Dropped = "dropped",
    }
);

labels!(
    /// What came of a notification.
    WebhookResult {
        /// Sent.
        Sent = "sent",
        /// Not sent yet, and tried again.
        Retried = "retried",
        /// Given up.
        Failed = "failed",
        /// Not tried: too many waited.
        Dropped = "dropped",
    }
);
