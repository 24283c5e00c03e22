//! Plays a scenario.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::{
    scenario::{Event, Kind, Scenario, Workload},
    summary::Summary,
    view::View,
};
use crate::{
    config::Config,
    controller::{self, Board, Clock, Parts, Random, Spawner},
    domain::{Moment, MomentExt, seconds},
    observe::{Loops, Metrics, Readiness},
    sim::{
        World, WorldSettings,
        aws::{GroupSpec, HookResult, HookSpec, SpotAction, State},
        kube::{BudgetSpec, PodShape},
    },
};

/// How fast time goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pace {
    /// As fast as things can be computed.
    Virtual,
    /// As on the wall.
    Real,
    /// So many times as fast.
    Times(f64),
}

/// Virtual time begins here, so that two runs with one seed are the same to the byte.
const BEGINNING: &str = "2026-01-05T09:00:00Z";
/// So long the cluster settles before the scenario begins.
const SETTLE: Duration = seconds(180);
/// How often it is looked whether everything is at rest.
const LOOK: Duration = seconds(1);

/// Plays the scenario to its end and says how it went.
pub(super) async fn play(scenario: &Scenario, seed: u64, pace: Pace, serve: bool, show: bool) -> anyhow::Result<Summary> {
    let clock = match pace {
        Pace::Virtual | Pace::Times(_) => Clock::starting_at(BEGINNING.parse::<Moment>()?),
        Pace::Real => Clock::system(),
    };
    let spawner = Spawner::new();
    let world = World::start(WorldSettings { join_after: seconds(25), ..WorldSettings::seeded(seed) }, clock, &spawner);
    build(&world, scenario);
    if pace == Pace::Real {
        // Pods are put there ready enough: nobody should wait three minutes for a demonstration to begin.
        tokio::time::sleep(seconds(5)).await;
    } else {
        tokio::time::sleep(SETTLE).await;
    }
    if let Pace::Times(n) = pace {
        carry_time(n);
    }
    let servers = if serve { Some(listen(&world, &spawner).await?) } else { None };
    let (board, shutdown) = (Board::default(), CancellationToken::new());
    let metrics = Arc::new(Metrics::new(&controller::words()));
    let service = spawner.spawn(controller::serve(Parts {
        config: Arc::new(config(&world)?),
        kube: world.kube.client_as("sundown"),
        aws: world.aws.sdk_config(),
        clock,
        random: Random::seeded(seed),
        spawner: spawner.clone(),
        metrics: Arc::clone(&metrics),
        loops: Loops::new(clock),
        readiness: Readiness::default(),
        board: board.clone(),
        shutdown: shutdown.clone(),
    }));
    let begun = clock.now();
    let mut view = View::new(show, begun);
    let at_rest = course(scenario, &world, &board, clock, begun, &mut view).await;
    view.finish();
    let ended = clock.now();
    if let Some(guide) = servers {
        guide.wait().await;
    }
    shutdown.cancel();
    tokio::time::timeout(seconds(30), service).await.ok();
    Ok(Summary::of(scenario, seed, begun, ended, at_rest, &board, &world))
}

/// Lets the scenario's events happen and looks on until everything has come to rest. Says whether it has.
async fn course(scenario: &Scenario, world: &World, board: &Board, clock: Clock, begun: Moment, view: &mut View) -> bool {
    let mut events = scenario.events.clone();
    events.sort_by_key(|e| e.at);
    let mut next = events.into_iter().peekable();
    let mut rest_since: Option<Moment> = None;
    loop {
        let now = clock.now();
        while next.peek().is_some_and(|e| begun.plus(e.at) <= now) {
            if let Some(event) = next.next() {
                happen(world, &event, now.since_or_zero(begun), view);
            }
        }
        view.show(&board.snapshot(), now);
        let rest = next.peek().is_none() && is_at_rest(world, board);
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

/// Every drain is over, every lifecycle action has ended, no message waits, every interrupted instance is gone.
fn is_at_rest(world: &World, board: &Board) -> bool {
    let drained = board.snapshot();
    let queue = world.aws.queue(world.queue());
    let open = world.aws.actions().iter().any(|a| a.end.is_none());
    let gone = |id: &str| world.aws.instance(id).is_none_or(|i| i.state == State::Terminated || i.state == State::Stopped);
    !open && queue.is_none_or(|q| q.visible + q.in_flight == 0) && drained.values().all(|r| r.drained.is_some() && gone(&r.instance))
}

fn happen(world: &World, event: &Event, at: Duration, view: &mut View) {
    let in_service = |group: &str| -> Vec<String> {
        let members = world.aws.members(group);
        members.into_iter().filter(|m| m.state == crate::sim::aws::LifecycleState::InService).map(|m| m.instance).collect()
    };
    if let Some(some) = &event.scale_in {
        let ids = world.aws.scale_in(&some.group, some.count);
        view.say(at, &format!("Auto Scaling terminates {} instances of `{}`", ids.len(), some.group));
    }
    if let Some(some) = &event.spot {
        view.say(at, &format!("EC2 reclaims {} spot instances of `{}`: two minutes", some.count, some.group));
        for id in in_service(&some.group).iter().take(some.count) {
            world.aws.spot_interruption(id, SpotAction::Terminate);
        }
    }
    if let Some(some) = &event.rebalance {
        view.say(at, &format!("EC2 recommends to rebalance {} instances of `{}`", some.count, some.group));
        in_service(&some.group).iter().take(some.count).for_each(|id| world.aws.rebalance_recommendation(id));
    }
    if let Some(some) = &event.stop {
        view.say(at, &format!("Somebody stops {} instances of `{}`", some.count, some.group));
        in_service(&some.group).iter().take(some.count).for_each(|id| world.aws.stop(id));
    }
}

fn build(world: &World, scenario: &Scenario) {
    for group in &scenario.groups {
        let mut spec = GroupSpec::new(&group.name, group.nodes);
        spec.template.spot = group.spot;
        let hooks: Vec<_> = group
            .hook
            .iter()
            .map(|h| HookSpec { heartbeat_timeout: h.heartbeat_timeout, default_result: HookResult::Continue, ..HookSpec::terminating(&h.name) })
            .collect();
        world.add_group(spec, &hooks);
    }
    for workload in &scenario.workloads {
        add(world, workload);
    }
}

fn add(world: &World, workload: &Workload) {
    let shape = PodShape { grace: workload.grace, stop: workload.stop, ready: workload.ready, ..PodShape::default() };
    let spec = crate::sim::kube::Workload::new(&workload.namespace, &workload.name, workload.replicas).shape(shape);
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

/// The configuration that a person would give for this world.
fn config(world: &World) -> anyhow::Result<Config> {
    use clap::Parser as _;
    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        run: crate::config::RunArgs,
    }
    let (url, cluster) = (world.queue_url(), world.cluster().to_owned());
    let flags = Flags::try_parse_from(["sundown", "--queue-url", &url, "--cluster-name", &cluster]).context("the flags of the simulated service")?;
    flags.run.config(&|_| None).context("the configuration of the simulated service")
}

/// Time is carried on from outside: a thread ticks, a task advances the paused clock by what that is worth.
fn carry_time(times: f64) {
    const TICK: Duration = Duration::from_millis(20);
    let (ticks, mut ticked) = tokio::sync::mpsc::channel::<()>(1);
    // While a blocking task runs, tokio does not advance a paused clock by itself.
    drop(tokio::task::spawn_blocking(move || {
        loop {
            std::thread::sleep(TICK);
            if ticks.blocking_send(()).is_err() {
                return;
            }
        }
    }));
    drop(tokio::spawn(async move {
        while ticked.recv().await.is_some() {
            tokio::time::advance(TICK.mul_f64(times)).await;
        }
    }));
}

/// What listens on loopback, and what a person can do with it.
struct Guide {
    _servers: [crate::sim::http::Server; 2],
    text: String,
}

impl Guide {
    async fn wait(self) {
        use std::io::Write as _;
        let mut out = std::io::stdout();
        writeln!(out, "\n{}\nCtrl-C ends it.", self.text).ok();
        tokio::signal::ctrl_c().await.ok();
    }
}

async fn listen(world: &World, spawner: &Spawner) -> anyhow::Result<Guide> {
    use std::io::Write as _;
    let listener = crate::sim::http::loopback().await.context("cannot listen on loopback")?;
    let aws = world.aws.serve(listener, spawner).context("cannot serve the embedded AWS")?;
    let listener = crate::sim::http::loopback().await.context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    let kube = world.kube.serve(listener, spawner).context("cannot serve the embedded Kubernetes")?;
    let path = std::env::temp_dir().join(format!("sundown-simulate-{}.kubeconfig", address.port()));
    std::fs::write(&path, crate::sim::kube::EmbeddedKube::kubeconfig(address)).context("cannot write the kubeconfig")?;
    let text = format!(
        "Kubernetes listens: export KUBECONFIG={}; kubectl get nodes,pods -A\n\
         AWS listens: export AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_REGION=eu-west-1 AWS_ENDPOINT_URL={}; aws autoscaling describe-auto-scaling-groups",
        path.display(),
        aws.url()
    );
    writeln!(std::io::stdout(), "{text}\n").ok();
    Ok(Guide { _servers: [aws, kube], text })
}
