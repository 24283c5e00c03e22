//! Until when gates on a Node hold its drain and its release.
//!
//! The first row that applies decides about the evictions ([`pre_drain_hold`]):
//!
//! | what is known | gates `pre-drain.sundown.dev/NAME` |
//! | --- | --- |
//! | the Node has none, or no pod is to be evicted | [`GateHold::None`] |
//! | a person ordered to force the drain | [`IgnoredGate::Forced`] |
//! | the deadline is 5 minutes or less after the event, or the instance has stopped or is terminated | [`IgnoredGate::ShortDeadline`] |
//! | half of the time from the accept to the deadline has passed; without a deadline, half of the time until the drain ends, half an hour at most | [`IgnoredGate::HalfPassed`] |
//! | anything else | [`GateHold::Until`] that moment |
//!
//! And about the completion of the lifecycle actions of an empty node ([`pre_release_hold`]):
//!
//! | what is known | gates `pre-release.sundown.dev/NAME` |
//! | --- | --- |
//! | the Node has none | [`GateHold::None`] |
//! | a person ordered to force the drain | [`IgnoredGate::Forced`] |
//! | the deadline of the drain has come | [`IgnoredGate::DeadlineReached`] |
//! | anything else | [`GateHold::Until`] the deadline; without one, half an hour after the end |
//!
//! The node is cordoned meanwhile, and its lifecycle actions get heartbeats.

use std::time::Duration;

use crate::domain::{
    GateKind, InterruptionFacts, Kind, LimitSource, Limits, Moment, Node, seconds,
};

/// Gates do not hold a drain whose deadline comes this soon after its event.
const SHORT_DEADLINE: Duration = seconds(300);
/// How long a drain that only people ask for waits at most for other drains, without a deadline.
const LONGEST_FOR_REQUESTS: Duration = seconds(24 * 3600);
/// How long gates hold at most without a deadline.
const LONGEST_WITHOUT_DEADLINE: Duration = seconds(1800);

/// What the gates of one kind on a Node do at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateHold {
    /// There is no gate, or nothing that it could hold.
    None,
    /// They hold, until this moment at the latest.
    Until(Moment),
    /// They hold nothing, although they are there.
    Ignored(IgnoredGate),
}

impl GateHold {
    /// Until when they hold at the latest; `None`: they do not hold.
    #[must_use]
    pub const fn until(self) -> Option<Moment> {
        match self {
            Self::Until(at) => Some(at),
            Self::None | Self::Ignored(_) => None,
        }
    }
}

/// Why gates hold nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredGate {
    /// The deadline is 5 minutes or less after the event, as for spot.
    ShortDeadline,
    /// Half of the time of the drain has passed.
    HalfPassed,
    /// The deadline of the drain has come.
    DeadlineReached,
    /// A person ordered to force the drain.
    Forced,
}

impl IgnoredGate {
    /// The reason, after "because".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ShortDeadline => "the drain's deadline is 5 minutes or less after the event",
            Self::HalfPassed => {
                "the longest time for gates has passed (half of the drain's time, or 30 minutes)"
            }
            Self::DeadlineReached => "the drain's deadline has passed",
            Self::Forced => "a person forces the drain (sundown.dev/force)",
        }
    }
}

/// Whether the gates `pre-drain.sundown.dev/NAME` of this Node hold its evictions. `limits`: its
/// deadline. `interruptions`: those that are not disproved.
#[must_use]
pub fn pre_drain_hold(
    node: &Node,
    limits: &Limits,
    interruptions: &[InterruptionFacts],
    now: Moment,
) -> GateHold {
    if !node.has_gate(GateKind::PreDrain) || !limits.response.evicts() {
        return GateHold::None;
    }
    if node.forced_by_hand() {
        return GateHold::Ignored(IgnoredGate::Forced);
    }
    match half_of_time(limits, interruptions) {
        None => GateHold::Ignored(IgnoredGate::ShortDeadline),
        Some(latest) if latest > now => GateHold::Until(latest),
        Some(_) => GateHold::Ignored(IgnoredGate::HalfPassed),
    }
}

/// When half of the time from the accept to the deadline has passed; without a deadline, half of
/// the time until the drain ends, half an hour after the accept at most. `None`: the deadline is 5
/// minutes or less after the event.
fn half_of_time(limits: &Limits, interruptions: &[InterruptionFacts]) -> Option<Moment> {
    // Not `Limits::accepted`, because that may be the time of a take-over, and a take-over must not
    // start the wait anew.
    let accepted = evicting(interruptions).map(|facts| facts.accepted).min();
    let accepted = accepted.unwrap_or(limits.accepted);
    if limits.end_source == LimitSource::Request {
        // It presses nobody, however soon it comes.
        return limits.end_at.map(|end| accepted.plus(end.since_or_zero(accepted) / 2));
    }
    let deadline = deadline_of(limits);
    if interruptions.iter().any(ends_soon_after_its_event)
        || deadline.is_some_and(|end| is_short(first_event(interruptions, accepted), end))
    {
        return None;
    }
    let half = |end: Moment| end.since_or_zero(accepted) / 2;
    // The end of a drain without a deadline counts from the take-over. Half an hour is the limit, so
    // that changes of leader do not move the wait on and on.
    let longest = LONGEST_WITHOUT_DEADLINE;
    let time = match (deadline, limits.end_at) {
        (Some(deadline), _) => half(deadline),
        (None, Some(end)) => half(end).min(longest),
        (None, None) => longest,
    };
    Some(accepted.plus(time))
}

/// The end of a drain that has a deadline. `None`: it has none, and ends after its longest time.
fn deadline_of(limits: &Limits) -> Option<Moment> {
    limits.force_at.and(limits.end_at).or(limits.expires_at)
}

/// Until when the evictions of a drain can wait for other drains: as long as for gates, but not in
/// the last 5 minutes before the drain ends. If people ask for the drain and nothing forces its
/// pods, until its deadline, or for a day without one. `None`: not at all, because something in its
/// record leaves no time ([`Kind::can_wait`]), or no pod is to be evicted. The moment may have
/// passed.
#[must_use]
pub fn can_wait_until(limits: &Limits, interruptions: &[InterruptionFacts]) -> Option<Moment> {
    let can_wait = |facts: &InterruptionFacts| facts.kind.is_some_and(Kind::can_wait);
    if limits.urgent || !limits.response.evicts() || !interruptions.iter().all(can_wait) {
        return None;
    }
    if limits.force_at.is_none() && interruptions.iter().all(InterruptionFacts::is_request) {
        let accepted = evicting(interruptions).map(|facts| facts.accepted).min();
        let latest = accepted.unwrap_or(limits.accepted).plus(LONGEST_FOR_REQUESTS);
        return Some(limits.end_at.unwrap_or(latest));
    }
    let half = half_of_time(limits, interruptions)?;
    let end = deadline_of(limits).or(limits.end_at);
    Some(end.map_or(half, |end| half.min(end.minus(SHORT_DEADLINE))))
}

/// Whether the gates `pre-release.sundown.dev/NAME` of this Node hold the completion of its
/// lifecycle actions, after its drain has left it empty at `ended`.
#[must_use]
pub fn pre_release_hold(node: &Node, limits: &Limits, ended: Moment, now: Moment) -> GateHold {
    if !node.has_gate(GateKind::PreRelease) {
        return GateHold::None;
    }
    if node.forced_by_hand() {
        return GateHold::Ignored(IgnoredGate::Forced);
    }
    let until = limits.end_at.unwrap_or_else(|| ended.plus(LONGEST_WITHOUT_DEADLINE));
    if until > now {
        GateHold::Until(until)
    } else {
        GateHold::Ignored(IgnoredGate::DeadlineReached)
    }
}

fn is_short(event: Moment, deadline: Moment) -> bool {
    deadline.since_or_zero(event) <= SHORT_DEADLINE
}

/// The machine ends soon after this event, whatever else the record holds.
fn ends_soon_after_its_event(facts: &InterruptionFacts) -> bool {
    let ends = facts.machine_ends_at();
    facts.is_over() || ends.is_some_and(|end| is_short(event_of(facts), end))
}

/// When the first event came. If no interruption evicts pods: `accepted`.
fn first_event(interruptions: &[InterruptionFacts], accepted: Moment) -> Moment {
    evicting(interruptions).map(event_of).min().unwrap_or(accepted)
}

/// The interruptions for which pods are evicted: the time of the drain counts from the first one. A
/// recommendation may have tainted the Node long before, and a request counts only without others.
fn evicting(interruptions: &[InterruptionFacts]) -> impl Iterator<Item = &InterruptionFacts> {
    let asks = |facts: &&InterruptionFacts| facts.response.evicts();
    let is_of_aws = interruptions.iter().filter(asks).any(|facts| !facts.is_request());
    interruptions.iter().filter(asks).filter(move |facts| !is_of_aws || !facts.is_request())
}

/// When the event of this interruption came. AWS announces a scheduled change days before, and its
/// drain begins later: the accept counts.
fn event_of(facts: &InterruptionFacts) -> Moment {
    if facts.kind == Some(Kind::ScheduledChange) { facts.accepted } else { facts.began() }
}
