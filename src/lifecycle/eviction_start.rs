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
    Node, Ready, Transition, seconds,
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
    let Some(bound) = bound(limits) else { return EvictionStart::Now };
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

/// When the evictions begin whatever is missing. `None`: at once.
fn bound(limits: &Limits) -> Option<Moment> {
    let end = limits.force_at.or(limits.expires_at).or(limits.end_at);
    let Some(end) = end else { return Some(limits.accepted.plus(WITHOUT_DEADLINE)) };
    let time = end.since_or_zero(limits.accepted);
    (time >= SHORT).then(|| limits.accepted.plus(time / 2))
}

/// Whether a group has replaced a node that is drained, so that its pods can go elsewhere:
///
/// - a node of the group that was created at `since` (the accept) or later is Ready and takes pods,
///   or
/// - as many others as the group wants (`desired`) are: the replacement was launched before, or
///   none will come, because the group has become smaller.
///
/// `members`: the `LifecycleState` of each instance of the group by id. `nodes`: all Nodes of the
/// cluster.
#[must_use]
pub fn is_replaced(
    drained: &InstanceId,
    since: Moment,
    desired: usize,
    members: &BTreeMap<String, String>,
    nodes: &[Arc<Node>],
) -> bool {
    let takes_pods = |node: &&Arc<Node>| {
        node.ready == Ready::True && !node.unschedulable && !node.has_our_taint()
    };
    let stays = |instance: &InstanceId| {
        instance != drained
            && members
                .get(instance.as_str())
                .is_some_and(|state| state == "InService" || Transition::Launching.holds(state))
    };
    let ready = nodes.iter().filter(takes_pods);
    let others = ready.filter(|node| node.instance.as_ref().is_some_and(stays));
    let (mut count, mut has_new) = (0_usize, false);
    for node in others {
        count += 1;
        // The API server writes whole seconds.
        has_new |= node.created.is_some_and(|created| created.plus(seconds(1)) > since);
    }
    has_new || count >= desired
}
