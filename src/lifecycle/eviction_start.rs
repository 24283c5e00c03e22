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
    EvictAfter, EvictAfterByKind, EvictionStart, InstanceId, InterruptionFacts, Limits, Moment,
    Node, Ready, Taint, Transition, seconds,
};

/// A drain with less time than this evicts at once.
const SHORT: Duration = seconds(300);
/// How long evictions wait at most in a drain without a deadline.
const WITHOUT_DEADLINE: Duration = seconds(1800);

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
    let Some(bound) = bound(limits, accepted.unwrap_or(limits.accepted)) else {
        return EvictionStart::Now;
    };
    let mut start = None;
    for facts in interruptions.iter().filter(|facts| facts.response.evicts()) {
        let next = match by_kind.of(facts.kind) {
            EvictAfter::Accept => return EvictionStart::Now,
            EvictAfter::ReplacementReady if is_replaced => return EvictionStart::Now,
            EvictAfter::ReplacementReady => EvictionStart::ReplacementReady(bound),
            EvictAfter::Delay(delay) => EvictionStart::At(facts.accepted.plus(delay).min(bound)),
        };
        start = Some(start.map_or(next, |start| first(start, next)));
    }
    match start {
        Some(start) if start.at_latest().is_some_and(|at| at > now) => start,
        _ => EvictionStart::Now,
    }
}

/// The first of two starts; a replacement that one of them waits for counts for both.
fn first(a: EvictionStart, b: EvictionStart) -> EvictionStart {
    use EvictionStart::{At, Now, ReplacementReady};
    match (a, b) {
        (Now, _) | (_, Now) => Now,
        (At(a), At(b)) => At(a.min(b)),
        (At(a) | ReplacementReady(a), At(b) | ReplacementReady(b)) => ReplacementReady(a.min(b)),
    }
}

/// When the evictions begin whatever is missing. `None`: at once. `accepted`: the first accept, not
/// [`Limits::accepted`]: a deadline that counts anew from a take-over must not begin a new wait.
fn bound(limits: &Limits, accepted: Moment) -> Option<Moment> {
    let end = limits.force_at.or(limits.expires_at).or(limits.end_at);
    let Some(end) = end else { return Some(accepted.plus(WITHOUT_DEADLINE)) };
    let time = end.since_or_zero(accepted);
    (time >= SHORT).then(|| accepted.plus(time / 2))
}

/// Whether the group of a node that is drained has other nodes for its pods. Nodes of the group that
/// go at the same time are in order of their instances' ids, so that each waits for one more:
///
/// - the other nodes that take pods, and the nodes that go after this one, are as many as the group
///   wants (`desired`): the replacement is there, or none will come because the group has become
///   smaller; or
/// - the instance is still in service, as after a recommendation, and more nodes that take pods were
///   created at `since` (the accept) or later than go before this one.
///
/// `members`: the `LifecycleState` of each instance of the group by id. `nodes`: their Nodes.
#[must_use]
pub fn is_replaced(
    drained: &InstanceId,
    since: Moment,
    desired: usize,
    members: &BTreeMap<String, String>,
    nodes: &[Arc<Node>],
) -> bool {
    let node_of = |id: &str| {
        nodes.iter().find(|node| node.instance.as_ref().is_some_and(|i| i.as_str() == id))
    };
    let of_group: &[Taint] = node_of(drained.as_str()).map_or(&[], |node| &node.taints);
    let (mut ready, mut new, mut before, mut after) = (0_usize, 0_usize, 0_usize, 0_usize);
    for (id, state) in members.iter().filter(|(id, _)| *id != drained.as_str()) {
        let is_kept = state == "InService" || Transition::Launching.holds(state);
        let node = node_of(id);
        if !is_kept || node.is_some_and(|node| node.unschedulable || node.has_our_taint()) {
            let goes_before = id.as_str() < drained.as_str();
            *(if goes_before { &mut before } else { &mut after }) += 1;
        } else if let Some(node) = node.filter(|node| takes_pods(node, of_group)) {
            ready += 1;
            // The API server writes whole seconds.
            new += usize::from(node.created.is_some_and(|at| at.plus(seconds(1)) > since));
        }
    }
    let is_in_service = members.get(drained.as_str()).is_some_and(|state| state == "InService");
    ready + after >= desired || (is_in_service && new > before)
}

/// The Node is Ready and takes pods. A taint that the drained node does not have is a startup taint.
fn takes_pods(node: &Node, of_group: &[Taint]) -> bool {
    let is_of_group = |taint: &Taint| of_group.iter().any(|known| known.key == taint.key);
    let keeps_pods_away = |taint: &Taint| taint.effect != "PreferNoSchedule" && !is_of_group(taint);
    node.ready == Ready::True && !node.taints.iter().any(keeps_pods_away)
}
