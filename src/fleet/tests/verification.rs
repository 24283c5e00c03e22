//! Drains that wait until AWS confirms their lifecycle actions, and drains that AWS contradicts.

use super::{
    transitions::{draining, unverified},
    *,
};
use crate::{
    domain::{Node, Pod, Verification},
    lifecycle::{ActionSeen, Finding},
    record::{
        EndReason,
        tests::{hook, spot, take_on},
    },
};

/// The pods of the node were listed: there is one.
fn listed(world: &mut World, node: &Node) -> Vec<&'static str> {
    let pod = Pod { node: Some(node.name.clone()), ..crate::drain::tests::pod("web-0") };
    world.pods(node, drain::Input::Listed(vec![pod]))
}

fn found(world: &mut World, node: &Node, finding: Finding) -> Vec<Effect> {
    let (node, uid) = (node.name.clone(), node.uid.clone());
    world.step(Input::Contradiction { node, uid, finding })
}

fn verification(world: &World, node: &Node) -> Verification {
    world.fleet.drains.get(&node.name).unwrap().limits.verification
}

#[test]
fn the_first_eviction_follows_the_first_accepted_heartbeat() {
    let (mut world, node) = unverified();
    assert!(listed(&mut world, &node).is_empty());
    assert!(world.after(4).is_empty());
    assert_eq!(world.sees("drain", "t1", ActionSeen::Open), ["send"]);
}

#[test]
fn without_an_answer_evictions_begin_after_five_seconds_and_the_fleet_wakes_for_that() {
    let (mut world, node) = unverified();
    listed(&mut world, &node);
    world.after(4);
    assert_eq!(world.fleet.next_wake(), at(5));
    assert_eq!(world.after(1), ["send"]);
    assert_eq!(verification(&world, &node), Verification::Unanswered);
    world.sees("drain", "t1", ActionSeen::Open);
    assert_eq!(verification(&world, &node), Verification::Verified, "it is never too late");
}

#[test]
fn a_drain_asks_at_once_for_an_answer_and_waits_no_second_time() {
    let verified = |effects: &[Effect]| {
        let until = |effect: &Effect| match effect {
            Effect::VerifyActions { actions, until } => Some((actions.len(), *until)),
            _ => None,
        };
        effects.iter().find_map(until)
    };
    let accepted = |node: &Node| Input::Accepted {
        node: Arc::new(node.clone()),
        instance: id(INSTANCE),
        instance_has_ended: false,
    };
    let mut world = World::confirmed();
    let node = super::transitions::held();
    assert_eq!(verified(&world.step(accepted(&node))), Some((1, at(5))));
    let joined = take_on(&node, &hook("e2", 1, "other", "t2"), 1).unwrap();
    assert_eq!(verified(&world.step(accepted(&joined))), Some((2, at(5))), "not a second longer");
    world.after(5);
    let third = take_on(&joined, &hook("e3", 1, "third", "t3"), 6).unwrap();
    assert_eq!(verified(&world.step(accepted(&third))), None);
}

#[test]
fn a_spot_notice_ends_the_wait_and_a_later_one_is_no_repeat_while_nothing_is_verified() {
    let (mut world, node) = unverified();
    listed(&mut world, &node);
    let joined = take_on(&node, &spot("e2", 1), 1).unwrap();
    assert!(world.accepts(&joined).contains(&"send"));
    assert_eq!(verification(&world, &node), Verification::Verified);
    // A drain that begins with both never waits.
    let mut world = World::confirmed();
    world.accepts(&joined);
    assert_eq!(verification(&world, &joined), Verification::Verified);
    // The deadline of the action must not make the notice a repeat.
    let deadline = |effects: Vec<Effect>| {
        let of = |effect| match effect {
            Effect::DeadlineIs(_, at) => Some(at.is_some()),
            _ => None,
        };
        effects.into_iter().filter_map(of).next_back()
    };
    let mut world = World::confirmed();
    let accepted = Input::Accepted {
        node: Arc::new(node.clone()),
        instance: id(INSTANCE),
        instance_has_ended: false,
    };
    assert_eq!(deadline(world.step(accepted)), Some(false));
    let action = hook("e1", 0, "drain", "t1").lifecycle_action(&id(INSTANCE)).unwrap();
    let facts = HookFacts { seen: ActionSeen::Open, ..HookFacts::default() };
    assert_eq!(deadline(world.step(Input::Hook(action, facts))), Some(true));
}

#[test]
fn actions_that_are_over_are_looked_into_once_and_a_contradiction_puts_the_node_back() {
    let (mut world, node) = unverified();
    listed(&mut world, &node);
    assert_eq!(world.sees("drain", "t1", ActionSeen::Over), ["ask whether it stays"]);
    assert!(world.sees("drain", "t1", ActionSeen::Over).is_empty(), "once");
    assert!(words(&found(&mut world, &node, Finding::Suspected)).is_empty());
    // No pod leaves the node meanwhile.
    assert!(world.after(16).is_empty());
    let effects = found(&mut world, &node, Finding::Contradicted);
    let ends = effects.iter().find_map(|effect| match effect {
        Effect::Complete(c) => Some((c.end_reason, c.outcome, c.disproved.len())),
        _ => None,
    });
    assert_eq!(ends, Some((EndReason::NothingHolds, "contradicted", 1)));
    let is_reported = |effect: &Effect| matches!(effect, Effect::Report(_, event) if matches!(**event, DrainEvent::Contradicted));
    assert_eq!(effects.iter().filter(|effect| is_reported(effect)).count(), 1);
}

#[test]
fn an_empty_node_does_not_end_its_drain_while_it_is_suspected() {
    let (mut world, node) = unverified();
    world.pods(&node, drain::Input::Listed(Vec::new()));
    world.sees("drain", "t1", ActionSeen::Over);
    found(&mut world, &node, Finding::Suspected);
    assert!(world.after(15).is_empty());
    assert_eq!(
        words(&found(&mut world, &node, Finding::Contradicted)),
        ["unwatch pods", "complete"]
    );
}

#[test]
fn what_does_not_contradict_every_action_contradicts_nothing() {
    type Then = fn(&mut World, &Node);
    let rows: [(&str, Then); 5] = [
        ("a spot notice has joined", |world, node| {
            world.accepts(&take_on(node, &spot("e2", 1), 1).unwrap());
        }),
        ("another hook has joined", |world, node| {
            world.accepts(&take_on(node, &hook("e2", 1, "other", "t2"), 1).unwrap());
        }),
        ("another hook has joined, and waits", |world, node| {
            world.accepts(&take_on(node, &hook("e2", 1, "other", "t2"), 1).unwrap());
            world.sees("other", "t2", ActionSeen::Open);
        }),
        ("AWS accepted a heartbeat after all", |world, _| {
            world.sees("drain", "t1", ActionSeen::Open);
        }),
        ("it is about another Node", |_, _| {}),
    ];
    for (row, then) in rows {
        let (mut world, node) = unverified();
        world.sees("drain", "t1", ActionSeen::Over);
        found(&mut world, &node, Finding::Suspected);
        then(&mut world, &node);
        let uid = if row.ends_with("another Node") { "another" } else { node.uid.as_str() };
        let node = Node { uid: uid.to_owned(), ..node };
        assert!(words(&found(&mut world, &node, Finding::Contradicted)).is_empty(), "{row}");
    }
    let (mut world, node) = draining();
    assert!(words(&found(&mut world, &node, Finding::Contradicted)).is_empty(), "it is verified");
}

#[test]
fn a_plausible_end_goes_on_as_if_nothing_was_asked() {
    let (mut world, node) = unverified();
    listed(&mut world, &node);
    world.sees("drain", "t1", ActionSeen::Over);
    assert_eq!(words(&found(&mut world, &node, Finding::Plausible)), ["send"]);
    assert_eq!(verification(&world, &node), Verification::Verified);
}

#[test]
fn a_suspicion_holds_evictions_for_half_a_minute_at_most() {
    let (mut world, node) = unverified();
    listed(&mut world, &node);
    world.sees("drain", "t1", ActionSeen::Over);
    found(&mut world, &node, Finding::Suspected);
    assert!(world.after(29).is_empty());
    assert_eq!(world.after(1), ["send"]);
}
