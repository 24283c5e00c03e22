//! What the tasks of one term of leadership share.

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

use super::{hooks::LifecycleActions, report::reported::Reported, shared::Shared};
use crate::{
    cluster::EventNote,
    domain::{
        InstanceId, Interruption, InterruptionFacts, LifecycleAction, Moment, Node, NodeName,
    },
    fleet::{self, Input},
    lifecycle::Skew,
    record::{self, ExclusionLimit, Record},
    triage::ActionEndSeen,
};

/// How many records are written at once. That is more than the PATCHes of Nodes that may be in
/// flight (three quarters of `cluster::Settings::in_flight`), so that the next one is always ready.
/// Each takes about 10 KB of memory, and ten thousand notices may come at once.
const ACCEPTS: usize = 64;
/// The same for all other PATCHes of Nodes. They have slots of their own, so that an accept does
/// not wait behind the ends of other drains.
const NODE_WRITES: usize = 64;

/// A lock for each Node that this process writes, or wrote lately.
#[derive(Default)]
struct NodeLocks {
    of_nodes: BTreeMap<NodeName, Arc<tokio::sync::Mutex<()>>>,
    /// Locks that nobody holds are dropped once there are more than this, and more than
    /// [`Self::LEAST_PRUNED`].
    prune_above: usize,
}

impl NodeLocks {
    const LEAST_PRUNED: usize = 4096;

    fn of(&mut self, node: &NodeName) -> Arc<tokio::sync::Mutex<()>> {
        if self.of_nodes.len() > self.prune_above.max(Self::LEAST_PRUNED) {
            self.of_nodes.retain(|_, lock| Arc::strong_count(lock) > 1);
            // Thousands may be in use: then they are not all looked at for each new one.
            self.prune_above = self.of_nodes.len() * 2;
        }
        Arc::clone(self.of_nodes.entry(node.clone()).or_default())
    }
}

/// One term of leadership. Clones are the same term. All tasks that it started end with it.
#[derive(Clone)]
pub(super) struct Term {
    pub(super) shared: Arc<Shared>,
    /// When the term began.
    pub(super) since: Moment,
    end: CancellationToken,
    inputs: mpsc::UnboundedSender<Input>,
    pub(super) actions: LifecycleActions,
    node_locks: Arc<Mutex<NodeLocks>>,
    accepts: Arc<Semaphore>,
    node_writes: Arc<Semaphore>,
    pub(super) exclusion_limit: Arc<Mutex<ExclusionLimit>>,
    deadlines: Arc<Mutex<BTreeMap<NodeName, Moment>>>,
    seen_keys: Arc<Mutex<BTreeSet<String>>>,
    pub(super) reported: Reported,
    paused: Arc<AtomicBool>,
    /// Incremented when a Node appears or the instance of a Node changes, so that the decisions
    /// that wait for a Node look at the index again.
    pub(super) arrivals: watch::Sender<u64>,
}

impl Term {
    /// Begins a term. Returns it with the receiver of the fleet's inputs. `kept`: the actions that
    /// this process has kept alive since its last term.
    pub(super) fn begin(
        since: Moment,
        shared: Arc<Shared>,
        kept: Option<LifecycleActions>,
    ) -> (Self, mpsc::UnboundedReceiver<Input>) {
        let (inputs, received) = mpsc::unbounded_channel();
        let end = CancellationToken::new();
        let actions = match kept {
            Some(kept) => kept.resume(inputs.clone()),
            None => LifecycleActions::new(shared.clone(), inputs.clone()),
        };
        let term = Self {
            since,
            end,
            inputs,
            actions,
            node_locks: Arc::default(),
            accepts: Arc::new(Semaphore::new(ACCEPTS)),
            node_writes: Arc::new(Semaphore::new(NODE_WRITES)),
            exclusion_limit: Arc::default(),
            deadlines: Arc::default(),
            seen_keys: Arc::default(),
            reported: Reported::default(),
            paused: Arc::default(),
            arrivals: watch::Sender::new(0),
            shared,
        };
        (term, received)
    }

    /// Whether all drains are paused, as far as the leader has seen.
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
        self.shared.spawner.spawn(async move {
            // Looks at the end first: another task that ends may have woken this one, and nothing
            // begins after the end.
            tokio::select! {
                biased;
                () = end.cancelled() => {}
                () = task => {}
            }
        })
    }

    /// Whether the term is over. Its tasks then end at their next await.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_cancelled()
    }

    /// Ends all tasks that the term started, and all heartbeats.
    pub(super) fn finish(&self) {
        self.end.cancel();
        self.actions.end();
    }

    /// Ends all tasks except the heartbeats, which go on until [`LifecycleActions::end`], and the requests
    /// that are under way.
    pub(super) fn keep_heartbeats_only(&self) -> LifecycleActions {
        self.end.cancel();
        self.actions.keep_heartbeats_only();
        self.actions.clone()
    }

    /// Sends the fleet an input.
    pub(super) fn send(&self, input: Input) {
        // It fails only at the end of a term, when no input matters.
        drop(self.inputs.send(input));
    }

    /// Locks the Node for a write by this process, so that two interruptions of one Node are
    /// accepted one after the other.
    pub(super) async fn lock_node(&self, node: &NodeName) -> OwnedMutexGuard<()> {
        let lock = self.node_locks.lock().unwrap_or_else(PoisonError::into_inner).of(node);
        lock.lock_owned().await
    }

    /// The same, but `None` if another write of the Node is under way.
    pub(super) fn try_lock_node(&self, node: &NodeName) -> Option<OwnedMutexGuard<()>> {
        let lock = self.node_locks.lock().unwrap_or_else(PoisonError::into_inner).of(node);
        lock.try_lock_owned().ok()
    }

    /// Waits until another Node may be patched. Hold the permit until that is done.
    pub(super) async fn node_write_slot(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.node_writes.acquire().await.ok()
    }

    /// Waits until another record may be written. Hold the permit until it is written.
    pub(super) async fn accept_slot(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.accepts.acquire().await.ok()
    }

    /// The open lifecycle actions of a record. Others can write annotations, so a hook that is not
    /// ours is left out even if the record names it.
    pub(super) fn open_actions(
        &self,
        record: &Record,
        instance: &InstanceId,
    ) -> Vec<LifecycleAction> {
        fleet::open_actions(
            &self.shared.policy,
            record,
            instance,
            |hook| self.actions.end_seen(hook) != ActionEndSeen::NotKnown,
            |hook| self.actions.is_kept_alive(hook),
        )
    }

    /// Whether the record of the Node holds this interruption: there is nothing more to write.
    pub(super) fn is_recorded(&self, node: &Node, interruption: &Interruption) -> bool {
        record::recognize(node, interruption) && !self.is_another_wait(node, interruption)
    }

    /// Whether the sweep found this interruption, and AWS has shown that the instance waits for
    /// another action than those in the record of the Node. An action that Sundown has completed
    /// does not show that: then the instance may wait in the hook of another party.
    pub(super) fn is_another_wait(&self, node: &Node, interruption: &Interruption) -> bool {
        record::is_another_wait(node, interruption, |action| {
            self.actions.end_seen(action) == ActionEndSeen::Over
        })
    }

    /// How far AWS's clock is ahead of ours. Until AWS has answered this process within 2 s, the API
    /// server's clock is used instead, as far as AWS's slower answers allow it: it is right more
    /// often than the clock of a machine that AWS does not answer.
    pub(super) fn skew(&self) -> Skew {
        Skew::new(self.shared.aws.clock().skew_or(self.shared.cluster.server_skew()))
    }

    /// The time now on AWS's clock.
    pub(super) fn aws_now(&self) -> Moment {
        self.skew().to_aws(self.shared.clock.now())
    }

    /// The interruptions in a record, with their times on our clock.
    pub(super) fn interruptions_of(
        &self,
        record: &Record,
        instance: &InstanceId,
    ) -> Vec<InterruptionFacts> {
        self.skew().facts_to_ours(record.interruptions(instance))
    }

    /// Whether Sundown drains this Node: `--node-selector` matches it, and nobody asked to leave it
    /// alone (`sundown.dev/ignore`).
    pub(super) fn manages(&self, node: &Node) -> bool {
        self.selects(node) && !node.ignored()
    }

    /// Whether `--node-selector` matches the Node.
    pub(super) fn selects(&self, node: &Node) -> bool {
        self.shared.policy.nodes.matches(&node.labels)
    }

    /// Calls `ask` with the number of nodes that may leave load balancers.
    pub(super) fn with_exclusion_limit<T>(&self, ask: impl FnOnce(&mut ExclusionLimit) -> T) -> T {
        ask(&mut self.exclusion_limit.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the deadline with which [`crate::record::accept`] compares that of a new interruption:
    /// from when on pods are forced on this node, or else when its drain ends at the latest. `None`:
    /// there is no such moment, or the drain has ended.
    pub(super) fn set_deadline(&self, node: &NodeName, deadline: Option<Moment>) {
        let mut deadlines = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        match deadline {
            Some(deadline) => deadlines.insert(node.clone(), deadline),
            None => deadlines.remove(node),
        };
    }

    /// The deadline that [`Self::set_deadline`] has set in this term.
    pub(super) fn deadline_of(&self, node: &NodeName) -> Option<Moment> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    /// Whether test events that ask for it are acted on (`--accept-real-tests`).
    pub(super) fn takes_real_tests(&self) -> bool {
        self.shared.real_tests_until.is_some_and(|until| self.shared.clock.now() < until)
    }

    /// Whether `key` is passed for the first time in this term, for log lines that are written only
    /// once. After 10 000 keys all of them count as new again.
    pub(super) fn is_first_report(&self, key: &str) -> bool {
        let mut seen_keys = self.seen_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if seen_keys.len() >= 10_000 {
            seen_keys.clear();
        }
        seen_keys.insert(key.to_owned())
    }

    /// Whether [`Self::is_first_report`] was asked about `key` before.
    pub(super) fn was_reported(&self, key: &str) -> bool {
        self.seen_keys.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// Writes a Kubernetes Event, except in a dry run.
    pub(super) fn note(&self, note: EventNote) {
        if !self.shared.config.dry_run {
            self.shared.recorder.note(note);
        }
    }
}
