//! What was asked and what became of it: for judges in tests and for the summary of a simulation.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::autoscaling::{HookResult, Transition};
use crate::domain::{Moment, MomentExt};

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
    /// Service and action as IAM writes them: `sqs:ReceiveMessage`, `autoscaling:CompleteLifecycleAction`.
    pub api: String,
    /// What it was about: queue name, `group/hook/instance`, instance ids; empty where there is no such thing.
    pub object: String,
    /// The access key that signed it; empty when unsigned.
    pub by: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// A message that was deleted from its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// When.
    pub at: Moment,
    /// From which queue.
    pub queue: String,
    /// Which message.
    pub message_id: String,
    /// What it said.
    pub body: std::sync::Arc<str>,
    /// When it was sent, by AWS's clock.
    pub sent: Moment,
    /// How often it had been received.
    pub receive_count: u32,
}

/// Why a lifecycle action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// `CompleteLifecycleAction` was accepted.
    Completed(HookResult),
    /// No heartbeat came within the heartbeat timeout; the hook's default result applied.
    TimedOut(HookResult),
    /// The global timeout was over; the hook's default result applied.
    GlobalTimeout(HookResult),
    /// Another hook of the same instance ended with ABANDON, which stops the remaining ones.
    Stopped,
    /// The hook was removed or its group deleted.
    Removed,
}

/// A lifecycle action: one hook, run for one instance once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionReport {
    /// The Auto Scaling group.
    pub group: String,
    /// The hook.
    pub hook: String,
    /// The instance.
    pub instance: String,
    /// The token of this action.
    pub token: String,
    /// Launch or termination.
    pub transition: Transition,
    /// When it began.
    pub started: Moment,
    /// The hook's heartbeat timeout when it began.
    pub heartbeat_timeout: Duration,
    /// When the global timeout ends it.
    pub global_end: Moment,
    /// Accepted heartbeats.
    pub beats: Vec<Moment>,
    /// When, why and by whom (access key; empty: by AWS itself) it ended. `None`: it is open.
    pub end: Option<ActionEnd>,
    /// Calls for it that were refused because it was no longer open.
    pub late_calls: Vec<Moment>,
}

/// The end of a lifecycle action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionEnd {
    /// When.
    pub at: Moment,
    /// Why.
    pub verdict: Verdict,
    /// The access key that completed it; empty when AWS ended it by itself.
    pub by: String,
}

impl ActionReport {
    /// The longest time without a sign of life, from its begin to its end (or `now` while it is open).
    #[must_use]
    pub fn longest_gap(&self, now: Moment) -> Duration {
        let end = self.end.as_ref().map_or(now, |e| e.at);
        let mut last = self.started;
        let mut longest = Duration::ZERO;
        for at in self.beats.iter().copied().chain([end]) {
            longest = longest.max(at.since_or_zero(last));
            last = at;
        }
        longest
    }
}

/// How much the journal keeps. Counts are always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Every call and deletion.
    All,
    /// The newest ones only.
    Newest(usize),
    /// None.
    Nothing,
}

/// The record of calls and deletions.
#[derive(Debug)]
pub(super) struct Journal {
    keep: Keep,
    calls: VecDeque<Call>,
    deletions: VecDeque<Deletion>,
    counts: BTreeMap<String, BTreeMap<Outcome, u64>>,
}

impl Journal {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, calls: VecDeque::new(), deletions: VecDeque::new(), counts: BTreeMap::new() }
    }

    pub(super) fn call(&mut self, call: Call) {
        if let Some(count) = self.counts.get_mut(&call.api).and_then(|by| by.get_mut(&call.outcome)) {
            *count += 1;
        } else {
            self.counts.entry(call.api.clone()).or_default().insert(call.outcome.clone(), 1);
        }
        push(&mut self.calls, call, self.keep);
    }

    pub(super) fn deletion(&mut self, deletion: impl FnOnce() -> Deletion) {
        if self.keep != Keep::Nothing {
            push(&mut self.deletions, deletion(), self.keep);
        }
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.iter().cloned().collect()
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
        self.counts.clear();
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, keep: Keep) {
    let limit = match keep {
        Keep::All => usize::MAX,
        Keep::Newest(n) => n,
        Keep::Nothing => 0,
    };
    list.push_back(item);
    while list.len() > limit {
        list.pop_front();
    }
}
