//! The heartbeats of one lifecycle action.

use std::time::Duration;

use super::{ActionSeen, CallPriority, HookFacts, UNDESCRIBED_TIMEOUT};
use crate::domain::{HookDescription, Moment, seconds};

/// The waits after the first failed heartbeats; later waits double. Each wait is shortened by up to
/// a quarter, by a fraction drawn for each action, so that actions that failed together are not
/// retried together.
const RETRIES: [Duration; 3] = [seconds(1), seconds(2), seconds(4)];
/// The sum of the waits before the third try.
const TWO_RETRIES: Duration = seconds(3);
/// The longest wait after a failure, for example once the window has passed or while a heartbeat
/// needs an operator to fix permissions.
const SLOW_RETRY: Duration = seconds(30);
/// The interval at which Sundown repeats a call that a policy forbids, for an action for which AWS
/// has accepted no heartbeat: completions from the first denial on, heartbeats once the action's
/// window must be over.
pub const FORBIDDEN_RETRY: Duration = Duration::from_mins(5);
/// The longest GlobalTimeout that AWS has, used for a hook that is not described.
const LONGEST_GLOBAL: Duration = Duration::from_hours(48);
/// The longest time limit of one call.
const MAX_CALL_TIME: Duration = seconds(10);
/// The least timeout to use, whatever AWS answered, so that heartbeats never go without a pause
/// (AWS allows none under 30 s).
const MIN_TIMEOUT: Duration = seconds(1);

/// When the heartbeats of one open lifecycle action are due.
///
/// The interval is half of the HeartbeatTimeout, or a third if the timeout is under 60 s. For a
/// hook that is not described yet it is 10 s. The first heartbeat goes at once if the event is
/// older than half an interval or the action was taken over. The first regular gap is shortened by
/// up to half an interval, so that the heartbeats of actions that arrived together spread out. No
/// gap is longer than the interval.
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatSchedule {
    event: Moment,
    start: ActionOrigin,
    /// The fraction (0 to 1) of half an interval by which the first regular gap is shortened.
    jitter: f64,
    /// The first regular gap has passed.
    is_first_gap_over: bool,
    description: Option<HookDescription>,
    /// The first description, which sets windows and deadlines.
    first_description: Option<HookDescription>,
    /// When the first description came; `None` if it was there from the beginning, or not yet.
    first_described_at: Option<Moment>,
    /// A heartbeat that was sent after `first_described_at` was answered or failed.
    is_tried_since: bool,
    /// When the current window began; `None`: at another leader's last heartbeat, which is not
    /// known.
    window_from: Option<Moment>,
    /// When this process, in an earlier term as leader, sent a heartbeat that AWS accepted.
    accepted_earlier: Option<Moment>,
    /// In an earlier term of this process AWS answered that the action is not open, and AWS has
    /// accepted no heartbeat since.
    is_known_over: bool,
    /// When the last heartbeat that was accepted was sent.
    last_accepted_sent: Option<Moment>,
    due: Moment,
    in_flight: Option<Moment>,
    failures: u32,
    /// When the first try failed, before any was accepted.
    first_failed: Option<Moment>,
    /// The last answer was a refusal that a retry does not fix.
    is_refused: bool,
    /// When a policy last forbade the heartbeat, if that was the last answer.
    forbidden: Option<Moment>,
    is_missed: bool,
    end: Option<HeartbeatEnd>,
    counts: HeartbeatCounts,
}

/// How this process learned of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionOrigin {
    /// Its event was received at this moment.
    Received(Moment),
    /// From the record of another leader.
    TakenOver {
        /// When this process took the action over.
        at: Moment,
        /// How long, beyond its interval, the action may have been without heartbeats before `at`.
        without_leader: Duration,
    },
}

/// Why there are no more heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeartbeatEnd {
    /// Our completion was accepted.
    Completed,
    /// AWS answered "No active Lifecycle Action": the action was completed by others, timed out or
    /// was abandoned. Not an error.
    Gone,
}

/// Counts of one action's heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeartbeatCounts {
    /// Heartbeats that were sent.
    pub sent: u64,
    /// Heartbeats that AWS accepted.
    pub accepted: u64,
    /// Heartbeats that AWS refused or did not answer in time.
    pub failed: u64,
    /// Windows of which two thirds had passed before a heartbeat was accepted.
    pub missed: u64,
}

impl HeartbeatSchedule {
    /// For an action whose event is of the time `event`. `jitter` (0 to 1, drawn once per action)
    /// spreads heartbeats in time.
    #[must_use]
    pub fn new(
        event: Moment,
        start: ActionOrigin,
        jitter: f64,
        description: Option<HookDescription>,
    ) -> Self {
        let (ActionOrigin::Received(seen) | ActionOrigin::TakenOver { at: seen, .. }) = start;
        // A clock that is ahead of ours must not delay a heartbeat.
        let event = event.min(seen);
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
        let mut schedule = Self {
            event,
            start,
            jitter,
            is_first_gap_over: false,
            first_description: description.clone(),
            first_described_at: None,
            is_tried_since: false,
            description,
            window_from: matches!(start, ActionOrigin::Received(_)).then_some(event),
            accepted_earlier: None,
            is_known_over: false,
            last_accepted_sent: None,
            due: event,
            in_flight: None,
            failures: 0,
            first_failed: None,
            is_refused: false,
            forbidden: None,
            is_missed: false,
            end: None,
            counts: HeartbeatCounts::default(),
        };
        schedule.due = schedule.planned();
        schedule
    }

    /// Adds that AWS accepted a heartbeat that this process sent at `sent`, in an earlier term as
    /// leader. A leader in between can only have made the window longer.
    #[must_use]
    pub fn with_accepted_earlier(self, sent: Moment) -> Self {
        Self { accepted_earlier: Some(sent), ..self }
    }

    /// Adds that AWS answered in an earlier term of this process that the action is not open.
    /// Sundown still sends heartbeats, because the record that names the action may be about
    /// another one. While they fail, no window sets a deadline.
    #[must_use]
    pub fn with_over_earlier(self) -> Self {
        Self { is_known_over: true, ..self }
    }

    /// When to send the next heartbeat; a moment in the past means now. `None`: one is in flight,
    /// the heartbeats have ended, or another one would gain nothing because the current window
    /// reaches the hook's GlobalTimeout.
    #[must_use]
    pub fn due(&self) -> Option<Moment> {
        let over = self
            .global_end()
            .is_some_and(|end| self.due >= end || self.window_end().is_some_and(|w| w >= end));
        if over { None } else { self.due_to_prove() }
    }

    /// When to send the next heartbeat if it should prove that the action is open, even if it gains
    /// no time. `None`: one is in flight, or the heartbeats have ended.
    #[must_use]
    pub fn due_to_prove(&self) -> Option<Moment> {
        let due =
            self.forbidden.map_or(self.due, |at| self.due.max(at.plus(self.forbidden_wait(at))));
        if self.in_flight.is_some() || self.end.is_some() { None } else { Some(due) }
    }

    /// The time of the event, but no later than when this process learned of the action.
    #[must_use]
    pub const fn event(&self) -> Moment {
        self.event
    }

    /// Makes the next heartbeat due now because its answer is needed. After a failure, the retry
    /// keeps its time.
    pub fn hasten(&mut self, now: Moment) {
        if self.failures == 0 {
            self.due = self.due.min(now);
        }
    }

    /// The priority of the next heartbeat when many wait, so that three tries fit before two thirds
    /// of the window have passed; after that, before the window ends.
    #[must_use]
    pub fn priority(&self) -> CallPriority {
        let timeout =
            self.first_description.as_ref().map_or(UNDESCRIBED_TIMEOUT, |d| d.heartbeat_timeout);
        let (start, due) = (self.window_start(), self.due);
        let (two_thirds, end) = (start.plus(two_thirds(timeout)), start.plus(timeout));
        let is_take_over = self.window_from.is_none();
        let room = two_thirds.since_or_zero(due).saturating_sub(TWO_RETRIES);
        let left = end.since_or_zero(due);
        let by = if is_take_over && self.first_description.is_none() {
            due
        } else if is_take_over && !left.is_zero() {
            // The time of the last heartbeat is a guess, so use half of what may be left.
            let from = two_thirds.max(due);
            from.plus(end.since_or_zero(from) / 2)
        } else if is_take_over {
            due.plus(seconds(2))
        } else if !room.is_zero() {
            due.plus(room / 4)
        } else if !left.is_zero() {
            due.plus((left / 8).min(MAX_CALL_TIME))
        } else {
            due.plus(if self.first_description.is_some() { seconds(60) } else { seconds(5) })
        };
        CallPriority {
            by,
            may_exceed_rate: self.first_description.is_some() || self.last_accepted_sent.is_some(),
            is_take_over,
        }
    }

    /// The priority of the completion when many calls wait: the less time is left of the current
    /// window, the earlier.
    #[must_use]
    pub fn completion_priority(&self, now: Moment) -> CallPriority {
        let end =
            self.window_end().unwrap_or_else(|| self.window_start().plus(UNDESCRIBED_TIMEOUT));
        CallPriority { by: end.max(now), may_exceed_rate: end > now, is_take_over: false }
    }

    /// Records that a policy forbids the heartbeat, with none accepted yet. The next one goes after
    /// a quarter of the time for which AWS may still keep the action open (5 min at most), because
    /// a denial may be temporary, but no sooner than after any other refusal. Once that time has
    /// passed, it goes after 5 min.
    pub fn forbidden(&mut self, now: Moment) {
        self.refused(now);
        self.forbidden = Some(now);
    }

    fn forbidden_wait(&self, at: Moment) -> Duration {
        let (ActionOrigin::Received(seen) | ActionOrigin::TakenOver { at: seen, .. }) = self.start;
        let left = seen.plus(self.timeout()).since_or_zero(at);
        if left.is_zero() { FORBIDDEN_RETRY } else { (left / 4).min(FORBIDDEN_RETRY) }
    }

    /// When AWS has ended the action at the latest, whatever it answered: the event's time plus the
    /// hook's GlobalTimeout, or 48 h for a hook that is not described. A heartbeat that was
    /// accepted later shows that the event's time was wrong. Then the timeout counts from when this
    /// process received or took over the action.
    #[must_use]
    pub fn ends_by(&self) -> Moment {
        let (ActionOrigin::Received(seen) | ActionOrigin::TakenOver { at: seen, .. }) = self.start;
        let global = self.first_description.as_ref().map_or(LONGEST_GLOBAL, |d| d.global_timeout);
        let end = self.event.plus(global);
        if self.last_accepted_sent.is_some_and(|last| last > end) { seen.plus(global) } else { end }
    }

    /// Records that a heartbeat is sent now.
    pub fn sent(&mut self, now: Moment) {
        self.in_flight = Some(now);
        self.forbidden = None;
        self.counts.sent += 1;
    }

    /// Records that AWS accepted the heartbeat. A new window of the whole HeartbeatTimeout has
    /// begun, when the heartbeat was sent at the earliest.
    pub fn accepted(&mut self, now: Moment) {
        self.note_missed(now);
        let sent = self.in_flight.take().unwrap_or(now);
        self.note_tried(sent);
        // A first heartbeat that went at once, or before its time, follows no regular gap.
        let is_regular = sent >= self.due;
        self.is_first_gap_over |=
            is_regular && (self.last_accepted_sent.is_some() || !self.first_at_once());
        (self.last_accepted_sent, self.window_from, self.failures, self.is_missed) =
            (Some(sent), Some(sent), 0, false);
        (self.is_refused, self.is_known_over) = (false, false);
        self.counts.accepted += 1;
        self.due = self.planned();
    }

    /// Records that the heartbeat failed or was not answered in time.
    pub fn failed(&mut self, now: Moment) {
        self.is_refused = false;
        self.fail(now);
    }

    /// Records a refusal that an operator must fix. Retries go more slowly.
    pub fn refused(&mut self, now: Moment) {
        self.is_refused = true;
        self.fail(now);
    }

    fn fail(&mut self, now: Moment) {
        let sent = self.in_flight.take().unwrap_or(now);
        self.note_tried(sent);
        self.counts.failed += 1;
        if sent < self.due {
            // It went before its time, for its answer only. The next one keeps its time.
            return self.note_missed(now);
        }
        if self.last_accepted_sent.is_none() {
            self.first_failed.get_or_insert(now);
        }
        self.due = now.plus(self.retry_wait(now).mul_f64(1.0 - self.jitter / 4.0));
        self.failures = self.failures.saturating_add(1);
        self.note_missed(now);
    }

    /// Records the answer "No active Lifecycle Action" and ends the heartbeats. The deadline in
    /// force at `now` stays in force.
    pub fn gone(&mut self, now: Moment) {
        self.note_missed(now);
        self.in_flight = None;
        self.end.get_or_insert(HeartbeatEnd::Gone);
    }

    /// Records that AWS accepted our completion, and ends the heartbeats.
    pub fn completed(&mut self, now: Moment) {
        self.note_missed(now);
        self.in_flight = None;
        self.end.get_or_insert(HeartbeatEnd::Completed);
    }

    /// Records the hook's timeouts from DescribeLifecycleHooks. A later description changes the
    /// interval but never a deadline, because the open action began under the first one.
    pub fn described(&mut self, now: Moment, description: HookDescription) {
        // The gaps of 10 s until now spread heartbeats by seconds only, so the first gap of the
        // real interval spreads them again.
        self.is_first_gap_over &= self.description.is_some();
        if self.first_description.is_none() {
            (self.first_description, self.first_described_at) =
                (Some(description.clone()), Some(now));
        }
        self.description = Some(description);
        let planned = self.planned();
        self.due = if self.failures == 0 { planned } else { self.due.min(planned) };
    }

    /// The time limit of one call, so that three tries and the wait in the [`super::Pace`] fit
    /// before two thirds of the timeout have passed: 1 s to 10 s.
    #[must_use]
    pub fn call_limit(&self) -> Duration {
        let timeout = self.timeout();
        let room = two_thirds(timeout).saturating_sub(self.interval()).saturating_sub(TWO_RETRIES);
        (room / 4).clamp(MIN_TIMEOUT, MAX_CALL_TIME)
    }

    /// The end of the current window: if AWS accepts no heartbeat until then, it applies the hook's
    /// default result. `None` while the hook is not described.
    #[must_use]
    pub fn window_end(&self) -> Option<Moment> {
        let timeout = self.first_description.as_ref()?.heartbeat_timeout;
        let end = self.window_start().plus(timeout);
        Some(self.global_end().map_or(end, |global| end.min(global)))
    }

    /// When two thirds of the current window have passed: from then on its end is the deadline,
    /// until a heartbeat is accepted. If that was before the first try was possible, or before the
    /// hook was first described, this waits for the next try (10 s at most), because that may still
    /// extend the window. `None`: the hook is not described, the heartbeats ended before, or the
    /// action is known to be over.
    #[must_use]
    pub fn lapses_at(&self) -> Option<Moment> {
        if self.is_known_over {
            return None;
        }
        let at = self
            .window_start()
            .plus(two_thirds(self.first_description.as_ref()?.heartbeat_timeout));
        let is_untried = self.counts.accepted + self.counts.failed == 0;
        let at = match self.start {
            ActionOrigin::Received(seen) if is_untried => at.max(seen.plus(MAX_CALL_TIME)),
            // At a take-over, the first heartbeat may have to wait in the `Pace`.
            ActionOrigin::TakenOver { .. } if is_untried => {
                at.max(self.priority().by.plus(MAX_CALL_TIME))
            }
            ActionOrigin::Received(_) | ActionOrigin::TakenOver { .. } => at,
        };
        // AWS has just answered with the description, so it may accept the next heartbeat.
        let at = self
            .first_described_at
            .filter(|_| !self.is_tried_since)
            .map_or(at, |described| at.max(described.plus(MAX_CALL_TIME)));
        // If the heartbeats ended in time there is no lapse; if they ended too late it remains.
        if self.end.is_some() && !self.is_missed { None } else { Some(at) }
    }

    /// The facts of the action at `now` that affect deadlines. A window that had ended when the
    /// hook was first described sets no deadline: either AWS has ended the action, or it accepted a
    /// heartbeat whose answer was lost. The next heartbeat shows which.
    #[must_use]
    pub fn facts(&self, now: Moment) -> HookFacts {
        let is_lapsed = self.lapses_at().is_some_and(|at| now >= at);
        let lapse = self.window_end().filter(|end| {
            is_lapsed && self.first_described_at.is_none_or(|described| *end > described)
        });
        HookFacts { description: self.first_description.clone(), lapse, seen: self.seen() }
    }

    /// What AWS has answered to heartbeats. An action for which AWS once accepted one was real,
    /// even if it has ended since.
    fn seen(&self) -> ActionSeen {
        if self.last_accepted_sent.or(self.accepted_earlier).is_some() {
            ActionSeen::Open
        } else if self.end == Some(HeartbeatEnd::Gone) {
            ActionSeen::Over
        } else {
            ActionSeen::Unanswered
        }
    }

    /// Why the heartbeats ended; `None` while they go on.
    #[must_use]
    pub const fn end(&self) -> Option<HeartbeatEnd> {
        self.end
    }

    /// When the last accepted heartbeat was sent; `None`: none was accepted.
    #[must_use]
    pub const fn last_accepted(&self) -> Option<Moment> {
        self.last_accepted_sent
    }

    /// How many heartbeats failed since the last accepted one.
    #[must_use]
    pub const fn failures_in_a_row(&self) -> u32 {
        self.failures
    }

    /// Counts of this action's heartbeats since this schedule was made.
    #[must_use]
    pub const fn counts(&self) -> HeartbeatCounts {
        self.counts
    }

    /// The longest time between two heartbeats.
    #[must_use]
    pub fn interval(&self) -> Duration {
        interval(self.timeout())
    }

    fn timeout(&self) -> Duration {
        self.description
            .as_ref()
            .map_or(UNDESCRIBED_TIMEOUT, |d| d.heartbeat_timeout.max(MIN_TIMEOUT))
    }

    /// The event's time plus the GlobalTimeout, an end that no heartbeat moves. `None` if the hook
    /// is not described, or if this process learned of the action after that end: then either the
    /// action is gone, which a heartbeat will show, or the event's time was wrong and the end is
    /// unknown.
    fn global_end(&self) -> Option<Moment> {
        let (ActionOrigin::Received(seen) | ActionOrigin::TakenOver { at: seen, .. }) = self.start;
        self.first_description
            .as_ref()
            .map(|d| self.event.plus(d.global_timeout))
            .filter(|end| *end > seen)
    }

    /// When the current window began. After a take-over, the other leader's last heartbeat is not
    /// known. It was at most one interval before that leader stopped, and then there may have been
    /// no leader for a while. If our first heartbeat failed within one timeout of the event, the
    /// other leader's heartbeats may have failed too. Then the window counts from the event. If AWS
    /// has accepted a heartbeat of this process since, in an earlier term, the window counts from
    /// that heartbeat.
    fn window_start(&self) -> Moment {
        let timeout =
            self.first_description.as_ref().map_or(UNDESCRIBED_TIMEOUT, |b| b.heartbeat_timeout);
        let may_lack_heartbeats =
            self.first_failed.is_some_and(|failed| self.event.plus(timeout) > failed);
        let start = match (self.window_from, self.start) {
            (Some(granted), _) => granted,
            (None, _) if may_lack_heartbeats => self.event,
            (None, ActionOrigin::TakenOver { at, without_leader }) => self
                .event
                .max(at.minus(interval(timeout).saturating_add(without_leader).min(timeout))),
            (None, ActionOrigin::Received(at)) => self.event.max(at.minus(interval(timeout))),
        };
        self.accepted_earlier.map_or(start, |known| start.max(known))
    }

    fn first_at_once(&self) -> bool {
        match self.start {
            ActionOrigin::TakenOver { .. } => true,
            ActionOrigin::Received(at) => at.since_or_zero(self.event) > self.interval() / 2,
        }
    }

    fn planned(&self) -> Moment {
        let gap = if self.is_first_gap_over {
            self.interval()
        } else {
            self.interval().mul_f64(1.0 - self.jitter / 2.0)
        };
        match (self.last_accepted_sent, self.start) {
            (Some(last), _) => last.plus(gap),
            (None, ActionOrigin::TakenOver { at, .. }) => at,
            (None, ActionOrigin::Received(at)) if self.first_at_once() => at,
            (None, ActionOrigin::Received(_)) => self.event.plus(gap),
        }
    }

    /// 1, 2, 4 s, then doubling up to a maximum: a twelfth of the timeout (4 s to 30 s), or a
    /// quarter (10 s to 30 s) after a refusal. Once the window has ended, as far as we know, the
    /// maximum is at least 10 s, or 30 s after a refusal.
    fn retry_wait(&self, now: Moment) -> Duration {
        let timeout = self.timeout();
        let is_over = self.window_start().plus(timeout) <= now;
        let most = match (self.is_refused, is_over) {
            (true, true) => SLOW_RETRY,
            (true, false) => (timeout / 4).clamp(seconds(10), SLOW_RETRY),
            (false, true) => (timeout / 12).clamp(seconds(10), SLOW_RETRY),
            (false, false) => (timeout / 12).clamp(seconds(4), SLOW_RETRY),
        };
        let nth = usize::try_from(self.failures).ok().and_then(|n| RETRIES.get(n).copied());
        nth.unwrap_or_else(|| seconds(1 << self.failures.min(5)).min(most))
    }

    fn note_tried(&mut self, sent: Moment) {
        self.is_tried_since |= self.first_described_at.is_some_and(|described| sent >= described);
    }

    fn note_missed(&mut self, now: Moment) {
        let late = self.end.is_none() && self.lapses_at().is_some_and(|at| now >= at);
        if late && !self.is_missed {
            self.is_missed = true;
            self.counts.missed += 1;
        }
    }
}

fn interval(timeout: Duration) -> Duration {
    if timeout < seconds(60) { timeout / 3 } else { timeout / 2 }
}

fn two_thirds(d: Duration) -> Duration {
    d.saturating_mul(2) / 3
}
