//! A record of calls and their outcomes, for judges in tests and for the summary of a simulation.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::autoscaling::{HookResult, Transition};
use crate::{domain::Moment, sim::Disturbance};

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Done, and the answer was given.
    Ok,
    /// Refused with this error code; nothing was done.
    Error(String),
    /// Never answered and not done.
    LostBefore,
    /// Done, or refused as it would have been, but the answer never arrived.
    LostAfter,
}

/// One call of an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// When it took effect or was refused (of a long poll: when it was answered).
    pub at: Moment,
    /// Service and action as IAM writes them: `sqs:ReceiveMessage`,
    /// `autoscaling:CompleteLifecycleAction`.
    pub api: String,
    /// Its object: queue name, `group/hook/instance`, or instance ids; empty if the call has none.
    pub object: String,
    /// The access key that signed it; empty when unsigned.
    pub by: String,
    /// Whether it had an effect, and whether the client got the answer.
    pub outcome: Outcome,
}

/// A message that was deleted from its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// When it was deleted, by the clock of the world.
    pub at: Moment,
    /// Name of the queue.
    pub queue: String,
    /// The message's `MessageId` in SQS.
    pub message_id: String,
    /// The message's `Body`.
    pub body: std::sync::Arc<str>,
    /// When it was sent, by AWS's clock.
    pub sent: Moment,
    /// How often it had been received.
    pub receive_count: u32,
}

/// A message that was sent to a queue, with its receives and its deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// Its `MessageId` in SQS.
    pub message_id: String,
    /// Name of the queue that it was sent to.
    pub queue: String,
    /// Its `Body`.
    pub body: std::sync::Arc<str>,
    /// When it was sent, by the clock of the world.
    pub at: Moment,
    /// The same by AWS's clock (`SentTimestamp`).
    pub sent: Moment,
    /// Every receive that took it, in order. The answer may have been lost on its way: then the
    /// receive's [`Call`] has [`Outcome::LostAfter`].
    pub deliveries: Vec<Delivery>,
    /// When a call deleted it; `None`: no call has.
    pub deleted: Option<Moment>,
    /// When a call first asked for its deletion in vain: the queue lost the deletion, or the
    /// receipt handle was not the newest. `None`: never.
    pub deletion_lost: Option<Moment>,
}

/// A receive of a message by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// When the message was received.
    pub at: Moment,
    /// The access key of the client.
    pub by: String,
}

/// An instance goes out of service without an end, or comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceChange {
    /// When it happened.
    pub at: Moment,
    /// EC2 instance ID.
    pub instance: String,
    /// The way in which it left or joined the service.
    pub change: ServiceEvent,
}

/// What happens in a [`ServiceChange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceEvent {
    /// It is in the warm pool of its group.
    IntoWarmPool,
    /// It has left the warm pool, and is in service or about to be: its launch hooks may run.
    OutOfWarmPool,
    /// EC2 has started it again after a stop or a hibernation.
    StartedAgain,
}

/// Why a lifecycle action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// `CompleteLifecycleAction` was accepted.
    Completed(HookResult),
    /// No heartbeat came within the heartbeat timeout; the hook's default result applied.
    TimedOut(HookResult),
    /// The global timeout ran out; the hook's default result applied.
    GlobalTimeout(HookResult),
    /// Another hook of the same instance ended with ABANDON, which stops the remaining ones.
    Stopped,
    /// The hook was removed or its group deleted.
    Removed,
}

/// A lifecycle action: one hook, run for one instance once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionReport {
    /// Name of the Auto Scaling group.
    pub group: String,
    /// Name of the lifecycle hook.
    pub hook: String,
    /// EC2 instance ID.
    pub instance: String,
    /// `LifecycleActionToken`, a UUID unique to this action.
    pub token: String,
    /// Launch or termination.
    pub transition: Transition,
    /// A terminate hook that waits before the root volume of the instance is replaced.
    pub replaces_root_volume: bool,
    /// When it began.
    pub started: Moment,
    /// The hook's heartbeat timeout when it began.
    pub heartbeat_timeout: Duration,
    /// When the global timeout ends it.
    pub global_end: Moment,
    /// When each accepted heartbeat came, oldest first.
    pub heartbeats: Vec<Moment>,
    /// How it ended. `None`: it is open.
    pub end: Option<ActionEnd>,
    /// When calls for it were refused because it was no longer open.
    pub late_calls: Vec<Moment>,
}

/// The end of a lifecycle action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionEnd {
    /// When it ended.
    pub at: Moment,
    /// What ended it, and with which result.
    pub verdict: Verdict,
    /// The access key that completed it; empty when AWS ended it by itself.
    pub by: String,
}

impl ActionReport {
    /// The longest time without a heartbeat, between its start and its end (or `now` while it is
    /// open).
    #[must_use]
    pub fn longest_gap(&self, now: Moment) -> Duration {
        let end = self.end.as_ref().map_or(now, |e| e.at);
        let mut last = self.started;
        let mut longest = Duration::ZERO;
        for at in self.heartbeats.iter().copied().chain([end]) {
            longest = longest.max(at.since_or_zero(last));
            last = at;
        }
        longest
    }
}

/// How many records the journal keeps. Counts of calls are always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Every call, message and deletion.
    All,
    /// At most this many calls, messages and deletions each: the newest.
    Newest(usize),
    /// No records, only counts.
    Nothing,
}

/// The record of calls, messages and deletions.
#[derive(Debug)]
pub(super) struct Journal {
    keep: Keep,
    calls: VecDeque<Call>,
    deletions: VecDeque<Deletion>,
    messages: VecDeque<SentMessage>,
    /// How many messages were recorded before the first one in `messages`.
    messages_dropped: usize,
    /// The number of each message in `messages`, counted from the very first one.
    message_numbers: BTreeMap<String, usize>,
    disturbances: VecDeque<Disturbance>,
    counts: BTreeMap<String, BTreeMap<Outcome, u64>>,
}

impl Journal {
    pub(super) fn new(keep: Keep) -> Self {
        Self {
            keep,
            calls: VecDeque::new(),
            deletions: VecDeque::new(),
            messages: VecDeque::new(),
            messages_dropped: 0,
            message_numbers: BTreeMap::new(),
            disturbances: VecDeque::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn call(&mut self, call: Call) {
        if let Some(count) = self.counts.get_mut(&call.api).and_then(|by| by.get_mut(&call.outcome))
        {
            *count += 1;
        } else {
            self.counts.entry(call.api.clone()).or_default().insert(call.outcome.clone(), 1);
        }
        push(&mut self.calls, call, self.keep);
    }

    pub(super) fn deletion(&mut self, deletion: impl FnOnce() -> Deletion) {
        if self.keep == Keep::Nothing {
            return;
        }
        let deletion = deletion();
        if let Some(message) = self.message(&deletion.message_id) {
            message.deleted = Some(deletion.at);
        }
        push(&mut self.deletions, deletion, self.keep);
    }

    /// Records that a call asked for the deletion of a message that is still in its queue.
    pub(super) fn deletion_lost(&mut self, message_id: &str, at: Moment) {
        if let Some(message) = self.message(message_id) {
            message.deletion_lost.get_or_insert(at);
        }
    }

    pub(super) fn sent(&mut self, message: impl FnOnce() -> SentMessage) {
        if self.keep == Keep::Nothing {
            return;
        }
        let message = message();
        self.message_numbers
            .insert(message.message_id.clone(), self.messages_dropped + self.messages.len());
        self.messages.push_back(message);
        while self.messages.len() > self.keep.limit() {
            self.messages_dropped += 1;
            if let Some(dropped) = self.messages.pop_front() {
                self.message_numbers.remove(&dropped.message_id);
            }
        }
    }

    pub(super) fn delivered(&mut self, message_id: &str, at: Moment, by: &str) {
        if let Some(message) = self.message(message_id) {
            message.deliveries.push(Delivery { at, by: by.to_owned() });
        }
    }

    fn message(&mut self, message_id: &str) -> Option<&mut SentMessage> {
        let number = self.message_numbers.get(message_id)?.checked_sub(self.messages_dropped)?;
        self.messages.get_mut(number)
    }

    pub(super) fn messages(&self) -> Vec<SentMessage> {
        self.messages.iter().cloned().collect()
    }

    /// Records that an injected fault affected a call.
    pub(super) fn disturbance(&mut self, fault: Disturbance) {
        push(&mut self.disturbances, fault, self.keep);
    }

    pub(super) fn disturbances(&self) -> Vec<Disturbance> {
        self.disturbances.iter().cloned().collect()
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.iter().cloned().collect()
    }

    pub(super) fn call_count(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn deletions(&self) -> Vec<Deletion> {
        self.deletions.iter().cloned().collect()
    }

    pub(super) fn counts(&self) -> BTreeMap<String, BTreeMap<Outcome, u64>> {
        self.counts.clone()
    }

    /// How many calls of `api` there were, however they ended.
    pub(super) fn count(&self, api: &str) -> u64 {
        self.counts.get(api).map_or(0, |by| by.values().sum())
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
        self.deletions.clear();
        self.disturbances.clear();
        self.counts.clear();
    }
}

impl Keep {
    const fn limit(self) -> usize {
        match self {
            Self::All => usize::MAX,
            Self::Newest(n) => n,
            Self::Nothing => 0,
        }
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, keep: Keep) {
    list.push_back(item);
    while list.len() > keep.limit() {
        list.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_of_the_newest_messages_still_records_their_receives() {
        let mut journal = Journal::new(Keep::Newest(2));
        let (at, queue, body) = (Moment::UNIX_EPOCH, "q".to_owned(), "x");
        for id in ["first", "second", "third"] {
            journal.sent(|| SentMessage {
                message_id: id.to_owned(),
                queue: queue.clone(),
                body: body.into(),
                at,
                sent: at,
                deliveries: Vec::new(),
                deleted: None,
                deletion_lost: None,
            });
        }
        for id in ["first", "second", "third", "third"] {
            journal.delivered(id, at, "somebody");
        }
        let kept: Vec<_> =
            journal.messages().into_iter().map(|m| (m.message_id, m.deliveries.len())).collect();
        assert_eq!(kept, [("second".to_owned(), 1), ("third".to_owned(), 2)]);
        journal.clear();
        assert_eq!(
            journal.messages().len(),
            2,
            "what was sent is a fact of the world, as lifecycle actions are"
        );
    }
}
