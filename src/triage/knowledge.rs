//! What is known about an interruption so far.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    DaemonSetPodsAnswer, HooksAnswer, LeaseAnswer, Question, ReturnCheck, Staleness, Wait,
};
use crate::domain::{HookDescription, InstanceFacts, Interruption, Moment, Node};

/// What is known about one interruption so far. A fact that is not known yet is `None`. An error is
/// not an answer.
#[derive(Debug, Clone)]
pub struct Knowledge {
    /// When the message was received, on our clock.
    pub received: Moment,
    /// When the interruption happened, on our clock: the time of the event (or of the message, if
    /// the event has none), less the offset between AWS's clock and ours.
    pub happened: Moment,
    /// The sweep found the interruption, and no event of it has arrived. It needs a proof however
    /// young it is: DescribeAutoScalingGroups does not show in which hook an instance waits.
    pub is_found_by_sweep: bool,
    /// A Node of the instance was drained for a later action of the same hook and still has the
    /// cordon and the taint. It needs a proof, too: the message may be a late copy.
    pub is_before_last_drain: bool,
    /// The index is synced and its watch is not failing. Otherwise a Node that it lacks may exist.
    pub index_trusted: bool,
    /// The Nodes that the index has for the instance: those with its providerID and, once
    /// DescribeInstances has given the private DNS name, those for which
    /// [`Knowledge::is_named_after`] is true.
    pub nodes: Vec<Arc<Node>>,
    /// When AWS was first asked for the proof of a stale interruption ([`Knowledge::note`]). `None`
    /// again if the interruption is not stale after all ([`Knowledge::note_age`]).
    pub proof_asked_at: Option<Moment>,
    /// The last answer of DescribeInstances.
    pub instance: Option<InstanceAnswer>,
    /// All instances with the private DNS name of this one, itself included.
    pub namesakes: Option<Vec<InstanceFacts>>,
    /// The answer of DescribeAutoScalingGroups about the hook's group.
    pub group: Option<GroupAnswer>,
    /// The answer of DescribeLifecycleHooks about the hook.
    pub hook: Option<HookAnswer>,
    /// The answer of DescribeLifecycleHooks about all hooks of the group.
    pub hooks: Option<HooksAnswer>,
    /// When the hooks of the group were first asked for ([`Knowledge::note`]).
    pub hooks_asked_at: Option<Moment>,
    /// An earlier answer about them, at most 10 minutes old. It counts only while `hooks` is `None`
    /// or a denial, and only if the hook was another party's: then the hook gets no drain and no
    /// heartbeat until AWS describes the hooks again.
    pub hooks_before: Option<HooksAnswer>,
    /// The answer to the last heartbeat.
    pub heartbeat: Option<HeartbeatAnswer>,
    /// Whether AWS has shown that the lifecycle action of the message is over.
    pub action_end: ActionEndSeen,
    /// Whether the Node of an instance that launches was read, to restore it after a drain.
    pub return_check: ReturnCheck,
    /// The rest about an instance that launches. Boxed: most messages need none.
    pub launch: Option<Box<LaunchAnswers>>,
    /// When the last uncached LIST began, and the Nodes of the instance in it. Cleared if one of
    /// these Nodes turns out to be deleted.
    pub listed: Option<(Moment, Vec<Arc<Node>>)>,
}

/// What this process knows from AWS about the end of a lifecycle action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ActionEndSeen {
    /// AWS has not shown that it is over: it may be open.
    #[default]
    NotKnown,
    /// AWS answered a heartbeat with "No active Lifecycle Action".
    Over,
    /// AWS accepted our completion of the action with the token in the message. So the message is a
    /// copy.
    Completed,
}

/// What is known about an instance that launches.
#[derive(Debug, Clone, Default)]
pub struct LaunchAnswers {
    /// When a round of the sweep began that did not show the instance waiting yet.
    pub absent_at: Option<Moment>,
    /// About the Lease that its kubelet renews.
    pub lease: Option<LeaseAnswer>,
    /// About the pods of DaemonSets on it.
    pub daemon_set_pods: Option<DaemonSetPodsAnswer>,
}

/// An answer of DescribeInstances, which was asked by filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceAnswer {
    /// When the call began, also if the answer comes from a cache.
    pub at: Moment,
    /// The facts of the instance, with its launch time on our clock; `None` if EC2 does not know
    /// it.
    pub facts: Option<InstanceFacts>,
}

/// An answer of DescribeAutoScalingGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupAnswer {
    /// The group exists and has these tags.
    Tags(BTreeMap<String, String>),
    /// The group does not exist.
    NoSuchGroup,
}

/// An answer of DescribeLifecycleHooks about one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// The hook exists and has these timeouts.
    Described(HookDescription),
    /// The hook does not exist, or was deleted.
    NoSuchHook,
}

/// An answer of RecordLifecycleActionHeartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// When AWS answered. A state of the instance that was asked for no earlier is newer than this.
    pub at: Moment,
    /// `true`: AWS accepted the heartbeat, so the lifecycle action is open. `false`: AWS answered
    /// "No active Lifecycle Action". Any other refusal is not an answer.
    pub accepted: bool,
}

impl Knowledge {
    /// What is known right after the message was received.
    #[must_use]
    pub fn new(received: Moment, happened: Moment) -> Self {
        Self {
            received,
            happened,
            is_found_by_sweep: false,
            is_before_last_drain: false,
            index_trusted: false,
            nodes: Vec::new(),
            proof_asked_at: None,
            instance: None,
            namesakes: None,
            group: None,
            hook: None,
            hooks: None,
            hooks_asked_at: None,
            hooks_before: None,
            heartbeat: None,
            action_end: ActionEndSeen::NotKnown,
            return_check: ReturnCheck::Never,
            launch: None,
            listed: None,
        }
    }

    /// The answers about the Node of an instance that launches, to add one.
    pub fn launch_answers(&mut self) -> &mut LaunchAnswers {
        self.launch.get_or_insert_default()
    }

    pub(super) fn lease(&self) -> Option<&LeaseAnswer> {
        self.launch.as_ref()?.lease.as_ref()
    }

    pub(super) fn daemon_set_pods(&self) -> Option<&DaemonSetPodsAnswer> {
        self.launch.as_ref()?.daemon_set_pods.as_ref()
    }

    /// When AWS was first asked for the proof that is missing now. `None`: not yet. If EC2's answer
    /// has become too old to prove anything, it is asked anew.
    pub(super) fn proof_asked_since(&self, now: Moment) -> Option<Moment> {
        let old = super::proof::old_stop_since(self, now);
        self.proof_asked_at.filter(|asked| old.is_none_or(|since| *asked >= since))
    }

    /// Notes before each decision whether the interruption is stale. A hook counts as stale after 30 s
    /// while its HeartbeatTimeout is unknown. If it is described then, the interruption is on time
    /// again and needs no proof. If it becomes stale once more, because it cannot be accepted, AWS
    /// gets the full time to answer again. What the sweep found needs a proof at any age.
    pub fn note_age(&mut self, interruption: &Interruption, staleness: &Staleness, now: Moment) {
        if !self.is_found_by_sweep && !super::proof::is_stale(interruption, self, staleness, now) {
            self.proof_asked_at = None;
        }
    }

    /// Notes which questions a [`super::Verdict::Wait`] has, before they are asked.
    pub fn note(&mut self, wait: &Wait, now: Moment) {
        if wait.proof {
            self.proof_asked_at = Some(self.proof_asked_since(now).unwrap_or(now));
        }
        if wait.ask.iter().any(|question| matches!(question, Question::Hooks(_))) {
            self.hooks_asked_at.get_or_insert(now);
        }
    }

    /// Takes in when EC2 launched the instance of a launch that the sweep found, on our clock: the
    /// launch began then. An instance that its warm pool kept running was launched long before, so
    /// the launch did not begin before a round that did not show it waiting. Without such a round (a
    /// new leader), a launch time longer ago than `timeout` (`--launch-timeout`) does not count.
    pub fn note_launch_time(&mut self, launched: Moment, timeout: Duration) {
        let began = match self.launch.as_ref().and_then(|launch| launch.absent_at) {
            Some(absent) => absent.max(launched),
            None if self.happened.since_or_zero(launched) < timeout => launched,
            None => return,
        };
        self.happened = self.happened.min(began);
    }

    /// The time since the interruption happened; zero if that lies ahead.
    #[must_use]
    pub fn age(&self, now: Moment) -> Duration {
        now.since_or_zero(self.happened)
    }

    /// This Node has no providerID, and has the private DNS name that EC2 gives the instance, or is
    /// named by the instance's ID. (Nodes of Fargate, of other clouds and of machines on premises
    /// have a providerID.)
    #[must_use]
    pub fn is_named_after(node: &Node, facts: &InstanceFacts) -> bool {
        let names = [Some(node.name.as_str()), node.dns.as_deref()];
        let has_name = |name: &str| names.contains(&Some(name));
        node.instance.is_none()
            && !node.is_elsewhere
            && (node.name.as_str() == facts.id.as_str()
                || facts.private_dns.as_deref().is_some_and(has_name))
    }
}
