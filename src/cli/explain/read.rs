//! Reads what `explain` needs from the cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::Api;

use super::rules::{self, KnownRules};
use crate::{
    cli::status::{
        facts::{Facts, RetainedFacts},
        read::{Source, named},
    },
    cluster::{self, KeepLabels},
    domain::{NamespaceLabels, NodeName, PodKey, seconds},
};

/// How long the GET of the pod may take.
const LIMIT: std::time::Duration = seconds(10);

/// What the person asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A node, by a name as for `sundown status`.
    Node(String),
    Pod(PodKey),
}

impl Target {
    pub(super) fn of(text: &str, namespace: Option<&str>) -> anyhow::Result<Self> {
        let (namespace, name) = match (text.split_once('/'), namespace) {
            (None, None) => return Ok(Self::Node(text.to_owned())),
            (None, Some(namespace)) => (namespace, text),
            (Some((first, name)), None) => (first, name),
            (Some((first, name)), Some(namespace)) if first == namespace => (first, name),
            (Some((first, _)), Some(namespace)) => {
                bail!("`{text}` is in the namespace {first}, and -n names {namespace}: give one")
            }
        };
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            bail!("`{text}` is no pod: write NAMESPACE/NAME");
        }
        Ok(Self::Pod(PodKey { namespace: namespace.into(), name: name.into() }))
    }
}

/// The Node, its pods and the rules, as the cluster shows them now.
pub(super) struct Read {
    pub(super) facts: Facts,
    pub(super) node: NodeName,
    /// The pod that was asked for. `None`: the whole node.
    pub(super) pod: Option<PodKey>,
    pub(super) rules: KnownRules,
    /// The labels of namespaces that the rules read.
    pub(super) namespaces: NamespaceLabels,
}

/// Reads the node, its pods, and the rules of the leader. Errs if there is no such node or pod, if
/// it cannot be read, or if the file with rules is bad.
pub(super) async fn read(
    source: &Source,
    target: &Target,
    rules_file: Option<&Path>,
) -> anyhow::Result<Read> {
    let (lease, trouble) = match source.lease().await {
        Ok(lease) => (lease, None),
        Err(trouble) => (None, Some(trouble)),
    };
    let rules = rules::read(&source.client, lease.as_ref(), rules_file).await?;
    let (text, pod) = match target {
        Target::Node(text) => (text.clone(), None),
        Target::Pod(key) => (node_of(source, key).await?, Some(key.clone())),
    };
    let keep = KeepLabels::keys(rules.rules.node_label_keys());
    let nodes = cluster::list_nodes(&source.cluster, &keep).await?;
    let node = match named(&nodes, &text) {
        Ok(node) => node,
        Err(error) if pod.is_none() => {
            return Err(anyhow::Error::from(error)
                .context("`sundown explain` takes a node, or a pod as NAMESPACE/NAME"));
        }
        Err(error) => return Err(error.into()),
    };
    let mut facts = Facts {
        now: source.cluster.clock().now(),
        lease,
        nodes: nodes.into_iter().filter(|one| one.name == node).collect(),
        pods: BTreeMap::new(),
        daemon_sets: BTreeMap::new(),
        budgets: Vec::new(),
        events: Vec::new(),
        retained: RetainedFacts::default(),
        trouble: trouble.into_iter().collect(),
    };
    source.read_pods(&mut facts, vec![node.clone()]).await;
    source.read_events(&mut facts).await;
    let keys: BTreeSet<String> = rules.rules.namespace_label_keys().map(str::to_owned).collect();
    let mut namespaces = NamespaceLabels::default();
    if !keys.is_empty() {
        match cluster::list_namespaces(&source.cluster, &keys).await {
            Ok(found) => namespaces = found,
            Err(error) => facts.trouble.push(format!(
                "The labels of namespaces cannot be read, so rules with namespaceLabels do not \
                 count here: {error}."
            )),
        }
    }
    facts.now = source.cluster.clock().now();
    Ok(Read { facts, node, pod, rules, namespaces })
}

/// The node on which a pod is.
async fn node_of(source: &Source, pod: &PodKey) -> anyhow::Result<String> {
    let api: Api<ApiPod> = Api::namespaced(source.client.clone(), &pod.namespace);
    let read = tokio::time::timeout(LIMIT, api.get_opt(&pod.name)).await;
    let read = read.with_context(|| format!("no answer within {} s", LIMIT.as_secs()))?;
    let Some(found) = read.with_context(|| format!("the pod {pod} cannot be read"))? else {
        bail!("there is no pod {pod}");
    };
    match found.spec.and_then(|spec| spec.node_name).filter(|node| !node.is_empty()) {
        Some(node) => Ok(node),
        None => bail!("the pod {pod} is not on a node yet, so no drain touches it"),
    }
}
