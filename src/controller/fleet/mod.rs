//! The task that runs the [`crate::fleet`]. It passes inputs to the fleet in the order in which
//! they arrive, and performs the effects that the fleet returns. It never waits for a call: each
//! call is a task of its own, whose result comes back as an input.

mod lookups;
mod perform;
mod verification;
mod writes;

use std::sync::Arc;

use futures::FutureExt as _;
use tokio::sync::mpsc;

use self::perform::Performer;
pub(super) use self::verification::GROUP_TAG;
use super::context::Term;
use crate::{
    cluster::{
        BudgetChanges, BudgetEvent, NodeChange, NodeChanges, PodEvent, PodEvents, PodFeed,
        PodFeedSettings,
    },
    config::DrainConfig,
    domain::{DrainSettings, NodeName, seconds},
    drain::{self, WatchState},
    fleet::{Fleet, Input, Settings},
    lifecycle::LimitSettings,
    observe::Loop,
};

/// Runs until the term ends.
pub(super) async fn run(term: Term, mut inputs: mpsc::UnboundedReceiver<Input>, alive: Loop) {
    let (feed, mut pods) = PodFeed::start(&term.shared.cluster, PodFeedSettings::default());
    let feed = Arc::new(feed);
    let mut runner = Runner {
        fleet: Fleet::new(
            settings(&term),
            Box::new(lookups::TermFacts { term: term.clone(), feed: Arc::clone(&feed) }),
        ),
        performer: Performer::new(term.clone(), feed),
    };
    runner.step(Input::Begun);
    term.spawn(lookups::list_unschedulable(term.clone()));
    // The dispatcher should know the budgets before the first eviction. If they cannot be read, the
    // answers to evictions show what they allow.
    tokio::time::timeout(seconds(5), term.shared.budgets.synced()).await.ok();
    let mut nodes = term.shared.nodes.subscribe();
    let mut budgets = term.shared.budgets.subscribe();
    loop {
        alive.made_progress();
        let wake = runner.fleet.next_wake().min(term.shared.clock.now().plus(seconds(10)));
        tokio::select! {
            biased;
            input = inputs.recv() => match input {
                Some(input) => runner.step(input),
                None => return,
            },
            change = nodes.next() => match change {
                Some(change) => runner.node_changed(change),
                None => return,
            },
            event = pods.next() => match event {
                Some((node, event)) => runner.pods_changed(node, event),
                None => return,
            },
            event = budgets.next() => match event {
                Some(event) => runner.budget_changed(event),
                None => return,
            },
            () = term.shared.clock.sleep_until(wake) => {}
        }
        runner.drain_inboxes(&mut inputs, &mut nodes, &mut pods, &mut budgets);
        runner.step(Input::Tick);
    }
}

fn settings(term: &Term) -> Settings {
    let config = &term.shared.config.drain;
    Settings {
        leads_since: term.since,
        policy: Arc::clone(&term.shared.policy),
        drain: drain_settings(config).into(),
        dispatch: drain::DispatchSettings {
            in_flight: config.max_in_flight,
            per_budget: config.max_in_flight_per_budget,
            seed: term.shared.random.below(u64::MAX),
            ..drain::DispatchSettings::default()
        },
        limits: limit_settings(config),
        exclude: config.exclude,
        pace: config.pace,
        wait_for_volumes: config.wait_for_volumes,
        complete_delay: config.complete_delay,
        changes: config.changes,
        shows_maintenance: config.maintenance_condition,
        shows_drains: config.drain_conditions,
        own_pod: term.shared.config.election.pod.clone(),
    }
}

/// The settings of every drain, as the flags set them. The others have their defaults.
#[must_use]
pub fn drain_settings(config: &DrainConfig) -> drain::Settings {
    drain::Settings {
        force: config.force_after,
        order: config.pod_order.clone(),
        drained_daemon_sets: config.drained_daemon_sets.iter().cloned().collect(),
        honored: config.honored.iter().copied().collect(),
        min_drain: config.min_time,
        ..drain::Settings::default()
    }
}

/// The settings from which deadlines are derived, as the flags set them.
#[must_use]
pub fn limit_settings(config: &DrainConfig) -> LimitSettings {
    LimitSettings {
        drain_timeout: config.timeout,
        margin: config.deadline_margin,
        spot_margin: config.spot_deadline_margin,
        rebalance_ttl: config.rebalance_ttl,
        evict_after: config.evict_after,
        requests_may_force: config.requests_may_force,
        allowed: config.allowed(),
        node: DrainSettings::NONE,
    }
}

struct Runner {
    fleet: Fleet,
    performer: Performer,
}

impl Runner {
    fn step(&mut self, input: Input) {
        for effect in self.fleet.step(self.performer.term.shared.clock.now(), input) {
            self.performer.perform(effect);
        }
    }

    /// Processes what waits in all inboxes without sleeping in between, so that a burst takes one
    /// turn of the loop and not a thousand. After 512 rounds the loop turns anyway.
    fn drain_inboxes(
        &mut self,
        inputs: &mut mpsc::UnboundedReceiver<Input>,
        nodes: &mut NodeChanges,
        pods: &mut PodEvents,
        budgets: &mut BudgetChanges,
    ) {
        for _ in 0..512 {
            let mut any = false;
            if let Ok(input) = inputs.try_recv() {
                self.step(input);
                any = true;
            }
            if let Some(change) = nodes.try_next() {
                self.node_changed(change);
                any = true;
            }
            if let Some(Some((node, event))) = pods.next().now_or_never() {
                self.pods_changed(node, event);
                any = true;
            }
            if let Some(event) = budgets.try_next() {
                self.budget_changed(event);
                any = true;
            }
            if !any {
                break;
            }
        }
    }

    fn pods_changed(&mut self, node: NodeName, event: PodEvent) {
        let change = match event {
            PodEvent::Listed(pods) => drain::Input::Listed(pods),
            PodEvent::Changed(pod) => drain::Input::Changed(pod),
            PodEvent::Gone(uid) => drain::Input::Gone(uid),
            PodEvent::Watching => drain::Input::Watch(WatchState::Open),
            PodEvent::Blind => drain::Input::Watch(WatchState::Blind),
        };
        self.step(Input::Pods(node, change));
    }

    fn budget_changed(&mut self, event: BudgetEvent) {
        self.step(match event {
            BudgetEvent::Changed(budget) => Input::Budget((*budget).clone()),
            BudgetEvent::Gone(key) => Input::BudgetGone(key),
        });
    }

    fn node_changed(&mut self, change: NodeChange) {
        let term = &self.performer.term;
        match change {
            NodeChange::Applied { now, before } => {
                term.with_exclusion_limit(|limit| limit.applied(&now));
                if before.as_ref().is_none_or(|b| b.instance != now.instance) {
                    term.arrivals.send_modify(|n| *n = n.wrapping_add(1));
                }
                self.step(Input::NodeApplied(now));
            }
            NodeChange::Deleted { last, .. } => {
                term.with_exclusion_limit(|limit| limit.deleted(&last.name));
                self.step(Input::NodeDeleted(last));
            }
        }
    }
}
