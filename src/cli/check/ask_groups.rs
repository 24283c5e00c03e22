//! Asks AWS about the groups of the cluster and their hooks. `groups` and `hooks` judge the
//! answers.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    finding::Finding,
    groups::{self, Known, NodeGroups},
    hooks, impaired,
};
use crate::{
    aws::{Advice, AwsError, Clients, Group, GroupFilter},
    cli::{people::uuid, words::count},
    cluster::{Cluster, KeepLabels, list_nodes},
    config::Config,
    domain::{GroupName, InstanceId},
    runtime::{Clock, Random, Spawner},
};

/// To find the groups, the instances of at most this many nodes are described.
const MOST_NODES: usize = 2000;
/// Instances in one DescribeInstances call.
const DESCRIBED_AT_ONCE: usize = 200;
/// Of the groups that lack the cluster's tag, at most this many are checked.
const MOST_GROUPS: usize = 50;

/// What is known after all groups were asked about.
#[derive(Default)]
pub(super) struct GroupAnswers {
    pub(super) found: Vec<Finding>,
    pub(super) launch_hook: LaunchHook,
}

/// Whether a group has a launch hook that Sundown answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum LaunchHook {
    /// The hooks of some groups are not known.
    #[default]
    NotKnown,
    /// No group has one.
    None,
    /// `GROUP/HOOK` of the first one.
    Found(String),
}

/// How the questions about a group ended.
enum Asked {
    Answered,
    /// They failed. Those about other groups may succeed.
    Failed,
    /// They failed, and those about other groups would, too.
    AllWouldFail,
}

/// The clients that ask, and the answers so far.
pub(super) struct AskGroups<'a> {
    config: &'a Config,
    clients: &'a Clients,
    random: &'a Random,
    /// The groups that have a tag of the cluster.
    tagged: BTreeSet<GroupName>,
    answers: GroupAnswers,
}

impl<'a> AskGroups<'a> {
    pub(super) fn new(config: &'a Config, clients: &'a Clients, random: &'a Random) -> Self {
        Self { config, clients, random, tagged: BTreeSet::new(), answers: GroupAnswers::default() }
    }

    /// Checks the groups of this cluster and their hooks. A group is found by its tags, or by its
    /// nodes in the cluster.
    pub(super) async fn all(mut self, client: Option<&kube::Client>) -> GroupAnswers {
        self.ask(client).await;
        self.answers
    }

    async fn ask(&mut self, client: Option<&kube::Client>) {
        const POINT: &str = "groups";
        let with_nodes = match client {
            Some(client) => self.groups_with_nodes(client).await,
            None => NodeGroups::default(),
        };
        let are_groups_known = with_nodes.known == Known::All
            && with_nodes.nodes.len() <= MOST_GROUPS
            && self.config.ours.cluster_name.is_some();
        let with_nodes = with_nodes.nodes;
        let mut groups = Vec::new();
        if let Some(cluster) = self.config.ours.cluster_name.clone() {
            groups = match self.tagged(&cluster).await {
                Ok(groups) => groups,
                Err(error) => {
                    self.answers.found.push(Finding::of_error(POINT, cluster, &error));
                    return;
                }
            };
            let tagged: Vec<GroupName> = groups.iter().map(|g| g.group.clone()).collect();
            self.answers.found.extend(groups::judge(&cluster, &tagged, &with_nodes));
            self.tagged = tagged.into_iter().collect();
        } else {
            let message = "without --cluster-name Sundown does not know which groups are ours: \
                hooks of instances that never became nodes time out, and so do hooks whose event was \
                lost, because there is no sweep";
            self.answers.found.push(Finding::cannot_tell(
                POINT,
                "",
                message,
                "give --cluster-name (SUNDOWN_CLUSTER_NAME)",
            ));
        }
        let mut are_hooks_known = are_groups_known;
        for name in with_nodes.keys().take(MOST_GROUPS) {
            if groups.iter().any(|g| g.group == *name) {
                continue;
            }
            match self.clients.autoscaling().group(name).await {
                Ok(group) => groups.extend(group),
                Err(error) => {
                    self.answers.found.push(Finding::of_error(POINT, name.as_str(), &error));
                    are_hooks_known = false;
                    break;
                }
            }
        }
        if groups.is_empty() {
            return;
        }
        for group in &mut groups {
            self.add_warm_pool(group).await;
            match self.group(group).await {
                Asked::Answered => {}
                Asked::Failed => are_hooks_known = false,
                Asked::AllWouldFail => return,
            }
        }
        if are_hooks_known && self.answers.launch_hook == LaunchHook::NotKnown {
            self.answers.launch_hook = LaunchHook::None;
        }
        let simple = self.clients.autoscaling().simple_scaling().await;
        self.answers.found.extend(hooks::scaling(&groups, &simple));
    }

    /// The groups of the nodes that Sundown would drain, with their numbers of nodes. The points
    /// `kubernetes`, `rights` and `instances` report failed requests.
    async fn groups_with_nodes(&mut self, client: &kube::Client) -> NodeGroups {
        let cluster =
            Cluster::plain(client.clone(), Clock::system(), self.random.clone(), Spawner::new());
        let selector = &self.config.ours.nodes;
        let nodes = match list_nodes(&cluster, &KeepLabels::of(selector)).await {
            Ok(nodes) => nodes,
            Err(error) => {
                let message = format!("the groups of the cluster's nodes are not known: {error}");
                self.answers.found.push(Finding::cannot_tell(
                    "groups",
                    "",
                    message,
                    "see the points `kubernetes` and `rights`",
                ));
                return NodeGroups::default();
            }
        };
        let ours =
            nodes.into_iter().filter(|node| selector.matches(&node.labels) && !node.ignored());
        let mut instances: Vec<InstanceId> = ours.filter_map(|node| node.instance).collect();
        let is_all = instances.len() <= MOST_NODES;
        instances.truncate(MOST_NODES);
        let mut described = Vec::new();
        for batch in instances.chunks(DESCRIBED_AT_ONCE) {
            // If this is denied, the point `instances` reports why.
            described.push(self.clients.ec2().describe_instances(batch).await.ok());
            if described.last().is_some_and(Option::is_none) {
                break;
            }
        }
        NodeGroups::of(&described, is_all)
    }

    async fn tagged(&self, cluster: &str) -> Result<Vec<Group>, AwsError> {
        let mut all = BTreeMap::new();
        for filter in GroupFilter::of_cluster(cluster) {
            for group in self.clients.autoscaling().groups(&[filter]).await? {
                all.insert(group.group.clone(), group);
            }
        }
        Ok(all.into_values().collect())
    }

    /// Adds the instances in the warm pool of the group to the others.
    async fn add_warm_pool(&mut self, group: &mut Group) {
        const POINT: &str = "group.warm-pool";
        if !group.has_warm_pool {
            return;
        }
        let name = &group.group;
        let pool = self.clients.autoscaling().warm_pool(name, usize::MAX, |_| true).await;
        self.answers.found.push(match pool.result {
            Ok(()) => {
                let text = format!("it has {}", count(pool.members.len(), "instance"));
                Finding::yes(POINT, name.as_str(), text)
            }
            Err(error) => Finding::of_error(POINT, name.as_str(), &error).advice(),
        });
        group.members.extend(pool.members);
    }

    /// Checks one group.
    async fn group(&mut self, group: &Group) -> Asked {
        let name = &group.group;
        let described = match self.clients.autoscaling().hooks(name).await {
            Ok(described) => described,
            Err(error) => {
                self.answers.found.push(Finding::of_error("hook", name.as_str(), &error));
                return match error.advice() {
                    Advice::Gone => Asked::Failed,
                    _ => Asked::AllWouldFail,
                };
            }
        };
        self.answers.found.extend(impaired::judge_group(group, self.config.drain.impaired));
        self.answers.found.extend(hooks::judge(
            group,
            &described,
            &self.config.ours.hooks,
            self.config.drain.timeout,
            &self.config.drain.allowed(),
            self.config.drain.hook_result_on_failure,
        ));
        let is_tagged = self.tagged.contains(name);
        let launch_hook =
            hooks::launch_hooks(&described, &self.config.ours.hooks, is_tagged).next();
        if let Some(hook) = launch_hook
            && !matches!(self.answers.launch_hook, LaunchHook::Found(_))
        {
            self.answers.launch_hook = LaunchHook::Found(format!("{name}/{hook}"));
        }
        for hook in hooks::ours(&described, &self.config.ours.hooks) {
            let about = format!("{name}/{}", hook.hook);
            let token = uuid(self.random);
            let answer = self.clients.autoscaling().probe_heartbeat(name, &hook.hook, &token).await;
            self.answers.found.push(hooks::probe("hook.heartbeat", &about, &answer));
            let answer =
                self.clients.autoscaling().probe_completion(name, &hook.hook, &token).await;
            self.answers.found.push(hooks::probe("hook.completion", &about, &answer));
        }
        Asked::Answered
    }
}
