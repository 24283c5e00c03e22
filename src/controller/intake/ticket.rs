//! The decision about one message.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    held::{HeldMessages, Key},
    writer::{ReleasedMessage, Writer},
};

/// Takes the decision about one message. Dropping it is the same as [`Ticket::leave`]. After the
/// intake has stopped it does nothing: the message was given back.
#[derive(Debug)]
pub struct Ticket(Option<Undecided>);

#[derive(Debug)]
struct Undecided {
    key: Key,
    held: Arc<HeldMessages>,
    writer: Writer,
}

impl Ticket {
    pub(super) fn new(key: Key, held: &Arc<HeldMessages>, writer: &Writer) -> Self {
        Self(Some(Undecided { key, held: Arc::clone(held), writer: writer.clone() }))
    }

    /// Allows the intake to give the message up while it is undecided, if there is no room for
    /// others: the message then reappears by itself. Not for a message with a lifecycle hook, which
    /// needs heartbeats meanwhile. The returned token is canceled when the message is given up.
    pub fn spare(&self) -> CancellationToken {
        self.0
            .as_ref()
            .map_or_else(CancellationToken::new, |message| message.held.spare(message.key))
    }

    /// The message needs no more work: the intake deletes it, in a batch with others, and retries
    /// for one visibility timeout.
    pub fn delete(mut self) {
        if let Some(message) = self.0.take()
            && message.held.decide(message.key)
            && !message.writer.delete(message.key)
        {
            message.held.forget(message.key);
        }
    }

    /// Nothing can be done with the message now: it is not extended again and reappears when its
    /// visibility timeout is over, which counts towards the queue's `maxReceiveCount`. While the
    /// intake stops, it is given back like all undecided messages.
    pub fn leave(self) {
        drop(self);
    }

    /// The message is for another reader of the queue: it stays hidden for `hidden` more (whole
    /// seconds) and is then visible to all. Where the intake gives nothing back (a dry run, a
    /// trial), it reappears when its visibility timeout is over.
    pub fn give_back(mut self, hidden: Duration) {
        if let Some(message) = self.0.take_if(|message| !message.held.is_closing())
            && let Some((receipt, place)) = message.held.forget(message.key)
        {
            message.writer.release(ReleasedMessage { receipt, hidden, _place: place });
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(message) = self.0.take() {
            message.held.leave(message.key);
        }
    }
}
