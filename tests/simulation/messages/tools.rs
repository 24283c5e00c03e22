//! What the tests of this module need of a stage.

use std::{collections::BTreeMap, time::Duration};

use sundown::{
    domain::Moment,
    sim::{
        WorldSettings,
        aws::{
            EventKind, GroupSpec, HookResult, HookSpec, InstanceSpec, QueueSettings, Redrive, Rule,
            State,
        },
        kube::{NodeSpec, Request, Workload},
    },
};

use crate::harness::{Replica, Stage};

/// Calls of AWS that change something.
const AWS_WRITES: [&str; 5] = [
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "autoscaling:RecordLifecycleActionHeartbeat",
    "autoscaling:CompleteLifecycleAction",
    "sqs:SendMessage",
];

/// A world whose queue has a dead-letter queue `dead`, which takes what was received `max` times.
pub fn with_dead_letters(seed: u64, max: u32) -> Stage {
    let redrive = Some(Redrive { queue: "dead".to_owned(), max_receives: max });
    let queue_settings = QueueSettings { redrive, ..QueueSettings::default() };
    let stage = Stage::with(WorldSettings { queue_settings, ..WorldSettings::seeded(seed) });
    stage.world.aws.create_queue("dead", QueueSettings::default());
    stage
}

pub fn text(moment: Moment) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A terminate hook whose default is CONTINUE.
pub fn continuing_hook(name: &str, heartbeat_timeout: u64) -> HookSpec {
    let heartbeat_timeout = Duration::from_secs(heartbeat_timeout);
    HookSpec {
        heartbeat_timeout,
        default_result: HookResult::Continue,
        ..HookSpec::terminating(name)
    }
}

impl Stage {
    /// Sends a body to the queue.
    pub fn send(&self, body: &str) {
        self.world.aws.send_event(self.world.queue(), body);
    }

    /// So many seconds ago, as events write it.
    pub fn ago(&self, seconds: u64) -> String {
        text(self.clock.now().minus(Duration::from_secs(seconds)))
    }

    /// Now, as events write it.
    pub fn now(&self) -> String {
        self.ago(0)
    }

    /// Another queue, which gets events of these kinds; its URL.
    pub fn queue_for(&self, name: &str, kinds: impl IntoIterator<Item = EventKind>) -> String {
        self.world.aws.route(Rule::of(name, kinds));
        self.world.aws.create_queue(name, QueueSettings::default())
    }

    /// The bodies in a queue.
    pub fn bodies_in(&self, queue: &str) -> Vec<String> {
        self.world.aws.queue(queue).unwrap().messages.iter().map(|m| m.body.to_string()).collect()
    }

    /// Pods on all nodes, two each or so.
    pub fn shop(&self, pods: usize) {
        self.world.kube.add_deployment(&Workload::new("shop", "web", pods));
    }

    /// A service that has settled, in a cluster that has.
    pub async fn settled(&self, flags: &[&str]) -> Replica {
        self.pass(60).await;
        let sundown = self.start("sundown-0", flags);
        self.pass(30).await;
        sundown
    }

    /// Requests of replicas that change something, those for Leases aside.
    pub fn kube_writes(&self) -> Vec<Request> {
        let requests = self.world.kube.requests().into_iter();
        requests
            .filter(|r| r.client.starts_with("sundown") && r.is_write() && r.resource != "leases")
            .collect()
    }

    /// How many times replicas wrote to the Node of this name.
    pub fn node_writes(&self, node: &str) -> usize {
        self.kube_writes().iter().filter(|r| r.resource == "nodes" && r.name == node).count()
    }

    /// Calls of AWS that changed something or tried to.
    pub fn aws_writes(&self) -> Vec<String> {
        let calls = self.world.aws.calls().into_iter();
        calls
            .filter(|c| AWS_WRITES.iter().any(|w| c.api.starts_with(w)))
            .map(|c| format!("{} {}", c.api, c.object))
            .collect()
    }

    /// How often instances were asked about.
    pub fn describes(&self) -> u64 {
        self.world.aws.count("ec2:DescribeInstances")
    }

    /// Heartbeats and completions that were tried for an instance.
    pub fn hook_calls(&self, instance: &str) -> usize {
        self.aws_writes()
            .iter()
            .filter(|w| w.starts_with("autoscaling:") && w.contains(instance))
            .count()
    }

    /// Nobody has written to the Node, nor to its pods.
    pub fn assert_untouched(&self, node: &str) {
        assert_eq!(self.node_writes(node), 0, "{:?}", self.kube_writes());
        let object = self.world.kube.object("nodes", "", node).unwrap();
        assert_ne!(object["spec"]["unschedulable"], true);
        assert!(!object.to_string().contains("sundown.dev/record"), "{object}");
    }

    /// An instance of this cluster with a Node made as `shape` says; its id.
    pub fn node_of_shape(
        &self,
        name: &str,
        shape: impl FnOnce(NodeSpec, &str) -> NodeSpec,
    ) -> String {
        let id = self.lone_instance(self.instance_of_ours());
        self.world.kube.add_node(&shape(NodeSpec::named(name).instance(id.clone()), &id));
        id
    }

    /// An instance that becomes no Node by itself.
    pub fn lone_instance(&self, spec: InstanceSpec) -> String {
        let id = self.world.aws.create_instance(spec);
        self.world.keep_out(&id);
        id
    }

    /// An instance with the cluster's tag, in no group.
    pub fn instance_of_ours(&self) -> InstanceSpec {
        InstanceSpec { tags: self.cluster_tags(), ..InstanceSpec::default() }
    }

    pub fn cluster_tags(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(
            format!("kubernetes.io/cluster/{}", self.world.cluster()),
            "owned".to_owned(),
        )])
    }

    /// A group of another cluster (or of none) with a terminate hook; its instances, which are no
    /// Nodes here.
    pub fn foreign_group(
        &self,
        name: &str,
        nodes: usize,
        cluster: Option<&str>,
        hook: &HookSpec,
    ) -> Vec<String> {
        let mut spec = GroupSpec { replace_after: None, ..GroupSpec::new(name, nodes) };
        if let Some(cluster) = cluster {
            let tag = (format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned());
            spec.tags.extend([tag.clone()]);
            spec.template.tags.extend([tag]);
        }
        let instances = self.world.aws.create_group(spec);
        self.world.aws.put_hook(name, hook.clone());
        instances
    }

    /// A group of ours whose instances have no Nodes, launched `age` seconds ago.
    pub fn group_without_nodes(
        &self,
        name: &str,
        instances: usize,
        age: u64,
        hooks: &[HookSpec],
    ) -> Vec<String> {
        let mut spec = GroupSpec {
            replace_after: None,
            age: Duration::from_secs(age),
            ..GroupSpec::new(name, instances)
        };
        spec.tags = self.cluster_tags();
        spec.template.tags = self.cluster_tags();
        let before: Vec<_> = self.world.aws.instances().into_iter().map(|i| i.id).collect();
        let ids = self.world.aws.create_group(spec);
        assert!(ids.iter().all(|id| !before.contains(id)));
        for id in &ids {
            self.world.keep_out(id);
        }
        for hook in hooks {
            self.world.aws.put_hook(name, hook.clone());
        }
        ids
    }

    /// EC2 says that the instance is in this state.
    pub fn ec2_says(&self, instance: &str) -> State {
        self.world.aws.instance(instance).unwrap().state
    }
}

impl Replica {
    /// Bodies that were not understood for this reason.
    pub fn rejected(&self, reason: &str) -> f64 {
        self.metric(&format!("rejected_bodies_total{{reason=\"{reason}\"}}"))
    }
}
