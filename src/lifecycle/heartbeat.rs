//! The heartbeats of one lifecycle action.

use std::time::Duration;

use super::{HookFacts, Turn, UNDESCRIBED_TIMEOUT};
use crate::domain::{HookDescription, Moment, seconds};

/// The waits after a failed heartbeat; from then on they double. Each is shortened by the hook's
/// own fraction of a quarter, so that hooks which failed together are not tried again together.
const RETRIES: [Duration; 3] = [seconds(1), seconds(2), seconds(4)];
/// What they take together before the third try.
const TWO_RETRIES: Duration = seconds(3);
/// Where nothing is to be saved any more, or a person must act first, there is no hurry.
const SLOW_RETRY: Duration = seconds(30);
/// A call that a policy forbids, for an action that AWS has accepted no heartbeat for, is repeated
/// this often and not faster: completions from the first denial on, heartbeats once the action's
/// window must be over.
pub const FORBIDDEN_RETRY: Duration = Duration::from_mins(5);
/// The longest GlobalTimeout that AWS has; it stands in for one that is not described.
const LONGEST_GLOBAL: Duration = Duration::from_hours(48);
/// No call takes longer.
const MOST_CALL: Duration = seconds(10);
/// No timeout, whatever was answered, makes us beat without a pause (AWS allows none under 30 s).
const LEAST_TIMEOUT: Duration = seconds(1);

/// When the heartbeats of one owed lifecycle action are due.
///
/// The interval is half of the HeartbeatTimeout, a third where that is under 60 s; that of a hook
/// which is not described yet is 10 s. The first heartbeat goes at once when the event is older
/// than half an interval or the action was taken over. One regular gap is shortened by the hook's
/// own fraction of half an interval, so that hooks which came together do not beat together; no gap
/// is ever longer than the interval.
#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatSchedule {
    event: Moment,
    start: Start,
    /// How much of half an interval the first regular gap is shortened by.
    spread: f64,
    /// That gap is behind us.
    is_spread: bool,
    description: Option<HookDescription>,
    /// The first description: what windows and deadlines go by.
    first: Option<HookDescription>,
    /// When it came, where it was not there from the beginning.
    first_at: Option<Moment>,
    /// A heartbeat that was sent after that has been answered, or given up.
    is_tried_since: bool,
    /// When the window last granted began; `None`: another leader's last heartbeat, not known.
    granted: Option<Moment>,
    /// AWS accepted a heartbeat that this process sent then, in an earlier term.
    known: Option<Moment>,
    /// When the last heartbeat that was accepted was sent.
    last: Option<Moment>,
    due: Moment,
    in_flight: Option<Moment>,
    failures: u32,
    /// When the first try failed, before any was accepted.
    first_failed: Option<Moment>,
    /// The last answer was a refusal that asking again does not mend.
    is_refused: bool,
    /// When a policy last forbade the heartbeat, if that was the last answer.
    forbidden: Option<Moment>,
    is_missed: bool,
    end: Option<End>,
    counts: HeartbeatCounts,
}

/// How we came by an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Its event was received at this moment.
    Received(Moment),
    /// From another leader, by its record.
    TakenOver {
        /// When.
        at: Moment,
        /// For how long nobody may have beaten it before, beyond its interval.
        unled: Duration,
    },
}

/// Why there are no more heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Our completion was accepted.
    Completed,
    /// AWS says "No active Lifecycle Action": completed by others, timed out or abandoned. Not an
    /// error.
    Gone,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeartbeatCounts {
    /// Heartbeats that were sent.
    pub sent: u64,
    /// Those that were accepted.
    pub accepted: u64,
    /// Those that failed.
    pub failed: u64,
    /// Windows of which two thirds were over before a heartbeat was accepted.
    pub missed: u64,
}

impl HeartbeatSchedule {
    /// For an action whose event is of `event`. `spread` (0 to 1, drawn once) spreads hooks in
    /// time.
    #[must_use]
    pub fn new(
        event: Moment,
        start: Start,
        spread: f64,
        description: Option<HookDescription>,
    ) -> Self {
        let (Start::Received(seen) | Start::TakenOver { at: seen, .. }) = start;
        // A clock that is ahead of ours puts no heartbeat off.
        let event = event.min(seen);
        let spread = if spread.is_finite() { spread.clamp(0.0, 1.0) } else { 0.0 };
        let mut schedule = Self {
            event,
            start,
            spread,
            is_spread: false,
            first: description.clone(),
            first_at: None,
            is_tried_since: false,
            description,
            granted: matches!(start, Start::Received(_)).then_some(event),
            known: None,
            last: None,
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

    /// The same, where this process knows from an earlier term of its own that AWS accepted a
    /// heartbeat which it sent then. Whoever led meanwhile can only have made the window longer.
    #[must_use]
    pub fn known_accepted(self, sent: Moment) -> Self {
        Self { known: Some(sent), ..self }
    }

    /// When the next heartbeat is to be sent; a moment that is past means now. `None`: one is under
    /// way, they have ended, or no further one can add anything because the window last granted
    /// reaches the hook's GlobalTimeout.
    #[must_use]
    pub fn due(&self) -> Option<Moment> {
        let over = self
            .global_end()
            .is_some_and(|end| self.due >= end || self.window_end().is_some_and(|w| w >= end));
        if over { None } else { self.due_to_prove() }
    }

    /// The same for one that is to prove that the action is open, whether or not it adds anything.
    #[must_use]
    pub fn due_to_prove(&self) -> Option<Moment> {
        let due =
            self.forbidden.map_or(self.due, |at| self.due.max(at.plus(self.forbidden_wait(at))));
        if self.in_flight.is_some() || self.end.is_some() { None } else { Some(due) }
    }

    /// Somebody waits for the next answer: it is asked for at once, or when a failed one is due
    /// again.
    pub fn hasten(&mut self, now: Moment) {
        if self.failures == 0 {
            self.due = self.due.min(now);
        }
    }

    /// By when the next heartbeat should have had its turn where many wait, so that three tries fit
    /// before two thirds of the window are over; after that, before the window ends.
    #[must_use]
    pub fn turn(&self) -> Turn {
        let timeout = self.first.as_ref().map_or(UNDESCRIBED_TIMEOUT, |d| d.heartbeat_timeout);
        let (start, due) = (self.window_start(), self.due);
        let (two_thirds, end) = (start.plus(two_thirds(timeout)), start.plus(timeout));
        let is_take_up = self.granted.is_none();
        let room = two_thirds.since_or_zero(due).saturating_sub(TWO_RETRIES);
        let left = end.since_or_zero(due);
        let by = if is_take_up && self.first.is_none() {
            due
        } else if is_take_up && !left.is_zero() {
            // How long ago it was beaten is a guess: half of what may be left.
            let from = two_thirds.max(due);
            from.plus(end.since_or_zero(from) / 2)
        } else if is_take_up {
            due.plus(seconds(2))
        } else if !room.is_zero() {
            due.plus(room / 4)
        } else if !left.is_zero() {
            due.plus((left / 8).min(MOST_CALL))
        } else {
            due.plus(if self.first.is_some() { seconds(60) } else { seconds(5) })
        };
        Turn { by, firm: self.first.is_some() || self.last.is_some(), is_take_up }
    }

    /// When the completion should have had its turn where many wait: the less is left of the window
    /// last granted, the earlier.
    #[must_use]
    pub fn completion_turn(&self, now: Moment) -> Turn {
        let end =
            self.window_end().unwrap_or_else(|| self.window_start().plus(UNDESCRIBED_TIMEOUT));
        Turn { by: end.max(now), firm: end > now, is_take_up: false }
    }

    /// A policy forbids the heartbeat, and none was accepted yet. The next one goes after a quarter
    /// of the time for which AWS may still keep the action open, because a denial may pass, but no
    /// faster than after any refusal; after that time, in five minutes.
    pub fn forbidden(&mut self, now: Moment) {
        self.refused(now);
        self.forbidden = Some(now);
    }

    fn forbidden_wait(&self, at: Moment) -> Duration {
        let (Start::Received(seen) | Start::TakenOver { at: seen, .. }) = self.start;
        let left = seen.plus(self.timeout()).since_or_zero(at);
        if left.is_zero() { FORBIDDEN_RETRY } else { (left / 4).min(FORBIDDEN_RETRY) }
    }

    /// AWS has ended the action by this moment, whatever was answered: its start and the hook's
    /// GlobalTimeout, 48 h where that is not described. A heartbeat that was accepted later shows
    /// that the time of the event was wrong: then the timeout counts from when this process
    /// received or took over the action.
    #[must_use]
    pub fn ends_by(&self) -> Moment {
        let (Start::Received(seen) | Start::TakenOver { at: seen, .. }) = self.start;
        let global = self.first.as_ref().map_or(LONGEST_GLOBAL, |d| d.global_timeout);
        let end = self.event.plus(global);
        if self.last.is_some_and(|last| last > end) { seen.plus(global) } else { end }
    }

    /// One goes out now.
    pub fn sent(&mut self, now: Moment) {
        self.in_flight = Some(now);
        self.forbidden = None;
        self.counts.sent += 1;
    }

    /// It was accepted: AWS waits again for the whole HeartbeatTimeout, for certain since it was
    /// sent.
    pub fn accepted(&mut self, now: Moment) {
        self.note_missed(now);
        let sent = self.in_flight.take().unwrap_or(now);
        self.note_tried(sent);
        // A first heartbeat that went at once has not been spread yet; one after a regular gap has.
        self.is_spread |= self.last.is_some() || !self.first_at_once();
        (self.last, self.granted, self.failures, self.is_missed) =
            (Some(sent), Some(sent), 0, false);
        self.is_refused = false;
        self.counts.accepted += 1;
        self.due = self.planned();
    }

    /// It failed, or was not answered in time.
    pub fn failed(&mut self, now: Moment) {
        self.is_refused = false;
        self.fail(now);
    }

    /// It was refused in a way that a person must mend: tried again, more slowly.
    pub fn refused(&mut self, now: Moment) {
        self.is_refused = true;
        self.fail(now);
    }

    fn fail(&mut self, now: Moment) {
        let sent = self.in_flight.take().unwrap_or(now);
        self.note_tried(sent);
        self.counts.failed += 1;
        if self.last.is_none() {
            self.first_failed.get_or_insert(now);
        }
        self.due = now.plus(self.retry_wait(now).mul_f64(1.0 - self.spread / 4.0));
        self.failures = self.failures.saturating_add(1);
        self.note_missed(now);
    }

    /// "No active Lifecycle Action": there is nothing to keep open any more. The deadline that
    /// stands at `now` stays.
    pub fn gone(&mut self, now: Moment) {
        self.note_missed(now);
        self.in_flight = None;
        self.end.get_or_insert(End::Gone);
    }

    /// Our completion was accepted.
    pub fn completed(&mut self, now: Moment) {
        self.note_missed(now);
        self.in_flight = None;
        self.end.get_or_insert(End::Completed);
    }

    /// DescribeLifecycleHooks said what the hook is like. A later answer changes the interval,
    /// never a deadline: the action that waits was begun under the first.
    pub fn described(&mut self, now: Moment, description: HookDescription) {
        // The gaps of 10 s until now spread hooks by seconds only: the first gap of the true
        // interval spreads them again.
        self.is_spread &= self.description.is_some();
        if self.first.is_none() {
            (self.first, self.first_at) = (Some(description.clone()), Some(now));
        }
        self.description = Some(description);
        let planned = self.planned();
        self.due = if self.failures == 0 { planned } else { self.due.min(planned) };
    }

    /// How long one call may take, so that three tries, and the wait for its turn, fit before two
    /// thirds of the timeout are over: 1 s to 10 s.
    #[must_use]
    pub fn call_limit(&self) -> Duration {
        let timeout = self.timeout();
        let room = two_thirds(timeout).saturating_sub(self.interval()).saturating_sub(TWO_RETRIES);
        (room / 4).clamp(LEAST_TIMEOUT, MOST_CALL)
    }

    /// The end of the window last granted: AWS acts on its default then if no heartbeat is
    /// accepted. `None` while that is not known (not described yet).
    #[must_use]
    pub fn window_end(&self) -> Option<Moment> {
        let timeout = self.first.as_ref()?.heartbeat_timeout;
        let end = self.window_start().plus(timeout);
        Some(self.global_end().map_or(end, |global| end.min(global)))
    }

    /// When two thirds of that window are over: from then on its end is the deadline, until a
    /// heartbeat is accepted. Where they were over before we could try, or before the hook was
    /// first described, the next try is waited for (10 s at most): nothing is shortened that it may
    /// save. `None`: not described, or the heartbeats ended before.
    #[must_use]
    pub fn lapses_at(&self) -> Option<Moment> {
        let at = self.window_start().plus(two_thirds(self.first.as_ref()?.heartbeat_timeout));
        let is_untried = self.counts.accepted + self.counts.failed == 0;
        let at = match self.start {
            Start::Received(seen) if is_untried => at.max(seen.plus(MOST_CALL)),
            // At a take-over it may have to wait for its turn first.
            Start::TakenOver { .. } if is_untried => at.max(self.turn().by.plus(MOST_CALL)),
            Start::Received(_) | Start::TakenOver { .. } => at,
        };
        // AWS has just described the hook, so it answers: the next heartbeat may be accepted.
        let at = self
            .first_at
            .filter(|_| !self.is_tried_since)
            .map_or(at, |described| at.max(described.plus(MOST_CALL)));
        // Ended in time: what stands, stands. Ended too late: the lapse stands.
        if self.end.is_some() && !self.is_missed { None } else { Some(at) }
    }

    /// What a deadline needs to know of the hook at `now`. A window that was over when the hook was
    /// first described sets no deadline: either AWS has ended the action by then, or it has
    /// accepted a heartbeat whose answer was lost. The next heartbeat shows which.
    #[must_use]
    pub fn facts(&self, now: Moment) -> HookFacts {
        let is_lapsed = self.lapses_at().is_some_and(|at| now >= at);
        let lapse = self
            .window_end()
            .filter(|end| is_lapsed && self.first_at.is_none_or(|described| *end > described));
        HookFacts { description: self.first.clone(), lapse }
    }

    /// Why there are no more heartbeats; `None` while there are.
    #[must_use]
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// When the last heartbeat that was accepted was sent.
    #[must_use]
    pub const fn last_accepted(&self) -> Option<Moment> {
        self.last
    }

    /// How many failed since the last that was accepted.
    #[must_use]
    pub const fn failures_in_a_row(&self) -> u32 {
        self.failures
    }

    /// What was counted.
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
            .map_or(UNDESCRIBED_TIMEOUT, |d| d.heartbeat_timeout.max(LEAST_TIMEOUT))
    }

    /// The end that no heartbeat moves. An action that came to us after it is either gone, which a
    /// heartbeat will tell, or its event's time was wrong, and there is no end that we know.
    fn global_end(&self) -> Option<Moment> {
        let (Start::Received(seen) | Start::TakenOver { at: seen, .. }) = self.start;
        self.first.as_ref().map(|d| self.event.plus(d.global_timeout)).filter(|end| *end > seen)
    }

    /// When the window last granted began. Another leader's last heartbeat is not known: while it
    /// led, it was never longer ago than an interval, and then nobody may have led for a while.
    /// What fails for us may have failed for it from the beginning: once a try has failed, nothing
    /// is counted on but the event itself, as long as that can be, and what this process knows of
    /// its own heartbeats.
    fn window_start(&self) -> Moment {
        let timeout = self.first.as_ref().map_or(UNDESCRIBED_TIMEOUT, |b| b.heartbeat_timeout);
        let may_lack_heartbeats =
            self.first_failed.is_some_and(|failed| self.event.plus(timeout) > failed);
        let start = match (self.granted, self.start) {
            (Some(granted), _) => granted,
            (None, _) if may_lack_heartbeats => self.event,
            (None, Start::TakenOver { at, unled }) => {
                self.event.max(at.minus(interval(timeout).saturating_add(unled).min(timeout)))
            }
            (None, Start::Received(at)) => self.event.max(at.minus(interval(timeout))),
        };
        self.known.map_or(start, |known| start.max(known))
    }

    fn first_at_once(&self) -> bool {
        match self.start {
            Start::TakenOver { .. } => true,
            Start::Received(at) => at.since_or_zero(self.event) > self.interval() / 2,
        }
    }

    fn planned(&self) -> Moment {
        let gap = if self.is_spread {
            self.interval()
        } else {
            self.interval().mul_f64(1.0 - self.spread / 2.0)
        };
        match (self.last, self.start) {
            (Some(last), _) => last.plus(gap),
            (None, Start::TakenOver { at, .. }) => at,
            (None, Start::Received(at)) if self.first_at_once() => at,
            (None, Start::Received(_)) => self.event.plus(gap),
        }
    }

    /// 1, 2, 4 s, then doubling up to a twelfth of the timeout (4 s to 30 s), a quarter (10 s to 30
    /// s) where it was refused, and more slowly once the window is over as far as we know.
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
        self.is_tried_since |= self.first_at.is_some_and(|described| sent >= described);
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
