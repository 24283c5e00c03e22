//! Scheduled changes: when their drain begins, and what follows if AWS cancels or moves them.

use super::*;
use crate::{
    domain::{
        Cause, ChangeSchedule, ChangeStatus, HealthNotice, Interruption, KEEP_CORDONED, Kind,
        Responses, ShownMaintenance,
    },
    record::{
        AcceptOptions, EndReason, Plan, PlanTime, Planned, Withdrawal, maintenance_condition, plan,
        release,
        tests::{apply, event, node, spot, take_on, take_on_with},
    },
};

fn message(event_id: &str, sent: i64, starts: i64, status: ChangeStatus) -> Interruption {
    let notice = HealthNotice {
        event_arn: "arn".to_owned(),
        code: "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED".to_owned(),
        status,
        starts: Some(at(starts)),
        ..HealthNotice::default()
    };
    event(event_id, sent, Cause::ScheduledChange(Arc::new(notice)))
}

fn noted(node: &Node, message: &Interruption) -> Node {
    noted_at(node, message, 0)
}

fn noted_at(node: &Node, message: &Interruption, now: i64) -> Node {
    let Plan::Patch { body, .. } = plan(node, message, time(now)) else { panic!() };
    apply(node, &body)
}

fn time(now: i64) -> PlanTime {
    PlanTime {
        now: at(now),
        schedule: ChangeSchedule { lead: Duration::from_hours(1), window: None },
    }
}

/// A Node for whose instance a retirement at 10 000 s was announced: its drain is due at 6400 s.
fn announced() -> Node {
    shown(&noted(&node(), &message("e1", 0, 10_000, ChangeStatus::Upcoming)), 0)
}

/// The Node with the condition `MaintenancePlanned` that it should have.
fn shown(node: &Node, now: i64) -> Node {
    let planned = Planned::of(node, &id(INSTANCE));
    let Some(condition) = maintenance_condition(node, planned.as_ref(), time(now)) else {
        return node.clone();
    };
    let body = condition.patch(&node.uid, at(now));
    let written = body.pointer("/status/conditions/0").unwrap();
    let text = |key: &str| written.get(key).and_then(|text| text.as_str()).unwrap().to_owned();
    let maintenance = ShownMaintenance {
        is_true: condition.is_planned,
        reason: text("reason"),
        message: text("message"),
    };
    Node { maintenance: Some(Box::new(maintenance)), ..node.clone() }
}

fn begun(effects: &[Effect]) -> Option<Interruption> {
    effects.iter().find_map(|effect| match effect {
        Effect::BeginChange(_, interruption) => Some((**interruption).clone()),
        _ => None,
    })
}

fn tick(world: &mut World, now: i64) -> Vec<Effect> {
    world.now = now;
    world.step(Input::Tick)
}

fn ordered(effects: &[Effect]) -> Option<EndReason> {
    effects.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion.end_reason),
        _ => None,
    })
}

fn show(world: &mut World, node: &Node) -> Vec<Effect> {
    let now = world.now;
    show_as_is(world, &shown(node, now))
}

fn show_as_is(world: &mut World, node: &Node) -> Vec<Effect> {
    let node = Arc::new(node.clone());
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    world.step(Input::NodeApplied(node))
}

/// A world in which the drain of the announced change goes on, and its Node.
fn draining() -> (World, Node) {
    let mut world = World::confirmed();
    show(&mut world, &announced());
    let interruption = begun(&tick(&mut world, 6_400)).unwrap();
    let node = take_on(&announced(), &interruption, 6_400).unwrap();
    assert_eq!(world.accepts(&node), ["watch pods"]);
    (world, node)
}

#[test]
fn c70_a_drain_begins_an_hour_before_the_start_and_not_earlier() {
    let mut world = World::confirmed();
    assert!(words(&show(&mut world, &announced())).is_empty());
    assert_eq!(world.fleet.next_wake(), at(6_400));
    assert!(begun(&tick(&mut world, 6_399)).is_none());
    let interruption = begun(&tick(&mut world, 6_400)).unwrap();
    assert_eq!(
        (interruption.kind(), interruption.event_id.as_str()),
        (Kind::ScheduledChange, "e1")
    );
    assert!(begun(&tick(&mut world, 6_409)).is_none(), "the accept may still be under way");
    assert!(begun(&tick(&mut world, 6_410)).is_some(), "it has failed");
    let node = take_on(&announced(), &interruption, 6_411).unwrap();
    assert_eq!(world.accepts(&node), ["watch pods"]);
    assert!(begun(&tick(&mut world, 7_000)).is_none());
    let limits = world.fleet.drains.get(&node.name).unwrap().limits;
    assert_eq!((limits.force_at, limits.end_at), (Some(at(9_995)), Some(at(9_998))));
}

#[test]
fn a_new_leader_begins_what_the_annotation_announces() {
    let mut world = World::unconfirmed();
    let node = Arc::new(announced());
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    world.now = 6_500;
    assert!(begun(&world.step(Input::NodeApplied(Arc::clone(&node)))).is_none(), "first the LIST");
    let list = Input::Unschedulable { version: "9".to_owned(), nodes: Vec::new() };
    assert!(begun(&world.step(list)).is_some());
}

#[test]
fn nothing_begins_on_a_node_that_is_not_managed_or_if_the_kind_is_ignored() {
    let mut ignored = announced();
    ignored.annotations.insert(crate::domain::IGNORE, "true");
    let mut world = World::confirmed();
    show(&mut world, &ignored);
    assert!(begun(&tick(&mut world, 7_000)).is_none());

    let mut world = World::confirmed();
    let responses = Responses::new(&["scheduled-change=ignore".parse().unwrap()]).unwrap();
    let policy = Policy { responses, ..Policy::new(Selector::default()) };
    world.fleet.lookup.policy = Arc::new(policy);
    show(&mut world, &announced());
    assert!(begun(&tick(&mut world, 7_000)).is_none());

    let mut world = World::confirmed();
    let drained = take_on(&announced(), &spot("s", 0), 0).unwrap();
    let body = release(&drained, &crate::record::Released::new(at(5), "empty")).unwrap();
    show(&mut world, &apply(&drained, &body));
    assert!(begun(&tick(&mut world, 7_000)).is_none(), "its instance ends");
}

#[test]
fn a_change_that_is_canceled_or_moved_before_its_time_does_not_begin() {
    for (second, due) in [
        (message("e2", 10, 10_000, ChangeStatus::Closed), None),
        (message("e2", 10, 20_000, ChangeStatus::Upcoming), Some(16_400)),
        (message("e2", 10, 7_000, ChangeStatus::Upcoming), Some(3_400)),
    ] {
        let mut world = World::confirmed();
        show(&mut world, &announced());
        show(&mut world, &noted(&announced(), &second));
        assert_eq!(world.fleet.next_wake(), due.map_or(Moment::MAX, at));
        let begins = begun(&tick(&mut world, 6_400)).is_some();
        assert_eq!(begins, due.is_some_and(|due| due <= 6_400), "{second:?}");
    }
}

#[test]
fn a_cancellation_ends_the_drain_that_only_this_change_has_caused() {
    let (mut world, node) = draining();
    let canceled = noted(&node, &message("e2", 6_500, 10_000, ChangeStatus::Closed));
    assert_eq!(ordered(&show(&mut world, &canceled)), Some(EndReason::NothingHolds));
    assert!(words(&show(&mut world, &canceled)).is_empty(), "once");
}

#[test]
fn an_old_cancellation_ends_no_newer_drain() {
    let (mut world, node) = draining();
    let old = message("e0", -5, 10_000, ChangeStatus::Closed);
    assert_eq!(plan(&node, &old, time(0)), Plan::Repeat);
    let other = HealthNotice {
        event_arn: "other".to_owned(),
        status: ChangeStatus::Closed,
        ..HealthNotice::default()
    };
    let other = event("o", 6_500, Cause::ScheduledChange(Arc::new(other)));
    assert_eq!(ordered(&show(&mut world, &noted(&node, &other))), None);
}

#[test]
fn a_move_beyond_the_lead_ends_the_drain_and_a_shorter_one_changes_its_deadline() {
    let (mut world, node) = draining();
    let moved = noted(&node, &message("e2", 6_500, 90_000, ChangeStatus::Upcoming));
    assert_eq!(ordered(&show(&mut world, &moved)), Some(EndReason::NothingHolds));

    let (mut world, node) = draining();
    let later = noted(&node, &message("e2", 6_500, 9_000, ChangeStatus::Upcoming));
    let effects = show(&mut world, &later);
    let interruption = begun(&effects).expect("it is due");
    assert_eq!(interruption.event_id, "e2");
}

#[test]
fn the_drain_of_another_interruption_goes_on_after_a_cancellation() {
    let (mut world, node) = draining();
    let joined = take_on(&node, &spot("s", 6_450), 6_450).unwrap();
    world.accepts(&joined);
    let canceled = noted(&joined, &message("e2", 6_500, 10_000, ChangeStatus::Closed));
    assert_eq!(ordered(&show(&mut world, &canceled)), None);
    let limits = world.fleet.drains.get(&node.name).unwrap().limits;
    assert_eq!(limits.force_at, Some(at(6_450 + 110)));
}

#[test]
fn a_node_whose_drain_is_over_is_restored_after_a_cancellation() {
    let (_, node) = draining();
    let body = release(&node, &crate::record::Released::new(at(6_600), "empty")).unwrap();
    let released = apply(&node, &body);
    let canceled = noted(&released, &message("e2", 6_700, 10_000, ChangeStatus::Closed));
    let mut world = World::confirmed();
    assert_eq!(words(&show(&mut world, &released)), Vec::<&str>::new());
    let effects = show(&mut world, &canceled);
    assert_eq!(words(&effects), ["restored"]);
    assert_eq!(withdrawn(&effects), [(Withdrawal::Canceled, true)]);
    let again = show(&mut world, &canceled);
    assert!(
        words(&again).is_empty() && withdrawn(&again).is_empty(),
        "once, while the PATCH fails"
    );
}

fn withdrawn(effects: &[Effect]) -> Vec<(Withdrawal, bool)> {
    let why = |effect: &Effect| {
        let Effect::Report(_, event) = effect else { return None };
        let DrainEvent::ChangeWithdrawn { why, nothing_holds } = **event else { return None };
        Some((why, nothing_holds))
    };
    effects.iter().filter_map(why).collect()
}

fn released(node: &Node, now: i64) -> Node {
    let body = release(node, &crate::record::Released::new(at(now), "empty")).unwrap();
    apply(node, &body)
}

#[test]
fn a_node_whose_drain_is_over_stays_drained_if_the_new_start_is_within_the_lead() {
    let (_, node) = draining();
    let node = released(&node, 6_600);
    let moved = message("e2", 6_700, 10_200, ChangeStatus::Upcoming);
    let moved = noted_at(&node, &moved, 6_700);
    let mut world = World::confirmed();
    world.now = 6_701;
    let effects = show(&mut world, &moved);
    assert!(words(&effects).is_empty() && begun(&effects).is_none());
    assert!(begun(&tick(&mut world, 9_000)).is_none(), "it is drained already");

    let canceled = message("e3", 9_100, 10_200, ChangeStatus::Closed);
    let effects = show(&mut world, &noted_at(&moved, &canceled, 9_100));
    assert_eq!(words(&effects), ["restored"]);
    assert_eq!(withdrawn(&effects), [(Withdrawal::Canceled, true)]);
}

#[test]
fn a_node_whose_drain_is_over_is_restored_if_the_new_start_is_far_ahead() {
    let (_, node) = draining();
    let moved = message("e2", 6_700, 90_000, ChangeStatus::Upcoming);
    let moved = noted_at(&released(&node, 6_600), &moved, 6_700);
    let mut world = World::confirmed();
    world.now = 6_701;
    let effects = show(&mut world, &moved);
    assert_eq!(words(&effects), ["restored"]);
    assert_eq!(withdrawn(&effects), [(Withdrawal::Moved, true)]);
}

#[test]
fn a_drain_goes_on_if_its_change_is_moved_to_a_start_that_has_passed() {
    let (mut world, node) = draining();
    let moved = noted_at(&node, &message("e2", 6_500, 6_450, ChangeStatus::Upcoming), 6_500);
    world.now = 6_501;
    let effects = show(&mut world, &moved);
    assert!(ordered(&effects).is_none() && withdrawn(&effects).is_empty());
}

#[test]
fn a_message_that_asks_for_nothing_any_longer_ends_the_drain_like_a_cancellation() {
    let (mut world, node) = draining();
    let Cause::ScheduledChange(notice) = message("e2", 6_500, 10_000, ChangeStatus::Upcoming).cause
    else {
        panic!()
    };
    let notice = HealthNotice { is_informational: true, ..(*notice).clone() };
    let informational = event("e2", 6_500, Cause::ScheduledChange(Arc::new(notice)));
    let effects = show(&mut world, &noted(&node, &informational));
    assert_eq!(ordered(&effects), Some(EndReason::NothingHolds));
    assert_eq!(withdrawn(&effects), [(Withdrawal::Canceled, true)]);
}

#[test]
fn a_held_restore_after_a_cancellation_is_ordered_once() {
    let (_, node) = draining();
    let canceled = message("e2", 6_700, 10_000, ChangeStatus::Closed);
    let mut node = noted(&released(&node, 6_600), &canceled);
    node.annotations.insert(KEEP_CORDONED, "true");
    let mut world = World::confirmed();
    let effects = show(&mut world, &node);
    assert_eq!((words(&effects), withdrawn(&effects)), (vec!["restored"], vec![]));
    assert!(words(&show(&mut world, &node)).is_empty());
}

#[test]
fn a_new_leader_ends_a_drain_that_was_canceled_while_nobody_led() {
    let (_, node) = draining();
    let canceled = Arc::new(noted(&node, &message("e2", 6_500, 10_000, ChangeStatus::Closed)));
    let mut world = World::unconfirmed();
    world.now = 6_600;
    world.facts.with(|known| known.nodes.insert(canceled.name.clone(), Arc::clone(&canceled)));
    let list = Input::Unschedulable { version: "99".to_owned(), nodes: vec![canceled] };
    let effects = world.step(list);
    assert_eq!(ordered(&effects), Some(EndReason::NothingHolds));
    assert!(!words(&effects).contains(&"send"));
}

#[test]
fn a_change_whose_node_is_only_tainted_keeps_its_pods() {
    let mut world = World::confirmed();
    show(&mut world, &announced());
    let interruption = begun(&tick(&mut world, 6_400)).unwrap();
    let options =
        AcceptOptions { response: crate::domain::Response::Cordon, ..AcceptOptions::default() };
    let node = take_on_with(&announced(), &interruption, 6_400, &options).unwrap();
    assert!(world.accepts(&node).is_empty());
}

#[test]
fn the_condition_of_the_node_is_ordered_until_the_node_shows_it() {
    let mut world = World::confirmed();
    let node = Node { maintenance: None, ..announced() };
    assert_eq!(words(&show_as_is(&mut world, &node)), ["set the condition"]);
    world.now = 3;
    assert!(words(&show_as_is(&mut world, &node)).is_empty(), "it is under way");
    let again = (4..400).filter(|second| !words(&tick(&mut world, *second)).is_empty());
    let again: Vec<_> = again.collect();
    assert_eq!(again, [5, 15, 35, 75, 135, 195, 255, 315, 375], "each has failed");
    let node = shown(&node, 400);
    assert!(words(&show_as_is(&mut world, &node)).is_empty());
    assert_eq!(world.fleet.next_wake(), at(6_400));
    let canceled = noted(&node, &message("e2", 470, 10_000, ChangeStatus::Closed));
    assert_eq!(words(&show_as_is(&mut world, &canceled)), ["set the condition"]);
}

#[test]
fn a_change_that_is_overdue_is_looked_at_although_another_one_waits() {
    let shown_by_ec2 = |event: &str, starts: i64| {
        let notice = HealthNotice {
            event_arn: format!("instance-event-{event}"),
            code: "instance-stop".to_owned(),
            starts: Some(at(starts)),
            ..HealthNotice::default()
        };
        self::event(event, 0, Cause::ScheduledChange(Arc::new(notice)))
    };
    let node = noted(&node(), &shown_by_ec2("overdue", 5_000));
    let node = noted(&node, &shown_by_ec2("later", 500_000));
    let mut world = World::confirmed();
    // The first one should have begun, and the leader was away.
    world.now = 5_300;
    assert_eq!(begun(&show(&mut world, &node)), None);
    assert_eq!(begun(&tick(&mut world, 5_599)), None);
    let begun = begun(&tick(&mut world, 5_600)).expect("EC2 shows it as open ten minutes later");
    assert_eq!(begun.event_id, "overdue");
}

#[test]
fn the_condition_ends_when_the_change_begins() {
    let mut world = World::confirmed();
    show(&mut world, &announced());
    let interruption = begun(&tick(&mut world, 6_400)).unwrap();
    let node = take_on(&announced(), &interruption, 6_400).unwrap();
    let node = released(&node, 6_500);
    world.now = 6_501;
    assert!(words(&show_as_is(&mut world, &node)).is_empty());
    assert_eq!(world.fleet.next_wake(), at(10_000));
    assert_eq!(words(&tick(&mut world, 10_000)), ["set the condition"]);
}

#[test]
fn a_kind_that_is_ignored_shows_no_condition() {
    let mut world = World::confirmed();
    let responses = Responses::new(&["scheduled-change=ignore".parse().unwrap()]).unwrap();
    let policy = Policy { responses, ..Policy::new(Selector::default()) };
    world.fleet.lookup.policy = Arc::new(policy);
    let node = Node { maintenance: None, ..announced() };
    assert!(words(&show_as_is(&mut world, &node)).is_empty());
}

#[test]
fn without_the_flag_no_node_shows_a_condition() {
    let mut world = World::confirmed();
    world.fleet.settings.shows_maintenance = false;
    let node = Node { maintenance: None, ..announced() };
    assert!(words(&show_as_is(&mut world, &node)).is_empty());
    assert_eq!(world.fleet.next_wake(), at(6_400), "its drain begins nevertheless");
}

#[test]
fn a_deleted_node_is_forgotten() {
    let mut world = World::confirmed();
    show(&mut world, &announced());
    world.deletes(&announced());
    assert_eq!(world.fleet.next_wake(), Moment::MAX);
}

#[test]
fn the_instance_of_a_node_without_provider_id_is_looked_up() {
    let mut world = World::confirmed();
    let node = Node { instance: None, ..announced() };
    assert_eq!(words(&show(&mut world, &node)), ["ask which instance"]);
    world.step(Input::InstanceFound { node: node.name.clone(), instance: id(INSTANCE) });
    assert!(begun(&tick(&mut world, 6_400)).is_some());
}
