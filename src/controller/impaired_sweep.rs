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
    domain::{InstanceId, Kind, Moment, Node, NodeName, Response},
    record,
    triage::{
        RoundFailure, RoundRobin, Rounds,
        impaired::{
            AwsView, Choice, Decision, FailingChecks, LastHour, MAX_ASKED, NodeHistory, Phase,
            Rules, ScannedNode, Scene, Step, Suspect, SuspectsToAsk, WaitReason, block_reason,
            choose, confirm_set_unhealthy, due_steps, needs_follow_up, next_step, suspects,
        },
    },
};

/// Runs until the end of the term. A dry run does not start it. Without `--on impaired` it only
/// follows nodes that were drained before that was switched off, and asks AWS only about those.
pub(super) async fn run(term: Arc<Term>) {
    let config = term.shared.config.drain.impaired;
    term.shared.nodes.synced().await;
    let Some(interval) = term.shared.config.ours.sweep_interval else {
        return report::warn_of_nodes_never_restored(&term);
    };
    let (clock, random) = (term.shared.clock, term.shared.random.clone());
    // Without `--on impaired` most rounds make no call, so their times need no random part.
    let fraction = || if config.is_some() { random.fraction() } else { 0.0 };
    let mut rounds = Rounds::new(clock.now(), interval, fraction());
    let mut sweep = ImpairedSweep {
        term,
        config,
        history: NodeHistory::default(),
        checks: FailingChecks::default(),
        to_ask: SuspectsToAsk::default(),
        step_order: RoundRobin::default(),
        begun: LastHour::default(),
        reported: LastHour::default(),
        reported_unhealthy: BTreeMap::new(),
        waiting: report::Waiting::new(),
    };
    loop {
        clock.sleep_until(rounds.next()).await;
        let result = sweep.round().await;
        if rounds.ended(clock.now(), result, fraction()) {
            warn!(
                "EC2 has not answered three times in a row which status checks fail: meanwhile no \
                 drain of a sick instance begins, and no node of one is restored. The log says why \
                 at level debug."
            );
        }
    }
}

/// What the rounds of one term share.
struct ImpairedSweep {
    term: Arc<Term>,
    /// `None`: Sundown does not look for sick instances (any longer).
    config: Option<ImpairedConfig>,
    history: NodeHistory,
    checks: FailingChecks,
    to_ask: SuspectsToAsk,
    /// Which nodes get their step after a drain in this round, if there are too many for one round.
    step_order: RoundRobin<NodeName>,
    /// The drains that this leader has begun within an hour.
    begun: LastHour,
    /// The instances that this leader has reported to Auto Scaling within an hour.
    reported: LastHour,
    /// When this leader reported an instance to Auto Scaling as unhealthy, or first saw Auto Scaling
    /// count it so. An instance is removed when it has no Node or is restored.
    reported_unhealthy: BTreeMap<InstanceId, Moment>,
    /// The nodes of the sick instances that wait, as last reported.
    waiting: report::Waiting,
}

/// Since when a status check of an instance has been failing. `None`: EC2 did not answer.
type Failing<'a> = Option<&'a BTreeMap<InstanceId, Moment>>;

/// All Nodes at one moment, and the state of the index.
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
    let last_sickness = record::last_sickness(&node).map(|last| {
        let at = term.skew().to_ours(last.at);
        crate::domain::LastSickness { at, ..last }
    });
    ScannedNode {
        status: record::impaired_status(&node),
        last_sickness,
        is_managed: term.manages(&node),
        node,
    }
}

/// The suspects that are still there, with their Nodes as they are now, and what AWS answered.
fn with_fresh_nodes(views: Vec<(Suspect, AwsView)>, still: &[Suspect]) -> Vec<(Suspect, AwsView)> {
    let fresh = |(old, view): (Suspect, AwsView)| {
        let now = still.iter().find(|now| now.instance == old.instance)?;
        Some((now.clone(), view))
    };
    views.into_iter().filter_map(fresh).collect()
}

impl ImpairedSweep {
    async fn round(&mut self) -> Result<(), RoundFailure> {
        let term = Arc::clone(&self.term);
        let nodes = || Snapshot::new(&term, term.shared.nodes.all());
        if self.config.is_none() && !nodes().nodes.iter().any(needs_follow_up) {
            report::waiting(&term, &nodes().scene(None), &mut self.waiting, BTreeMap::new());
            return Ok(());
        }
        let answer = ask::failing_checks(&term).await;
        let end = answer.as_ref().map(drop).map_err(|failure| *failure);
        let snapshot = nodes();
        let statuses = answer.ok().map(|answer| self.checks.note(snapshot.now, answer));
        self.history.note(snapshot.now, &snapshot.nodes, statuses.as_ref());
        let failing = statuses.as_ref();
        let scene = snapshot.scene(failing);
        let mut waiting = report::Waiting::new();
        let blocked = block_reason(&scene);
        // This comes first, because the answer of EC2 must be recent: a report to Auto Scaling
        // cannot be undone.
        self.follow(&scene, blocked, &mut waiting).await;
        if let Some(config) = self.config {
            let found = suspects(&scene, &self.history, config.after);
            if let Some(why) = blocked {
                waiting.insert((Phase::BeforeDrain, why), report::names(&found));
            } else {
                self.decide(config, found, &snapshot, failing, &mut waiting).await;
            }
        }
        report::waiting(&term, &scene, &mut self.waiting, waiting);
        end
    }

    /// Decides about all suspects, and begins the drains. Notes which of them wait, and why.
    async fn decide(
        &mut self,
        config: ImpairedConfig,
        found: Vec<Suspect>,
        snapshot: &Snapshot,
        failing: Failing<'_>,
        waiting: &mut report::Waiting,
    ) {
        let before = Phase::BeforeDrain;
        let (found, later) = self.to_ask.select(snapshot.now, found);
        report::still_waiting(waiting, &self.waiting, before, report::names(&later));
        let mut views = ask::all(&self.term, found, |suspect| suspect.instance.clone()).await;
        let max = config.max_an_hour;
        let mut choices = choose(&snapshot.scene(failing), views.clone(), &self.begun, max);
        if choices.iter().any(|choice| matches!(choice.decision, Decision::Begin(_))) {
            // The index may be behind, and an API server that answers shows that it works.
            let listed = match self.term.shared.nodes.list_fresh().await {
                Ok(listed) => listed,
                Err(error) => {
                    debug!(%error, "Cannot list the nodes before the drain of a sick instance.");
                    let names = choices.iter().map(|c| c.suspect.node.name.clone()).collect();
                    waiting.insert((before, WaitReason::WatchStale), names);
                    return;
                }
            };
            let fresh = Snapshot::new(&self.term, listed);
            let scene = fresh.scene(failing);
            let still = suspects(&scene, &self.history, config.after);
            if let Some(why) = block_reason(&scene) {
                waiting.insert((before, why), report::names(&still));
                return;
            }
            // With their Nodes as they are now.
            views = with_fresh_nodes(views, &still);
            choices = choose(&scene, views, &self.begun, max);
        }
        self.perform(choices, failing, waiting).await;
    }

    /// Begins the drains that were chosen, until something blocks the rest.
    async fn perform(
        &mut self,
        choices: Vec<Choice>,
        failing: Failing<'_>,
        waiting: &mut report::Waiting,
    ) {
        for Choice { suspect, decision } in choices {
            let why = match decision {
                Decision::Begin(group) => {
                    let Some(why) = self.blocked_now(failing) else {
                        self.begin(suspect, group).await;
                        continue;
                    };
                    why
                }
                Decision::Wait(why) => why,
                Decision::LeaveAlone => {
                    self.to_ask.note_not_ours(self.term.shared.clock.now(), suspect.instance);
                    continue;
                }
            };
            let waiting = waiting.entry((Phase::BeforeDrain, why)).or_default();
            waiting.insert(suspect.node.name.clone());
        }
    }

    /// What blocks everything by now: accepts and answers of AWS take their time.
    fn blocked_now(&self, failing: Failing<'_>) -> Option<WaitReason> {
        block_reason(&Snapshot::new(&self.term, self.term.shared.nodes.all()).scene(failing))
    }

    /// Performs the next step for each node whose sick instance was accepted before.
    async fn follow(
        &mut self,
        scene: &Scene<'_>,
        blocked: Option<WaitReason>,
        waiting: &mut report::Waiting,
    ) {
        let is_there = |id: &InstanceId| {
            scene.nodes.iter().any(|scanned| scanned.node.instance.as_ref() == Some(id))
        };
        self.reported_unhealthy.retain(|instance, _| is_there(instance));
        let due = due_steps(scene, &self.history, &self.rules(), blocked).into_iter();
        let due = due.filter_map(|(scanned, step)| {
            Some((Arc::clone(&scanned.node), scanned.node.instance.clone()?, step))
        });
        let (due, later) =
            self.step_order.next(due.collect(), MAX_ASKED, |(node, ..)| node.name.clone());
        let later = later.into_iter().filter(|(.., step)| *step != Step::Restore);
        let names = later.map(|(node, ..)| node.name.clone()).collect();
        report::still_waiting(waiting, &self.waiting, Phase::AfterDrain, names);
        let views = ask::all(&self.term, due, |(_, instance, _)| instance.clone()).await;
        for ((node, instance, due), view) in views {
            if let AwsView::Answered(member) = &view
                && member.is_unhealthy
                && member.group_replaces_unhealthy
                && matches!(due, Step::SetUnhealthy | Step::Restore)
            {
                // An earlier leader has reported it, or somebody else. From now on it is to be
                // replaced within an hour.
                self.reported_unhealthy.entry(instance.clone()).or_insert(scene.now);
            }
            if let AwsView::Answered(member) = &view
                && !member.is_unhealthy
                && due == Step::Wait(WaitReason::ReplacementLate)
            {
                // Somebody has set it healthy since: it may be reported again.
                self.reported_unhealthy.remove(&instance);
            }
            let waits = match next_step(due, &view) {
                Some(Step::Restore) => {
                    self.reported_unhealthy.remove(&instance);
                    self.restore_node(&node).await;
                    None
                }
                Some(Step::SetUnhealthy) => {
                    self.set_unhealthy(&node, &instance, scene.failing).await
                }
                Some(Step::Wait(why)) => Some(why),
                None => None,
            };
            if let Some(why) = waits {
                steps::not_replaced(&self.term, &node, &instance, why);
                let waiting = waiting.entry((Phase::AfterDrain, why)).or_default();
                waiting.insert(node.name.clone());
            }
        }
    }

    fn rules(&self) -> Rules<'_> {
        let reports = self.config.filter(|config| config.then_unhealthy);
        Rules {
            set_unhealthy_after: reports.map(|config| config.after),
            max_an_hour: reports.map_or(0, |config| config.max_an_hour),
            reported_unhealthy: &self.reported_unhealthy,
        }
    }

    /// Asks for the Node once more: whether its instance may be reported right now.
    ///
    /// # Errors
    /// If it may not: `Some` is why the node waits; `None`: the node does not wait.
    async fn may_set_unhealthy(
        &self,
        node: &Node,
        failing: Failing<'_>,
    ) -> Result<(), Option<WaitReason>> {
        let nodes = &self.term.shared.nodes;
        // `fetch` also updates the index, from which the snapshot below is taken.
        match nodes.fetch(&node.name).await {
            Ok(Some(fresh)) if fresh.uid == node.uid => {}
            Ok(_) => return Err(None),
            Err(error) => {
                debug!(node = %node.name, %error, "Cannot read a node before its replacement.");
                return Err(Some(WaitReason::WatchStale));
            }
        }
        let snapshot = Snapshot::new(&self.term, nodes.all());
        let scene = snapshot.scene(failing);
        confirm_set_unhealthy(&scene, &node.uid, &self.history, &self.rules(), &self.reported)
    }
}
