//! What a drain is held to.

use std::{collections::BTreeMap, time::Duration};

use crate::domain::{
    HookDescription, Kind, LifecycleAction, Limits, Moment, Taken, force_time, seconds,
};

/// How long before its GlobalTimeout a hook is answered.
const GLOBAL_RESERVE: Duration = seconds(60);
/// How long before its deadline a drain ends: a completion that is sent then still counts.
const ONE_CALL: Duration = seconds(2);
/// The deadline of a hook that is not described yet.
const PROVISIONAL: Duration = seconds(3600);

/// What bears on every deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// `--drain-timeout`; `None`: one hour, for a hook its HeartbeatTimeout where that is longer.
    pub drain_timeout: Option<Duration>,
    /// `--deadline-margin`: how long before the deadline pods are to be gone, at most half of the
    /// time there is. It leaves time to see them go: the drain ends at the deadline itself.
    pub margin: Duration,
    /// The same for spot.
    pub spot_margin: Duration,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self { drain_timeout: None, margin: seconds(5), spot_margin: seconds(10) }
    }
}

impl LimitSettings {
    /// How long a drain may take that nothing else ends.
    fn patience(&self, hook: Option<&HookDescription>) -> Duration {
        self.drain_timeout
            .unwrap_or_else(|| hook.map_or(PROVISIONAL, |d| d.heartbeat_timeout.max(PROVISIONAL)))
    }
}

/// What a deadline needs to know of an owed hook; from [`super::HeartbeatSchedule::facts`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookFacts {
    /// What DescribeLifecycleHooks says; `None`: not yet.
    pub description: Option<HookDescription>,
    /// Two thirds of the window last granted are over with no heartbeat accepted: that window's
    /// end.
    pub lapse: Option<Moment>,
}

impl HookFacts {
    /// What stays true when the next heartbeat is accepted. Whether an interruption brings an
    /// earlier deadline than a drain has must be judged by this: otherwise its message is deleted
    /// while a window is about to lapse, and its deadline is lost when the heartbeat is accepted
    /// after all.
    #[must_use]
    pub fn lasting(&self) -> Self {
        Self { description: self.description.clone(), lapse: None }
    }
}

/// The limits of a drain that has taken on `taken`. `take_up`: when the present leader took it up
/// (at accept, take-over or resume); an interruption that joined later was taken up at its own
/// accept. `hooks`: what is known of each owed action; one that is missing counts as described like
/// another action of the same hook, else as not described.
#[must_use]
pub fn limits(
    taken: &[Taken],
    hooks: &BTreeMap<LifecycleAction, HookFacts>,
    take_up: Moment,
    settings: &LimitSettings,
) -> Limits {
    let rules = taken.iter().filter_map(|t| Rule::of(t, &facts_of(t, hooks), take_up, settings));
    let rules: Vec<Rule> = rules.collect();
    let earliest = rules.iter().min_by_key(|r| (r.deadline.force_at, r.accepted));
    let end = rules.iter().map(|r| r.deadline.end_at).min();
    let patience = taken.iter().map(|t| {
        take_up.max(t.accepted).plus(settings.patience(facts_of(t, hooks).description.as_ref()))
    });
    let ends_anyway = patience.min().unwrap_or_else(|| take_up.plus(settings.patience(None)));
    let first = taken.iter().map(|t| t.accepted).min().unwrap_or(take_up);
    Limits {
        force_at: earliest.map(|r| r.deadline.force_at),
        accepted: earliest.map_or(first, |r| r.accepted),
        end_at: Some(end.unwrap_or(ends_anyway)),
        urgent: taken.iter().any(Taken::is_urgent),
    }
}

/// What is known of the action that an interruption owes. A window is one action's alone; what its
/// hook is like is not.
fn facts_of(taken: &Taken, hooks: &BTreeMap<LifecycleAction, HookFacts>) -> HookFacts {
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

/// A deadline, as a drain keeps it.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    /// Pods are to be gone by then.
    force_at: Moment,
    /// The drain ends then.
    end_at: Moment,
}

impl Deadline {
    /// Of a machine or a hook that goes at `end`.
    fn at(end: Moment, start: Moment, margin: Duration) -> Self {
        let force_at = force_time(start, end, margin);
        Self { force_at, end_at: end.minus(ONE_CALL).max(force_at) }
    }

    fn earlier(self, other: Self) -> Self {
        Self { force_at: self.force_at.min(other.force_at), end_at: self.end_at.min(other.end_at) }
    }
}

impl Rule {
    /// `None`: it was over when the interruption was taken up, or it never sets one.
    fn of(
        taken: &Taken,
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
            let margin =
                if taken.kind == Some(Kind::Spot) { settings.spot_margin } else { settings.margin };
            let deadline = taken
                .machine_goes()
                .map(|end| Deadline::at(end, taken.began(), margin))
                .filter(|d| d.force_at > up)?;
            (deadline, taken.accepted)
        };
        Some(Self { deadline, accepted })
    }
}

/// min(event + global timeout − 60 s, accept + drain timeout), or the same from the take-up where
/// that was over by then; and the end of a window that runs out. Only what, less the margin, lay
/// ahead at the take-up. With it, from when on it counts: in the first part of that time
/// (`--force-after`) no pod is forced, so a deadline that counts anew forces none at the take-up.
fn hook_deadline(
    taken: &Taken,
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
        // Not described: one hour, or less where `--drain-timeout` is less and rules in any case.
        None => start.plus(settings.patience(None).min(PROVISIONAL)),
    };
    // A window beyond the drain's last end (possible where the global timeout is over) sets
    // nothing, and none moves that end.
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
