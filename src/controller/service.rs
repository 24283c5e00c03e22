//! The service: what a run and a simulation both call, with their own clients, clock, randomness
//! and spawner.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use aws_config::SdkConfig;
use futures::future::join_all;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

use super::{
    Board, Sinks,
    context::{Lead, Shared, SharedParts, Term},
    counting::Counting,
    dead_letters,
    deleted_nodes::{self, DeletedNodes},
    fleet,
    hooks::{Granted, Hooks},
    housekeeping,
    intake::{self, Intake, IntakeHandle, IntakeObserver, IntakeView},
    message_reader, places,
    trial::TRIAL_BEGINS,
};
use crate::{
    aws::{Clients, Lookups},
    cluster::{
        BudgetWatch, Cluster, ClusterParts, DaemonSets, Gate, Health, KeepLabels, NodeIndex,
        Recorder, RecorderSettings, Settings, Target,
        lease::{
            LONGEST_RELEASE, Leadership, LeaseKeeper, LeaseParts, LeasePlace, WriteGuard,
            WritePermit,
        },
    },
    config::Config,
    domain::seconds,
    observe::{Loops, Metrics, Readiness},
    runtime::{Clock, Random, Spawner},
    triage,
};

/// What the service works with.
pub struct Parts {
    /// What it is told.
    pub config: Arc<Config>,
    /// A client for the API server, without retries of its own.
    pub kube: kube::Client,
    /// How AWS is reached: region, credentials, HTTP client, time source.
    pub aws: SdkConfig,
    /// The time.
    pub clock: Clock,
    /// Randomness.
    pub random: Random,
    /// Starts tasks.
    pub spawner: Spawner,
    /// Where everything is counted.
    pub metrics: Arc<Metrics>,
    /// Which loops must turn.
    pub loops: Loops,
    /// When it is ready.
    pub readiness: Readiness,
    /// Where drains are shown.
    pub board: Board,
    /// Where else it is told what happens.
    pub sinks: Sinks,
    /// Ends the service: it gives everything back at once, and comes to its end when the long polls
    /// do that are open.
    pub shutdown: CancellationToken,
}

/// A loop that has not turned for so long is stuck: every wait in it has a deadline that is far
/// shorter.
const STUCK: Duration = seconds(60);
/// How long the last Events may hold the Lease back; one that is on its way then, as long again.
const LAST_EVENTS: Duration = Duration::from_millis(300);

/// The intake of the term that lasts; none on a standby.
#[derive(Clone, Default)]
pub(super) struct Inlet(Arc<Mutex<Option<IntakeHandle>>>);

impl Inlet {
    fn with<T>(&self, look: impl FnOnce(&mut Option<IntakeHandle>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn view(&self) -> Option<IntakeView> {
        self.with(|handle| handle.as_ref().map(|h| h.view().clone()))
    }
}

/// Closed unless this process leads.
struct LeaderGate(WriteGuard);

impl Gate for LeaderGate {
    fn permit(&self, target: Target) -> Option<WritePermit> {
        // Giving the Lease up does not wait for Events: the recorder waits for its own requests.
        if target == Target::Event {
            self.0.time_left().map(WritePermit::within)
        } else {
            self.0.permit()
        }
    }
}

/// The conditions of `/readyz` that [`serve`] adds as it goes.
pub const AWAITED: [&str; 3] = ["nodes", "budgets", "queue"];

/// All conditions of `/readyz`.
pub(super) const CONDITIONS: [&str; 6] =
    ["nodes", "budgets", "queue", "lease", "receiving", "records"];

/// Runs until `shutdown`. Never errs: AWS and Kubernetes may come and go, both are tried again for
/// ever.
pub async fn serve(parts: Parts) {
    let config = Arc::clone(&parts.config);
    let counting = Counting(Arc::clone(&parts.metrics));
    let identity = identity(&config, &parts.random);
    let keeper = Arc::new(if config.dry_run {
        LeaseKeeper::without_lease(parts.clock)
    } else {
        LeaseKeeper::start(LeaseParts {
            client: parts.kube.clone(),
            place: LeasePlace {
                namespace: config.election.lease_namespace.clone(),
                name: config.election.lease_name.clone(),
            },
            identity: identity.clone(),
            settings: config.election.lease,
            published: config.drain.published(),
            clock: parts.clock,
            random: parts.random.clone(),
            spawner: parts.spawner.clone(),
            on_call: counting.lease(),
            on_turn: {
                let alive = parts.loops.register("lease", STUCK);
                Box::new(move || alive.turned())
            },
        })
    });
    let shared = shared(&parts, &keeper, &counting, identity);
    say_what_runs(&config);
    parts.metrics.set_dry_run(config.dry_run);
    let inlet = Inlet::default();
    readiness(&parts, &shared, &keeper, &inlet);
    let alive = parts.loops.register("look_after", STUCK);
    let look_after = parts.spawner.spawn_scoped(housekeeping::look_after(
        shared.clone(),
        Arc::clone(&keeper),
        parts.readiness.clone(),
        inlet.clone(),
        alive,
    ));
    let dead_letters = (!config.queue.dead.is_empty()).then(|| {
        // Uncounted: what is refused here holds up no drain, and must not ring as if it did.
        let uncounted = Clients::from_config(&parts.aws, parts.clock, Arc::new(()));
        parts.spawner.spawn_scoped(dead_letters::follow(shared.clone(), uncounted))
    });
    let remember_deleted_node = parts.spawner.spawn_scoped(deleted_nodes::follow(shared.clone()));
    let (mut leadership, mut without_leader) = (keeper.leadership(), keeper.without_leader());
    let mut leading: Option<Leading> = None;
    // What is beaten on although this process does not lead, because nobody else does as far as it
    // knows.
    let mut kept: Option<Hooks> = None;
    // Intakes of terms that are over: they give back what their long poll brings.
    let mut parting: Vec<AbortOnDropHandle<bool>> = Vec::new();
    loop {
        // Stranded is said before a lost leadership and unsaid after a new one, so it is looked at
        // on either side.
        let was_without_leader = *without_leader.borrow_and_update();
        let now_leading = matches!(&*leadership.borrow_and_update(), Leadership::Leader { .. });
        let is_without_leader = *without_leader.borrow();
        parts.metrics.set_leader(now_leading && !config.dry_run);
        match (now_leading, leading.take()) {
            (true, None) => {
                leading =
                    Some(Leading::begin(&shared, &parts, &counting, &keeper, &inlet, kept.take()));
            }
            (true, Some(term)) => leading = Some(term),
            (false, Some(term)) => {
                warn!("This process leads no more; it stands by.");
                let (intake, hooks) = term.lost(is_without_leader);
                kept = hooks;
                parting.retain(|ending| !ending.is_finished());
                parting.extend(intake.map(|intake| parts.spawner.spawn_scoped(intake.stop())));
            }
            (false, None) if !was_without_leader && !is_without_leader => {
                if let Some(hooks) = kept.take() {
                    info!(
                        "Another process has the Lease or may have it: the heartbeats of this \
                         process end."
                    );
                    hooks.end();
                }
            }
            (false, None) => {}
        }
        tokio::select! {
            biased;
            () = parts.shutdown.cancelled() => break,
            changed = leadership.changed() => if changed.is_err() { break },
            changed = without_leader.changed() => if changed.is_err() { break },
        }
    }
    info!(
        "Stopping: nothing more is accepted, the Lease is given up when the last writes are over, \
         and messages that are not accepted go back."
    );
    parts.metrics.set_leader(false);
    let was_leading = leading.is_some();
    let (intake, kept_alive) = leading.map(Leading::end).unzip();
    let intake = intake.flatten();
    // A leader that is giving the Lease up already has them in `kept`. Both end after the Lease: a
    // completion may be under way.
    let kept_alive = kept_alive.or(kept);
    let lease = async {
        if was_leading {
            shared.recorder.close(LAST_EVENTS).await;
        }
        keeper.release(LONGEST_RELEASE).await;
        if let Some(hooks) = kept_alive {
            hooks.end();
        }
    };
    // Long polls take their time to end; the next leader need not wait for that.
    parting.extend(intake.map(|intake| parts.spawner.spawn_scoped(intake.stop())));
    parting.retain(|ending| !ending.is_finished());
    if !parting.is_empty() && !config.dry_run {
        info!(
            "SQS does not notice that nobody listens any more: waiting until it has answered the \
             long poll that is open, some 20 s, to give back what that brings. A second signal \
             ends the process at once."
        );
    }
    futures::join!(lease, join_all(parting));
    drop((look_after, dead_letters, remember_deleted_node));
}

fn identity(config: &Config, random: &Random) -> String {
    let name = config.election.pod.as_ref().map_or("sundown", |p| p.name.as_str());
    format!("{name}_{:012x}", random.below(1 << 48))
}

fn shared(
    parts: &Parts,
    keeper: &Arc<LeaseKeeper>,
    counting: &Counting,
    identity: String,
) -> Shared {
    let config = &parts.config;
    let (guard, heartbeats) = (keeper.guard(), keeper.guard());
    let dry = config.dry_run;
    let cluster = Cluster::new(ClusterParts {
        client: parts.kube.clone(),
        clock: parts.clock,
        random: parts.random.clone(),
        spawner: parts.spawner.clone(),
        observer: Arc::new(counting.clone()),
        gate: Arc::new(LeaderGate(guard.clone())),
        // As many as the dispatcher ever has under way (`drain::DispatchSettings`).
        settings: Settings { orders: 2 * config.drain.max_in_flight, ..Settings::default() },
    });
    let labels: Vec<String> = parts
        .sinks
        .notifier
        .iter()
        .flat_map(|n| n.labels().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let keep = KeepLabels::keys(
        config.ours.nodes.keys().chain(labels.iter().map(String::as_str)).chain(places::labels()),
    );
    let aws = Clients::from_config(&parts.aws, parts.clock, Arc::new(counting.clone()));
    let instance = config.election.pod.as_ref().map_or(identity, |p| p.name.clone());
    Shared::from(SharedParts {
        nodes: NodeIndex::start(&cluster, keep),
        budgets: BudgetWatch::start(&cluster),
        daemon_sets: DaemonSets::new(&cluster),
        recorder: Recorder::start(
            &cluster,
            RecorderSettings { instance, ..RecorderSettings::default() },
        ),
        lookups: Lookups::start(&aws, &parts.random, &parts.spawner),
        policy: Arc::new(policy(config)),
        config: Arc::clone(config),
        cluster,
        aws,
        clock: parts.clock,
        random: parts.random.clone(),
        spawner: parts.spawner.clone(),
        metrics: Arc::clone(&parts.metrics),
        board: parts.board.clone(),
        lead: Lead {
            permit: Arc::new(move || guard.permit().filter(|_| !dry)),
            heartbeat: Arc::new(move || !dry && heartbeats.may_send_heartbeats()),
        },
        deleted_nodes: DeletedNodes::default(),
        granted: Granted::default(),
        confirmation: parts.readiness.flag("records"),
        real_tests_until: config.accept_real_tests.map(|length| parts.clock.now().plus(length)),
        sinks: parts.sinks.clone(),
    })
}

fn policy(config: &Config) -> triage::Policy {
    triage::Policy {
        hooks: config.ours.hooks.clone(),
        managed_tag: config.ours.managed_tag.clone(),
        cluster_name: config.ours.cluster_name.clone(),
        join_timeout: config.ours.join_timeout,
        shared_queue: config.queue.shared,
        ..triage::Policy::new(config.ours.nodes.clone())
    }
}

fn say_what_runs(config: &Config) {
    let queues: Vec<_> = config.queue.urls.iter().map(|q| q.url.as_str()).collect();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        ?queues,
        "Sundown runs. One queue belongs to one cluster."
    );
    if config.ours.cluster_name.is_none() {
        warn!(
            "No --cluster-name is given: an instance without a Node is never completed or beaten \
             for; its message waits until 5 min from its launch and is then deleted and counted as \
             unknown."
        );
    }
    if let Some(length) = config.accept_real_tests {
        warn!(for = ?length, "Test events that ask for it are acted on (--accept-real-tests): \
            whoever may send one can have nodes drained.");
    }
    if config.dry_run && config.trial.is_some() {
        warn!(
            "{TRIAL_BEGINS}, but that each event is recorded in the trial's log and deleted from \
             the trial's queue."
        );
    } else if config.dry_run {
        warn!(
            "Dry run: nothing is written to AWS or Kubernetes. Messages reappear by themselves, \
             so this needs a queue of its own; each reappearance counts towards the dead-letter \
             queue."
        );
    }
}

fn readiness(parts: &Parts, shared: &Shared, keeper: &LeaseKeeper, inlet: &Inlet) {
    let nodes = shared.nodes.clone();
    parts.readiness.add("nodes", move || watched(nodes.state(), "nodes"));
    let budgets = shared.budgets.clone();
    parts.readiness.add("budgets", move || watched(budgets.state(), "disruption budgets"));
    // A standby has nothing to confirm.
    shared.confirmation.set(Ok(()));
    let trouble = keeper.trouble();
    parts.readiness.add("lease", move || trouble.borrow().clone().map_or(Ok(()), Err));
    let inlet = inlet.clone();
    parts.readiness.add("receiving", move || {
        // A standby does not receive, and is ready all the same.
        let Some(view) = inlet.view().filter(|view| !view.healthy()) else { return Ok(()) };
        if view.crowded() {
            return Err(format!("no room for more messages: {} are held undecided", view.held()));
        }
        Err(view.troubles().first().map_or_else(
            || "nothing was received yet".to_owned(),
            |(queue, error)| format!("{queue}: {error}"),
        ))
    });
}

fn watched(health: Health, what: &str) -> Result<(), String> {
    match (health.synced, health.failing_since) {
        (false, _) => Err(format!("the {what} are not listed yet")),
        (true, Some(since)) => {
            Err(format!("the watch of the {what} has been failing since {since:.0}"))
        }
        (true, None) => Ok(()),
    }
}

/// One term of leadership, while it lasts.
struct Leading {
    term: Term,
    inlet: Inlet,
}

impl Leading {
    fn begin(
        shared: &Shared,
        parts: &Parts,
        counting: &Counting,
        keeper: &LeaseKeeper,
        inlet: &Inlet,
        kept: Option<Hooks>,
    ) -> Self {
        info!("This process leads.");
        let (term, inputs) = Term::begin(shared.clone(), kept);
        let fleet_loop = parts.loops.register("fleet", STUCK);
        if !shared.config.dry_run {
            // Both may have been silently dead while this process stood by.
            shared.nodes.restart_watch();
            shared.budgets.restart_watch();
            shared.confirmation.set(Err("the unschedulable nodes are not listed yet".to_owned()));
            // Before anything is taken up: a pause that began before this term holds from its first
            // moment.
            term.send(crate::fleet::Input::PausedAll(*keeper.paused().borrow()));
            term.spawn(fleet::work(term.clone(), inputs, fleet_loop));
            term.spawn(follow_pause(term.clone(), keeper.paused()));
        }
        let (task, slot, loops) = (term.clone(), inlet.clone(), parts.loops.clone());
        let observer: Arc<dyn IntakeObserver> = Arc::new(counting.clone());
        term.spawn(async move {
            // Nothing can be decided before the nodes are known; messages are safe in their queue.
            task.nodes.synced().await;
            let queue = &task.config.queue;
            let settings = intake::Settings {
                pollers: queue.max_pollers,
                max_held: queue.max_held,
                writes: match (task.config.dry_run, task.is_trial()) {
                    (_, true) => intake::Writes::Deletes,
                    (true, false) => intake::Writes::Nothing,
                    (false, false) => intake::Writes::All,
                },
                ..intake::Settings::default()
            };
            let queues = queue.urls.iter().map(|q| task.aws.queue(&q.url)).collect();
            let (deliveries, handle) =
                Intake::start(queues, &settings, &task.random, &task.spawner, &observer, &|| {
                    loops.register("poller", STUCK)
                });
            slot.with(|place| *place = Some(handle));
            // Alive from here on: an API server that is away must not make this process look stuck.
            let reader_loop = loops.register("desk", STUCK);
            message_reader::read(task.clone(), deliveries, reader_loop).await;
        });
        Self { term, inlet: inlet.clone() }
    }

    /// Ends the term of a process that stops: it receives no more messages and begins no write. It
    /// returns the intake, which has messages to give back, and the heartbeats, which go on while
    /// the last writes are under way. Heartbeats do no harm if another process leads by then.
    fn end(self) -> (Option<IntakeHandle>, Hooks) {
        let handle = self.stop_receiving();
        let hooks = self.term.strand();
        self.term.confirmation.set(Ok(()));
        (handle, hooks)
    }

    /// Leadership is lost: whatever the term started ends at once. What is undecided goes back to
    /// the queue while this process stands by already, so that the next leader need not wait for it
    /// to reappear by itself. That is nobody else's write: only who received a message has the
    /// receipt to give it back with. Where nobody else is known to lead, the heartbeats go on.
    fn lost(self, is_without_leader: bool) -> (Option<IntakeHandle>, Option<Hooks>) {
        let handle = self.stop_receiving();
        let kept = is_without_leader.then(|| self.term.strand());
        if kept.is_none() {
            self.term.finish();
        }
        self.term.confirmation.set(Ok(()));
        self.term.board.clear();
        (handle, kept)
    }

    fn stop_receiving(&self) -> Option<IntakeHandle> {
        let handle = self.inlet.with(Option::take);
        if let Some(handle) = &handle {
            handle.stop_receiving();
        }
        self.term.metrics.stands_by();
        handle
    }
}

async fn follow_pause(term: Term, mut paused: tokio::sync::watch::Receiver<bool>) {
    loop {
        let on = *paused.borrow_and_update();
        term.send(crate::fleet::Input::PausedAll(on));
        if paused.changed().await.is_err() {
            return;
        }
    }
}
