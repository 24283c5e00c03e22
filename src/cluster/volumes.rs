//! Reads which volumes are attached to nodes: VolumeAttachments (`storage.k8s.io/v1`).
//!
//! No field selector has `spec.nodeName` (kubernetes/kubernetes issue 88387). So a LIST of all of
//! them answers for all nodes, and those of other nodes are dropped while reading.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use kube::core::{Request, params::GetParams};

use super::{
    Cluster, ClusterError, Priority, Problem, Target,
    slim::{self, Attachment, ClaimsOfPod},
    watch::{Collection, Decode, Decoded, Reader},
};
use crate::domain::{AttachedVolumes, NodeName, PodUid, VolumesSeen};

/// How many VolumeAttachments one page of the LIST has: each is about 2 KiB of JSON.
const PAGE: u32 = 500;
/// How many PersistentVolumeClaims of one node are read at most. EC2 attaches fewer volumes to an
/// instance.
const MOST_CLAIMS: usize = 128;
/// How many nodes are looked at at once for pods that stay on them.
const AT_ONCE: usize = 8;

/// The volumes that are attached to these nodes, without those of the pods that are named: these
/// stay on the node, and so do their volumes. The answer has every node.
pub async fn attached_volumes(
    cluster: &Cluster,
    nodes: &BTreeMap<NodeName, BTreeSet<PodUid>>,
) -> BTreeMap<NodeName, VolumesSeen> {
    let attached = match attachments(cluster, nodes.keys()).await {
        Ok(attached) => attached,
        Err(error) => {
            return nodes.keys().map(|name| (name.clone(), unknown(&error))).collect();
        }
    };
    let of_node = |(name, staying): (&NodeName, &BTreeSet<PodUid>)| {
        let names = attached.get(name).cloned().unwrap_or_default();
        let (name, staying) = (name.clone(), staying.clone());
        async move {
            // A node without attachments needs no look at the pods that stay on it.
            let seen = if names.is_empty() || staying.is_empty() {
                VolumesSeen::Attached(AttachedVolumes::of(names))
            } else {
                match volumes_of(cluster, &name, &staying).await {
                    Ok(volumes) => VolumesSeen::Attached(AttachedVolumes::of(
                        names.into_iter().filter(|name| !volumes.contains(name)).collect(),
                    )),
                    Err(error) => unknown(&error),
                }
            };
            (name, seen)
        }
    };
    let all: Vec<_> = nodes.iter().map(of_node).collect();
    stream::iter(all).buffer_unordered(AT_ONCE).collect().await
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
