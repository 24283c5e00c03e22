//! Reads the facts of `status`: from the cluster Nodes, pods, budgets, the Lease and Events, and from
//! Auto Scaling the retained instances.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::{Api, Client, api::ListParams};

use super::{
    ask_aws::AskAws,
    facts::{EventFacts, Facts, LeaseFacts, RetainedFacts, Subject},
    report::has_drain,
};
use crate::{
    cluster::{
        self, Cluster, ClusterParts, DaemonSets, KeepLabels, Settings,
        lease::{LeasePlace, LeaseSearch, WriteGuard, find_lease, pauses_all},
    },
    config::{DrainConfig, PublishedService},
    domain::{InstanceId, Node, NodeName, Pod, SETTINGS, seconds, with_causes},
    runtime::{Clock, Random, Spawner},
};

/// How long one page of Events may take.
const LIMIT: std::time::Duration = seconds(10);
/// Events on a page, and the most pages that are read.
const PAGE: u32 = 500;
const PAGES: usize = 20;
/// Nodes whose pods are listed at once.
const AT_ONCE: usize = 8;

/// Reads the cluster. `--watch` calls it repeatedly.
pub(in crate::cli) struct Source {
    pub(in crate::cli) client: Client,
    pub(in crate::cli) cluster: Cluster,
    daemon_sets: DaemonSets,
    search: LeaseSearch,
    /// `None`: Auto Scaling is not asked.
    aws: Option<AskAws>,
}

impl Source {
    pub(in crate::cli) fn new(client: Client, search: LeaseSearch, aws: Option<AskAws>) -> Self {
        let settings =
            Settings { in_flight: AT_ONCE * 2, page: PAGE, lists: AT_ONCE, ..Settings::default() };
        let cluster = Cluster::new(ClusterParts {
            client: client.clone(),
            clock: Clock::system(),
            random: Random::from_entropy(),
            spawner: Spawner::new(),
            observer: std::sync::Arc::new(()),
            guard: WriteGuard::open(),
            settings,
        });
        Self { client, daemon_sets: DaemonSets::new(&cluster), cluster, search, aws }
    }

    /// Reads all facts, or those about one node. Errs if the Nodes cannot be read. Other failures
    /// go into the facts' `trouble`.
    pub(super) async fn read(
        &self,
        only: Option<&str>,
    ) -> anyhow::Result<(Facts, Option<NodeName>)> {
        let mut nodes = cluster::list_nodes(&self.cluster, &KeepLabels::keys([])).await?;
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let named = match only {
            Some(text) => Some(named(&nodes, text)?),
            None => None,
        };
        let mut facts = Facts {
            now: self.cluster.clock().now(),
            lease: None,
            pods: BTreeMap::new(),
            daemon_sets: BTreeMap::new(),
            budgets: Vec::new(),
            events: Vec::new(),
            retained: RetainedFacts::default(),
            trouble: Vec::new(),
            nodes,
        };
        let drained =
            |node: &&Node| has_drain(node) && named.as_ref().is_none_or(|name| node.name == *name);
        let drained: Vec<NodeName> =
            facts.nodes.iter().filter(drained).map(|node| node.name.clone()).collect();
        match self.lease().await {
            Ok(found) => facts.lease = found,
            Err(trouble) => facts.trouble.push(trouble),
        }
        let service = facts.lease.as_ref().map(|lease| lease.service.clone()).unwrap_or_default();
        let pods = async {
            if !drained.is_empty() {
                self.read_pods(&mut facts, drained).await;
            }
        };
        let retained = async {
            match &self.aws {
                Some(aws) => aws.retained(&service).await,
                None => RetainedFacts::default(),
            }
        };
        let ((), retained) = tokio::join!(pods, retained);
        facts.retained = retained;
        // They show since when an instance is retained, too.
        let has_retained_node = facts.retained.instances.iter().any(|retained| {
            facts.nodes.iter().any(|node| node.instance.as_ref() == Some(&retained.instance))
        });
        if !facts.pods.is_empty() || named.is_some() || has_retained_node {
            self.read_events(&mut facts).await;
        }
        // Set after all reads, so that no fact is newer than `now`.
        facts.now = self.cluster.clock().now();
        Ok((facts, named))
    }

    /// The Lease of the service. `Err`: why it is not known, as a sentence.
    pub(in crate::cli) async fn lease(&self) -> Result<Option<LeaseFacts>, String> {
        match find_lease(&self.client, &self.search).await {
            Ok(found) => Ok(found.map(|(place, lease)| lease_facts(place, lease))),
            Err(error) => Err(format!("The leader is not known: {}.", with_causes(&error))),
        }
    }

    pub(in crate::cli) async fn read_events(&self, facts: &mut Facts) {
        match self.events().await {
            Ok(events) => facts.events = events,
            Err(why) => facts.trouble.push(format!(
                "Events cannot be listed, so heartbeats and refusals by webhooks are not shown: \
                 {why}."
            )),
        }
    }

    /// Reads the pods of these nodes, the DaemonSets that own some of them, and all budgets.
    pub(in crate::cli) async fn read_pods(&self, facts: &mut Facts, drained: Vec<NodeName>) {
        match cluster::list_budgets(&self.cluster).await {
            Ok(budgets) => facts.budgets = budgets,
            Err(error) => facts.trouble.push(format!(
                "Disruption budgets cannot be listed, so what they hold is not shown: {error}."
            )),
        }
        let of_node = |name: NodeName| async move {
            let pods = cluster::list_pods(&self.cluster, &name).await;
            (name, pods.map_err(|e| e.to_string()))
        };
        facts.pods = stream::iter(drained).map(of_node).buffer_unordered(AT_ONCE).collect().await;
        if let Some(why) = facts.pods.values().find_map(|pods| pods.as_ref().err()) {
            facts.trouble.push(format!("The pods of some nodes cannot be listed: {why}."));
        }
        let owners: BTreeSet<(String, String)> =
            facts.pods.values().flatten().flatten().filter_map(daemon_set_of).collect();
        for (namespace, name) in owners {
            let state = self.daemon_sets.state(&namespace, &name).await;
            facts.daemon_sets.insert((namespace, name), state);
        }
    }

    async fn events(&self) -> Result<Vec<EventFacts>, String> {
        let api: Api<Event> = Api::all(self.client.clone());
        let mut parameters = ListParams::default().fields("reportingComponent=sundown").limit(PAGE);
        let mut events = Vec::new();
        for _ in 0..PAGES {
            let page = match tokio::time::timeout(LIMIT, api.list(&parameters)).await {
                Ok(answer) => answer.map_err(|error| with_causes(&error))?,
                Err(_) => return Err(format!("no answer within {} s", LIMIT.as_secs())),
            };
            events.extend(page.items.into_iter().filter_map(event_facts));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters.continue_token = Some(token),
                None => break,
            }
        }
        Ok(events)
    }
}

/// No node matches the argument, or more than one does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum NotOneNode {
    /// No node has this name or this instance ID.
    #[error("there is no node `{0}`, and no node of an instance of that ID")]
    Unknown(String),
    /// It is the first label of several names.
    #[error("`{text}` may be any of these nodes: {}; give the whole name", listed(.candidates))]
    Ambiguous {
        text: String,
        /// The nodes whose names have it as their first label.
        candidates: Vec<NodeName>,
    },
}

/// How many candidates an error names.
const CANDIDATES: usize = 10;

fn listed(candidates: &[NodeName]) -> String {
    let named =
        candidates.iter().take(CANDIDATES).map(NodeName::as_str).collect::<Vec<_>>().join(", ");
    match candidates.len().saturating_sub(CANDIDATES) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Finds a node by its name, else by its instance ID, else by the first label of its name if only
/// one node has it. The table of `status` shows only this label. (In some clusters the names of
/// nodes are instance IDs.)
pub(in crate::cli) fn named(nodes: &[Node], text: &str) -> Result<NodeName, NotOneNode> {
    let by_name = nodes.iter().find(|node| node.name.as_str() == text);
    let by_instance = || {
        let instance: InstanceId = text.parse().ok()?;
        nodes.iter().find(|node| node.instance.as_ref() == Some(&instance))
    };
    if let Some(node) = by_name.or_else(by_instance) {
        return Ok(node.name.clone());
    }
    let has_label =
        |node: &&Node| node.name.as_str().split_once('.').is_some_and(|(label, _)| label == text);
    let candidates: Vec<NodeName> =
        nodes.iter().filter(has_label).map(|node| node.name.clone()).collect();
    match candidates.as_slice() {
        [] => Err(NotOneNode::Unknown(text.to_owned())),
        [node] => Ok(node.clone()),
        _ => Err(NotOneNode::Ambiguous { text: text.to_owned(), candidates }),
    }
}

fn daemon_set_of(pod: &Pod) -> Option<(String, String)> {
    let owner = pod.owner.as_ref().filter(|owner| owner.is_daemon_set())?;
    Some((pod.key.namespace.to_string(), owner.name.clone()))
}

fn lease_facts(place: LeasePlace, lease: Lease) -> LeaseFacts {
    let is_paused = pauses_all(&lease);
    let spec = lease.spec.unwrap_or_default();
    let annotations = lease.metadata.annotations.unwrap_or_default();
    let holder = spec.holder_identity.filter(|h| !h.is_empty());
    let published = annotations.get(SETTINGS);
    LeaseFacts {
        namespace: place.namespace,
        name: place.name,
        // The holder is `POD_RANDOM`.
        holder: holder.map(|h| h.rsplit_once('_').map_or(h.clone(), |(pod, _)| pod.to_owned())),
        acquired: spec.acquire_time.map(|t| t.0.into()),
        renewed: spec.renew_time.map(|t| t.0.into()),
        duration: seconds(
            spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(15),
        ),
        is_paused,
        settings: published.and_then(|text| DrainConfig::from_published(text)),
        service: published
            .map_or_else(PublishedService::default, |text| PublishedService::read(text)),
    }
}

fn event_facts(event: Event) -> Option<EventFacts> {
    let object = event.involved_object;
    let subject = match object.kind.as_deref()? {
        "Node" => Subject::Node(object.name?.into()),
        "Pod" => Subject::Pod(object.uid?.into()),
        _ => return None,
    };
    let last = event.last_timestamp.or_else(|| event.first_timestamp.clone())?.0.into();
    Some(EventFacts {
        subject,
        reason: event.reason.unwrap_or_default(),
        is_warning: event.type_.as_deref() == Some("Warning"),
        message: event.message.unwrap_or_default(),
        first: event.first_timestamp.map_or(last, |t| t.0.into()),
        last,
    })
}
