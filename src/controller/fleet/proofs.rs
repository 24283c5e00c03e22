//! What has to be asked before a record counts, or before a drain may force.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tracing::{debug, warn};

use super::{Fleet, FleetInput, node_state::Kubelet};
use crate::{
    controller::{
        context::Term,
        hooks::{Proof, Source},
        report::DrainEvent,
    },
    domain::{HookAction, HookKey, HookPurpose, InstanceId, Interruption, Kind, Node, NodeName, Ready, SpotAction, Taken, What, seconds},
    drain::{self, Input, NodeCondition},
    record::{EndReason, Record},
    triage::{self, BeatAnswer, HookAnswer, InstanceAnswer, Knowledge},
};

impl Fleet {
    /// Which instance is a Node without providerID? DescribeInstances by private DNS name.
    pub(super) fn ask_name(&mut self, node: &Arc<Node>) {
        let name = node.dns.clone().unwrap_or_else(|| node.name.to_string());
        if !self.asking_name.insert(node.name.clone()) {
            return;
        }
        let (term, node, uid) = (self.term.clone(), node.name.clone(), node.uid.clone());
        self.term.spawn(async move {
            let mut told = false;
            while term.nodes.get(&node).is_some_and(|n| n.uid == uid) {
                match term.lookups.dns.get(&name).await {
                    Ok(all) => {
                        let all = all.map(|all| (*all).clone()).unwrap_or_default();
                        if let Some(facts) = triage::called(&all, &term.policy) {
                            term.send(FleetInput::Named { node, instance: facts.id.clone() });
                            return;
                        }
                        if !std::mem::replace(&mut told, true) {
                            warn!(
                                node = %node, name, instances = all.len(),
                                "The node has no providerID, and its private DNS name does not tell which instance it is: its record is left alone \
                                 and asked about on. Let the kubelet set the providerID, or tag the instance kubernetes.io/cluster/<--cluster-name>."
                            );
                        }
                    }
                    Err(error) => debug!(node = %node, %error, "Cannot ask which instance the node is."),
                }
                tokio::time::sleep(seconds(30)).await;
            }
        });
    }

    /// The boot id differs: does one of the record's hooks still wait?
    pub(super) fn ask_hooks(&self, node: &Arc<Node>, instance: &InstanceId, record: &Record) {
        let (term, node) = (self.term.clone(), Arc::clone(node));
        let (owed, taken) = (self.term.owed(record, instance), self.term.taken(record, instance));
        self.term.spawn(async move {
            let (mut counts, mut over) = (false, Vec::new());
            for hook in owed {
                let event = taken.iter().filter(|t| t.hook.as_ref() == Some(&hook)).map(|t| t.time).max();
                match term.hooks.prove(&hook, event.unwrap_or_else(|| term.clock.now()), Source::Record).await {
                    Some(Proof::Open) => counts = true,
                    // No answer to be had: it is known to be over. (At the end of the term nobody comes here.)
                    Some(Proof::Gone) | None => over.push(hook),
                }
            }
            // The drain of a record that counts goes on and still names these: their tasks know that they are over. A new task would
            // have to find that out by another call.
            if !counts {
                for hook in &over {
                    term.hooks.forget(hook);
                }
            }
            term.send(FleetInput::Doubt { node: node.name.clone(), uid: node.uid.clone(), counts });
        });
    }

    /// Interruptions that were taken on without a proof are asked about until there is one.
    pub(super) fn prove_stale(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        if state.drain.is_none() {
            return;
        }
        let stale: Vec<Taken> = state.taken.iter().filter(|t| t.stale && !state.proved.contains(&t.event_id)).cloned().collect();
        for taken in stale {
            state.proving.entry(taken.event_id.clone()).or_insert_with(|| {
                let (term, name, instance) = (self.term.clone(), name.clone(), state.instance.clone());
                self.term.spawn_scoped(async move { prove(&term, name, &instance, &taken).await })
            });
        }
    }

    pub(super) fn proof(&mut self, name: &NodeName, event: &str, holds: bool) {
        let Some(state) = self.drains.get_mut(name) else { return };
        if holds {
            self.term.report(name, DrainEvent::Proved);
            state.proved.insert(event.to_owned());
            let over = state.is_over();
            self.refresh_limits(name);
            if over {
                self.step(name, Input::Node(NodeCondition::InstanceOver));
            }
            return;
        }
        state.disproved.insert(event.to_owned());
        // The others hold, or are still being asked about: this one alone changes nothing.
        if !state.is_disproved() || state.drain.is_none() {
            self.term.report(name, DrainEvent::DisprovedOne);
            return;
        }
        state.end_reason = EndReason::NothingHolds;
        self.term.report(name, DrainEvent::Disproved);
        self.step(name, Input::Release);
    }

    /// The instance of a node that is being drained is back in service: the drain ends, and the node is put back.
    pub(super) fn returned(&mut self, name: &NodeName, uid: &str, events: BTreeSet<String>) {
        let Some(state) = self.drains.get_mut(name).filter(|c| c.node.uid == uid && c.drain.is_some()) else { return };
        state.disproved.extend(events);
        if !state.is_disproved() {
            return;
        }
        state.end_reason = EndReason::NothingHolds;
        self.term.report(name, DrainEvent::InstanceReturned);
        self.step(name, Input::Release);
    }

    /// A node is unreachable if its kubelet is silent for a minute, and that silence counts ([`drain::Hearing`]).
    pub(super) fn look_for_unreachable(&mut self) {
        let now = self.term.clock.now();
        let silent: Vec<_> = self
            .drains
            .iter()
            .filter(|(_, c)| c.drain.is_some() && (c.node.ready == Ready::Unknown || c.kubelet.is_silent()))
            .map(|(n, _)| n.clone())
            .collect();
        if silent.is_empty() {
            return;
        }
        // Asked of the index, which has seen more than this term: an outage ends terms.
        let (index, all) = (self.term.nodes.state(), self.term.nodes.all());
        let hearing = drain::Hearing {
            watch_failing_since: index.failing_since,
            watch_failed_at: index.failed_at,
            nodes: all.len(),
            silent: all.iter().filter(|n| n.ready == Ready::Unknown).count(),
        };
        let counts = hearing.counts(now);
        for name in silent {
            let Some(state) = self.drains.get_mut(&name) else { continue };
            let unreachable = drain::is_silent(state.node.ready, state.node.ready_since, now) && counts;
            if unreachable == state.kubelet.is_silent() {
                continue;
            }
            state.kubelet = if unreachable { Kubelet::Silent { asking_node: None } } else { Kubelet::Heard };
            let instance = state.instance.clone();
            self.term.report(&name, if unreachable { DrainEvent::KubeletSilent } else { DrainEvent::KubeletHeard });
            self.step(&name, Input::Node(if unreachable { NodeCondition::Unreachable } else { NodeCondition::Fine }));
            if unreachable {
                self.ask_state(name, instance);
            }
        }
    }

    /// Reads the Node of an unreachable node, and tries until that is answered: what the index says may be old. While it cannot be read,
    /// nothing is known of its kubelet, and the drain goes on until its deadline, if it has one; that is said once a minute. Each try has
    /// the deadline of any call.
    pub(super) fn ask_node(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        let (term, node, uid) = (self.term.clone(), name.clone(), state.node.uid.clone());
        state.kubelet.set_asking(Some(self.term.spawn_scoped(async move {
            let mut say_at = term.clock.now();
            loop {
                match term.nodes.fetch(&node).await {
                    Ok(found) => return term.send(FleetInput::Looked { node, uid, found: found.map(Arc::new) }),
                    Err(error) if term.clock.now() >= say_at => {
                        warn!(
                            %node, %error,
                            "Cannot read the Node of a node whose kubelet is silent. Its pods are not given up, and its drain goes on; trying again."
                        );
                        say_at = term.clock.now().plus(SAY_AGAIN);
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(ASK_AGAIN).await;
            }
        })));
    }

    /// The Node of an unreachable node as it is now: its drain ends if the kubelet is silent, and goes on otherwise.
    pub(super) fn looked(&mut self, name: &NodeName, uid: &str, found: Option<&Node>) {
        let now = self.term.clock.now();
        let Some(state) = self.drains.get_mut(name).filter(|c| c.node.uid == uid && c.kubelet.is_silent() && c.drain.is_some()) else { return };
        // One that is gone, or another by now, is nothing that anything is heard of. The index tells that too.
        let is_silent = found.is_none_or(|found| found.uid != uid || drain::is_silent(found.ready, found.ready_since, now));
        state.kubelet.set_asking(None);
        if !is_silent {
            state.kubelet = Kubelet::Heard;
            self.term.report(name, DrainEvent::KubeletHeardByRead);
        }
        self.step(name, Input::Node(if is_silent { NodeCondition::StillUnreachable } else { NodeCondition::Fine }));
    }

    fn ask_state(&self, name: NodeName, instance: InstanceId) {
        let term = self.term.clone();
        self.term.spawn(async move {
            for _ in 0..12 {
                if let Ok(facts) = term.lookups.instances.get_fresh(&instance).await
                    && facts.as_ref().is_none_or(|f| f.state.is_ending())
                {
                    let over = facts.is_none_or(|f| f.state.is_over());
                    term.send(FleetInput::InstanceEnds { node: name, instance, over });
                    return;
                }
                tokio::time::sleep(seconds(5)).await;
            }
        });
    }

    /// EC2 says that the instance does not run: a node that nobody hears of is not waited for. One whose kubelet is heard still has its
    /// last minute, until its instance is over.
    pub(super) fn instance_ends(&mut self, name: &NodeName, instance: &InstanceId, over: bool) {
        if self.drains.get(name).is_some_and(|c| c.instance == *instance && (over || c.kubelet.is_silent())) {
            self.step(name, Input::Node(NodeCondition::InstanceOver));
        }
    }
}

/// What was learnt of a stale interruption.
enum Evidence {
    Beat(BeatAnswer),
    /// `None`: EC2 could not be asked.
    Instance(Option<InstanceAnswer>),
    /// `None`: Auto Scaling could not be asked.
    Hook(Option<HookAnswer>),
}

/// How long between two questions about one thing.
const ASK_AGAIN: std::time::Duration = seconds(5);
/// How long between two lines that say that a Node cannot be read.
const SAY_AGAIN: std::time::Duration = seconds(60);

/// Asks on until the interruption is proved or disproved, whatever becomes of the record meanwhile: its drain goes on, and ends who asks
/// with itself. A heartbeat, EC2 and the hook's description are asked for at the same time:
/// where one of them cannot be had, the others may do.
async fn prove(term: &Term, name: NodeName, instance: &InstanceId, taken: &Taken) {
    let Some(interruption) = interruption(instance, taken) else { return };
    let mut known = Knowledge::new(taken.accepted, taken.time);
    let mut asking: FuturesUnordered<BoxFuture<'_, Evidence>> = FuturesUnordered::new();
    asking.push(Box::pin(ask_instance(term, instance, Duration::ZERO)));
    if let Some(owed) = &taken.hook {
        asking.push(Box::pin(async move {
            // No answer to be had: it is known to be over. (At the end of the term nobody comes here.)
            let accepted = term.hooks.prove(owed, taken.time, Source::Record).await == Some(Proof::Open);
            Evidence::Beat(BeatAnswer { at: term.clock.now(), accepted })
        }));
        asking.push(Box::pin(ask_hook(term, &owed.key, Duration::ZERO)));
    }
    while let Some(evidence) = asking.next().await {
        match evidence {
            Evidence::Beat(answer) => known.beat = Some(answer),
            Evidence::Instance(answer) => {
                known.instance = answer.or(known.instance);
                asking.push(Box::pin(ask_instance(term, instance, ASK_AGAIN)));
            }
            Evidence::Hook(Some(answer)) => known.hook = Some(answer),
            Evidence::Hook(None) => asking.extend(taken.hook.as_ref().map(|owed| ask_hook(term, &owed.key, ASK_AGAIN).boxed())),
        }
        if let Some(disproved) = triage::disproved(&interruption, &known) {
            term.send(FleetInput::Proof { node: name, event: taken.event_id.clone(), holds: !disproved });
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
            let owed = taken.hook.as_ref()?;
            What::Terminate(HookAction {
                group: owed.key.group.clone(),
                hook: owed.key.hook.clone(),
                token: owed.token.clone(),
                origin: None,
                destination: None,
                purpose: HookPurpose::Ordinary,
            })
        }
        Kind::LaunchHook | Kind::LaunchSuccessful | Kind::Rebalance | Kind::Health => return None,
    };
    Some(Interruption { instance: instance.clone(), event_id: taken.event_id.clone(), time: Some(taken.time), what })
}
