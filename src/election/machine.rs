//! The state machine of one process in the election.

use std::time::Duration;

use super::{Draft, Effect, Input, LAST_WRITES, Lost, Observed, Settings};
use crate::domain::Moment;

/// One process's part in the election.
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
#[derive(Debug)]
pub struct Machine {
    me: String,
    settings: Settings,
    aim: Aim,
    /// How long a lease must have been free before this process bids for it.
    reluctance: Duration,
    /// This process knows what a leader needs to know. One that does not lets others bid first.
    is_ready: bool,
    seen: Seen,
    /// `seen` may be out of date: a write was refused, a read failed, or a watch showed another
    /// version.
    outdated: bool,
    /// The last write failed, but it may have taken effect all the same.
    may_have_written: bool,
    /// Writes in a row that were refused.
    conflicts: u32,
    /// When the request under way was sent.
    under_way: Option<Moment>,
    /// What a watch showed while a request was under way.
    nudge: Option<Nudge>,
    /// No request is sent before this time.
    not_before: Moment,
    /// When a standby reads next, or a leader renews next.
    due: Moment,
    lead: Option<Lead>,
    /// The lease is held, and renewed, until the last writes are over.
    closing: Option<Closing>,
    /// The last term ended by its renew deadline, or the process yields and the API server has not
    /// confirmed that; and no read or write has shown another holder since.
    is_heartbeats_only: bool,
}

/// A resourceVersion; `None`: the Lease was deleted.
#[derive(Debug)]
struct Nudge(Option<String>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Bid,
    /// Give the lease up, then bid again.
    Yield,
    /// Give the lease up, then send no further request.
    Stop,
    Done,
}

/// What the last read or accepted write showed. `since`: since when, by our own clock, it has not
/// changed.
#[derive(Debug)]
enum Seen {
    /// Nothing was read yet.
    Nothing,
    /// There is no Lease. `must_wait`: there may have been one whose holder does not know yet that
    /// it is gone, so this process waits for a whole lease duration before it bids. `read`: when a
    /// read last found no Lease; `None`: since then a Create was refused, because there was one.
    Missing { since: Moment, must_wait: bool, read: Option<Moment> },
    /// There is a Lease.
    Lease { is: Observed, since: Moment },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Read,
    /// Acquire the lease if it is free by now, else read it.
    Bid,
    /// Acquire or renew the lease.
    Hold,
    GiveUp,
}

#[derive(Debug, Clone, Copy)]
struct Lead {
    /// When the last accepted write was sent, plus the renew deadline.
    until: Moment,
    term: u32,
}

/// A term that ends voluntarily.
#[derive(Debug, Clone, Copy)]
struct Closing {
    /// The aim when the last writes are over.
    then: Aim,
    /// When every write has ended or reached its own time limit.
    until: Moment,
}

impl Machine {
    /// A standby that has read nothing. `me` must be unique to this process, not to its pod: a
    /// restarted container is another holder.
    #[must_use]
    pub fn new(me: String, settings: Settings) -> Self {
        Self {
            me,
            settings,
            aim: Aim::Bid,
            reluctance: Duration::ZERO,
            is_ready: true,
            seen: Seen::Nothing,
            outdated: false,
            may_have_written: false,
            conflicts: 0,
            under_way: None,
            nudge: None,
            not_before: Moment::MIN,
            due: Moment::MIN,
            lead: None,
            closing: None,
            is_heartbeats_only: false,
        }
    }

    /// The same of a process that does not know yet what a leader needs to know. Until
    /// [`Input::Ready`], it bids only for a lease that has been free for two lease durations: by
    /// then every standby that is ready could have taken it, even one that waits for a whole
    /// duration because somebody deleted the Lease.
    #[must_use]
    pub fn not_ready(self) -> Self {
        Self { is_ready: false, ..self }
    }

    /// Until when this process may start requests of any kind; `None` while it does not lead.
    #[must_use]
    pub fn may_write_until(&self) -> Option<Moment> {
        if self.closing.is_some() { None } else { self.holds_until() }
    }

    /// Until when certainly no other process leads. `None` unless this process leads or its last
    /// writes are under way.
    #[must_use]
    pub fn holds_until(&self) -> Option<Moment> {
        self.lead.map(|lead| lead.until)
    }

    /// No further write may begin. The lease is given up at [`Input::WritesOver`], or when every
    /// write has reached its time limit.
    #[must_use]
    pub const fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// This process led and may no longer write, but as far as it knows no other process leads. So
    /// it keeps sending heartbeats, which do no harm if two processes send them. Either it could
    /// not renew the lease in time and has not seen another holder since, or it is closing, or it
    /// yields and the API server has not accepted the write that gives the lease up.
    #[must_use]
    pub const fn is_heartbeats_only(&self) -> bool {
        self.is_heartbeats_only || self.is_closing()
    }

    /// `leaseTransitions` of the Lease while this process leads.
    fn term(&self) -> Option<u32> {
        self.lead.map(|lead| lead.term)
    }

    /// The holder, as last read.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        match &self.seen {
            Seen::Lease { is, .. } => is.holder.as_deref(),
            Seen::Nothing | Seen::Missing { .. } => None,
        }
    }

    /// When the machine needs the next [`Input::Tick`] at the latest. `None`: it needs none before
    /// the request under way is answered.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        let request =
            if self.under_way.is_some() { None } else { self.next_request().map(|(at, _)| at) };
        [self.holds_until(), self.closing.map(|closing| closing.until), request]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes an input and returns what the shell must do. `spread` in `[0, 1)` is the jitter of the
    /// reads of a standby.
    pub fn step(&mut self, now: Moment, spread: f64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.lead.is_some_and(|lead| now >= lead.until) {
            self.lose(Lost::Deadline, &mut effects);
        }
        if self.closing.is_some_and(|closing| now >= closing.until) {
            self.end_closing();
        }
        self.absorb(now, spread, input, &mut effects);
        self.settle(&mut effects);
        if self.under_way.is_none()
            && let Some((at, wanted)) = self.next_request()
            && at <= now
        {
            effects.push(self.send(now, wanted));
        }
        effects
    }

    fn absorb(&mut self, now: Moment, spread: f64, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Nudge(shown) if self.under_way.is_some() => self.nudge = Some(Nudge(shown)),
            Input::Nudge(shown) => self.nudged(shown.as_deref()),
            Input::Observed(is) => {
                self.answered();
                self.may_have_written = false;
                self.see(now, is, effects);
                self.after_read(now, spread);
            }
            Input::NotFound => {
                self.answered();
                self.may_have_written = false;
                self.see_nothing(now);
                self.after_read(now, spread);
            }
            Input::ReadFailed => {
                if let Some(sent) = self.answered() {
                    self.outdated = true;
                    self.pause(now, sent);
                }
            }
            Input::WriteAccepted(is) => self.accepted(now, is, effects),
            Input::WriteConflict => {
                if let Some(sent) = self.answered() {
                    self.outdated = true;
                    if let Seen::Missing { read, .. } = &mut self.seen {
                        *read = None;
                    }
                    self.conflicts = self.conflicts.saturating_add(1);
                    if self.conflicts > 1 {
                        self.pause(now, sent);
                    }
                }
            }
            Input::WriteFailed => {
                if let Some(sent) = self.answered() {
                    self.may_have_written = true;
                    self.pause(now, sent);
                }
            }
            Input::Yield(after) => {
                // Only the first one gives the lease up: a process that gets it back, because no
                // other process took it, keeps it.
                if self.reluctance.is_zero() && self.aim == Aim::Bid {
                    self.close(now, Aim::Yield, effects);
                }
                self.reluctance = after;
            }
            Input::BidNormally => self.reluctance = Duration::ZERO,
            Input::Ready => self.is_ready = true,
            Input::Stop => {
                if self.aim != Aim::Done {
                    self.close(now, Aim::Stop, effects);
                }
            }
            Input::WritesOver => self.end_closing(),
        }
        if self.under_way.is_none()
            && let Some(Nudge(shown)) = self.nudge.take()
        {
            self.nudged(shown.as_deref());
        }
    }

    /// Ends the request under way and returns when it was sent. `None`: no request is under way, so
    /// the answer belongs to an earlier one.
    fn answered(&mut self) -> Option<Moment> {
        let sent = self.under_way.take()?;
        self.outdated = false;
        Some(sent)
    }

    /// A request failed: the next one leaves one retry period after this one was sent. So a request
    /// that hung for longer is followed by the next one at once.
    fn pause(&mut self, now: Moment, sent: Moment) {
        self.not_before = sent.plus(self.settings.retry).max(now);
    }

    /// A watch lags behind reads and writes, so what it shows is only a reason to read the Lease.
    fn nudged(&mut self, shown: Option<&str>) {
        self.outdated |= match &self.seen {
            Seen::Nothing => true,
            Seen::Missing { .. } => shown.is_some(),
            Seen::Lease { is, .. } => shown != Some(is.resource_version.as_str()),
        };
    }

    fn see(&mut self, now: Moment, is: Observed, effects: &mut Vec<Effect>) {
        if is.holder.as_ref() != Some(&self.me) {
            self.lose(Lost::Taken(is.holder.clone()), effects);
            self.is_heartbeats_only = false;
        }
        let since = match &self.seen {
            Seen::Lease { is: was, since } if same_record(was, &is) => *since,
            _ => now,
        };
        self.seen = Seen::Lease { is, since };
    }

    fn see_nothing(&mut self, now: Moment) {
        let (since, must_wait) = match self.seen {
            Seen::Nothing => (now, false),
            Seen::Missing { since, must_wait, .. } if self.is_still_missing(now) => {
                (since, must_wait)
            }
            // Another process that held the Lease does not know that it is gone and leads until
            // its renew deadline. If this process leads, it may create the Lease at once.
            Seen::Missing { .. } | Seen::Lease { .. } => (now, self.lead.is_none()),
        };
        self.seen = Seen::Missing { since, must_wait, read: Some(now) };
    }

    /// A read within the last two retry periods found no Lease. After a longer time without a read,
    /// another process may have created the Lease and led, and somebody may have deleted it since.
    fn is_still_missing(&self, now: Moment) -> bool {
        matches!(
            self.seen,
            Seen::Missing { read: Some(read), .. } if now <= read.plus(self.settings.retry * 2)
        )
    }

    fn after_read(&mut self, now: Moment, spread: f64) {
        if self.lead.is_some() {
            return; // A leader reads between its renewals; that does not move its next renewal.
        }
        // At most one retry period, mostly a little less: a record that changed just after a read
        // is still seen within one period.
        self.due = now.plus(self.settings.retry.mul_f64(0.75 + 0.25 * spread.clamp(0.0, 1.0)));
        if self.free_at().is_none_or(|free| free > now) {
            self.conflicts = 0;
        }
    }

    fn accepted(&mut self, now: Moment, is: Observed, effects: &mut Vec<Effect>) {
        let Some(sent) = self.answered() else { return };
        self.may_have_written = false;
        self.conflicts = 0;
        self.due = sent.plus(self.settings.retry);
        let until = sent.plus(self.settings.renew_deadline);
        let (ours, term) = (is.holder.as_ref() == Some(&self.me), is.transitions);
        self.see(now, is, effects);
        if ours
            && self.aim == Aim::Bid
            && now < until
            && self.lead.replace(Lead { until, term }).is_none()
        {
            self.is_heartbeats_only = false;
            effects.push(Effect::BecameLeader { term });
        }
    }

    fn lose(&mut self, why: Lost, effects: &mut Vec<Effect>) {
        if self.lead.is_none() {
            return;
        }
        let is_deadline = why == Lost::Deadline;
        // If the machine was closing, the loss was reported when it began to close.
        if self.closing.is_none() {
            effects.push(Effect::Lost(why));
        }
        self.end_closing();
        self.lead = None;
        self.is_heartbeats_only = is_deadline && self.aim != Aim::Stop;
    }

    /// Ends leadership now; the lease is given up when the last writes are over.
    fn close(&mut self, now: Moment, then: Aim, effects: &mut Vec<Effect>) {
        match &mut self.closing {
            Some(closing) if then == Aim::Stop => closing.then = then,
            Some(_) => {}
            None if self.lead.is_some() => {
                self.closing = Some(Closing { then, until: now.plus(LAST_WRITES) });
                effects.push(Effect::Lost(Lost::GivenUp));
            }
            None => self.give_up(then),
        }
    }

    fn end_closing(&mut self) {
        if let Some(Closing { then, .. }) = self.closing.take() {
            self.lead = None;
            // Until the API server accepts the write that gives the Lease up, no other process is
            // known to lead.
            self.is_heartbeats_only = true;
            self.give_up(then);
        }
    }

    fn give_up(&mut self, aim: Aim) {
        self.aim = aim;
        self.not_before = Moment::MIN;
        // Yielding does not mean that another process leads. Heartbeats sent without a lease
        // continue; only `Stop` ends them.
        if aim == Aim::Stop {
            self.is_heartbeats_only = false;
        }
    }

    /// Giving up is over when this process does not hold the lease and the outcome of every write
    /// that could give it the lease is known.
    fn settle(&mut self, effects: &mut Vec<Effect>) {
        let is_given_up = self.under_way.is_none()
            && !self.may_have_written
            && !self.outdated
            && self.holder() != Some(self.me.as_str());
        match self.aim {
            Aim::Yield if is_given_up => self.aim = Aim::Bid,
            Aim::Stop if is_given_up => {
                self.aim = Aim::Done;
                effects.push(Effect::Stopped);
            }
            Aim::Bid | Aim::Yield | Aim::Stop | Aim::Done => {}
        }
    }

    /// How long a lease must have been free, for all reasons to let others bid first.
    fn longest_reluctance(&self) -> Duration {
        let until_ready =
            if self.is_ready { Duration::ZERO } else { self.settings.duration.saturating_mul(2) };
        self.reluctance.max(until_ready)
    }

    /// From when on this process may bid; `None` while nothing was read.
    fn free_at(&self) -> Option<Moment> {
        let reluctance = self.longest_reluctance();
        Some(match &self.seen {
            Seen::Nothing => return None,
            Seen::Missing { since, must_wait: false, .. } => since.plus(reluctance),
            Seen::Missing { since, must_wait: true, .. } => {
                since.plus(self.settings.duration).plus(reluctance)
            }
            Seen::Lease { is, since } => match &is.holder {
                None => since.plus(reluctance),
                Some(holder) if *holder == self.me => Moment::MIN,
                Some(_) => {
                    since.plus(is.duration.unwrap_or(self.settings.duration)).plus(reluctance)
                }
            },
        })
    }

    /// The next request, and when to send it at the earliest.
    fn next_request(&self) -> Option<(Moment, Wanted)> {
        let giving_up = matches!(self.aim, Aim::Yield | Aim::Stop);
        let (at, wanted) = if self.aim == Aim::Done {
            return None;
        } else if self.outdated
            || matches!(self.seen, Seen::Nothing)
            || (self.may_have_written && giving_up)
        {
            (Moment::MIN, Wanted::Read)
        } else if giving_up {
            (Moment::MIN, Wanted::GiveUp)
        } else if self.lead.is_some() {
            let missing = matches!(self.seen, Seen::Missing { .. });
            (if missing { Moment::MIN } else { self.due }, Wanted::Hold)
        } else {
            (self.free_at().map_or(self.due, |free| free.min(self.due)), Wanted::Bid)
        };
        Some((at.max(self.not_before), wanted))
    }

    fn send(&mut self, now: Moment, wanted: Wanted) -> Effect {
        self.under_way = Some(now);
        let wanted = match wanted {
            Wanted::Bid
                if matches!(self.seen, Seen::Missing { .. })
                    && (self.may_have_written || !self.is_still_missing(now)) =>
            {
                Wanted::Read
            }
            Wanted::Bid if self.free_at().is_some_and(|free| free <= now) => Wanted::Hold,
            Wanted::Bid => Wanted::Read,
            Wanted::Read | Wanted::Hold | Wanted::GiveUp => wanted,
        };
        let old = match &self.seen {
            Seen::Lease { is, .. } if wanted != Wanted::Read => is,
            Seen::Missing { .. } if wanted == Wanted::Hold => {
                return Effect::Create(Draft {
                    transitions: self.term().unwrap_or(0),
                    ..self.draft(now)
                });
            }
            Seen::Nothing | Seen::Missing { .. } | Seen::Lease { .. } => return Effect::Get,
        };
        let draft = match (wanted, &old.holder) {
            // As client-go's ReleaseOnCancel leaves it: an empty holder, one second.
            (Wanted::GiveUp, _) => Draft {
                holder: None,
                duration: Duration::from_secs(1),
                transitions: old.transitions,
                ..self.draft(now)
            },
            (_, Some(holder)) if *holder == self.me => Draft {
                acquired: old.acquired.unwrap_or(now),
                transitions: old.transitions,
                ..self.draft(now)
            },
            _ => Draft { transitions: old.transitions.saturating_add(1), ..self.draft(now) },
        };
        Effect::Update(old.resource_version.clone(), draft)
    }

    fn draft(&self, now: Moment) -> Draft {
        Draft {
            holder: Some(self.me.clone()),
            duration: self.settings.duration,
            acquired: now,
            renewed: now,
            transitions: 0,
        }
    }
}

/// Nothing in the election record changed. Changes of other fields, such as annotations, do not
/// show that the holder is alive.
fn same_record(a: &Observed, b: &Observed) -> bool {
    (&a.holder, a.duration, a.acquired, a.renewed, a.transitions)
        == (&b.holder, b.duration, b.acquired, b.renewed, b.transitions)
}
