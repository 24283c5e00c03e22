//! Drains that wait until AWS confirms their lifecycle actions, and drains that AWS contradicts.

use super::{
    transitions::{draining, unverified},
    *,
};
use crate::{
    domain::{Cause, Interruption, Node, Pod, Response, Verification},
    lifecycle::{ActionSeen, Finding},
    record::{
        AcceptOptions, EndReason,
        tests::{event, hook, node, spot, take_on, take_on_with},
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

const ENDS: [&str; 2] = ["unwatch pods", "complete"];

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
    assert_eq!(words(&found(&mut world, &node, Finding::MayEnd)), ["send"]);
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

/// Another hook joins at this time.
fn other_joins(world: &mut World, node: &Node, now: i64) -> Node {
    world.now = now;
    let joined = take_on(node, &hook("e2", now, "other", "t2"), now).unwrap();
    world.accepts(&joined);
    joined
}

#[test]
fn a_contradiction_counts_for_a_minute_for_an_action_that_is_found_to_be_over_later() {
    let asked = ["ask whether it stays"];
    for (over_at, expected) in [(20, &ENDS[..]), (75, &ENDS), (76, &asked)] {
        let (mut world, node) = unverified();
        assert_eq!(world.sees("drain", "t1", ActionSeen::Over), asked);
        let joined = other_joins(&mut world, &node, 2);
        world.now = 16;
        assert!(words(&found(&mut world, &joined, Finding::Contradicted)).is_empty());
        world.now = over_at;
        assert_eq!(world.sees("other", "t2", ActionSeen::Over), expected, "over at {over_at}");
    }
}

#[test]
fn what_was_found_before_an_action_joined_says_nothing_about_it() {
    let (mut world, node) = unverified();
    world.sees("drain", "t1", ActionSeen::Over);
    found(&mut world, &node, Finding::MayEnd);
    assert_eq!(verification(&world, &node), Verification::Verified);
    let joined = other_joins(&mut world, &node, 2);
    assert_eq!(verification(&world, &joined), Verification::AwaitingHeartbeat);
    assert_eq!(world.sees("other", "t2", ActionSeen::Over), ["ask whether it stays"], "again");
}

#[test]
fn an_empty_node_waits_half_a_minute_at_most_for_a_slow_answer_whether_it_stays() {
    let slow = || {
        let (mut world, node) = unverified();
        world.pods(&node, drain::Input::Listed(Vec::new()));
        world.sees("drain", "t1", ActionSeen::Over);
        assert!(world.after(20).is_empty());
        (world, node)
    };
    let (mut world, node) = slow();
    assert!(words(&found(&mut world, &node, Finding::Suspected)).is_empty());
    assert_eq!(words(&found(&mut world, &node, Finding::Contradicted)), ENDS);
    let (mut world, _) = slow();
    assert!(world.after(9).is_empty());
    assert_eq!(world.after(1), ENDS);
}

#[test]
fn a_node_that_is_only_cordoned_is_restored_too() {
    let cordon = AcceptOptions { response: Response::Cordon, ..AcceptOptions::default() };
    let cordoned = take_on_with(&node(), &hook("e1", 0, "drain", "t1"), 0, &cordon).unwrap();
    let mut world = World::confirmed();
    world.accepts(&cordoned);
    assert_eq!(world.sees("drain", "t1", ActionSeen::Over), ["ask whether it stays"]);
    assert!(world.after(1).is_empty());
    found(&mut world, &cordoned, Finding::Suspected);
    assert!(world.after(15).is_empty());
    let effects = found(&mut world, &cordoned, Finding::Contradicted);
    let outcome = |effect: &Effect| match effect {
        Effect::Complete(c) => Some((c.end_reason, c.outcome)),
        _ => None,
    };
    let ends = effects.iter().find_map(outcome);
    assert_eq!(ends, Some((EndReason::NothingHolds, "contradicted")));
}

#[test]
fn a_recommendation_that_only_taints_its_node_verifies_no_action() {
    for (response, expected) in [
        (Response::Prefer, Verification::AwaitingHeartbeat),
        (Response::Cordon, Verification::Verified),
        (Response::Drain, Verification::Verified),
    ] {
        let options = AcceptOptions { response, ..AcceptOptions::default() };
        let recommended =
            take_on_with(&node(), &event("r", 0, Cause::Rebalance), 0, &options).unwrap();
        let mut world = World::confirmed();
        world.accepts(&recommended);
        world.now = 100;
        let joined = take_on(&recommended, &hook("e1", 100, "drain", "t1"), 100).unwrap();
        world.accepts(&joined);
        assert_eq!(verification(&world, &joined), expected, "{response:?}");
    }
}

#[test]
fn a_group_that_does_not_exist_confirms_nothing() {
    let (mut world, node) = unverified();
    listed(&mut world, &node);
    world.sees("drain", "t1", ActionSeen::Over);
    assert_eq!(words(&found(&mut world, &node, Finding::Unclear)), ["send"]);
    assert_eq!(verification(&world, &node), Verification::Unanswered);
}

#[test]
fn an_action_that_is_known_to_be_over_needs_no_other_answer() {
    let (mut world, node) = (World::confirmed(), super::transitions::held());
    let action = hook("e1", 0, "drain", "t1").lifecycle_action(&id(INSTANCE)).unwrap();
    world.facts.with(|known| known.closed_actions.insert(action));
    assert!(world.accepts(&node).contains(&"ask whether it stays"));
    let joined = other_joins(&mut world, &node, 2);
    assert_eq!(world.sees("other", "t2", ActionSeen::Over), ["ask whether it stays"]);
    assert_eq!(words(&found(&mut world, &joined, Finding::Contradicted)), ENDS);
}

#[test]
fn an_action_that_was_over_in_an_earlier_term_gives_its_place_to_one_that_is_kept_alive() {
    let made_up = hook("e1", 5, "drain", "made-up");
    let real = hook("e2", 0, "drain", "real");
    let action = |of: &Interruption| of.lifecycle_action(&id(INSTANCE)).unwrap();
    for (is_kept_alive, expected) in [(true, "real"), (false, "made-up")] {
        let node = take_on(&node(), &made_up, 6).unwrap();
        let node = take_on(&node, &real, 7).unwrap();
        let mut world = World { now: 8, ..World::confirmed() };
        world.facts.with(|known| {
            known.over_actions.insert(action(&made_up));
            // The task of an action that is over goes on for a while.
            known.kept_alive.insert(action(&made_up));
            if is_kept_alive {
                known.kept_alive.insert(action(&real));
            }
        });
        let effects = world.step(Input::Accepted {
            node: Arc::new(node.clone()),
            instance: id(INSTANCE),
            instance_has_ended: false,
        });
        let kept = effects.iter().filter_map(|effect| match effect {
            Effect::KeepAlive { action, .. } => action.token.clone(),
            _ => None,
        });
        assert_eq!(kept.collect::<Vec<_>>(), [expected.into()]);
        assert!(!words(&effects).contains(&"ask whether it stays"), "AWS is asked anew");
    }
}

#[test]
fn what_is_left_of_a_drain_is_verified_once_the_other_interruption_is_disproved() {
    let stale = AcceptOptions { stale: true, ..AcceptOptions::default() };
    let node = take_on_with(&node(), &spot("s", 0), 300, &stale).unwrap();
    let mut world = World { now: 300, ..World::confirmed() };
    world.accepts(&node);
    let joined = take_on(&node, &hook("e1", 300, "drain", "t1"), 301).unwrap();
    world.now = 301;
    world.accepts(&joined);
    assert_eq!(verification(&world, &joined), Verification::Verified);
    world.now = 340;
    let proof = Input::Proof { node: joined.name.clone(), event: "s".to_owned(), holds: false };
    let effects = world.step(proof);
    assert!(
        effects
            .iter()
            .any(|e| matches!(e, Effect::VerifyActions { until, .. } if *until == at(345)))
    );
    assert_eq!(verification(&world, &joined), Verification::AwaitingHeartbeat);
    assert_eq!(world.sees("drain", "t1", ActionSeen::Over), ["ask whether it stays"]);
}
