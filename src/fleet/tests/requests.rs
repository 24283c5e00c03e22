//! Drain requests: accepted one after the other, refused once, and what follows if they are gone.

use super::*;
use crate::{
    domain::{Cause, Interruption, InterruptionFacts, KEEP_CORDONED, NodeRequests, Response},
    record::{
        AcceptOptions, EndReason, Refusal,
        tests::{hook, node, release_node, spot, take_on_with},
    },
};

fn asks(node: &Node, all: &[(&str, &str)]) -> Node {
    let mut requests = NodeRequests::default();
    for (name, value) in all {
        requests.add(&format!("drain.sundown.dev/{name}"), value);
    }
    let requests = Some(requests).filter(|requests| !requests.is_empty()).map(Box::new);
    let version = node.resource_version.parse::<u64>().unwrap() + 1;
    Node { requests, resource_version: version.to_string(), ..node.clone() }
}

fn ordered(effects: &[Effect]) -> Option<Interruption> {
    effects.iter().find_map(|effect| match effect {
        Effect::BeginRequest(_, interruption) => Some((**interruption).clone()),
        _ => None,
    })
}

fn show(world: &mut World, node: &Node) -> Vec<Effect> {
    let node = Arc::new(node.clone());
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    world.step(Input::NodeApplied(node))
}

/// The accept of a request on this Node was answered.
fn accepted(world: &mut World, node: &Node) -> Vec<Effect> {
    let node = Arc::new(node.clone());
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    world.step(Input::Accepted { node, instance: id(INSTANCE), instance_has_ended: false })
}

fn take(node: &Node, interruption: &Interruption, now: i64) -> Node {
    let options = match &interruption.cause {
        Cause::Request(request) => {
            AcceptOptions { response: request.stage.response(), ..AcceptOptions::default() }
        }
        _ => AcceptOptions::default(),
    };
    take_on_with(node, interruption, now, &options).unwrap()
}

/// A world in which the Node is drained for these requests, and its Node.
fn draining(all: &[(&str, &str)]) -> (World, Node) {
    let mut world = World::confirmed();
    let mut node = asks(&node(), all);
    let mut effects = show(&mut world, &node);
    while let Some(next) = ordered(&effects) {
        node = take(&node, &next, world.now);
        effects = accepted(&mut world, &node);
    }
    (world, node)
}

/// Who asks no longer, and whether nothing else holds.
fn withdrawn(effects: &[Effect]) -> Vec<(Vec<String>, bool)> {
    let of = |effect: &Effect| {
        let Effect::Report(_, event) = effect else { return None };
        let DrainEvent::RequestsWithdrawn { names, nothing_holds } = &**event else { return None };
        Some((names.clone(), *nothing_holds))
    };
    effects.iter().filter_map(of).collect()
}

fn refused(effects: &[Effect]) -> Vec<(String, Refusal)> {
    let of = |effect: &Effect| {
        let Effect::Report(_, event) = effect else { return None };
        let DrainEvent::RequestRefused { request, why } = &**event else { return None };
        Some((request.clone(), why.clone()))
    };
    effects.iter().filter_map(of).collect()
}

fn end_reason(effects: &[Effect]) -> Option<EndReason> {
    effects.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion.end_reason),
        _ => None,
    })
}

/// The limits of the drain of the Node.
fn limits(world: &World) -> crate::domain::Limits {
    world.fleet.drains.values().next().unwrap().limits
}

#[test]
fn a_request_is_accepted_once_and_again_if_that_has_failed() {
    let mut world = World::confirmed();
    let asking = asks(&node(), &[("a", "")]);
    let next = ordered(&show(&mut world, &asking)).unwrap();
    assert!(ordered(&show(&mut world, &asking)).is_none(), "the accept may be under way");
    world.now = 9;
    assert!(ordered(&world.step(Input::Tick)).is_none());
    world.now = 10;
    assert!(ordered(&world.step(Input::Tick)).is_some(), "it has failed");
    let taken = take(&asking, &next, 11);
    assert_eq!(world.accepts(&taken), ["watch pods"]);
    world.now = 100;
    assert!(ordered(&world.step(Input::Tick)).is_none());
}

#[test]
fn a_request_waits_until_the_node_is_confirmed() {
    let mut world = World::unconfirmed();
    let asking = asks(&node(), &[("a", "")]);
    assert!(ordered(&show(&mut world, &asking)).is_none());
}

#[test]
fn what_is_not_obeyed_is_reported_once() {
    let mut world = World::confirmed();
    let asking = asks(&node(), &[("a", "typo"), ("b", "deadline=2020-01-01T00:00:00Z")]);
    let effects = show(&mut world, &asking);
    let names: Vec<String> = refused(&effects).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(ordered(&effects).is_none());
    assert!(refused(&show(&mut world, &asking)).is_empty());
    let other = asks(&asking, &[("a", "another"), ("b", "deadline=2020-01-01T00:00:00Z")]);
    let again = refused(&show(&mut world, &other));
    assert_eq!(again.len(), 1, "once for each value: {again:?}");
}

#[test]
fn a_node_that_sundown_must_not_touch_is_reported_and_left_alone() {
    let mut world = World::confirmed();
    let mut asking = asks(&node(), &[("a", "")]);
    asking.annotations.insert("sundown.dev/ignore", "true");
    let effects = show(&mut world, &asking);
    assert_eq!(refused(&effects), [("a".to_owned(), Refusal::Ignored)]);
    assert!(ordered(&effects).is_none());
    let elsewhere = Node { instance: None, is_elsewhere: true, ..asks(&node(), &[("a", "")]) };
    let mut world = World::confirmed();
    let effects = show(&mut world, &elsewhere);
    assert_eq!(refused(&effects), [("a".to_owned(), Refusal::NoInstance)]);
    assert!(words(&effects).is_empty());
}

#[test]
fn the_drain_ends_and_the_node_is_restored_when_the_last_request_is_gone() {
    let (mut world, taken) = draining(&[("a", ""), ("b", "")]);
    let one = asks(&taken, &[("b", "")]);
    let effects = show(&mut world, &one);
    assert_eq!(withdrawn(&effects), [(vec!["a".to_owned()], false)]);
    assert_eq!(end_reason(&effects), None, "the drain goes on for b");
    assert!(withdrawn(&show(&mut world, &one)).is_empty(), "reported once");
    // It asks for the same again: then both must be gone.
    let both = asks(&one, &[("a", ""), ("b", "")]);
    assert!(ordered(&show(&mut world, &both)).is_none(), "the record has it");
    assert_eq!(end_reason(&show(&mut world, &asks(&both, &[("a", "")]))), None);
    let effects = show(&mut world, &asks(&asks(&both, &[]), &[]));
    assert_eq!(withdrawn(&effects), [(vec!["a".to_owned()], true)]);
    assert_eq!(end_reason(&effects), Some(EndReason::NothingHolds));
}

#[test]
fn a_request_that_is_gone_leaves_the_deadline_of_a_notice_as_it_was() {
    let (mut world, taken) = draining(&[("a", "")]);
    assert_eq!((limits(&world).end_at, limits(&world).force_at), (None, None));
    let both = take(&taken, &spot("e1", 5), 5);
    world.now = 5;
    world.accepts(&both);
    let of_spot = limits(&world);
    assert_eq!((of_spot.force_at, of_spot.urgent), (Some(at(115)), true));
    let effects = show(&mut world, &asks(&both, &[]));
    assert_eq!(withdrawn(&effects), [(vec!["a".to_owned()], false)]);
    assert_eq!(end_reason(&effects), None);
    assert_eq!(limits(&world).force_at, of_spot.force_at);
}

#[test]
fn a_request_takes_no_time_from_a_notice_and_gives_it_none() {
    let limits = |all: &[InterruptionFacts], may_force| {
        let settings = LimitSettings { requests_may_force: may_force, ..LimitSettings::default() };
        limits_of(&settings, all, &BTreeMap::new(), at(0), &BTreeSet::new(), None)
    };
    let facts = |interruption: &Interruption| {
        InterruptionFacts::new(interruption, &id(INSTANCE), None, at(0), false)
    };
    let of = |value: &str| {
        let request = crate::domain::DrainRequest::read("a", value).unwrap();
        facts(&request.interruption(&id(INSTANCE)))
    };
    let soon = of("deadline=2026-01-01T00:00:30Z");
    let long = of("deadline=2026-01-01T12:00:00Z");
    let stale = InterruptionFacts { stale: true, ..facts(&spot("e1", 0)) };
    for notice in [facts(&spot("e1", 0)), facts(&hook("e1", 0, "drain", "t")), stale] {
        let alone = limits(std::slice::from_ref(&notice), false);
        for request in [&soon, &long, &of("")] {
            let both = limits(&[notice.clone(), request.clone()], false);
            assert_eq!(both, alone, "{notice:?} {request:?}");
            let forcing = limits(&[notice.clone(), request.clone()], true);
            let no_later = |one: Option<Moment>, other: Option<Moment>| {
                other.is_none() || one.is_some_and(|one| Some(one) <= other)
            };
            assert!(no_later(forcing.force_at, alone.force_at), "{notice:?} {request:?}");
            assert!(no_later(forcing.end_at, alone.end_at), "{notice:?} {request:?}");
        }
    }
}

#[test]
fn a_request_forces_no_pod_by_the_deadline_of_a_notice_that_evicts_none() {
    let limits = |all: &[InterruptionFacts], may_force| {
        let settings = LimitSettings { requests_may_force: may_force, ..LimitSettings::default() };
        limits_of(&settings, all, &BTreeMap::new(), at(0), &BTreeSet::new(), None)
    };
    let facts = |interruption: &Interruption, response| InterruptionFacts {
        response,
        ..InterruptionFacts::new(interruption, &id(INSTANCE), None, at(0), false)
    };
    let request = crate::domain::DrainRequest::read("a", "").unwrap().interruption(&id(INSTANCE));
    let request = facts(&request, Response::Drain);
    let notice = |response| facts(&spot("e1", 0), response);
    for (of_notice, may_force, forces) in [
        (Response::Cordon, false, false),
        (Response::Cordon, true, true),
        (Response::Drain, false, true),
    ] {
        let both = limits(&[notice(of_notice), request.clone()], may_force);
        assert_eq!(both.force_at.is_some(), forces, "{of_notice:?} {may_force}");
        assert_eq!(both.response, Response::Drain);
        let alone = limits(&[notice(of_notice)], may_force);
        assert_eq!(both.end_at, alone.end_at, "{of_notice:?} {may_force}");
    }
}

#[test]
fn the_deadline_of_a_request_is_not_compared_with_that_of_a_notice() {
    let (world, _) = draining(&[("a", "deadline=2026-01-01T00:00:30Z")]);
    let state = world.fleet.drains.values().next().unwrap();
    assert_eq!(world.fleet.lasting_limits(state), None, "people may withdraw it");
    assert_eq!(limits(&world).end_at, Some(at(30)));
}

#[test]
fn a_drained_node_is_restored_when_its_last_request_is_gone_also_after_a_take_over() {
    let (_, taken) = draining(&[("a", "")]);
    for keeps in [false, true] {
        let mut drained = asks(&release_node(&taken, 100), &[]);
        if keeps {
            drained.annotations.insert(KEEP_CORDONED, "true");
        }
        let mut world = World::confirmed();
        let effects = show(&mut world, &drained);
        assert_eq!(withdrawn(&effects), [(vec!["a".to_owned()], true)]);
        assert_eq!(words(&effects), ["restored"], "the order also notes a held restore");
        assert!(words(&show(&mut world, &drained)).is_empty(), "once");
    }
    let mut world = World::confirmed();
    let effects = show(&mut world, &asks(&release_node(&taken, 100), &[("a", "")]));
    assert!(words(&effects).is_empty(), "it still asks");
}

#[test]
fn a_new_leader_notices_that_a_request_is_gone() {
    let (_, taken) = draining(&[("a", "")]);
    let mut world = World::confirmed();
    let effects = show(&mut world, &asks(&taken, &[]));
    assert_eq!(words(&effects), ["watch pods", "unwatch pods", "write the end"]);
    assert_eq!(end_reason(&effects), Some(EndReason::NothingHolds));
}

#[test]
fn an_action_that_aws_contradicts_ends_no_drain_that_people_ask_for() {
    let (mut world, taken) = draining(&[("a", "")]);
    let both = take(&taken, &hook("e1", 0, "drain", "t"), 1);
    world.now = 1;
    world.accepts(&both);
    let held = limits(&world).verification;
    assert!(!held.may_end(), "AWS has to confirm the action: {held:?}");
    world.sees("drain", "t", ActionSeen::Over);
    let uid = both.uid.clone();
    let finding = crate::lifecycle::Finding::Contradicted;
    let effects = world.step(Input::Contradiction { node: both.name.clone(), uid, finding });
    assert_eq!(end_reason(&effects), None, "{:?}", words(&effects));
    let after = limits(&world);
    assert_eq!((after.force_at, after.end_at), (None, None));
    assert!(after.verification.may_end());
    let effects = show(&mut world, &asks(&both, &[]));
    assert_eq!(end_reason(&effects), Some(EndReason::NothingHolds));
}

#[test]
fn a_changed_stage_is_followed() {
    let (mut world, taken) = draining(&[("a", "stage=cordon")]);
    assert!(!limits(&world).response.evicts());
    let changed = asks(&taken, &[("a", "stage=drain")]);
    let next = ordered(&show(&mut world, &changed)).unwrap();
    let taken = take(&changed, &next, 1);
    assert_eq!(world.accepts(&taken), ["watch pods"]);
    assert!(limits(&world).response.evicts());
    let back = asks(&taken, &[("a", "stage=cordon")]);
    let next = ordered(&show(&mut world, &back)).unwrap();
    world.accepts(&take(&back, &next, 2));
    assert!(!limits(&world).response.evicts(), "evictions stop");
}
