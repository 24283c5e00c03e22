//! A world, replicas of the service in it, and what every run must keep to.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Once},
    time::Duration,
};

use aws_config::SdkConfig;
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use clap::Parser;
use sundown::{
    config::{Config, RunArgs},
    controller::{self, Board, NodeReport, Parts, Sinks},
    domain::Moment,
    observe::{Loops, Metrics, Readiness},
    runtime::{Clock, Random, Spawner},
    sim::{
        Disturbance, World, WorldSettings,
        aws::{ActionReport, GroupSpec, HookResult, HookSpec, SentMessage},
        kube::{Entry, Fact},
    },
};
use tokio_util::sync::CancellationToken;

use crate::judge::{Belongs, Evidence, Rule, Terms, events::Event, judge_any};

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    run: RunArgs,
}

/// Not a flag of the service: leaves `--cluster-name` out.
pub const NO_CLUSTER_NAME: &str = "--no-cluster-name";

/// Virtual time begins here in every test.
pub const BEGINNING: &str = "2026-01-05T09:00:00Z";

thread_local! { static PANICS: Cell<usize> = const { Cell::new(0) }; }

/// A panic in a task is swallowed by its handle; here it is counted. Every test has a thread of its
/// own, on which all of its tasks run.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.with(|n| n.set(n.get() + 1));
            before(info);
        }));
    });
}

/// A world with its clock.
pub struct Stage {
    pub world: World,
    pub clock: Clock,
    pub seed: u64,
    /// Panics on this thread before it began.
    panics_before: usize,
    /// The `--drain-timeout`s of the replicas so far, in seconds.
    drain_timeouts: RefCell<Vec<u64>>,
    /// The flags of each replica so far.
    flags: RefCell<Vec<(String, Vec<String>)>>,
    world_tasks: Spawner,
    environment: BTreeMap<String, String>,
    /// Where the replicas that start from now on tell what happens.
    pub sinks: RefCell<Sinks>,
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
        count_panics();
        let panics_before = PANICS.with(Cell::get);
        let clock = Clock::starting_at(BEGINNING.parse().unwrap());
        let (seed, world_tasks) = (settings.seed, Spawner::new());
        let world = World::start(settings, clock, &world_tasks);
        Self {
            world,
            clock,
            seed,
            panics_before,
            drain_timeouts: RefCell::default(),
            flags: RefCell::default(),
            world_tasks,
            environment: BTreeMap::new(),
            sinks: RefCell::default(),
        }
    }

    /// A group `asg` of `nodes` nodes with a terminate hook `drain` of this heartbeat timeout; its
    /// instances.
    pub fn group(&self, nodes: usize, heartbeat_timeout: u64) -> Vec<String> {
        let hook = HookSpec {
            heartbeat_timeout: Duration::from_secs(heartbeat_timeout),
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
        // Few tests are about lost events. In the others, what no test asked for must not happen.
        if !flags.iter().any(|flag| flag.starts_with("--sweep-interval")) {
            all.extend(["--sweep-interval", "0s"]);
        }
        if flags.contains(&NO_CLUSTER_NAME) {
            all.extend(flags.iter().filter(|f| **f != NO_CLUSTER_NAME));
        } else {
            all.extend(["--cluster-name", self.world.cluster()]);
            all.extend(flags);
        }
        let environment = self.environment.clone();
        Flags::try_parse_from(all)
            .unwrap()
            .run
            .config(&|name| environment.get(name).cloned())
            .unwrap()
    }

    /// AWS as a replica reaches it: the access key that its calls are signed with is its name.
    fn aws_as(&self, name: &str) -> SdkConfig {
        let credentials = Credentials::new(name, "not-a-secret", None, None, "simulation");
        self.world
            .aws
            .sdk_config()
            .into_builder()
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build()
    }

    /// Starts a replica of the service called `name` (its tag in the API server's journal, its
    /// access key in AWS's).
    pub fn start(&self, name: &str, flags: &[&str]) -> Replica {
        self.start_with_clock(name, flags, self.clock)
    }

    /// The same on a machine with its own clock.
    pub fn start_with_clock(&self, name: &str, flags: &[&str], clock: Clock) -> Replica {
        let config = Arc::new(self.config(flags));
        self.drain_timeouts.borrow_mut().push(config.drain.timeout.map_or(3_600, |t| t.as_secs()));
        self.flags
            .borrow_mut()
            .push((name.to_owned(), flags.iter().map(|f| (*f).to_owned()).collect()));
        let (tasks, shutdown, board) = (Spawner::new(), CancellationToken::new(), Board::default());
        let metrics = Arc::new(Metrics::new(&controller::label_values()));
        let (loops, readiness) = (Loops::new(clock), Readiness::default());
        let seed = self.seed
            ^ name.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
                (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
            });
        let service = tasks.spawn(controller::serve(Parts {
            config,
            kube: self.world.kube.client_as(name),
            aws: self.aws_as(name),
            clock,
            random: Random::seeded(seed),
            spawner: tasks.clone(),
            metrics: Arc::clone(&metrics),
            loops: loops.clone(),
            readiness: readiness.clone(),
            board: board.clone(),
            sinks: self.sinks.borrow().clone(),
            shutdown: shutdown.clone(),
        }));
        Replica {
            name: name.to_owned(),
            board,
            metrics,
            readiness,
            loops,
            tasks,
            shutdown,
            service,
        }
    }

    /// Lets the world go on for so many seconds.
    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until `holds`, for `limit` seconds at most; fails the test with `what` if it never
    /// does.
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
        self.world.node_of(instance).is_some()
            && self.node(instance)["spec"]["unschedulable"] == true
    }

    pub fn record(&self, instance: &str) -> Option<serde_json::Value> {
        let text = self.node(instance)["metadata"]["annotations"]["sundown.dev/record"]
            .as_str()?
            .to_owned();
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

    /// Evictions and deletions that replicas had accepted: pod name, grace, whether it was a
    /// deletion, overrun budgets.
    pub fn removals(&self) -> Vec<(String, u64, bool, Vec<String>)> {
        let removal = |e: Entry| match e.fact {
            Fact::Evicted { pod, grace, overrun, .. } => Some((pod.name, grace, false, overrun)),
            Fact::Deleted { pod, grace, overrun, .. } => Some((pod.name, grace, true, overrun)),
            _ => None,
        };
        self.deeds().into_iter().filter_map(removal).collect()
    }

    /// How often something panicked since it began.
    pub fn panics(&self) -> usize {
        PANICS.with(Cell::get) - self.panics_before
    }

    /// What was broken of that which every run must keep to, however it went, except for these
    /// rules.
    pub fn broken(&self, except: &[Rule]) -> Vec<String> {
        let mut broken = judge_any(&self.evidence(), except);
        if self.panics() > 0 {
            broken.push(format!("{} panics in tasks", self.panics()));
        }
        broken
    }

    /// What the embedded AWS and Kubernetes saw, for a judge who does not know what a test meant to
    /// do.
    pub fn evidence(&self) -> Evidence {
        let aws = &self.world.aws;
        let (entries, actions) = (self.world.kube.journal(), aws.actions());
        let mut nodes = BTreeMap::new();
        for entry in &entries {
            if let Fact::Annotated { node, provider_id, .. } = &entry.fact
                && let Some((_, instance)) = provider_id.rsplit_once('/')
            {
                nodes.insert(instance.to_owned(), node.clone());
            }
        }
        // A Node without a providerID goes by the name that EC2 gives its instance.
        for instance in aws.instances() {
            let names = [&instance.private_dns, &instance.id];
            let of_it = |e: &&Entry| {
                matches!(
                    &e.fact,
                    Fact::Annotated { node, provider_id, .. } if provider_id.is_empty() && names.contains(&node)
                )
            };
            if let Some(Fact::Annotated { node, .. }) = entries.iter().find(of_it).map(|e| &e.fact)
            {
                nodes.entry(instance.id.clone()).or_insert_with(|| node.clone());
            }
        }
        let mut groups: BTreeMap<_, _> =
            actions.iter().map(|a| (a.instance.clone(), a.group.clone())).collect();
        groups.extend(aws.instances().into_iter().filter_map(|i| Some((i.id, i.group?))));
        let blocks = aws.instances().into_iter();
        let blocks = blocks.filter_map(|i| Some((i.id, i.capacity_reservation?))).collect();
        let now = self.clock.now();
        let starts = self.drain_timeouts.borrow().len();
        Evidence {
            terms: self.terms(),
            begun: BEGINNING.parse().unwrap(),
            ended: now,
            aws_ahead: jiff::SignedDuration::ZERO,
            restless: Vec::new(),
            entries,
            requests: self.world.kube.requests(),
            calls: aws.calls(),
            actions,
            messages: self.messages(),
            deletions: aws.deletions(),
            events: self.events(),
            changes: Vec::new(),
            service_changes: aws.service_changes(),
            volumes: Vec::new(),
            check_changes: aws.check_changes(),
            nodes,
            groups,
            blocks,
            scheduled: aws.scheduled(),
            disturbances: self.disturbances(),
            ends: Vec::new(),
            frozen: Vec::new(),
            pauses: self.pauses(),
            queue_away: Vec::new(),
            evictions_hang: Vec::new(),
            hands: Vec::new(),
            acts: Vec::new(),
            panics: self.panics(),
            own_nodes: BTreeMap::new(),
            lives: (0..starts).map(|n| (n, now, None)).collect(),
            thefts: 0,
            idle: 0,
        }
    }

    /// Those of queues that somebody reads. Tests have others, to see what AWS sends.
    fn messages(&self) -> Vec<SentMessage> {
        let aws = &self.world.aws;
        let calls = aws.calls();
        let is_read =
            |queue: &str| calls.iter().any(|c| c.api == "sqs:ReceiveMessage" && c.object == queue);
        aws.messages().into_iter().filter(|message| is_read(&message.queue)).collect()
    }

    /// From when to when everything was paused.
    fn pauses(&self) -> Vec<(Moment, Moment)> {
        let mut all: Vec<(Moment, Moment)> = Vec::new();
        let mut since = None;
        for entry in self.world.kube.journal() {
            match entry.fact {
                Fact::PausedAll { paused: true, .. } => since = since.or(Some(entry.at)),
                Fact::PausedAll { paused: false, .. } => {
                    all.extend(since.take().map(|from| (from, entry.at)));
                }
                _ => {}
            }
        }
        all.extend(since.map(|from| (from, self.clock.now())));
        all
    }

    /// What met a fault, of both servers.
    pub fn disturbances(&self) -> Vec<Disturbance> {
        let (aws, kube) = (self.world.aws.disturbances(), self.world.kube.disturbances());
        aws.into_iter().chain(kube).collect()
    }

    /// The Events that are there.
    pub fn events(&self) -> BTreeSet<Event> {
        self.world.kube.collect("events", Event::of).into_iter().collect()
    }

    /// Groups are ours by the tags of their instances, nodes somebody else's by what they wear in
    /// the end.
    fn terms(&self) -> Terms {
        let tag = format!("kubernetes.io/cluster/{}", self.world.cluster());
        // EC2 forgets what is gone, tags first: a group that nothing is left of is taken for ours.
        let actions = self.world.aws.actions();
        let heartbeat_timeouts = actions
            .iter()
            .map(|a| ((a.group.clone(), a.hook.clone()), a.heartbeat_timeout))
            .collect();
        let mut groups: BTreeMap<_, _> =
            actions.into_iter().map(|a| (a.group, Belongs::Us)).collect();
        for instance in self.world.aws.instances().into_iter().filter(|i| !i.state.is_terminal()) {
            let Some(group) = instance.group else { continue };
            let node = self
                .world
                .node_of(&instance.id)
                .and_then(|n| self.world.kube.object("nodes", "", &n))
                .unwrap_or_default();
            let belongs = if !instance.tags.contains_key(&tag) {
                Belongs::OtherCluster
            } else if node["metadata"]["labels"]["karpenter.sh/nodepool"].is_string() {
                Belongs::Karpenter
            } else {
                Belongs::Us
            };
            groups.insert(group, belongs);
        }
        let drain_timeout = self.drain_timeouts.borrow().iter().copied().min().unwrap_or(3_600);
        Terms {
            retaining: self.world.aws.retaining_groups(),
            groups,
            heartbeat_timeouts,
            metadata: BTreeMap::new(),
            drain_timeout,
            complete_delay: 0,
            graces: Vec::new(),
            single_graces: Vec::new(),
            traits: Vec::new(),
            rules: Vec::new(),
            clocks_differ: false,
            calm: false,
            flags: self.flags.borrow().clone(),
            budgets: Vec::new(),
        }
    }

    /// What every run must keep to, however it went.
    pub fn check(&self) {
        let broken = self.broken(&[]);
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    /// The world ends.
    pub fn end(self) {
        self.check();
        self.end_unjudged();
    }

    /// The world ends, in which these rules cannot hold; `why` says what makes it so.
    pub fn end_except(self, except: &[Rule], why: &str) {
        assert!(!why.is_empty() && !except.is_empty());
        let broken = self.broken(except);
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        self.end_unjudged();
    }

    /// The world ends; somebody else judges.
    pub fn end_unjudged(self) {
        self.world.kube.stop();
        self.world_tasks.kill();
    }
}

impl Replica {
    /// SIGTERM; waits for its end, which comes when its long poll of 20 s has ended: within the 30
    /// s that a pod has.
    pub async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(25), self.service)
            .await
            .expect("it ends in the time of a pod")
            .unwrap();
        self.tasks.kill();
    }

    /// kill -9.
    pub fn kill(self) {
        self.end();
    }

    /// What kills it, for something that happens while the service runs.
    pub fn killer(&self) -> impl FnOnce() + Send + 'static {
        let tasks = self.tasks.clone();
        move || tasks.kill()
    }

    /// The same, for who wants to look at its metrics afterwards.
    pub fn end(&self) {
        self.tasks.kill();
    }

    /// The drain of a node, as the board shows it.
    pub fn drain(&self, node: &str) -> Option<NodeReport> {
        self.board.snapshot().get(&node.into()).cloned()
    }

    /// The value of a metric, labels as OpenMetrics writes them:
    /// `messages_total{kind="spot",outcome="accepted"}`.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.render().unwrap();
        let full = format!("sundown_{name} ");
        let line = text
            .lines()
            .find(|l| l.starts_with(&full))
            .unwrap_or_else(|| panic!("no metric {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// So many messages of a kind had this outcome.
    pub fn messages(&self, kind: &str, outcome: &str) -> f64 {
        self.metric(&format!("messages_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}"))
    }
}
