//! Background checks on every replica: queues, clocks, its own node. A leader that cannot reach its
//! queues, or whose node is drained, gives the Lease up.

use std::{sync::Arc, time::Duration};

use tracing::warn;

use super::{intake_slot::IntakeSlot, shared::Shared};
use crate::{
    aws::{Advice, Queue},
    cluster::{Target, lease::LeaseKeeper},
    domain::{Moment, Node, seconds},
    observe::{Loop, Readiness},
    record,
};

/// After this long without an answer from any queue, a process lets another one lead. Renewed
/// credentials and new connections take only seconds.
const CUT_OFF_AFTER: Duration = seconds(60);
/// A process that gave the Lease up bids only after the Lease has been free for this long.
const BID_DELAY: Duration = seconds(5);
/// The longest pause before a process that stays cut off gives the Lease up again. If no other
/// replica takes over, each time costs seconds.
const LONGEST_PAUSE: Duration = seconds(600);

/// How many seconds pass between two checks of the queues. After a failure the first checks are
/// frequent, because most faults last seconds.
const fn pause(asked_in_vain: u32) -> u32 {
    match asked_in_vain {
        0 => 30,
        1..=12 => 5,
        _ => 10,
    }
}

/// Runs the checks for as long as the process lives.
pub(super) async fn run(
    shared: Arc<Shared>,
    keeper: Arc<LeaseKeeper>,
    readiness: Readiness,
    intake_slot: IntakeSlot,
    alive: Loop,
) {
    let queues: Vec<_> =
        shared.config.queue.urls.iter().map(|q| shared.aws.queue(&q.url)).collect();
    let reachable = readiness.flag("queue");
    let (mut turn, mut is_skew_logged, mut counted, mut failures) =
        (0_u32, false, shared.recorder.counts(), 0);
    let mut step_down = StepDown::default();
    let began = shared.clock.now();
    loop {
        alive.made_progress();
        if turn.is_multiple_of(pause(failures)) {
            let answer = ask(&queues).await;
            if let (Err(QueueFailure { why, .. }), true) =
                (&answer, failures == 0 || turn.is_multiple_of(30))
            {
                warn!(
                    why,
                    "Not every queue can be asked for its attributes; this process is not ready \
                     until they can."
                );
            }
            failures = if answer.is_ok() { 0 } else { failures + 1 };
            let receives = intake_slot.view().is_some_and(|view| view.healthy());
            step_down.queues_asked(
                shared.clock.now(),
                !receives && matches!(&answer, Err(QueueFailure { is_cut_off: true, .. })),
            );
            reachable.set(answer.map_err(|failure| failure.why));
        }
        turn = turn.wrapping_add(1);
        let skew = shared.aws.clock().skew();
        shared.metrics.set_clock_skew(skew);
        if skew.is_zero() == is_skew_logged {
            is_skew_logged = !skew.is_zero();
            if is_skew_logged {
                warn!(
                    ?skew,
                    "The clock of this machine differs from AWS's by more than 2 s. Sundown \
                     measures the age of events by AWS's clock."
                );
            }
        }
        shared.metrics.set_nodes(shared.nodes.all().len());
        for (target, health) in [
            (Target::WatchNodes, shared.nodes.state()),
            (Target::WatchBudgets, shared.budgets.state()),
        ] {
            let since =
                health.stale_since(began).map(|since| shared.clock.now().since_or_zero(since));
            shared.metrics.set_watch_stale(target.as_str(), since.unwrap_or_default());
        }
        let counts = shared.recorder.counts();
        shared.metrics.events(
            counts.written - counted.written,
            counts.dropped - counted.dropped,
            counts.failed - counted.failed,
        );
        counted = counts;
        shared.metrics.set_held(intake_slot.view().map_or(0, |view| view.held()));
        let node = shared.config.election.node.as_ref().and_then(|name| shared.nodes.get(name));
        if !shared.config.dry_run {
            step_down.check(shared.clock.now(), node.as_deref(), &keeper);
        }
        tokio::time::sleep(seconds(1)).await;
    }
}

/// Decides when this process gives the Lease up because another replica may be a better leader.
#[derive(Debug, Default)]
struct StepDown {
    /// Our own node is being drained.
    is_node_draining: bool,
    /// Since when no queue has been reachable.
    cut_off_since: Option<Moment>,
    /// When to give the Lease up the next time, and the pause that led to that time. It is repeated
    /// while this process stays cut off: no other replica may be ready at the first time.
    next: Option<(Moment, Duration)>,
    /// This process has given the Lease up, and bids late.
    has_yielded: bool,
}

impl StepDown {
    fn queues_asked(&mut self, now: Moment, is_cut_off: bool) {
        self.cut_off_since = is_cut_off.then(|| self.cut_off_since.unwrap_or(now));
        self.next =
            self.cut_off_since.and(self.next.or(Some((now.plus(CUT_OFF_AFTER), CUT_OFF_AFTER))));
    }

    /// Gives the Lease up if there is a reason, and bids normally again when all reasons are gone.
    /// If `node` is `None`, the last known state of our own node counts.
    fn check(&mut self, now: Moment, node: Option<&Node>, keeper: &LeaseKeeper) {
        let is_draining = node.map_or(self.is_node_draining, may_be_draining);
        let was_draining = std::mem::replace(&mut self.is_node_draining, is_draining);
        let is_due = self.next.is_some_and(|(at, _)| now >= at);
        if is_due {
            let pause =
                self.next.map_or(CUT_OFF_AFTER, |(_, pause)| (pause * 5).min(LONGEST_PAUSE));
            self.next = Some((now.plus(pause), pause));
            self.warn(keeper);
        }
        if is_due || (self.is_node_draining && !was_draining) {
            // `yield_lease` has no effect a second time without `bid_normally` before it.
            keeper.bid_normally();
            keeper.yield_lease(BID_DELAY);
            self.has_yielded = true;
        } else if self.has_yielded && !self.is_node_draining && self.cut_off_since.is_none() {
            keeper.bid_normally();
            self.has_yielded = false;
        }
    }

    /// Warns before a leader that reaches no queue gives the Lease up. A standby has nothing to
    /// report.
    fn warn(&self, keeper: &LeaseKeeper) {
        if keeper.state().borrow().leadership.leads_since().is_some() {
            warn!(
                since = self.cut_off_since.map(tracing::field::display),
                "No queue can be asked: this process gives the Lease up, so that another replica \
                 leads if there is one. Check the role, the credentials and the network of this \
                 pod and of its node."
            );
        }
    }
}

/// Whether the Node's record is open and asks for evictions, as far as the Node alone shows. Two cases stay in doubt here:
/// a Node without providerID, whose instance is unknown, and one that has booted since the record
/// was written, whose hook may still wait. For giving the Lease up the doubt is enough.
fn may_be_draining(node: &Node) -> bool {
    match record::status(node, None) {
        record::RecordStatus::Open(record) => record.response().evicts(),
        record::RecordStatus::Doubtful { record, .. } => {
            record.released().is_none() && record.response().evicts()
        }
        _ => false,
    }
}

/// Some queues could not be asked.
struct QueueFailure {
    /// The names of those queues, each with its error.
    why: String,
    /// None could be asked, and none is known not to exist: the fault may lie with this process
    /// alone (a node without the role or without a network path).
    is_cut_off: bool,
}

/// Asks the queues for their attributes, which shows whether they exist and may be used.
async fn ask(queues: &[Queue]) -> Result<(), QueueFailure> {
    let answers = futures::future::join_all(queues.iter().map(Queue::attributes)).await;
    let failed: Vec<_> = queues
        .iter()
        .zip(answers)
        .filter_map(|(queue, answer)| Some((queue, answer.err()?)))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    let why: Vec<_> = failed
        .iter()
        .map(|(queue, error)| format!("{} cannot be asked: {error}", queue.name()))
        .collect();
    let is_cut_off = failed.len() == queues.len()
        && failed.iter().all(|(_, error)| error.advice() != Advice::Gone);
    Err(QueueFailure { why: why.join("; "), is_cut_off })
}
