//! Reads and writes the drain requests of Nodes, for a command that keeps no index.

use std::collections::BTreeMap;

use kube::core::{
    Request,
    params::{GetParams, Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    Cluster, ClusterError, Decode, Decoded, KeepLabels, Nodes, PATH, Priority, Problem, Reader,
    Target, collection, decode, unbuildable,
};
use crate::domain::{DrainRequest, Node, NodeName};

/// A Node, and the annotations that ask for its drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedNode {
    /// The Node.
    pub node: Node,
    /// The values of its annotations `drain.sundown.dev/NAME`, by NAME. They were not checked.
    pub requests: BTreeMap<String, String>,
}

impl RequestedNode {
    fn new(node: Node, json: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            annotations: Option<BTreeMap<String, String>>,
        }
        let annotations = serde_json::from_str::<Object>(json)?.metadata.annotations;
        let requests = annotations.into_iter().flatten().filter_map(|(key, value)| {
            DrainRequest::name_of_key(&key).map(|name| (name.to_owned(), value))
        });
        Ok(Self { node, requests: requests.collect() })
    }
}

struct Requested(Nodes);

impl Decode for Requested {
    type Object = RequestedNode;

    fn decode(&self, json: &str) -> Result<Decoded<RequestedNode>, serde_json::Error> {
        Ok(match self.0.decode(json)? {
            Decoded::Whole(node) => Decoded::Whole(RequestedNode::new(node, json)?),
            Decoded::Part(node) => Decoded::Part(RequestedNode::new(node, json)?),
            Decoded::Foreign => Decoded::Foreign,
        })
    }
}

/// Lists all Nodes. A Node that cannot be read is left out.
pub async fn list_requested_nodes(
    cluster: &Cluster,
    keep: &KeepLabels,
) -> Result<Vec<RequestedNode>, ClusterError> {
    let decode = Requested(Nodes::new(cluster, keep.clone()));
    Ok(Reader::new(cluster, decode).list(&collection()).await?.objects)
}

/// Reads one Node. `None`: there is no Node of this name.
pub async fn read_requested_node(
    cluster: &Cluster,
    name: &NodeName,
) -> Result<Option<RequestedNode>, ClusterError> {
    let target = Target::GetNode;
    let request = Request::new(PATH)
        .get(name.as_str(), &GetParams::default())
        .map_err(|e| unbuildable(target, name, &e))?;
    match cluster.call(target, Priority::Ordinary, name.as_str(), request).await {
        Ok(body) => whole(cluster, target, name, &body).map(Some),
        Err(error) if error.problem == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the request with this annotation key, or removes it. Returns the Node after that. Errs
/// with [`Problem::Conflict`] if another Node has the name by now.
pub async fn write_drain_request(
    cluster: &Cluster,
    node: &Node,
    key: &str,
    value: Option<&str>,
) -> Result<RequestedNode, ClusterError> {
    let (target, name) = (Target::PatchNode, &node.name);
    let patch = json!({ "metadata": { "uid": node.uid, "annotations": { key: value } } });
    let request = Request::new(PATH)
        .patch(name.as_str(), &PatchParams::default(), &Patch::Merge(patch))
        .map_err(|e| unbuildable(target, name, &e))?;
    let body = cluster.call(target, Priority::Ordinary, name.as_str(), request).await?;
    whole(cluster, target, name, &body)
}

fn whole(
    cluster: &Cluster,
    target: Target,
    name: &NodeName,
    body: &[u8],
) -> Result<RequestedNode, ClusterError> {
    let node = decode(cluster, target, &KeepLabels::keys([]), name, body)?;
    let unreadable = |why: String| {
        ClusterError::without_answer(target.action(), name.as_str(), Problem::Unreadable, why)
    };
    let text = std::str::from_utf8(body).map_err(|error| unreadable(error.to_string()))?;
    RequestedNode::new(node, text).map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_annotations_with_the_prefix_are_requests() {
        let json = r#"{"metadata":{"annotations":{"drain.sundown.dev/upgrade":"stage=drain",
            "pre-drain.sundown.dev/backup":"x","sundown.dev/pause":"true","a/b":"c"}}}"#;
        let read = RequestedNode::new(Node::for_test("n"), json).unwrap();
        let expected = [("upgrade".to_owned(), "stage=drain".to_owned())];
        assert_eq!(read.requests, expected.into_iter().collect());
        for json in [r#"{"metadata":{}}"#, r#"{"metadata":{"annotations":null}}"#] {
            assert!(RequestedNode::new(Node::for_test("n"), json).unwrap().requests.is_empty());
        }
    }
}
