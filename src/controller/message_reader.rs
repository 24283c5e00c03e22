//! Where messages are read and handed to their cases.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Mutex,
};

use futures::future::join_all;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    context::Term,
    decision::{self, Disposition},
    intake::{Delivery, Ticket},
    trial::{TrialEntry, Would},
};
use crate::{
    domain::{Interruption, seconds},
    interruption::{Parsed, Reject, excerpt, parse},
    observe::{Loop, MessageOutcome},
    triage::hidden_from_others,
};

/// Reads deliveries until there are no more, and starts a case for each interruption.
pub(super) async fn read(term: Term, mut deliveries: mpsc::Receiver<Delivery>, alive: Loop) {
    let desk = Desk { term, told: Mutex::default() };
    loop {
        alive.turned();
        match tokio::time::timeout(seconds(10), deliveries.recv()).await {
            Ok(Some(delivery)) => desk.open(delivery),
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

struct Desk {
    term: Term,
    told: Mutex<BTreeSet<&'static str>>,
}

impl Desk {
    fn open(&self, delivery: Delivery) {
        match parse(&*delivery.body) {
            Err(reject) => self.reject(delivery, &reject),
            Ok(Parsed::TestNotification) => {
                self.dispose(delivery, "test_notification", MessageOutcome::Test);
            }
            Ok(Parsed::Irrelevant(why)) => {
                self.dispose(delivery, why.as_str(), MessageOutcome::Unrelated);
            }
            Ok(Parsed::Test(test)) => {
                let is_real = test.real && self.term.takes_real_tests();
                match (test.real, is_real) {
                    (true, true) => {
                        warn!(
                            queue = %delivery.queue, "A test event is acted on as if it were real: \
                                 --accept-real-tests.");
                    }
                    (true, false) => warn!(
                        queue = %delivery.queue,
                        "A test event asks to be acted on, and this process does not do that (any \
                         more): --accept-real-tests. It is only told what would be done."
                    ),
                    (false, _) => {
                        info!(
                            queue = %delivery.queue,
                            "A test event came: it is told what would be done, and nothing is.");
                    }
                }
                if test.ignored > 0 {
                    let (read, ignored) = (test.interruptions.len(), test.ignored);
                    warn!(
                        queue = %delivery.queue, read, ignored,
                        "A test event names too many instances: only the first ones are looked \
                         at.");
                }
                self.take_on(test.interruptions, delivery, !is_real);
            }
            Ok(Parsed::Interruptions(interruptions)) => {
                self.take_on(interruptions, delivery, false);
            }
        }
    }

    /// Starts a case for each interruption. A test is decided like any other, and nothing is done
    /// about it.
    fn take_on(&self, interruptions: Vec<Interruption>, delivery: Delivery, test: bool) {
        let term = self.term.clone();
        // What differs between AWS's clock and ours must not make an event look old.
        let skew = term.skew();
        let received = term.clock.now();
        // What owes no hook may come again later; a hook has to be beaten from now on.
        let owes_a_hook = !test && interruptions.iter().any(|i| i.hook().is_some());
        let given_up = if owes_a_hook { CancellationToken::new() } else { delivery.ticket.spare() };
        let decisions: Vec<_> = interruptions
            .into_iter()
            .map(|interruption| {
                // No event is from the future: taken at its word, one that says so would have a
                // deadline that never comes.
                let latest = received.plus(seconds(5));
                let time = interruption.time.map(|t| t.min(skew.to_aws(latest)));
                let happened =
                    time.or(delivery.sent).map_or(received, |t| skew.to_ours(t).min(latest));
                // All other times stay as AWS sent them: that is how they are recorded.
                let interruption = Interruption { time, ..interruption };
                decision::Decision::new(
                    term.clone(),
                    interruption,
                    received,
                    happened,
                    delivery.sent,
                    given_up.clone(),
                    test,
                )
            })
            .collect();
        // Its body is dropped here: what is undecided may wait for hours.
        self.term.spawn(decide_all(decisions, delivery.ticket, delivery.receive_count));
    }

    /// A message is about nothing that Sundown deals with. On a shared queue it may be for others.
    fn dispose(&self, delivery: Delivery, reason: &str, outcome: MessageOutcome) {
        let shared = self.term.policy.shared_queue;
        debug!(reason, "A message is about nothing that Sundown deals with.");
        self.term.metrics.message(None, if shared { MessageOutcome::Left } else { outcome });
        if self.term.config.dry_run && self.term.first_said(&fingerprint(&delivery.body)) {
            let what = if shared { "leave it to others" } else { "delete it" };
            info!(reason, queue = %delivery.queue, "Dry run: would {what} and do nothing.");
        }
        if self.term.is_trial() {
            let entry = TrialEntry::of_message(
                self.term.clock.now(),
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
        self.term.metrics.rejected(reject.as_str());
        let shared = self.term.policy.shared_queue;
        if shared {
            self.term.metrics.message(None, MessageOutcome::Left);
        }
        let first = self.told.lock().is_ok_and(|mut told| told.insert(reject.as_str()));
        if first {
            let body = excerpt(&delivery.body);
            let disposition = if shared {
                "given back to other readers of the queue"
            } else {
                "left for the dead-letter queue"
            };
            warn!(
                reason = reject.as_str(), hint = %reject.hint(), queue = %delivery.queue, body,
                "A message was not understood. It is {disposition}; others of this kind are only counted."
            );
        }
        let entry = || {
            TrialEntry::of_message(
                self.term.clock.now(),
                delivery.sent,
                Would::NotUnderstood,
                reject.as_str(),
            )
        };
        if self.term.is_trial() && self.term.record_trial(&entry()) {
            return delivery.ticket.delete();
        }
        if shared {
            // Another party's reader may understand it.
            give_back(delivery);
        } else {
            delivery.ticket.leave();
        }
    }
}

/// Another reader of the queue may want it.
fn give_back(delivery: Delivery) {
    delivery.ticket.give_back(hidden_from_others(delivery.receive_count));
}

/// What tells one body from another.
fn fingerprint(body: &str) -> String {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

/// A message is deleted when every interruption in it is decided and none of them wants it back.
async fn decide_all(decisions: Vec<decision::Decision>, ticket: Ticket, receive_count: u32) {
    let disposition = join_all(decisions.into_iter().map(decision::Decision::decide)).await;
    match disposition.into_iter().max() {
        None | Some(Disposition::Delete) => ticket.delete(),
        Some(Disposition::GiveBack) => ticket.give_back(hidden_from_others(receive_count)),
        Some(Disposition::Leave) => ticket.leave(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, F: Future>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand messages may wait at once, each in a future of its own.
    #[test]
    fn an_interruption_that_waits_for_its_decision_takes_little_memory() {
        let bytes = size(decision::Decision::decide);
        assert!(bytes <= 3072, "{bytes} bytes");
    }
}
