//! Derives the deadlines of a drain from its interruptions and hooks.

use std::{collections::BTreeMap, time::Duration};

use super::ActionSeen;
use crate::domain::{
    AllowedSettings, DrainSettings, EvictAfterByKind, HookDescription, InterruptionFacts, Kind,
    LifecycleAction, LimitSource, Limits, Moment, Node, ReadSettings, SettingProblem,
    SettingSource, force_time, seconds,
};

/// How long before its GlobalTimeout the deadline of a hook is.
const GLOBAL_RESERVE: Duration = seconds(60);
/// How long before its deadline a drain ends, so that a completion still reaches AWS in time.
const ONE_CALL: Duration = seconds(2);
/// The deadline of a hook that is not described yet.
const PROVISIONAL: Duration = seconds(3600);

/// The flags that affect every deadline, and the settings of the drain's own Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// `--drain-timeout`; `None`: one hour, or the hook's HeartbeatTimeout if that is longer.
    pub drain_timeout: Option<Duration>,
    /// `--deadline-margin`: how long before the deadline the pods should be gone, at most half of
    /// the available time. The drain itself ends at the deadline, less the time of one call.
    pub margin: Duration,
    /// `--spot-deadline-margin`: `margin` for a deadline that a spot notice sets.
    pub spot_margin: Duration,
    /// `--rebalance-ttl`: how long Sundown keeps a node tainted or cordoned if no
    /// interruption follows the recommendation.
    pub rebalance_ttl: Duration,
    /// `--evict-after`: when the evictions of a drain begin.
    pub evict_after: EvictAfterByKind,
    /// `--requests-may-force`: at the deadline of a request, pods are forced. If `false`, only the
    /// drain ends, and only if nothing else of its record comes from AWS.
    pub requests_may_force: bool,
    /// What the flags allow hooks and Nodes to set.
    pub allowed: AllowedSettings,
    /// The settings in the annotations of the Node, as far as they are allowed: they take
    /// precedence over those of its hooks, and these over the flags.
    pub node: DrainSettings,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            drain_timeout: None,
            margin: seconds(5),
            spot_margin: seconds(10),
            rebalance_ttl: seconds(3600),
            evict_after: EvictAfterByKind::default(),
            requests_may_force: false,
            allowed: AllowedSettings::default(),
            node: DrainSettings::NONE,
        }
    }
}

impl LimitSettings {
    /// How long a drain may take if no earlier deadline ends it. `own`: the drain timeout of its
    /// Node or hook ([`Self::own_drain_timeout`]).
    fn longest_drain(&self, hook: Option<&HookDescription>, own: Option<Duration>) -> Duration {
        own.or(self.drain_timeout)
            .unwrap_or_else(|| hook.map_or(PROVISIONAL, |d| d.heartbeat_timeout.max(PROVISIONAL)))
    }

    /// The settings in the annotations of a Node that the flags allow, and what is wrong with the
    /// others.
    #[must_use]
    pub fn of_node(&self, node: &Node) -> ReadSettings {
        let (given, mut problems) = DrainSettings::of_annotations(&node.annotations);
        let (allowed, refused) = given.allowed(SettingSource::Node, &self.allowed);
        problems.extend(refused);
        problems.extend(SettingProblem::of_force_order(&node.annotations));
        (allowed, problems)
    }

    /// The settings that the hooks of these interruptions give, as far as they are allowed. Of each
    /// setting, the value that gives the pods the most time.
    #[must_use]
    pub fn of_hooks<'a>(
        &self,
        interruptions: impl IntoIterator<Item = &'a InterruptionFacts>,
    ) -> DrainSettings {
        let allowed = |facts: &InterruptionFacts| {
            facts.settings.allowed(SettingSource::Hook, &self.allowed).0
        };
        let all = interruptions.into_iter().map(allowed);
        all.fold(DrainSettings::NONE, DrainSettings::with_hook)
    }

    /// The settings of these interruptions' hooks that count: those that the flags allow. An event
    /// alone must not take time from pods, because whoever may write to the queue can make one up:
    /// until AWS has confirmed an action, a shorter drain timeout and a longest grace period of its
    /// hook do not count.
    fn confirmed<'a>(
        &self,
        interruptions: impl IntoIterator<Item = &'a InterruptionFacts>,
        hooks: &BTreeMap<LifecycleAction, HookFacts>,
    ) -> DrainSettings {
        let counting = |interruption: &InterruptionFacts| {
            let own = self.of_hooks([interruption]);
            let hook = facts_of(interruption, hooks);
            if hook.seen == ActionSeen::Open {
                return own;
            }
            let of_flags = self.longest_drain(hook.description.as_ref(), None);
            let drain_timeout = own.drain_timeout.filter(|timeout| *timeout >= of_flags);
            DrainSettings { drain_timeout, max_grace_period: None, ..own }
        };
        interruptions.into_iter().map(counting).fold(DrainSettings::NONE, DrainSettings::with_hook)
    }

    /// The drain timeout that the Node gives, or else the hooks of these interruptions, as far as it
    /// counts (`confirmed`). `None`: that of the flags.
    #[must_use]
    pub fn own_drain_timeout<'a>(
        &self,
        interruptions: impl IntoIterator<Item = &'a InterruptionFacts>,
        hooks: &BTreeMap<LifecycleAction, HookFacts>,
    ) -> Option<Duration> {
        self.node.drain_timeout.or_else(|| self.confirmed(interruptions, hooks).drain_timeout)
    }

    /// Until when a process that no longer leads and knows no other leader sends heartbeats for a
    /// lifecycle action: the latest end of the drain. `resumed_at`: when the process last accepted,
    /// took over or resumed the drain. `None`: the drain is paused, so its time does not pass, and
    /// the heartbeats go on until AWS ends the action (`ends_by`). `own`: the drain timeout of its
    /// Node or hooks ([`Self::own_drain_timeout`]).
    #[must_use]
    pub fn heartbeats_until(
        &self,
        resumed_at: Option<Moment>,
        ends_by: Moment,
        hook: Option<&HookDescription>,
        own: Option<Duration>,
    ) -> Moment {
        resumed_at.map_or(ends_by, |at| at.plus(self.longest_drain(hook, own)))
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
    /// What AWS has answered to heartbeats.
    pub seen: ActionSeen,
}

impl HookFacts {
    /// The facts that stay true after the next accepted heartbeat. Use these to decide whether an
    /// interruption sets an earlier deadline than the drain has. Otherwise Sundown could delete its
    /// message while a window is about to lapse, and lose its deadline when a heartbeat is accepted
    /// after all.
    #[must_use]
    pub fn lasting(&self) -> Self {
        Self { lapse: None, ..self.clone() }
    }
}

/// The limits of a drain with these accepted interruptions. Requests have no longest time: a drain
/// for nothing else and without a deadline goes on until its node is empty. `resumed_at`: when the
/// current leader accepted, took over or resumed the drain. For an interruption that joined later,
/// the time of its own accept counts instead. `hooks`: the facts of each open action. An action
/// that is missing there has the description of another action of the same hook, if there is one.
#[must_use]
pub fn limits(
    interruptions: &[InterruptionFacts],
    hooks: &BTreeMap<LifecycleAction, HookFacts>,
    resumed_at: Moment,
    settings: &LimitSettings,
) -> Limits {
    let first = interruptions.iter().map(|facts| facts.accepted).min().unwrap_or(resumed_at);
    let ending: Vec<&InterruptionFacts> =
        interruptions.iter().filter(|facts| !is_recommendation(facts)).collect();
    if ending.is_empty() && !interruptions.is_empty() {
        let last = interruptions.iter().map(InterruptionFacts::began).max().unwrap_or(first);
        let expires_at = Some(last.plus(settings.rebalance_ttl));
        let limits = Limits { expires_at, ..Limits::without_deadline(first, false) };
        return with_response(limits, interruptions);
    }
    let of =
        |facts: &&InterruptionFacts| InterruptionDeadline::of(facts, hooks, resumed_at, settings);
    let deadlines: Vec<InterruptionDeadline> = ending.iter().filter_map(of).collect();
    let earliest = deadlines.iter().min_by_key(|d| (d.deadline.force_at, d.accepted));
    let end = deadlines.iter().map(|d| d.deadline.end_at).min();
    let is_only_requested = ending.iter().all(|facts| facts.is_request());
    let evicts = interruptions.iter().any(|facts| facts.response.evicts());
    let of_request = request_deadline(&ending).filter(|_| is_only_requested);
    // A node that is only cordoned waits for no pod, so its drain ends by itself.
    let is_bounded =
        |facts: &&&InterruptionFacts| !facts.is_request() || (is_only_requested && !evicts);
    let latest_ends = ending.iter().filter(is_bounded).map(|facts| {
        let description = facts_of(facts, hooks).description;
        let own = settings.own_drain_timeout([*facts], hooks);
        resumed_at.max(facts.accepted).plus(settings.longest_drain(description.as_ref(), own))
    });
    let latest_end = latest_ends.min().or_else(|| {
        let longest = settings.longest_drain(None, settings.node.drain_timeout);
        ending.is_empty().then(|| resumed_at.plus(longest))
    });
    let limits = Limits {
        force_at: earliest.map(|d| d.deadline.force_at),
        accepted: earliest.map_or(first, |d| d.accepted),
        end_at: end.or(of_request).or(latest_end),
        end_source: if end.is_none() && of_request.is_some() {
            LimitSource::Request
        } else {
            LimitSource::Aws
        },
        ..Limits::without_deadline(first, interruptions.iter().any(InterruptionFacts::is_urgent))
    };
    with_response(limits, interruptions)
}

/// The earliest deadline of requests at which a drain for them alone ends, also if it passed before
/// the drain was taken up. One that had passed when the last of them was accepted does not count:
/// the drain began again after it.
fn request_deadline(requests: &[&InterruptionFacts]) -> Option<Moment> {
    let last = requests.iter().map(|facts| facts.accepted).max()?;
    requests.iter().filter_map(|facts| facts.ends).filter(|end| *end > last).min()
}

fn is_recommendation(facts: &InterruptionFacts) -> bool {
    facts.kind.is_some_and(Kind::is_recommendation)
}

/// The same limits with the strongest response to these interruptions, and the moment when
/// Sundown tainted the node for it.
#[must_use]
pub fn with_response(limits: Limits, interruptions: &[InterruptionFacts]) -> Limits {
    let Some(response) = interruptions.iter().map(|facts| facts.response).max() else {
        return limits;
    };
    let strongest = interruptions.iter().filter(|facts| facts.response == response);
    let tainted_at = strongest.map(|facts| facts.accepted).min().unwrap_or(limits.tainted_at);
    Limits { tainted_at, response, ..limits }
}

/// The same limits with the settings that the Node gives, and those of its hooks that it does not.
#[must_use]
pub fn with_settings(
    limits: Limits,
    interruptions: &[InterruptionFacts],
    hooks: &BTreeMap<LifecycleAction, HookFacts>,
    settings: &LimitSettings,
) -> Limits {
    let of_hooks = settings.confirmed(interruptions, hooks);
    Limits { settings: settings.node.or(of_hooks), ..limits }
}

/// The facts of the open action of an interruption. Actions of the same hook share its description,
/// but each has its own window.
fn facts_of(facts: &InterruptionFacts, hooks: &BTreeMap<LifecycleAction, HookFacts>) -> HookFacts {
    let Some(action) = &facts.hook else { return HookFacts::default() };
    let others = || {
        hooks
            .range(LifecycleAction { key: action.key.clone(), token: None }..)
            .take_while(|(other, _)| other.key == action.key)
    };
    hooks.get(action).cloned().unwrap_or_else(|| HookFacts {
        description: others().find_map(|(_, f)| f.description.clone()),
        ..HookFacts::default()
    })
}

/// The deadline that one interruption sets.
#[derive(Debug, Clone, Copy)]
struct InterruptionDeadline {
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

impl InterruptionDeadline {
    /// `None` if the deadline had passed when the drain was resumed, if it left no time at the
    /// accept, or if the interruption never sets one, as a request that may not force.
    fn of(
        interruption: &InterruptionFacts,
        hooks: &BTreeMap<LifecycleAction, HookFacts>,
        resumed_at: Moment,
        settings: &LimitSettings,
    ) -> Option<Self> {
        let resumed_at = resumed_at.max(interruption.accepted);
        let (deadline, accepted) = if interruption.hook.is_some() {
            hook_deadline(interruption, hooks, resumed_at, settings)?
        } else if interruption.is_over() {
            return None;
        } else {
            let margin = if interruption.kind.is_some_and(Kind::is_spot) {
                settings.spot_margin
            } else {
                settings.margin
            };
            let end = if interruption.is_request() {
                interruption.ends.filter(|_| settings.requests_may_force)
            } else {
                interruption.machine_ends_at()
            };
            let deadline = end
                .filter(|end| interruption.leaves_time(*end))
                .map(|end| Deadline::at(end, interruption.began(), margin))
                .filter(|d| d.force_at > resumed_at)?;
            (deadline, interruption.accepted)
        };
        Some(Self { deadline, accepted })
    }
}

/// The earlier of two deadlines, and when its time began:
///
/// - min(event + global timeout − 60 s, accept + drain timeout). If that had passed at
///   `resumed_at`, the drain timeout counts from then.
/// - The end of a window that is about to lapse.
///
/// A deadline counts only if, less the margin, it was still ahead at `resumed_at`. No pod is
/// forced in the first part of its time (`--force-after`), so a deadline that counts from there
/// forces no pod at once.
fn hook_deadline(
    interruption: &InterruptionFacts,
    hooks: &BTreeMap<LifecycleAction, HookFacts>,
    resumed_at: Moment,
    settings: &LimitSettings,
) -> Option<(Deadline, Moment)> {
    let hook = facts_of(interruption, hooks);
    let description = hook.description.as_ref();
    let own = settings.own_drain_timeout([interruption], hooks);
    let longest = settings.longest_drain(description, own);
    let ahead = |deadline: Moment, start: Moment| {
        Some(Deadline::at(deadline, start, settings.margin)).filter(|d| d.force_at > resumed_at)
    };
    let from = |start: Moment| match description {
        Some(d) => {
            let global = interruption.began().plus(d.global_timeout).minus(GLOBAL_RESERVE);
            global.min(start.plus(longest))
        }
        // Not described: one hour, or the drain timeout if that is less.
        None => start.plus(longest.min(PROVISIONAL)),
    };
    // A window that ends after the latest end of the drain sets no deadline (possible if the global
    // timeout has passed). No window moves that end.
    let last = resumed_at.plus(longest);
    let timeout = description.map_or(settings.margin, |d| d.heartbeat_timeout);
    let window =
        hook.lapse.and_then(|end| ahead(end, end.minus(timeout))).filter(|d| d.force_at < last);
    let window =
        window.map(|d| (Deadline { end_at: d.end_at.min(last), ..d }, interruption.accepted));
    let mut starts = [interruption.accepted, resumed_at].into_iter();
    let drain = starts.find_map(|start| Some((ahead(from(start), start)?, start)));
    let earlier = |a: (Deadline, Moment), b: (Deadline, Moment)| {
        (a.0.earlier(b.0), if b.0.force_at < a.0.force_at { b.1 } else { a.1 })
    };
    window.into_iter().chain(drain).reduce(earlier)
}
