//! Looks for sick instances (`--on impaired`): accepts them as interruptions, restores the nodes
//! that are healthy again, and after the drain reports the instances to Auto Scaling as unhealthy
//! (`--then`). [`crate::triage::impaired`] decides, in the order of the list in its docs.

mod ask;
mod report;
mod steps;

use std::{collections::BTreeMap, sync::Arc};

use tracing::{debug, warn};

use super::context::Term;
use crate::{
    config::ImpairedConfig,
    domain::{InstanceId, Kind, Moment, Node, Response},
    record,
    triage::{
        RoundFailure, Rounds,
        impaired::{
            AwsView, Begun, Choice, Decision, FailingChecks, MAX_SUSPECTS, NotOurs, Rules,
            ScannedNode, Scene, Sightings, Step, Suspect, Waits, choose, confirmed, followed, hold,
            next_step, suspects,
        },
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
    let mut rounds = Rounds::new(clock.now(), interval, random.fraction());
    let mut sweep = ImpairedSweep {
        term,
        config,
        sightings: Sightings::default(),
        checks: FailingChecks::default(),
        not_ours: NotOurs::default(),
        begun: Begun::default(),
        handed_over: Begun::default(),
        told: BTreeMap::new(),
        waiting: BTreeMap::new(),
    };
    loop {
        clock.sleep_until(rounds.next()).await;
        let result = sweep.round().await;
        if rounds.ended(clock.now(), result, random.fraction()) {
            warn!(
                "EC2 has not answered three times in a row which status checks fail: no drain of a \
                 sick instance begins meanwhile. The log says why at level debug."
            );
        }
    }
}

/// What the rounds of one term share.
struct ImpairedSweep {
    term: Arc<Term>,
    config: ImpairedConfig,
    sightings: Sightings,
    checks: FailingChecks,
    not_ours: NotOurs,
    begun: Begun,
    /// The instances that were handed to Auto Scaling within an hour.
    handed_over: Begun,
    /// When Auto Scaling was told in this term that an instance is unhealthy, or was first seen to
    /// know it. An instance is removed when it has no Node or is put back.
    told: BTreeMap<InstanceId, Moment>,
    /// The nodes of the sick instances that wait, as last reported.
    waiting: report::Waiting,
}

/// Since when a status check of an instance has been failing. `None`: EC2 did not answer.
type Failing<'a> = Option<&'a BTreeMap<InstanceId, Moment>>;

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

    const fn scene<'a>(&'a self, failing: Failing<'a>) -> Scene<'a> {
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
    async fn round(&mut self) -> Result<(), RoundFailure> {
        let term = Arc::clone(&self.term);
        let answer = ask::failing_checks(&term).await;
        let end = answer.as_ref().map(drop).map_err(|failure| *failure);
        let snapshot = Snapshot::new(&term, term.shared.nodes.all());
        let statuses = answer.ok().map(|answer| self.checks.note(snapshot.now, answer));
        self.sightings.note(snapshot.now, &snapshot.nodes, statuses.as_ref());
        let failing = statuses.as_ref();
        let scene = snapshot.scene(failing);
        let found = suspects(&scene, &self.sightings, self.config.after);
        let mut waiting = report::Waiting::new();
        let is_held = match hold(&scene) {
            Some(why) => {
                waiting.insert(why, report::names(&found));
                true
            }
            None => self.decide(found, &snapshot, failing, &mut waiting).await,
        };
        self.follow(&scene, is_held, &mut waiting).await;
        report::waiting(&term, &scene, &mut self.waiting, waiting);
        end
    }

    /// Decides about all suspects, and begins the drains. Notes which of them wait, and why. Returns
    /// whether something holds everything back.
    async fn decide(
        &mut self,
        found: Vec<Suspect>,
        snapshot: &Snapshot,
        failing: Failing<'_>,
        waiting: &mut report::Waiting,
    ) -> bool {
        let (found, later) = self.not_ours.ask_about(snapshot.now, found);
        waiting.insert(Waits::Unanswered, report::names(&later));
        let views = ask::all(&self.term, found, |suspect| suspect.instance.clone()).await;
        let max = self.config.max_an_hour;
        let mut choices = choose(&snapshot.scene(failing), views.clone(), &self.begun, max);
        if choices.iter().any(|choice| matches!(choice.decision, Decision::Begin(_))) {
            // The index may be behind, and an API server that answers shows that it works.
            let listed = match self.term.shared.nodes.list_fresh().await {
                Ok(listed) => listed,
                Err(error) => {
                    debug!(%error, "Cannot list the nodes before the drain of a sick instance.");
                    let names = choices.iter().map(|c| c.suspect.node.name.clone()).collect();
                    waiting.insert(Waits::WatchStale, names);
                    return true;
                }
            };
            let fresh = Snapshot::new(&self.term, listed);
            let scene = fresh.scene(failing);
            let still = suspects(&scene, &self.sightings, self.config.after);
            if let Some(why) = hold(&scene) {
                waiting.insert(why, report::names(&still));
                return true;
            }
            let is_still = |one: &Suspect| still.iter().any(|now| now.instance == one.instance);
            let views = views.into_iter().filter(|(one, _)| is_still(one)).collect();
            choices = choose(&scene, views, &self.begun, max);
        }
        self.perform(choices, failing, waiting).await
    }

    /// Begins the drains that were chosen. Returns whether something holds the rest back by now.
    async fn perform(
        &mut self,
        choices: Vec<Choice>,
        failing: Failing<'_>,
        waiting: &mut report::Waiting,
    ) -> bool {
        let mut is_held = false;
        for Choice { suspect, decision } in choices {
            let why = match decision {
                Decision::Begin(group) => {
                    let Some(why) = self.holds_now(failing) else {
                        self.begin(suspect, group).await;
                        continue;
                    };
                    is_held = true;
                    why
                }
                Decision::Wait(why) => why,
                Decision::NotOurs => {
                    self.not_ours.note(self.term.shared.clock.now(), suspect.instance);
                    continue;
                }
            };
            waiting.entry(why).or_default().insert(suspect.node.name.clone());
        }
        is_held
    }

    /// What holds everything back by now: accepts and answers of AWS take their time.
    fn holds_now(&self, failing: Failing<'_>) -> Option<Waits> {
        hold(&Snapshot::new(&self.term, self.term.shared.nodes.all()).scene(failing))
    }

    /// Performs the next step for each node whose sick instance was accepted before.
    async fn follow(&mut self, scene: &Scene<'_>, is_held: bool, waiting: &mut report::Waiting) {
        let is_there = |id: &InstanceId| {
            scene.nodes.iter().any(|scanned| scanned.node.instance.as_ref() == Some(id))
        };
        self.told.retain(|instance, _| is_there(instance));
        let wanted = followed(scene, &self.sightings, &self.rules(), is_held).into_iter();
        let due = wanted.filter_map(|(scanned, step)| {
            Some((Arc::clone(&scanned.node), scanned.node.instance.clone()?, step))
        });
        let due = due.take(MAX_SUSPECTS).collect();
        let views = ask::all(&self.term, due, |(_, instance, _)| instance.clone()).await;
        for ((node, instance, wanted), view) in views {
            if let AwsView::Answered(member) = &view
                && member.is_unhealthy
                && wanted == Step::SetUnhealthy
            {
                // An earlier leader has told it, or somebody else.
                self.told.entry(instance.clone()).or_insert(scene.now);
            }
            let waits = match next_step(wanted, &view) {
                Some(Step::PutBack) => {
                    self.told.remove(&instance);
                    self.put_back(&node).await;
                    None
                }
                Some(Step::SetUnhealthy) => self.hand_over(&node, &instance, scene.failing).await,
                Some(Step::Wait(why)) => Some(why),
                None => None,
            };
            if let Some(why) = waits {
                steps::not_replaced(&self.term, &node, &instance, why);
                waiting.entry(why).or_default().insert(node.name.clone());
            }
        }
    }

    const fn rules(&self) -> Rules<'_> {
        let ImpairedConfig { after, then_unhealthy, .. } = self.config;
        Rules { then_unhealthy, after, told: &self.told }
    }

    /// Asks for the Node once more: whether it may be handed over right now.
    ///
    /// # Errors
    /// It must not; with the reason if it is one to report.
    async fn may_hand_over(&self, node: &Node, failing: Failing<'_>) -> Result<(), Option<Waits>> {
        let nodes = &self.term.shared.nodes;
        // The index takes the answer in.
        match nodes.fetch(&node.name).await {
            Ok(Some(fresh)) if fresh.uid == node.uid => {}
            Ok(_) => return Err(None),
            Err(error) => {
                debug!(node = %node.name, %error, "Cannot read a node before its replacement.");
                return Err(Some(Waits::WatchStale));
            }
        }
        let snapshot = Snapshot::new(&self.term, nodes.all());
        confirmed(&snapshot.scene(failing), &node.uid, &self.sightings, &self.rules())?;
        if self.handed_over.noted(snapshot.now) >= self.config.max_an_hour {
            return Err(Some(Waits::MaxPerHour));
        }
        Ok(())
    }
}
