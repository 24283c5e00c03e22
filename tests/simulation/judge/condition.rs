//! The condition `MaintenancePlanned` of a Node: with `--maintenance-condition` it is true from the
//! moment at which an announced change is noted on the Node until the change begins.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::kube::{ConditionState, NodeState},
};

use super::{
    Judge, Response,
    excuses::{SEE_NODES, Scope, WRITE_CONDITIONS, WRITE_NODES},
    is_us,
    nodes::{PLANNED, Write, instance},
    sent::Change,
};

const FLAG: &str = "--maintenance-condition";
/// From the note of a change to the condition, where nothing stood in the way then.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The same where something did: Sundown tries again after a minute.
const WELL_AGAIN: Duration = Duration::from_secs(70);
/// How long a PATCH may be on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(1);
/// How exactly AWS's clock can be measured.
const INEXACT: Duration = Duration::from_secs(2);

/// What the condition must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    True,
    /// `False`, or no condition at all.
    NotTrue,
    Either,
}

impl Judge<'_> {
    pub(super) fn condition(&mut self) {
        let mut broken = self.untrue_conditions();
        broken.extend(self.untrue_drain_conditions());
        if self.evidence.terms.is_set(FLAG) {
            broken.extend(self.late_conditions());
        }
        for (at, what) in broken {
            self.broken(at, what);
        }
    }

    /// What Sundown wrote into the condition was not true then.
    fn untrue_conditions(&self) -> Vec<(Moment, String)> {
        let mut all = Vec::new();
        for write in self.writes.iter().filter(|write| is_us(write.by)) {
            let Some((old, new)) = write.both() else { continue };
            let wrong = if old.ready != new.ready {
                Some("its condition Ready was changed")
            } else if old.maintenance == new.maintenance {
                None
            } else if !self.evidence.terms.is_set(FLAG) {
                Some("MaintenancePlanned was set without --maintenance-condition")
            } else if old.maintenance.as_ref().is_some_and(|c| is_true(c) && !is_ours(c)) {
                Some("MaintenancePlanned of another writer was changed")
            } else if new.maintenance.as_ref().is_some_and(is_true) {
                (!self.is_announced(new, write.at))
                    .then_some("MaintenancePlanned shows a change that AWS has not announced")
            } else {
                self.was_always_due(new, write.at, Due::True)
                    .then_some("MaintenancePlanned is not true although a change is announced")
            };
            all.extend(wrong.map(|wrong| (write.at, format!("{}: {wrong}", new.name))));
        }
        all
    }

    /// The condition shows a change of its instance that AWS had announced, and that had not begun.
    fn is_announced(&self, node: &NodeState, at: Moment) -> bool {
        let Some(condition) = &node.maintenance else { return false };
        let names = |id: &str| !id.is_empty() && condition.message.contains(id);
        let mut announced = self.story.notices.iter().filter(|n| {
            n.event.instance == instance(node)
                && n.sent <= at
                && n.event.change.as_ref().is_some_and(|c| c.takes_instance() && names(&c.arn))
        });
        let mut in_ec2 =
            self.evidence.scheduled.iter().filter(|(since, of, event)| {
                of == instance(node) && *since <= at && names(&event.id)
            });
        let is_ahead = !self.was_always_due(node, at, Due::NotTrue);
        is_ahead && (announced.next().is_some() || in_ec2.next().is_some())
    }

    /// By each state that the Node had just before, the condition had to be so: the note of a change
    /// may overtake a condition that is on its way.
    fn was_always_due(&self, node: &NodeState, at: Moment, due: Due) -> bool {
        let just_before = |write: &&Write<'_>| write.at <= at && at <= write.at + ON_ITS_WAY;
        let of_it = |state: &&NodeState| state.name == node.name;
        let writes = self.writes.iter().filter(just_before);
        let states = writes.flat_map(|write| write.old.into_iter().chain(write.new));
        let mut states = states.filter(of_it).chain([node]);
        states.all(|state| self.condition_due(state, at) == due)
    }

    /// The condition was not what it must be, for too long.
    fn late_conditions(&self) -> Vec<(Moment, String)> {
        let mut of_nodes: BTreeMap<&str, Vec<Write<'_>>> = BTreeMap::new();
        for write in &self.writes {
            let Some(node) = write.new.or(write.old) else { continue };
            of_nodes.entry(&node.name).or_default().push(*write);
        }
        of_nodes.values().flat_map(|writes| self.late_on(writes)).collect()
    }

    fn late_on(&self, writes: &[Write<'_>]) -> Vec<(Moment, String)> {
        let mut all = Vec::new();
        let mut wrong_since: Option<Moment> = None;
        let mut looks: BTreeSet<Moment> = writes.iter().map(|write| write.at).collect();
        let states = writes.iter().filter_map(|write| write.new);
        looks.extend(states.flat_map(|node| self.starts_of(node)).flatten());
        looks.insert(self.evidence.ended);
        for at in looks.range(..=self.evidence.ended) {
            let last = writes.iter().rev().find(|write| write.at <= *at);
            let node = last.and_then(|write| write.new);
            let is_wrong = node.is_some_and(|node| self.is_wrong(node, *at));
            let is_over = !is_wrong || *at == self.evidence.ended;
            if let Some(since) = wrong_since.filter(|_| is_over) {
                wrong_since = None;
                let mut before = writes.iter().rev().filter(|write| write.at <= since);
                let state = before.find_map(|write| write.new);
                if let Some(node) = state.filter(|node| self.is_late(node, since, *at)) {
                    let text = "MaintenancePlanned was not right";
                    let shown = node.maintenance.as_ref().map(|c| &c.status);
                    all.push((since, format!("{}: {text}: {shown:?} until {at}", node.name)));
                }
            } else if is_wrong && wrong_since.is_none() {
                wrong_since = Some(*at);
            }
        }
        all
    }

    fn is_wrong(&self, node: &NodeState, at: Moment) -> bool {
        let shown = node.maintenance.as_ref();
        // Sundown leaves the `True` of another writer alone.
        let is_of_others = shown.is_some_and(|c| is_true(c) && !is_ours(c));
        let is_ignored = node.annotations.contains_key("sundown.dev/ignore");
        !is_of_others
            && !is_ignored
            && match self.condition_due(node, at) {
                Due::Either => false,
                Due::True => !shown.is_some_and(is_true),
                Due::NotTrue => shown.is_some_and(is_true),
            }
    }

    fn is_late(&self, node: &NodeState, from: Moment, to: Moment) -> bool {
        // Another write of the Node that is not answered holds this one up.
        let needs: &[super::excuses::Needs] = &[SEE_NODES, WRITE_NODES, WRITE_CONDITIONS];
        let scope = Scope::of_leader(needs).about(instance(node), &node.name);
        let was_excused = || self.is_excused(scope, from, from + AT_ONCE);
        to > from + AT_ONCE && (!was_excused() || self.longest_clear(scope, from, to) > WELL_AGAIN)
    }

    /// What the condition of the Node must be at this time, by what is noted on it.
    fn condition_due(&self, node: &NodeState, at: Moment) -> Due {
        if self.evidence.terms.response("scheduled-change") == Response::Ignore {
            return Due::NotTrue;
        }
        let mut due = Due::NotTrue;
        for [earliest, latest] in self.starts_of(node) {
            if at + INEXACT < earliest {
                return Due::True;
            }
            if at < latest + INEXACT {
                due = Due::Either;
            }
        }
        due
    }

    /// When the changes that are noted on the Node begin, at the earliest and at the latest: a
    /// process that AWS has not answered yet knows only its own clock.
    fn starts_of(&self, node: &NodeState) -> Vec<[Moment; 2]> {
        let planned = node.annotations.get(PLANNED);
        let planned = planned.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let planned = planned.filter(|planned| planned["instance"] == instance(node));
        let ahead = self.evidence.aws_ahead;
        let changes = planned.as_ref().and_then(|planned| planned["changes"].as_array());
        let is_open = |change: &&Value| {
            let code = change["code"].as_str().unwrap_or_default();
            change["closed"] != true && Change::takes(code)
        };
        let begins = |change: &Value| {
            let starts = change["starts"].as_str().and_then(|text| text.parse::<Moment>().ok());
            let Some(starts) = starts else { return [Moment::MAX; 2] };
            let ours = starts - ahead;
            [ours.min(starts), ours.max(starts)]
        };
        changes.into_iter().flatten().filter(is_open).map(begins).collect()
    }
}

fn is_true(condition: &ConditionState) -> bool {
    condition.status == "True"
}

/// The message of Sundown's condition names its annotation.
fn is_ours(condition: &ConditionState) -> bool {
    condition.message.contains(PLANNED)
}
