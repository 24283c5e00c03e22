//! Reads which volumes are attached to nodes: VolumeAttachments (`storage.k8s.io/v1`).
//!
//! No field selector has `spec.nodeName` (kubernetes/kubernetes issue 88387). So a LIST of all of
//! them answers for all nodes, and those of other nodes are dropped while reading.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use kube::core::{Request, params::GetParams};

use super::{
    Cluster, ClusterError, Priority, Problem, Target,
    slim::{self, Attachment, ClaimsOfPod},
    watch::{Collection, Decode, Decoded, Reader},
};
use crate::domain::{AttachedVolumes, NodeName, PodUid, VolumesSeen, seconds};

/// How many VolumeAttachments one page of the LIST has: each is about 2 KiB of JSON.
const PAGE: u32 = 500;
/// How many PersistentVolumeClaims of one node are read at most. EC2 attaches fewer volumes to an
/// instance.
const MOST_CLAIMS: usize = 128;
/// How many nodes are looked at at once for pods that stay on them.
const AT_ONCE: usize = 8;
/// How long the LIST of VolumeAttachments may take, with all its pages.
const LISTED_WITHIN: Duration = seconds(15);
/// How long the look at the pods that stay on one node may take.
const NODE_WITHIN: Duration = seconds(5);
/// How long the looks at all nodes may take. Nodes that are not read by then have no answer.
const NODES_WITHIN: Duration = seconds(10);

/// The volumes that are attached to these nodes, without those of the pods that are named: these
/// stay on the node, and so do their volumes. The answer has every node, and comes within 25 s. A
/// slow LIST leaves all nodes unanswered, a slow look at the pods of one node only that node.
pub async fn attached_volumes(
    cluster: &Cluster,
    nodes: &BTreeMap<NodeName, BTreeSet<PodUid>>,
) -> BTreeMap<NodeName, VolumesSeen> {
    let mut attached =
        match tokio::time::timeout(LISTED_WITHIN, attachments(cluster, nodes.keys())).await {
            Ok(Ok(attached)) => attached,
            Ok(Err(error)) => return of_all(nodes, &unknown(&error)),
            Err(_) => return of_all(nodes, &unanswered(LISTED_WITHIN)),
        };
    let (mut seen, mut looks) = (BTreeMap::new(), Vec::new());
    for (name, staying) in nodes {
        let volumes = attached.remove(name).unwrap_or_default();
        // A node without attachments needs no look at the pods that stay on it.
        if volumes.is_empty() || staying.is_empty() {
            seen.insert(name.clone(), VolumesSeen::Attached(AttachedVolumes::of(volumes)));
            continue;
        }
        let (name, staying) = (name.clone(), staying.clone());
        looks.push(async move {
            let look = volumes_of(cluster, &name, &staying);
            let seen = match tokio::time::timeout(NODE_WITHIN, look).await {
                Ok(Ok(stay)) => VolumesSeen::Attached(AttachedVolumes::of(
                    volumes.into_iter().filter(|volume| !stay.contains(volume)).collect(),
                )),
                Ok(Err(error)) => unknown(&error),
                Err(_) => unanswered(NODE_WITHIN),
            };
            (name, seen)
        });
    }
    let looks = stream::iter(looks).buffer_unordered(AT_ONCE);
    let looks = looks.take_until(tokio::time::sleep(NODES_WITHIN));
    let read: Vec<(NodeName, VolumesSeen)> = looks.collect().await;
    seen.extend(read);
    for name in nodes.keys() {
        seen.entry(name.clone()).or_insert_with(|| unanswered(NODES_WITHIN));
    }
    seen
}

fn of_all(
    nodes: &BTreeMap<NodeName, BTreeSet<PodUid>>,
    seen: &VolumesSeen,
) -> BTreeMap<NodeName, VolumesSeen> {
    nodes.keys().map(|name| (name.clone(), seen.clone())).collect()
}

fn unanswered(limit: Duration) -> VolumesSeen {
    VolumesSeen::Unanswered(format!("no answer within {} s", limit.as_secs()))
}

fn unknown(error: &ClusterError) -> VolumesSeen {
    match error.problem {
        Problem::Forbidden => VolumesSeen::Denied(error.to_string()),
        _ => VolumesSeen::Unanswered(error.to_string()),
    }
}

/// The names of the volumes that are attached to these nodes.
async fn attachments<'a>(
    cluster: &Cluster,
    nodes: impl Iterator<Item = &'a NodeName>,
) -> Result<BTreeMap<NodeName, Vec<String>>, ClusterError> {
    let decode = Attachments(nodes.map(|name| name.as_str().to_owned()).collect());
    let collection = Collection {
        path: "/apis/storage.k8s.io/v1/volumeattachments",
        fields: None,
        listed: true,
        list: Target::ListVolumeAttachments,
        watch: Target::ListVolumeAttachments,
        object: String::new(),
    };
    let listed = Reader::new(cluster, decode).with_page(PAGE).list(&collection).await?;
    let mut all: BTreeMap<NodeName, Vec<String>> = BTreeMap::new();
    for Attachment { node, volume } in listed.objects {
        all.entry(node).or_default().push(volume);
    }
    Ok(all)
}

/// The PersistentVolumes of these pods of the node.
async fn volumes_of(
    cluster: &Cluster,
    node: &NodeName,
    pods: &BTreeSet<PodUid>,
) -> Result<BTreeSet<String>, ClusterError> {
    let collection = Collection {
        path: "/api/v1/pods",
        fields: Some(format!("spec.nodeName={node}")),
        listed: true,
        list: Target::ListPods,
        watch: Target::WatchPods,
        object: format!("of node {node}"),
    };
    let listed = Reader::new(cluster, Claims(pods)).list(&collection).await?;
    let claims: BTreeSet<(String, String)> = listed
        .objects
        .into_iter()
        .flat_map(|pod| {
            let namespace = pod.namespace;
            pod.claims.into_iter().map(move |claim| (namespace.clone(), claim))
        })
        .take(MOST_CLAIMS)
        .collect();
    let mut volumes = BTreeSet::new();
    for (namespace, claim) in claims {
        volumes.extend(volume_of(cluster, &namespace, &claim).await?);
    }
    Ok(volumes)
}

/// The PersistentVolume of a claim; `None`: the claim does not exist, or has none.
async fn volume_of(
    cluster: &Cluster,
    namespace: &str,
    claim: &str,
) -> Result<Option<String>, ClusterError> {
    let object = format!("{namespace}/{claim}");
    let target = Target::GetVolumeClaim;
    let broken = |error: &dyn std::fmt::Display, problem| {
        ClusterError::without_answer(target.action(), &*object, problem, error.to_string())
    };
    let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
    let request = Request::new(path)
        .get(claim, &GetParams::default())
        .map_err(|error| broken(&error, Problem::Invalid))?;
    match cluster.call(target, Priority::Ordinary, &object, request).await {
        Ok(body) => {
            slim::volume_of_claim(&body).map_err(|error| broken(&error, Problem::Unreadable))
        }
        Err(error) if error.problem == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Decodes the VolumeAttachments of these nodes.
struct Attachments(BTreeSet<String>);

impl Decode for Attachments {
    type Object = Attachment;

    fn decode(&self, json: &str) -> Result<Decoded<Attachment>, serde_json::Error> {
        let attachment = slim::attachment(json)?;
        let is_ours = self.0.contains(attachment.node.as_str());
        Ok(if is_ours { Decoded::Whole(attachment) } else { Decoded::Foreign })
    }
}

/// Decodes the claims of these pods.
struct Claims<'a>(&'a BTreeSet<PodUid>);

impl Decode for Claims<'_> {
    type Object = ClaimsOfPod;

    fn decode(&self, json: &str) -> Result<Decoded<ClaimsOfPod>, serde_json::Error> {
        let pod = slim::claims_of_pod(json)?;
        Ok(if self.0.contains(&pod.uid) { Decoded::Whole(pod) } else { Decoded::Foreign })
    }
}
