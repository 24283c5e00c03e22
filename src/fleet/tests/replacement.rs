//! Evictions that wait for a replacement (`--evict-after`).

use super::{
    transitions::{held, newer},
    *,
};
use crate::{
    domain::{DRAIN_TIMEOUT, EvictAfterByKind, EvictionStart},
    lifecycle::ActionSeen,
    record::tests::{spot, take_on},
};

/// A drain with a pod, under `--evict-after` with this value. AWS has confirmed its action.
fn waiting(evict_after: &str) -> (World, Node) {
    let (mut world, node) = (World::confirmed(), held());
    let by_kind = EvictAfterByKind::new(&[evict_after.parse().unwrap()]).unwrap();
    world.fleet.settings.limits.evict_after = by_kind;
    world.accepts(&node);
    world.sees("drain", "t1", ActionSeen::Open);
    let pod = crate::domain::Pod { node: Some("a".into()), ..drain::tests::pod("web") };
    assert!(world.pods(&node, drain::Input::Listed(vec![pod])).is_empty());
    assert!(world.after(10).is_empty(), "no pod is evicted");
    (world, node)
}

#[test]
fn a_drain_asks_once_for_a_replacement_and_evicts_when_there_is_one() {
    let (mut world, node) = (World::confirmed(), held());
    let ready = "terminate-hook=replacement-ready".parse().unwrap();
    world.fleet.settings.limits.evict_after = EvictAfterByKind::new(&[ready]).unwrap();
    let asked = world.accepts(&node);
    assert_eq!(asked, ["keep alive", "ask for a replacement", "watch pods"]);
    let (mut world, node) = waiting("terminate-hook=replacement-ready");
    let other = Input::ReplacementReady { node: node.name.clone(), uid: "other".to_owned() };
    assert!(words(&world.step(other)).is_empty(), "an answer about an earlier Node");
    let ready = Input::ReplacementReady { node: node.name.clone(), uid: node.uid.clone() };
    assert_eq!(words(&world.step(ready)), ["send"]);
}

#[test]
fn without_an_answer_the_evictions_begin_at_half_of_the_time() {
    let (mut world, _) = waiting("terminate-hook=replacement-ready");
    // The hook is not described: one hour, less the margin of 5 s.
    assert!(world.after(1780).is_empty());
    assert_eq!(world.after(8), ["send"]);
}

#[test]
fn an_interruption_that_does_not_wait_begins_the_evictions() {
    let (mut world, node) = waiting("terminate-hook=20m");
    let joined = take_on(&node, &spot("s", world.now), world.now).unwrap();
    assert!(world.accepts(&joined).contains(&"send"));
}

#[test]
fn evictions_that_have_begun_do_not_stop_because_a_deadline_has_moved() {
    let (mut world, node) = waiting("terminate-hook=replacement-ready");
    world.after(1788);
    let start = |world: &World| world.fleet.drains.get(&node.name).unwrap().limits.eviction_start;
    assert_eq!(start(&world), EvictionStart::Now);
    let mut later = node.clone();
    later.annotations.insert(DRAIN_TIMEOUT, "40h");
    world.shows(&newer(&later));
    assert_eq!(start(&world), EvictionStart::Now);
}
