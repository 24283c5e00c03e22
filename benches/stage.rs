//! A world on loopback, and the service as a process beside it.

use std::{
    fs,
    future::Future,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use sundown::{
    domain::Moment,
    runtime::{Clock, Spawner},
    sim::{
        World, WorldSettings,
        aws::{GroupSpec, HookResult, HookSpec, Verdict},
        http::{Server, loopback},
        kube::{EmbeddedKube, Request},
    },
};

use crate::process::{Process, sundown};

/// How long anything may take before the benchmark gives up.
const LIMIT: Duration = Duration::from_mins(5);

/// A world, where it is served, and a folder for the processes.
pub struct Stage {
    pub world: World,
    pub clock: Clock,
    aws: Server,
    _kube: Server,
    folder: PathBuf,
    tasks: Spawner,
}

/// A runtime as the service has one.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

/// As much as a test's world, without the journal of the cluster's own doings slowing anything but
/// this process.
pub fn settings() -> WorldSettings {
    WorldSettings::seeded(1)
}

impl Stage {
    pub async fn new(name: &str, settings: WorldSettings) -> Self {
        let (tasks, clock) = (Spawner::new(), Clock::system());
        let world = World::start(settings, clock, &tasks);
        let aws = world.aws.serve(loopback().await.unwrap(), &tasks).unwrap();
        let kube = world.kube.serve(loopback().await.unwrap(), &tasks).unwrap();
        let folder =
            std::env::temp_dir().join(format!("sundown-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kubeconfig"), EmbeddedKube::kubeconfig(kube.address())).unwrap();
        Self { world, clock, aws, _kube: kube, folder, tasks }
    }

    /// A group of nodes without a hook.
    pub fn spot_group(&self, nodes: usize) -> Vec<String> {
        let mut spec = GroupSpec { replace_after: None, ..GroupSpec::new("spot", nodes) };
        spec.template.spot = true;
        self.world.add_group(spec, &[])
    }

    /// A group of nodes with a terminate hook.
    pub fn group(&self, nodes: usize) -> Vec<String> {
        let hook =
            HookSpec { default_result: HookResult::Continue, ..HookSpec::terminating("drain") };
        self.world
            .add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", nodes) }, &[hook])
    }

    /// Starts the service and waits until it leads and is ready.
    pub async fn service(&self) -> Process {
        let mut process = self.start();
        process.ready().await;
        process.counts("leader", 1.0).await;
        process
    }

    /// Starts the service.
    pub fn start(&self) -> Process {
        self.replica("sundown")
    }

    /// Starts the service; its output goes to files of this name.
    pub fn replica(&self, name: &str) -> Process {
        self.replica_with(name, &[])
    }

    /// The same, with these flags.
    pub fn replica_with(&self, name: &str, flags: &[&str]) -> Process {
        let mut command: Command = sundown(&self.folder);
        command.args([
            "run",
            "--queue-url",
            &self.world.queue_url(),
            "--cluster-name",
            self.world.cluster(),
        ]);
        command.args([
            "--aws-endpoint-url",
            &self.aws.url(),
            "--metrics-listen",
            "127.0.0.1:0",
            "--probe-listen",
            "127.0.0.1:0",
        ]);
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(flags);
        command.envs([
            ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
            ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]);
        Process::start(name, &self.folder, &mut command)
    }

    /// How the API server is reached over TCP.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Where the embedded AWS is reached over TCP.
    pub fn aws_url(&self) -> String {
        self.aws.url()
    }

    /// Waits until this is so.
    pub async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds() {
            assert!(Instant::now() < end, "it does not happen that {what}");
            // Seldom: looking takes the lock that the servers need.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Every action was completed with CONTINUE by the service, and nothing but what was added by
    /// the cluster itself is left on a node: who evicts nobody is not fast.
    pub fn went_well(&self) {
        for action in self.world.aws.actions() {
            let end = action.end.as_ref().expect("it has ended");
            assert_eq!(
                (end.verdict, end.by.as_str()),
                (Verdict::Completed(HookResult::Continue), "AKIASUNDOWN"),
                "{action:?}"
            );
        }
        let left = self
            .world
            .nodes()
            .into_values()
            .flat_map(|node| self.world.kube.pods_on(&node))
            .count();
        assert_eq!(left, 0, "pods are left");
    }

    /// Nodes with a record.
    pub fn records(&self) -> usize {
        self.with_record(|_| true)
    }

    /// Nodes with the record of a drain that has ended.
    pub fn ended(&self) -> usize {
        self.with_record(|record| record.contains("\"released\":"))
    }

    fn with_record(&self, is_so: impl Fn(&str) -> bool) -> usize {
        let record = |node: &serde_json::Value, _: Moment| {
            node.pointer("/metadata/annotations/sundown.dev~1record")?
                .as_str()
                .filter(|r| is_so(r))
                .map(drop)
        };
        self.world.kube.collect("nodes", record).len()
    }

    /// Messages in the queue, visible or not.
    pub fn in_queue(&self) -> usize {
        let queue = self.world.aws.queue(self.world.queue()).unwrap();
        queue.visible + queue.in_flight
    }

    /// What the service asked the API server since `from`.
    pub fn asked(&self, from: Moment) -> Vec<Request> {
        self.world
            .kube
            .requests()
            .into_iter()
            .filter(|r| r.client.starts_with("sundown/") && r.at >= from)
            .collect()
    }

    /// What the service called at AWS since `from`. Long polls that ended after the last message
    /// was deleted came back empty and are no part of the work: an idle queue is polled as well.
    pub fn called(&self, from: Moment) -> Vec<String> {
        let calls: Vec<_> = self
            .world
            .aws
            .calls()
            .into_iter()
            .filter(|c| c.at >= from && c.by == "AKIASUNDOWN")
            .collect();
        let last = calls.iter().filter(|c| c.api == "sqs:DeleteMessageBatch").map(|c| c.at).max();
        calls
            .into_iter()
            .filter(|c| c.api != "sqs:ReceiveMessage" || Some(c.at) <= last)
            .map(|c| c.api)
            .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.world.kube.stop();
        self.tasks.kill();
        drop(fs::remove_dir_all(&self.folder));
    }
}
