//! What is known of an interruption so far.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{HooksAnswer, Question, Wait};
use crate::domain::{HookDescription, InstanceFacts, Moment, Node};

/// What is known of one interruption so far. Whatever is not known yet is `None`; an answer that is
/// an error is not an answer.
#[derive(Debug, Clone)]
pub struct Knowledge {
    /// When the message was received.
    pub received: Moment,
    /// When it happened, by our clock: the event's time (else the time at which the message was
    /// sent), less the offset between AWS's clock and ours.
    pub happened: Moment,
    /// The index is synced and its watch is not failing: only then what is not in it is unknown.
    pub index_trusted: bool,
    /// The Nodes that the index has for the instance: by providerID; and once DescribeInstances has
    /// given the private DNS name, those without providerID that [`Knowledge::is_called`] finds.
    pub nodes: Vec<Arc<Node>>,
    /// When the proof of a stale interruption was first asked for (see [`Knowledge::note`]).
    pub asked: Option<Moment>,
    /// What DescribeInstances said last.
    pub instance: Option<InstanceAnswer>,
    /// The instances that have this one's private DNS name.
    pub namesakes: Option<Vec<InstanceFacts>>,
    /// What DescribeAutoScalingGroups said of the hook's group.
    pub group: Option<GroupAnswer>,
    /// What DescribeLifecycleHooks said of the hook.
    pub hook: Option<HookAnswer>,
    /// What DescribeLifecycleHooks said of all hooks of that group.
    pub hooks: Option<HooksAnswer>,
    /// When that was first asked for (see [`Knowledge::note`]).
    pub hooks_asked: Option<Moment>,
    /// What it said before, up to 10 minutes ago. It only counts while `hooks` is `None` or a
    /// denial, and only where the hook was another party's: that hook gets no drain and no
    /// heartbeat until AWS describes the hooks again.
    pub hooks_before: Option<HooksAnswer>,
    /// What became of the last heartbeat that was answered.
    pub heartbeat: Option<HeartbeatAnswer>,
    /// The Nodes of the instance in the last uncached LIST, and when that was begun. Cleared when a
    /// Node in it turns out to be gone.
    pub listed: Option<(Moment, Vec<Arc<Node>>)>,
}

/// What DescribeInstances said, asked by filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceAnswer {
    /// When it was asked: the beginning of the call, also where the answer comes out of a cache.
    pub at: Moment,
    /// The instance; `None`: there is no such instance.
    pub facts: Option<InstanceFacts>,
}

/// What DescribeAutoScalingGroups said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupAnswer {
    /// The group's tags.
    Tags(BTreeMap<String, String>),
    /// There is no such group.
    NoSuchGroup,
}

/// What DescribeLifecycleHooks said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// The hook.
    Described(HookDescription),
    /// There is no such hook (any more).
    NoSuchHook,
}

/// What RecordLifecycleActionHeartbeat said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// When it was answered: an instance that was asked about no sooner was seen after the hook.
    pub at: Moment,
    /// Accepted: the hook is open. Otherwise "No active Lifecycle Action": it is not. (Any other
    /// refusal is no answer.)
    pub accepted: bool,
}

impl Knowledge {
    /// Nothing is known yet but when the message was received and when what it tells happened.
    #[must_use]
    pub fn new(received: Moment, happened: Moment) -> Self {
        Self {
            received,
            happened,
            index_trusted: false,
            nodes: Vec::new(),
            asked: None,
            instance: None,
            namesakes: None,
            group: None,
            hook: None,
            hooks: None,
            hooks_asked: None,
            hooks_before: None,
            heartbeat: None,
            listed: None,
        }
    }

    /// Notes what a [`super::Verdict::Wait`] said, before its questions are asked.
    pub fn note(&mut self, wait: &Wait, now: Moment) {
        if wait.proof {
            self.asked.get_or_insert(now);
        }
        if wait.ask.iter().any(|question| matches!(question, Question::Hooks(_))) {
            self.hooks_asked.get_or_insert(now);
        }
    }

    /// How old the event is.
    #[must_use]
    pub fn age(&self, now: Moment) -> Duration {
        now.since_or_zero(self.happened)
    }

    /// This Node has no providerID (one of Fargate, of another cloud or of a machine on premises is
    /// one), and goes by the private DNS name that EC2 gives the instance, or by the instance's id.
    #[must_use]
    pub fn is_called(node: &Node, facts: &InstanceFacts) -> bool {
        let names = [Some(node.name.as_str()), node.dns.as_deref()];
        let goes_by = |name: &str| names.contains(&Some(name));
        node.instance.is_none()
            && !node.is_elsewhere
            && (node.name.as_str() == facts.id.as_str()
                || facts.private_dns.as_deref().is_some_and(goes_by))
    }
}
