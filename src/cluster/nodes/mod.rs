//! The index of Nodes: by name and by instance, kept up to date by one watch.

mod requests;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::core::{
    Request,
    params::{DeleteParams, GetParams, Patch, PatchParams, Preconditions},
};
use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};
use tokio_util::task::AbortOnDropHandle;

pub use self::requests::{
    RequestedNode, list_requested_nodes, read_requested_node, write_drain_request,
};
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

/// All Nodes of the cluster, in the slim form, kept up to date by one watch. Clones share the
/// watch; it ends when the last one is dropped.
#[derive(Clone)]
pub struct NodeIndex(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    keep: KeepLabels,
    store: Arc<Store<Node>>,
    restart: store::Restart,
    fresh: Mutex<Option<Fresh>>,
    /// A Node may lack a label that the rules read, because its key is new.
    lacks_labels: AtomicBool,
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

/// The last uncached LIST of all Nodes.
struct Fresh {
    begun: Instant,
    result: Result<Vec<Arc<Node>>, ClusterError>,
}

/// How long after the start of an uncached LIST other callers share its result.
const SHARED: Duration = Duration::from_secs(1);
/// The time limit of an uncached LIST, with the wait for an earlier one.
const LIST: Duration = Duration::from_mins(1);

/// At most this many different sets of labels are shared among Nodes. If nearly every Node has its
/// own set (with its name as a label), sharing saves nothing.
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

    /// Replaces the labels by the equal labels of another Node, if there are any.
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

const LOG_LINES: store::LogLines = store::LogLines {
    fails: "the watch of nodes fails",
    recovered: "the watch of nodes works again",
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

/// The changes of Nodes, none of them lost. Several pending changes of one Node come as one. A Node
/// that was deleted and created again under the same name comes as two changes.
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
        // A kubelet writes the status of its Node every few minutes even if nothing has changed.
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
    /// Waits for the next change. `None`: the index was dropped. May be dropped at any await: no
    /// change is lost.
    pub async fn next(&mut self) -> Option<NodeChange> {
        self.0.next().await
    }

    /// The next change, if one is pending.
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
    /// Begins to watch. Never errs: if the API server does not answer, the watch keeps trying, and
    /// [`NodeIndex::state`] shows that it fails.
    #[must_use]
    pub fn start(cluster: &Cluster, keep: KeepLabels) -> Self {
        let (store, restart) = (Arc::new(Store::default()), store::Restart::default());
        let keep_up_to_date = store::keep(
            cluster.clone(),
            collection(),
            Nodes::new(cluster, keep.clone()),
            store.clone(),
            LOG_LINES,
            restart.clone(),
        );
        let watch = cluster.spawner().spawn_scoped(keep_up_to_date);
        Self(Arc::new(Inner {
            cluster: cluster.clone(),
            keep,
            store,
            restart,
            fresh: Mutex::new(None),
            lacks_labels: AtomicBool::new(false),
            _watch: watch,
        }))
    }

    /// Reopens the watch from the last version that it has shown. Otherwise a dead connection goes
    /// unnoticed for a minute.
    pub fn restart_watch(&self) {
        self.0.restart.restart();
    }

    /// Whether the index is complete and up to date. Only then does a Node that is missing from it
    /// not exist.
    #[must_use]
    pub fn state(&self) -> Health {
        self.0.store.health()
    }

    /// Waits until a complete LIST was read.
    pub async fn synced(&self) {
        self.0.store.synced().await;
    }

    /// The Nodes of an instance: none, one, or by mistake several.
    #[must_use]
    pub fn by_instance(&self, instance: &InstanceId) -> Vec<Arc<Node>> {
        self.0.store.find(instance)
    }

    /// The Nodes whose `spec.providerID` is empty: each may belong to any instance.
    #[must_use]
    pub fn without_instance(&self) -> Vec<Arc<Node>> {
        self.0.store.unindexed().into_iter().filter(|node| !node.is_elsewhere).collect()
    }

    /// The Node of this name, as the index has it.
    #[must_use]
    pub fn get(&self, name: &NodeName) -> Option<Arc<Node>> {
        self.0.store.get(name)
    }

    /// All Nodes, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Node>> {
        self.0.store.all()
    }

    /// Follows the index: all Nodes come first, as new, then every change. A change of only the
    /// resource version is left out.
    #[must_use]
    pub fn subscribe(&self) -> NodeChanges {
        NodeChanges(self.0.store.follow())
    }

    /// Reads a Node from the API server (uncached) and stores it in the index. `None`: no Node has
    /// that name.
    pub async fn fetch(&self, name: &NodeName) -> Result<Option<Node>, ClusterError> {
        let node = read_node(&self.0.cluster, &self.0.keep, name).await?;
        if let Some(node) = &node {
            self.0.store.learn(node.clone());
        }
        Ok(node)
    }

    /// Reads all Nodes from the API server (uncached). Calls within a second of the start of a LIST
    /// share its result; there is never more than one LIST under way. Errs also when one of the
    /// Nodes could not be read, because callers use the result to prove that a Node does not exist.
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

    /// Keeps the labels with these keys, which rules read, instead of those of earlier rules. When
    /// this returns, the index has the labels of all Nodes that it knows. After an error, the caller
    /// must call it again. There may be only one caller.
    pub async fn keep_labels_of_rules<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ClusterError> {
        if self.0.keep.set_of_rules(keys) {
            self.0.lacks_labels.store(true, Ordering::Relaxed);
        }
        if !self.0.lacks_labels.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut reader =
            Reader::new(&self.0.cluster, Nodes::new(&self.0.cluster, self.0.keep.clone()));
        let listed = match tokio::time::timeout(LIST, reader.list(&collection())).await {
            Ok(listed) => listed?,
            Err(_) => return Err(endless_list()),
        };
        listed.objects.into_iter().for_each(|node| self.0.store.learn(node));
        self.0.lacks_labels.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the Nodes that are unschedulable now from the API server (a consistent LIST, in
    /// pages). When this returns, the index has at least these versions of the Nodes that it knows.
    /// A Node that cannot be read is left out.
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
            Some(bad) => Err(ClusterError::without_answer(
                Target::ListNodes.action(),
                "",
                Problem::Unreadable,
                format!("Node {} cannot be read", bad.name),
            )),
            None => Ok(listed.objects.into_iter().map(Arc::new).collect()),
        }
    }

    /// Writes to a Node with a merge patch. A patch that must not overwrite the change of another
    /// writer carries `metadata.resourceVersion` and may fail with [`Problem::Conflict`]. When this
    /// returns, the answer is in the index. After [`Problem::Unreadable`] and
    /// [`Problem::Unreachable`] the patch may have taken effect.
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

    /// Deletes this version of this Node: the API server refuses it (409) if the Node has changed, or
    /// another one has its name.
    pub async fn delete(&self, node: &Node) -> Result<(), ClusterError> {
        let preconditions = Preconditions {
            uid: Some(node.uid.clone()),
            resource_version: Some(node.resource_version.clone()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let target = Target::DeleteNode;
        let request = Request::new(PATH)
            .delete(node.name.as_str(), &params)
            .map_err(|e| unbuildable(target, &node.name, &e))?;
        let cluster = &self.0.cluster;
        cluster.call(target, Priority::Ordinary, node.name.as_str(), request).await.map(drop)
    }

    /// Writes conditions of a Node with a strategic merge patch of its status, which keeps the
    /// conditions that it does not name. When this returns, the answer is in the index. `limit`: how
    /// long this may take, with the wait for a slot, which may take `slot_limit`.
    pub async fn patch_status(
        &self,
        name: &NodeName,
        patch: &Value,
        priority: Priority,
        slot_limit: Duration,
        limit: Duration,
    ) -> Result<(), ClusterError> {
        let params =
            PatchParams { field_manager: Some("sundown".to_owned()), ..PatchParams::default() };
        let target = Target::PatchNodeStatus;
        let request = Request::new(PATH)
            .patch_subresource("status", name.as_str(), &params, &Patch::Strategic(patch))
            .map_err(|e| unbuildable(target, name, &e))?;
        let body = self
            .0
            .cluster
            .call_with_slot_within(slot_limit, limit, target, priority, name.as_str(), request)
            .await?;
        self.learn(target, name, &body).map(drop)
    }

    fn learn(&self, target: Target, name: &NodeName, body: &[u8]) -> Result<Node, ClusterError> {
        let mut node = decode(&self.0.cluster, target, &self.0.keep, name, body)?;
        if let Some(known) = self.0.store.get(name).filter(|known| known.labels == node.labels) {
            // The index shares one set of labels among all Nodes that have it.
            node.labels = Arc::clone(&known.labels);
        }
        self.0.store.learn(node.clone());
        Ok(node)
    }
}

fn endless_list() -> ClusterError {
    ClusterError::without_answer(
        Target::ListNodes.action(),
        "",
        Problem::Unreachable,
        format!("the LIST did not end within {LIST:?}"),
    )
}

/// Reads one Node, for a command that keeps no index. `None`: no Node has that name.
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

/// Converts the times in a Node to our clock. They come from the clocks of the API server and of
/// controllers beside it.
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
        ClusterError::without_answer(target.action(), name.as_str(), Problem::Unreadable, why)
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
    ClusterError::without_answer(
        target.action(),
        name.as_str(),
        Problem::Invalid,
        error.to_string(),
    )
}
