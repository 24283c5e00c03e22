//! Lets drains wait for other drains (`--max-drains-per-group`, `--max-voluntary`, and one
//! control-plane node at a time). [`super::pace`] has the rules.

use std::{collections::BTreeSet, time::Duration};

use super::{
    DrainEvent, Effect, Fleet, Question, node_events,
    node_state::NodeState,
    pace::{self, Cause, Group, PacedDrain, Stage, Verdict},
};
use crate::{
    domain::{
        EvictionStart, GroupName, HeldBy, InterruptionFacts, Limits, Moment, Node, NodeName,
        PaceHold, PaceLimits, seconds,
    },
    drain::Drain,
    lifecycle,
    record::Record,
};

/// For how long a new leader takes a drain for one that may have begun, while it has not listed the
/// pods, or something else holds the evictions, too.
const TAKE_OVER: Duration = seconds(30);

/// If the end of a hold moves by no more than this, it is not reported again.
const SAME_END: Duration = seconds(60);

/// EC2 mostly answers within this time, so a drain that waits for its answer is not reported before.
const ANSWERS_WITHIN: Duration = seconds(5);

/// The drains that wait for others.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    waiting: BTreeSet<NodeName>,
    /// Something has changed on which the verdicts depend.
    is_due: bool,
}

impl Pacing {
    /// Whether the next tick is to decide about the drains that wait.
    pub(super) fn is_due(&self) -> bool {
        self.is_due && !self.waiting.is_empty()
    }

    /// Notes that something has changed on which the verdicts depend.
    pub(super) const fn changed(&mut self) {
        self.is_due = true;
    }

    pub(super) fn forget(&mut self, name: &NodeName) {
        self.waiting.remove(name);
        self.is_due = true;
    }
}

/// Whether one drain may begin.
#[derive(Debug)]
pub(super) struct PaceState {
    /// Why it has not begun. `None`: it has begun, and other drains hold it no longer.
    hold: Option<PaceHold>,
    /// The hold that was reported last; `None`: none was, or its end was reported, too.
    reported: Option<Reported>,
    group: KnownGroup,
    /// When this leader took the drain over; `None`: it accepted it itself.
    taken_over_at: Option<Moment>,
    seen: SeenNode,
}

/// A hold that was reported.
#[derive(Debug, Clone, Copy)]
struct Reported {
    why: PaceHold,
    /// Until when it lasts at most, as reported.
    until: Moment,
    at: Moment,
}

impl Reported {
    /// It shows this reason, and this end of the hold but for a minute.
    fn shows(self, why: PaceHold, until: Moment) -> bool {
        let difference = self.until.since_or_zero(until).max(until.since_or_zero(self.until));
        self.why == why && difference <= SAME_END
    }
}

/// What is known of the group of an instance whose record names none.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KnownGroup {
    NotAsked,
    /// [`Question::Group`] was asked then.
    Asked(Moment),
    /// The answer; `None`: it is in no group.
    Found(Option<GroupName>),
}

/// What a Node shows on which its verdict depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenNode {
    is_control_plane: bool,
    is_drained_by_autoscaler: bool,
}

impl SeenNode {
    fn of(node: &Node) -> Self {
        Self {
            is_control_plane: node.is_control_plane(),
            is_drained_by_autoscaler: node.is_drained_by_autoscaler(),
        }
    }
}

impl PaceState {
    pub(super) fn new(node: &Node, began_here: bool, now: Moment) -> Self {
        Self {
            hold: Some(PaceHold::Undecided),
            reported: None,
            group: KnownGroup::NotAsked,
            taken_over_at: Some(now).filter(|_| !began_here),
            seen: SeenNode::of(node),
        }
    }

    /// The hold that is to be reported again.
    pub(super) fn to_repeat(&self, now: Moment) -> Option<PaceHold> {
        let reported = self.reported?;
        let is_due = now >= reported.at.plus(node_events::INTERVAL_UNCHANGED);
        self.hold.filter(|hold| *hold == reported.why && is_due)
    }

    /// Notes that this hold is reported, and returns its Event.
    pub(super) const fn report(&mut self, why: PaceHold, until: Moment, now: Moment) -> DrainEvent {
        self.reported = Some(Reported { why, until, at: now });
        DrainEvent::PaceHolds { why, until }
    }

    fn was_just_asked(&self, now: Moment) -> bool {
        matches!(self.group, KnownGroup::Asked(at) if now < at.plus(ANSWERS_WITHIN))
    }

    /// Returns `limits` with `held_until` and `held_by` set, if other drains may hold the evictions
    /// and no gate does. `holding`: the interruptions that are not disproved.
    pub(super) fn apply(
        &self,
        limits: Limits,
        (node, record): (&Node, &Record),
        holding: &[InterruptionFacts],
        flags: PaceLimits,
        now: Moment,
    ) -> Limits {
        let Some(hold) = self.hold.filter(|_| limits.held_until.is_none()) else { return limits };
        let is_paced = flags.are_set() || node.is_control_plane();
        match cause(node, record, &limits, holding) {
            Cause::CanWait(until) if is_paced && until > now && limits.forced_at.is_none() => {
                Limits { held_until: Some(until), held_by: HeldBy::Pace(hold), ..limits }
            }
            Cause::CanWait(_) | Cause::Presses => limits,
        }
    }
}

/// Until when the cause of a drain can wait.
fn cause(
    node: &Node,
    record: &Record,
    limits: &Limits,
    interruptions: &[InterruptionFacts],
) -> Cause {
    if node.is_drained_by_autoscaler() || record.has_unknown() {
        return Cause::Presses;
    }
    lifecycle::can_wait_until(limits, interruptions).map_or(Cause::Presses, Cause::CanWait)
}

/// Whether nothing but other drains delays the evictions.
fn is_ready(state: &NodeState) -> bool {
    let limits = &state.limits;
    !state.paused_by.is_paused()
        && limits.verification.may_evict()
        && limits.eviction_start == EvictionStart::Now
        && (limits.held_until.is_none() || limits.held_by != HeldBy::Gates)
}

impl NodeState {
    /// The group that its record names, or that EC2 has shown.
    fn group(&self) -> Group<'_> {
        let named = self.interruptions.iter().find_map(|facts| facts.hook.as_ref());
        match (named, &self.pace.group) {
            (Some(action), _) => Group::Named(&action.key.group),
            (None, KnownGroup::Found(Some(group))) => Group::Named(group),
            (None, KnownGroup::Found(None)) => Group::None,
            (None, KnownGroup::NotAsked | KnownGroup::Asked(_)) => Group::Unknown,
        }
    }

    fn paced<'a>(&'a self, name: &'a NodeName, drain: &Drain, now: Moment) -> PacedDrain<'a> {
        let is_ready = is_ready(self);
        let is_known = is_ready && drain.has_listed_pods();
        let is_fresh =
            self.pace.taken_over_at.is_some_and(|at| !is_known && now < at.plus(TAKE_OVER));
        let was_taken_over = self.pace.hold.is_some() && self.pace.taken_over_at.is_some();
        let stage = match self.pace.hold {
            None => Stage::Begun,
            Some(_) if is_fresh => Stage::MayHaveBegun,
            Some(_) if !is_ready && was_taken_over && drain.disrupts_pods() => Stage::Stopped,
            Some(_) if !is_ready => Stage::NotReady,
            Some(_) => Stage::Ready,
        };
        let accepted = self.interruptions.iter().map(|facts| facts.accepted).min();
        PacedDrain {
            node: name,
            group: self.group(),
            is_control_plane: self.node.is_control_plane(),
            cause: cause(&self.node, &self.record, &self.limits, &self.holding()),
            stage,
            accepted: accepted.unwrap_or(self.limits.accepted),
            is_terminating: was_taken_over && drain.status(now).counts.leaving > 0,
        }
    }
}

impl Fleet {
    /// Called after the limits of a drain have changed. Notes whether other drains hold it, and that
    /// it has begun once nothing holds its evictions.
    pub(super) fn follow_pace(&mut self, name: &NodeName) {
        self.pacing.changed();
        let per_group = self.settings.pace.per_group.is_some();
        let Some(state) = self.drains.get_mut(name).filter(|state| state.is_draining()) else {
            return self.pacing.forget(name);
        };
        let limits = &state.limits;
        if limits.held_until.is_some() && limits.held_by != HeldBy::Gates {
            self.pacing.waiting.insert(name.clone());
            if per_group
                && state.group() == Group::Unknown
                && state.pace.group == KnownGroup::NotAsked
            {
                state.pace.group = KnownGroup::Asked(self.now);
                self.out.push(Effect::Ask(Question::Group {
                    node: name.clone(),
                    uid: state.node.uid.clone(),
                    instance: state.instance.clone(),
                }));
            }
            return;
        }
        self.pacing.waiting.remove(name);
        let may_evict = limits.response.evicts() && !limits.evictions_wait();
        if may_evict && is_ready(state) && state.pace.hold.take().is_some() {
            let reported = state.pace.reported.take();
            if reported.is_some() {
                self.out.report(name, DrainEvent::PaceEnded { is_its_turn: false });
            }
        }
    }

    /// Acts on a changed Node, if the change may affect the verdict about its drain.
    pub(super) fn follow_paced_node(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        let seen = SeenNode::of(&state.node);
        if std::mem::replace(&mut state.pace.seen, seen) != seen {
            self.pacing.changed();
            self.refresh_limits(name);
        }
    }

    /// EC2 has shown the group of this node.
    pub(super) fn group_found(&mut self, name: &NodeName, uid: &str, group: Option<GroupName>) {
        if let Some(state) = self.drains.get_mut(name).filter(|state| state.node.uid == uid) {
            state.pace.group = KnownGroup::Found(group);
            self.pacing.changed();
        }
    }

    /// Lets the drains begin whose turn it is.
    pub(super) fn decide_pace(&mut self) {
        if !self.pacing.is_due() {
            return;
        }
        self.pacing.is_due = false;
        self.give_up_places();
        let now = self.now;
        let flags = self.settings.pace;
        let limits = pace::Limits {
            per_group: flags.per_group,
            in_all: flags.in_all.map(|share| share.of(self.managed_nodes())),
        };
        let draining = self.drains.iter().filter_map(|(name, state)| {
            let drain = state.drain().filter(|_| state.limits.response.evicts())?;
            // An empty node may stay for long: of a recommendation, or until its volumes are
            // detached.
            let is_done = state.pace.hold.is_none() && drain.looks_empty();
            if is_done {
                return None;
            }
            Some(state.paced(name, drain, now))
        });
        let paced: Vec<PacedDrain<'_>> = draining.collect();
        let mut verdicts = pace::verdicts(limits, &paced, now);
        verdicts.retain(|name, _| self.pacing.waiting.contains(name));
        for (name, verdict) in verdicts {
            self.apply_verdict(&name, verdict);
        }
    }

    /// A drain that something else stops after it has begun takes no place once it disrupts no pod
    /// any longer. It waits for its turn again, as under a new leader.
    fn give_up_places(&mut self) {
        let is_quiet = |drain: &Drain| drain.has_listed_pods() && !drain.disrupts_pods();
        let is_stopped = |state: &NodeState| {
            state.pace.hold.is_none() && !is_ready(state) && state.drain().is_some_and(is_quiet)
        };
        let stopped = self.drains.iter().filter(|(_, state)| is_stopped(state));
        let names: Vec<NodeName> = stopped.map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(state) = self.drains.get_mut(&name) {
                state.pace.hold = Some(PaceHold::Undecided);
            }
            self.refresh_limits(&name);
        }
    }

    fn apply_verdict(&mut self, name: &NodeName, verdict: Verdict) {
        let Some(state) = self.drains.get_mut(name) else { return };
        let hold = match verdict {
            Verdict::Begins => None,
            Verdict::Held(hold) => Some(hold),
        };
        let has_changed = std::mem::replace(&mut state.pace.hold, hold) != hold;
        let until = state.limits.held_until;
        let event = match (hold, until) {
            (None, _) => {
                state.pace.reported.take().map(|_| DrainEvent::PaceEnded { is_its_turn: true })
            }
            (Some(PaceHold::Undecided), _) | (_, None) => None,
            (Some(PaceHold::GroupUnknown), _) if state.pace.was_just_asked(self.now) => None,
            (Some(why), Some(until))
                if state.pace.reported.is_some_and(|r| r.shows(why, until)) =>
            {
                None
            }
            (Some(why), Some(until)) => Some(state.pace.report(why, until, self.now)),
        };
        if let Some(event) = event {
            self.out.report(name, event);
        }
        if has_changed {
            self.refresh_limits(name);
        }
    }

    /// How many drains are held back: those that nothing but other drains holds.
    pub(super) fn held_back(&self) -> usize {
        let waiting = self.pacing.waiting.iter().filter_map(|name| self.drains.get(name));
        let holds = waiting.filter_map(|state| state.pace.hold);
        holds.filter(|hold| *hold != PaceHold::Undecided).count()
    }

    /// How many nodes Sundown manages. This looks at all nodes: call it only if a flag needs it.
    fn managed_nodes(&self) -> usize {
        let all = self.lookup.facts.all_nodes();
        all.iter().filter(|node| self.lookup.manages(node)).count()
    }
}
