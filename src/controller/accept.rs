//! Accepts an interruption: one PATCH of its Node.

use std::{sync::Arc, time::Duration};

use tracing::{debug, warn};

use super::{context::Term, fleet::limit_settings};
use crate::{
    cluster::Problem,
    domain::{
        Cause, Exclusion, InstanceId, Interruption, Moment, Node, NodeName, Response,
        SettingInForce, SettingProblem, SettingSource, Transition, in_force, seconds,
    },
    fleet::{AcceptedInterruption, DrainEvent},
    observe::{DrainEnd, RecordEvent},
    record::{self, AcceptOptions},
    triage::{self, HooksAnswer},
};

/// How an interruption was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    /// A new record was written.
    New,
    /// It joined an open record.
    Joined,
    /// The record already holds the interruption.
    Repeat {
        /// The record is open: its heartbeats and its drain go on.
        open: bool,
    },
    /// The record has no room for another interruption.
    Full,
}

impl Accepted {
    /// Combines the results for two Nodes that claim the same instance. If the record of either is
    /// open, the result shows that.
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

/// What is known from earlier tries to accept one interruption.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// The answer to one of them was lost: that PATCH may have had its effect.
    lost: bool,
    /// The `Retry-After` of the API server.
    retry_after: Option<Duration>,
}

impl Tries {
    /// Whether one of them may have written the record. An interruption in the record is then no
    /// proof of a repeat.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// The shortest pause before the next try.
    pub(super) fn pause(&mut self) -> Duration {
        self.retry_after.take().unwrap_or_default().min(LONGEST_PAUSE)
    }
}

/// A `Retry-After` beyond this is ignored.
const LONGEST_PAUSE: Duration = seconds(30);
/// After a conflict the Node is read and patched again, at most this often…
const TRIES: u32 = 10;
/// …and for this long.
const TIME: Duration = seconds(10);

/// Writes the record. `None`: it failed, and the interruption must be decided and accepted again
/// (the Node may be gone).
pub(super) async fn accept(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
    happened: Moment,
    sent: Option<Moment>,
    tries: &mut Tries,
) -> Option<Accepted> {
    let _lock = term.lock_node(&verdict.node.name).await;
    // After a longer wait the interruption is decided again. Others may write the Node meanwhile.
    let Ok(_slot) = tokio::time::timeout(TIME, term.accept_slot()).await else {
        debug!(node = %verdict.node.name, "Too many records are being written; trying again.");
        return None;
    };
    // Boxed: thousands of accepts that wait for a slot do not reserve the memory of a write.
    Box::pin(write(term, interruption, verdict, happened, sent, tries)).await
}

/// The caller must hold the write lock of the Node ([`Term::lock_node`]).
async fn write(
    term: &Term,
    interruption: &Interruption,
    verdict: &triage::Accept,
    happened: Moment,
    sent: Option<Moment>,
    tries: &mut Tries,
) -> Option<Accepted> {
    let name = verdict.node.name.clone();
    let begun = term.shared.clock.now();
    // The index may have changed while this waited for the lock. It is never older than
    // `verdict.node`.
    let mut node: Node = match term.shared.nodes.get(&name) {
        Some(now) if now.uid == verdict.node.uid => (*now).clone(),
        _ => (*verdict.node).clone(),
    };
    let mut slot = LabelSlot { term, name: &name, taken: false };
    for _ in 0..TRIES {
        if tries.lost && term.is_recorded(&node, interruption) {
            done(term, interruption, verdict, &node, happened, false);
            return Some(Accepted::New);
        }
        let now = term.shared.clock.now();
        if now > begun.plus(TIME) {
            break;
        }
        let config = &term.shared.config.drain;
        if !term.manages(&node) {
            // Since the decision, the node selector no longer matches it or it has the annotation
            // `sundown.dev/ignore`.
            return None;
        }
        if is_of_others(term, interruption, verdict) {
            return None;
        }
        if let Cause::Impaired(sick) = &interruption.cause
            && !triage::is_sick(sick, &node)
        {
            // It is healthy again.
            return None;
        }
        // A record is written on AWS's clock.
        let skew = term.skew();
        let options = AcceptOptions {
            exclude: verdict.response.cordons() && early(term, interruption) && slot.take(),
            response: verdict.response,
            stale: verdict.certainty.is_polite(),
            sent,
            current_limit: term.deadline_of(&name).map(|deadline| skew.to_aws(deadline)),
            margin: config.deadline_margin,
            spot_margin: config.spot_deadline_margin,
            compat: config.compat,
            unconfirmed: verdict.claim.is_unconfirmed(),
            is_another_wait: term.is_another_wait(&node, interruption),
        };
        let (body, joins) = match record::accept(&node, interruption, skew.to_aws(now), &options) {
            record::Accept::Patch { body, joins, .. } => (body, joins),
            record::Accept::Repeat => {
                // A stale interruption does not count before its proof.
                if !verdict.certainty.is_polite()
                    && matches!(interruption.cause, Cause::StateChange(state) if state.is_over())
                {
                    term.send(crate::fleet::Input::InstanceEnds {
                        node: name.clone(),
                        instance: verdict.instance.clone(),
                        has_ended: true,
                    });
                }
                return Some(Accepted::Repeat { open: is_open(&node, &interruption.instance) });
            }
            record::Accept::Full => return Some(Accepted::Full),
            record::Accept::OtherInstance => return None,
        };
        match term.shared.nodes.patch(&name, &body).await {
            Ok(patched) => {
                slot.used(&patched);
                done(term, interruption, verdict, &patched, happened, joins);
                return Some(if joins { Accepted::Joined } else { Accepted::New });
            }
            Err(error) => {
                if error.problem == Problem::Conflict {
                    term.shared.metrics.record(RecordEvent::Conflict);
                } else {
                    warn!(
                        node = %name, %error,
                        "Cannot accept the interruption yet; trying again. If a message brought it, the message is kept.");
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
                match term.shared.nodes.fetch(&name).await {
                    Ok(Some(fresh)) if fresh.uid == node.uid => node = fresh,
                    Ok(_) | Err(_) => return None,
                }
                // Only after a conflict is the PATCH sent again at once. A failing server gets
                // time.
                if error.problem != Problem::Conflict && !term.is_recorded(&node, interruption) {
                    return None;
                }
            }
        }
    }
    None
}

/// Whether AWS has shown since the decision that the hook of the interruption is another party's.
fn is_of_others(term: &Term, interruption: &Interruption, verdict: &triage::Accept) -> bool {
    interruption.hook().is_some_and(|action| {
        let last = term.shared.lookups.hooks.before(&action.group).map(HooksAnswer::Described);
        let (hook, transition) = (&action.hook, Transition::Terminating);
        term.shared.policy.hooks.is_disproved(verdict.claim, hook, transition, last.as_ref())
    })
}

/// Whether the Node's record is open: its drain goes on, or will once a doubt about it is settled.
pub(super) fn is_open(node: &Node, instance: &InstanceId) -> bool {
    matches!(
        record::status(node, Some(instance)),
        record::RecordStatus::Open(_) | record::RecordStatus::Doubtful { .. }
    )
}

/// One of the places for nodes that may leave load balancers at once. Given back when it is
/// dropped, unless it was used.
struct LabelSlot<'a> {
    term: &'a Term,
    name: &'a NodeName,
    taken: bool,
}

impl LabelSlot<'_> {
    fn take(&mut self) -> bool {
        let taken = self.term.with_exclusion_limit(|limit| limit.take(self.name));
        self.taken |= taken;
        taken
    }

    fn used(&mut self, node: &Node) {
        if std::mem::take(&mut self.taken) {
            self.term.with_exclusion_limit(|limit| limit.settled(self.name, Some(node)));
        }
    }
}

impl Drop for LabelSlot<'_> {
    fn drop(&mut self) {
        if self.taken {
            self.term.with_exclusion_limit(|limit| limit.settled(self.name, None));
        }
    }
}

/// Whether the PATCH of the accept also sets the label that takes the node out of load balancers.
fn early(term: &Term, interruption: &Interruption) -> bool {
    match term.shared.config.drain.exclude {
        Some(Exclusion::Early) => true,
        Some(Exclusion::Late | Exclusion::Never) => false,
        None => matches!(
            interruption.cause,
            Cause::Spot(_)
                | Cause::CapacityReservation { .. }
                | Cause::CapacityBlock { .. }
                | Cause::StateChange(_)
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
    let instance_has_ended = verdict.state.is_some_and(crate::domain::InstanceState::is_over);
    let outlook = if joins && has_ended(term, node) {
        Outlook::Ended
    } else {
        Outlook::of(node, term.is_paused(), instance_has_ended)
    };
    // The index holds the PATCH's response already. Sharing it saves a copy of the Node for each
    // drain.
    let indexed = term.shared.nodes.get(&node.name).filter(|indexed| **indexed == *node);
    let node = indexed.unwrap_or_else(|| Arc::new(node.clone()));
    let (settings, problems) = settings_of(term, interruption, &node);
    let response = response_of(&node);
    let is_request = matches!(interruption.cause, Cause::Request(_));
    let follows = if is_request && outlook == Outlook::Begins && response == Response::Cordon {
        "cordoned; its pods stay (stage=cordon)"
    } else {
        outlook.words(response)
    };
    let accepted = AcceptedInterruption {
        interruption: interruption.clone(),
        instance: verdict.instance.clone(),
        node: Arc::clone(&node),
        happened,
        lag: term.shared.clock.now().since_or_zero(happened),
        joins,
        follows,
        settings,
    };
    term.report(&node.name, DrainEvent::Accepted(Box::new(accepted)));
    if !problems.is_empty() {
        term.report(&node.name, DrainEvent::SettingsIgnored(problems));
    }
    term.send(crate::fleet::Input::Accepted {
        node,
        instance: verdict.instance.clone(),
        instance_has_ended,
    });
}

/// The settings in force for the drain of this interruption that come from its hook or from the
/// Node, and what is wrong with the hook's. (The fleet reports what is wrong with the Node's.)
fn settings_of(
    term: &Term,
    interruption: &Interruption,
    node: &Node,
) -> (Vec<SettingInForce>, Vec<SettingProblem>) {
    let limits = limit_settings(&term.shared.config.drain);
    let (given, mut problems) =
        interruption.hook().and_then(|hook| hook.metadata.as_deref().cloned()).unwrap_or_default();
    let (of_hook, refused) = given.allowed(SettingSource::Hook, &limits.allowed);
    problems.extend(refused);
    (in_force(&limits.of_node(node).0, &of_hook), problems)
}

/// Whether the drain of this Node's open record has ended in this process, which has not yet
/// written `released`.
fn has_ended(term: &Term, node: &Node) -> bool {
    let record::RecordStatus::Open(record) = record::status(node, None) else { return false };
    let Some(accepted) = record.accepted().map(|at| term.skew().to_ours(at)) else { return false };
    // The report may be about the drain before. A drain that ended as released, or whose
    // recommendation expired, goes on if an interruption joins.
    let report = term.shared.board.report(&node.name).filter(|report| {
        let go_on =
            [DrainEnd::Released, DrainEnd::Contradicted, DrainEnd::Expired, DrainEnd::NotEvicted];
        go_on.iter().all(|end| report.phase != end.as_str())
    });
    report.and_then(|report| report.drained).is_some_and(|ended| ended >= accepted)
}

/// What follows an accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlook {
    /// What the response asks for.
    Begins,
    /// The drain waits: it is paused.
    Paused,
    /// Somebody asked for the node's release: its drain ends at once.
    Released,
    /// The instance no longer runs.
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
            _ => Self::Begins,
        }
    }

    fn of(node: &Node, all_paused: bool, is_over: bool) -> Self {
        Self::of_facts(all_paused || node.paused(), node.released_by_hand(), is_over)
    }

    /// `response`: the strongest response in the node's record.
    fn words(self, response: Response) -> &'static str {
        match (self, response.cordons()) {
            (Self::Begins, _) => match response {
                Response::Drain => "cordoned, draining",
                Response::Cordon => "cordoned; its pods stay (--on)",
                Response::Prefer | Response::Ignore => {
                    "tainted with PreferNoSchedule; its pods stay (--on)"
                }
            },
            (Self::Paused, true) => "cordoned; its drain waits, because it is paused",
            (Self::Paused, false) => "tainted with PreferNoSchedule; paused",
            (Self::Released, true) => "cordoned; its pods stay, because its release was asked for",
            (Self::Released, false) => "tainted with PreferNoSchedule; its release was asked for",
            (Self::Over, true) => "cordoned; the instance has ended",
            (Self::Over, false) => "tainted with PreferNoSchedule; the instance has ended",
            (Self::Ended, _) => "the drain of its node is over, and the release is under way",
        }
    }
}

fn response_of(node: &Node) -> Response {
    let record = node.record().and_then(|text| record::Record::read(text).ok());
    record.map_or(Response::Drain, |record| record.response())
}

#[cfg(test)]
mod tests;
