//! What the fleet looks up while it decides.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use crate::{
    domain::{Budget, InstanceId, InterruptionFacts, LifecycleAction, Moment, Node, NodeName},
    drain::SilenceEvidence,
    lifecycle::Skew,
    record::Record,
    triage::Policy,
};

/// What this process knows at this moment. No call may block. The effects of a step are visible in
/// the next step at the earliest.
pub trait Facts: Send {
    /// The Node with this name in the index.
    fn node(&self, name: &NodeName) -> Option<Arc<Node>>;
    /// The Nodes in the index whose providerID names this instance.
    fn nodes_of(&self, instance: &InstanceId) -> Vec<Arc<Node>>;
    /// All Nodes in the index.
    fn all_nodes(&self) -> Vec<Arc<Node>>;
    /// The state of the watch of Nodes and the number of silent kubelets: whether `Ready=Unknown`
    /// can be trusted.
    fn silence_evidence(&self) -> SilenceEvidence;
    /// All PodDisruptionBudgets.
    fn budgets(&self) -> Vec<Arc<Budget>>;
    /// How far AWS's clock is ahead of ours.
    fn skew(&self) -> Skew;
    /// This process knows in its current term that the lifecycle action is no longer open.
    fn is_closed(&self, action: &LifecycleAction) -> bool;
    /// The same, or AWS answered its last heartbeat for the action, in any of its terms, that the
    /// action is not open.
    fn is_over(&self, action: &LifecycleAction) -> bool;
    /// This process sends heartbeats for this very lifecycle action.
    fn is_kept_alive(&self, action: &LifecycleAction) -> bool;
    /// What this process last knew of the Node with this UID, if the Node or its open record was
    /// deleted and the lifecycle actions are not known to be completed.
    fn deleted_node(&self, uid: &str) -> Option<LastKnownNode>;
    /// All Nodes that [`Self::deleted_node`] finds, the first deleted first.
    fn all_deleted_nodes(&self) -> Vec<LastKnownNode>;
    /// How many heartbeats AWS has accepted for lifecycle actions of this node.
    fn heartbeats(&self, node: &NodeName) -> u64;
    /// Since when the watch of this node's pods fails, and its error; `None` if it does not fail.
    fn failing_watch(&self, node: &NodeName) -> Option<(Moment, String)>;
}

/// What this process last knew of a Node with an open record. The Node or the record may have been
/// deleted since, also while nobody led.
#[derive(Debug, Clone)]
pub struct LastKnownNode {
    /// The Node as it was last seen with the record.
    pub node: Arc<Node>,
    /// The instance of the Node.
    pub instance: InstanceId,
    /// The record as it was last seen.
    pub record: Record,
    /// When this process saw the deletion, or when the drain ended, on our clock.
    pub at: Moment,
}

/// The budgets by namespace, collected once when they are first needed. For one turn that looks at
/// many nodes.
#[derive(Debug, Default)]
pub(super) struct BudgetsOfTurn(OnceCell<BTreeMap<String, Vec<Arc<Budget>>>>);

impl BudgetsOfTurn {
    /// The budgets of this namespace.
    pub(super) fn of(&self, facts: &dyn Facts, namespace: &str) -> &[Arc<Budget>] {
        let by_namespace = self.0.get_or_init(|| {
            let mut all: BTreeMap<String, Vec<Arc<Budget>>> = BTreeMap::new();
            for budget in facts.budgets() {
                all.entry(budget.key.namespace.clone()).or_default().push(budget);
            }
            all
        });
        by_namespace.get(namespace).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The [`Facts`], and what Sundown manages of them.
pub(super) struct Lookup {
    pub(super) facts: Box<dyn Facts>,
    pub(super) policy: Arc<Policy>,
}

impl Lookup {
    pub(super) fn skew(&self) -> Skew {
        self.facts.skew()
    }

    /// The interruptions in a record, with all times on our clock.
    pub(super) fn interruptions(
        &self,
        record: &Record,
        instance: &InstanceId,
    ) -> Vec<InterruptionFacts> {
        self.skew().facts_to_ours(record.interruptions(instance))
    }

    /// The open lifecycle actions of a record. Others can write annotations: hooks that are not
    /// Sundown's are left out, whatever a record names.
    pub(super) fn open_actions(
        &self,
        record: &Record,
        instance: &InstanceId,
    ) -> Vec<LifecycleAction> {
        open_actions(
            &self.policy,
            record,
            instance,
            |action| self.facts.is_over(action),
            |action| self.facts.is_kept_alive(action),
        )
    }

    /// The node selector matches this Node.
    pub(super) fn selects(&self, node: &Node) -> bool {
        self.policy.nodes.matches(&node.labels)
    }

    /// Sundown manages this Node: the node selector matches it, and it has no annotation
    /// `sundown.dev/ignore`.
    pub(super) fn manages(&self, node: &Node) -> bool {
        self.selects(node) && !node.ignored()
    }
}

/// The open lifecycle actions of a record whose hooks `policy` covers. Where the newest action of a
/// hook is over, one that is kept alive takes its place ([`Record::open_actions_now`]). `is_over`:
/// [`Facts::is_over`].
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
