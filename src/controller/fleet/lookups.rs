//! The facts that the fleet reads, and the questions that it asks AWS and Kubernetes.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::Semaphore;
use tracing::{debug, warn};

use crate::{
    cluster::{PodFeed, attached_volumes},
    controller::{
        context::Term,
        hooks::{NamedBy, Proof},
    },
    domain::{Budget, InstanceId, LifecycleAction, Moment, Node, NodeName, Ready, seconds},
    drain::SilenceEvidence,
    fleet::{Facts, Input, LastKnownNode, VolumesOf},
    lifecycle::{EndAnswer, EndCheck, EndFound, Skew},
    runtime::Backoff,
    triage::{self, ActionEndSeen},
};

/// The pause before the same question is asked again.
const ASK_AGAIN: std::time::Duration = seconds(5);
/// The pause before the log repeats that a Node cannot be read.
const LOG_AGAIN: std::time::Duration = seconds(60);

/// Answers the fleet from what this process knows in this term.
pub(super) struct TermFacts {
    pub(super) term: Term,
    pub(super) feed: Arc<PodFeed>,
}

impl Facts for TermFacts {
    fn node(&self, name: &NodeName) -> Option<Arc<Node>> {
        self.term.shared.nodes.get(name)
    }

    fn nodes_of(&self, instance: &InstanceId) -> Vec<Arc<Node>> {
        self.term.shared.nodes.by_instance(instance)
    }

    fn all_nodes(&self) -> Vec<Arc<Node>> {
        self.term.shared.nodes.all()
    }

    fn silence_evidence(&self) -> SilenceEvidence {
        let (index, all) = (self.term.shared.nodes.state(), self.term.shared.nodes.all());
        SilenceEvidence {
            watch_failing_since: index.failing_since,
            watch_failed_at: index.failed_at,
            nodes: all.len(),
            silent: all.iter().filter(|node| node.ready == Ready::Unknown).count(),
        }
    }

    fn budgets(&self) -> Vec<Arc<Budget>> {
        self.term.shared.budgets.all()
    }

    fn skew(&self) -> Skew {
        self.term.skew()
    }

    fn is_closed(&self, action: &LifecycleAction) -> bool {
        self.term.actions.is_over(action)
    }

    fn is_over(&self, action: &LifecycleAction) -> bool {
        self.term.actions.end_seen(action) != ActionEndSeen::NotKnown
    }

    fn is_kept_alive(&self, action: &LifecycleAction) -> bool {
        self.term.actions.is_kept_alive(action)
    }

    fn deleted_node(&self, uid: &str) -> Option<LastKnownNode> {
        self.term.shared.deleted_nodes.catch_up();
        self.term.shared.deleted_nodes.of(uid)
    }

    fn all_deleted_nodes(&self) -> Vec<LastKnownNode> {
        self.term.shared.deleted_nodes.catch_up();
        self.term.shared.deleted_nodes.all()
    }

    fn heartbeats(&self, node: &NodeName) -> u64 {
        self.term.shared.board.heartbeats(node)
    }

    fn failing_watch(&self, node: &NodeName) -> Option<(Moment, String)> {
        Some((self.feed.failing_since(node)?, self.feed.last_error(node)?.to_string()))
    }
}

/// Lists the unschedulable Nodes at the API server, retries until that succeeds, and sends
/// [`Input::Unschedulable`].
pub(super) async fn list_unschedulable(term: Term) {
    let mut backoff = Backoff::up_to(seconds(5));
    loop {
        match term.shared.nodes.list_unschedulable().await {
            Ok(listed) => {
                term.shared.records_ready.set(Ok(()));
                term.send(Input::Unschedulable { version: listed.version, nodes: listed.nodes });
                return;
            }
            Err(error) => {
                warn!(
                    %error,
                    "Cannot list the unschedulable nodes; trying again. Until that succeeds this \
                     leader evicts no pod and completes no lifecycle action of the nodes that it \
                     took over; heartbeats and new interruptions go on."
                );
                term.shared.records_ready.set(Err(format!(
                    "drains of the last leader wait until the unschedulable nodes are listed: \
                     {error}"
                )));
            }
        }
        tokio::time::sleep(backoff.pause(&term.shared.random)).await;
    }
}

/// Finds the instance of a Node without providerID: asks `DescribeInstances` by private DNS name,
/// every 30 s, until one instance is found or the Node is gone.
pub(super) async fn instance_of(term: Term, node: Arc<Node>) {
    let name = node.dns.clone().unwrap_or_else(|| node.name.to_string());
    let (node, uid) = (node.name.clone(), node.uid.clone());
    let mut is_logged = false;
    while term.shared.nodes.get(&node).is_some_and(|n| n.uid == uid) {
        match term.shared.lookups.dns.get(&name).await {
            Ok(all) => {
                let all = all.map(|all| (*all).clone()).unwrap_or_default();
                if let Some(facts) = triage::choose_namesake(&all, &term.shared.policy) {
                    term.send(Input::InstanceFound { node, instance: facts.id.clone() });
                    return;
                }
                if !std::mem::replace(&mut is_logged, true) {
                    warn!(
                        node = %node, name, instances = all.len(),
                        "The node has no providerID, and its private DNS name does not identify \
                         one instance. Sundown leaves its record alone and asks again. Let the \
                         kubelet set the providerID, or tag the instance \
                         kubernetes.io/cluster/<--cluster-name>."
                    );
                }
            }
            Err(error) => debug!(node = %node, %error, "Cannot ask which instance the node is."),
        }
        tokio::time::sleep(seconds(30)).await;
    }
    term.send(Input::InstanceLookupEnded(node));
}

/// For a Node whose boot id differs from its record's: asks whether one of the record's hooks still
/// waits.
pub(super) async fn open_hooks(term: Term, node: Arc<Node>, hooks: Vec<(LifecycleAction, Moment)>) {
    let (mut is_valid, mut over) = (false, Vec::new());
    for (hook, event) in hooks {
        match term.actions.prove(&hook, event, NamedBy::Record).await {
            Some(Proof::Open) => is_valid = true,
            // `prove` returns `None` if the task of the action has just ended: the action is over, or
            // not ours. (At the end of the term, this lookup is aborted before that.)
            Some(Proof::Gone) | None => over.push(hook),
        }
    }
    // If the record is valid, its drain goes on and still names these actions. Their tasks stay,
    // because they know that the actions are over; a new task would need another call for that.
    if !is_valid {
        for hook in &over {
            term.actions.forget(hook);
        }
    }
    term.send(Input::Doubt { node: node.name.clone(), uid: node.uid.clone(), is_valid });
}

/// Reads the Node of a node whose kubelet is silent, because the index may be old. Retries until
/// the API server answers, and warns once a minute. Until then nothing is known of the kubelet, and
/// the drain goes on until its deadline, if it has one. Each try has the deadline of any call.
pub(super) async fn silent_node(term: Term, node: NodeName, uid: String) {
    let mut log_at = term.shared.clock.now();
    loop {
        match term.shared.nodes.fetch(&node).await {
            Ok(found) => {
                return term.send(Input::SilentNodeRead { node, uid, found: found.map(Arc::new) });
            }
            Err(error) if term.shared.clock.now() >= log_at => {
                warn!(
                    %node, %error,
                    "Cannot read the Node of a node whose kubelet is silent. Its pods are not \
                     given up, and its drain goes on; trying again."
                );
                log_at = term.shared.clock.now().plus(LOG_AGAIN);
            }
            Err(_) => {}
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Asks EC2 whether an instance ends, until it does. [`EndCheck`] decides. The task is aborted when
/// the kubelet reports, and with its drain.
pub(super) async fn instance_state(term: Term, node: NodeName, instance: InstanceId) {
    let mut check = EndCheck::default();
    loop {
        let answer = match term.shared.lookups.instances.get_fresh(&instance).await {
            Ok(Some(facts)) => EndAnswer::Shows(facts.state),
            Ok(None) => EndAnswer::Missing,
            Err(_) => EndAnswer::Failed,
        };
        let has_ended = match check.record_answer(answer) {
            EndFound::AskAgain(pause) => {
                tokio::time::sleep(pause).await;
                continue;
            }
            found => found == EndFound::HasEnded,
        };
        return term.send(Input::InstanceEnds { node, instance, has_ended });
    }
}

/// Reads which volumes of drained pods are attached to these nodes.
pub(super) async fn volumes(term: Term, nodes: BTreeMap<NodeName, VolumesOf>) {
    let of_nodes = nodes.iter().map(|(name, of)| (name.clone(), of.staying.clone())).collect();
    let seen = attached_volumes(&term.shared.cluster, &of_nodes).await;
    let of_node = |(name, seen)| {
        let uid = nodes.get(&name)?.uid.clone();
        Some((name, (uid, seen)))
    };
    term.send(Input::VolumesRead(seen.into_iter().filter_map(of_node).collect()));
}

/// Reads a Node from the API server, and retries until that succeeds.
pub(super) async fn node(term: Term, name: NodeName, reads: Arc<Semaphore>) {
    let mut backoff = Backoff::up_to(seconds(10));
    loop {
        let result = {
            // `acquire` fails only for a closed semaphore. This one is never closed.
            let _slot = reads.acquire().await.ok();
            term.shared.nodes.fetch(&name).await
        };
        match result {
            Ok(node) => return term.send(Input::NodeRead { name, node: node.map(Arc::new) }),
            Err(error) => warn!(
                node = %name, %error,
                "Cannot read a node whose record may be outdated; trying again. Its drain waits \
                 for that, heartbeats go on."
            ),
        }
        tokio::time::sleep(backoff.pause(&term.shared.random)).await;
    }
}
