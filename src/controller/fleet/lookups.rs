//! What the fleet looks up, and the questions that it asks of AWS and Kubernetes.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use crate::{
    cluster::PodFeed,
    controller::{
        context::Term,
        hooks::{Proof, Source},
    },
    domain::{
        Budget, HookAction, HookKey, HookPurpose, InstanceId, Interruption, Kind, LifecycleAction,
        Moment, Node, NodeName, Ready, SpotAction, Taken, What, seconds,
    },
    drain::Hearing,
    fleet::{DeletedNode, Facts, Input},
    lifecycle::Skew,
    runtime::Backoff,
    triage::{self, HeartbeatAnswer, HookAnswer, InstanceAnswer, Knowledge},
};

/// The facts of a term.
pub(super) struct TermFacts {
    pub(super) term: Term,
    pub(super) feed: Arc<PodFeed>,
}

impl Facts for TermFacts {
    fn node(&self, name: &NodeName) -> Option<Arc<Node>> {
        self.term.nodes.get(name)
    }

    fn nodes_of(&self, instance: &InstanceId) -> Vec<Arc<Node>> {
        self.term.nodes.by_instance(instance)
    }

    fn all_nodes(&self) -> Vec<Arc<Node>> {
        self.term.nodes.all()
    }

    fn hearing(&self) -> Hearing {
        let (index, all) = (self.term.nodes.state(), self.term.nodes.all());
        Hearing {
            watch_failing_since: index.failing_since,
            watch_failed_at: index.failed_at,
            nodes: all.len(),
            silent: all.iter().filter(|node| node.ready == Ready::Unknown).count(),
        }
    }

    fn budgets(&self) -> Vec<Arc<Budget>> {
        self.term.budgets.all()
    }

    fn skew(&self) -> Skew {
        self.term.skew()
    }

    fn is_over(&self, hook: &LifecycleAction) -> bool {
        self.term.hooks.is_past(hook)
    }

    fn is_kept_alive(&self, hook: &LifecycleAction) -> bool {
        self.term.hooks.keeps_open(hook)
    }

    fn deleted_nodes(&self, uid: &str) -> Option<DeletedNode> {
        self.term.deleted_nodes.of(uid)
    }

    fn all_deleted_nodes(&self) -> Vec<DeletedNode> {
        self.term.deleted_nodes.all(self.term.clock)
    }

    fn heartbeats(&self, node: &NodeName) -> u64 {
        self.term.board.heartbeats(node)
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
        match term.nodes.list_unschedulable().await {
            Ok(listed) => {
                term.confirmation.set(Ok(()));
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
                term.confirmation.set(Err(format!(
                    "drains of the last leader wait until the unschedulable nodes are listed: \
                     {error}"
                )));
            }
        }
        tokio::time::sleep(backoff.pause(&term.random)).await;
    }
}

/// Which instance is a Node without providerID? `DescribeInstances` by private DNS name.
pub(super) async fn instance_of(term: Term, node: Arc<Node>) {
    let name = node.dns.clone().unwrap_or_else(|| node.name.to_string());
    let (node, uid) = (node.name.clone(), node.uid.clone());
    let mut told = false;
    while term.nodes.get(&node).is_some_and(|n| n.uid == uid) {
        match term.lookups.dns.get(&name).await {
            Ok(all) => {
                let all = all.map(|all| (*all).clone()).unwrap_or_default();
                if let Some(facts) = triage::called(&all, &term.policy) {
                    term.send(Input::Named { node, instance: facts.id.clone() });
                    return;
                }
                if !std::mem::replace(&mut told, true) {
                    warn!(
                        node = %node, name, instances = all.len(),
                        "The node has no providerID, and its private DNS name does not tell which \
                         instance it is: its record is left alone and asked about on. Let the \
                         kubelet set the providerID, or tag the instance \
                         kubernetes.io/cluster/<--cluster-name>."
                    );
                }
            }
            Err(error) => debug!(node = %node, %error, "Cannot ask which instance the node is."),
        }
        tokio::time::sleep(seconds(30)).await;
    }
    term.send(Input::NotNamed(node));
}

/// The boot id of a Node differs from its record's: does one of the record's hooks still wait?
pub(super) async fn open_hooks(term: Term, node: Arc<Node>, hooks: Vec<(LifecycleAction, Moment)>) {
    let (mut counts, mut over) = (false, Vec::new());
    for (hook, event) in hooks {
        match term.hooks.prove(&hook, event, Source::Record).await {
            Some(Proof::Open) => counts = true,
            // `prove` gives `None` if the action is already known to be over. (At the end of the
            // term this task is aborted first.)
            Some(Proof::Gone) | None => over.push(hook),
        }
    }
    // The drain of a record that counts goes on and still names these: their tasks know that they
    // are over. A new task would have to find that out by another call.
    if !counts {
        for hook in &over {
            term.hooks.forget(hook);
        }
    }
    term.send(Input::Doubt { node: node.name.clone(), uid: node.uid.clone(), counts });
}

/// Reads the Node of an unreachable node, and tries until that is answered: what the index says may
/// be old. While it cannot be read, nothing is known of its kubelet, and the drain goes on until
/// its deadline, if it has one; that is said once a minute. Each try has the deadline of any call.
pub(super) async fn silent_node(term: Term, node: NodeName, uid: String) {
    let mut say_at = term.clock.now();
    loop {
        match term.nodes.fetch(&node).await {
            Ok(found) => {
                return term.send(Input::SilentNodeRead { node, uid, found: found.map(Arc::new) });
            }
            Err(error) if term.clock.now() >= say_at => {
                warn!(
                    %node, %error,
                    "Cannot read the Node of a node whose kubelet is silent. Its pods are not \
                     given up, and its drain goes on; trying again."
                );
                say_at = term.clock.now().plus(SAY_AGAIN);
            }
            Err(_) => {}
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Asks EC2 for a minute whether an instance ends.
pub(super) async fn instance_state(term: Term, node: NodeName, instance: InstanceId) {
    for _ in 0..12 {
        if let Ok(facts) = term.lookups.instances.get_fresh(&instance).await
            && facts.as_ref().is_none_or(|f| f.state.is_ending())
        {
            let over = facts.is_none_or(|f| f.state.is_over());
            term.send(Input::InstanceEnds { node, instance, over });
            return;
        }
        tokio::time::sleep(seconds(5)).await;
    }
}

/// Reads a Node from the API server, and tries until that succeeds.
pub(super) async fn node(term: Term, name: NodeName, reads: Arc<Semaphore>) {
    let mut backoff = Backoff::up_to(seconds(10));
    loop {
        let result = {
            // `acquire` fails only for a closed semaphore. This one is never closed.
            let _turn = reads.acquire().await.ok();
            term.nodes.fetch(&name).await
        };
        match result {
            Ok(node) => return term.send(Input::NodeRead { name, node: node.map(Arc::new) }),
            Err(error) => warn!(
                node = %name, %error,
                "Cannot read a node whose record may be outdated; trying again. Its drain waits \
                 for that, heartbeats go on."
            ),
        }
        tokio::time::sleep(backoff.pause(&term.random)).await;
    }
}

/// What was learnt of a stale interruption.
enum Evidence {
    Heartbeat(HeartbeatAnswer),
    /// `None`: EC2 could not be asked.
    Instance(Option<InstanceAnswer>),
    /// `None`: Auto Scaling could not be asked.
    Hook(Option<HookAnswer>),
}

/// How long between two questions about one thing.
const ASK_AGAIN: std::time::Duration = seconds(5);
/// How long between two lines that say that a Node cannot be read.
const SAY_AGAIN: std::time::Duration = seconds(60);

/// Asks until the interruption is proved or disproved, and sends [`Input::Proof`]. The task is
/// aborted when the drain ends ([`Effect::StopVerifying`](crate::fleet::Effect::StopVerifying)). A
/// heartbeat, EC2 and the hook's description are asked for at the same time, because one answer can
/// be enough.
pub(super) async fn verify(term: &Term, name: NodeName, instance: &InstanceId, taken: &Taken) {
    let Some(interruption) = interruption(instance, taken) else { return };
    let mut known = Knowledge::new(taken.accepted, taken.time);
    let mut asking: FuturesUnordered<BoxFuture<'_, Evidence>> = FuturesUnordered::new();
    asking.push(Box::pin(ask_instance(term, instance, Duration::ZERO)));
    if let Some(action) = &taken.hook {
        asking.push(Box::pin(async move {
            // `prove` gives `None` if the action is already known to be over. (At the end of the
            // term this task is aborted first.)
            let accepted =
                term.hooks.prove(action, taken.time, Source::Record).await == Some(Proof::Open);
            Evidence::Heartbeat(HeartbeatAnswer { at: term.clock.now(), accepted })
        }));
        asking.push(Box::pin(ask_hook(term, &action.key, Duration::ZERO)));
    }
    while let Some(evidence) = asking.next().await {
        match evidence {
            Evidence::Heartbeat(answer) => known.heartbeat = Some(answer),
            Evidence::Instance(answer) => {
                known.instance = answer.or(known.instance);
                asking.push(Box::pin(ask_instance(term, instance, ASK_AGAIN)));
            }
            Evidence::Hook(Some(answer)) => known.hook = Some(answer),
            Evidence::Hook(None) => asking.extend(
                taken.hook.as_ref().map(|action| ask_hook(term, &action.key, ASK_AGAIN).boxed()),
            ),
        }
        if let Some(disproved) = triage::disproved(&interruption, &known) {
            term.send(Input::Proof {
                node: name,
                event: taken.event_id.clone(),
                holds: !disproved,
            });
            return;
        }
    }
}

async fn ask_instance(term: &Term, instance: &InstanceId, pause: Duration) -> Evidence {
    tokio::time::sleep(pause).await;
    let at = term.clock.now();
    let facts = term.lookups.instances.get_fresh(instance).await.ok();
    Evidence::Instance(facts.map(|facts| InstanceAnswer { at, facts: facts.map(|f| (*f).clone()) }))
}

async fn ask_hook(term: &Term, key: &HookKey, pause: Duration) -> Evidence {
    tokio::time::sleep(pause).await;
    let described = term.lookups.hooks.get(&key.group, &key.hook).await.ok();
    Evidence::Hook(described.map(|d| d.map_or(HookAnswer::NoSuchHook, HookAnswer::Described)))
}

/// The interruption that a record's facts came from, as far as a proof looks at it.
fn interruption(instance: &InstanceId, taken: &Taken) -> Option<Interruption> {
    let what = match taken.kind? {
        Kind::Spot => What::Spot(SpotAction::Terminate),
        Kind::Capacity => What::Capacity { ends: taken.ends },
        Kind::StateChange => What::StateChange(taken.state?),
        Kind::TerminateHook => {
            let action = taken.hook.as_ref()?;
            What::Terminate(HookAction {
                group: action.key.group.clone(),
                hook: action.key.hook.clone(),
                token: action.token.clone(),
                origin: None,
                destination: None,
                purpose: HookPurpose::Ordinary,
            })
        }
        Kind::LaunchHook | Kind::LaunchSuccessful | Kind::Rebalance | Kind::Health => return None,
    };
    Some(Interruption {
        instance: instance.clone(),
        event_id: taken.event_id.clone(),
        time: Some(taken.time),
        what,
    })
}
