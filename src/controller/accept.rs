//! Taking an interruption on: one PATCH of its Node.

use std::{sync::Arc, time::Duration};

use tracing::{debug, warn};

use super::context::Term;
use crate::{
    cluster::Problem,
    domain::{Exclusion, InstanceId, Interruption, Moment, Node, NodeName, What, seconds},
    fleet::{AcceptedInterruption, DrainEvent},
    observe::{DrainEnd, RecordEvent},
    record::{self, AcceptOptions},
    triage,
};

/// How an interruption was taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    /// A new record.
    New,
    /// It joined an open one.
    Joined,
    /// The record holds it all.
    Repeat {
        /// That record is open: what it owes goes on.
        open: bool,
    },
    /// The record has no room.
    Full,
}

impl Accepted {
    /// The same interruption was accepted for another Node too, which claims the same instance.
    /// What an open record of either owes goes on.
    pub(super) const fn and(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Repeat { open: false },
                Self::New | Self::Joined | Self::Repeat { open: true },
            ) => other,
            _ => self,
        }
    }
}

/// What earlier tries to take one interruption on have taught.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// The answer to one of them was lost: it may have had its effect.
    lost: bool,
    /// How long the API server asked to be left alone.
    retry_after: Option<Duration>,
}

impl Tries {
    /// One of them may have written the record: what is found there is no proof of a repeat.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// How long the next try waits at least.
    pub(super) fn pause(&mut self) -> Duration {
        self.retry_after.take().unwrap_or_default().min(LONGEST_PAUSE)
    }
}

/// No server is believed that asks for more.
const LONGEST_PAUSE: Duration = seconds(30);
/// Conflicts are met by reading again, this often at most…
const TRIES: u32 = 10;
/// …and for this long.
const TIME: Duration = seconds(10);

/// Writes the record. `None`: it did not succeed now and is to be tried again by whoever decides
/// (the Node may be gone).
pub(super) async fn accept(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
    happened: Moment,
    sent: Option<Moment>,
    tries: &mut Tries,
) -> Option<Accepted> {
    let _gate = term.gate(&verdict.node.name).await;
    // Whoever waits longer lets others write the Node meanwhile, and decides anew.
    let Ok(_turn) = tokio::time::timeout(TIME, term.accept_turn()).await else {
        debug!(node = %verdict.node.name, "Too many records are being written; trying again.");
        return None;
    };
    // Boxed: thousands of accepts that wait for a turn do not reserve the memory of a write.
    Box::pin(write(term, interruption, verdict, happened, sent, tries)).await
}

/// The caller must hold the gate of the Node.
async fn write(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
    happened: Moment,
    sent: Option<Moment>,
    tries: &mut Tries,
) -> Option<Accepted> {
    let name = verdict.node.name.clone();
    let begun = term.clock.now();
    // The index may have moved on while the gate was waited for; it is never older than what was
    // seen.
    let mut node: Node = match term.nodes.get(&name) {
        Some(now) if now.uid == verdict.node.uid => (*now).clone(),
        _ => (*verdict.node).clone(),
    };
    let mut seat = Seat { term, name: &name, taken: false };
    for _ in 0..TRIES {
        if tries.lost && record::recognise(&node, interruption) {
            done(term, interruption, verdict, &node, happened, false);
            return Some(Accepted::New);
        }
        let now = term.clock.now();
        if now > begun.plus(TIME) {
            break;
        }
        if !term.manages(&node) {
            // Somebody told us to leave it alone since it was looked at.
            return None;
        }
        // A record is written on AWS's clock.
        let skew = term.skew();
        let options = AcceptOptions {
            exclude: early(term, interruption) && seat.take(),
            stale: verdict.certainty.is_polite(),
            sent,
            rules: term.end_that_rules(&name).map(|end| skew.to_aws(end)),
            margin: term.config.drain.deadline_margin,
            spot_margin: term.config.drain.spot_deadline_margin,
            compat: term.config.drain.compat,
            drain_timeout: term.config.drain.timeout,
            unconfirmed: verdict.claim.is_unconfirmed(),
        };
        let (body, joins) = match record::accept(&node, interruption, skew.to_aws(now), &options) {
            record::Accept::Patch { body, joins, .. } => (body, joins),
            record::Accept::Repeat => {
                // One that waits for its proof is not believed yet.
                if !verdict.certainty.is_polite()
                    && matches!(interruption.what, What::StateChange(state) if state.is_over())
                {
                    term.send(crate::fleet::Input::InstanceEnds {
                        node: name.clone(),
                        instance: verdict.instance.clone(),
                        over: true,
                    });
                }
                return Some(Accepted::Repeat { open: is_open(&node, &interruption.instance) });
            }
            record::Accept::Full => return Some(Accepted::Full),
            record::Accept::OtherInstance => return None,
        };
        match term.nodes.patch(&name, &body).await {
            Ok(patched) => {
                seat.used(&patched);
                done(term, interruption, verdict, &patched, happened, joins);
                return Some(if joins { Accepted::Joined } else { Accepted::New });
            }
            Err(error) => {
                if error.problem == Problem::Conflict {
                    term.metrics.record(RecordEvent::Conflict);
                } else {
                    warn!(
                        node = %name, %error,
                        "Cannot take the interruption on yet; trying again. The message is kept.");
                }
                match error.problem {
                    Problem::Conflict => {}
                    Problem::Unreachable | Problem::Unreadable | Problem::Server => {
                        tries.lost = true;
                    }
                    Problem::Overload { retry_after } => {
                        tries.retry_after = retry_after;
                        return None;
                    }
                    _ => return None,
                }
                match term.nodes.fetch(&name).await {
                    Ok(Some(fresh)) if fresh.uid == node.uid => node = fresh,
                    Ok(_) | Err(_) => return None,
                }
                // Only a conflict is met by sending again at once; a server in trouble is given
                // time.
                if error.problem != Problem::Conflict && !record::recognise(&node, interruption) {
                    return None;
                }
            }
        }
    }
    None
}

/// The Node's record is open: its drain goes on, or will when doubts are settled.
pub(super) fn is_open(node: &Node, instance: &InstanceId) -> bool {
    matches!(
        record::status(node, Some(instance)),
        record::RecordStatus::Open(_) | record::RecordStatus::Doubtful { .. }
    )
}

/// A place among the nodes that may be out of load balancers; given back unless it was used.
struct Seat<'a> {
    term: &'a Term,
    name: &'a NodeName,
    taken: bool,
}

impl Seat<'_> {
    fn take(&mut self) -> bool {
        let taken = self.term.with_room(|room| room.take(self.name));
        self.taken |= taken;
        taken
    }

    fn used(&mut self, node: &Node) {
        if std::mem::take(&mut self.taken) {
            self.term.with_room(|room| room.settled(self.name, Some(node)));
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.taken {
            self.term.with_room(|room| room.settled(self.name, None));
        }
    }
}

/// The label that takes the node out of load balancers goes into the accept itself.
fn early(term: &Term, interruption: &Interruption) -> bool {
    match term.config.drain.exclude {
        Some(Exclusion::Early) => true,
        Some(Exclusion::Late | Exclusion::Never) => false,
        None => matches!(
            interruption.what,
            What::Spot(_) | What::Capacity { .. } | What::StateChange(_)
        ),
    }
}

fn done(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
    node: &Node,
    happened: Moment,
    joins: bool,
) {
    let over = verdict.state.is_some_and(crate::domain::InstanceState::is_over);
    let outlook = if joins && has_ended(term, node) {
        Outlook::Ended
    } else {
        Outlook::of(node, term.is_paused(), over)
    };
    // The index holds the PATCH's response already. Sharing it saves a copy of the Node for each
    // drain.
    let indexed = term.nodes.get(&node.name).filter(|indexed| **indexed == *node);
    let node = indexed.unwrap_or_else(|| Arc::new(node.clone()));
    let accepted = AcceptedInterruption {
        interruption: interruption.clone(),
        instance: verdict.instance.clone(),
        node: Arc::clone(&node),
        happened,
        lag: term.clock.now().since_or_zero(happened),
        joins,
        follows: outlook.words(),
    };
    term.report(&node.name, DrainEvent::Accepted(Box::new(accepted)));
    term.send(crate::fleet::Input::Accepted { node, instance: verdict.instance.clone(), over });
}

/// The drain of the open record on this Node is over in this process, which has still to write
/// `released`.
fn has_ended(term: &Term, node: &Node) -> bool {
    let record::RecordStatus::Open(record) = record::status(node, None) else { return false };
    let Some(accepted) = record.accepted().map(|at| term.skew().to_ours(at)) else { return false };
    // The report may still be that of the drain before. A drain that ended as released may be taken
    // up again by what joins.
    let report =
        term.board.report(&node.name).filter(|report| report.phase != DrainEnd::Released.as_str());
    report.and_then(|report| report.drained).is_some_and(|ended| ended >= accepted)
}

/// What follows an accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlook {
    Drained,
    /// The drain waits: it is paused.
    Paused,
    /// Somebody asked for the node's release: its drain ends at once.
    Released,
    /// Nothing runs on the instance any more.
    Over,
    /// It joins a record whose drain is over and that is not released yet.
    Ended,
}

impl Outlook {
    const fn of_facts(is_paused: bool, is_released: bool, is_over: bool) -> Self {
        match (is_over, is_released, is_paused) {
            (true, ..) => Self::Over,
            (_, true, _) => Self::Released,
            (.., true) => Self::Paused,
            _ => Self::Drained,
        }
    }

    fn of(node: &Node, all_paused: bool, is_over: bool) -> Self {
        Self::of_facts(all_paused || node.paused(), node.released_by_hand(), is_over)
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Drained => "cordoned, draining",
            Self::Paused => "cordoned; its drain waits, because it is paused",
            Self::Released => "cordoned; its pods stay, because its release was asked for",
            Self::Over => "cordoned; nothing runs on the instance any more",
            Self::Ended => "the drain of its node is over, and the release is under way",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_nodes_that_claim_an_instance_one_with_an_open_record_counts() {
        use Accepted::{Full, Joined, New, Repeat};
        let (open, over) = (Repeat { open: true }, Repeat { open: false });
        for (one, other, expected) in [
            // The drain of the one had ended, and the other one is to be drained now.
            (over, New, New),
            (over, Joined, Joined),
            (over, open, open),
            (over, over, over),
            (over, Full, over),
            (open, New, open),
            (New, over, New),
            (Joined, over, Joined),
            (Full, Joined, Full),
        ] {
            assert_eq!(one.and(other), expected, "{one:?} and {other:?}");
        }
    }

    #[test]
    fn draining_is_said_only_of_a_node_that_is_drained() {
        for (is_paused, is_released, is_over, expected) in [
            (false, false, false, Outlook::Drained),
            (true, false, false, Outlook::Paused),
            (true, true, false, Outlook::Released),
            (false, true, true, Outlook::Over),
            (true, false, true, Outlook::Over),
        ] {
            let outlook = Outlook::of_facts(is_paused, is_released, is_over);
            assert_eq!(outlook, expected);
            assert_eq!(outlook.words().contains("draining"), expected == Outlook::Drained);
        }
    }
}
