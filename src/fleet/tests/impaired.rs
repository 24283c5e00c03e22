//! Nodes of sick instances that are healthy again.

use super::*;
use crate::{
    domain::{Cause, Impairment, Interruption, Response, Symptom},
    record::{
        AcceptOptions, EndReason, Released, release,
        tests::{apply, event, hook, node, release_node, spot, take_on, take_on_with},
    },
};

fn sick() -> Interruption {
    let symptom = Symptom::NotReady;
    Impairment { symptom, since: at(0), group: "asg".into() }.of(id(INSTANCE))
}

fn draining() -> (World, Node) {
    let mut world = World::confirmed();
    let node = take_on(&node(), &sick(), 600).unwrap();
    world.now = 600;
    assert_eq!(world.accepts(&node), ["watch pods"]);
    (world, node)
}

fn recovered(world: &mut World, node: &Node) -> Vec<Effect> {
    world.step(Input::Recovered(Arc::new(node.clone())))
}

fn end_reason(effects: &[Effect]) -> Option<EndReason> {
    effects.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion.end_reason),
        _ => None,
    })
}

#[test]
fn a_drain_of_a_sick_instance_has_no_deadline_and_forces_no_pod() {
    let (world, node) = draining();
    let limits = world.fleet.drains.get(&node.name).unwrap().limits;
    assert_eq!((limits.force_at, limits.end_at), (None, Some(at(600 + 3600))));
}

#[test]
fn when_the_instance_is_healthy_again_its_drain_ends_and_the_node_is_restored() {
    let (mut world, node) = draining();
    assert_eq!(end_reason(&recovered(&mut world, &node)), Some(EndReason::NothingHolds));
    assert_eq!(end_reason(&recovered(&mut world, &node)), None, "once");
}

#[test]
fn a_recommendation_that_tainted_the_node_before_does_not_hold_the_drain() {
    let options = AcceptOptions { response: Response::Prefer, ..AcceptOptions::default() };
    let recommendation = event("r", 0, Cause::Rebalance);
    let recommended = take_on_with(&node(), &recommendation, 1, &options).unwrap();
    let sick_too = take_on(&recommended, &sick(), 600).unwrap();
    let mut world = World::confirmed();
    world.now = 600;
    assert_eq!(world.accepts(&sick_too), ["watch pods"]);
    assert_eq!(end_reason(&recovered(&mut world, &sick_too)), Some(EndReason::NothingHolds));
}

#[test]
fn a_drain_that_something_else_holds_goes_on() {
    for more in [hook("e1", 610, "drain", "t1"), spot("e2", 610)] {
        let (mut world, node) = draining();
        let joined = take_on(&node, &more, 611).unwrap();
        world.accepts(&joined);
        assert_eq!(end_reason(&recovered(&mut world, &joined)), None, "{more:?}");
    }
}

#[test]
fn a_drained_node_is_restored_unless_something_else_holds_it() {
    let drained = release_node(&take_on(&node(), &sick(), 600).unwrap(), 700);
    let replaced = take_on(&drained, &hook("e1", 800, "drain", "t1"), 801).unwrap();
    let ended = apply(&replaced, &release(&replaced, &Released::new(at(900), "empty")).unwrap());
    let held = take_on(&node(), &spot("s", 0), 1).unwrap();
    for (name, node, expected) in [
        ("drained", &drained, &["restored"][..]),
        ("its terminate hook was completed", &ended, &[]),
        ("a spot notice", &release_node(&held, 100), &[]),
        ("restored since", &node(), &[]),
    ] {
        let mut world = World::confirmed();
        world.now = 1_000;
        world.shows(node);
        assert_eq!(words(&recovered(&mut world, node)), expected, "{name}");
        assert_eq!(words(&recovered(&mut world, node)), [""; 0], "{name}: once");
    }
}
