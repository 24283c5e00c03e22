//! What Sundown takes for a sick instance. Each entry that Sundown writes for one is as good as a
//! notice if the instance was truly sick for long enough, and most other nodes were well.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::{
        aws::{Call, CheckChange, Delivery, Outcome, State},
        kube::{Entry, Fact, NodeState},
    },
};

use super::{
    Evidence, Judge, Response, is_us,
    nodes::{record, taint, taint_with},
    sent::{Event, Kind, Notice},
    written::{Written, interruptions},
};

const NAME: &str = "impaired";
const SET_HEALTH: &str = "autoscaling:SetInstanceHealth";
const CHECKS: &str = "ec2:DescribeInstanceStatus";
/// Times in a record are by AWS's clock, which can be measured to half a second, and in whole ones.
/// An index may be this far behind, too.
const INEXACT: Duration = Duration::from_secs(5);

/// The entries for which there was reason, as notices. The others have no cause.
pub fn notices(evidence: &Evidence, sent: &[Notice]) -> Vec<Notice> {
    if evidence.terms.response(NAME) == Response::Ignore {
        return Vec::new();
    }
    let after = evidence.terms.shortest("--impaired-after", Duration::from_secs(600));
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    for Entry { at, by, fact } in &evidence.entries {
        let Fact::Annotated { node, provider_id, annotations } = fact else { continue };
        let text = annotations.get("sundown.dev/record").filter(|_| is_us(by));
        let written = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let instance = provider_id.rsplit('/').next().unwrap_or_default();
        for written in written.iter().flat_map(interruptions).filter(|w| w.kind == NAME) {
            if !known.insert((instance.to_owned(), written.event.clone())) {
                continue;
            }
            let is_reason = |look: Moment| {
                let ward = Ward::at(evidence, look);
                let since = ward.sick_since(node, instance);
                let is_sick = since.is_some_and(|since| since + after <= look + INEXACT);
                is_sick && !ward.most_are_sick()
            };
            if looks(evidence, Some(by.as_str()), *at).into_iter().any(is_reason) {
                let ahead = sent.iter().rev().find(|n| n.sent <= *at);
                let ahead = ahead.map_or(evidence.aws_ahead, |n| n.ahead);
                let deliveries = vec![Delivery { at: *at, by: by.clone() }];
                let event = event(instance, &written);
                all.push(Notice { event, sent: *at, ahead, deliveries, deleted: None });
            }
        }
    }
    all
}

/// The moments whose facts a process may go by: this one, and those at which AWS answered it just
/// before which status checks fail. They may pass until it writes. `by`: the process; `None`: any.
fn looks(evidence: &Evidence, by: Option<&str>, at: Moment) -> Vec<Moment> {
    let is_look = |call: &&Call| {
        call.api == CHECKS
            && call.object.ends_with("status=impaired")
            && call.outcome == Outcome::Ok
            && by.is_none_or(|by| call.by == by)
            && (at - INEXACT..=at).contains(&call.at)
    };
    let answered = evidence.calls.iter().filter(is_look).map(|call| call.at);
    answered.chain([at]).collect()
}

/// A record with these interruptions is there because the instance is sick. Recommendations count
/// for less.
fn is_for_sickness(held: &[Value]) -> bool {
    held.iter().any(|entry| entry["kind"] == NAME)
        && held.iter().all(|entry| entry["kind"] == NAME || entry["kind"] == "rebalance")
}

/// The node was put back because its instance is healthy again, and it was so for nearly 5 min.
pub fn is_well_again(evidence: &Evidence, at: Moment, node: &NodeState, record: &Value) -> bool {
    let held = record["interruptions"].as_array().cloned().unwrap_or_default();
    let was_sick = is_for_sickness(&held);
    let instance = super::nodes::instance(node);
    let seconds = |n| Duration::from_secs(n);
    let was_well = |before: u64| {
        Ward::at(evidence, at - seconds(before)).sick_since(&node.name, instance).is_none()
    };
    was_sick && [0, 60, 120, 180, 240, 290].into_iter().all(was_well)
}

impl Judge<'_> {
    /// Auto Scaling is asked to replace only an instance that is sick, and whose drain is over.
    pub(super) fn handed_over(&mut self) {
        for call in self.evidence.calls.iter().filter(|c| c.api == SET_HEALTH && is_us(&c.by)) {
            let instance = call.object.as_str();
            let Some(node) = self.evidence.nodes.get(instance) else {
                self.broken(call.at, format!("{instance} was set unhealthy, and has no Node"));
                continue;
            };
            let ward = Ward::at(self.evidence, call.at);
            let is_drained = ward.nodes.get(node.as_str()).and_then(|known| record(known.0));
            let is_drained = is_drained.is_some_and(|record| {
                let held = record["interruptions"].as_array().cloned().unwrap_or_default();
                !record["released"].is_null() && is_for_sickness(&held)
            });
            // What AWS answered just before may have changed when the call came in.
            let is_sick = [Duration::ZERO, INEXACT].into_iter().any(|before| {
                Ward::at(self.evidence, call.at - before).sick_since(node, instance).is_some()
            });
            if !is_drained || !is_sick || ward.most_are_sick() {
                self.broken(call.at, format!("{node} was set unhealthy without reason"));
            }
        }
    }

    pub(super) fn is_sick(&self, node: &str, at: Moment) -> bool {
        let instances = self.evidence.nodes.iter().filter(|(_, of)| *of == node);
        let ward = Ward::at(self.evidence, at);
        instances.into_iter().any(|(instance, _)| ward.sick_since(node, instance).is_some())
    }

    /// It is sick, or was so when AWS last answered about status checks, just before.
    pub(super) fn looked_sick(&self, node: &str, at: Moment) -> bool {
        looks(self.evidence, None, at).into_iter().any(|look| self.is_sick(node, look))
    }

    /// Auto Scaling was asked to replace the instance of this Node, and has accepted or denied it.
    pub(super) fn was_handed_over(&self, node: &str, accepted: bool, at: Moment) -> bool {
        let is_it = |call: &&Call| {
            let is_ok = call.outcome == Outcome::Ok;
            let of_node = self.evidence.nodes.get(&call.object).is_some_and(|n| n == node);
            call.api == SET_HEALTH && of_node && is_ok == accepted && call.at <= at + INEXACT
        };
        self.evidence.calls.iter().any(|call| is_it(&call))
    }
}

/// All Nodes and status checks at one moment.
struct Ward<'a> {
    /// By name: the Node as it was, since when it has not been Ready, and whether it ever was.
    nodes: BTreeMap<&'a str, (&'a NodeState, Option<Moment>, bool)>,
    /// The instances whose checks fail, and since when.
    failing: BTreeMap<&'a str, Moment>,
    /// The instances that do not run any more: EC2 shows no checks of theirs.
    ended: BTreeSet<&'a str>,
}

impl<'a> Ward<'a> {
    fn at(evidence: &'a Evidence, at: Moment) -> Self {
        let mut nodes: BTreeMap<&str, (&NodeState, Option<Moment>, bool)> = BTreeMap::new();
        for entry in evidence.entries.iter().take_while(|entry| entry.at <= at) {
            match &entry.fact {
                Fact::NodeChanged(state) => {
                    let known = nodes.get(state.name.as_str()).filter(|k| k.0.uid == state.uid);
                    let (is_ready, was_ready) =
                        (state.ready == "True", known.is_some_and(|known| known.2));
                    let since = known.and_then(|known| known.1).or(Some(entry.at));
                    let since = since.filter(|_| !is_ready);
                    nodes.insert(&state.name, (state, since, was_ready || is_ready));
                }
                Fact::NodeGone(name) => drop(nodes.remove(name.as_str())),
                _ => {}
            }
        }
        let mut failing = BTreeMap::new();
        let changes = evidence.check_changes.iter();
        for CheckChange { at: changed, instance, fails } in changes.filter(|c| c.at <= at) {
            if *fails {
                failing.entry(instance.as_str()).or_insert(*changed);
            } else {
                failing.remove(instance.as_str());
            }
        }
        let mut ended = BTreeSet::new();
        for change in evidence.changes.iter().filter(|change| change.at <= at) {
            if matches!(change.state, State::Pending | State::Running) {
                ended.remove(change.id.as_str());
            } else {
                ended.insert(change.id.as_str());
            }
        }
        Self { nodes, failing, ended }
    }

    fn sick_since(&self, node: &str, instance: &str) -> Option<Moment> {
        let failing = self.failing.get(instance).copied();
        let lost = self.nodes.get(node).filter(|(.., was_ready)| *was_ready);
        failing.into_iter().chain(lost.and_then(|(_, since, _)| *since)).min()
    }

    /// Two nodes or more look sick, and more than 20 % of them. Those that go away for another
    /// reason do not count as sick, nor those whose instance does not run. With `prefer`, such a
    /// node keeps its pods and the taint, and its record is released after some seconds.
    fn most_are_sick(&self) -> bool {
        let is_sick = |(state, since, _): &&(&NodeState, Option<Moment>, bool)| {
            let record = record(state);
            let held = record.as_ref().map(|r| r["interruptions"].clone()).unwrap_or_default();
            // A person may have made up an open record.
            let is_open = record.is_some_and(|record| record["released"].is_null());
            let is_tainted =
                taint(state).or_else(|| taint_with(state, "PreferNoSchedule")).is_some();
            let goes = (is_open || is_tainted)
                && held.as_array().is_some_and(|all| all.iter().any(|i| i["kind"] != NAME));
            let id = super::nodes::instance(state);
            let looks_sick = since.is_some() || self.failing.contains_key(id);
            !goes && looks_sick && !self.ended.contains(id)
        };
        let sick = self.nodes.values().filter(is_sick).count();
        sick >= 2 && sick * 5 > self.nodes.len()
    }
}

fn event(instance: &str, written: &Written) -> Event {
    Event {
        kind: Kind::Impaired,
        id: written.event.clone(),
        time: Some(written.time),
        instance: instance.to_owned(),
        block: None,
        change: None,
        state: None,
        ends: None,
        hook: None,
        token: None,
        is_test: false,
        is_real_test: false,
        settings: BTreeMap::new(),
    }
}
