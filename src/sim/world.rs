//! The embedded AWS and the embedded Kubernetes as one world: what happens to an instance happens
//! to its Node.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::json;

use super::{
    aws::{
        Boot, EmbeddedAws, GroupSpec, HookSpec, InstanceBoot, InstanceChange, InstanceSpec,
        QueueSettings, Rule, Settings, State,
    },
    kube::{EmbeddedKube, NodeSpec, Options},
};
use crate::runtime::{Clock, Spawner};

/// The Node label with the name of its instance's group, as managed node groups of EKS write it.
pub const GROUP_LABEL: &str = "eks.amazonaws.com/nodegroup";

/// How a world is set up.
#[derive(Debug, Clone)]
pub struct WorldSettings {
    /// Seed of everything random.
    pub seed: u64,
    /// The cluster's name, as tags of groups and instances carry it.
    pub cluster: String,
    /// The queue that the usual rules send to.
    pub queue: String,
    /// Attributes of that queue; without a `Policy` it gets one for the usual rule.
    pub queue_settings: QueueSettings,
    /// Settings of the embedded AWS account.
    pub aws: Settings,
    /// Options of the embedded Kubernetes cluster.
    pub kube: Options,
    /// Time from an instance's `running` to the registration of its Node.
    pub join_after: Duration,
    /// How long a kubelet still acts when its instance is being shut down.
    pub shutdown: Duration,
    /// Minimum size of a Node's JSON in KiB.
    pub node_kib: usize,
}

impl WorldSettings {
    /// The usual: the queue `sundown`, the cluster `sim`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            cluster: "sim".to_owned(),
            queue: "sundown".to_owned(),
            queue_settings: QueueSettings::default(),
            aws: Settings { seed, ..Settings::default() },
            kube: Options::default(),
            join_after: Duration::from_secs(25),
            shutdown: Duration::from_secs(5),
            node_kib: 0,
        }
    }
}

/// The queue's policy: EventBridge may send to it for this rule; all but AWS services are denied.
fn policy(aws: &Settings, rule: &str) -> String {
    let arn = format!("arn:aws:events:{}:{}:rule/{rule}", aws.region, aws.account);
    json!({ "Version": "2012-10-17", "Statement": [
        { "Effect": "Allow", "Principal": {
            "Service": "events.amazonaws.com"
        }, "Action": "sqs:SendMessage", "Resource": "*",
            "Condition": { "ArnEquals": { "aws:SourceArn": arn } } },
        { "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*",
            "Condition": { "BoolIfExists": { "aws:PrincipalIsAWSService": "false" } } },
    ] })
    .to_string()
}

/// An AWS account with a cluster in it. Clones are the same world.
#[derive(Clone)]
pub struct World {
    /// Handle of the embedded AWS account.
    pub aws: EmbeddedAws,
    /// Handle of the embedded Kubernetes cluster.
    pub kube: EmbeddedKube,
    settings: Arc<WorldSettings>,
    strangers: Arc<Mutex<BTreeSet<String>>>,
}

impl World {
    /// A world with a queue and its rules, and nothing else yet.
    #[must_use]
    pub fn start(settings: WorldSettings, clock: Clock, spawner: &Spawner) -> Self {
        let aws = EmbeddedAws::start(clock, settings.aws.clone(), spawner);
        let kube = EmbeddedKube::start(settings.kube.clone(), clock, settings.seed, spawner);
        let rule = Rule::usual(&settings.queue);
        let mut queue_settings = settings.queue_settings.clone();
        queue_settings
            .access
            .entry("Policy".to_owned())
            .or_insert_with(|| policy(&settings.aws, &rule.name));
        aws.create_queue(&settings.queue, queue_settings);
        aws.route(rule);
        let world = Self { aws, kube, settings: Arc::new(settings), strangers: Arc::default() };
        let (tied, mut changes, tasks) = (world.clone(), world.aws.subscribe(), spawner.clone());
        let mut boots = world.aws.subscribe_to_boots();
        // Dropping the handle does not end the task; the world's end does.
        drop(spawner.spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    change = changes.recv() => match change {
                        Some(change) => tied.instance_changed(&change, &tasks),
                        None => return,
                    },
                    Some(boot) = boots.recv() => tied.instance_boots(boot, &tasks),
                }
            }
        }));
        world
    }

    /// The URL of its queue.
    #[must_use]
    pub fn queue_url(&self) -> String {
        self.aws.queue_url(&self.settings.queue)
    }

    /// The name of its queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.settings.queue
    }

    /// The cluster's name.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.settings.cluster
    }

    /// The tag that marks a group or an instance as owned by this cluster.
    fn cluster_tag(&self) -> (String, String) {
        (format!("kubernetes.io/cluster/{}", self.settings.cluster), "owned".to_owned())
    }

    /// Adds a group of this cluster with its hooks; its instances are Nodes at once. Returns their
    /// instance ids.
    pub fn add_group(&self, mut spec: GroupSpec, hooks: &[HookSpec]) -> Vec<String> {
        let (key, value) = self.cluster_tag();
        spec.tags.insert(key.clone(), value.clone());
        spec.template.tags.insert(key, value);
        let name = spec.name.clone();
        let instances = self.aws.create_group(spec);
        for hook in hooks {
            self.aws.put_hook(&name, hook.clone());
        }
        for id in &instances {
            self.join(id);
        }
        instances
    }

    /// Adds an instance of this cluster that belongs to no group, and its Node.
    pub fn add_instance(&self, mut spec: InstanceSpec) -> String {
        spec.tags.extend([self.cluster_tag()]);
        let id = self.aws.create_instance(spec);
        self.join(&id);
        id
    }

    /// Instances that from now on never become Nodes by themselves.
    pub fn keep_out(&self, instance: &str) {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned());
    }

    /// The name of an instance's Node: its private DNS name, which it loses with its end, so it is
    /// read off the Nodes.
    #[must_use]
    pub fn node_of(&self, instance: &str) -> Option<String> {
        self.kube.node_of(instance)
    }

    /// Nodes by instance.
    #[must_use]
    pub fn nodes(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        self.each_node(|instance, node| drop(all.insert(instance.to_owned(), node.to_owned())));
        all
    }

    /// Shows the instance and the name of each Node, without a copy of them. `look` must not ask
    /// this world for anything.
    pub fn each_node(&self, mut look: impl FnMut(&str, &str)) {
        self.kube.each("nodes", |node| {
            let text = |part: &str, field: &str| node.get(part)?.get(field)?.as_str();
            let id = text("spec", "providerID").and_then(|id| id.rsplit('/').next());
            if let Some((id, name)) = id.zip(text("metadata", "name")) {
                look(id, name);
            }
        });
    }

    /// Registers an instance's Node now.
    pub fn join(&self, instance: &str) {
        let Some(facts) = self.aws.instance(instance) else { return };
        let mut node = NodeSpec::named(facts.private_dns.clone())
            .instance(facts.id.clone())
            .kib(self.settings.node_kib);
        node.zone.clone_from(&facts.zone);
        if let Some(group) = facts.group {
            node = node.label(GROUP_LABEL, group);
        }
        self.kube.add_node(&node);
    }

    /// Whether the kubelet of an instance that runs is to register its Node.
    fn may_join(&self, instance: &str) -> bool {
        let tag = self.cluster_tag().0;
        let is_ours = self.aws.instance(instance).is_some_and(|i| i.tags.contains_key(&tag));
        let is_stranger =
            self.strangers.lock().unwrap_or_else(PoisonError::into_inner).contains(instance);
        is_ours && !is_stranger && self.node_of(instance).is_none()
    }

    fn instance_changed(&self, change: &InstanceChange, tasks: &Spawner) {
        let world = self.clone();
        let id = change.id.clone();
        match change.state {
            State::Running => {
                if self.may_join(&id) {
                    drop(tasks.spawn(async move {
                        tokio::time::sleep(world.settings.join_after).await;
                        if world.aws.instance(&id).is_some_and(|i| i.state == State::Running)
                            && world.node_of(&id).is_none()
                        {
                            world.join(&id);
                        }
                    }));
                }
            }
            State::ShuttingDown | State::Stopping => {
                drop(tasks.spawn(async move {
                    tokio::time::sleep(world.settings.shutdown).await;
                    world.kube.machine_gone(&id);
                }));
            }
            State::Terminated | State::Stopped => world.kube.machine_gone(&id),
            State::Pending => {}
        }
    }

    /// The Node of an instance that boots again is the same one, if it still exists. One that was
    /// deleted registers as that of a new instance does.
    fn instance_boots(&self, boot: InstanceBoot, tasks: &Spawner) {
        if boot.boot == Boot::NewRoot {
            // EC2 reports no stop: the time without a kubelet is part of the replacement.
            if let Some(node) = self.node_of(&boot.id) {
                self.kube.reboot(&node);
            }
            return;
        }
        let world = self.clone();
        drop(tasks.spawn(async move {
            tokio::time::sleep(world.settings.join_after).await;
            let runs = world.aws.instance(&boot.id).is_some_and(|i| i.state == State::Running);
            if runs && world.may_join(&boot.id) {
                world.join(&boot.id);
            }
            let node = world.node_of(&boot.id).filter(|node| world.kube.is_machine_gone(node));
            let Some(node) = node.filter(|_| runs) else { return };
            world.kube.machine_back(&node);
            if boot.boot == Boot::Started {
                world.kube.reboot(&node);
            }
        }));
    }
}
