//! Turns each effect of the fleet into a call. No other file does.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{Semaphore, watch};
use tokio_util::task::AbortOnDropHandle;

use super::{lookups, verification, writes};
use crate::{
    cluster::{PodFeed, list_namespaces},
    controller::{
        context::Term,
        drain_conditions,
        hooks::NamedBy,
        node_writer::patch_node,
        planned,
        release::{self, BeginAt},
        requests, returns,
    },
    domain::{Node, NodeName},
    fleet::{CompletionId, Effect, Input, Question, RecordRestoration},
    record,
};

/// How many Nodes are read from the API server at once. They share the client's slots with other
/// requests.
const READS: usize = 16;

/// Performs effects, and keeps what ends some of them early.
pub(super) struct Performer {
    pub(super) term: Term,
    feed: Arc<PodFeed>,
    reads: Arc<Semaphore>,
    /// When completions may begin that have not begun, as far as the fleet may still change that.
    completions: BTreeMap<CompletionId, watch::Sender<BeginAt>>,
    verifying: BTreeMap<NodeName, Vec<AbortOnDropHandle<()>>>,
    reading_silent: BTreeMap<NodeName, AbortOnDropHandle<()>>,
    /// The tasks that ask EC2 whether the instance of a silent node ends: one for each node.
    asking_states: BTreeMap<NodeName, AbortOnDropHandle<()>>,
}

impl Performer {
    pub(super) fn new(term: Term, feed: Arc<PodFeed>) -> Self {
        Self {
            term,
            feed,
            reads: Arc::new(Semaphore::new(READS)),
            completions: BTreeMap::new(),
            verifying: BTreeMap::new(),
            reading_silent: BTreeMap::new(),
            asking_states: BTreeMap::new(),
        }
    }

    pub(super) fn perform(&mut self, effect: Effect) {
        let term = &self.term;
        match effect {
            Effect::Report(node, event) => term.report(&node, *event),
            Effect::ReportFleet(event) => term.report_of_fleet(&event),
            Effect::WatchPods(node) => self.feed.attach(&node),
            Effect::UnwatchPods(node) => self.feed.detach(&node),
            Effect::Send { node, order, give_up_after } => {
                let task = term.clone();
                term.spawn(async move {
                    let answer = writes::send(&task, &order, give_up_after).await;
                    task.send(Input::Answer { node, order, answer });
                });
            }
            Effect::Ask(question) => self.ask(question),
            Effect::StopVerifying(node) => {
                drop(self.verifying.remove(&node));
                drop(self.asking_states.remove(&node));
            }
            Effect::StopAskingState(node) => drop(self.asking_states.remove(&node)),
            Effect::StopReadingSilent(node) => drop(self.reading_silent.remove(&node)),
            Effect::KeepAlive { action, event_time, origin } => {
                term.actions.own(&action, event_time, origin, NamedBy::Record);
            }
            Effect::DrainResumed { actions, at, drain_timeout } => {
                for action in &actions {
                    term.actions.resumed_at(action, at, drain_timeout);
                }
            }
            Effect::VerifyActions { actions, until } => {
                for action in &actions {
                    term.actions.verify(action, until);
                }
            }
            Effect::StopKeepAlive(hook) => term.actions.forget(&hook),
            Effect::RestoreRecord(node, what) => self.restore(&node, what),
            Effect::RestoreNode(node) => returns::restore_ordered(term, node),
            Effect::BeginChange(node, interruption) => {
                term.spawn(planned::begin(term.clone(), node, *interruption));
            }
            Effect::BeginRequest(node, interruption) => {
                term.spawn(requests::begin(term.clone(), node, *interruption));
            }
            Effect::SetMaintenance(node, condition) => {
                term.spawn(planned::set_maintenance(term.clone(), node, condition));
            }
            Effect::SetDrainConditions(node, change) => {
                term.spawn(drain_conditions::write(term.clone(), node, change));
            }
            Effect::Exclude(node) => writes::exclude(term, node),
            Effect::Complete(completion) => {
                let id = completion.id;
                let from = release::start(term, completion);
                self.completions.extend(id.zip(from));
            }
            Effect::CompleteFrom(id, from) => {
                if let Some(completion) = self.completions.get(&id) {
                    completion.send_replace(BeginAt::from(from));
                }
            }
            Effect::CompleteNow(id) => {
                if let Some(completion) = self.completions.remove(&id) {
                    completion.send_replace(BeginAt::Now);
                }
            }
            Effect::ForgetDeletedNode(uid) => term.shared.deleted_nodes.forget(&uid),
            Effect::DeadlineIs(node, deadline) => term.set_deadline(&node, deadline),
            Effect::PausedAll(paused) => term.set_paused(paused),
        }
    }

    fn ask(&mut self, question: Question) {
        let term = self.term.clone();
        match question {
            Question::InstanceOf(node) => self.term.spawn(lookups::instance_of(term, node)),
            Question::OpenHooks { node, hooks } => {
                self.term.spawn(lookups::open_hooks(term, node, hooks));
            }
            Question::Verify { node, instance, interruption } => {
                let name = node.clone();
                let task = self.term.spawn_scoped(async move {
                    verification::verify(&term, name, &instance, &interruption).await;
                });
                self.verifying.entry(node).or_default().push(task);
            }
            Question::Contradiction { node, uid, instance, groups } => {
                let name = node.clone();
                let task = self.term.spawn_scoped(async move {
                    verification::contradiction(&term, name, uid, &instance, &groups).await;
                });
                self.verifying.entry(node).or_default().push(task);
            }
            Question::Replacement { node, uid, instance, group, since } => {
                let name = node.clone();
                let task = self.term.spawn_scoped(async move {
                    verification::replacement(&term, &instance, group, since).await;
                    term.send(Input::ReplacementReady { node: name, uid });
                });
                self.verifying.entry(node).or_default().push(task);
            }
            Question::Group { node, uid, instance } => {
                let name = node.clone();
                let task = self.term.spawn_scoped(async move {
                    let group = verification::group(&term, &instance).await;
                    term.send(Input::GroupFound { node: name, uid, group });
                });
                self.verifying.entry(node).or_default().push(task);
            }
            Question::Volumes(nodes) => self.term.spawn(lookups::volumes(term, nodes)),
            Question::SilentNode { node, uid } => {
                let task = self.term.spawn_scoped(lookups::silent_node(term, node.clone(), uid));
                self.reading_silent.insert(node, task);
            }
            Question::InstanceState { node, instance } => {
                let task =
                    self.term.spawn_scoped(lookups::instance_state(term, node.clone(), instance));
                self.asking_states.insert(node, task);
            }
            Question::Node(name) => {
                self.term.spawn(lookups::node(term, name, Arc::clone(&self.reads)));
            }
            Question::Namespaces(keys) => self.term.spawn(async move {
                let found = list_namespaces(&term.shared.cluster, &keys).await;
                let found = found.map_err(|error| error.to_string());
                term.send(Input::NamespacesRead { keys, found });
            }),
            Question::DaemonSet { node, namespace, name } => self.term.spawn(async move {
                let state = term.shared.daemon_sets.state(&namespace, &name).await;
                term.send(Input::DaemonSet { node, namespace, name, state });
            }),
        }
    }

    /// Writes a record on the Node again. Until that succeeds, only this process knows the record
    /// and its open lifecycle actions.
    fn restore(&self, node: &Arc<Node>, restoration: RecordRestoration) {
        let (term, node) = (self.term.clone(), Arc::clone(node));
        self.term.spawn(async move {
            match restoration {
                RecordRestoration::WriteBack(held) => {
                    patch_node(&term, node, "write the record back", |node| {
                        record::restore_record(node, &held)
                    })
                    .await
                }
                RecordRestoration::Register(instance, held, kept) => {
                    let body = |node: &Arc<Node>| record::reregister(node, &instance, &held, &kept);
                    patch_node(&term, node, "write the record of a re-registered node", body).await
                }
                RecordRestoration::CarryOver(held) => {
                    patch_node(&term, node, "write open actions into the record", |node| {
                        record::merge_patch(node, &held)
                    })
                    .await
                }
            };
        });
    }
}
