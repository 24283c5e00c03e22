//! Parses the messages of the intake and starts a decision for each interruption.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    capacity_block::{self, SearchResult},
    context::Term,
    decision::Decision,
    intake::{Delivery, Ticket},
    message_end::MessageEnd,
    trial::{TrialEntry, Would},
};
use crate::{
    domain::{CapacityBlock, Interruption, Kind, seconds},
    interruption::{Parsed, Reject, TestContent, TestEvent, excerpt, parse},
    observe::{Loop, MessageOutcome},
    triage::hidden_from_others,
};

/// How many interruptions of one message are decided at the same time. An event of AWS Health can
/// name tens of thousands of entities, and each takes up to 3 KB until it is decided.
const DECISIONS: usize = 128;

/// Reads deliveries until the intake has stopped, and starts a decision for each interruption.
pub(super) async fn read(term: Term, mut deliveries: mpsc::Receiver<Delivery>, alive: Loop) {
    let reader = Arc::new(MessageReader { term: Arc::new(term), logged_rejects: Mutex::default() });
    loop {
        alive.made_progress();
        match tokio::time::timeout(seconds(10), deliveries.recv()).await {
            Ok(Some(delivery)) => reader.handle(delivery),
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

struct MessageReader {
    /// Shared: thousands of decisions hold it.
    term: Arc<Term>,
    /// The reasons of rejected messages that are already logged.
    logged_rejects: Mutex<BTreeSet<&'static str>>,
}

/// Why there is nothing to do about a message.
struct NothingToDo {
    /// `None`: the message is about no interruption.
    kind: Option<Kind>,
    reason: &'static str,
    outcome: MessageOutcome,
    /// Identifies the event: a dry run logs it once.
    event: String,
}

impl MessageReader {
    fn handle(self: &Arc<Self>, delivery: Delivery) {
        let nothing = |reason, outcome| {
            let event = fingerprint(&delivery.body);
            NothingToDo { kind: None, reason, outcome, event }
        };
        match parse(&*delivery.body) {
            Err(reject) => self.reject(delivery, &reject),
            Ok(Parsed::TestNotification) => {
                let nothing = nothing("test_notification", MessageOutcome::Test);
                self.dispose(delivery, &nothing);
            }
            Ok(Parsed::Irrelevant(why)) => {
                let nothing = nothing(why.as_str(), MessageOutcome::Unrelated);
                self.dispose(delivery, &nothing);
            }
            Ok(Parsed::Test(test)) => self.start_test(test, delivery),
            Ok(Parsed::Interruptions(interruptions)) => {
                self.start_decisions(interruptions, delivery, false);
            }
            Ok(Parsed::CapacityBlock(block)) => {
                self.term.spawn(Arc::clone(self).decide_block(block, delivery, None));
            }
        }
    }

    fn start_test(self: &Arc<Self>, test: TestEvent, delivery: Delivery) {
        let is_real = test.real && self.term.takes_real_tests();
        match (test.real, is_real) {
            (true, true) => warn!(
                queue = %delivery.queue,
                "A test event is acted on as if it were real: --accept-real-tests."
            ),
            (true, false) => warn!(
                queue = %delivery.queue,
                "A test event asks to be acted on, but --accept-real-tests is not set or its time \
                 is over. Sundown only reports what it would do."
            ),
            (false, _) => info!(
                queue = %delivery.queue,
                "Received a test event. Sundown reports what it would do, and does nothing."
            ),
        }
        match test.content {
            TestContent::Interruptions(interruptions) => {
                warn_of_ignored(&delivery, interruptions.len(), test.ignored);
                self.start_decisions(interruptions, delivery, !is_real);
            }
            TestContent::CapacityBlock(block) => {
                let block = Arc::clone(self).decide_block(block, delivery, Some(is_real));
                self.term.spawn(block);
            }
        }
    }

    /// Finds the instances of a Capacity Block, and starts a decision for each. `test`: it is a test
    /// event; `Some(true)`: one that is acted on.
    async fn decide_block(
        self: Arc<Self>,
        block: CapacityBlock,
        mut delivery: Delivery,
        test: Option<bool>,
    ) {
        delivery.body.clear();
        let given_up = delivery.ticket.spare();
        let (reservation, event) = (&block.reservation, &block.event_id);
        let kind = Some(Kind::CapacityBlock);
        if let Some(reason) = self.term.shared.policy.ignores(Kind::CapacityBlock) {
            let nothing = NothingToDo {
                kind,
                reason: reason.as_str(),
                outcome: MessageOutcome::NotActedOn,
                event: format!("{reservation} {event}"),
            };
            return self.dispose(delivery, &nothing);
        }
        let ends = block.ends_by(self.term.aws_now());
        let mut instances = match capacity_block::search(
            &self.term,
            reservation,
            &given_up,
            test.is_some(),
            self.term.skew().to_ours(ends),
        )
        .await
        {
            SearchResult::Found(instances) => instances,
            SearchResult::GivenUp => {
                self.term.shared.metrics.message(kind, MessageOutcome::Left);
                return delivery.ticket.leave();
            }
            SearchResult::TimedOut if test.is_none() => {
                let nothing = NothingToDo {
                    kind,
                    reason: "stale",
                    outcome: MessageOutcome::Stale,
                    event: format!("{reservation} {event}"),
                };
                return self.dispose(delivery, &nothing);
            }
            SearchResult::TimedOut => {
                self.term.shared.metrics.message(kind, MessageOutcome::Test);
                info!(
                    %reservation, %event,
                    "Test event: a minute was not enough to ask EC2 which instances run in the \
                     Capacity Block."
                );
                return delivery.ticket.delete();
            }
        };
        if self.term.is_first_report(&format!("{reservation} {event} ends")) {
            info!(%reservation, %event, instances = instances.len(), "A Capacity Block ends soon.");
        }
        if instances.is_empty() {
            let nothing = NothingToDo {
                kind,
                reason: "no_instance",
                outcome: MessageOutcome::NoInstance,
                event: format!("{reservation} {event}"),
            };
            return self.dispose(delivery, &nothing);
        }
        if test.is_some() {
            let ignored = instances.len().saturating_sub(TestEvent::MOST_INSTANCES);
            instances.truncate(TestEvent::MOST_INSTANCES);
            warn_of_ignored(&delivery, instances.len(), ignored);
        }
        let interruptions = instances.into_iter().map(|instance| block.of(instance)).collect();
        self.start_decisions(interruptions, delivery, test == Some(false));
    }

    /// Starts a decision for each interruption. `test`: it is only reported.
    fn start_decisions(&self, interruptions: Vec<Interruption>, delivery: Delivery, test: bool) {
        let term = Arc::clone(&self.term);
        // The difference between AWS's clock and ours must not make an event look old.
        let skew = term.skew();
        let received = term.shared.clock.now();
        // A message without a lifecycle hook may come again later. A hook needs heartbeats from now
        // on.
        let has_hook = !test && interruptions.iter().any(|i| i.hook().is_some());
        let given_up = if has_hook { CancellationToken::new() } else { delivery.ticket.spare() };
        let sent = delivery.sent;
        let mut decisions = interruptions.into_iter().map(move |interruption| {
            // An event with a time in the future would have a deadline that never comes.
            let latest = received.plus(seconds(5));
            let time = interruption.time.map(|t| t.min(skew.to_aws(latest)));
            let happened = time.or(sent).map_or(received, |t| skew.to_ours(t).min(latest));
            // All other times stay as AWS sent them: that is how they are recorded.
            let interruption = Interruption { time, ..interruption };
            let (term, given_up) = (Arc::clone(&term), given_up.clone());
            Decision::new(term, interruption, received, happened, sent, given_up, test)
        });
        let first: Vec<_> = decisions.by_ref().take(DECISIONS).collect();
        // The body is dropped here: an undecided message may wait for hours.
        let (ticket, receive_count) = (delivery.ticket, delivery.receive_count);
        match <[Decision; 1]>::try_from(first) {
            Ok([only]) => self.term.spawn(decide_one(only, ticket, receive_count)),
            Err(first) => {
                self.term.spawn(decide_all(
                    first.into_iter().chain(decisions),
                    ticket,
                    receive_count,
                ));
            }
        }
    }

    /// Disposes of a message that is about nothing that Sundown handles: gives it back if the queue
    /// is shared, because it may be for others, and deletes it otherwise.
    fn dispose(&self, delivery: Delivery, nothing: &NothingToDo) {
        let shared = self.term.shared.policy.shared_queue;
        let reason = nothing.reason;
        debug!(reason, "A message is about nothing that Sundown handles.");
        let outcome = if shared { MessageOutcome::Left } else { nothing.outcome };
        self.term.shared.metrics.message(nothing.kind, outcome);
        if self.term.shared.config.dry_run && self.term.is_first_report(&nothing.event) {
            let what = if shared { "leave it to others" } else { "delete it" };
            info!(reason, queue = %delivery.queue, "Dry run: would {what} and do nothing.");
        }
        if self.term.is_trial() {
            let entry = TrialEntry::of_message(
                self.term.shared.clock.now(),
                delivery.sent,
                Would::Nothing,
                reason,
            );
            if !self.term.record_trial(&entry) {
                return delivery.ticket.leave();
            }
        }
        if shared {
            give_back(delivery);
        } else {
            delivery.ticket.delete();
        }
    }

    fn reject(&self, delivery: Delivery, reject: &Reject) {
        self.term.shared.metrics.rejected(reject.as_str());
        let shared = self.term.shared.policy.shared_queue;
        if shared {
            self.term.shared.metrics.message(None, MessageOutcome::Left);
        }
        let first =
            self.logged_rejects.lock().is_ok_and(|mut logged| logged.insert(reject.as_str()));
        if first {
            let body = excerpt(&delivery.body);
            let what_follows = if shared {
                "given back to other readers of the queue"
            } else {
                "left for the dead-letter queue"
            };
            warn!(
                reason = reject.as_str(), hint = %reject.hint(), queue = %delivery.queue, body,
                "A message was not understood. It is {what_follows}; others of this kind are only \
                 counted."
            );
        }
        let entry = || {
            TrialEntry::of_message(
                self.term.shared.clock.now(),
                delivery.sent,
                Would::NotUnderstood,
                reject.as_str(),
            )
        };
        if self.term.is_trial() && self.term.record_trial(&entry()) {
            return delivery.ticket.delete();
        }
        if shared {
            // Another reader of the queue may understand it.
            give_back(delivery);
        } else {
            delivery.ticket.leave();
        }
    }
}

fn warn_of_ignored(delivery: &Delivery, read: usize, ignored: usize) {
    if ignored > 0 {
        warn!(
            queue = %delivery.queue, read, ignored,
            "A test event is about too many instances. Sundown ignores all but the first ones."
        );
    }
}

/// Gives a message back, because another reader of the queue may want it.
fn give_back(delivery: Delivery) {
    delivery.ticket.give_back(hidden_from_others(delivery.receive_count));
}

/// A hash of a body, to recognize it again.
fn fingerprint(body: &str) -> String {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

/// Waits for the decision about the only interruption of a message, and disposes of the message.
/// Thousands of messages may wait: a stream of decisions would take twice the memory.
#[allow(clippy::manual_async_fn, reason = "an async fn reserves its arguments' memory twice")]
fn decide_one(
    mut decision: Decision,
    ticket: Ticket,
    receive_count: u32,
) -> impl Future<Output = ()> + Send {
    async move {
        let end = decision.decide().await;
        dispose_of(ticket, end, receive_count);
    }
}

/// Waits for the decisions about all interruptions of a message. Then deletes the message, unless
/// one of them needs it to come again.
async fn decide_all(
    decisions: impl Iterator<Item = Decision> + Send,
    ticket: Ticket,
    receive_count: u32,
) {
    let decisions = decisions.map(|mut decision| async move { decision.decide().await });
    let decided = stream::iter(decisions).buffer_unordered(DECISIONS);
    let last = decided.fold(MessageEnd::Deleted, async |last, next| last.max(next)).await;
    dispose_of(ticket, last, receive_count);
}

fn dispose_of(ticket: Ticket, end: MessageEnd, receive_count: u32) {
    match end {
        MessageEnd::Deleted => ticket.delete(),
        MessageEnd::GivenBack => ticket.give_back(hidden_from_others(receive_count)),
        MessageEnd::LeftToReappear => ticket.leave(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F: Future>(_: impl Fn(Decision, Ticket) -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand messages may wait at once, each in a future of its own.
    #[test]
    fn a_message_that_waits_for_its_decision_takes_little_memory() {
        let bytes = size(|decision, ticket| decide_one(decision, ticket, 1));
        assert!(bytes <= 1024, "{bytes} bytes");
    }
}
