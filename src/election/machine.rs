//! The machine.

use std::time::Duration;

use super::{Draft, Effect, Input, LAST_WRITES, Lost, Observed, Settings};
use crate::domain::Moment;

/// One process's part in the election.
#[derive(Debug)]
pub struct Machine {
    me: String,
    settings: Settings,
    aim: Aim,
    /// How long a lease must have been free before this process bids for it.
    reluctance: Duration,
    seen: Seen,
    /// What was seen may not be what is: it was refused, or a watch showed something else.
    outdated: bool,
    /// The last write may have had its effect all the same.
    doubtful: bool,
    /// Writes that were refused one after another.
    conflicts: u32,
    /// When the request under way was sent.
    under_way: Option<Moment>,
    /// What a watch showed while a request was under way.
    nudge: Option<Nudge>,
    /// No request before this.
    not_before: Moment,
    /// The next read of a standby, the next renewal of a leader.
    due: Moment,
    lead: Option<Lead>,
    /// The lease is held, and renewed, until the last writes are over.
    closing: Option<Closing>,
    /// The last term ended by its renew deadline, or the process yields and the API server has not
    /// confirmed that. Nothing was seen since that speaks of another holder.
    is_without_leader: bool,
}

/// A resourceVersion, or that the Lease is gone.
#[derive(Debug)]
struct Nudge(Option<String>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Bid,
    /// Get rid of the lease, then bid again.
    Yield,
    /// Get rid of the lease, then be done.
    Stop,
    Done,
}

/// What the last read or accepted write showed, and since when, by our own clock, it has been so.
#[derive(Debug)]
enum Seen {
    /// Nothing was read yet.
    Nothing,
    /// There is no Lease. `careful`: there may have been one whose holder does not know yet that it
    /// is gone, so a whole duration is waited for. `read`: when a read last found no Lease; `None`:
    /// a Create was refused since, because there was one.
    Missing { since: Moment, careful: bool, read: Option<Moment> },
    /// A Lease.
    Lease { is: Observed, since: Moment },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Read,
    /// Acquire if it is free by now, else read.
    Bid,
    /// Acquire, or renew.
    Hold,
    GiveUp,
}

#[derive(Debug, Clone, Copy)]
struct Lead {
    /// When the last accepted write was sent, plus the renew deadline.
    until: Moment,
    term: u32,
}

/// How a term ends voluntarily.
#[derive(Debug, Clone, Copy)]
struct Closing {
    /// What comes after it.
    then: Aim,
    /// By then every write has run into its own time limit.
    until: Moment,
}

impl Machine {
    /// A standby that has read nothing. `me` must be unique to this process, not to its pod: a
    /// restarted container is somebody else.
    #[must_use]
    pub fn new(me: String, settings: Settings) -> Self {
        Self {
            me,
            settings,
            aim: Aim::Bid,
            reluctance: Duration::ZERO,
            seen: Seen::Nothing,
            outdated: false,
            doubtful: false,
            conflicts: 0,
            under_way: None,
            nudge: None,
            not_before: Moment::MIN,
            due: Moment::MIN,
            lead: None,
            closing: None,
            is_without_leader: false,
        }
    }

    /// Until when this process may start requests of any kind; `None` while it does not lead.
    #[must_use]
    pub fn may_write_until(&self) -> Option<Moment> {
        if self.closing.is_some() { None } else { self.holds_until() }
    }

    /// Until when nobody else leads for certain: while this process leads, and while its last
    /// writes are under way.
    #[must_use]
    pub fn holds_until(&self) -> Option<Moment> {
        self.lead.map(|lead| lead.until)
    }

    /// No write may begin any more, and the lease is given up at [`Input::WritesOver`], or when
    /// every write has run into its time limit.
    #[must_use]
    pub const fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// As far as this process knows, no other process leads, but it may not write. It may go on
    /// with what two processes can do at once without harm (heartbeats). Either it lost its lease
    /// only because it could not renew it in time, and has not seen another holder since, or it is
    /// closing, or it yields and the Lease names this process until its write is accepted.
    #[must_use]
    pub const fn is_without_leader(&self) -> bool {
        self.is_without_leader || self.is_closing()
    }

    /// `leaseTransitions` of the Lease under which this process leads.
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

    /// When the machine wants the next [`Input::Tick`], at the latest. `None`: when the request
    /// under way is answered.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        let request =
            if self.under_way.is_some() { None } else { self.next_request().map(|(at, _)| at) };
        [self.holds_until(), self.closing.map(|closing| closing.until), request]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes in what happened and says what to do. `spread` in `[0, 1)` jitters the reads of
    /// standbys.
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
                self.doubtful = false;
                self.see(now, is, effects);
                self.has_read(now, spread);
            }
            Input::NotFound => {
                self.answered();
                self.doubtful = false;
                self.see_nothing(now);
                self.has_read(now, spread);
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
                    self.doubtful = true;
                    self.pause(now, sent);
                }
            }
            Input::Yield(after) => {
                // Only the first one gives up: whoever gets the lease back, because nobody else
                // wanted it, keeps it.
                if self.reluctance.is_zero() && self.aim == Aim::Bid {
                    self.close(now, Aim::Yield, effects);
                }
                self.reluctance = after;
            }
            Input::Eager => self.reluctance = Duration::ZERO,
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

    /// The request under way is over; when it was sent. `None`: there was none, the answer is an
    /// old one.
    fn answered(&mut self) -> Option<Moment> {
        let sent = self.under_way.take()?;
        self.outdated = false;
        Some(sent)
    }

    /// A request failed: the next one a retry period after it was sent, so that one that hung is
    /// followed at once.
    fn pause(&mut self, now: Moment, sent: Moment) {
        self.not_before = sent.plus(self.settings.retry).max(now);
    }

    /// A watch lags behind reads and writes, so what it shows is never believed; it is a reason to
    /// read.
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
            self.is_without_leader = false;
        }
        let since = match &self.seen {
            Seen::Lease { is: was, since } if same_record(was, &is) => *since,
            _ => now,
        };
        self.seen = Seen::Lease { is, since };
    }

    fn see_nothing(&mut self, now: Moment) {
        let (since, careful) = match self.seen {
            Seen::Nothing => (now, false),
            Seen::Missing { since, careful, .. } if self.is_still_missing(now) => (since, careful),
            // Another process that held it leads on until its renew deadline, because it does not
            // know. If we lead, we may create it at once.
            Seen::Missing { .. } | Seen::Lease { .. } => (now, self.lead.is_none()),
        };
        self.seen = Seen::Missing { since, careful, read: Some(now) };
    }

    /// The Lease was missing a moment ago. After a longer time without a read, another process may
    /// have made it and led, and somebody may have deleted it since.
    fn is_still_missing(&self, now: Moment) -> bool {
        matches!(
            self.seen,
            Seen::Missing { read: Some(read), .. } if now <= read.plus(self.settings.retry * 2)
        )
    }

    fn has_read(&mut self, now: Moment, spread: f64) {
        if self.lead.is_some() {
            return; // A leader reads between its renewals; they stay due when they were.
        }
        // A little earlier than a retry period at most: a record that changed just after a read is
        // still seen within one.
        self.due = now.plus(self.settings.retry.mul_f64(0.75 + 0.25 * spread.clamp(0.0, 1.0)));
        if self.free_at().is_none_or(|free| free > now) {
            self.conflicts = 0;
        }
    }

    fn accepted(&mut self, now: Moment, is: Observed, effects: &mut Vec<Effect>) {
        let Some(sent) = self.answered() else { return };
        self.doubtful = false;
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
            self.is_without_leader = false;
            effects.push(Effect::BecameLeader { term });
        }
    }

    fn lose(&mut self, why: Lost, effects: &mut Vec<Effect>) {
        if self.lead.is_none() {
            return;
        }
        let is_deadline = why == Lost::Deadline;
        // The loss was reported when the writes were closed.
        if self.closing.is_none() {
            effects.push(Effect::Lost(why));
        }
        self.end_closing();
        self.lead = None;
        self.is_without_leader = is_deadline && self.aim != Aim::Stop;
    }

    /// Leadership ends now; the lease is given up when the last writes are over.
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
            self.is_without_leader = true;
            self.give_up(then);
        }
    }

    fn give_up(&mut self, aim: Aim) {
        self.aim = aim;
        self.not_before = Moment::MIN;
        // Yielding does not mean that another process leads. Heartbeats sent without a lease
        // continue; only `Stop` ends them.
        if aim == Aim::Stop {
            self.is_without_leader = false;
        }
    }

    /// Giving up is over when the lease is not ours and no write of ours that could make it so is
    /// unaccounted for.
    fn settle(&mut self, effects: &mut Vec<Effect>) {
        let rid = self.under_way.is_none()
            && !self.doubtful
            && !self.outdated
            && self.holder() != Some(self.me.as_str());
        match self.aim {
            Aim::Yield if rid => self.aim = Aim::Bid,
            Aim::Stop if rid => {
                self.aim = Aim::Done;
                effects.push(Effect::Stopped);
            }
            Aim::Bid | Aim::Yield | Aim::Stop | Aim::Done => {}
        }
    }

    /// From when on this process may bid; `None` while nothing was read.
    fn free_at(&self) -> Option<Moment> {
        Some(match &self.seen {
            Seen::Nothing => return None,
            Seen::Missing { since, careful: false, .. } => since.plus(self.reluctance),
            Seen::Missing { since, careful: true, .. } => {
                since.plus(self.settings.duration).plus(self.reluctance)
            }
            Seen::Lease { is, since } => match &is.holder {
                None => since.plus(self.reluctance),
                Some(holder) if *holder == self.me => Moment::MIN,
                Some(_) => {
                    since.plus(is.duration.unwrap_or(self.settings.duration)).plus(self.reluctance)
                }
            },
        })
    }

    /// What is to be asked next, and when.
    fn next_request(&self) -> Option<(Moment, Wanted)> {
        let giving_up = matches!(self.aim, Aim::Yield | Aim::Stop);
        let (at, wanted) = if self.aim == Aim::Done {
            return None;
        } else if self.outdated
            || matches!(self.seen, Seen::Nothing)
            || (self.doubtful && giving_up)
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
                    && (self.doubtful || !self.is_still_missing(now)) =>
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

/// Nothing of the record changed: other fields of the object, such as annotations, are no sign of
/// life.
fn same_record(a: &Observed, b: &Observed) -> bool {
    (&a.holder, a.duration, a.acquired, a.renewed, a.transitions)
        == (&b.holder, b.duration, b.acquired, b.renewed, b.transitions)
}
