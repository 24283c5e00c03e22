//! The verdicts on an interruption.

use std::{sync::Arc, time::Duration};

use super::{HookClaim, LaunchEnd, LaunchWait};
use crate::domain::{
    GroupName, HookKey, HookName, HookResult, InstanceId, InstanceState, LifecycleAction, Moment,
    Node, NodeName, Response, seconds,
};

/// What to do with one interruption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Accept it: write it into the record of this Node.
    Accept(Accept),
    /// A scheduled change: note it on this Node ([`crate::record::plan`]). The drain begins later.
    Plan(Accept),
    /// The instance has no Node, and will not get one: complete the hook with CONTINUE, then delete
    /// the message.
    Complete(LifecycleAction),
    /// A launch hook that Sundown answers, and that waits for nothing any longer: complete it, then
    /// delete the message.
    AnswerLaunch(LaunchAnswer),
    /// It is not decided yet: ask the questions, wait, and call [`super::triage`] again.
    Wait(Wait),
    /// Delete the message and count it.
    Delete(Reason),
    /// Count it and let the message become visible again soon ([`hidden_from_others`]), because
    /// another reader of the queue may want it (`--shared-queue`).
    GiveBack(Reason),
}

/// The answer to a launch hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchAnswer {
    /// The lifecycle action to complete.
    pub action: LifecycleAction,
    /// Why it is completed now.
    pub end: LaunchEnd,
    /// ABANDON only after `--launch-timeout`, and only with `--launch-on-timeout=abandon`.
    pub result: HookResult,
    /// Cordon this Node first ([`crate::record::into_warm_pool`]): its instance goes into a warm
    /// pool, and AWS has confirmed the action.
    pub cordon: Option<Arc<Node>>,
}

/// The longest time for which a message for another reader stays hidden.
const LONGEST_HIDDEN: Duration = seconds(60);

/// How often a message for another reader is hidden for only a second: another reader may be the
/// next one to receive it. More often would use up the receives after which SQS moves the message to
/// a dead-letter queue (`maxReceiveCount`) before the reader that wants it has a leader again.
const SHORTLY_HIDDEN: u32 = 3;

/// How long a message for another reader stays hidden after it was received for the
/// `receive_count`th time. One second for the first three times, so that a spot notice
/// keeps its two minutes. Then twice as long each time, up to a minute, so that a message that
/// nobody wants is not received all the time.
#[must_use]
pub fn hidden_from_others(receive_count: u32) -> Duration {
    let doubled = receive_count.saturating_sub(SHORTLY_HIDDEN).min(16);
    seconds(1 << doubled).min(LONGEST_HIDDEN)
}

/// An interruption that is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// The Node to drain, as the index or the LIST last showed it.
    pub node: Arc<Node>,
    /// The instance that is interrupted. It is the Node's by its providerID, or by its name if it
    /// has none.
    pub instance: InstanceId,
    /// What Sundown does with the Node, by the kind of the interruption.
    pub response: Response,
    /// Whether it needed a proof, and has one.
    pub certainty: Certainty,
    /// Whether Sundown answers its hook; `Ours` without a hook. If `Undecided`, the hook is
    /// completed only once that is decided.
    pub claim: HookClaim,
    /// The state of the instance according to EC2; `None` if EC2 was not asked. `terminated` also
    /// if EC2 no longer knows the instance. If it has ended, no pod is evicted or waited for.
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
    /// once all are empty.
    Drain(Vec<Arc<Node>>),
}

impl OtherClaims {
    /// The other Nodes, whatever happens to them.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<Node>] {
        match self {
            Self::None => &[],
            Self::Cordon(nodes) | Self::Drain(nodes) => nodes,
        }
    }
}

/// Whether an accepted interruption is certain to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// It was read early enough to need no proof.
    Timely,
    /// It was stale when it was read, and AWS has proved it.
    Proved,
    /// It was stale when it was read, and AWS did not answer. The node is cordoned and its pods are
    /// evicted, but not forced. AWS is asked until it answers ([`super::holds`]).
    Unproved,
}

impl Certainty {
    /// The drain may force no pod and has no deadline.
    #[must_use]
    pub const fn is_polite(self) -> bool {
        matches!(self, Self::Unproved)
    }
}

/// What an undecided interruption waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Ask these questions, unless they are being asked already. Empty if only time or a change of
    /// the index can decide.
    pub ask: Vec<Question>,
    /// Call [`super::triage`] again at this moment, also without an answer.
    pub until: Option<Moment>,
    /// The questions are to prove a stale interruption. The time without an answer counts from the
    /// first such wait ([`super::Knowledge::note`]).
    pub proof: bool,
    /// A launch hook of ours waits for this.
    pub launch: Option<LaunchWait>,
}

/// A question of the table. The caller asks it until it is answered, and retries and batches calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// DescribeInstances, by filter. The answer goes to [`super::Knowledge::instance`]. If it has a
    /// private DNS name, the caller also adds Nodes without providerID that have this name to
    /// [`super::Knowledge::nodes`], now and whenever the index changes.
    Instance {
        /// The instance of the interruption.
        instance: InstanceId,
        /// A cached answer must not be older than this.
        not_before: Moment,
    },
    /// DescribeInstances: the instances with this private DNS name. The answer goes to
    /// [`super::Knowledge::namesakes`].
    Name(String),
    /// DescribeAutoScalingGroups: the group's tags. The answer goes to [`super::Knowledge::group`].
    Group(GroupName),
    /// DescribeLifecycleHooks: this hook. The answer goes to [`super::Knowledge::hook`].
    Hook(GroupName, HookName),
    /// DescribeLifecycleHooks: all hooks of the group. The answer goes to
    /// [`super::Knowledge::hooks`].
    Hooks(GroupName),
    /// One heartbeat, at once. The answer goes to [`super::Knowledge::heartbeat`].
    Heartbeat(HookKey),
    /// GET of the Lease of this Node in `kube-node-lease`. The answer goes to
    /// [`super::Knowledge::launch`].
    NodeLease(NodeName),
    /// LIST of the pods on this Node. The answer goes to [`super::Knowledge::launch`].
    DaemonSetPods(NodeName),
    /// One uncached LIST of the Nodes. Questions at about the same time share one LIST. The answer
    /// goes to [`super::Knowledge::listed`].
    List {
        /// The LIST must not have begun before this.
        not_before: Moment,
    },
}

/// Why a message is deleted or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The instance belongs to another cluster, or to none.
    Foreign,
    /// Another party answers the lifecycle hook.
    ForeignHook,
    /// Sundown does not manage the Node: the node selector does not match it, it has the annotation
    /// `sundown.dev/ignore`, or its instance lacks the managed tag.
    NotManaged,
    /// The interruption was stale when it was read, and AWS disproved it.
    Stale,
    /// The instance has no Node, and its cluster cannot be found out (no `--cluster-name`).
    Unknown,
    /// The instance belongs to this cluster and has no Node, and there is no hook to complete.
    NoNode,
    /// The operator has set [`Response::Ignore`] for this kind (`--on`).
    Ignored,
    /// A scheduled change that drains no node ([`crate::domain::ChangeAction::Report`]).
    Reported,
    /// There is nothing to do: a launch out of a warm pool without a Node to restore, or a launch
    /// hook that nothing shows to be Sundown's.
    NothingToDo,
    /// The message is understood and does not concern Sundown (`interruption::Parsed::Irrelevant`
    /// has the details).
    Irrelevant,
}

impl Reason {
    /// Every reason, for initializing metrics.
    pub const ALL: [Self; 10] = [
        Self::Foreign,
        Self::ForeignHook,
        Self::NotManaged,
        Self::Stale,
        Self::Unknown,
        Self::NoNode,
        Self::Ignored,
        Self::Reported,
        Self::NothingToDo,
        Self::Irrelevant,
    ];

    /// The word for it in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::ForeignHook => "foreign_hook",
            Self::NotManaged => "not_managed",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
            Self::NoNode => "no_node",
            Self::Ignored => "ignored",
            Self::Reported => "reported",
            Self::NothingToDo => "nothing_to_do",
            Self::Irrelevant => "irrelevant",
        }
    }

    /// Another reader of the queue may want the message.
    #[must_use]
    pub const fn may_concern_others(self) -> bool {
        matches!(
            self,
            Self::Foreign | Self::ForeignHook | Self::NotManaged | Self::Unknown | Self::Irrelevant
        )
    }
}
