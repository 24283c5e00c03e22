//! Which drains may begin to evict, if only some nodes may be drained at once.
//!
//! A drain that has no time to wait ([`Cause::Presses`]) is never held back, and does not count:
//! spot and capacity notices, ending states, a deadline of 5 minutes or less, and a node that
//! cluster-autoscaler is draining already. The others wait while a limit is reached, but not longer
//! than [`crate::lifecycle::can_wait_until`] says. The first row that applies decides about one of
//! them:
//!
//! | what is known | verdict |
//! | --- | --- |
//! | it has begun | it goes on |
//! | its evictions wait for something else, too (a gate, `--evict-after`, AWS, a pause) | held: [`PaceHold::Undecided`] |
//! | it can wait no longer | it begins, even if that exceeds a limit |
//! | it is of the control plane, and another node of the control plane is drained | held: [`PaceHold::ControlPlane`] |
//! | `--max-drains-per-group` is set, and its group is not known yet | held: [`PaceHold::GroupUnknown`] |
//! | as many nodes of its group are drained as `--max-drains-per-group` allows | held: [`PaceHold::Group`] |
//! | as many nodes are drained as `--max-voluntary` allows | held: [`PaceHold::InAll`] |
//! | one of the four rows above would apply if the drains that the last leader may have begun counted, too | held: [`PaceHold::Undecided`] |
//! | anything else | it begins |
//!
//! The drains are taken in the order of their accepts, then of the names of their nodes. A new
//! leader does not know which drains the last one had begun. It takes those with terminating pods
//! first. It takes a drain for one that may have begun ([`Stage::MayHaveBegun`]) until it has
//! listed the pods of the node and nothing else holds the evictions, for 30 s at most. So a change
//! of leader lets no more nodes be drained at once than the limits allow, and the drains that had
//! begun go on. A drain that something else stops counts until its evictions have ended.

use std::collections::BTreeMap;

use crate::domain::{GroupName, Moment, NodeName, PaceHold};

/// The limits, in nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Limits {
    /// `--max-drains-per-group`. `None`: no limit.
    pub(super) per_group: Option<usize>,
    /// `--max-voluntary`, of the nodes that Sundown manages now. `None`: no limit.
    pub(super) in_all: Option<usize>,
}

/// What is known of one drain that goes on.
#[derive(Debug, Clone)]
pub(super) struct PacedDrain<'a> {
    pub(super) node: &'a NodeName,
    pub(super) group: Group<'a>,
    pub(super) is_control_plane: bool,
    pub(super) cause: Cause,
    pub(super) stage: Stage,
    /// The first accept.
    pub(super) accepted: Moment,
    /// A pod that counts is terminating, in a drain that was taken over.
    pub(super) is_terminating: bool,
}

/// The Auto Scaling group of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group<'a> {
    /// EC2 has not shown it yet.
    Unknown,
    /// The instance is in no group, or EC2 does not show it.
    None,
    /// This one.
    Named(&'a GroupName),
}

/// Whether the cause of a drain leaves it time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// It leaves no time to wait.
    Presses,
    /// It can wait until then.
    CanWait(Moment),
}

/// How far a drain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It evicts pods, or has done so.
    Begun,
    /// The last leader may have begun it: this one does not know its pods yet.
    MayHaveBegun,
    /// Only other drains can hold its evictions.
    Ready,
    /// Its evictions wait for something else.
    NotReady,
    /// Its evictions wait for something else, too, but the last leader has begun it: its pods are
    /// still terminating.
    Stopped,
}

/// Whether a drain may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Begins,
    Held(PaceHold),
}

/// The nodes that are drained at this moment.
#[derive(Clone, Default)]
struct Drained<'a> {
    in_all: usize,
    of_group: BTreeMap<&'a GroupName, usize>,
    /// Nodes that may be of any group.
    of_any_group: usize,
    control_plane: usize,
}

impl<'a> Drained<'a> {
    fn count(&mut self, drain: &PacedDrain<'a>) {
        self.in_all += 1;
        if let Group::Named(group) = drain.group {
            *self.of_group.entry(group).or_default() += 1;
        }
        self.control_plane += usize::from(drain.is_control_plane);
    }

    /// Why this drain does not begin now; `None`: it begins.
    fn hold(&self, limits: Limits, drain: &PacedDrain<'a>) -> Option<PaceHold> {
        if drain.is_control_plane && self.control_plane > 0 {
            return Some(PaceHold::ControlPlane);
        }
        if let Some(most) = limits.per_group {
            match drain.group {
                Group::Unknown => return Some(PaceHold::GroupUnknown),
                Group::Named(group) => {
                    let of_group = self.of_group.get(group).copied().unwrap_or_default();
                    if of_group + self.of_any_group >= most {
                        return Some(PaceHold::Group);
                    }
                }
                Group::None => {}
            }
        }
        limits.in_all.is_some_and(|most| self.in_all >= most).then_some(PaceHold::InAll)
    }
}

/// Decides about each drain that has not begun. `drains`: all that are not over.
pub(super) fn verdicts(
    limits: Limits,
    drains: &[PacedDrain<'_>],
    now: Moment,
) -> BTreeMap<NodeName, Verdict> {
    let mut verdicts = BTreeMap::new();
    let mut drained = Drained::default();
    let mut may_have_begun = Vec::new();
    let mut waiting = Vec::new();
    for drain in drains {
        match (drain.cause, drain.stage) {
            (Cause::Presses, Stage::Begun) => {}
            (Cause::Presses, _) => drop(verdicts.insert(drain.node.clone(), Verdict::Begins)),
            (Cause::CanWait(_), Stage::Begun) => drained.count(drain),
            (Cause::CanWait(_), Stage::NotReady) => {
                verdicts.insert(drain.node.clone(), Verdict::Held(PaceHold::Undecided));
            }
            (Cause::CanWait(_), Stage::Stopped) => {
                drained.count(drain);
                verdicts.insert(drain.node.clone(), Verdict::Held(PaceHold::Undecided));
            }
            (Cause::CanWait(until), _) if until <= now => {
                drained.count(drain);
                verdicts.insert(drain.node.clone(), Verdict::Begins);
            }
            (Cause::CanWait(_), Stage::MayHaveBegun) => {
                may_have_begun.push(drain);
                verdicts.insert(drain.node.clone(), Verdict::Held(PaceHold::Undecided));
            }
            (Cause::CanWait(_), Stage::Ready) => waiting.push(drain),
        }
    }
    waiting.sort_by_key(|drain| (!drain.is_terminating, drain.accepted, drain.node));
    // Those that are known to be drained, and these together with those that may be.
    let mut at_most = drained.clone();
    for drain in may_have_begun {
        at_most.count(drain);
        at_most.of_any_group += usize::from(drain.group == Group::Unknown);
    }
    for drain in waiting {
        let known = drained.hold(limits, drain);
        let held = at_most.hold(limits, drain).map(|_| known.unwrap_or(PaceHold::Undecided));
        let verdict = held.map_or(Verdict::Begins, Verdict::Held);
        if verdict == Verdict::Begins {
            drained.count(drain);
            at_most.count(drain);
        }
        verdicts.insert(drain.node.clone(), verdict);
    }
    verdicts
}
