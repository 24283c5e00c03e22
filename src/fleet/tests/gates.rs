//! Gates on a Node, and a person's order to force its drain.

use super::{
    transitions::{draining, held, newer},
    *,
};
use crate::{
    domain::{FORCE, GateKind, NodeGates, RELEASE},
    lifecycle::ActionSeen,
    record::tests::{spot, take_on},
};

const DRAIN: &str = "pre-drain.sundown.dev/backup";
const RELEASE_GATE: &str = "pre-release.sundown.dev/backup";
const ENDED: [&str; 2] = ["unwatch pods", "complete"];

fn gated(node: &Node, keys: &[&str]) -> Node {
    let mut gates = NodeGates::default();
    for key in keys {
        gates.add(key, "by a test");
    }
    let gates = Some(Box::new(gates)).filter(|gates| !gates.is_empty());
    Node { gates, ..newer(node) }
}

fn ordered(node: &Node, key: &str) -> Node {
    let mut node = newer(node);
    node.annotations.insert(key, "true");
    node
}

/// A drain with a pod on a Node with these gates. AWS has confirmed its action.
fn with_pod(keys: &[&str]) -> (World, Node) {
    let (mut world, node) = (World::confirmed(), gated(&held(), keys));
    world.accepts(&node);
    world.sees("drain", "t1", ActionSeen::Open);
    let pod = crate::domain::Pod { node: Some("a".into()), ..drain::tests::pod("web") };
    let sent = world.pods(&node, drain::Input::Listed(vec![pod]));
    assert_eq!(sent.is_empty(), keys.contains(&DRAIN), "{sent:?}");
    (world, node)
}

/// An empty node with these gates, whose drain has ended. Gives when its completion may begin, in
/// seconds after the accept.
fn emptied(keys: &[&str]) -> (World, Node, Option<Moment>) {
    let (mut world, node) = draining();
    let node = gated(&node, keys);
    world.shows(&node);
    world.pods(&node, drain::Input::Listed(Vec::new()));
    world.now += 5;
    let effects = world.step(Input::Tick);
    assert_eq!(words(&effects), ENDED);
    let from = effects.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion.from),
        _ => None,
    });
    (world, node, from.unwrap())
}

/// When a completion may begin, as an input has changed it.
fn changed(effects: &[Effect]) -> Option<Moment> {
    effects.iter().find_map(|effect| match effect {
        Effect::CompleteFrom(_, from) => *from,
        _ => None,
    })
}

/// What the fleet reports about gates and orders to force.
fn reported(effects: &[Effect]) -> Vec<String> {
    let text = |effect: &Effect| match effect {
        Effect::Report(_, event) => match &**event {
            DrainEvent::GatesHold { kind, gates, .. } => Some(format!("{kind:?} hold {gates}")),
            DrainEvent::GatesIgnored { kind, why, .. } => Some(format!("{kind:?} {why:?}")),
            DrainEvent::GatesGone(kind) => Some(format!("{kind:?} gone")),
            DrainEvent::ForceOrder(is_given) => Some(format!("force {is_given}")),
            _ => None,
        },
        _ => None,
    };
    effects.iter().filter_map(text).collect()
}

fn shows(world: &mut World, node: &Node) -> Vec<Effect> {
    let node = Arc::new(node.clone());
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    world.step(Input::NodeApplied(node))
}

#[test]
fn removing_the_last_gate_lets_the_evictions_begin_at_once() {
    let (mut world, node) = with_pod(&[DRAIN, "pre-drain.sundown.dev/copy"]);
    world.now = 100;
    let one = gated(&node, &[DRAIN]);
    let effects = shows(&mut world, &one);
    assert!(words(&effects).is_empty());
    assert_eq!(reported(&effects), ["PreDrain hold pre-drain.sundown.dev/backup (by a test)"]);
    let effects = shows(&mut world, &gated(&one, &[]));
    assert_eq!((words(&effects), reported(&effects)), (vec!["send"], vec!["PreDrain gone".into()]));
}

#[test]
fn without_that_the_evictions_begin_at_half_of_the_time_and_a_later_gate_holds_nothing() {
    let (mut world, node) = with_pod(&[DRAIN]);
    // The hook is not described: one hour.
    world.now = 1790;
    assert!(words(&world.step(Input::Tick)).is_empty());
    world.now = 1800;
    let effects = world.step(Input::Tick);
    assert_eq!(words(&effects), ["send"]);
    assert_eq!(reported(&effects), ["PreDrain HalfPassed"]);
    let mut later = gated(&node, &[DRAIN, "pre-drain.sundown.dev/copy"]);
    later.annotations.insert(crate::domain::DRAIN_TIMEOUT, "40h");
    shows(&mut world, &later);
    let limits = world.fleet.drains.get(&node.name).unwrap().limits;
    assert_eq!(limits.held_until, None, "a deadline that moves later does not let it hold again");
}

#[test]
fn a_gate_that_comes_during_the_drain_holds_the_pods_that_are_left() {
    let (mut world, node) = with_pod(&[]);
    let effects = shows(&mut world, &gated(&node, &[DRAIN]));
    assert_eq!(reported(&effects).len(), 1);
    let another = crate::domain::Pod { node: Some("a".into()), ..drain::tests::pod("late") };
    assert!(world.pods(&node, drain::Input::Changed(another)).is_empty());
}

#[test]
fn a_spot_notice_ends_the_hold_and_says_so_once() {
    let (mut world, node) = with_pod(&[DRAIN]);
    world.now = 200;
    let joined = take_on(&node, &spot("s", world.now), world.now).unwrap();
    let joined = Arc::new(joined);
    world.facts.with(|known| known.nodes.insert(joined.name.clone(), Arc::clone(&joined)));
    let effects = world.step(Input::NodeApplied(Arc::clone(&joined)));
    assert!(words(&effects).contains(&"send"));
    assert_eq!(reported(&effects), ["PreDrain ShortDeadline"]);
    assert!(reported(&shows(&mut world, &newer(&joined))).is_empty(), "once");
}

#[test]
fn an_order_to_force_ends_the_hold_and_evicts() {
    let (mut world, node) = with_pod(&[DRAIN]);
    let forced = ordered(&node, FORCE);
    let effects = shows(&mut world, &forced);
    assert_eq!(words(&effects), ["send"]);
    assert_eq!(reported(&effects), ["force true", "PreDrain Forced"]);
    let back = Node { annotations: node.annotations.clone(), ..newer(&forced) };
    let effects = shows(&mut world, &back);
    assert_eq!(reported(&effects).first().map(String::as_str), Some("force false"));
}

#[test]
fn a_new_leader_holds_what_the_gates_hold_and_forces_what_a_person_has_ordered() {
    let (mut world, _) = with_pod(&[DRAIN]);
    assert!(world.after(10).is_empty());
    let mut world = World::confirmed();
    let forced = ordered(&gated(&held(), &[DRAIN]), FORCE);
    let node = Arc::new(forced);
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    let effects = world.step(Input::Accepted {
        node: Arc::clone(&node),
        instance: id(INSTANCE),
        instance_has_ended: false,
    });
    let mut said = reported(&effects);
    said.sort();
    assert_eq!(said, ["PreDrain Forced", "force true"]);
}

#[test]
fn a_bad_order_to_force_is_reported_and_forces_nothing() {
    let (mut world, node) = with_pod(&[DRAIN]);
    let mut bad = newer(&node);
    bad.annotations.insert(FORCE, "yes please");
    let effects = shows(&mut world, &bad);
    let is_reported = |effect: &Effect| match effect {
        Effect::Report(_, event) => matches!(&**event, DrainEvent::SettingsIgnored(all)
            if all.iter().any(|one| one.text.contains("is `yes please`: use `true`"))),
        _ => false,
    };
    assert!(effects.iter().any(is_reported) && words(&effects).is_empty());
    let again = shows(&mut world, &newer(&bad));
    assert!(!again.iter().any(is_reported), "once");
}

#[test]
fn a_gate_of_the_release_holds_the_completion_until_the_deadline_and_no_longer_than_it_is_there() {
    let at_once = Some(at(5));
    assert_eq!(emptied(&[]).2, at_once);
    assert_eq!(emptied(&[DRAIN]).2, at_once);
    let (mut world, node, from) = emptied(&[RELEASE_GATE]);
    let deadline = world.fleet.drains.get(&node.name).unwrap().limits.end_at;
    assert_eq!(from, deadline);
    world.now = 60;
    let effects = shows(&mut world, &gated(&node, &[]));
    assert_eq!(changed(&effects), at_once, "it may begin now");
    assert_eq!(reported(&effects), ["PreRelease gone"]);
    let effects = shows(&mut world, &gated(&newer(&node), &[RELEASE_GATE]));
    assert_eq!(changed(&effects), None, "and nothing holds it any more");
}

#[test]
fn the_hold_of_a_release_follows_the_deadline_both_ways() {
    let (mut world, node, before) = emptied(&[RELEASE_GATE]);
    let hook = crate::record::tests::hook("e1", 0, "drain", "t1");
    let action = hook.lifecycle_action(&id(INSTANCE)).unwrap();
    let open = HookFacts { seen: ActionSeen::Open, ..HookFacts::default() };
    // No heartbeat is accepted, so the window is about to end.
    let lapses = HookFacts { lapse: Some(at(300)), ..open.clone() };
    world.now = 200;
    let effects = world.step(Input::Hook(action.clone(), lapses));
    let mut until = effects.iter().filter_map(|effect| match effect {
        Effect::CompleteFrom(_, from) => *from,
        _ => None,
    });
    assert_eq!(until.next_back(), Some(at(298)));
    world.now = 210;
    let effects = world.step(Input::Hook(action, open));
    assert_eq!(changed(&effects), before);
    let held = world.fleet.drains.get(&node.name).unwrap().completion().unwrap().held_until;
    assert_eq!(held, before);
}

#[test]
fn a_release_or_an_order_to_force_ends_the_hold_of_the_release() {
    for key in [RELEASE, FORCE] {
        let (mut world, node, _) = emptied(&[RELEASE_GATE]);
        world.now = 60;
        let effects = shows(&mut world, &ordered(&node, key));
        let from = changed(&effects);
        assert!(from.is_some_and(|from| from <= at(60)), "{key} {from:?}");
    }
}

#[test]
fn a_gate_of_a_node_without_a_drain_does_nothing() {
    let mut world = World::confirmed();
    let node = gated(&crate::record::tests::node(), &[DRAIN, RELEASE_GATE]);
    let effects = shows(&mut world, &ordered(&node, FORCE));
    assert!(words(&effects).is_empty() && reported(&effects).is_empty());
    assert!(GateKind::ALL.into_iter().all(|kind| node.has_gate(kind)));
}
