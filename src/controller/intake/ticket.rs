//! The decision on one message.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    ledger::{Key, Ledger},
    writer::{Given, Writer},
};

/// Decides one message. Dropped, it is left alone. After the intake has stopped it does nothing:
/// the message was given back.
#[derive(Debug)]
pub struct Ticket(Option<Held>);

#[derive(Debug)]
struct Held {
    key: Key,
    ledger: Arc<Ledger>,
    writer: Writer,
}

impl Ticket {
    pub(super) fn new(key: Key, ledger: &Arc<Ledger>, writer: &Writer) -> Self {
        Self(Some(Held { key, ledger: Arc::clone(ledger), writer: writer.clone() }))
    }

    /// It owes nothing that must be looked after until it is decided: where there is no room for
    /// others it may be given up, and reappears by itself. What comes back says when that has
    /// happened.
    pub fn spare(&self) -> CancellationToken {
        self.0.as_ref().map_or_else(CancellationToken::new, |held| held.ledger.spare(held.key))
    }

    /// Its work is done: it is deleted, in a batch with others, again and again until SQS has done
    /// it.
    pub fn delete(mut self) {
        if let Some(held) = self.0.take()
            && held.ledger.decide(held.key)
            && !held.writer.delete(held.key)
        {
            held.ledger.forget(held.key);
        }
    }

    /// Nothing can be done with it now: it is not extended any more and reappears when its
    /// visibility timeout is over, which counts towards the queue's `maxReceiveCount`. While the
    /// intake stops it is given back like all that is undecided.
    pub fn leave(self) {
        drop(self);
    }

    /// It is for somebody else: it is hidden for `hidden` more (whole seconds), so that another
    /// reader of the queue gets it soon. Where the intake gives nothing back (a dry run, a trial)
    /// it reappears when its visibility timeout is over.
    pub fn give_back(mut self, hidden: Duration) {
        if let Some(held) = self.0.take_if(|held| !held.ledger.is_closing())
            && let Some((receipt, place)) = held.ledger.forget(held.key)
        {
            held.writer.release(Given { receipt, hidden, _place: place });
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.ledger.leave(held.key);
        }
    }
}
