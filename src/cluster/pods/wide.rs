//! One watch over the pods of the whole cluster, shared by many nodes.
//!
//! The watch brings changes only. The pods of a node come from a LIST of that node, which begins
//! after the watch has a resourceVersion to start from, so that no change is lost. Changes that
//! arrive during the LIST are held back; those that the LIST already shows are dropped.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use futures::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{
    PodEvent, Pods, collection,
    table::{Command, Envelope, Table},
};
use crate::{
    cluster::{
        Cluster, ClusterError,
        watch::{FIRST_PAUSE, LONGEST_PAUSE, ListWatch, Listed, Reader, Signal},
    },
    domain::{NodeName, Pod},
    runtime::Backoff,
};

/// The nodes whose pods are wanted; the decoder drops all other pods.
pub(super) type Wanted = Arc<Mutex<BTreeSet<String>>>;

struct Node {
    epoch: u64,
    phase: Phase,
}

enum Phase {
    /// The LIST of the node has not begun: the watch has no version to start from yet, or too many
    /// LISTs are under way.
    Waiting { place: u64 },
    /// The LIST of the node is under way.
    Listing {
        round: u64,
        attempt: Attempt,
        held: Vec<(String, PodEvent)>,
        _lister: AbortOnDropHandle<()>,
    },
    /// The pods are listed and kept up to date since this version.
    Live { since: String },
}

/// How many nodes are listed at once. Nodes whose first LIST has failed do not count.
/// [`Settings::lists`](super::super::Settings) limits the requests under way to fewer, so a higher
/// value would only cost memory for more tasks.
const LISTERS: usize = 64;

/// The attempt to list a node that is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    /// An earlier one failed. It does not count towards [`LISTERS`], because it may first pause for
    /// a minute.
    Later,
}

struct Answer {
    node: NodeName,
    round: u64,
    outcome: Outcome,
}

enum Outcome {
    Listed(Listed<Pod>),
    /// The first attempt failed; further attempts follow.
    Failed,
}

struct Task {
    cluster: Cluster,
    table: Table,
    events: mpsc::Sender<Envelope>,
    wanted: Wanted,
    nodes: BTreeMap<NodeName, Node>,
    /// The nodes that wait for their LIST, in that order.
    waiting: BTreeMap<u64, NodeName>,
    /// How many LISTs are in their first attempt.
    listing: usize,
    answers: mpsc::UnboundedSender<Answer>,
    rounds: u64,
    /// The watch has a resourceVersion to start from.
    anchored: bool,
    /// The watch is open.
    open: bool,
    /// Why the watch fails, while it does.
    failing: Option<ClusterError>,
}

/// The receiver of events was dropped.
struct Over;

pub(super) async fn follow(
    cluster: Cluster,
    table: Table,
    events: mpsc::Sender<Envelope>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let wanted = Wanted::default();
    let decode = Pods { wanted: Some(wanted.clone()), clock: cluster.server_clock().clone() };
    // A stream keeps the request that is under way. Nodes may come faster than the API server
    // answers, so a request that began anew with each of them would never end.
    let watch = ListWatch::new(&cluster, collection(None), decode);
    let mut signals = std::pin::pin!(stream::unfold(watch, |mut watch| async move {
        let signal = watch.next().await;
        Some((signal, watch))
    }));
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut task = Task {
        cluster,
        table,
        events,
        wanted,
        nodes: BTreeMap::new(),
        waiting: BTreeMap::new(),
        listing: 0,
        answers,
        rounds: 0,
        anchored: false,
        open: false,
        failing: None,
    };
    loop {
        let done = tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(command) => { task.command(command); Ok(()) }
                None => Err(Over),
            },
            Some(answer) = answered.recv() => task.answered(answer).await,
            Some(signal) = signals.next() => task.signal(signal).await,
        };
        if done.is_err() {
            return;
        }
    }
}

impl Task {
    fn command(&mut self, command: Command) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        match command {
            Command::Add(node, epoch) => {
                wanted.insert(node.to_string());
                drop(wanted);
                if let Some(error) = &self.failing {
                    self.table.failing(&node, epoch, self.cluster.clock().now(), error.clone());
                }
                self.remove(&node);
                let phase = self.wait(node.clone());
                self.nodes.insert(node, Node { epoch, phase });
                self.list();
            }
            Command::Remove(node) => {
                wanted.remove(node.as_str());
                drop(wanted);
                self.remove(&node);
                self.list();
            }
        }
    }

    fn remove(&mut self, node: &NodeName) {
        match self.nodes.remove(node).map(|node| node.phase) {
            Some(Phase::Waiting { place }) => drop(self.waiting.remove(&place)),
            Some(Phase::Listing { attempt: Attempt::First, .. }) => self.listing -= 1,
            Some(Phase::Listing { .. } | Phase::Live { .. }) | None => {}
        }
    }

    /// Puts a node at the end of the nodes that wait.
    fn wait(&mut self, node: NodeName) -> Phase {
        self.rounds += 1;
        self.waiting.insert(self.rounds, node);
        Phase::Waiting { place: self.rounds }
    }

    /// Begins LISTs until [`LISTERS`] are under way.
    fn list(&mut self) {
        while self.anchored && self.listing < LISTERS {
            let Some((_, name)) = self.waiting.pop_first() else { return };
            let Some(node) = self.nodes.get_mut(&name) else { continue };
            self.rounds += 1;
            self.listing += 1;
            let round = self.rounds;
            let lister = lister(
                self.cluster.clone(),
                self.table.clone(),
                self.answers.clone(),
                name,
                node.epoch,
                round,
            );
            node.phase = Phase::Listing {
                round,
                attempt: Attempt::First,
                held: Vec::new(),
                _lister: self.cluster.spawner().spawn_scoped(lister),
            };
        }
    }

    async fn answered(&mut self, Answer { node, round, outcome }: Answer) -> Result<(), Over> {
        let Some(state) = self.nodes.get_mut(&node) else { return Ok(()) };
        let Phase::Listing { round: current, attempt, held, .. } = &mut state.phase else {
            return Ok(());
        };
        if *current != round {
            return Ok(());
        }
        if std::mem::replace(attempt, Attempt::Later) == Attempt::First {
            self.listing -= 1;
        }
        let Outcome::Listed(listed) = outcome else {
            self.list();
            return Ok(());
        };
        let held = std::mem::take(held);
        let epoch = state.epoch;
        state.phase = Phase::Live { since: listed.version.clone() };
        self.list();
        if self.failing.is_none() {
            self.table.recovered(&node, epoch);
        }
        self.send(&node, epoch, PodEvent::Listed(listed.objects)).await?;
        for (version, event) in held {
            if !is_shown(&version, &listed.version) {
                self.send(&node, epoch, event).await?;
            }
        }
        self.send(&node, epoch, if self.open { PodEvent::Watching } else { PodEvent::Blind }).await
    }

    /// Reports whether the watch is open to the nodes that are live. (Other nodes get that report
    /// after their LIST.)
    async fn report_open(&mut self, open: bool) -> Result<(), Over> {
        if std::mem::replace(&mut self.open, open) == open {
            return Ok(());
        }
        let live: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, n)| matches!(n.phase, Phase::Live { .. }))
            .map(|(name, n)| (name.clone(), n.epoch))
            .collect();
        for (name, epoch) in live {
            self.send(&name, epoch, if open { PodEvent::Watching } else { PodEvent::Blind })
                .await?;
        }
        Ok(())
    }

    async fn signal(&mut self, signal: Signal<Pod>) -> Result<(), Over> {
        match signal {
            Signal::Listing => self.report_open(false).await,
            Signal::Listed(_) => {
                self.anchored = true;
                self.listing = 0;
                for (name, node) in &mut self.nodes {
                    if !matches!(node.phase, Phase::Waiting { .. }) {
                        self.rounds += 1;
                        self.waiting.insert(self.rounds, name.clone());
                        node.phase = Phase::Waiting { place: self.rounds };
                    }
                }
                self.list();
                Ok(())
            }
            Signal::Watching => {
                self.failing = None;
                for (name, node) in
                    self.nodes.iter().filter(|(_, node)| matches!(node.phase, Phase::Live { .. }))
                {
                    self.table.recovered(name, node.epoch);
                }
                self.report_open(true).await
            }
            Signal::Failing(error) => {
                let now = self.cluster.clock().now();
                for (name, node) in &self.nodes {
                    self.table.failing(name, node.epoch, now, error.clone());
                }
                self.failing = Some(error);
                self.report_open(false).await
            }
            Signal::Applied(meta, pod) => match pod.node.clone() {
                Some(node) => self.change(&node, meta.version, PodEvent::Changed(pod)).await,
                None => Ok(()),
            },
            Signal::Deleted(meta, pod) => match pod.and_then(|pod| pod.node) {
                Some(node) => {
                    self.change(&node, meta.version, PodEvent::Gone(meta.uid.into())).await
                }
                None => Ok(()),
            },
        }
    }

    async fn change(
        &mut self,
        node: &NodeName,
        version: String,
        event: PodEvent,
    ) -> Result<(), Over> {
        let Some(state) = self.nodes.get_mut(node) else { return Ok(()) };
        match &mut state.phase {
            Phase::Waiting { .. } => Ok(()),
            Phase::Listing { held, .. } => {
                held.push((version, event));
                Ok(())
            }
            Phase::Live { since } if is_shown(&version, since) => Ok(()),
            Phase::Live { .. } => {
                let epoch = state.epoch;
                self.send(node, epoch, event).await
            }
        }
    }

    async fn send(&self, node: &NodeName, epoch: u64, event: PodEvent) -> Result<(), Over> {
        self.events.send(Envelope { node: node.clone(), epoch, event }).await.map_err(|_| Over)
    }
}

/// Whether a LIST of this version already shows the change. False if a version is not a number.
fn is_shown(change: &str, list: &str) -> bool {
    matches!((change.parse::<u64>(), list.parse::<u64>()), (Ok(change), Ok(list)) if change <= list)
}

async fn lister(
    cluster: Cluster,
    table: Table,
    answers: mpsc::UnboundedSender<Answer>,
    node: NodeName,
    epoch: u64,
    round: u64,
) {
    let collection = collection(Some(&node));
    let mut reader = Reader::new(&cluster, Pods::all(&cluster));
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    for attempt in 1_u64.. {
        match reader.list(&collection).await {
            Ok(listed) => {
                // The receiver is dropped only when the feed ends.
                answers.send(Answer { node, round, outcome: Outcome::Listed(listed) }).ok();
                return;
            }
            Err(error) => {
                let wait = backoff.pause_as_asked(cluster.random(), error.answer.retry_after);
                table.failing(&node, epoch, cluster.clock().now(), error);
                if attempt == 1 {
                    answers
                        .send(Answer { node: node.clone(), round, outcome: Outcome::Failed })
                        .ok();
                }
                tokio::time::sleep(wait).await;
            }
        }
    }
}
