//! A control plane with nodes that the embedded AWS knows, and Sundown as a process.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sundown::{
    runtime::{Clock, Spawner},
    sim::{
        World, WorldSettings,
        aws::{ActionReport, GroupSpec, HookResult, HookSpec},
        http::{Server, loopback},
    },
};

use crate::{
    cluster::{ADMIN, Cluster, Flags, SUNDOWN},
    log::Log,
    process::{LIMIT, Process, sundown},
};

/// How long a hook lasts without a heartbeat if the test sets no other time.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(5);

/// The real Kubernetes, the embedded AWS.
pub struct Stage {
    pub cluster: Cluster,
    pub world: World,
    /// The API server's audit log.
    pub audit: Log,
    admin: kube::Client,
    aws: Server,
    tasks: Spawner,
}

impl Stage {
    /// `None` if no control plane is available; the output of the test has the reason.
    pub async fn new(seed: u64) -> Option<Self> {
        Self::of(seed, &Flags::default()).await
    }

    /// As [`new`](Self::new), with flags for the API server.
    #[allow(dead_code, reason = "what only tests need of it")]
    pub async fn with(seed: u64, flags: &[&str]) -> Option<Self> {
        Self::of(seed, &Flags { api_server: flags, ..Flags::default() }).await
    }

    /// As [`new`](Self::new), with flags.
    pub async fn of(seed: u64, flags: &Flags<'_>) -> Option<Self> {
        let stage = Self::bare(seed, flags).await?;
        // As in the documentation, with the policy that refuses what Sundown never writes; the
        // pods of this Deployment are kwok's and do nothing.
        stage
            .cluster
            .kubectl(&[
                "apply",
                "-k",
                concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/manifests/overlays/admission-policy"),
            ])
            .await;
        Some(stage)
    }

    /// As [`of`](Self::of), with nothing of Sundown applied.
    pub async fn bare(seed: u64, flags: &Flags<'_>) -> Option<Self> {
        let Some(tools) = crate::cluster::tools() else {
            crate::skip::skip("SUNDOWN_CONTROL_PLANE is not set; see tests/control-plane/build");
            return None;
        };
        let tasks = Spawner::new();
        let world = World::start(WorldSettings::seeded(seed), Clock::system(), &tasks);
        let aws = world.aws.serve(loopback().await.unwrap(), &tasks).unwrap();
        let cluster = Cluster::start(tools, flags).await;
        let admin = cluster.client(ADMIN);
        let audit = Log::from(cluster.folder.path().join("audit.log"), 0);
        Some(Self { cluster, world, audit, admin, aws, tasks })
    }

    /// A group with a terminate hook `drain`, with ready Nodes. Its instances.
    pub async fn group(&self, nodes: usize) -> Vec<String> {
        self.group_kept_alive(nodes, HEARTBEAT_TIMEOUT).await
    }

    /// As [`group`](Self::group); its hook runs out without a heartbeat for so long.
    pub async fn group_kept_alive(&self, nodes: usize, heartbeat_timeout: Duration) -> Vec<String> {
        self.join(self.instances(nodes, heartbeat_timeout)).await
    }

    /// As [`group`](Self::group), of which so many only have Nodes: what is to stand on these is
    /// there before the others [`join`](Self::join). (Nodes that are cordoned would do as well,
    /// once the scheduler has heard of it, which nobody can see.)
    pub async fn group_and_refuges(
        &self,
        nodes: usize,
        refuges: usize,
        heartbeat_timeout: Duration,
    ) -> (Vec<String>, Vec<String>) {
        let mut instances = self.instances(nodes + refuges, heartbeat_timeout);
        let refuges = instances.split_off(nodes);
        (self.join(instances).await, refuges)
    }

    /// A group with a terminate hook `drain`.
    fn instances(&self, count: usize, heartbeat_timeout: Duration) -> Vec<String> {
        let hook = HookSpec {
            heartbeat_timeout,
            default_result: HookResult::Continue,
            ..HookSpec::terminating("drain")
        };
        self.world
            .add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", count) }, &[hook])
    }

    /// A group of spot instances without a hook, with ready Nodes. Its instances.
    pub async fn spot_group(&self, nodes: usize) -> Vec<String> {
        let mut spec = GroupSpec { replace_after: None, ..GroupSpec::new("spot", nodes) };
        spec.template.spot = true;
        self.join(self.world.add_group(spec, &[])).await
    }

    /// Makes ready Nodes of these instances.
    pub async fn join(&self, instances: Vec<String>) -> Vec<String> {
        for (n, instance) in instances.iter().enumerate() {
            self.add_node(&node_name(instance), instance, n).await;
        }
        for instance in &instances {
            let path = format!("/api/v1/nodes/{}", node_name(instance));
            self.until("the node is ready", &path, |node| condition(node, "Ready")).await;
        }
        instances
    }

    /// Adds the Node of an instance.
    pub async fn add_node(&self, name: &str, instance: &str, n: usize) {
        self.create("/api/v1/nodes", &node(name, instance, n)).await;
    }

    /// Where the embedded AWS is.
    pub fn aws_url(&self) -> String {
        self.aws.url()
    }

    /// POSTs an object.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(object).unwrap())
            .unwrap();
        self.admin
            .request::<Value>(request)
            .await
            .unwrap_or_else(|error| panic!("cannot create {object} at {path}: {error}"))
    }

    /// GETs an object, or a list.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        match self.admin.request::<Value>(request).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("cannot get {path}: {error}"),
        }
    }

    /// The Node of an instance.
    pub async fn node(&self, instance: &str) -> Value {
        self.get(&format!("/api/v1/nodes/{}", node_name(instance)))
            .await
            .expect("the node is there")
    }

    /// Names of the pods on a node in this namespace.
    pub async fn pods_on(&self, node: &str, namespace: &str) -> Vec<String> {
        let list = self
            .get(&format!(
                "/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName%3D{node}"
            ))
            .await
            .unwrap();
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    }

    /// Waits until an object is so.
    pub async fn until(&self, what: &str, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        loop {
            let object = self.get(path).await;
            match object {
                Some(object) if holds(&object) => return object,
                last => assert!(
                    Instant::now() < end,
                    "it does not happen that {what}: {path} is {last:?}"
                ),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the action of an instance has ended.
    pub async fn completed(&self, instance: &str) -> ActionReport {
        let end = Instant::now() + LIMIT;
        loop {
            let action = self
                .world
                .aws
                .actions()
                .into_iter()
                .find(|a| a.instance == instance && a.end.is_some());
            if let Some(action) = action {
                return action;
            }
            assert!(Instant::now() < end, "the action of {instance} does not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts `sundown run` and waits until it leads and is ready.
    pub async fn leader(&self, name: &str, flags: &[&str]) -> Process {
        let mut process = self.replica(name, flags).await;
        process.counts("leader", 1.0).await;
        process
    }

    /// Starts `sundown run` with the rights of `deploy/manifests` and waits until it is ready.
    pub async fn replica(&self, name: &str, flags: &[&str]) -> Process {
        let mut process = self.start(name, SUNDOWN, flags);
        process.ready().await;
        process
    }

    /// Starts `sundown run` with this token.
    pub fn start(&self, name: &str, token: &str, flags: &[&str]) -> Process {
        let folder = self.cluster.folder.path();
        let mut command: Command = sundown(folder);
        command.args(["run", "--cluster-name", self.world.cluster()]);
        if !flags.contains(&"--queue-url") {
            command.args(["--queue-url", &self.world.queue_url()]);
        }
        command.args([
            "--aws-endpoint-url",
            &self.aws.url(),
            "--metrics-listen",
            "127.0.0.1:0",
            "--probe-listen",
            "127.0.0.1:0",
            "--lease-namespace",
            "sundown",
        ]);
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig(token)).args(flags);
        command.envs([
            ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
            ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]);
        Process::start(name, folder, &mut command)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

/// The Node of an instance, the `n`th of its cluster, as kwok keeps it.
pub fn node(name: &str, instance: &str, n: usize) -> Value {
    let zone = ["eu-west-1a", "eu-west-1b", "eu-west-1c"][n % 3];
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone,
                "kubernetes.io/os": "linux"
            },
            "annotations": { "kwok.x-k8s.io/node": "fake" },
        },
        "spec": { "providerID": format!("aws:///{zone}/{instance}") },
    })
}

/// What its Node is called.
pub fn node_name(instance: &str) -> String {
    format!("node-{instance}")
}

/// A condition of an object's status is true.
pub fn condition(object: &Value, kind: &str) -> bool {
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["type"] == kind && c["status"] == "True")
}
