//! Derives the deadlines of a drain from its interruptions and hooks.

use std::{collections::BTreeMap, time::Duration};

use crate::domain::{
    HookDescription, InterruptionFacts, Kind, LifecycleAction, Limits, Moment, force_time, seconds,
};

/// How long before its GlobalTimeout the deadline of a hook is.
const GLOBAL_RESERVE: Duration = seconds(60);
/// How long before its deadline a drain ends, so that a completion still reaches AWS in time.
const ONE_CALL: Duration = seconds(2);
/// The deadline of a hook that is not described yet.
const PROVISIONAL: Duration = seconds(3600);

/// The flags that affect every deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// `--drain-timeout`; `None`: one hour, or the hook's HeartbeatTimeout if that is longer.
    pub drain_timeout: Option<Duration>,
    /// `--deadline-margin`: how long before the deadline the pods should be gone, at most half of
    /// the available time. The drain itself ends at the deadline, less the time of one call.
    pub margin: Duration,
    /// `--spot-deadline-margin`: `margin` for a deadline that a spot notice sets.
    pub spot_margin: Duration,
    /// `--rebalance-ttl`: how long Sundown keeps a node marked if no
    /// interruption follows the recommendation.
    pub rebalance_ttl: Duration,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            drain_timeout: None,
            margin: seconds(5),
            spot_margin: seconds(10),
            rebalance_ttl: seconds(3600),
        }
    }
}

impl LimitSettings {
    /// How long a drain may take if no earlier deadline ends it.
    fn patience(&self, hook: Option<&HookDescription>) -> Duration {
        self.drain_timeout
            .unwrap_or_else(|| hook.map_or(PROVISIONAL, |d| d.heartbeat_timeout.max(PROVISIONAL)))
    }

    /// Until when a process that no longer leads and knows no other leader sends heartbeats for a
    /// lifecycle action: the latest end of the drain. `taken_up`: when the process last accepted,
    /// took over or resumed the drain. `None`: the drain is paused, so its time does not pass, and
    /// the heartbeats go on until AWS ends the action (`ends_by`).
    #[must_use]
    pub fn kept_alive_until(
        &self,
        taken_up: Option<Moment>,
        ends_by: Moment,
        hook: Option<&HookDescription>,
    ) -> Moment {
        taken_up.map_or(ends_by, |at| at.plus(self.patience(hook)))
    }
}

/// The facts of one open lifecycle action that affect deadlines, from
/// [`super::HeartbeatSchedule::facts`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookFacts {
    /// The hook's timeouts from DescribeLifecycleHooks; `None`: not known yet.
    pub description: Option<HookDescription>,
    /// The end of the current window, if two thirds of the window have passed without an accepted
    /// heartbeat.
    pub lapse: Option<Moment>,
}

impl HookFacts {
    /// The facts that stay true after the next accepted heartbeat. Use these to decide whether an
    /// interruption sets an earlier deadline than the drain has. Otherwise Sundown could delete its
    /// message while a window is about to lapse, and lose its deadline when a heartbeat is accepted
    /// after all.
    #[must_use]
    pub fn lasting(&self) -> Self {
        Self { description: self.description.clone(), lapse: None }
    }
}

/// The limits of a drain with the accepted interruptions `taken`. `take_up`: when the current
/// leader took the drain up (at accept, take-over or resume). An interruption that joined later was
/// taken up at its own accept. `hooks`: the facts of each open action. An action that is missing
/// there has the description of another action of the same hook, if there is one.
#[must_use]
pub fn limits(
    taken: &[InterruptionFacts],
    hooks: &BTreeMap<LifecycleAction, HookFacts>,
    take_up: Moment,
    settings: &LimitSettings,
) -> Limits {
    let first = taken.iter().map(|t| t.accepted).min().unwrap_or(take_up);
    let ending: Vec<&InterruptionFacts> = taken.iter().filter(|t| !is_recommendation(t)).collect();
    if ending.is_empty() && !taken.is_empty() {
        let last = taken.iter().map(InterruptionFacts::began).max().unwrap_or(first);
        let expires_at = Some(last.plus(settings.rebalance_ttl));
        let limits = Limits { expires_at, ..Limits::without_deadline(first, false) };
        return with_response(limits, taken);
    }
    let rules = ending.iter().filter_map(|t| Rule::of(t, &facts_of(t, hooks), take_up, settings));
    let rules: Vec<Rule> = rules.collect();
    let earliest = rules.iter().min_by_key(|r| (r.deadline.force_at, r.accepted));
    let end = rules.iter().map(|r| r.deadline.end_at).min();
    let patience = ending.iter().map(|t| {
        take_up.max(t.accepted).plus(settings.patience(facts_of(t, hooks).description.as_ref()))
    });
    let ends_anyway = patience.min().unwrap_or_else(|| take_up.plus(settings.patience(None)));
    let limits = Limits {
        force_at: earliest.map(|r| r.deadline.force_at),
        accepted: earliest.map_or(first, |r| r.accepted),
        end_at: Some(end.unwrap_or(ends_anyway)),
        ..Limits::without_deadline(first, taken.iter().any(InterruptionFacts::is_urgent))
    };
    with_response(limits, taken)
}

fn is_recommendation(taken: &InterruptionFacts) -> bool {
    taken.kind.is_some_and(Kind::is_recommendation)
}

/// The same limits with the strongest response to these interruptions, and the moment since when
/// the node is marked for it.
#[must_use]
pub fn with_response(limits: Limits, taken: &[InterruptionFacts]) -> Limits {
    let Some(response) = taken.iter().map(|facts| facts.response).max() else { return limits };
    let strongest = taken.iter().filter(|facts| facts.response == response);
    let marked_at = strongest.map(|facts| facts.accepted).min().unwrap_or(limits.marked_at);
    Limits { marked_at, response, ..limits }
}

/// The facts of the open action of an interruption. Actions of the same hook share its description,
/// but each has its own window.
fn facts_of(taken: &InterruptionFacts, hooks: &BTreeMap<LifecycleAction, HookFacts>) -> HookFacts {
    let Some(action) = &taken.hook else { return HookFacts::default() };
    let others = || {
        hooks
            .range(LifecycleAction { key: action.key.clone(), token: None }..)
            .take_while(|(other, _)| other.key == action.key)
    };
    hooks.get(action).cloned().unwrap_or_else(|| HookFacts {
        description: others().find_map(|(_, f)| f.description.clone()),
        lapse: None,
    })
}

/// The deadline that one interruption sets.
#[derive(Debug, Clone, Copy)]
struct Rule {
    deadline: Deadline,
    accepted: Moment,
}

/// A deadline in the form that a drain obeys.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    /// When the pods should be gone.
    force_at: Moment,
    /// When the drain ends.
    end_at: Moment,
}

impl Deadline {
    /// The deadline of a machine or a hook that ends at `end` and whose time began at `start`.
    fn at(end: Moment, start: Moment, margin: Duration) -> Self {
        let force_at = force_time(start, end, margin);
        Self { force_at, end_at: end.minus(ONE_CALL).max(force_at) }
    }

    fn earlier(self, other: Self) -> Self {
        Self { force_at: self.force_at.min(other.force_at), end_at: self.end_at.min(other.end_at) }
    }
}

impl Rule {
    /// `None` if the deadline had passed when the interruption was taken up, or if the interruption
    /// never sets one.
    fn of(
        taken: &InterruptionFacts,
        facts: &HookFacts,
        take_up: Moment,
        settings: &LimitSettings,
    ) -> Option<Self> {
        let up = take_up.max(taken.accepted);
        let (deadline, accepted) = if taken.hook.is_some() {
            hook_deadline(taken, facts, up, settings)?
        } else if taken.is_over() {
            return None;
        } else {
            let margin = if taken.kind.is_some_and(Kind::is_spot) {
                settings.spot_margin
            } else {
                settings.margin
            };
            let deadline = taken
                .machine_ends_at()
                .map(|end| Deadline::at(end, taken.began(), margin))
                .filter(|d| d.force_at > up)?;
            (deadline, taken.accepted)
        };
        Some(Self { deadline, accepted })
    }
}

/// The earlier of two deadlines, and when its time began:
///
/// - min(event + global timeout − 60 s, accept + drain timeout). If that had passed at the take-up,
///   the drain timeout counts from the take-up.
/// - The end of a window that is about to lapse.
///
/// A deadline counts only if, less the margin, it was still ahead at the take-up. No pod is forced
/// in the first part of its time (`--force-after`), so a deadline that counts from the take-up
/// forces no pod at once.
fn hook_deadline(
    taken: &InterruptionFacts,
    facts: &HookFacts,
    up: Moment,
    settings: &LimitSettings,
) -> Option<(Deadline, Moment)> {
    let description = facts.description.as_ref();
    let ahead = |deadline: Moment, start: Moment| {
        Some(Deadline::at(deadline, start, settings.margin)).filter(|d| d.force_at > up)
    };
    let from = |start: Moment| match description {
        Some(d) => taken
            .began()
            .plus(d.global_timeout)
            .minus(GLOBAL_RESERVE)
            .min(start.plus(settings.patience(Some(d)))),
        // Not described: one hour, or `--drain-timeout` if that is less.
        None => start.plus(settings.patience(None).min(PROVISIONAL)),
    };
    // A window that ends after the latest end of the drain sets no deadline (possible if the global
    // timeout has passed). No window moves that end.
    let last = up.plus(settings.patience(description));
    let timeout = description.map_or(settings.margin, |d| d.heartbeat_timeout);
    let window =
        facts.lapse.and_then(|end| ahead(end, end.minus(timeout))).filter(|d| d.force_at < last);
    let window = window.map(|d| (Deadline { end_at: d.end_at.min(last), ..d }, taken.accepted));
    let mut starts = [taken.accepted, up].into_iter();
    let drain = starts.find_map(|start| Some((ahead(from(start), start)?, start)));
    let earlier = |a: (Deadline, Moment), b: (Deadline, Moment)| {
        (a.0.earlier(b.0), if b.0.force_at < a.0.force_at { b.1 } else { a.1 })
    };
    window.into_iter().chain(drain).reduce(earlier)
}
