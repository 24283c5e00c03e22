//! The service: the one function that `sundown run` and a simulation call, with clients, a clock,
//! randomness and a spawner of their own.

use std::{sync::Arc, time::Duration};

use aws_config::SdkConfig;
use futures::future::join_all;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

use super::{
    Board, Sinks,
    active_term::ActiveTerm,
    counting::Counting,
    dead_letters,
    deleted_nodes::DeletedNodes,
    hooks::{LifecycleActions, heartbeat_answers::HeartbeatAnswers},
    housekeeping,
    intake_slot::IntakeSlot,
    places, pod_rules,
    scheduled_events::EventsAreFound,
    shared::Shared,
    trial::TRIAL_BEGINS,
};
use crate::{
    aws::{Clients, Lookups},
    cluster::{
        BudgetWatch, Cluster, ClusterParts, DaemonSets, Health, KeepLabels, NodeIndex, Recorder,
        RecorderSettings, Settings,
        lease::{LONGEST_RELEASE, Leadership, LeaseKeeper, LeaseParts, LeasePlace},
    },
    config::Config,
    domain::seconds,
    observe::{Loops, Metrics, Readiness},
    runtime::{Clock, Random, Spawner},
    triage,
};

/// The arguments of [`serve`].
pub struct Parts {
    /// The settings, as read from flags and environment variables.
    pub config: Arc<Config>,
    /// A client for the API server, without retries of its own.
    pub kube: kube::Client,
    /// How to reach AWS: region, credentials, HTTP client, time source.
    pub aws: SdkConfig,
    /// The source of the time for all tasks.
    pub clock: Clock,
    /// The source of all randomness, such as the jitter of pauses.
    pub random: Random,
    /// Starts all tasks.
    pub spawner: Spawner,
    /// All counters and gauges.
    pub metrics: Arc<Metrics>,
    /// The service registers its loops here. `/livez` fails if one of them is stuck.
    pub loops: Loops,
    /// The service sets the conditions of `/readyz` here.
    pub readiness: Readiness,
    /// The service records its drains here, for people.
    pub board: Board,
    /// Other receivers of what happens. By default none.
    pub sinks: Sinks,
    /// Cancel it to stop the service: it gives messages and the Lease back at once, and returns
    /// when its open long polls have ended.
    pub shutdown: CancellationToken,
}

/// A loop that has not turned for this long is stuck: every wait in it has a far shorter deadline.
pub(super) const STUCK: Duration = seconds(60);
/// How long the last Events may delay giving the Lease up. A request that is under way then may
/// take as long again.
const LAST_EVENTS: Duration = Duration::from_millis(300);

/// What this process does at the moment.
enum Role {
    Standby,
    Leading(ActiveTerm),
    /// It does not lead, and keeps these actions alive because no other process is known to lead.
    HeartbeatsOnly(LifecycleActions),
}

/// Runs the service until `shutdown`. It never fails: calls to AWS and Kubernetes are retried for
/// as long as the service runs.
pub async fn serve(parts: Parts) {
    let config = Arc::clone(&parts.config);
    let counting = Counting(Arc::clone(&parts.metrics));
    let identity = identity(&config, &parts.random);
    let keeper = Arc::new(lease_keeper(&parts, &counting, &identity));
    let shared = start_shared(&parts, &keeper, &counting, identity);
    log_start(&config);
    parts.metrics.set_dry_run(config.dry_run);
    let intake_slot = IntakeSlot::default();
    add_readiness_conditions(&parts, &shared, &keeper, &intake_slot);
    let background_tasks = start_background_tasks(&parts, &shared, &keeper, &intake_slot);
    let mut lease = keeper.state();
    let mut role = Role::Standby;
    // Intakes of ended terms: they give back the messages that their open long polls bring.
    let mut stopping_intakes: Vec<AbortOnDropHandle<bool>> = Vec::new();
    loop {
        let leadership = lease.borrow_and_update().leadership.clone();
        let leads_since = leadership.leads_since();
        parts.metrics.set_leader(leads_since.is_some() && !config.dry_run);
        role = match role {
            Role::Leading(active) if leads_since != Some(active.term.since) => {
                if leads_since.is_some() {
                    info!("This process lost the Lease and won it again: a new term begins.");
                } else if matches!(leadership, Leadership::Standby { .. }) {
                    warn!("This process no longer leads; it stands by.");
                } else {
                    warn!(
                        "This process no longer leads. It knows no other leader, so it keeps \
                         sending heartbeats for its open lifecycle actions."
                    );
                }
                let (intake, actions) =
                    active.lost(matches!(leadership, Leadership::Standby { .. }));
                stopping_intakes.retain(|ending| !ending.is_finished());
                stopping_intakes
                    .extend(intake.map(|intake| parts.spawner.spawn_scoped(intake.stop())));
                actions.map_or(Role::Standby, Role::HeartbeatsOnly)
            }
            role => role,
        };
        role =
            match (role, leadership) {
                (Role::Standby, Leadership::Leader { since, .. }) => Role::Leading(
                    ActiveTerm::begin(since, &shared, &parts, &keeper, &intake_slot, None),
                ),
                (Role::HeartbeatsOnly(actions), Leadership::Leader { since, .. }) => Role::Leading(
                    ActiveTerm::begin(since, &shared, &parts, &keeper, &intake_slot, Some(actions)),
                ),
                (Role::HeartbeatsOnly(actions), Leadership::Standby { .. }) => {
                    info!(
                        "Another process holds the Lease or may hold it: the heartbeats of this \
                     process end."
                    );
                    actions.end();
                    Role::Standby
                }
                (role, _) => role,
            };
        tokio::select! {
            biased;
            () = parts.shutdown.cancelled() => break,
            changed = lease.changed() => if changed.is_err() { break },
        }
    }
    stop(&parts, &shared, &keeper, role, stopping_intakes).await;
    drop(background_tasks);
}

/// Ends the term, gives the Lease and undecided messages back, and waits for the open long polls.
async fn stop(
    parts: &Parts,
    shared: &Shared,
    keeper: &LeaseKeeper,
    role: Role,
    mut stopping_intakes: Vec<AbortOnDropHandle<bool>>,
) {
    info!(
        "Stopping: Sundown accepts no more interruptions, gives the Lease up when its last writes \
         are over, and gives undecided messages back."
    );
    parts.metrics.set_leader(false);
    // Also in the role HeartbeatsOnly the Lease may not be given up yet.
    let may_hold_lease = !matches!(role, Role::Standby);
    // The heartbeats end after the Lease is given up, because a completion may be under way.
    let (intake, actions) = match role {
        Role::Leading(active) => {
            let (intake, actions) = active.end();
            (intake, Some(actions))
        }
        Role::HeartbeatsOnly(actions) => (None, Some(actions)),
        Role::Standby => (None, None),
    };
    let lease = async {
        if may_hold_lease {
            shared.recorder.close(LAST_EVENTS).await;
        }
        if !keeper.release(LONGEST_RELEASE).await && may_hold_lease {
            warn!(
                "The Lease could not be given up in time. Another replica leads once it has \
                 expired."
            );
        }
        if let Some(actions) = actions {
            actions.end();
        }
    };
    // The open long polls end while the Lease is given up: the next leader does not wait for them.
    stopping_intakes.extend(intake.map(|intake| parts.spawner.spawn_scoped(intake.stop())));
    stopping_intakes.retain(|ending| !ending.is_finished());
    if !stopping_intakes.is_empty() && !parts.config.dry_run {
        info!(
            "SQS keeps serving a long poll after the client disconnects: waiting some 20 s until \
             the open one ends, to give back the messages that it brings. A second signal ends the \
             process at once."
        );
    }
    futures::join!(lease, join_all(stopping_intakes));
}

fn lease_keeper(parts: &Parts, counting: &Counting, identity: &str) -> LeaseKeeper {
    let config = &parts.config;
    if config.dry_run {
        return LeaseKeeper::without_lease(parts.clock);
    }
    LeaseKeeper::start(LeaseParts {
        client: parts.kube.clone(),
        place: LeasePlace {
            namespace: config.election.lease_namespace.clone(),
            name: config.election.lease_name.clone(),
        },
        identity: identity.to_owned(),
        settings: config.election.lease,
        // A leader that has not listed the Nodes knows no record, so it could not even send
        // heartbeats.
        is_ready: false,
        published: config.published(parts.aws.region().map(AsRef::as_ref)),
        clock: parts.clock,
        random: parts.random.clone(),
        spawner: parts.spawner.clone(),
        observer: Arc::new(counting.clone()),
        on_iteration: {
            let alive = parts.loops.register("lease", STUCK);
            Box::new(move || alive.made_progress())
        },
    })
}

/// Starts what runs on every replica, whether it leads or not.
fn start_background_tasks(
    parts: &Parts,
    shared: &Arc<Shared>,
    keeper: &Arc<LeaseKeeper>,
    intake_slot: &IntakeSlot,
) -> Vec<AbortOnDropHandle<()>> {
    let (keeper_to_ready, nodes) = (Arc::clone(keeper), shared.nodes.clone());
    let bids_when_ready = async move {
        nodes.synced().await;
        keeper_to_ready.ready();
    };
    let housekeeping = housekeeping::run(
        Arc::clone(shared),
        Arc::clone(keeper),
        parts.readiness.clone(),
        intake_slot.clone(),
        parts.loops.register("housekeeping", STUCK),
    );
    let mut tasks = vec![
        parts.spawner.spawn_scoped(bids_when_ready),
        parts.spawner.spawn_scoped(housekeeping),
        parts.spawner.spawn_scoped(shared.deleted_nodes.clone().follow()),
    ];
    if let Some(path) = parts.config.drain.rules_file.clone() {
        let following = pod_rules::follow(Arc::clone(shared), path);
        tasks.push(parts.spawner.spawn_scoped(following));
    }
    if !parts.config.queue.dead.is_empty() {
        // Not counted: a call that is refused here delays no drain, and must cause no alert.
        let uncounted = Clients::from_config(&parts.aws, parts.clock, Arc::new(()));
        let dead = &parts.config.queue.dead;
        let queues = dead.iter().map(|queue| uncounted.queue(&queue.url)).collect();
        let depths = dead_letters::follow(queues, Arc::clone(&parts.metrics));
        tasks.push(parts.spawner.spawn_scoped(depths));
    }
    tasks
}

fn identity(config: &Config, random: &Random) -> String {
    let name = config.election.pod.as_ref().map_or("sundown", |p| p.name.as_str());
    format!("{name}_{:012x}", random.below(1 << 48))
}

fn start_shared(
    parts: &Parts,
    keeper: &Arc<LeaseKeeper>,
    counting: &Counting,
    identity: String,
) -> Arc<Shared> {
    let config = &parts.config;
    let cluster = Cluster::new(ClusterParts {
        client: parts.kube.clone(),
        clock: parts.clock,
        random: parts.random.clone(),
        spawner: parts.spawner.clone(),
        observer: Arc::new(counting.clone()),
        guard: keeper.guard(),
        // The most requests that the dispatcher has under way (`drain::DispatchSettings`).
        settings: Settings { pod_writes: 2 * config.drain.max_in_flight, ..Settings::default() },
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
    keep.set_of_rules(config.pod_rules.node_label_keys());
    let aws = Clients::from_config(&parts.aws, parts.clock, Arc::new(counting.clone()));
    let instance = config.election.pod.as_ref().map_or(identity, |p| p.name.clone());
    let nodes = NodeIndex::start(&cluster, keep);
    let policy = Arc::new(policy(config));
    Arc::new(Shared {
        deleted_nodes: DeletedNodes::new(nodes.clone(), Arc::clone(&policy), parts.clock),
        nodes,
        budgets: BudgetWatch::start(&cluster),
        daemon_sets: DaemonSets::new(&cluster),
        recorder: Recorder::start(
            &cluster,
            RecorderSettings { instance, ..RecorderSettings::default() },
        ),
        lookups: Lookups::start(&aws, &parts.random, &parts.spawner),
        policy,
        config: Arc::clone(config),
        cluster,
        aws,
        clock: parts.clock,
        random: parts.random.clone(),
        spawner: parts.spawner.clone(),
        metrics: Arc::clone(&parts.metrics),
        board: parts.board.clone(),
        guard: keeper.guard(),
        heartbeat_answers: HeartbeatAnswers::default(),
        records_ready: parts.readiness.flag("records"),
        real_tests_until: config.accept_real_tests.map(|length| parts.clock.now().plus(length)),
        sinks: parts.sinks.clone(),
        pod_rules: watch::Sender::new(Arc::clone(&config.pod_rules)),
        events_are_found: EventsAreFound::default(),
    })
}

fn policy(config: &Config) -> triage::Policy {
    triage::Policy {
        hooks: config.ours.hooks.clone(),
        managed_tag: config.ours.managed_tag.clone(),
        cluster_name: config.ours.cluster_name.clone(),
        join_timeout: config.ours.join_timeout,
        shared_queue: config.queue.shared,
        responses: config.drain.responses.clone(),
        rebalance_ttl: config.drain.rebalance_ttl,
        region: config.aws.region.clone(),
        launch: config.launch.clone(),
        ..triage::Policy::new(config.ours.nodes.clone())
    }
}

fn log_start(config: &Config) {
    let queues: Vec<_> = config.queue.urls.iter().map(|q| q.url.as_str()).collect();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        ?queues,
        "Sundown runs. One queue belongs to one cluster."
    );
    if config.ours.cluster_name.is_none() {
        warn!(
            "No --cluster-name is given: Sundown sends no heartbeats for an instance without a \
             Node and does not complete its lifecycle actions. Its message waits until 5 min from \
             its launch, and is then deleted and counted as unknown."
        );
    }
    if let Some(length) = config.accept_real_tests {
        warn!(for = ?length, "Sundown acts on test events that ask for it (--accept-real-tests): \
            everyone who can send one to the queue can have nodes drained.");
    }
    if config.dry_run && config.trial.is_some() {
        warn!(
            "{TRIAL_BEGINS}. Each event is recorded in the trial's log and deleted from the \
             trial's queue."
        );
    } else if config.dry_run {
        warn!(
            "Dry run: nothing is written to AWS or Kubernetes. Messages reappear by themselves, \
             so this needs a queue of its own; each reappearance counts towards the dead-letter \
             queue."
        );
    }
}

fn add_readiness_conditions(
    parts: &Parts,
    shared: &Shared,
    keeper: &LeaseKeeper,
    intake_slot: &IntakeSlot,
) {
    let nodes = shared.nodes.clone();
    parts.readiness.add("nodes", move || watch_condition(nodes.state(), "nodes"));
    let budgets = shared.budgets.clone();
    parts.readiness.add("budgets", move || watch_condition(budgets.state(), "disruption budgets"));
    // A standby need not know the records.
    shared.records_ready.set(Ok(()));
    let lease = keeper.state();
    parts.readiness.add("lease", move || lease.borrow().trouble.clone().map_or(Ok(()), Err));
    let intake_slot = intake_slot.clone();
    parts.readiness.add("receiving", move || {
        // A standby receives nothing, and is ready all the same.
        let Some(view) = intake_slot.view().filter(|view| !view.healthy()) else { return Ok(()) };
        if view.crowded() {
            return Err(format!("no room for more messages: {} are held undecided", view.held()));
        }
        Err(view.troubles().first().map_or_else(
            || "nothing was received yet".to_owned(),
            |(queue, error)| format!("{queue}: {error}"),
        ))
    });
}

fn watch_condition(health: Health, what: &str) -> Result<(), String> {
    match (health.synced, health.failing_since) {
        (false, _) => Err(format!("the {what} are not listed yet")),
        (true, Some(since)) => {
            Err(format!("the watch of the {what} has been failing since {since:.0}"))
        }
        (true, None) => Ok(()),
    }
}
