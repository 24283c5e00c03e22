//! What the API server stored of each Node, write by write.

use std::collections::BTreeMap;

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::kube::{Entry, Fact, NodeState},
};

use super::Evidence;

pub const RECORD: &str = "sundown.dev/record";
/// What AWS Health has announced.
pub const PLANNED: &str = "sundown.dev/planned";
/// Annotation: when the Node was last taken on because its instance was sick.
pub const IMPAIRED: &str = "sundown.dev/impaired";
pub const RELEASE: &str = "sundown.dev/release";
pub const FORCE: &str = "sundown.dev/force";
pub const TAINT: &str = "sundown.dev/interruption";
/// The label that takes a node out of load balancers.
pub const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// One write of a Node: what it was before, and what it is from then on.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    pub at: Moment,
    pub by: &'a str,
    /// `None`: it registered with this write.
    pub old: Option<&'a NodeState>,
    /// `None`: it was deleted.
    pub new: Option<&'a NodeState>,
}

impl<'a> Write<'a> {
    /// Its states before and after, where it was there before and after.
    pub fn both(self) -> Option<(&'a NodeState, &'a NodeState)> {
        self.old.zip(self.new)
    }
}

/// Every write of a Node that changed something, in order.
pub fn writes(evidence: &Evidence) -> Vec<Write<'_>> {
    let mut current: BTreeMap<&str, &NodeState> = BTreeMap::new();
    let mut all = Vec::new();
    for Entry { at, by, fact } in &evidence.entries {
        let (old, new) = match fact {
            Fact::NodeChanged(state) => (current.insert(&state.name, state), Some(&**state)),
            Fact::NodeGone(name) => (current.remove(name.as_str()), None),
            _ => continue,
        };
        all.push(Write { at: *at, by, old, new });
    }
    all
}

/// The record on a Node, where it can be read.
pub fn record(node: &NodeState) -> Option<Value> {
    serde_json::from_str(node.annotations.get(RECORD)?).ok()
}

/// The interruptions in the record of a Node that is being drained.
pub fn open_record(node: &NodeState) -> Option<Vec<Value>> {
    let record = record(node).filter(|record| record["released"].is_null())?;
    Some(record["interruptions"].as_array().cloned().unwrap_or_default())
}

/// The value of our taint that keeps pods away.
pub fn taint(node: &NodeState) -> Option<&str> {
    taint_with(node, "NoSchedule")
}

/// The value of our taint, if it has this effect.
pub fn taint_with<'a>(node: &'a NodeState, effect: &str) -> Option<&'a str> {
    let mut ours = node.taints.iter().filter(|(key, _, of)| key == TAINT && of == effect);
    ours.next().map(|(_, value, _)| value.as_str())
}

/// The value of the label that takes it out of load balancers.
pub fn excluded(node: &NodeState) -> Option<&str> {
    node.labels.get(EXCLUDED).map(String::as_str)
}

/// The instance that its providerID names.
pub fn instance(node: &NodeState) -> &str {
    node.provider_id.rsplit('/').next().unwrap_or_default()
}

/// Another Node named the instance of this one at some time between these two.
pub fn is_claimed_twice(writes: &[Write<'_>], node: &str, from: Moment, to: Moment) -> bool {
    // What was so when the time began, and what came in it.
    let mut claims: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for write in writes.iter().filter(|w| w.at <= to) {
        let Some(name) = write.new.or(write.old).map(|state| state.name.as_str()) else { continue };
        let of_it = claims.entry(name).or_default();
        if write.at <= from {
            of_it.clear();
        }
        of_it.extend(write.new.map(instance).filter(|id| !id.is_empty()));
    }
    let own = claims.remove(node).unwrap_or_default();
    claims.values().flatten().any(|id| own.contains(id))
}
