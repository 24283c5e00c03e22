//! When the task of a lifecycle action tries to complete it, and which callers wait for that.

use std::sync::Arc;

use futures::future::{BoxFuture, pending};

use super::{Completer, Completion, action_calls::Try, confirmation};
use crate::{
    controller::shared::Shared,
    domain::{HookKey, HookResult, Moment, seconds},
    lifecycle::{Confirmation, FORBIDDEN_RETRY, Next, Seen},
    runtime::{Backoff, Random},
};

/// How long after its order a launch may be completed with ABANDON.
const ABANDON_LAUNCH_FOR: std::time::Duration = seconds(15);

/// The result that a caller orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::controller) enum OrderedResult {
    /// CONTINUE.
    Continue,
    /// ABANDON, because the node of a new instance is not ready. If AWS has not accepted that soon,
    /// CONTINUE: what was missing may be there by then.
    AbandonLaunch,
    /// ABANDON, because the drain has failed and the group retains the instance. The pods are still
    /// there however late AWS accepts that.
    AbandonTermination,
}

impl OrderedResult {
    pub(in crate::controller) const fn of_launch(result: HookResult) -> Self {
        match result {
            HookResult::Continue => Self::Continue,
            HookResult::Abandon => Self::AbandonLaunch,
        }
    }

    pub(in crate::controller) const fn of_termination(result: HookResult) -> Self {
        match result {
            HookResult::Continue => Self::Continue,
            HookResult::Abandon => Self::AbandonTermination,
        }
    }

    fn at(self, ordered_at: Moment, now: Moment) -> HookResult {
        match self {
            Self::AbandonTermination => HookResult::Abandon,
            Self::AbandonLaunch if now <= ordered_at.plus(ABANDON_LAUNCH_FOR) => {
                HookResult::Abandon
            }
            Self::AbandonLaunch | Self::Continue => HookResult::Continue,
        }
    }
}

/// The ordered completion of one action. Without an order: nobody waits, and nothing is tried.
pub(super) struct ActionCompletion {
    /// Callers that wait for the end of the action.
    waiting: Vec<Completer>,
    /// The result that was last sent.
    sent: HookResult,
    /// When to try to complete the action. `None`: not yet, or it is over.
    try_at: Option<Moment>,
    /// The pauses after completions that failed.
    backoff: Backoff,
    /// For an action that only a record names: whether AWS shows its instance waiting.
    confirmation: Confirmation,
    /// When AWS is to be asked that next.
    ask_at: Option<Moment>,
    /// The question to AWS whether the instance waits, while it has no answer. It outlives the turns
    /// of the task's loop, so that a slow answer is not asked for again and again.
    asking: Option<BoxFuture<'static, (Moment, Seen)>>,
}

/// When to complete the action, and when to ask AWS first whether the instance waits. At most one
/// of them is `Some`.
pub(super) struct CompletionTimes {
    pub(super) complete_at: Option<Moment>,
    pub(super) ask_at: Option<Moment>,
}

impl ActionCompletion {
    pub(super) fn new() -> Self {
        Self {
            waiting: Vec::new(),
            sent: HookResult::Continue,
            try_at: None,
            backoff: Backoff::up_to(seconds(20)),
            confirmation: Confirmation::default(),
            ask_at: None,
            asking: None,
        }
    }

    /// A caller orders the completion, and waits for the end of the action.
    pub(super) fn order(&mut self, completer: Completer, now: Moment) {
        self.waiting.push(completer);
        if self.try_at.is_none() {
            self.try_at = Some(now);
            self.backoff.reset();
        }
    }

    /// The result to complete the action with now: that of the first caller that waits. Notes it as
    /// sent.
    pub(super) fn send_result(&mut self, now: Moment) -> HookResult {
        let first = self.waiting.first();
        self.sent =
            first.map_or(HookResult::Continue, |first| first.result.at(first.ordered_at, now));
        self.sent
    }

    /// The result that was last sent.
    pub(super) const fn sent(&self) -> HookResult {
        self.sent
    }

    pub(super) const fn is_ordered(&self) -> bool {
        self.try_at.is_some()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A caller waits that had no proof that the hook is ours.
    pub(super) fn has_unconfirmed(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.is_unconfirmed)
    }

    /// Replies `NotOurs` to the callers that had no proof that the hook is ours. Cancels the
    /// completion if no caller is left. Returns whether that is so.
    pub(super) fn reject_unconfirmed(&mut self) -> bool {
        for waiting in self.waiting.extract_if(.., |waiting| waiting.is_unconfirmed) {
            waiting.reply.send(Completion::NotOurs).ok();
        }
        if self.waiting.is_empty() {
            self.try_at = None;
        }
        self.waiting.is_empty()
    }

    /// Replies to all callers, and returns how many waited.
    pub(super) fn reply_to_all(&mut self, completion: Completion) -> usize {
        let waiting = self.waiting.len();
        for completer in self.waiting.drain(..) {
            completer.reply.send(completion).ok();
        }
        waiting
    }

    /// AWS has shown the instance waiting, and that still counts at `now`.
    pub(super) fn is_confirmed(&self, now: Moment) -> bool {
        self.confirmation.is_good(now)
    }

    /// `is_confirmed`: the action may be completed without another question to AWS.
    pub(super) fn times(&self, is_confirmed: bool) -> CompletionTimes {
        if is_confirmed {
            return CompletionTimes { complete_at: self.try_at, ask_at: None };
        }
        let ask_at = self.try_at.map(|at| self.ask_at.map_or(at, |ask| ask.max(at)));
        CompletionTimes { complete_at: None, ask_at }
    }

    /// Asks AWS whether the instance waits, unless a question has no answer yet.
    pub(super) fn ask(&mut self, shared: &Arc<Shared>, key: &HookKey) {
        if self.asking.is_none() {
            self.asking = Some(Box::pin(confirmation::ask(shared.clone(), key.clone())));
        }
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Waits for the answer to [`Self::ask`], without end if nothing was asked. Returns when AWS was
    /// asked, and the answer.
    pub(super) async fn answer(&mut self) -> (Moment, Seen) {
        let Some(asking) = self.asking.as_mut() else { return pending().await };
        let answer = asking.await;
        self.asking = None;
        answer
    }

    /// Notes the answer to the question asked at `asked`. `end`: when the action ends at the latest.
    pub(super) fn heard(&mut self, seen: Seen, asked: Moment, now: Moment, end: Moment) -> Next {
        let next = self.confirmation.heard(seen, asked, now, end);
        self.ask_at = match next {
            Next::Ask(at) | Next::Prove(at) | Next::Doubt(at) => Some(at),
            Next::Complete | Next::CompleteUnconfirmed | Next::Over => None,
        };
        next
    }

    /// Plans the next try after one that had this result.
    pub(super) fn tried(&mut self, result: Try, now: Moment, random: &Random) {
        self.try_at = match result {
            Try::Over => None,
            Try::Forbidden => Some(now.plus(FORBIDDEN_RETRY)),
            Try::Failed => Some(now + self.backoff.pause(random)),
        };
    }

    /// If a try is planned: not later than at this moment.
    pub(super) fn try_by(&mut self, latest: Moment) {
        self.try_at = self.try_at.map(|at| at.min(latest));
    }

    /// Plans the next try for this moment.
    pub(super) const fn try_again_at(&mut self, at: Moment) {
        self.try_at = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_launch_is_continued_soon_and_an_abandoned_termination_never() {
        use HookResult::{Abandon, Continue};
        let ordered = Moment::UNIX_EPOCH;
        for (result, after, expected) in [
            (OrderedResult::of_launch(Continue), 0, Continue),
            (OrderedResult::of_launch(Abandon), 15, Abandon),
            (OrderedResult::of_launch(Abandon), 16, Continue),
            (OrderedResult::of_termination(Continue), 0, Continue),
            (OrderedResult::of_termination(Abandon), 15, Abandon),
            (OrderedResult::of_termination(Abandon), 3600, Abandon),
        ] {
            let now = ordered.plus(seconds(after));
            assert_eq!(result.at(ordered, now), expected, "{result:?} {after}");
        }
    }
}
