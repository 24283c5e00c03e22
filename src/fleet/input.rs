//! What the fleet is told.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    domain::{
        ApiAnswer, Budget, BudgetKey, DaemonSetState, InstanceId, LifecycleAction, Node, NodeName,
    },
    drain::{self, Order},
    lifecycle::HookFacts,
};

/// What the fleet is told.
#[derive(Debug)]
pub enum Input {
    /// The term begins. The index may be empty still, or behind.
    Begun,
    /// Time has passed.
    Tick,
    /// The index shows a Node that is new or has changed.
    NodeApplied(Arc<Node>),
    /// The index shows a Node no more.
    NodeDeleted(Arc<Node>),
    /// The pods of a node have changed, or how they are watched has.
    Pods(NodeName, drain::Input),
    /// A disruption budget is new or has changed.
    Budget(Budget),
    /// A disruption budget is gone.
    BudgetGone(BudgetKey),
    /// An interruption was received and is not decided yet: the first evictions of a burst wait for
    /// it.
    Arrived,
    /// A received interruption holds up the burst no longer: it is decided, its accept has failed
    /// once, or it waits for something other than a call. Exactly one for each [`Self::Arrived`].
    Settled,
    /// Several Nodes claim one instance and are about to be accepted: they are drained together.
    Claimed {
        /// The instance.
        instance: InstanceId,
        /// All of these Nodes.
        nodes: BTreeSet<NodeName>,
    },
    /// A Node's record was written by a case.
    Accepted {
        /// As it is now.
        node: Arc<Node>,
        /// Its instance.
        instance: InstanceId,
        /// EC2 says that nothing runs on the instance any more.
        over: bool,
    },
    /// The LIST of the term: the Nodes that are unschedulable now.
    Unschedulable {
        /// `metadata.resourceVersion` of the LIST.
        version: String,
        /// The Nodes.
        nodes: Vec<Arc<Node>>,
    },
    /// A Node was read past the index.
    NodeRead {
        /// Its name.
        name: NodeName,
        /// As it is now; `None`: it does not exist.
        node: Option<Arc<Node>>,
    },
    /// What deadlines need to know of a hook has changed.
    Hook(LifecycleAction, HookFacts),
    /// The answer to an order.
    Answer {
        /// The node whose drain gave it.
        node: NodeName,
        /// What was sent.
        order: Order,
        /// What came back.
        answer: ApiAnswer,
    },
    /// Whether a DaemonSet is there.
    DaemonSet {
        /// The node whose drain asked.
        node: NodeName,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The answer.
        state: DaemonSetState,
    },
    /// All drains are paused or resumed.
    PausedAll(bool),
    /// A doubtful record was looked into: it counts, or it does not.
    Doubt {
        /// The node.
        node: NodeName,
        /// Its UID.
        uid: String,
        /// It counts.
        counts: bool,
    },
    /// Which instance a Node without providerID is.
    Named {
        /// The node.
        node: NodeName,
        /// Its instance.
        instance: InstanceId,
    },
    /// The index shows this Node no more, or another of its name: nobody asks any more which
    /// instance it is.
    NotNamed(NodeName),
    /// A stale interruption was proved, or disproved.
    Proof {
        /// The node.
        node: NodeName,
        /// Its event.
        event: String,
        /// It holds.
        holds: bool,
    },
    /// Auto Scaling has put an instance back into service, and none of its terminate actions is
    /// open.
    Returned {
        /// Its node.
        node: NodeName,
        /// Its UID.
        uid: String,
        /// The events that its record tells of: all of them are over.
        events: BTreeSet<String>,
    },
    /// AWS says that an instance ends: nothing runs on it any more, or will soon.
    InstanceEnds {
        /// Its node.
        node: NodeName,
        /// Which instance: its name may be another's by now.
        instance: InstanceId,
        /// The instance is stopped or terminated. If `false`, this applies only to a node whose
        /// kubelet is unreachable.
        over: bool,
    },
    /// The Node of an unreachable node was read past the index.
    SilentNodeRead {
        /// Its name.
        node: NodeName,
        /// Its UID.
        uid: String,
        /// As it is now; `None`: it does not exist.
        found: Option<Arc<Node>>,
    },
    /// Hooks of a release whose completion was accepted, or that are verifiably gone.
    HooksOver {
        /// The node.
        node: NodeName,
        /// Its UID.
        uid: String,
        /// The hooks.
        hooks: Vec<LifecycleAction>,
    },
    /// The end of a release: the node's drain is history.
    Released {
        /// The node.
        node: NodeName,
        /// Its UID.
        uid: String,
        /// The API server knows no such Node any more, whatever the index says.
        node_gone: bool,
    },
    /// The end of a patch of the load balancer label.
    Labelled(NodeName, LabelWrite),
}

/// How the write of the load balancer label ended.
#[derive(Debug)]
pub enum LabelWrite {
    /// The Node as it is now: after a failed write that may be without the label.
    Seen(Arc<Node>),
    /// It failed, and the Node could not be read.
    Failed,
    /// No more nodes may leave load balancers for now.
    NoRoom,
}
