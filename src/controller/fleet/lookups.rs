//! The facts that the fleet reads, and the questions that it asks AWS and Kubernetes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use crate::{
    cluster::PodFeed,
    controller::{
        context::Term,
        hooks::{NamedBy, Proof},
    },
    domain::{
        Budget, Cause, GroupName, HookAction, HookKey, HookPurpose, InstanceId, InstanceState,
        Interruption, InterruptionFacts, Kind, LifecycleAction, Moment, Node, NodeName, Ready,
        SpotAction, seconds,
    },
    drain::SilenceEvidence,
    fleet::{Facts, Input, LastKnownNode},
    lifecycle::{Skew, StayAnswer, StayCheck, is_replaced},
    runtime::Backoff,
    triage::{self, HeartbeatAnswer, HookAnswer, InstanceAnswer, Knowledge},
};

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

/// Asks EC2 whether an instance ends, every 5 s, twelve times at most.
pub(super) async fn instance_state(term: Term, node: NodeName, instance: InstanceId) {
    // A minute quickly, then a quarter of an hour slowly: the event of its stop may be lost.
    for pause in [seconds(5); 12].into_iter().chain([seconds(30); 30]) {
        if let Ok(facts) = term.shared.lookups.instances.get_fresh(&instance).await
            && facts.as_ref().is_none_or(|f| f.state.is_ending())
        {
            let has_ended = facts.is_none_or(|f| f.state.is_over());
            term.send(Input::InstanceEnds { node, instance, has_ended });
            return;
        }
        tokio::time::sleep(pause).await;
    }
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

/// The answer to one of the questions about a stale interruption.
enum Evidence {
    Heartbeat(HeartbeatAnswer),
    /// `None`: EC2 could not be asked.
    Instance(Option<InstanceAnswer>),
    /// `None`: Auto Scaling could not be asked.
    Hook(Option<HookAnswer>),
}

/// The pause before the same question is asked again.
const ASK_AGAIN: std::time::Duration = seconds(5);
/// How long to wait for one answer to the question whether an instance stays.
const ANSWERED_WITHIN: std::time::Duration = seconds(10);
/// The tag with which Auto Scaling names the group of an instance.
pub(in crate::controller) const GROUP_TAG: &str = "aws:autoscaling:groupName";
/// The pause between two questions for a replacement. Auto Scaling answers for many nodes at once.
const REPLACEMENT_AGAIN: std::time::Duration = seconds(10);
/// The pause before the log repeats that a Node cannot be read.
const LOG_AGAIN: std::time::Duration = seconds(60);

/// Asks until the interruption is proved or disproved, and sends [`Input::Proof`]. The task is
/// aborted when the drain ends ([`Effect::StopVerifying`](crate::fleet::Effect::StopVerifying)). A
/// heartbeat, EC2 and the hook's description are asked for at the same time, because one answer can
/// be enough.
pub(super) async fn verify(
    term: &Term,
    name: NodeName,
    instance: &InstanceId,
    facts: &InterruptionFacts,
) {
    let Some(interruption) = interruption(instance, facts) else { return };
    let mut known = Knowledge::new(facts.accepted, facts.time);
    let mut asking: FuturesUnordered<BoxFuture<'_, Evidence>> = FuturesUnordered::new();
    asking.push(Box::pin(ask_instance(term, instance, Duration::ZERO)));
    if let Some(action) = &facts.hook {
        asking.push(Box::pin(async move {
            // `prove` returns `None` if the task of the action has just ended: the action is over, or
            // not ours. (At the end of the term, this lookup is aborted before that.)
            let accepted =
                term.actions.prove(action, facts.time, NamedBy::Record).await == Some(Proof::Open);
            Evidence::Heartbeat(HeartbeatAnswer { at: term.shared.clock.now(), accepted })
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
                facts.hook.as_ref().map(|action| ask_hook(term, &action.key, ASK_AGAIN).boxed()),
            ),
        }
        if let Some(disproved) = triage::disproved(&interruption, &known) {
            term.send(Input::Proof {
                node: name,
                event: facts.event_id.clone(),
                holds: !disproved,
            });
            return;
        }
    }
}

/// Asks EC2 and the Auto Scaling groups whether the instance stays, as often as
/// [`StayCheck`] asks for it, and sends [`Input::Contradiction`] for each new finding.
pub(super) async fn contradiction(
    term: &Term,
    node: NodeName,
    uid: String,
    instance: &InstanceId,
    groups: &BTreeSet<GroupName>,
) {
    let (clock, lookups) = (term.shared.clock, &term.shared.lookups);
    let (mut check, mut found_before) = (StayCheck::default(), None);
    loop {
        let (asked, since) = (clock.now(), tokio::time::Instant::now());
        let in_groups = groups.iter().map(|group| async move {
            let state = lookups.members.state_since(group, instance, since);
            tokio::time::timeout(ANSWERED_WITHIN, state).await.ok()?.ok()
        });
        let (in_ec2, in_groups) = tokio::join!(
            tokio::time::timeout(ANSWERED_WITHIN, lookups.instances.get_fresh(instance)),
            futures::future::join_all(in_groups)
        );
        let in_ec2 = in_ec2.ok().and_then(Result::ok);
        let state =
            in_ec2.map(|facts| facts.map_or(InstanceState::Terminated, |facts| facts.state));
        let in_groups: Vec<_> =
            in_groups.iter().map(|s| s.as_ref().map(Option::as_deref)).collect();
        debug!(%node, %instance, ?state, ?in_groups, "Asked whether the instance stays.");
        let (found, again) =
            check.record_answer(StayAnswer::of(state, &in_groups), asked, clock.now());
        if let Some(finding) = found.filter(|_| found != found_before) {
            let (node, uid) = (node.clone(), uid.clone());
            term.send(Input::Contradiction { node, uid, finding });
            found_before = found;
        }
        match again {
            Some(again) => clock.sleep_until(again).await,
            None => return,
        }
    }
}

/// Returns when the group of the instance has a node that can take over its pods. Asks until then:
/// the caller aborts this when the drain ends.
pub(super) async fn replacement(
    term: &Term,
    instance: &InstanceId,
    group: Option<GroupName>,
    since: Moment,
) {
    let lookups = &term.shared.lookups;
    let mut group = group;
    loop {
        if group.is_none() {
            let asked = tokio::time::timeout(ANSWERED_WITHIN, lookups.instances.get(instance));
            match asked.await {
                Ok(Ok(Some(facts))) => {
                    group = facts.tags.get(GROUP_TAG).map(|name| name.as_str().into());
                    if group.is_none() {
                        no_replacement(term, instance, "it is in no Auto Scaling group");
                    }
                }
                Ok(Err(error)) if error.is_denied() => no_replacement(
                    term,
                    instance,
                    "ec2:DescribeInstances is denied: allow it in the role's policy",
                ),
                other => debug!(%instance, ?other, "Cannot ask for the group of an instance."),
            }
        }
        if let Some(group) = &group {
            let asked = tokio::time::timeout(ANSWERED_WITHIN, lookups.members.of_group(group));
            match asked.await {
                Ok(Ok(Some(members))) => {
                    let ids = members.states.keys().filter_map(|id| id.parse().ok());
                    let nodes: Vec<_> =
                        ids.flat_map(|id: InstanceId| term.shared.nodes.by_instance(&id)).collect();
                    if is_replaced(instance, since, &members.capacity, &members.states, &nodes) {
                        return;
                    }
                }
                Ok(Ok(None)) => {
                    no_replacement(term, instance, &format!("AWS has no group {group}"));
                }
                Ok(Err(error)) if error.is_denied() => {
                    no_replacement(
                        term,
                        instance,
                        "autoscaling:DescribeAutoScalingGroups is denied: allow it in the role's \
                         policy",
                    );
                }
                other => debug!(%instance, %group, ?other, "Cannot ask for a replacement."),
            }
        }
        tokio::time::sleep(REPLACEMENT_AGAIN).await;
    }
}

/// Warns once about each instance that AWS will not show a replacement for it.
fn no_replacement(term: &Term, instance: &InstanceId, why: &str) {
    if term.is_first_report(&format!("{instance} gets no replacement: {why}")) {
        warn!(
            %instance, why,
            "Sundown cannot find out whether the node has a replacement. Its evictions begin after \
             half of the time."
        );
    }
}

async fn ask_instance(term: &Term, instance: &InstanceId, pause: Duration) -> Evidence {
    tokio::time::sleep(pause).await;
    let at = term.shared.clock.now();
    let facts = term.shared.lookups.instances.get_fresh(instance).await.ok();
    Evidence::Instance(facts.map(|facts| InstanceAnswer { at, facts: facts.map(|f| (*f).clone()) }))
}

async fn ask_hook(term: &Term, key: &HookKey, pause: Duration) -> Evidence {
    tokio::time::sleep(pause).await;
    let described = term.shared.lookups.hooks.get(&key.group, &key.hook).await.ok();
    Evidence::Hook(described.map(|d| d.map_or(HookAnswer::NoSuchHook, HookAnswer::Described)))
}

/// Rebuilds an interruption from the facts in a record, with the fields that a proof needs. `None`:
/// its kind needs no proof, or the record lacks such a field.
fn interruption(instance: &InstanceId, facts: &InterruptionFacts) -> Option<Interruption> {
    let kind = facts.kind?;
    let cause = match kind {
        Kind::Spot => Cause::Spot(SpotAction::Terminate),
        Kind::SpotStop => Cause::Spot(SpotAction::Stop),
        Kind::SpotHibernate => Cause::Spot(SpotAction::Hibernate),
        Kind::CapacityReservation => Cause::CapacityReservation { ends: facts.ends },
        Kind::CapacityBlock => Cause::CapacityBlock { ends: facts.ends },
        Kind::StateChange => Cause::StateChange(facts.state?),
        Kind::TerminateHook | Kind::RootVolume => {
            let action = facts.hook.as_ref()?;
            Cause::Terminate(HookAction {
                group: action.key.group.clone(),
                hook: action.key.hook.clone(),
                token: action.token.clone(),
                origin: None,
                destination: None,
                purpose: if kind == Kind::RootVolume {
                    HookPurpose::ReplaceRootVolume
                } else {
                    HookPurpose::Ordinary
                },
                metadata: None,
            })
        }
        Kind::LaunchHook
        | Kind::LaunchSuccessful
        | Kind::Rebalance
        | Kind::ScheduledChange
        | Kind::Impaired => return None,
    };
    Some(Interruption {
        instance: instance.clone(),
        event_id: facts.event_id.clone(),
        time: Some(facts.time),
        cause,
    })
}
