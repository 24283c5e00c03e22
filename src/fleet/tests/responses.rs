//! Nodes that are only tainted or cordoned, and recommendations (`--on`).

use super::{transitions::newer, *};
use crate::{
    domain::{Cause, IGNORE, Interruption, PAUSE, Response},
    record::{
        AcceptOptions, EndReason,
        tests::{event, hook, node, spot, take_on, take_on_with},
    },
};

fn accepted(interruption: &Interruption, response: Response) -> Node {
    let options = AcceptOptions { response, ..AcceptOptions::default() };
    take_on_with(&node(), interruption, 0, &options).unwrap()
}

fn recommended(response: Response) -> Node {
    accepted(&event("r", 0, Cause::Rebalance), response)
}

/// A pod on the node.
fn pod() -> crate::domain::Pod {
    crate::domain::Pod { node: Some("a".into()), ..drain::tests::pod("web") }
}

/// Why the completion was ordered, if one was.
fn ordered(effects: &[Effect]) -> Option<(EndReason, &'static str)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some((completion.end_reason, completion.outcome)),
        _ => None,
    })
}

fn tick(world: &mut World, seconds: i64) -> Vec<Effect> {
    world.now += seconds;
    world.step(Input::Tick)
}

#[test]
fn a_hook_whose_node_is_only_cordoned_is_completed_after_the_shortest_time_of_a_drain() {
    let mut world = World::confirmed();
    let node = accepted(&hook("h", 0, "drain", "t"), Response::Cordon);
    assert_eq!(world.accepts(&node), ["keep alive"], "its pods are not watched");
    assert!(world.after(4).is_empty());
    let effects = tick(&mut world, 1);
    assert_eq!(ordered(&effects), Some((EndReason::InstanceGoes, "not_evicted")));
    assert!(words(&effects).contains(&"complete"));
}

#[test]
fn a_recommendation_that_nothing_follows_ends_with_the_node_restored() {
    for (response, begins) in [
        (Response::Prefer, [].as_slice()),
        (Response::Cordon, &[]),
        (Response::Drain, &["watch pods"]),
    ] {
        let mut world = World::confirmed();
        let node = recommended(response);
        assert_eq!(world.accepts(&node), begins);
        assert_eq!(ordered(&tick(&mut world, 3599)), None);
        let expected = Some((EndReason::NothingHolds, "expired"));
        assert_eq!(ordered(&tick(&mut world, 1)), expected, "{response:?}");
        assert!(world.after(10_000).is_empty(), "once");
    }
}

#[test]
fn a_new_leader_puts_a_node_back_whose_recommendation_expired_while_nobody_led() {
    let mut world = World::unconfirmed();
    world.now = 7200;
    let node = Arc::new(recommended(Response::Prefer));
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    let list = Input::Unschedulable { version: "9".to_owned(), nodes: Vec::new() };
    assert_eq!(words(&world.step(list)), ["read the node"], "it is not in the LIST");
    let read = Input::NodeRead { name: node.name.clone(), node: Some(Arc::clone(&node)) };
    let mut effects = world.step(read);
    effects.extend(world.step(Input::Tick));
    assert_eq!(ordered(&effects), Some((EndReason::NothingHolds, "expired")));
}

#[test]
fn an_interruption_that_follows_a_recommendation_drains_the_node_and_never_expires() {
    let mut world = World::confirmed();
    let node = recommended(Response::Prefer);
    assert!(world.accepts(&node).is_empty());
    let joined = take_on(&node, &spot("s", 100), 100).unwrap();
    world.now = 100;
    assert_eq!(world.accepts(&joined), ["watch pods"]);
    assert!(world.pods(&node, drain::Input::Listed(Vec::new())).is_empty());
    assert!(world.after(4).is_empty(), "pods that were being bound may still arrive");
    assert_eq!(world.after(1), ["unwatch pods", "write the end"]);
}

#[test]
fn a_person_who_uncordons_a_node_that_sundown_has_only_tainted_is_not_reported() {
    let is_reported = |node: &Node| {
        let mut world = World::confirmed();
        world.accepts(node);
        let shown = Node { unschedulable: false, ..newer(node) };
        let effects = world.step(Input::NodeApplied(Arc::new(shown)));
        let is_uncordon = |e: &Effect| matches!(e, Effect::Report(_, event) if matches!(**event, DrainEvent::Uncordoned));
        effects.iter().any(is_uncordon)
    };
    assert!(!is_reported(&recommended(Response::Prefer)));
    assert!(is_reported(&recommended(Response::Cordon)));
}

#[test]
fn a_node_that_is_only_tainted_stays_in_its_load_balancers() {
    let mut world = World::excluding(Exclusion::Early);
    assert!(world.accepts(&recommended(Response::Prefer)).is_empty());
    assert!(world.after(60).is_empty());
    let mut world = World::excluding(Exclusion::Early);
    world.accepts(&recommended(Response::Cordon));
    assert_eq!(world.after(1), ["exclude"]);
}

#[test]
fn an_interruption_that_joins_after_the_end_of_a_node_that_was_only_tainted_drains_it() {
    let mut world = World::confirmed();
    let node = accepted(&hook("h", 0, "drain", "t"), Response::Cordon);
    world.accepts(&node);
    assert!(ordered(&tick(&mut world, 5)).is_some(), "the hook is being completed");
    let joined = take_on(&node, &spot("s", 6), 6).unwrap();
    world.now = 6;
    assert!(world.accepts(&joined).contains(&"watch pods"));
    let pods = drain::Input::Listed(vec![pod()]);
    let mut effects = world.pods(&joined, pods);
    effects.extend(world.after(3));
    assert!(effects.contains(&"send"), "{effects:?}");
}

/// What a new leader does with this Node at first.
fn taken_over(node: &Node, now: i64) -> Vec<Effect> {
    let mut world = World::unconfirmed();
    world.now = now;
    let node = Arc::new(node.clone());
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    world.step(Input::Unschedulable { version: "9".to_owned(), nodes: vec![node] })
}

#[test]
fn a_new_leader_does_not_end_what_is_paused() {
    let mut node = accepted(&spot("s", 0), Response::Cordon);
    assert_eq!(ordered(&taken_over(&node, 100)), Some((EndReason::InstanceGoes, "not_evicted")));
    node.annotations.insert(PAUSE, "true");
    assert_eq!(ordered(&taken_over(&node, 100)), None);
}

#[test]
fn a_new_leader_restores_a_tainted_node_that_is_to_be_left_alone() {
    let mut node = accepted(&spot("s", 0), Response::Cordon);
    node.annotations.insert(IGNORE, "true");
    assert_eq!(ordered(&taken_over(&node, 100)), Some((EndReason::ByHand, "released")));
}

#[test]
fn an_interruption_without_proof_keeps_a_recommendation_from_expiring() {
    let mut world = World::confirmed();
    let node = recommended(Response::Prefer);
    world.accepts(&node);
    let stale = AcceptOptions { stale: true, ..AcceptOptions::default() };
    let joined = take_on_with(&node, &hook("h", 3000, "drain", "t"), 3500, &stale).unwrap();
    world.now = 3500;
    world.accepts(&joined);
    assert_eq!(ordered(&tick(&mut world, 200)), None, "the hook may hold");
    let proof = Input::Proof { node: joined.name.clone(), event: "h".to_owned(), holds: false };
    assert_eq!(ordered(&world.step(proof)), Some((EndReason::NothingHolds, "expired")));
}

#[test]
fn a_disproved_interruption_no_longer_evicts() {
    let mut world = World::confirmed();
    let node = recommended(Response::Prefer);
    world.accepts(&node);
    let stale = AcceptOptions { stale: true, ..AcceptOptions::default() };
    let joined = take_on_with(&node, &spot("s", 100), 100, &stale).unwrap();
    world.now = 100;
    world.accepts(&joined);
    world.step(Input::Proof { node: joined.name.clone(), event: "s".to_owned(), holds: false });
    let pods = drain::Input::Listed(vec![pod()]);
    assert!(!world.pods(&joined, pods).contains(&"send"));
    assert!(!world.after(5).contains(&"send"));
}

#[test]
fn a_node_that_is_only_tainted_waits_for_the_proof_of_a_stale_interruption() {
    let mut world = World::confirmed();
    let stale =
        AcceptOptions { stale: true, response: Response::Cordon, ..AcceptOptions::default() };
    let node = take_on_with(&node(), &spot("s", 0), 0, &stale).unwrap();
    assert_eq!(world.accepts(&node), ["verify"]);
    assert_eq!(ordered(&tick(&mut world, 100)), None);
    let proof = Input::Proof { node: node.name.clone(), event: "s".to_owned(), holds: false };
    assert_eq!(ordered(&world.step(proof)).map(|end| end.0), Some(EndReason::NothingHolds));
}
