//! The questions about the groups of the cluster and their hooks. What an answer means is decided
//! in `groups` and `hooks`.

use std::collections::BTreeMap;

use super::{finding::Finding, groups, hooks};
use crate::{
    aws::{Advice, AwsError, Clients, Group, GroupFilter},
    cli::people::uuid,
    cluster::{Cluster, KeepLabels, list_nodes},
    config::Config,
    domain::{GroupName, InstanceId},
    runtime::{Clock, Random, Spawner},
};

/// So many nodes' instances are asked about, to find their groups…
const MOST_NODES: usize = 2000;
/// …so many with one call…
const DESCRIBED_AT_ONCE: usize = 200;
/// …and so many groups without a tag are looked at.
const MOST_GROUPS: usize = 50;

/// The questions, and what they have found so far.
pub(super) struct AskGroups<'a> {
    config: &'a Config,
    clients: &'a Clients,
    random: &'a Random,
    found: Vec<Finding>,
}

impl<'a> AskGroups<'a> {
    /// Nothing is asked yet.
    pub(super) fn new(config: &'a Config, clients: &'a Clients, random: &'a Random) -> Self {
        Self { config, clients, random, found: Vec::new() }
    }

    /// The groups of this cluster, by their tags and by the nodes that they have in it, and their
    /// hooks.
    pub(super) async fn all(mut self, client: Option<&kube::Client>) -> Vec<Finding> {
        const POINT: &str = "groups";
        let with_nodes = match client {
            Some(client) => self.groups_with_nodes(client).await,
            None => BTreeMap::new(),
        };
        let mut groups = Vec::new();
        if let Some(cluster) = self.config.ours.cluster_name.clone() {
            groups = match self.tagged(&cluster).await {
                Ok(groups) => groups,
                Err(error) => {
                    self.found.push(Finding::of_error(POINT, cluster, &error));
                    return self.found;
                }
            };
            let tagged: Vec<GroupName> = groups.iter().map(|g| g.group.clone()).collect();
            self.found.extend(groups::judge(&cluster, &tagged, &with_nodes));
        } else {
            let says = "without --cluster-name nobody knows which groups are ours: hooks of \
                instances that never became nodes time out";
            self.found.push(Finding::cannot_tell(
                POINT,
                "",
                says,
                "give --cluster-name (SUNDOWN_CLUSTER_NAME)",
            ));
        }
        for name in with_nodes.keys().take(MOST_GROUPS) {
            if groups.iter().any(|g| g.group == *name) {
                continue;
            }
            match self.clients.autoscaling().group(name).await {
                Ok(group) => groups.extend(group),
                Err(error) => {
                    self.found.push(Finding::of_error(POINT, name.as_str(), &error));
                    break;
                }
            }
        }
        if groups.is_empty() {
            return self.found;
        }
        for group in &groups {
            if !self.group(group).await {
                return self.found;
            }
        }
        let simple = self.clients.autoscaling().simple_scaling().await;
        self.found.extend(hooks::scaling(&groups, &simple));
        self.found
    }

    /// The groups of the nodes that are ours to drain, with how many nodes each has. What cannot be
    /// asked is said by other points.
    async fn groups_with_nodes(&mut self, client: &kube::Client) -> BTreeMap<GroupName, usize> {
        let cluster =
            Cluster::plain(client.clone(), Clock::system(), self.random.clone(), Spawner::new());
        let selector = &self.config.ours.nodes;
        let nodes = match list_nodes(&cluster, &KeepLabels::of(selector)).await {
            Ok(nodes) => nodes,
            Err(error) => {
                let says = format!("the groups of the cluster's nodes are not known: {error}");
                self.found.push(Finding::cannot_tell(
                    "groups",
                    "",
                    says,
                    "see the points `kubernetes` and `rights`",
                ));
                return BTreeMap::new();
            }
        };
        let ours =
            nodes.into_iter().filter(|node| selector.matches(&node.labels) && !node.ignored());
        let instances: Vec<InstanceId> =
            ours.filter_map(|node| node.instance).take(MOST_NODES).collect();
        let mut facts = Vec::new();
        for batch in instances.chunks(DESCRIBED_AT_ONCE) {
            // The point `instances` says why, where that is not allowed.
            let Ok(described) = self.clients.ec2().describe_instances(batch).await else { break };
            facts.extend(described);
        }
        groups::of_instances(&facts)
    }

    async fn tagged(&self, cluster: &str) -> Result<Vec<Group>, AwsError> {
        let mut all = BTreeMap::new();
        for filter in [
            GroupFilter::TagKey(format!("kubernetes.io/cluster/{cluster}")),
            GroupFilter::Tag("eks:cluster-name".to_owned(), cluster.to_owned()),
        ] {
            for group in self.clients.autoscaling().groups(&[filter]).await? {
                all.insert(group.group.clone(), group);
            }
        }
        Ok(all.into_values().collect())
    }

    /// One group; `false`: no other needs to be asked about.
    async fn group(&mut self, group: &Group) -> bool {
        let name = &group.group;
        let described = match self.clients.autoscaling().hooks(name).await {
            Ok(described) => described,
            Err(error) => {
                self.found.push(Finding::of_error("hook", name.as_str(), &error));
                return error.advice() == Advice::Gone;
            }
        };
        self.found.extend(hooks::judge(
            group,
            &described,
            &self.config.ours.hooks,
            self.config.drain.timeout,
        ));
        for hook in hooks::ours(&described, &self.config.ours.hooks) {
            let about = format!("{name}/{}", hook.hook);
            let token = uuid(self.random);
            let answer = self.clients.autoscaling().probe_heartbeat(name, &hook.hook, &token).await;
            self.found.push(hooks::probe("hook.heartbeat", &about, &answer));
            let answer =
                self.clients.autoscaling().probe_completion(name, &hook.hook, &token).await;
            self.found.push(hooks::probe("hook.completion", &about, &answer));
        }
        true
    }
}
