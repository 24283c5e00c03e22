//! The decision on one message.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{
    ledger::{Key, Ledger},
    writer::Writer,
};

/// Decides one message. Dropped, it is left alone. After the intake has stopped it does nothing: the message was given back.
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

    /// It owes nothing that must be looked after until it is decided: where there is no room for others it may be given up, and
    /// reappears by itself. What comes back says when that has happened.
    pub fn spare(&self) -> CancellationToken {
        self.0.as_ref().map_or_else(CancellationToken::new, |held| held.ledger.spare(held.key))
    }

    /// Its work is done: it is deleted, in a batch with others, again and again until SQS has done it.
    pub fn delete(mut self) {
        if let Some(held) = self.0.take()
            && held.ledger.decide(held.key)
            && !held.writer.delete(held.key)
        {
            held.ledger.forget(held.key);
        }
    }

    /// Nothing can be done with it now: it is not extended any more and reappears when its visibility timeout is over, which
    /// counts towards the queue's `maxReceiveCount`. While the intake stops it is given back like all that is undecided.
    pub fn leave(self) {
        drop(self);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.ledger.leave(held.key);
        }
    }
}
