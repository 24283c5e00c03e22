//! The schedule of the controllers' work.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Notify;

use super::{object::Key, store::State};
use crate::{domain::Moment, runtime::Clock};

/// One reconciliation by one controller of one object. It acts on the state that it finds, and
/// schedules the next one itself; so extra ones do no harm, and an earlier one replaces a later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// The kubelet at a pod.
    Kubelet(Key),
    /// The scheduler at all pods that wait.
    Schedule,
    /// A workload controller at one object of a resource.
    Workload(String, Key),
    /// The DaemonSet controller at a node.
    Daemons(String),
    /// A foreign DaemonSet controller at a node: the key of its pod there, and the pod before its
    /// deletion, as JSON.
    ForeignDaemon { pod: Key, like: String },
    /// The disruption controller at a budget.
    Budget(Key),
    /// The disruption controller at a pod that was evicted and not deleted.
    StaleDisruption(Key),
    /// The node controllers at a node: registration, silence, taints, deletion.
    Node(String),
    /// The status that a kubelet writes from time to time.
    NodeStatus(String),
    /// The taint eviction controller at a pod.
    TaintEviction(Key),
    /// The pod collector at the pods of a node that is gone.
    CollectPods(String),
    /// The garbage collector at the objects of an owner that is gone.
    Collect(String),
    /// The namespace controller at a namespace, by name.
    Namespace(String),
    /// Bookmarks for the watches that asked for them.
    Bookmarks,
}

/// All tasks that are scheduled.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    due: BTreeMap<(Moment, u64), Task>,
    times: BTreeMap<Task, Moment>,
    next: u64,
    pub(super) wake: Arc<Notify>,
    pub(super) stopped: bool,
}

impl Agenda {
    /// Schedules a task for this time, unless it is already scheduled for then or earlier.
    pub(super) fn at(&mut self, at: Moment, task: Task) {
        if self.times.get(&task).is_some_and(|t| *t <= at) {
            return;
        }
        self.times.insert(task.clone(), at);
        self.next += 1;
        let first = self.due.first_key_value().is_none_or(|((t, _), _)| at < *t);
        self.due.insert((at, self.next), task);
        if first {
            self.wake.notify_one();
        }
    }

    fn pop(&mut self, now: Moment) -> Option<Task> {
        let entry = self.due.first_entry().filter(|e| e.key().0 <= now)?;
        let ((at, _), task) = entry.remove_entry();
        if self.times.get(&task) == Some(&at) {
            self.times.remove(&task);
        }
        Some(task)
    }
}

impl State {
    fn look(&mut self, task: Task) {
        match task {
            Task::Kubelet(key) => self.kubelet(&key),
            Task::Schedule => self.schedule(),
            Task::Workload(plural, key) => self.sync_workload(&plural, &key),
            Task::Daemons(node) => self.sync_daemons_of(&node),
            Task::ForeignDaemon { pod, like } => self.sync_foreign_daemon(&pod, &like),
            Task::Budget(key) => self.sync_budget(&key),
            Task::StaleDisruption(key) => self.clear_stale_disruption(&key),
            Task::Node(name) => self.sync_node(&name),
            Task::NodeStatus(name) => self.write_node_status(&name),
            Task::TaintEviction(key) => self.evict_for_taints(&key),
            Task::CollectPods(node) => self.collect_pods(&node),
            Task::Collect(uid) => self.collect_owned(&uid),
            Task::Namespace(name) => self.sync_namespace(&name),
            Task::Bookmarks => {
                self.watches.bookmark(self.revision);
                let next = self.now().plus(self.options.timing.bookmarks);
                self.agenda.at(next, Task::Bookmarks);
            }
        }
    }
}

/// Tasks that are run before the lock is released: requests must not wait long.
const BATCH: usize = 32;

/// Runs the controllers until the cluster is stopped or its last handle is gone.
pub(super) async fn run(state: Weak<Mutex<State>>, wake: Arc<Notify>, clock: Clock) {
    loop {
        let next = {
            let Some(state) = state.upgrade() else { return };
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..BATCH {
                let now = clock.now();
                let Some(task) = state.agenda.pop(now) else { break };
                state.look(task);
            }
            if state.agenda.stopped {
                return;
            }
            state.agenda.due.first_key_value().map(|((at, _), _)| *at)
        };
        match next {
            Some(at) if at <= clock.now() => tokio::task::yield_now().await,
            Some(at) => {
                tokio::select! {
                    biased;
                    () = wake.notified() => {}
                    () = clock.sleep_until(at) => {}
                }
            }
            None => wake.notified().await,
        }
    }
}
