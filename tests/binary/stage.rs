//! A world on loopback, for processes.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;
use sundown::{
    runtime::{Clock, Spawner},
    sim::{
        World, WorldSettings,
        aws::{ActionReport, GroupSpec, HookResult, HookSpec},
        http::{Server, loopback},
        kube::{EmbeddedKube, Entry, Fact},
    },
};

use crate::process::{CommandOutput, Folder, LIMIT, Process, run, sundown};

/// A world, and where it is served.
pub struct Stage {
    pub world: World,
    pub folder: Folder,
    aws: Server,
    kubeconfig: PathBuf,
    _kube: Server,
    _tasks: Spawner,
}

impl Stage {
    pub async fn new(seed: u64) -> Self {
        let tasks = Spawner::new();
        let world = World::start(WorldSettings::seeded(seed), Clock::system(), &tasks);
        let aws = world.aws.serve(loopback().await.unwrap(), &tasks).unwrap();
        let kube = world.kube.serve(loopback().await.unwrap(), &tasks).unwrap();
        let folder = Folder::new();
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, EmbeddedKube::kubeconfig(kube.address())).unwrap();
        Self { world, folder, aws, kubeconfig, _kube: kube, _tasks: tasks }
    }

    /// A group `asg` of `nodes` nodes with a terminate hook `drain`; its instances.
    pub fn group(&self, nodes: usize) -> Vec<String> {
        let hook = HookSpec {
            heartbeat_timeout: Duration::from_mins(5),
            default_result: HookResult::Continue,
            ..HookSpec::terminating("drain")
        };
        self.world
            .add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", nodes) }, &[hook])
    }

    /// A group `spot` without a hook.
    pub fn spot_group(&self, nodes: usize) -> Vec<String> {
        let mut spec = GroupSpec { replace_after: None, ..GroupSpec::new("spot", nodes) };
        spec.template.spot = true;
        self.world.add_group(spec, &[])
    }

    /// `sundown run` with the minimum of flags, and these.
    pub fn command(&self, flags: &[&str]) -> Command {
        let (queue, aws, kubeconfig) =
            (self.world.queue_url(), self.aws.url(), self.kubeconfig.to_str().unwrap());
        let usual = [
            ("--queue-url", queue.as_str()),
            ("--cluster-name", self.world.cluster()),
            ("--aws-endpoint-url", &aws),
            ("--kubeconfig", kubeconfig),
            ("--metrics-listen", "127.0.0.1:0"),
            ("--probe-listen", "127.0.0.1:0"),
        ];
        let mut command = sundown(self.folder.path());
        command.arg("run").args(flags);
        command.args(
            usual
                .into_iter()
                .filter(|(flag, _)| !flags.contains(flag))
                .flat_map(|(flag, value)| [flag, value]),
        );
        command.envs([
            ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
            ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]);
        command
    }

    /// Starts `sundown run`.
    pub fn start(&self, name: &str, flags: &[&str]) -> Process {
        Process::start(name, self.folder.path(), &mut self.command(flags))
    }

    /// Starts `sundown run` and waits until it leads and is ready.
    pub async fn leader(&self, name: &str, flags: &[&str]) -> Process {
        let mut process = self.start(name, flags);
        process.ready().await;
        process.counts("leader", 1.0).await;
        process
    }

    /// Another command than `run`, in the environment of a pod of this world, to its end.
    pub async fn tool(&self, words: &[&str]) -> CommandOutput {
        self.tool_with(words, &[]).await
    }

    /// The same with variables of one's own.
    pub async fn tool_with(&self, words: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
        let mut command = sundown(self.folder.path());
        command.args(words).envs([
            ("SUNDOWN_QUEUE_URL", self.world.queue_url().as_str()),
            ("SUNDOWN_CLUSTER_NAME", self.world.cluster()),
            ("SUNDOWN_AWS_ENDPOINT_URL", &self.aws.url()),
            ("SUNDOWN_KUBECONFIG", self.kubeconfig.to_str().unwrap()),
            ("SUNDOWN_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
            ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]);
        run(self.folder.path(), command.envs(variables.iter().copied())).await
    }

    /// Where the embedded AWS listens.
    pub fn aws_url(&self) -> String {
        self.aws.url()
    }

    /// A command of a person who has credentials for AWS and for Kubernetes.
    fn command_of_person(&self, words: &[&str]) -> Command {
        let mut command = self.command_without_credentials(words);
        command.envs([
            ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
            ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
        ]);
        command
    }

    fn command_without_credentials(&self, words: &[&str]) -> Command {
        let mut command = sundown(self.folder.path());
        command.args(words).arg("--kubeconfig").arg(&self.kubeconfig).envs([
            ("SUNDOWN_AWS_ENDPOINT_URL", self.aws.url().as_str()),
            ("SUNDOWN_REGION", "eu-west-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]);
        command
    }

    /// `sundown pause`, `resume`, `release` or `status` to its end.
    pub async fn person(&self, words: &[&str]) -> CommandOutput {
        run(self.folder.path(), &mut self.command_of_person(words)).await
    }

    /// The same for a person who has credentials for Kubernetes only.
    pub async fn person_without_aws(&self, words: &[&str]) -> CommandOutput {
        run(self.folder.path(), &mut self.command_without_credentials(words)).await
    }

    /// Starts a command of a person.
    pub fn start_person(&self, name: &str, words: &[&str]) -> Process {
        Process::start(name, self.folder.path(), &mut self.command_of_person(words))
    }

    /// The kubeconfig of the embedded Kubernetes.
    pub fn kubeconfig(&self) -> &str {
        self.kubeconfig.to_str().unwrap()
    }

    /// The Events of this reason.
    pub fn events(&self, reason: &str) -> Vec<Value> {
        self.world.kube.objects("events").into_iter().filter(|e| e["reason"] == reason).collect()
    }

    /// Waits until this can be seen.
    pub async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds() {
            assert!(Instant::now() < end, "it does not happen that {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until every pod of a namespace runs.
    pub async fn pods_run(&self, count: usize) {
        self.until("all pods run", || {
            self.world.kube.pods().iter().filter(|p| p.ready).count() >= count
        })
        .await;
    }

    pub fn node_of(&self, instance: &str) -> String {
        self.world.node_of(instance).unwrap_or_else(|| panic!("{instance} has no Node"))
    }

    /// The Node of an instance, as JSON.
    pub fn node(&self, instance: &str) -> Value {
        self.world.kube.object("nodes", "", &self.node_of(instance)).unwrap()
    }

    pub fn is_cordoned(&self, instance: &str) -> bool {
        self.node(instance)["spec"]["unschedulable"] == true
    }

    /// The lifecycle action of an instance.
    pub fn action(&self, instance: &str) -> Option<ActionReport> {
        self.world.aws.actions().into_iter().find(|a| a.instance == instance)
    }

    /// The action was completed, by a call.
    pub fn is_completed(&self, instance: &str) -> bool {
        self.action(instance).and_then(|a| a.end).is_some_and(|end| !end.by.is_empty())
    }

    /// Messages in the queue, visible or not.
    pub fn in_queue(&self) -> usize {
        let queue = self.world.aws.queue(self.world.queue()).unwrap();
        queue.visible + queue.in_flight
    }

    /// Who holds the Lease.
    pub fn holder(&self) -> Option<String> {
        let lease = self.world.kube.object("leases", "kube-system", "sundown")?;
        lease["spec"]["holderIdentity"].as_str().filter(|h| !h.is_empty()).map(str::to_owned)
    }

    /// Names of the pods whose eviction was accepted, in order.
    pub fn evicted(&self) -> Vec<String> {
        let name =
            |e: Entry| if let Fact::Evicted { pod, .. } = e.fact { Some(pod.name) } else { None };
        self.world.kube.journal().into_iter().filter_map(name).collect()
    }
}
