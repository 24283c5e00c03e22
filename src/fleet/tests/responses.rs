//! Nodes that are only marked, and recommendations (`--on`).

use super::{transitions::newer, *};
use crate::{
    domain::{Cause, Interruption, KindResponse, Response},
    record::{
        AcceptOptions, EndReason, Record,
        tests::{event, hook, node, spot, take_on, take_on_with},
    },
};

fn marked(interruption: &Interruption, response: Response) -> Node {
    let options = AcceptOptions { response, ..AcceptOptions::default() };
    take_on_with(&node(), interruption, 0, &options).unwrap()
}

fn recommended(response: Response) -> Node {
    marked(&event("r", 0, Cause::Rebalance), response)
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
    let node = marked(&hook("h", 0, "drain", "t"), Response::Cordon);
    assert_eq!(world.accepts(&node), ["keep alive"], "its pods are not watched");
    assert!(world.after(4).is_empty());
    let effects = tick(&mut world, 1);
    assert_eq!(ordered(&effects), Some((EndReason::InstanceGoes, "not_evicted")));
    assert!(words(&effects).contains(&"complete"));
}

#[test]
fn a_recommendation_that_nothing_follows_ends_with_the_node_put_back() {
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
    assert_eq!(
        words(&world.step(Input::Pods(node.name, drain::Input::Listed(Vec::new())))),
        ["unwatch pods", "write the end"]
    );
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
fn what_the_flags_say_now_does_not_change_a_record() {
    let given: KindResponse = "rebalance=drain".parse().unwrap();
    let mut world = World::confirmed();
    let node = recommended(Response::Prefer);
    assert_eq!(given.response, Response::Drain, "the flags of a later leader");
    assert!(world.accepts(&node).is_empty(), "no pod is watched");
    assert_eq!(Record::read(node.record().unwrap()).unwrap().response(), Response::Prefer);
}
