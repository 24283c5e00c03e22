//! A world, replicas of the service in it, and what every run must keep to.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use aws_config::SdkConfig;
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use clap::Parser;
use sundown::{
    config::{Config, RunArgs},
    controller::{self, Board, Clock, NodeReport, Parts, Random, Spawner},
    observe::{Loops, Metrics, Readiness},
    sim::{
        World, WorldSettings,
        aws::{ActionReport, GroupSpec, HookResult, HookSpec},
        kube::{Entry, Fact},
    },
};
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    run: RunArgs,
}

/// Virtual time begins here in every test.
pub const BEGINNING: &str = "2026-01-05T09:00:00Z";

/// A world with its clock.
pub struct Stage {
    pub world: World,
    pub clock: Clock,
    pub seed: u64,
    world_tasks: Spawner,
    environment: BTreeMap<String, String>,
}

/// One process of the service.
pub struct Replica {
    pub name: String,
    pub board: Board,
    pub metrics: Arc<Metrics>,
    pub readiness: Readiness,
    pub loops: Loops,
    tasks: Spawner,
    shutdown: CancellationToken,
    service: tokio::task::JoinHandle<()>,
}

impl Stage {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        Self::with(WorldSettings::seeded(seed))
    }

    pub fn with(settings: WorldSettings) -> Self {
        let clock = Clock::starting_at(BEGINNING.parse().unwrap());
        let (seed, world_tasks) = (settings.seed, Spawner::new());
        let world = World::start(settings, clock, &world_tasks);
        Self { world, clock, seed, world_tasks, environment: BTreeMap::new() }
    }

    /// A group `asg` of `nodes` nodes with a terminate hook `drain` of this heartbeat timeout; its instances.
    pub fn group(&self, nodes: usize, heartbeat_timeout: u64) -> Vec<String> {
        let hook = HookSpec {
            heartbeat_timeout: Duration::from_secs(heartbeat_timeout),
            default_result: HookResult::Continue,
            ..HookSpec::terminating("drain")
        };
        self.world.add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", nodes) }, &[hook])
    }

    /// A group `spot` without a hook.
    pub fn spot_group(&self, nodes: usize) -> Vec<String> {
        let mut spec = GroupSpec { replace_after: None, ..GroupSpec::new("spot", nodes) };
        spec.template.spot = true;
        self.world.add_group(spec, &[])
    }

    /// Sets a plain variable (`NODE_NAME`, …) for the replicas that start from now on.
    pub fn environment(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    pub fn config(&self, flags: &[&str]) -> Config {
        let url = self.world.queue_url();
        let mut all = vec!["sundown"];
        if !flags.contains(&"--queue-url") {
            all.extend(["--queue-url", &url]);
        }
        if flags.contains(&"--no-cluster-name") {
            all.extend(flags.iter().filter(|f| **f != "--no-cluster-name"));
        } else {
            all.extend(["--cluster-name", self.world.cluster()]);
            all.extend(flags);
        }
        let environment = self.environment.clone();
        Flags::try_parse_from(all).unwrap().run.config(&|name| environment.get(name).cloned()).unwrap()
    }

    /// AWS as a replica reaches it: the access key that its calls are signed with is its name.
    fn aws_as(&self, name: &str) -> SdkConfig {
        let credentials = Credentials::new(name, "not-a-secret", None, None, "simulation");
        self.world.aws.sdk_config().into_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build()
    }

    /// Starts a replica of the service called `name` (its tag in the API server's journal, its access key in AWS's).
    pub fn start(&self, name: &str, flags: &[&str]) -> Replica {
        let config = Arc::new(self.config(flags));
        let (tasks, shutdown, board) = (Spawner::new(), CancellationToken::new(), Board::default());
        let metrics = Arc::new(Metrics::new(&controller::words()));
        let (loops, readiness) = (Loops::new(self.clock), Readiness::default());
        let seed = self.seed ^ name.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let service = tasks.spawn(controller::serve(Parts {
            config,
            kube: self.world.kube.client_as(name),
            aws: self.aws_as(name),
            clock: self.clock,
            random: Random::seeded(seed),
            spawner: tasks.clone(),
            metrics: Arc::clone(&metrics),
            loops: loops.clone(),
            readiness: readiness.clone(),
            board: board.clone(),
            shutdown: shutdown.clone(),
        }));
        Replica { name: name.to_owned(), board, metrics, readiness, loops, tasks, shutdown, service }
    }

    /// Lets the world go on for so many seconds.
    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until `holds`, for `limit` seconds at most; fails the test with `what` if it never does.
    pub async fn until(&self, limit: u64, what: &str, mut holds: impl FnMut() -> bool) {
        let end = tokio::time::Instant::now() + Duration::from_secs(limit);
        while !holds() {
            assert!(tokio::time::Instant::now() < end, "not within {limit} s: {what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The Node of an instance, as JSON.
    pub fn node(&self, instance: &str) -> serde_json::Value {
        let name = self.world.node_of(instance).unwrap_or_else(|| panic!("{instance} has no Node"));
        self.world.kube.object("nodes", "", &name).unwrap()
    }

    pub fn is_cordoned(&self, instance: &str) -> bool {
        self.world.node_of(instance).is_some() && self.node(instance)["spec"]["unschedulable"] == true
    }

    pub fn record(&self, instance: &str) -> Option<serde_json::Value> {
        let text = self.node(instance)["metadata"]["annotations"]["sundown.dev/record"].as_str()?.to_owned();
        Some(serde_json::from_str(&text).unwrap())
    }

    /// The lifecycle actions of an instance.
    pub fn actions(&self, instance: &str) -> Vec<ActionReport> {
        self.world.aws.actions().into_iter().filter(|a| a.instance == instance).collect()
    }

    /// Messages that are in the queue, visible or not.
    pub fn in_queue(&self) -> usize {
        let queue = self.world.aws.queue(self.world.queue()).unwrap();
        queue.visible + queue.in_flight
    }

    /// What the replicas did to pods and nodes, by anyone whose name starts with `sundown`.
    pub fn deeds(&self) -> Vec<Entry> {
        self.world.kube.journal().into_iter().filter(|e| e.by.starts_with("sundown")).collect()
    }

    /// Evictions and deletions that replicas had accepted: pod name, grace, whether it was a deletion, overrun budgets.
    pub fn removals(&self) -> Vec<(String, u64, bool, Vec<String>)> {
        let removal = |e: Entry| match e.fact {
            Fact::Evicted { pod, grace, overrun, .. } => Some((pod.name, grace, false, overrun)),
            Fact::Deleted { pod, grace, overrun, .. } => Some((pod.name, grace, true, overrun)),
            _ => None,
        };
        self.deeds().into_iter().filter_map(removal).collect()
    }

    /// What every run must keep to, however it went.
    pub fn check(&self) {
        for entry in self.deeds() {
            if let Fact::Evicted { pod, grace, .. } | Fact::Deleted { pod, grace, .. } = &entry.fact {
                assert!(*grace > 0, "a grace of zero for {pod:?}");
                assert!(!pod.name.contains("daemon") && !pod.name.contains("mirror"), "{pod:?} must never be touched");
            }
            if let Fact::Evicted { overrun, pod, .. } = &entry.fact {
                assert!(overrun.is_empty(), "the eviction of {pod:?} overran {overrun:?}");
            }
        }
        for action in self.world.aws.actions() {
            let completed = action.end.as_ref().map(|e| e.at);
            for beat in &action.beats {
                assert!(completed.is_none_or(|at| *beat <= at), "a heartbeat after the completion of {}", action.instance);
            }
        }
    }

    /// The world ends.
    pub fn end(self) {
        self.check();
        self.end_unjudged();
    }

    /// The world ends; somebody else judges.
    pub fn end_unjudged(self) {
        self.world.kube.stop();
        self.world_tasks.kill();
    }
}

impl Replica {
    /// SIGTERM; waits for its end.
    pub async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(10), self.service).await.expect("it ends within seconds").unwrap();
        self.tasks.kill();
    }

    /// kill -9.
    pub fn kill(self) {
        self.end();
    }

    /// The same, for who wants to look at its metrics afterwards.
    pub fn end(&self) {
        self.tasks.kill();
    }

    /// The drain of a node, as the board shows it.
    pub fn drain(&self, node: &str) -> Option<NodeReport> {
        self.board.snapshot().get(&node.into()).cloned()
    }

    /// The value of a metric, labels as OpenMetrics writes them: `messages_total{kind="spot",outcome="accepted"}`.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.render().unwrap();
        let full = format!("sundown_{name} ");
        let line = text.lines().find(|l| l.starts_with(&full)).unwrap_or_else(|| panic!("no metric {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// So many messages of a kind had this outcome.
    pub fn messages(&self, kind: &str, outcome: &str) -> f64 {
        self.metric(&format!("messages_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}"))
    }
}
