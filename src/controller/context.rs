//! What every part of one term of leadership shares.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{OwnedMutexGuard, Semaphore, SemaphorePermit, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Board, Sinks,
    deleted_nodes::DeletedNodes,
    hooks::{Granted, Hooks},
    report::Reported,
};
use crate::{
    aws::{Clients, Lookups},
    cluster::{Cluster, DaemonSets, EventNote, NodeIndex, Recorder, lease::WritePermit},
    config::Config,
    domain::{InstanceId, LifecycleAction, Moment, Node, NodeName, Taken},
    fleet::{self, Input},
    lifecycle::Skew,
    observe::{Metrics, ReadyFlag},
    record::{LabelRoom, Record},
    runtime::{Clock, Random, Spawner},
    triage,
};

/// What outlives a term: clients, caches, settings. One for all, since thousands of tasks hold it.
#[derive(Clone)]
pub(super) struct Shared(Arc<SharedParts>);

impl From<SharedParts> for Shared {
    fn from(parts: SharedParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl std::ops::Deref for Shared {
    type Target = SharedParts;

    fn deref(&self) -> &SharedParts {
        &self.0
    }
}

/// What a [`Standing`] is made of.
pub(super) struct SharedParts {
    pub(super) config: Arc<Config>,
    pub(super) policy: Arc<triage::Policy>,
    pub(super) cluster: Cluster,
    pub(super) nodes: NodeIndex,
    pub(super) budgets: crate::cluster::BudgetWatch,
    pub(super) daemon_sets: DaemonSets,
    pub(super) recorder: Recorder,
    pub(super) aws: Clients,
    pub(super) lookups: Lookups,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) spawner: Spawner,
    pub(super) metrics: Arc<Metrics>,
    pub(super) board: Board,
    pub(super) lead: Lead,
    pub(super) deleted_nodes: DeletedNodes,
    /// What this process knows of the windows of actions from its earlier terms.
    pub(super) granted: Granted,
    /// Holds while this leader knows the Nodes that its predecessor was draining. A condition of
    /// `/readyz`.
    pub(super) confirmation: ReadyFlag,
    /// Until when test events that ask for it are acted on (`--accept-real-tests`).
    pub(super) real_tests_until: Option<Moment>,
    pub(super) sinks: Sinks,
}

/// Says what this process may do now.
#[derive(Clone)]
pub(super) struct Lead {
    pub(super) permit: Arc<dyn Fn() -> Option<WritePermit> + Send + Sync>,
    pub(super) heartbeat: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Lead {
    /// The right to make one write, to be held until it is answered. `None`: this process does not
    /// lead, or its renew deadline is over.
    pub(super) fn permit(&self) -> Option<WritePermit> {
        (self.permit)()
    }

    /// It leads, or was the last to lead as far as it knows: a heartbeat does no harm even if it is
    /// not.
    pub(super) fn may_send_heartbeats(&self) -> bool {
        (self.heartbeat)()
    }
}

/// How many records are written at once: some more than PATCHes of Nodes may be in flight, so that
/// the next one is always ready. Each takes about 10 KB of memory, and ten thousand notices may
/// come at once.
const ACCEPTS: usize = 64;

/// One term of leadership. Clones are the same term; everything that it started ends with it.
#[derive(Clone)]
pub(super) struct Term {
    pub(super) shared: Shared,
    /// When it began.
    pub(super) since: Moment,
    end: CancellationToken,
    inputs: mpsc::UnboundedSender<Input>,
    pub(super) hooks: Hooks,
    gates: Arc<Mutex<BTreeMap<NodeName, Arc<tokio::sync::Mutex<()>>>>>,
    accepts: Arc<Semaphore>,
    pub(super) room: Arc<Mutex<LabelRoom>>,
    ends: Arc<Mutex<BTreeMap<NodeName, Moment>>>,
    said: Arc<Mutex<BTreeSet<String>>>,
    pub(super) told: Reported,
    paused: Arc<AtomicBool>,
    /// Bumped when a Node appears or the index changes its health: who waits for a Node looks
    /// again.
    pub(super) arrivals: watch::Sender<u64>,
}

impl std::ops::Deref for Term {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Term {
    /// A term that begins now; the second half receives the inputs. `kept`: what this process went
    /// on beating since its last term.
    pub(super) fn begin(
        shared: Shared,
        kept: Option<Hooks>,
    ) -> (Self, mpsc::UnboundedReceiver<Input>) {
        let (inputs, heard) = mpsc::unbounded_channel();
        let end = CancellationToken::new();
        let since = shared.clock.now();
        let hooks = match kept {
            Some(kept) => kept.resume(inputs.clone()),
            None => Hooks::new(shared.clone(), inputs.clone()),
        };
        let term = Self {
            since,
            end,
            inputs,
            hooks,
            gates: Arc::default(),
            accepts: Arc::new(Semaphore::new(ACCEPTS)),
            room: Arc::default(),
            ends: Arc::default(),
            said: Arc::default(),
            told: Reported::default(),
            paused: Arc::default(),
            arrivals: watch::Sender::new(0),
            shared,
        };
        (term, heard)
    }

    /// All drains are paused, as far as the leader has seen.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub(super) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    /// Starts a task that ends with the term.
    pub(super) fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.start(task));
    }

    /// Starts a task that ends with the term, and before that when the handle is dropped.
    pub(super) fn spawn_scoped<F>(&self, task: F) -> AbortOnDropHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        AbortOnDropHandle::new(self.start(task))
    }

    fn start<F>(&self, task: F) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let end = self.end.clone();
        let task = Box::pin(task);
        self.spawner.spawn(async move {
            end.run_until_cancelled(task).await;
        })
    }

    /// Ends everything that the term started.
    pub(super) fn finish(&self) {
        self.end.cancel();
        self.hooks.end();
    }

    /// Ends everything but the heartbeats, which go on until [`Hooks::end`], and the requests that
    /// are under way.
    pub(super) fn strand(&self) -> Hooks {
        self.end.cancel();
        self.hooks.strand();
        self.hooks.clone()
    }

    /// Sends the fleet an input.
    pub(super) fn send(&self, input: Input) {
        // Nobody hears at the end of a term, and then nothing is to be done about it.
        drop(self.inputs.send(input));
    }

    /// One writer of a Node at a time: two interruptions of one node are taken on one after the
    /// other.
    pub(super) async fn gate(&self, node: &NodeName) -> OwnedMutexGuard<()> {
        let gate = {
            let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
            if gates.len() > 4096 {
                gates.retain(|_, gate| Arc::strong_count(gate) > 1);
            }
            Arc::clone(gates.entry(node.clone()).or_default())
        };
        gate.lock_owned().await
    }

    /// Waits until another record may be written. Held until it is.
    pub(super) async fn accept_turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.accepts.acquire().await.ok()
    }

    /// What a record makes us owe. Annotations can be written by others: a hook that is not ours is
    /// never touched, whatever one says.
    pub(super) fn open_actions(
        &self,
        record: &Record,
        instance: &InstanceId,
    ) -> Vec<LifecycleAction> {
        fleet::open_actions(
            &self.policy,
            record,
            instance,
            |hook| self.hooks.is_past(hook),
            |hook| self.hooks.keeps_open(hook),
        )
    }

    /// How far AWS's clock is ahead of ours. Until AWS has answered this process, the API server's
    /// clock is used instead: it is right more often than the clock of a machine that AWS does not
    /// answer.
    pub(super) fn skew(&self) -> Skew {
        Skew::new(self.aws.clock().measured().unwrap_or_else(|| self.cluster.server_skew()))
    }

    /// The time now on AWS's clock.
    pub(super) fn aws_now(&self) -> Moment {
        self.skew().to_aws(self.clock.now())
    }

    /// What a record holds, on our clock.
    pub(super) fn taken(&self, record: &Record, instance: &InstanceId) -> Vec<Taken> {
        self.skew().taken(record.taken(instance))
    }

    /// This Node is ours to drain: the node selector takes it, and nobody asked to leave it alone.
    pub(super) fn manages(&self, node: &Node) -> bool {
        self.selects(node) && !node.ignored()
    }

    /// The node selector takes it.
    pub(super) fn selects(&self, node: &Node) -> bool {
        self.policy.nodes.matches(&node.labels)
    }

    /// Asks the label room something.
    pub(super) fn with_room<T>(&self, ask: impl FnOnce(&mut LabelRoom) -> T) -> T {
        ask(&mut self.room.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The drain of this node ends at `end` at the latest, as its leader derives it; `None`:
    /// nothing ends it, or it is over.
    pub(super) fn rules_from_now_on(&self, node: &NodeName, end: Option<Moment>) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            Some(end) => ends.insert(node.clone(), end),
            None => ends.remove(node),
        };
    }

    /// When the drain of this node ends at the latest; `None`: nothing ends it, or it is not taken
    /// up yet.
    pub(super) fn end_that_rules(&self, node: &NodeName) -> Option<Moment> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    /// Test events that ask for it are acted on.
    pub(super) fn takes_real_tests(&self) -> bool {
        self.real_tests_until.is_some_and(|until| self.clock.now() < until)
    }

    /// This event of a dry run, known by this text, was not spoken of yet.
    pub(super) fn first_said(&self, event: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= 10_000 {
            said.clear();
        }
        said.insert(event.to_owned())
    }

    /// Has an Event written. A dry run writes nothing.
    pub(super) fn note(&self, note: EventNote) {
        if !self.config.dry_run {
            self.recorder.note(note);
        }
    }
}
