//! Every drain has a cause: what a record holds was sent, asks for a drain, and says what the
//! record says of it.

use std::{collections::BTreeSet, time::Duration};

use jiff::SignedDuration;
use sundown::{
    domain::Moment,
    sim::aws::{ActionReport, Outcome},
};

use super::{
    Judge,
    clocks::AwsClock,
    excuses::{HEARTBEATS, MESSAGES, Needs, SEE_NODES, Scope, WRITE_NODES},
    promises::Promise,
    sent::{Change, Kind, Notice},
    written::{Header, Seen, Written},
};

/// From the moment at which an interruption is judged to be fresh to its PATCH, where all is well.
const DECIDED: Duration = Duration::from_secs(3);
/// The same where something is broken: a call takes 10 s, and so do conflicts.
const DECIDED_LATE: Duration = Duration::from_secs(25);
/// How far the time of a write that is in it may be off.
const AT_ONCE: f64 = 1.0;
/// The same where the write met a fault: it may be sent again for a while.
const SENT_AGAIN: Duration = Duration::from_secs(12);
/// To find out whether an interruption still holds.
const PROOFS: Needs = &["ec2:*", "autoscaling:Describe*"];

impl Judge<'_> {
    /// Each entry that Sundown writes into a record is an event that was sent and delivered, that
    /// asks for a drain, and that was fresh or proved.
    pub(super) fn causes(&mut self) {
        self.report_without_cause(|judge, seen| {
            let notice = seen.cause.map(|cause| &judge.story.notices[cause]);
            let timely = || {
                notice.and_then(|n| judge.wrong_accept(seen, n).or_else(|| judge.outdated(seen, n)))
            };
            judge.groundless(seen).or_else(timely)
        });
    }

    /// Each record that Sundown writes names the instance of its Node, and says when it was
    /// released.
    pub(super) fn written_facts(&mut self) {
        let pages = std::mem::take(&mut self.story.written_pages);
        for page in &pages {
            let Header { at, by, node, instance, names, released, came_in } = page;
            if names.as_deref().is_some_and(|names| names != instance) {
                self.broken(
                    *at,
                    format!("the record of {node} names {names:?}, and its instance is {instance}"),
                );
            }
            // What a record says is in whole seconds.
            let off = released.and_then(|says| self.off(says, *came_in, by, (instance, node), 0.5));
            if let Some(off) = off {
                self.broken(
                    *at,
                    format!(
                        "the record of {node} was released {off:+.1} s from the moment that it says"
                    ),
                );
            }
        }
        self.story.written_pages = pages;
    }

    fn report_without_cause(&mut self, why: impl Fn(&Self, &Seen) -> Option<String>) {
        let mut reported = BTreeSet::new();
        for seen in std::mem::take(&mut self.story.seen) {
            let Some(why) = why(self, &seen) else { continue };
            if reported.insert((seen.node.clone(), seen.written.event.clone())) {
                let Seen { node, written: Written { kind, event, .. }, .. } = &seen;
                self.broken(seen.at, format!("the record of {node} holds {kind} {event:?}, {why}"));
            }
        }
    }

    /// Nobody had sent it, it says otherwise, or it asks for no drain.
    fn groundless(&self, seen: &Seen) -> Option<String> {
        let Some(cause) = seen.cause else {
            // What a person wrote into a record stays in it.
            return seen.accepted.is_none().then(|| "which nobody had sent".to_owned());
        };
        let notice = &self.story.notices[cause];
        let differs = notice.differs(&seen.written);
        if !differs.is_empty() {
            return Some(format!("but its {}", differs.join("; its ")));
        }
        if !seen.is_new || self.is_written_back(seen) {
            return None;
        }
        let same = |n: &&Notice| {
            n.event.id == notice.event.id && n.event.instance == notice.event.instance
        };
        // A scheduled change stands in an annotation until a leader accepts it.
        let reached = |n: &Notice| {
            let is_change = n.event.kind == Kind::ScheduledChange;
            n.was_delivered_to(&seen.by, seen.at)
                || (is_change && n.deliveries.iter().any(|d| d.at <= seen.at))
        };
        if !self.story.notices.iter().filter(same).any(reached) {
            return Some(format!("which {} had not received", seen.by));
        }
        self.harmless(seen, notice)
    }

    /// It was in the record of this instance before, accepted at the same moment: the record was
    /// deleted, or the Node.
    fn is_written_back(&self, seen: &Seen) -> bool {
        let before = self.story.recorded(&seen.instance, seen.at - Duration::from_millis(1));
        before.iter().any(|t| t.event == seen.written.event && Some(t.accepted) == seen.accepted)
    }

    /// How far the time of the accept in the record is off.
    fn wrong_accept(&self, seen: &Seen, notice: &Notice) -> Option<String> {
        let off = self.off(
            seen.written.accepted - notice.ahead,
            seen.accepted?,
            &seen.by,
            (&seen.instance, &seen.node),
            0.0,
        )?;
        Some(format!("accepted {off:+.1} s from the moment that it says"))
    }

    /// By how many seconds a time that a write says of itself is off from the moment at which it
    /// came in, if that is too far.
    fn off(
        &self,
        says: Moment,
        came_in: Moment,
        by: &str,
        of: (&str, &str),
        rounded: f64,
    ) -> Option<f64> {
        let off = says.duration_since(came_in).as_secs_f64();
        let (off, rounded) = match self.aws_clock(by, came_in) {
            AwsClock::Measured => (off, rounded),
            AwsClock::Roughly(error) => (off, rounded + error.as_secs_f64()),
            AwsClock::Unknown { ahead, error } => {
                // Then it is the time of the API server's clock.
                let of_api_server = off + ahead.as_secs_f64();
                if of_api_server.abs() < off.abs() {
                    (of_api_server, rounded)
                } else {
                    (off, rounded + error.as_secs_f64())
                }
            }
        };
        let scope =
            Scope { needs: &[WRITE_NODES], of: Some(of), process: Some(by), without_leader: None };
        let is_early = off < -AT_ONCE - rounded;
        let excused = is_early
            && off >= -SENT_AGAIN.as_secs_f64() - rounded
            && self.is_excused(scope, says, came_in);
        self.count(Promise::TrueTimes, excused);
        ((is_early && !excused) || off > AT_ONCE + rounded).then_some(off)
    }

    /// It asks for no drain.
    fn harmless(&self, seen: &Seen, notice: &Notice) -> Option<String> {
        let event = &notice.event;
        let received = notice
            .deliveries
            .iter()
            .filter(|d| d.by == seen.by)
            .map(|d| d.at)
            .min()
            .unwrap_or(seen.at);
        let is_mere_test =
            event.is_test && !(event.is_real_test && self.acts_on_tests(&seen.by, received));
        let is_pooled = event.kind == Kind::LaunchHook && self.was_pooled(&seen.node, seen.at);
        if (!self.evidence.terms.asks(event) && !is_pooled) || is_mere_test {
            return Some("which asks for no drain".to_owned());
        }
        if let Some((group, hook)) = &event.hook
            && !self.is_ours(group, hook)
            && !self.looks_like_ours(group, &event.instance, seen.at)
            && !self.is_accepted_unconfirmed(group, hook, &event.instance, seen.at)
            && !self.is_undecided(seen, group)
        {
            return Some(format!("of the hook {group}/{hook}, which is not ours"));
        }
        None
    }

    /// AWS had not described the hooks of the group to this process when its PATCH came in.
    fn is_undecided(&self, seen: &Seen, group: &str) -> bool {
        let came_in = seen.accepted.unwrap_or(seen.at);
        !self.descriptions(group, &seen.by, came_in).any(|c| c.outcome == Outcome::Ok)
    }

    /// It was read after its own time, and is no longer true, or nobody asked.
    fn outdated(&self, seen: &Seen, notice: &Notice) -> Option<String> {
        if !seen.is_new || self.is_written_back(seen) {
            return None;
        }
        if notice.event.kind == Kind::ScheduledChange {
            return self.untimely_change(seen, notice);
        }
        if matches!(notice.event.kind, Kind::Impaired | Kind::Request) {
            // It would be no notice if the instance had not been sick, or if nobody had asked.
            return None;
        }
        let (at, event) = (seen.at, &notice.event);
        let own_time = match event.kind {
            Kind::StateChange if self.may_run_again(notice, at) => Duration::ZERO,
            Kind::StateChange => Duration::from_secs(60),
            Kind::TerminateHook | Kind::RootVolume => {
                // Somebody may have made the event up: then the hook has one all the same.
                let named = event.hook.as_ref();
                let timeouts = &self.evidence.terms.heartbeat_timeouts;
                let of_hook = named.and_then(|hook| timeouts.get(hook)).copied();
                let of_action = self.action_of(notice).map(|a| a.heartbeat_timeout);
                of_action.or(of_hook).unwrap_or(Duration::from_secs(30))
            }
            // Until the block has ended, its instances run.
            Kind::CapacityBlock => Duration::from_secs(2400),
            Kind::Rebalance => self.evidence.terms.rebalance_ttl(),
            _ => Duration::from_secs(120),
        };
        let age = at.duration_since(notice.time());
        let is = |limit: Duration| age > SignedDuration::try_from(limit).unwrap_or_default();
        if seen.written.is_stale {
            // A hook that is not described yet counts as stale after 30 s.
            let at_least =
                if event.hook.is_some() { own_time.min(Duration::from_secs(30)) } else { own_time };
            if !is(at_least) {
                return Some(format!("stale after {age:?}"));
            }
            // Then it could not be asked for 10 s whether it still holds.
            // Whether a hook still waits, only a heartbeat can say.
            let needs: &[Needs] =
                if event.hook.is_some() { &[PROOFS, HEARTBEATS] } else { &[PROOFS] };
            let scope = Scope {
                needs,
                of: Some((&seen.instance, &seen.node)),
                process: Some(&seen.by),
                without_leader: None,
            };
            let excused = self.is_excused(scope, at - DECIDED_LATE, at);
            self.count(Promise::FreshOrProved, excused);
            return (!excused).then(|| "stale, although all was well".to_owned());
        }
        let is_proved =
            self.story.is_ending(&event.instance, at) || self.is_open_action(seen, notice);
        let scope =
            Scope::of_leader(&[MESSAGES, SEE_NODES, WRITE_NODES]).about(&seen.instance, &seen.node);
        let is_old = is(own_time + DECIDED) && !is_proved;
        let excused =
            is_old && !is(own_time + DECIDED_LATE) && self.is_excused(scope, at - DECIDED_LATE, at);
        self.count(Promise::FreshOrProved, excused);
        (is_old && !excused).then(|| format!("{age:?} old, of an instance that runs on"))
    }

    /// A scheduled change that was accepted before its time, or after it was canceled or moved: the
    /// message that says so was deleted, so it was written on the Node.
    fn untimely_change(&self, seen: &Seen, notice: &Notice) -> Option<String> {
        const CLOCKS: Duration = Duration::from_secs(2);
        let (event, change) = (&notice.event, notice.event.change.as_ref()?);
        let lead = self.evidence.terms.longest("--scheduled-lead", Duration::from_secs(3600));
        // A window may be up to a week before the lead.
        let has_window = !self.evidence.terms.each("--scheduled-window").is_empty();
        let window = Duration::from_secs(if has_window { 7 * 24 * 3600 } else { 0 });
        // A process that AWS has not answered yet reads the start by the API server's clock.
        let came_in = seen.accepted.unwrap_or(seen.at);
        let ahead = match self.aws_clock(&seen.by, came_in) {
            AwsClock::Unknown { ahead, .. } => ahead,
            AwsClock::Measured | AwsClock::Roughly(_) => SignedDuration::ZERO,
        };
        let starts = notice.ends().map(|starts| starts.min(starts + ahead));
        let due = starts.map(|starts| starts - lead - window - CLOCKS);
        if !change.is_pressing() && due.is_some_and(|due| seen.at < due) {
            return Some(format!("{lead:?} before its start and more"));
        }
        let replaces = |n: &&Notice| {
            let is_later = |later: &Change| {
                later.arn == change.arn
                    && later.updated.zip(change.updated).is_some_and(|(new, old)| new > old)
                    && (later.is_closed || n.event.ends != event.ends)
            };
            n.event.instance == event.instance && n.event.change.as_ref().is_some_and(is_later)
        };
        // EC2 shows no tags of a terminated instance, so nothing shows that it was ours: then its
        // message is deleted, and nothing is written on its Node.
        let is_noted = |at: Moment| !self.story.is_terminated(&event.instance, at);
        let settled =
            |n: &Notice| n.deleted.is_some_and(|at| at + CLOCKS < seen.at && is_noted(at));
        let is_over = self.story.notices.iter().filter(replaces).any(settled);
        is_over.then(|| "which was canceled or moved before".to_owned())
    }

    fn action_of(&self, notice: &Notice) -> Option<&ActionReport> {
        let event = &notice.event;
        let is_it = |a: &&ActionReport| {
            a.instance == event.instance
                && event
                    .hook
                    .as_ref()
                    .is_some_and(|(group, hook)| *group == a.group && *hook == a.hook)
                && event.token.as_ref().is_none_or(|t| *t == a.token)
        };
        self.evidence.actions.iter().filter(is_it).max_by_key(|a| a.started)
    }

    /// Its lifecycle action was open when the process that wrote it could look at the message for
    /// the first time.
    fn is_open_action(&self, seen: &Seen, notice: &Notice) -> bool {
        let same = |n: &&Notice| {
            n.event.id == notice.event.id && n.event.instance == notice.event.instance
        };
        let deliveries = self.story.notices.iter().filter(same).flat_map(|n| &n.deliveries);
        let first = deliveries.filter(|d| d.by == seen.by).map(|d| d.at).min().unwrap_or(seen.at);
        self.action_of(notice)
            .is_some_and(|a| a.started <= seen.at && a.end.as_ref().is_none_or(|e| e.at >= first))
    }
}
