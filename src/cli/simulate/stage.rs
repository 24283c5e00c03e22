//! Plays a scenario.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::{
    arrivals::Arrivals,
    flags,
    pace::{Pace, Skip, hold_back},
    scenario::{Event, Instances, Kind, Scenario, ScenarioError, Workload},
    screen::Screen,
    serve::Guide,
    summary::{End, Summary, count},
    view::View,
};
use crate::{
    config::{Config, RunArgs, duration_text},
    controller::{self, Board, NodeReport, Parts},
    domain::{Moment, seconds},
    observe::{Endpoints, Loops, Metrics, Readiness},
    runtime::{Clock, Random, Spawner},
    sim::{
        GROUP_LABEL, World, WorldSettings,
        aws::{
            Check, EventKind, GroupSpec, HealthNotice, HookResult, HookSpec, LifecycleState,
            Member, Rule, SpotAction, State,
        },
        kube::{BudgetSpec, PodShape, PodView},
    },
};

/// Virtual time begins here, so that two runs with one seed are the same to the byte.
const BEGINNING: &str = "2026-01-05T09:00:00Z";
/// How long the cluster settles before the scenario begins.
const SETTLE: Duration = seconds(180);
/// How often the simulation checks whether everything is at rest.
const LOOK: Duration = seconds(1);

/// How a scenario is played.
#[derive(Debug, Clone, Copy)]
pub(super) struct Play {
    pub(super) seed: u64,
    pub(super) pace: Pace,
    /// Both servers listen on loopback for kubectl and the aws CLI.
    pub(super) serve: bool,
    /// `true`: the simulation starts the service. `false`: the user starts one.
    pub(super) with_service: bool,
}

/// The embedded servers, and the service that runs against them.
struct Cast {
    world: World,
    /// The drains of the service. `None`: the user started the service.
    board: Option<Board>,
    clock: Clock,
    begun: Moment,
}

/// Plays the scenario to its end, or until it is interrupted, and returns the summary. `screen`:
/// where the timeline is shown; `skip`: with it, Enter skips to the end.
pub(super) async fn play(
    scenario: &Scenario,
    play: Play,
    screen: Option<Screen>,
    skip: Option<Skip>,
    interrupted: &CancellationToken,
) -> anyhow::Result<Summary> {
    let Play { seed, pace, .. } = play;
    let clock = match pace {
        Pace::Virtual | Pace::Times(_) => Clock::starting_at(BEGINNING.parse::<Moment>()?),
        Pace::Real => Clock::system(),
    };
    let spawner = Spawner::new();
    let world = World::start(
        WorldSettings { join_after: seconds(25), ..WorldSettings::seeded(seed) },
        clock,
        &spawner,
    );
    // Random worlds do not route this event: there the sweep finds what it reports.
    let returns = Rule::of(world.queue(), [EventKind::LaunchSuccessful]).named("returns");
    world.aws.route(returns);
    let config = Arc::new(config(&world, scenario)?);
    build(&world, scenario);
    let guide = if play.serve { Some(Guide::listen(&world, &spawner).await?) } else { None };
    let settle = async {
        match pace {
            Pace::Real => settle_at_once(&world).await,
            Pace::Virtual | Pace::Times(_) => tokio::time::sleep(SETTLE).await,
        }
    };
    interrupted.run_until_cancelled(settle).await;
    if let Pace::Times(n) = pace {
        hold_back(n, skip.clone().unwrap_or_default());
    }
    let shutdown = CancellationToken::new();
    let (board, service) = if play.with_service {
        let board = Board::default();
        let parts = parts(
            config,
            &world,
            clock,
            Random::seeded(seed),
            &spawner,
            board.clone(),
            shutdown.clone(),
        );
        if let Some(guide) = &guide {
            let endpoints = Endpoints {
                metrics: Arc::clone(&parts.metrics),
                loops: parts.loops.clone(),
                readiness: parts.readiness.clone(),
            };
            guide.serve_metrics(&endpoints, &spawner, shutdown.clone()).await?;
        }
        (Some(board), Some(spawner.spawn(controller::serve(parts))))
    } else {
        if let Some(guide) = &guide {
            interrupted.run_until_cancelled(guide.wait_for_service(&world, &scenario.flags)).await;
        }
        (None, None)
    };
    let cast = Cast { world, board, clock, begun: clock.now() };
    let mut view = View::new(screen, cast.begun, pace, skip.as_ref());
    let at_rest = interrupted.run_until_cancelled(play_events(scenario, &cast, &mut view)).await;
    let shown = view.finish();
    let (ended, by_hand) = (clock.now(), at_rest.is_none());
    if let (Some(guide), Some(at_rest)) = (&guide, at_rest) {
        guide.print_end(at_rest);
        interrupted.cancelled().await;
    }
    shutdown.cancel();
    if let Some(service) = service {
        // Not as long as a long poll takes: the queue ends with the simulation.
        tokio::time::timeout(seconds(3), service).await.ok();
    }
    shown.context(super::UNWRITTEN)?;
    let end = End { begun: cast.begun, ended, at_rest: at_rest == Some(true), by_hand };
    Ok(Summary::of(scenario, seed, end, cast.board.as_ref(), &cast.world))
}

fn parts(
    config: Arc<Config>,
    world: &World,
    clock: Clock,
    random: Random,
    spawner: &Spawner,
    board: Board,
    shutdown: CancellationToken,
) -> Parts {
    Parts {
        config,
        kube: world.kube.client_as("sundown"),
        aws: world.aws.sdk_config(),
        clock,
        random,
        spawner: spawner.clone(),
        metrics: Arc::new(Metrics::new(&controller::label_values())),
        loops: Loops::new(clock),
        readiness: Readiness::default(),
        board,
        sinks: controller::Sinks::default(),
        shutdown,
    }
}

/// In real time a user should not wait for minutes until the scenario begins. So all pods run and
/// are ready at once.
async fn settle_at_once(world: &World) {
    let (mut pods, mut calm) = (0, 0);
    for _ in 0..50 {
        world.kube.start_at_once();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let all = world.kube.pods();
        calm = if all.len() == pods && all.iter().all(|p| p.ready) { calm + 1 } else { 0 };
        pods = all.len();
        if calm >= 3 {
            return;
        }
    }
}

/// Performs the scenario's events, and waits until everything has come to rest or the scenario's
/// end. Returns whether everything has come to rest.
async fn play_events(scenario: &Scenario, cast: &Cast, view: &mut View) -> bool {
    let Cast { world, board, clock, begun } = cast;
    let mut events = scenario.events.clone();
    events.sort_by_key(|e| e.at);
    let mut next = events.into_iter().peekable();
    let after_sick = AfterSick::of(&scenario.flags);
    let mut rest_since: Option<Moment> = None;
    let (mut interrupted, mut arrivals) = (BTreeSet::new(), Arrivals::default());
    loop {
        let now = clock.now();
        while next.peek().is_some_and(|e| begun.plus(e.at) <= now) {
            if let Some(event) = next.next() {
                if let Some(length) = event.lose_events {
                    world.aws.lose_events(now.plus(length));
                    let what =
                        format!("EventBridge loses all events for {}", duration_text(length));
                    view.print_event(now.since_or_zero(*begun), &what);
                }
                let at = now.since_or_zero(*begun);
                let shown = (&mut *view, &mut arrivals);
                interrupted.extend(perform_event(world, &event, (now, at), shown));
                arrivals.begin(world, &event, at, view);
            }
        }
        view.show(&board.as_ref().map(Board::snapshot).unwrap_or_default(), now);
        arrivals.look(world, now.since_or_zero(*begun), view);
        let rest = next.peek().is_none()
            && arrivals.is_at_rest()
            && is_at_rest(world, board.as_ref(), &interrupted, after_sick)
            && !is_any_sick_left(world, board.as_ref(), after_sick);
        rest_since = if rest { rest_since.or(Some(now)) } else { None };
        if rest_since.is_some_and(|since| now >= since.plus(seconds(5))) {
            return true;
        }
        if now >= begun.plus(scenario.until) {
            return false;
        }
        let soon = now.plus(LOOK);
        clock.sleep_until(next.peek().map_or(soon, |e| begun.plus(e.at).min(soon))).await;
    }
}

/// What becomes of an instance whose status check fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterSick {
    /// Nothing.
    Ignored,
    /// Its node is drained, and stays cordoned: the check never passes again.
    Drained,
    /// Its group replaces it.
    Replaced,
}

impl AfterSick {
    fn of(flags: &[String]) -> Self {
        let has = |text: &str| flags.iter().any(|flag| flag.contains(text));
        match () {
            () if has("impaired=unhealthy") => Self::Replaced,
            () if has("impaired=drain") => Self::Drained,
            () => Self::Ignored,
        }
    }
}

/// Whether Sundown has yet to act on an instance that runs and whose status check fails. A service of
/// the user's own has no board, and counts as if it had drained the node.
fn is_any_sick_left(world: &World, board: Option<&Board>, after: AfterSick) -> bool {
    let is_running =
        |id: &str| world.aws.instance(id).is_some_and(|found| found.state == State::Running);
    let changes = world.aws.check_changes();
    let mut sick = changes.iter().filter(|c| c.fails && is_running(&c.instance));
    match (after, board) {
        (AfterSick::Ignored, _) | (AfterSick::Drained, None) => false,
        (AfterSick::Replaced, _) => sick.next().is_some(),
        (AfterSick::Drained, Some(board)) => {
            let reports = board.snapshot();
            sick.any(|change| {
                let mut of_it = reports.values().filter(|r| r.instance == change.instance);
                !of_it.any(|report| report.drained.is_some())
            })
        }
    }
}

/// The phase of a drain for a recommendation that no interruption followed.
const EXPIRED: &str = "expired";

/// Whether every drain is over, every lifecycle action has ended, no message waits, and every
/// interrupted instance is gone or was in a warm pool. An instance that EC2 only recommended to
/// replace may stay, one with a new root volume, and a sick one that nobody replaces.
fn is_at_rest(
    world: &World,
    board: Option<&Board>,
    interrupted: &BTreeSet<String>,
    after_sick: AfterSick,
) -> bool {
    let queue = world.aws.queue(world.queue());
    let open = world.aws.actions().iter().any(|a| a.end.is_none());
    let changes = world.aws.service_changes();
    let gone = |id: &str| {
        changes.iter().any(|change| change.instance == id)
            || world
                .aws
                .instance(id)
                .is_none_or(|i| i.state == State::Terminated || i.state == State::Stopped)
    };
    let is_over = match board {
        Some(board) => {
            let may_stay = |r: &NodeReport| {
                r.phase == EXPIRED
                    // `Arrivals` waits until the instance serves again.
                    || r.kind == crate::domain::Kind::RootVolume.as_str()
                    || (after_sick == AfterSick::Drained
                        && r.kind == crate::domain::Kind::Impaired.as_str())
            };
            let is_over =
                |r: &NodeReport| r.drained.is_some() && (may_stay(r) || gone(&r.instance));
            board.snapshot().values().all(is_over)
        }
        None => interrupted.iter().all(|id| gone(id)),
    };
    !open && queue.is_none_or(|q| q.visible + q.in_flight == 0) && is_over
}

/// Performs an event at `now`, which is `at` after the beginning. Returns the instances that it ends.
fn perform_event(
    world: &World,
    event: &Event,
    (now, at): (Moment, Duration),
    (view, arrivals): (&mut View, &mut Arrivals),
) -> Vec<String> {
    let mut all = |some: &Option<Instances>, what: &str, act: &dyn Fn(&str)| {
        let Some(some) = some else { return Vec::new() };
        let ids = chosen(world, some);
        for id in &ids {
            act(id);
        }
        let short = if ids.len() < some.count {
            format!(", not {}: no more are in service", some.count)
        } else {
            String::new()
        };
        view.print_event(
            at,
            &format!("{what} {} of `{}`{short}", count(ids.len() as u64, "instance"), some.group),
        );
        ids
    };
    let mut ended =
        all(&event.scale_in, "Auto Scaling terminates", &|id| world.aws.terminate(id, true));
    ended.extend(all(&event.replace, "Auto Scaling replaces", &|id| {
        world.aws.terminate(id, true);
    }));
    ended.extend(all(&event.spot, "EC2 reclaims in two minutes", &|id| {
        world.aws.spot_interruption(id, SpotAction::Terminate);
    }));
    all(&event.rebalance, "EC2 recommends to rebalance", &|id| {
        world.aws.rebalance_recommendation(id);
    });
    let starts = now.plus(event.starts_in);
    all(&event.maintenance, "AWS Health announces the retirement of", &|id| {
        let notice = HealthNotice::retirement([id.to_owned()], starts);
        world.aws.health(&HealthNotice { event: format!("{}_{id}", notice.event), ..notice });
    });
    all(&event.impaired, "A status check fails of", &|id| {
        world.aws.fail_check(id, Check::Instance, true);
    });
    ended.extend(all(&event.stop, "Somebody stops", &|id| world.aws.stop(id)));
    all(&event.to_warm_pool, "Auto Scaling returns to the warm pool", &|id| {
        world.aws.return_to_warm_pool(id);
    });
    all(&event.enter_standby, "Somebody puts into standby", &|id| {
        world.aws.enter_standby(id, true);
    });
    let renewed =
        all(&event.replace_root_volume, "Auto Scaling replaces the root volume of", &|id| {
            world.aws.replace_root_volume(id);
        });
    arrivals.expect_new_root_volumes(renewed);
    ended
}

/// The instances that an event affects.
fn chosen(world: &World, some: &Instances) -> Vec<String> {
    let in_service = |m: &Member| m.state == LifecycleState::InService;
    let mut ids: Vec<String> =
        world.aws.members(&some.group).into_iter().filter(in_service).map(|m| m.instance).collect();
    if let Some((namespace, name)) = some.running.as_deref().and_then(|full| full.split_once('/')) {
        // Another workload's name may begin with this one's.
        let is_of_it = |pod: &PodView| {
            let of_replica_set = pod.owner_kind.as_deref() == Some("ReplicaSet");
            let parts = if of_replica_set { 2 } else { 1 };
            let rest = pod.name.strip_prefix(name).filter(|rest| rest.starts_with('-'));
            pod.namespace == namespace
                && rest.is_some_and(|rest| rest.matches('-').count() == parts)
        };
        let busy: BTreeSet<String> =
            world.kube.pods().into_iter().filter(is_of_it).filter_map(|p| p.node).collect();
        let nodes = world.nodes();
        // The sort is stable, so both those that run it and the others stay sorted by age.
        ids.sort_by_key(|id| !nodes.get(id).is_some_and(|node| busy.contains(node)));
    }
    ids.truncate(some.count);
    ids
}

fn build(world: &World, scenario: &Scenario) {
    for group in &scenario.groups {
        let mut spec = GroupSpec::new(&group.name, group.nodes);
        spec.template.spot = group.spot;
        let hooks: Vec<_> = group
            .hook
            .iter()
            .map(|h| HookSpec {
                heartbeat_timeout: h.heartbeat_timeout,
                default_result: HookResult::Continue,
                ..HookSpec::terminating(&h.name)
            })
            .chain(group.launch_hook.iter().map(|h| HookSpec {
                heartbeat_timeout: h.heartbeat_timeout,
                ..HookSpec::launching(&h.name)
            }))
            .collect();
        world.add_group(spec, &hooks);
    }
    for workload in &scenario.workloads {
        add(world, workload);
    }
}

fn add(world: &World, workload: &Workload) {
    let node_selector =
        workload.group.iter().map(|group| (GROUP_LABEL.to_owned(), group.clone())).collect();
    let shape = PodShape {
        grace: workload.grace,
        stop: workload.stop,
        ready: workload.ready,
        node_selector,
        ..PodShape::default()
    };
    let spec = crate::sim::kube::Workload::new(
        &workload.namespace,
        &workload.name,
        workload.replicas.unwrap_or(1),
    )
    .shape(shape);
    match workload.kind {
        Kind::Deployment => world.kube.add_deployment(&spec),
        Kind::StatefulSet => world.kube.add_stateful_set(&spec),
        Kind::DaemonSet => world.kube.add_daemon_set(&spec),
    }
    if let Some(budget) = &workload.budget {
        let mut spec = BudgetSpec::for_app(&workload.namespace, &workload.name);
        if let Some(min) = &budget.min_available {
            spec = spec.min(min.clone());
        }
        if let Some(max) = &budget.max_unavailable {
            spec = spec.max(max.clone());
        }
        world.kube.add_budget(&spec);
    }
}

/// The configuration that a user would give for these servers.
fn config(world: &World, scenario: &Scenario) -> Result<Config, ScenarioError> {
    let (url, cluster) = (world.queue_url(), world.cluster().to_owned());
    flags::check(&scenario.flags)?;
    let all = ["--queue-url".to_owned(), url, "--cluster-name".to_owned(), cluster]
        .into_iter()
        .chain(scenario.flags.iter().cloned());
    let arguments = RunArgs::from_flags(all)
        .map_err(|e| ScenarioError::Flags(first_paragraph(&e.to_string())))?;
    arguments.config(&|_| None).map_err(|e| ScenarioError::Flags(e.to_string()))
}

/// The error, without the usage text of `sundown run`, which the user has not called.
fn first_paragraph(text: &str) -> String {
    let text = text.split("\n\n").next().unwrap_or_default().trim_end();
    text.strip_prefix("error: ").unwrap_or(text).to_owned()
}
