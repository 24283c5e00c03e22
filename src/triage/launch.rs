//! When a launch hook is completed: what a new instance must have before it serves.

use std::{fmt, time::Duration};

use super::{ActionEndSeen, Knowledge, Question};
use crate::domain::{
    DaemonSetName, HookResult, LifecycleAction, Moment, Node, NodeName, Ready, seconds,
};

/// The least time between the receipt of a message and the timeout of its launch hook. The message
/// may have spent the whole launch timeout in the queue, and Sundown must still ask about the node.
const MIN_WAIT: Duration = seconds(15);
/// How long an instance that goes into a warm pool may take to have a Node. Many never have one
/// there: their user data stops them first.
const POOL_JOIN_TIMEOUT: Duration = seconds(300);
/// How old an answer about the Node's Lease or its pods may be before Sundown asks again. A kubelet
/// renews its Lease every 10 s.
const ASK_AGAIN: Duration = seconds(5);

/// What a new instance must have before its launch hook is completed (`--launch-…`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchPolicy {
    /// How long after its event a launch hook is completed although something is missing
    /// (`--launch-timeout`).
    pub timeout: Duration,
    /// With which result it is completed then (`--launch-on-timeout`), if the API server shows that
    /// something is missing.
    pub on_timeout: HookResult,
    /// DaemonSets that must have a Ready pod on the Node (`--launch-daemonset`).
    pub daemon_sets: Vec<DaemonSetName>,
    /// Keys of taints that must be gone from the Node (`--launch-startup-taint`).
    pub startup_taints: Vec<String>,
}

impl LaunchPolicy {
    /// When a launch hook is completed although something is missing.
    #[must_use]
    pub fn ends(&self, known: &Knowledge) -> Moment {
        ends_after(self.timeout, known)
    }
}

fn ends_after(timeout: Duration, known: &Knowledge) -> Moment {
    known.happened.plus(timeout).max(known.received.plus(MIN_WAIT))
}

/// What a new instance still lacks. The first thing that is missing, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// It has no Node.
    Node,
    /// Its Node is not Ready.
    Ready,
    /// The Node has a startup taint with this key.
    TaintRemoval(Box<str>),
    /// `--node-selector` does not match the Node. Other controllers may still add the label.
    Selection,
    /// The kubelet has not renewed its Lease since the launch action began: the Ready condition may
    /// be that of the instance's previous life.
    LeaseRenewal,
    /// The API server or AWS did not answer whether the Node must be restored after a drain.
    ReturnCheck,
    /// No pod of this DaemonSet is Ready on the Node.
    DaemonSetPod(Box<DaemonSetName>),
    /// AWS has not confirmed yet that the action is open. Only for an instance that goes into a warm
    /// pool: its Node is cordoned, and a copy of an old event must not cordon a node in service.
    Confirmation,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => write!(f, "it has no Node"),
            Self::Ready => write!(f, "its Node is not Ready"),
            Self::TaintRemoval(key) => write!(f, "its Node has the startup taint {key}"),
            Self::Selection => write!(f, "its Node lacks the labels of --node-selector"),
            Self::LeaseRenewal => {
                write!(f, "its kubelet has not renewed its Lease since the launch began")
            }
            Self::ReturnCheck => {
                write!(f, "it is not known yet whether a drain of its Node must be undone")
            }
            Self::DaemonSetPod(name) => {
                write!(f, "its Node has no Ready pod of the DaemonSet {name}")
            }
            Self::Confirmation => write!(f, "AWS has not confirmed yet that its action is open"),
        }
    }
}

/// Why a launch hook is completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchEnd {
    /// Its Node is ready.
    Ready,
    /// `--launch-timeout` has passed, and this is still missing.
    TimedOut(Missing),
    /// The instance ends, or AWS no longer has the action open: nothing is left to wait for.
    Over,
    /// The instance is launched into a warm pool: its Node is ready, or it had none until the
    /// timeout. It may never have one there.
    IntoWarmPool,
}

/// What a launch hook waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchWait {
    /// What its instance lacks.
    pub missing: Missing,
    /// When Sundown completes the hook all the same.
    pub ends: Moment,
}

/// The next step for a launch hook of ours.
pub(super) enum LaunchStep {
    Complete(LaunchEnd, HookResult),
    Wait { waits: LaunchWait, ask: Vec<Question>, until: Moment },
}

/// A launch hook that Sundown answers.
pub(super) struct Launch<'a> {
    pub(super) node: Option<&'a Node>,
    pub(super) known: &'a Knowledge,
    pub(super) policy: &'a LaunchPolicy,
    pub(super) now: Moment,
    /// The action, if it launches the instance into the warm pool of its group.
    pub(super) into_pool: Option<&'a LifecycleAction>,
    /// EC2 or the group reports that the instance ends or has ended.
    pub(super) is_over: bool,
    /// The tags of its group name this cluster, and no other Node claims the instance. Without
    /// that, the instance is not abandoned.
    pub(super) may_abandon: bool,
    /// `--node-selector` matches the Node.
    pub(super) is_selected: bool,
}

impl Launch<'_> {
    /// What to do now.
    pub(super) fn next_step(&self) -> LaunchStep {
        let Self { known, now, .. } = *self;
        let is_refused = self.into_pool.is_some() && self.is_confirmed() == Some(false);
        if self.is_over || known.action_end != ActionEndSeen::NotKnown || is_refused {
            return LaunchStep::Complete(LaunchEnd::Over, HookResult::Continue);
        }
        let Some(missing) = self.missing() else {
            let end =
                if self.into_pool.is_some() { LaunchEnd::IntoWarmPool } else { LaunchEnd::Ready };
            return LaunchStep::Complete(end, HookResult::Continue);
        };
        let ends = self.ends(&missing);
        if now < ends {
            return self.wait_for(missing, ends);
        }
        // An instance may never have a Node in the pool, so it is not abandoned there.
        if self.into_pool.is_some() {
            let end = if missing == Missing::Node {
                LaunchEnd::IntoWarmPool
            } else {
                LaunchEnd::TimedOut(missing)
            };
            return LaunchStep::Complete(end, HookResult::Continue);
        }
        let abandons = self.may_abandon && self.is_certain(&missing);
        let result = if abandons { self.policy.on_timeout } else { HookResult::Continue };
        LaunchStep::Complete(LaunchEnd::TimedOut(missing), result)
    }

    /// Until when it waits for what is missing.
    fn ends(&self, missing: &Missing) -> Moment {
        let Self { known, policy, .. } = *self;
        let may_never_join =
            self.into_pool.is_some() && *missing == Missing::Node && known.index_trusted;
        if may_never_join {
            let timeout = policy.timeout.min(POOL_JOIN_TIMEOUT);
            ends_after(timeout, known)
        } else {
            policy.ends(known)
        }
    }

    /// AWS's answer to the last heartbeat: whether the action is open.
    fn is_confirmed(&self) -> Option<bool> {
        self.known.heartbeat.map(|heartbeat| heartbeat.accepted)
    }

    fn wait_for(&self, missing: Missing, ends: Moment) -> LaunchStep {
        let Self { node, known, now, .. } = *self;
        let (question, answered_at) = match (&missing, node) {
            (Missing::LeaseRenewal, Some(node)) => {
                (Some(Question::NodeLease(node.name.clone())), known.lease().map(|lease| lease.at))
            }
            (Missing::DaemonSetPod(_), Some(node)) => (
                Some(Question::DaemonSetPods(node.name.clone())),
                known.daemon_set_pods().map(|pods| pods.at),
            ),
            _ => (None, None),
        };
        let ask_at = answered_at.map(|at| at.plus(ASK_AGAIN)).filter(|at| *at > now);
        let mut ask: Vec<_> = question.filter(|_| ask_at.is_none()).into_iter().collect();
        if let Some(action) = self.into_pool.filter(|_| self.is_confirmed().is_none()) {
            ask.push(Question::Heartbeat(action.key.clone()));
        }
        let until = ask_at.map_or(ends, |at| at.min(ends));
        LaunchStep::Wait { waits: LaunchWait { missing, ends }, ask, until }
    }

    /// Whether fresh answers prove that this is missing. If the API server or EC2 does not answer,
    /// Sundown must not abandon a good instance. Without EC2's answer, Sundown cannot find a Node
    /// that has no providerID.
    fn is_certain(&self, missing: &Missing) -> bool {
        let known = self.known;
        let is_fresh = |at: Moment| self.now.since_or_zero(at) <= ASK_AGAIN * 3;
        known.index_trusted
            && match missing {
                Missing::Node => {
                    known.instance.as_ref().is_some_and(|answer| answer.at >= known.received)
                }
                Missing::Ready | Missing::TaintRemoval(_) => true,
                Missing::Selection | Missing::ReturnCheck | Missing::Confirmation => false,
                Missing::LeaseRenewal => known.lease().is_some_and(|lease| is_fresh(lease.at)),
                Missing::DaemonSetPod(_) => {
                    known.daemon_set_pods().is_some_and(|pods| is_fresh(pods.at))
                }
            }
    }

    fn missing(&self) -> Option<Missing> {
        let Self { known, policy, .. } = *self;
        let Some(node) = self.node else { return Some(Missing::Node) };
        if node.ready != Ready::True {
            return Some(Missing::Ready);
        }
        let is_startup_taint = |key: &String| node.taints.iter().any(|taint| taint.key == *key);
        if let Some(key) = policy.startup_taints.iter().find(|key| is_startup_taint(key)) {
            return Some(Missing::TaintRemoval(key.as_str().into()));
        }
        if !self.is_selected {
            return Some(Missing::Selection);
        }
        let renewed = known.lease().filter(|lease| lease.node == node.name);
        if renewed.and_then(|lease| lease.renewed).is_none_or(|at| at < known.happened) {
            return Some(Missing::LeaseRenewal);
        }
        if matches!(known.return_check, ReturnCheck::Failed(_)) {
            return Some(Missing::ReturnCheck);
        }
        let pods = known.daemon_set_pods().filter(|pods| pods.node == node.name);
        let is_ready = |name: &&DaemonSetName| pods.is_some_and(|pods| pods.ready.contains(*name));
        if let Some(name) = policy.daemon_sets.iter().find(|name| !is_ready(name)) {
            return Some(Missing::DaemonSetPod(Box::new(name.clone())));
        }
        (self.into_pool.is_some() && self.is_confirmed() != Some(true))
            .then_some(Missing::Confirmation)
    }
}

/// The pause after a check whether the Node must be restored that had no answer.
const RETRY_RETURN: Duration = seconds(10);
/// How often a Node may be read again to find out if it must be restored.
const CHECK_RETURN_AGAIN: Duration = seconds(30);

/// Whether the Node of an instance that goes into service was read, to find out if it must be
/// restored after a drain. A launch hook may wait for minutes, and a read in each turn would cost
/// too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnCheck {
    /// Not yet.
    Never,
    /// At this moment the API server or AWS did not answer.
    Failed(Moment),
    /// It was read at this moment, and there was nothing to restore or it was restored.
    Done(Moment),
}

impl ReturnCheck {
    /// Whether to read the Node now. After the first time only if the index shows that something
    /// may have to be restored (`may_need_restore`), and every 30 s at most.
    #[must_use]
    pub fn is_due(self, may_need_restore: bool, now: Moment) -> bool {
        match self {
            Self::Never => true,
            Self::Failed(at) => now >= at.plus(RETRY_RETURN),
            Self::Done(at) => may_need_restore && now >= at.plus(CHECK_RETURN_AGAIN),
        }
    }
}

/// The answer to [`Question::NodeLease`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseAnswer {
    /// The Node whose Lease was read.
    pub node: NodeName,
    /// When the request began.
    pub at: Moment,
    /// `spec.renewTime` on our clock; `None`: there is no such Lease.
    pub renewed: Option<Moment>,
}

/// The answer to [`Question::DaemonSetPods`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSetPodsAnswer {
    /// The Node whose pods were listed.
    pub node: NodeName,
    /// When the request began.
    pub at: Moment,
    /// The DaemonSets that have a Ready pod on the Node.
    pub ready: std::collections::BTreeSet<DaemonSetName>,
}
