//! What goes on whoever leads: queues, clocks and the own node are looked at, and who had better
//! not lead steps back.

use std::{sync::Arc, time::Duration};

use tracing::warn;

use super::{context::Shared, service::Inlet};
use crate::{
    aws::{Advice, Queue},
    cluster::{
        Target,
        lease::{Leadership, LeaseKeeper},
    },
    domain::{Moment, Node, seconds},
    observe::{Loop, Readiness},
    record,
};

/// So long no queue may be out of reach before another process is let go first. Credentials that
/// are renewed and connections that are made anew take seconds.
const CUT_OFF: Duration = seconds(60);
/// How long a Lease must have been free before a process bids that had better not lead.
const RELUCTANCE: Duration = seconds(5);
/// How often at most a process that stays cut off gives the Lease up: where nobody does better,
/// each time costs seconds.
const SELDOM: Duration = seconds(600);

/// Seconds between two looks at the queues while one of them cannot be asked: often at first,
/// because most faults last seconds.
const fn pause(asked_in_vain: u32) -> u32 {
    match asked_in_vain {
        0 => 30,
        1..=12 => 5,
        _ => 10,
    }
}

/// What goes on whoever leads: the queue is asked for now and then, the clocks are compared, our
/// own node is watched.
pub(super) async fn look_after(
    shared: Shared,
    keeper: Arc<LeaseKeeper>,
    readiness: Readiness,
    inlet: Inlet,
    alive: Loop,
) {
    let queues: Vec<_> =
        shared.config.queue.urls.iter().map(|q| shared.aws.queue(&q.url)).collect();
    let reachable = readiness.flag("queue");
    let (mut turn, mut skew_told, mut told, mut asked_in_vain) =
        (0_u32, false, shared.recorder.counts(), 0);
    let mut caution = Caution::default();
    let began = shared.clock.now();
    loop {
        alive.turned();
        if turn.is_multiple_of(pause(asked_in_vain)) {
            let asked = ask(&queues).await;
            if let (Err(Unasked { why, .. }), true) =
                (&asked, asked_in_vain == 0 || turn.is_multiple_of(30))
            {
                warn!(
                    why,
                    "Not every queue can be asked for its attributes; this process is not ready \
                     until they can."
                );
            }
            asked_in_vain = if asked.is_ok() { 0 } else { asked_in_vain + 1 };
            let hears = inlet.view().is_some_and(|view| view.healthy());
            caution.asked(
                shared.clock.now(),
                !hears && matches!(&asked, Err(Unasked { is_cut_off: true, .. })),
            );
            reachable.set(asked.map_err(|unasked| unasked.why));
        }
        turn = turn.wrapping_add(1);
        let skew = shared.aws.clock().skew();
        shared.metrics.set_clock_skew(skew);
        if skew.is_zero() == skew_told {
            skew_told = !skew.is_zero();
            if skew_told {
                warn!(
                    ?skew,
                    "The clock of this machine differs from AWS's by more than 2 s. The age of \
                     events is measured by AWS's."
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
            counts.written - told.written,
            counts.dropped - told.dropped,
            counts.failed - told.failed,
        );
        told = counts;
        shared.metrics.set_held(inlet.view().map_or(0, |view| view.held()));
        let node = shared.config.election.node.as_ref().and_then(|name| shared.nodes.get(name));
        if !shared.config.dry_run {
            caution.look(shared.clock.now(), node.as_deref(), &keeper);
        }
        tokio::time::sleep(seconds(1)).await;
    }
}

/// Whether another process had better lead.
#[derive(Debug, Default)]
struct Caution {
    /// Our own node is being drained.
    is_going: bool,
    /// Since when every queue has been out of reach.
    cut_off_since: Option<Moment>,
    /// When the Lease is given up the next time, and how long after that again, while it stays so.
    /// The other one may be away just now.
    again: Option<(Moment, Duration)>,
    is_told: bool,
}

impl Caution {
    fn asked(&mut self, now: Moment, is_cut_off: bool) {
        self.cut_off_since = is_cut_off.then(|| self.cut_off_since.unwrap_or(now));
        self.again = self.cut_off_since.and(self.again.or(Some((now.plus(CUT_OFF), CUT_OFF))));
    }

    /// Gives the Lease up where there is a reason, and bids as ever again when there is none any
    /// more. A node that is not there tells nothing.
    fn look(&mut self, now: Moment, node: Option<&Node>, keeper: &LeaseKeeper) {
        let is_going = node.map_or(self.is_going, is_doomed);
        let was_going = std::mem::replace(&mut self.is_going, is_going);
        let is_due = self.again.is_some_and(|(at, _)| now >= at);
        if is_due {
            let pause = self.again.map_or(CUT_OFF, |(_, pause)| (pause * 5).min(SELDOM));
            self.again = Some((now.plus(pause), pause));
            self.say(keeper);
        }
        if is_due || (self.is_going && !was_going) {
            // Who has given it up once keeps what it gets, unless it begins anew.
            keeper.bid_normally();
            keeper.yield_lease(RELUCTANCE);
            self.is_told = true;
        } else if self.is_told && !self.is_going && self.cut_off_since.is_none() {
            keeper.bid_normally();
            self.is_told = false;
        }
    }

    /// Before it is given up: a standby has nothing to tell.
    fn say(&self, keeper: &LeaseKeeper) {
        let leads = matches!(&*keeper.leadership().borrow(), Leadership::Leader { .. });
        if leads {
            warn!(
                since = self.cut_off_since.map(tracing::field::display),
                "No queue can be asked: the Lease is given up, so that another replica leads if \
                 there is one. Look at the role, the credentials and the network of this pod and \
                 of its node."
            );
        }
    }
}

/// Its record is open, as far as the Node alone tells. Of a Node without providerID nobody here
/// knows the instance, and of one that has booted since nobody knows whether a hook waits: for
/// giving the Lease up the doubt is enough.
fn is_doomed(node: &Node) -> bool {
    match record::status(node, None) {
        record::RecordStatus::Open(_) => true,
        record::RecordStatus::Doubtful { record, .. } => record.released().is_none(),
        _ => false,
    }
}

/// Queues that could not be asked.
struct Unasked {
    why: String,
    /// Not one could, though they may well be there: it may be this process alone (a node without
    /// the role or without a way out).
    is_cut_off: bool,
}

/// Asks the queues for their attributes, which shows whether they are there and may be used.
async fn ask(queues: &[Queue]) -> Result<(), Unasked> {
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
    Err(Unasked { why: why.join("; "), is_cut_off })
}
