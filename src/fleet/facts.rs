//! What the fleet looks up while it decides.

use std::sync::Arc;

use crate::{
    domain::{Budget, InstanceId, LifecycleAction, Moment, Node, NodeName, Taken},
    drain::Hearing,
    lifecycle::Skew,
    record::Record,
    triage::Policy,
};

/// What others know at this moment. A look never waits. The effects of a step are not visible
/// before the next step.
pub trait Facts: Send {
    /// A Node in the index, by its name.
    fn node(&self, name: &NodeName) -> Option<Arc<Node>>;
    /// The Nodes in the index that name this instance.
    fn nodes_of(&self, instance: &InstanceId) -> Vec<Arc<Node>>;
    /// All Nodes in the index.
    fn all_nodes(&self) -> Vec<Arc<Node>>;
    /// Whether `Ready=Unknown` can be trusted: how the watch of Nodes is, and how many nodes are
    /// silent.
    fn hearing(&self) -> Hearing;
    /// All disruption budgets.
    fn budgets(&self) -> Vec<Arc<Budget>>;
    /// How far AWS's clock is ahead of ours.
    fn skew(&self) -> Skew;
    /// This lifecycle action is known to be over.
    fn is_over(&self, hook: &LifecycleAction) -> bool;
    /// This process sends heartbeats for this very lifecycle action.
    fn is_kept_alive(&self, hook: &LifecycleAction) -> bool;
    /// What is remembered of the Node with this UID, which was deleted or lost its record.
    fn deleted_nodes(&self, uid: &str) -> Option<DeletedNode>;
    /// All that are remembered, the earliest first.
    fn all_deleted_nodes(&self) -> Vec<DeletedNode>;
    /// How many heartbeats for this node AWS has accepted.
    fn heartbeats(&self, node: &NodeName) -> u64;
    /// Since when the watch of this node's pods fails, and why; `None`: it does not.
    fn failing_watch(&self, node: &NodeName) -> Option<(Moment, String)>;
}

/// A Node, its instance and its open record, as they were seen last. The Node may be deleted since,
/// or may have lost its record.
#[derive(Debug, Clone)]
pub struct DeletedNode {
    /// As it was last.
    pub node: Arc<Node>,
    /// Its instance.
    pub instance: InstanceId,
    /// Its record.
    pub record: Record,
    /// When that was noted, on our clock: for a deleted Node or record, when it was seen to be
    /// gone.
    pub at: Moment,
}

/// The facts, seen by what is ours to drain.
pub(super) struct Lookup {
    pub(super) facts: Box<dyn Facts>,
    pub(super) policy: Arc<Policy>,
}

impl Lookup {
    pub(super) fn skew(&self) -> Skew {
        self.facts.skew()
    }

    /// What a record holds, on our clock.
    pub(super) fn taken(&self, record: &Record, instance: &InstanceId) -> Vec<Taken> {
        self.skew().taken(record.taken(instance))
    }

    /// What a record makes us owe. Annotations can be written by others: a hook that is not ours is
    /// never touched, whatever one says.
    pub(super) fn open_actions(
        &self,
        record: &Record,
        instance: &InstanceId,
    ) -> Vec<LifecycleAction> {
        open_actions(
            &self.policy,
            record,
            instance,
            |hook| self.facts.is_over(hook),
            |hook| self.facts.is_kept_alive(hook),
        )
    }

    /// The node selector takes it.
    pub(super) fn selects(&self, node: &Node) -> bool {
        self.policy.nodes.matches(&node.labels)
    }

    /// This Node is ours to drain: the node selector takes it, and nobody asked to leave it alone.
    pub(super) fn manages(&self, node: &Node) -> bool {
        self.selects(node) && !node.ignored()
    }
}

/// The lifecycle actions that a record makes us owe, by what this process knows of them.
pub fn open_actions(
    policy: &Policy,
    record: &Record,
    instance: &InstanceId,
    is_over: impl Fn(&LifecycleAction) -> bool,
    is_kept_alive: impl Fn(&LifecycleAction) -> bool,
) -> Vec<LifecycleAction> {
    let actions = record.open_actions_now(instance, is_over, is_kept_alive);
    actions.into_iter().filter(|action| policy.hooks.cover(&action.key.hook)).collect()
}
