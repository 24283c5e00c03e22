//! When the evictions of a drain begin, if `--evict-after` lets them wait.
//!
//! The first row that applies decides ([`eviction_start`]):
//!
//! | what is known | the evictions begin |
//! | --- | --- |
//! | an interruption of the record has no `--evict-after`, or is urgent | now |
//! | the drain has less than 5 minutes | now |
//! | half of the drain's time has passed; without a deadline, half an hour | now |
//! | for one of the interruptions, the delay has passed, or a replacement is ready | now |
//! | anything else | at the first of these moments |
//!
//! The node is cordoned meanwhile, and its lifecycle actions get heartbeats.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::domain::{
    EvictAfter, EvictAfterByKind, EvictionStart, GroupCapacity, InstanceId, InterruptionFacts,
    Limits, Moment, Node, Ready, Taint, Transition, seconds,
};

/// A drain with less time than this evicts at once.
const MIN_TIME_TO_WAIT: Duration = seconds(300);
/// How long evictions wait at most in a drain without a deadline.
const MAX_WAIT_WITHOUT_DEADLINE: Duration = seconds(1800);

/// When the evictions of a drain begin. `limits`: its deadline. `is_replaced`: the group has a node
/// that can take over the pods ([`is_replaced`]).
#[must_use]
pub fn eviction_start(
    limits: &Limits,
    interruptions: &[InterruptionFacts],
    by_kind: &EvictAfterByKind,
    is_replaced: bool,
    now: Moment,
) -> EvictionStart {
    if limits.urgent {
        return EvictionStart::Now;
    }
    let accepted = interruptions.iter().map(|facts| facts.accepted).min();
    let Some(latest) = latest_start(limits, accepted.unwrap_or(limits.accepted)) else {
        return EvictionStart::Now;
    };
    let mut start = None;
    for facts in interruptions.iter().filter(|facts| facts.response.evicts()) {
        let next = match by_kind.of(facts.kind) {
            EvictAfter::Accept => return EvictionStart::Now,
            EvictAfter::ReplacementReady if is_replaced => return EvictionStart::Now,
            EvictAfter::ReplacementReady => EvictionStart::ReplacementReady(latest),
            EvictAfter::Delay(delay) => EvictionStart::At(facts.accepted.plus(delay).min(latest)),
        };
        start = Some(start.map_or(next, |start| first(start, next)));
    }
    match start {
        Some(start) if start.at_latest().is_some_and(|at| at > now) => start,
        _ => EvictionStart::Now,
    }
}

/// The earlier of two starts. If one of them waits for a replacement, so does the result.
fn first(a: EvictionStart, b: EvictionStart) -> EvictionStart {
    use EvictionStart::{At, Now, ReplacementReady};
    match (a, b) {
        (Now, _) | (_, Now) => Now,
        (At(a), At(b)) => At(a.min(b)),
        (At(a) | ReplacementReady(a), At(b) | ReplacementReady(b)) => ReplacementReady(a.min(b)),
    }
}

/// When the evictions begin at the latest. `None`: at once. `accepted`: the first accept, not
/// [`Limits::accepted`], because that may be the time of a take-over, and a take-over must not
/// start the wait anew.
fn latest_start(limits: &Limits, accepted: Moment) -> Option<Moment> {
    let end = limits.force_at.or(limits.expires_at).or(limits.end_at);
    let Some(end) = end else { return Some(accepted.plus(MAX_WAIT_WITHOUT_DEADLINE)) };
    let time = end.since_or_zero(accepted);
    (time >= MIN_TIME_TO_WAIT).then(|| accepted.plus(time / 2))
}

/// Whether the group of a drained node has other nodes for its pods. If several nodes of the group
/// drain at the same time, they take their replacements in the order of their instance IDs. One of
/// these must be true:
///
/// - The nodes that take pods, the draining nodes that come later in this order, and the nodes that
///   a person has cordoned are together at least the desired capacity. Either the replacement is
///   there, or the group has become smaller and none will come.
/// - The drained instance is still `InService`, as after a recommendation, or the group counts
///   vCPUs or memory, so that its capacity cannot be compared with the desired one. Of the nodes
///   that take pods, those created since the accept (`since`) are more than the draining nodes that
///   come earlier in this order.
///
/// `members`: the `LifecycleState` of each instance of the group, by ID. `nodes`: their Nodes.
#[must_use]
pub fn is_replaced(
    drained: &InstanceId,
    since: Moment,
    capacity: &GroupCapacity,
    members: &BTreeMap<String, String>,
    nodes: &[Arc<Node>],
) -> bool {
    let node_of = |id: &str| {
        nodes.iter().find(|node| node.instance.as_ref().is_some_and(|i| i.as_str() == id))
    };
    let drained_taints: &[Taint] = node_of(drained.as_str()).map_or(&[], |node| &node.taints);
    let (mut new, mut before) = (0_usize, 0_usize);
    // The instances that are, or leave later than this one, what the group wants.
    let mut counted = Vec::new();
    for (id, state) in members.iter().filter(|(id, _)| *id != drained.as_str()) {
        let node = node_of(id);
        let is_in_service = state == "InService";
        let is_tainted = is_in_service && node.is_some_and(|node| node.has_our_taint());
        if is_tainted || goes(state) {
            if id.as_str() < drained.as_str() {
                before += 1;
            } else {
                counted.push(id.as_str());
            }
        } else if is_in_service && node.is_some_and(|node| node.unschedulable) {
            // Its group counts it, and nothing replaces it.
            counted.push(id.as_str());
        } else if (is_in_service || Transition::Launching.holds(state))
            && let Some(node) = node.filter(|node| takes_pods(node, drained_taints))
        {
            counted.push(id.as_str());
            // The API server writes whole seconds.
            new += usize::from(node.created.is_some_and(|at| at.plus(seconds(1)) > since));
        }
    }
    let is_in_service = members.get(drained.as_str()).is_some_and(|state| state == "InService");
    match capacity.is_reached_by(counted) {
        Some(true) => true,
        Some(false) => is_in_service && new > before,
        None => new > before,
    }
}

/// An instance in this lifecycle state is about to leave the group.
fn goes(state: &str) -> bool {
    ["Terminating", "ReplacingRootVolume"].iter().any(|going| state.starts_with(going))
}

/// The Node is Ready and takes pods. A taint that the drained node does not have is a startup taint.
fn takes_pods(node: &Node, drained_taints: &[Taint]) -> bool {
    let is_on_drained = |taint: &Taint| drained_taints.iter().any(|known| known.key == taint.key);
    let keeps_pods_away =
        |taint: &Taint| taint.effect != "PreferNoSchedule" && !is_on_drained(taint);
    let may_take = node.ready == Ready::True && !node.unschedulable && !node.has_our_taint();
    may_take && !node.taints.iter().any(keeps_pods_away)
}
