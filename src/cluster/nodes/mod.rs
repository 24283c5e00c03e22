//! The index of Nodes: one watch, found by name and by instance.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use kube::core::{
    Request,
    params::{GetParams, Patch, PatchParams},
};
use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Change, Cluster, ClusterError, Health, KeepLabels, Priority, Problem, Target,
    client::ServerClock,
    slim,
    store::{self, Store},
    watch::{Collection, Decode, Decoded, Reader},
};
use crate::domain::{InstanceId, Moment, Node, NodeName, is_older_version};

const PATH: &str = "/api/v1/nodes";

/// A change of a Node.
pub type NodeChange = Change<Node>;

/// Every Node of the cluster, slim, kept by one watch. Clones share it; it is kept until the last
/// one is dropped.
#[derive(Clone)]
pub struct NodeIndex(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    keep: KeepLabels,
    store: Arc<Store<Node>>,
    restart: store::Restart,
    fresh: Mutex<Option<Fresh>>,
    _watch: AbortOnDropHandle<()>,
}

/// The Nodes that were unschedulable at one moment.
#[derive(Debug, Clone)]
pub struct UnschedulableNodes {
    /// `metadata.resourceVersion` of the LIST: no Node in it is newer.
    pub version: String,
    /// The Nodes, by name.
    pub nodes: Vec<Arc<Node>>,
}

/// A LIST past the index.
struct Fresh {
    begun: Instant,
    result: Result<Vec<Arc<Node>>, ClusterError>,
}

/// For how long after its beginning a LIST past the index answers others too.
const SHARED: Duration = Duration::from_secs(1);
/// The longest that a LIST past the index may take, waiting for an earlier one included.
const LIST: Duration = Duration::from_mins(1);

/// So many sets of labels are shared. Where labels tell nearly every node from all others (its
/// name) nothing would be gained.
const SHARED_LABELS: usize = 1000;

struct Nodes {
    keep: KeepLabels,
    clock: ServerClock,
    labels: std::sync::Mutex<BTreeSet<Arc<BTreeMap<String, String>>>>,
}

impl Nodes {
    fn new(cluster: &Cluster, keep: KeepLabels) -> Self {
        Self { keep, clock: cluster.server_clock().clone(), labels: std::sync::Mutex::default() }
    }

    /// The same labels, of another Node if one has them too.
    fn share(&self, labels: &mut Arc<BTreeMap<String, String>>) {
        let mut known = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(labels) {
            *labels = Arc::clone(same);
            return;
        }
        if known.len() >= SHARED_LABELS {
            known.retain(|labels| Arc::strong_count(labels) > 1);
        }
        if known.len() < SHARED_LABELS {
            known.insert(Arc::clone(labels));
        }
    }
}

const WORDS: store::Words = store::Words {
    fails: "the watch of nodes fails",
    is_well_again: "the watch of nodes is well again",
};

impl Decode for Nodes {
    type Object = Node;

    fn decode(&self, json: &str) -> Result<Decoded<Node>, serde_json::Error> {
        let mut node = by_our_clock(slim::node(json, &self.keep)?, &self.clock);
        self.share(&mut node.labels);
        Ok(Decoded::Whole(node))
    }
}

fn collection() -> Collection {
    Collection {
        path: PATH,
        fields: None,
        listed: true,
        list: Target::ListNodes,
        watch: Target::WatchNodes,
        object: String::new(),
    }
}

/// The changes of Nodes, none of them lost; several of one Node that were not taken yet come as
/// one. A Node that went and came again under the same name comes as both.
pub struct NodeChanges(store::Changes<Node>);

impl store::Object for Node {
    type Key = NodeName;
    type Index = InstanceId;

    fn key(&self) -> NodeName {
        self.name.clone()
    }

    fn index(&self) -> Option<InstanceId> {
        self.instance.clone()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    fn is_unchanged(&self, other: &Self) -> bool {
        // Kubelets report every few minutes that nothing has changed.
        Self { resource_version: other.resource_version.clone(), ..self.clone() } == *other
    }

    fn is_older(&self, other: &Self) -> bool {
        is_older_version(&self.resource_version, &other.resource_version)
    }
}

impl store::Watched for Node {
    fn key_of(meta: &slim::Meta) -> NodeName {
        meta.name.as_str().into()
    }

    fn is_meant(&self, meta: &slim::Meta) -> bool {
        self.uid == meta.uid
    }
}

impl NodeChanges {
    /// The next change; waits for one. `None` when there is no index any more. May be dropped at
    /// any await: nothing is lost.
    pub async fn next(&mut self) -> Option<NodeChange> {
        self.0.next().await
    }

    /// The next change, if there is one now.
    pub fn try_next(&mut self) -> Option<NodeChange> {
        self.0.try_next()
    }
}

impl fmt::Debug for NodeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeIndex").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl NodeIndex {
    /// Begins to watch. Never errs: an API server that is away is tried again for ever,
    /// [`NodeIndex::state`] says how it goes.
    #[must_use]
    pub fn start(cluster: &Cluster, keep: KeepLabels) -> Self {
        let (store, restart) = (Arc::new(Store::default()), store::Restart::default());
        let copy = store::keep(
            cluster.clone(),
            collection(),
            Nodes::new(cluster, keep.clone()),
            store.clone(),
            WORDS,
            restart.clone(),
        );
        let watch = cluster.spawner().spawn_scoped(copy);
        Self(Arc::new(Inner {
            cluster: cluster.clone(),
            keep,
            store,
            restart,
            fresh: Mutex::new(None),
            _watch: watch,
        }))
    }

    /// Opens the watch anew, from where it is: one whose connection is dead goes unnoticed for a
    /// minute otherwise.
    pub fn restart_watch(&self) {
        self.0.restart.restart();
    }

    /// Whether the index can be believed: *unknown* may be said only by one that is sound.
    #[must_use]
    pub fn state(&self) -> Health {
        self.0.store.health()
    }

    /// Waits until a complete list was read.
    pub async fn synced(&self) {
        self.0.store.synced().await;
    }

    /// The Nodes of an instance: none, one, or by somebody's mistake more.
    #[must_use]
    pub fn by_instance(&self, instance: &InstanceId) -> Vec<Arc<Node>> {
        self.0.store.find(instance)
    }

    /// The Nodes that do not say which instance they are, and may be one.
    #[must_use]
    pub fn without_instance(&self) -> Vec<Arc<Node>> {
        self.0.store.unindexed().into_iter().filter(|node| !node.is_elsewhere).collect()
    }

    /// A Node by its name.
    #[must_use]
    pub fn get(&self, name: &NodeName) -> Option<Arc<Node>> {
        self.0.store.get(name)
    }

    /// All Nodes, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Node>> {
        self.0.store.all()
    }

    /// Follows the index: every Node that is there comes first, as new, then every change. A change
    /// that only the resource version shows is not told.
    #[must_use]
    pub fn subscribe(&self) -> NodeChanges {
        NodeChanges(self.0.store.follow())
    }

    /// Reads a Node past the index (uncached). `None`: there is none of that name.
    pub async fn fetch(&self, name: &NodeName) -> Result<Option<Node>, ClusterError> {
        let node = read_node(&self.0.cluster, &self.0.keep, name).await?;
        if let Some(node) = &node {
            self.0.store.learn(node.clone());
        }
        Ok(node)
    }

    /// Reads all Nodes past the index (uncached). All who ask within a second of its beginning
    /// share one LIST; there is never more than one under way. Errs also when one of the Nodes
    /// could not be read: this answer is there to prove that something does not exist.
    pub async fn list_fresh(&self) -> Result<Vec<Arc<Node>>, ClusterError> {
        let asked = Instant::now();
        let shared = async {
            let mut fresh = self.0.fresh.lock().await;
            if let Some(known) = fresh.as_ref().filter(|known| known.begun + SHARED >= asked) {
                return known.result.clone();
            }
            let begun = Instant::now();
            let result = self.list().await;
            *fresh = Some(Fresh { begun, result: result.clone() });
            result
        };
        match tokio::time::timeout(LIST, shared).await {
            Ok(result) => result,
            Err(_) => Err(endless_list()),
        }
    }

    /// Reads the Nodes past the index that are unschedulable now (a consistent LIST, in pages).
    /// What they say is in the index when this returns, for the Nodes that the index knows. A Node
    /// that cannot be read is left out.
    pub async fn list_unschedulable(&self) -> Result<UnschedulableNodes, ClusterError> {
        let fields = Some("spec.unschedulable=true".to_owned());
        let mut reader =
            Reader::new(&self.0.cluster, Nodes::new(&self.0.cluster, self.0.keep.clone()));
        let listed =
            match tokio::time::timeout(LIST, reader.list(&Collection { fields, ..collection() }))
                .await
            {
                Ok(listed) => listed?,
                Err(_) => return Err(endless_list()),
            };
        listed.objects.iter().for_each(|node| self.0.store.learn(node.clone()));
        Ok(UnschedulableNodes {
            version: listed.version,
            nodes: listed.objects.into_iter().map(Arc::new).collect(),
        })
    }

    async fn list(&self) -> Result<Vec<Arc<Node>>, ClusterError> {
        let listed = Reader::new(&self.0.cluster, Nodes::new(&self.0.cluster, self.0.keep.clone()))
            .list(&collection())
            .await?;
        match listed.unreadable.first() {
            Some(bad) => Err(ClusterError::silent(
                Target::ListNodes.action(),
                "",
                Problem::Unreadable,
                format!("Node {} cannot be read", bad.name),
            )),
            None => Ok(listed.objects.into_iter().map(Arc::new).collect()),
        }
    }

    /// Writes to a Node with a merge patch, which carries `metadata.resourceVersion` where it must
    /// not overwrite another's change (then: [`Problem::Conflict`]). The answer is in the index
    /// when this returns. [`Problem::Unreadable`] and [`Problem::Unreachable`] may have had their
    /// effect.
    pub async fn patch(&self, name: &NodeName, patch: &Value) -> Result<Node, ClusterError> {
        let params =
            PatchParams { field_manager: Some("sundown".to_owned()), ..PatchParams::default() };
        let request = Request::new(PATH)
            .patch(name.as_str(), &params, &Patch::Merge(patch))
            .map_err(|e| unbuildable(Target::PatchNode, name, &e))?;
        let body = self
            .0
            .cluster
            .call(Target::PatchNode, Priority::Ordinary, name.as_str(), request)
            .await?;
        self.learn(Target::PatchNode, name, &body)
    }

    fn learn(&self, target: Target, name: &NodeName, body: &[u8]) -> Result<Node, ClusterError> {
        let mut node = decode(&self.0.cluster, target, &self.0.keep, name, body)?;
        if let Some(known) = self.0.store.get(name).filter(|known| known.labels == node.labels) {
            // The index shares one copy among the Nodes of one kind.
            node.labels = Arc::clone(&known.labels);
        }
        self.0.store.learn(node.clone());
        Ok(node)
    }
}

fn endless_list() -> ClusterError {
    ClusterError::silent(
        Target::ListNodes.action(),
        "",
        Problem::Unreachable,
        format!("not done within {LIST:?}"),
    )
}

/// Reads one Node, for who keeps no index. `None`: there is none of that name.
pub async fn read_node(
    cluster: &Cluster,
    keep: &KeepLabels,
    name: &NodeName,
) -> Result<Option<Node>, ClusterError> {
    let request = Request::new(PATH)
        .get(name.as_str(), &GetParams::default())
        .map_err(|e| unbuildable(Target::GetNode, name, &e))?;
    match cluster.call(Target::GetNode, Priority::Ordinary, name.as_str(), request).await {
        Ok(body) => decode(cluster, Target::GetNode, keep, name, &body).map(Some),
        Err(error) if error.problem == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists all Nodes, for a command that keeps no index. A Node that cannot be read is left out.
pub async fn list_nodes(cluster: &Cluster, keep: &KeepLabels) -> Result<Vec<Node>, ClusterError> {
    Ok(Reader::new(cluster, Nodes::new(cluster, keep.clone())).list(&collection()).await?.objects)
}

/// The times in a Node are those of the API server and of controllers beside it.
fn by_our_clock(node: Node, clock: &ServerClock) -> Node {
    let ours = |time: Option<Moment>| time.map(|at| clock.to_ours(at));
    Node { created: ours(node.created), ready_since: ours(node.ready_since), ..node }
}

fn decode(
    cluster: &Cluster,
    target: Target,
    keep: &KeepLabels,
    name: &NodeName,
    body: &[u8],
) -> Result<Node, ClusterError> {
    let unreadable = |why: String| {
        ClusterError::silent(target.action(), name.as_str(), Problem::Unreadable, why)
    };
    let text = std::str::from_utf8(body).map_err(|e| unreadable(e.to_string()))?;
    let node = slim::node(text, keep).map_err(|e| unreadable(e.to_string()))?;
    Ok(by_our_clock(node, cluster.server_clock()))
}

fn unbuildable(
    target: Target,
    name: &NodeName,
    error: &kube::core::request::Error,
) -> ClusterError {
    ClusterError::silent(target.action(), name.as_str(), Problem::Invalid, error.to_string())
}
