//! Watches the pods of the nodes that are being drained.

mod own;
mod table;
#[cfg(test)]
mod tests;
mod wide;

use std::{fmt, sync::Arc};

use tokio::sync::mpsc;

use self::{
    table::{Attached, Command, Envelope, Failure, Place, State, Table, Wide},
    wide::Wanted,
};
use super::{
    Cluster, ClusterError, Target,
    client::ServerClock,
    slim,
    watch::{Collection, Decode, Decoded, Reader},
};
use crate::domain::{Moment, NodeName, Pod, PodUid};

/// A change of the pods of a node, or of the watch that follows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodEvent {
    /// All pods on the node; pods that are not listed are gone. Comes after [`PodFeed::attach`] and
    /// whenever the watch had to begin anew. `Watching` or `Blind` follows, and again whenever that
    /// changes.
    Listed(Vec<Pod>),
    /// A pod of the node is new or has changed.
    Changed(Pod),
    /// A pod of the node was deleted.
    Gone(PodUid),
    /// The watch is open: every change since the LIST follows.
    Watching,
    /// The watch is not open (yet, or it failed): changes are unknown until the next `Watching` or
    /// `Listed`.
    Blind,
}

/// How pods are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodFeedSettings {
    /// How many nodes have a watch of their own at most; further nodes share one watch over the
    /// pods of the whole cluster.
    pub own_watches: usize,
    /// How many events may wait for the receiver before the watches pause.
    pub buffer: usize,
}

impl Default for PodFeedSettings {
    fn default() -> Self {
        Self { own_watches: 32, buffer: 64 }
    }
}

/// Watches the pods of attached nodes. Up to [`PodFeedSettings::own_watches`] nodes, the cost grows
/// with the attached nodes, not with the cluster. Clones share the watches; they end when the last
/// clone is dropped.
#[derive(Clone)]
pub struct PodFeed(Arc<Feed>);

struct Feed {
    cluster: Cluster,
    settings: PodFeedSettings,
    table: Table,
    events: mpsc::Sender<Envelope>,
}

/// The events of all attached nodes, in order for each node. The owner must keep reading them: the
/// watches wait for the reader.
pub struct PodEvents {
    table: Table,
    events: mpsc::Receiver<Envelope>,
}

impl PodEvents {
    /// Waits for the next event. `None`: the feed was dropped. May be dropped at any await: no
    /// event is lost.
    pub async fn next(&mut self) -> Option<(NodeName, PodEvent)> {
        loop {
            let Envelope { node, epoch, event } = self.events.recv().await?;
            if self.table.is_current(&node, epoch) {
                return Some((node, event));
            }
        }
    }
}

impl fmt::Debug for PodFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodFeed").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.table.clear();
    }
}

impl PodFeed {
    /// A feed without nodes.
    #[must_use]
    pub fn start(cluster: &Cluster, settings: PodFeedSettings) -> (Self, PodEvents) {
        let (sender, receiver) = mpsc::channel(settings.buffer.max(1));
        let table = Table::default();
        let feed =
            Feed { cluster: cluster.clone(), settings, table: table.clone(), events: sender };
        (Self(Arc::new(feed)), PodEvents { table, events: receiver })
    }

    /// Begins to watch the pods of a node; attaching it again lists them again. Does not wait.
    pub fn attach(&self, node: &NodeName) {
        let feed = &*self.0;
        let mut state = feed.table.lock();
        let failing = state.remove(node);
        if state.own() < feed.settings.own_watches {
            feed.attach_own(&mut state, node, failing);
        } else {
            feed.attach_wide(&mut state, node, failing);
        }
    }

    /// Ends the watch of a node; its pending events are dropped.
    pub fn detach(&self, node: &NodeName) {
        let feed = &*self.0;
        let mut state = feed.table.lock();
        state.remove(node);
        feed.narrow(&mut state);
    }

    /// Since when the LIST or the watch of this node's pods has been failing; `None` while it
    /// works, or if the node is not attached.
    #[must_use]
    pub fn failing_since(&self, node: &NodeName) -> Option<Moment> {
        self.0.table.failure(node).map(|(since, _)| since)
    }

    /// Why it failed last, while it is failing ([`Self::failing_since`]).
    #[must_use]
    pub fn last_error(&self, node: &NodeName) -> Option<ClusterError> {
        self.0.table.failure(node).map(|(_, error)| error)
    }
}

/// Lists the pods of one node, for a command that watches nothing.
pub async fn list_pods(cluster: &Cluster, node: &NodeName) -> Result<Vec<Pod>, ClusterError> {
    Ok(Reader::new(cluster, Pods::all(cluster)).list(&collection(Some(node))).await?.objects)
}

impl Feed {
    fn attach_own(&self, state: &mut State, node: &NodeName, failing: Option<Failure>) {
        let epoch = state.next_epoch();
        let watch = own::follow(
            self.cluster.clone(),
            self.table.clone(),
            self.events.clone(),
            node.clone(),
            epoch,
        );
        let place = Place::Own { _watch: self.cluster.spawner().spawn_scoped(watch) };
        state.insert(node.clone(), Attached::new(epoch, place, failing));
    }

    fn attach_wide(&self, state: &mut State, node: &NodeName, failing: Option<Failure>) {
        let epoch = state.next_epoch();
        state.insert(node.clone(), Attached::new(epoch, Place::Wide, failing));
        let wide = state.wide_watch.get_or_insert_with(|| {
            let (commands, receiver) = mpsc::unbounded_channel();
            tracing::debug!("many nodes are drained: following the pods of the whole cluster");
            let task = wide::follow(
                self.cluster.clone(),
                self.table.clone(),
                self.events.clone(),
                receiver,
            );
            Wide { commands, _task: self.cluster.spawner().spawn_scoped(task) }
        });
        // The receiver ends only with the feed.
        wide.commands.send(Command::Add(node.clone(), epoch)).ok();
    }

    /// Moves the last few nodes of the wide watch to watches of their own. Otherwise one node that
    /// drains for hours would keep the watch over the whole cluster open all that time.
    fn narrow(&self, state: &mut State) {
        if state.wide_watch.is_none()
            || state.wide() > self.settings.own_watches / 4
            || state.own() + state.wide() > self.settings.own_watches
        {
            return;
        }
        state.wide_watch = None;
        for node in &state.in_wide() {
            self.attach_own(state, node, None);
        }
    }
}

fn collection(node: Option<&NodeName>) -> Collection {
    Collection {
        path: "/api/v1/pods",
        fields: node.map(|node| format!("spec.nodeName={node}")),
        listed: node.is_some(),
        list: Target::ListPods,
        watch: Target::WatchPods,
        object: node.map(|node| format!("of node {node}")).unwrap_or_default(),
    }
}

/// Reads pods and converts their times to our clock. Pods of nodes that are not wanted are dropped
/// before the whole pod is read.
struct Pods {
    wanted: Option<Wanted>,
    clock: ServerClock,
}

impl Pods {
    fn all(cluster: &Cluster) -> Self {
        Self { wanted: None, clock: cluster.server_clock().clone() }
    }

    fn wants(&self, node: Option<&str>) -> bool {
        match (&self.wanted, node) {
            (None, _) => true,
            (Some(wanted), Some(node)) => {
                wanted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains(node)
            }
            (Some(_), None) => false,
        }
    }
}

impl Decode for Pods {
    type Object = Pod;

    fn decode(&self, json: &str) -> Result<Decoded<Pod>, serde_json::Error> {
        if self.wanted.is_some()
            && slim::node_of(json).is_ok_and(|node| !self.wants(node.as_deref()))
        {
            return Ok(Decoded::Foreign);
        }
        let slim::ReadPod { mut pod, damaged } = slim::pod(json)?;
        for time in [&mut pod.created, &mut pod.deletion] {
            *time = time.map(|at| self.clock.to_ours(at));
        }
        Ok(match damaged {
            _ if !self.wants(pod.node.as_ref().map(NodeName::as_str)) => Decoded::Foreign,
            true => Decoded::Part(pod),
            false => Decoded::Whole(pod),
        })
    }
}
