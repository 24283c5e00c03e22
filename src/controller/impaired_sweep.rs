//! Looks for sick instances (`--on impaired`): takes their nodes on, puts those back that are
//! healthy again, and hands those to Auto Scaling whose drain has ended (`--then`).
//! [`crate::triage::impaired`] decides, in the order of its table.

mod ask;
mod report;
mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tracing::debug;

use super::context::Term;
use crate::{
    config::ImpairedConfig,
    domain::{InstanceId, Kind, Moment, Node, Response},
    record,
    triage::impaired::{
        Begun, Choice, Decision, MAX_SUSPECTS, Pace, RoundEnd, ScannedNode, Scene, Sightings, Step,
        Suspect, Waits, choose, followed, hold, next_step, suspects,
    },
};

/// Runs until the end of the term. A dry run does not start it.
pub(super) async fn run(term: Arc<Term>) {
    let ours = &term.shared.config.ours;
    let (Some(config), Some(interval)) = (term.shared.config.drain.impaired, ours.sweep_interval)
    else {
        return;
    };
    term.shared.nodes.synced().await;
    let (clock, random) = (term.shared.clock, term.shared.random.clone());
    let mut pace = Pace::new(clock.now(), interval, random.fraction());
    let mut sweep = ImpairedSweep {
        term,
        config,
        sightings: Sightings::default(),
        begun: Begun::default(),
        set_unhealthy: BTreeSet::new(),
        waiting: BTreeMap::new(),
    };
    loop {
        clock.sleep_until(pace.next()).await;
        let end = sweep.round().await;
        pace.round_ended(clock.now(), end, random.fraction());
    }
}

/// What the rounds of one term share.
struct ImpairedSweep {
    term: Arc<Term>,
    config: ImpairedConfig,
    sightings: Sightings,
    begun: Begun,
    /// The instances that Auto Scaling took as unhealthy in this term. An instance is removed when
    /// it has no Node.
    set_unhealthy: BTreeSet<InstanceId>,
    /// The nodes of the sick instances that wait, as last reported.
    waiting: report::Waiting,
}

/// All Nodes at one moment, with what the index says about itself.
struct Snapshot {
    now: Moment,
    nodes: Vec<ScannedNode>,
    is_index_sound: bool,
    watch_failed_at: Option<Moment>,
    is_paused: bool,
    response: Response,
}

impl Snapshot {
    fn new(term: &Term, nodes: Vec<Arc<Node>>) -> Self {
        let index = term.shared.nodes.state();
        Self {
            now: term.shared.clock.now(),
            nodes: nodes.into_iter().map(|node| scan(term, node)).collect(),
            is_index_sound: index.is_sound(),
            watch_failed_at: index.failed_at,
            is_paused: term.is_paused(),
            response: term.shared.policy.responses.of(Kind::Impaired),
        }
    }

    const fn scene<'a>(&'a self, failing: &'a BTreeMap<InstanceId, Moment>) -> Scene<'a> {
        Scene {
            now: self.now,
            nodes: self.nodes.as_slice(),
            failing,
            is_index_sound: self.is_index_sound,
            watch_failed_at: self.watch_failed_at,
            is_paused: self.is_paused,
            response: self.response,
        }
    }
}

fn scan(term: &Term, node: Arc<Node>) -> ScannedNode {
    let mark = record::impaired_mark(&node).map(|mark| {
        let at = term.skew().to_ours(mark.at);
        crate::domain::ImpairedMark { at, ..mark }
    });
    ScannedNode {
        status: record::impaired_status(&node),
        mark,
        is_managed: term.manages(&node),
        node,
    }
}

impl ImpairedSweep {
    async fn round(&mut self) -> RoundEnd {
        let term = Arc::clone(&self.term);
        let (statuses, end) = ask::failing_checks(&term).await;
        let snapshot = Snapshot::new(&term, term.shared.nodes.all());
        self.sightings.note(snapshot.now, &snapshot.nodes, statuses.as_ref());
        let failing = statuses.unwrap_or_default();
        let scene = snapshot.scene(&failing);
        let held = hold(&scene);
        let found = suspects(&scene, &self.sightings, self.config.after);
        let waiting = match held {
            Some(why) => report::Waiting::from([(why, report::names(&found))]),
            None => self.decide(found, &snapshot, &failing).await,
        };
        report::waiting(&term, &scene, &mut self.waiting, waiting);
        self.follow(&scene, held.is_none()).await;
        end
    }

    /// Decides about all suspects, and begins the drains. Returns which of them wait, and why.
    async fn decide(
        &mut self,
        mut found: Vec<Suspect>,
        snapshot: &Snapshot,
        failing: &BTreeMap<InstanceId, Moment>,
    ) -> report::Waiting {
        found.truncate(MAX_SUSPECTS);
        let views = ask::all(&self.term, found, |suspect| suspect.instance.clone()).await;
        let scene = snapshot.scene(failing);
        let max = self.config.max_an_hour;
        let mut choices = choose(&scene, views.clone(), &self.begun, max);
        if choices.iter().any(|choice| matches!(choice.decision, Decision::Begin(_))) {
            // The index may be behind, and an API server that answers shows that it works.
            let listed = match self.term.shared.nodes.list_fresh().await {
                Ok(listed) => listed,
                Err(error) => {
                    debug!(%error, "Cannot list the nodes before the drain of a sick instance.");
                    let names = choices.iter().map(|c| c.suspect.node.name.clone()).collect();
                    return report::Waiting::from([(Waits::WatchStale, names)]);
                }
            };
            let fresh = Snapshot::new(&self.term, listed);
            let scene = fresh.scene(failing);
            let still = suspects(&scene, &self.sightings, self.config.after);
            if let Some(why) = hold(&scene) {
                return report::Waiting::from([(why, report::names(&still))]);
            }
            let is_still = |one: &Suspect| still.iter().any(|now| now.instance == one.instance);
            let views = views.into_iter().filter(|(one, _)| is_still(one)).collect();
            choices = choose(&scene, views, &self.begun, max);
        }
        let mut waiting = report::Waiting::new();
        for Choice { suspect, decision } in choices {
            match decision {
                Decision::Begin(group) => self.begin(suspect, group).await,
                Decision::Wait(why) => {
                    waiting.entry(why).or_default().insert(suspect.node.name.clone());
                }
                Decision::NotOurs => {}
            }
        }
        waiting
    }

    /// Takes the steps that nodes need which were taken on before.
    async fn follow(&mut self, scene: &Scene<'_>, is_calm: bool) {
        let is_there = |id: &InstanceId| {
            scene.nodes.iter().any(|scanned| scanned.node.instance.as_ref() == Some(id))
        };
        self.set_unhealthy.retain(is_there);
        let may_replace = is_calm && self.config.then_unhealthy;
        let wanted = followed(scene, &self.sightings, may_replace).into_iter();
        let is_due = |(node, instance, step): &(Arc<Node>, InstanceId, Step)| {
            let is_held = *step == Step::PutBack && node.keeps_cordon();
            !is_held && !self.set_unhealthy.contains(instance)
        };
        let due = wanted.filter_map(|(scanned, step)| {
            Some((Arc::clone(&scanned.node), scanned.node.instance.clone()?, step))
        });
        let due = due.filter(is_due).take(MAX_SUSPECTS).collect();
        let views = ask::all(&self.term, due, |(_, instance, _)| instance.clone()).await;
        for ((node, instance, wanted), view) in views {
            match next_step(wanted, &view) {
                Some(Step::PutBack) => steps::put_back(&self.term, &node).await,
                Some(Step::SetUnhealthy) => self.hand_over(&node, &instance).await,
                None => {}
            }
        }
    }
}
