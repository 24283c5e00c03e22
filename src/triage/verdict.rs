//! What can become of an interruption.

use std::{sync::Arc, time::Duration};

use super::HookClaim;
use crate::domain::{
    GroupName, HookKey, HookName, InstanceId, InstanceState, LifecycleAction, Moment, Node, seconds,
};

/// What to do with one interruption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Take it on: write it into the record of this Node.
    Accept(Accept),
    /// There is no Node, and there will be none: complete the hook with CONTINUE, then delete the
    /// message.
    Complete(LifecycleAction),
    /// A launch hook of ours: complete it with CONTINUE at once, with a warning, then delete the
    /// message.
    AnswerLaunch(LifecycleAction),
    /// Not decided yet: ask, wait, call again.
    Wait(Wait),
    /// Delete the message and count it.
    Delete(Reason),
    /// Count it and let the message reappear soon (see [`hidden_from_others`]): another party may
    /// want it (`--shared-queue`).
    Leave(Reason),
}

/// The longest that a message for another party is hidden.
const LONGEST_HIDDEN: Duration = seconds(60);

/// How long a message that is for another party stays hidden after it was received for the
/// `receive_count`th time: a second at first, so that a spot notice keeps its two minutes, then
/// twice as long each time, so that readers do not hand a message that nobody wants back and forth
/// without end.
#[must_use]
pub fn hidden_from_others(receive_count: u32) -> Duration {
    let doubled = receive_count.saturating_sub(1).min(16);
    seconds(1 << doubled).min(LONGEST_HIDDEN)
}

/// An interruption that is taken on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// The Node as it was last seen.
    pub node: Arc<Node>,
    /// The Node's instance: its providerID, or where it has none the instance that
    /// DescribeInstances gave.
    pub instance: InstanceId,
    /// How sure it is.
    pub certainty: Certainty,
    /// Whether Sundown answers its hook. `Undecided`: the hook is completed only once that is
    /// decided. `Ours` also without a hook.
    pub claim: HookClaim,
    /// What EC2 says of the instance, where it was asked: over means no eviction and no wait. An
    /// instance that EC2 does not know any more is `terminated`.
    pub state: Option<InstanceState>,
    /// What happens to other Nodes that claim the same instance.
    pub others: OtherClaims,
}

/// What happens to other Nodes that claim the instance of an accepted interruption.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OtherClaims {
    /// No other Node claims it.
    #[default]
    None,
    /// EC2 confirms the accepted Node: these are only cordoned.
    Cordon(Vec<Arc<Node>>),
    /// EC2 confirms none of them: these are drained as well, and the lifecycle action is completed
    /// when all are empty.
    Drain(Vec<Arc<Node>>),
}

impl OtherClaims {
    /// The other Nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<Node>] {
        match self {
            Self::None => &[],
            Self::Cordon(nodes) | Self::Drain(nodes) => nodes,
        }
    }
}

/// How sure it is that an accepted interruption still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// It was read in its own time.
    Timely,
    /// It was read after its own time, and is proved.
    Proved,
    /// It was read after its own time, and nobody could be asked: cordon and polite evictions, no
    /// force, and it is asked on (see [`super::disproved`]).
    Unproved,
}

impl Certainty {
    /// No pod may be forced, and nothing ends by a deadline.
    #[must_use]
    pub const fn is_polite(self) -> bool {
        matches!(self, Self::Unproved)
    }
}

/// What an undecided interruption waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Ask these, if they are not being asked already. Empty: only time, or the index, can tell.
    pub ask: Vec<Question>,
    /// Call again at this moment even if nothing was learnt.
    pub until: Option<Moment>,
    /// These are asked to prove a stale interruption: how long they go unanswered counts (see
    /// [`super::Knowledge::note`]).
    pub proof: bool,
}

/// What the table wants to know. Each question is asked until it is answered: the one who asks
/// retries and batches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// DescribeInstances, by filter. The answer goes to `Knowledge::instance`; when it names a
    /// private DNS name, the index is looked through for a Node without providerID of that name
    /// (`Knowledge::nodes`), now and whenever it changes.
    Instance {
        /// The instance.
        instance: InstanceId,
        /// An answer of a cache must not be older than this.
        not_before: Moment,
    },
    /// DescribeInstances by private DNS name: which instances have it. To `Knowledge::namesakes`.
    Name(String),
    /// DescribeAutoScalingGroups: the group's tags. To `Knowledge::group`.
    Group(GroupName),
    /// DescribeLifecycleHooks. To `Knowledge::hook`.
    Hook(GroupName, HookName),
    /// DescribeLifecycleHooks: which hooks the group has. To `Knowledge::hooks`.
    Hooks(GroupName),
    /// One heartbeat, now. To `Knowledge::beat`.
    Heartbeat(HookKey),
    /// One uncached LIST of the Nodes, which all who ask at about the same time share. To
    /// `Knowledge::listed`.
    List {
        /// It must not have been begun before this.
        not_before: Moment,
    },
}

/// Why a message is deleted or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// An instance of no cluster, or of another.
    Foreign,
    /// A lifecycle hook that is not ours to answer.
    ForeignHook,
    /// A Node that is not ours to touch: another provisioner's, told to be left alone, or without
    /// the managed tag.
    NotManaged,
    /// Read after its own time, and disproved.
    Stale,
    /// No Node, and nobody could say whose instance it is (no `--cluster-name`).
    Unknown,
    /// Our instance without a Node, and nothing that would have to be completed.
    NoNode,
    /// A kind that is understood, and not acted on yet.
    NotActedOnYet,
    /// Understood, and nothing that Sundown deals with (`interruption::Parsed::Irrelevant`, which
    /// says more exactly what).
    Irrelevant,
}

impl Reason {
    /// Every reason, for initialising metrics.
    pub const ALL: [Self; 8] = [
        Self::Foreign,
        Self::ForeignHook,
        Self::NotManaged,
        Self::Stale,
        Self::Unknown,
        Self::NoNode,
        Self::NotActedOnYet,
        Self::Irrelevant,
    ];

    /// Its word in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::ForeignHook => "foreign_hook",
            Self::NotManaged => "not_managed",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
            Self::NoNode => "no_node",
            Self::NotActedOnYet => "not_acted_on_yet",
            Self::Irrelevant => "irrelevant",
        }
    }

    /// Somebody else may want the message.
    #[must_use]
    pub const fn may_concern_others(self) -> bool {
        matches!(
            self,
            Self::Foreign | Self::ForeignHook | Self::NotManaged | Self::Unknown | Self::Irrelevant
        )
    }
}
