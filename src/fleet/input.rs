//! The inputs of the fleet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    domain::{
        ApiAnswer, Budget, BudgetKey, DaemonSetState, GroupName, InstanceId, LifecycleAction,
        NamespaceLabels, Node, NodeName, PodRules, VolumesSeen,
    },
    drain::{self, Order},
    lifecycle::{Finding, HookFacts},
};

/// Something that has happened. The controller feeds one input at a time to [`super::Fleet::step`].
#[derive(Debug)]
pub enum Input {
    /// The term begins. The index may still be empty or outdated.
    Begun,
    /// Time has passed.
    Tick,
    /// The index shows a Node that is new or has changed.
    NodeApplied(Arc<Node>),
    /// The index no longer shows this Node.
    NodeDeleted(Arc<Node>),
    /// The pods of a node have changed, or the state of their watch has.
    Pods(NodeName, drain::Input),
    /// A PodDisruptionBudget is new or has changed.
    Budget(Budget),
    /// A PodDisruptionBudget was deleted.
    BudgetGone(BudgetKey),
    /// An interruption was received and is not decided yet. The first evictions of a burst wait for
    /// it.
    Arrived,
    /// The burst no longer waits for a received interruption: it is decided, its accept has failed
    /// once, or it waits for something other than a call. Exactly one for each [`Self::Arrived`].
    Settled,
    /// Several Nodes claim one instance and are about to be accepted. They are drained together.
    Claimed {
        /// The instance that all of them claim.
        instance: InstanceId,
        /// All Nodes that are drained for it.
        nodes: BTreeSet<NodeName>,
    },
    /// An interruption was accepted: its record is on the Node.
    Accepted {
        /// The Node with the record, as the API server answered.
        node: Arc<Node>,
        /// The Node's instance. It counts where the Node has no providerID.
        instance: InstanceId,
        /// EC2 reports the instance as stopped or terminated.
        instance_has_ended: bool,
    },
    /// The answer to the LIST with which each term begins: the Nodes that are unschedulable.
    Unschedulable {
        /// `metadata.resourceVersion` of the LIST.
        version: String,
        /// The Nodes of the LIST, as the API server has them.
        nodes: Vec<Arc<Node>>,
    },
    /// The answer to [`Question::Node`](super::Question::Node): a Node as the API server has it.
    NodeRead {
        /// The name that was asked for.
        name: NodeName,
        /// `None`: the Node does not exist.
        node: Option<Arc<Node>>,
    },
    /// The facts from which the deadline of a lifecycle action is derived have changed.
    Hook(LifecycleAction, HookFacts),
    /// The API server has answered an eviction or a delete.
    Answer {
        /// The node whose drain gave the order.
        node: NodeName,
        /// The order that was sent.
        order: Order,
        /// The API server's answer, or how the call failed.
        answer: ApiAnswer,
    },
    /// The answer to [`Question::Namespaces`](super::Question::Namespaces).
    NamespacesRead {
        /// The keys of the labels that were asked for.
        keys: BTreeSet<String>,
        /// The labels. `Err`: the error of the LIST.
        found: Result<NamespaceLabels, String>,
    },
    /// The answer to [`Question::DaemonSet`](super::Question::DaemonSet).
    DaemonSet {
        /// The node whose drain asked.
        node: NodeName,
        /// The DaemonSet's namespace.
        namespace: String,
        /// The DaemonSet's name.
        name: String,
        /// Whether the DaemonSet exists.
        state: DaemonSetState,
    },
    /// The administrator's rules about pods, when the term begins and after each change.
    PodRules(Arc<PodRules>),
    /// All drains are paused (`true`) or resumed (`false`).
    PausedAll(bool),
    /// The answer to [`Question::OpenHooks`](super::Question::OpenHooks).
    Doubt {
        /// The node with the doubtful record.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// The record is valid: AWS has shown that one of its lifecycle actions is open.
        is_valid: bool,
    },
    /// The answer to [`Question::InstanceOf`](super::Question::InstanceOf).
    InstanceFound {
        /// The Node without providerID.
        node: NodeName,
        /// The instance that it is.
        instance: InstanceId,
    },
    /// [`Question::InstanceOf`](super::Question::InstanceOf) was given up: the index no longer
    /// shows this Node, or shows another one with its name.
    InstanceLookupEnded(NodeName),
    /// The answer to [`Question::Verify`](super::Question::Verify).
    Proof {
        /// The node that is drained.
        node: NodeName,
        /// The event ID of the stale interruption.
        event: String,
        /// `true`: the interruption is proved. `false`: it is disproved.
        holds: bool,
    },
    /// An answer to [`Question::Contradiction`](super::Question::Contradiction).
    Contradiction {
        /// The node that is drained.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// What EC2 and the group have shown so far.
        finding: Finding,
    },
    /// The answer to [`Question::Replacement`](super::Question::Replacement): the group has a node
    /// that can take over the pods.
    ReplacementReady {
        /// The node that is drained.
        node: NodeName,
        /// The Node's UID.
        uid: String,
    },
    /// The answer to [`Question::Group`](super::Question::Group).
    GroupFound {
        /// The node that is drained.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// The group. `None`: the instance is in none, or EC2 does not show it.
        group: Option<GroupName>,
    },
    /// The answer to [`Question::Volumes`](super::Question::Volumes): for each node, its UID and
    /// what the API server shows.
    VolumesRead(BTreeMap<NodeName, (String, VolumesSeen)>),
    /// Auto Scaling has put an instance back into service, and none of its terminate actions is
    /// open.
    Returned {
        /// The node that is drained.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// The event IDs of the record's interruptions, none of which holds any longer.
        events: BTreeSet<String>,
    },
    /// The instance of a Node that was accepted as sick is healthy again.
    Recovered(Arc<Node>),
    /// EC2 reports that an instance stops, or that it has stopped.
    InstanceEnds {
        /// The node that is drained.
        node: NodeName,
        /// The instance. By now, the node's name may belong to another one.
        instance: InstanceId,
        /// The instance is stopped or terminated. If `false`, this applies only to a node whose
        /// kubelet is unreachable.
        has_ended: bool,
    },
    /// The answer to [`Question::SilentNode`](super::Question::SilentNode).
    SilentNodeRead {
        /// The node that is drained.
        node: NodeName,
        /// The UID of the Node that was asked for.
        uid: String,
        /// The Node as the API server has it. `None`: it does not exist.
        found: Option<Arc<Node>>,
    },
    /// Lifecycle actions of a drain that are no longer open: AWS accepted their completion, or
    /// reports that they do not exist.
    ActionsClosed {
        /// The node whose drain has ended.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// The closed actions, in no particular order.
        actions: Vec<LifecycleAction>,
    },
    /// The completion of a drain is done.
    CompletionDone {
        /// The node whose drain has ended.
        node: NodeName,
        /// The Node's UID.
        uid: String,
        /// The API server no longer has this Node. The index may still show it.
        is_node_deleted: bool,
    },
    /// The answer to [`Effect::Exclude`](super::Effect::Exclude).
    LabelWritten(NodeName, LabelWrite),
}

/// How the write of the load balancer label ended.
#[derive(Debug)]
pub enum LabelWrite {
    /// The Node after the write. If the write failed, the Node may lack the label.
    Seen(Arc<Node>),
    /// The write failed, and the Node could not be read.
    Failed,
    /// For now, no more nodes may leave load balancers ([`crate::record::ExclusionLimit`]).
    NoRoom,
}
