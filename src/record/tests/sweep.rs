//! What the sweep found, and the event of it that comes later.

use super::*;

/// First seen `time` seconds after the fixed moment.
fn swept(time: i64, hook_name: &str) -> Interruption {
    let mut interruption = hook(&sweep_event_id(at(time), &hook_name.into()), time, hook_name, "t");
    if let Cause::Terminate(action) = &mut interruption.cause {
        action.token = None;
    }
    interruption
}

fn entries(node: &Node) -> Vec<(String, Option<String>)> {
    let record = Record::read(node.record().unwrap()).unwrap();
    let all = record.interruptions(&id(INSTANCE)).into_iter();
    all.map(|i| (i.event_id, i.hook.and_then(|h| h.token).map(|t| t.to_string()))).collect()
}

#[test]
fn an_open_record_holds_an_action_once_whoever_brings_it_first() {
    let from_sweep = take_on(&node(), &swept(60, "drain"), 61).unwrap();
    let from_event = take_on(&node(), &hook("e1", 30, "drain", "t1"), 31).unwrap();
    for (name, node, interruption, joins) in [
        ("its event, late", &from_sweep, hook("e1", 30, "drain", "t1"), false),
        ("its event, on a clock ahead", &from_sweep, hook("e1", 64, "drain", "t1"), false),
        ("a later event: another action", &from_sweep, hook("e1", 66, "drain", "t1"), true),
        ("the sweep of another leader", &from_sweep, swept(90, "drain"), false),
        ("another hook, by its event", &from_sweep, hook("e1", 30, "logs", "t1"), true),
        ("another hook, by the sweep", &from_sweep, swept(60, "logs"), true),
        ("a spot notice", &from_sweep, spot("e2", 70), true),
        ("the sweep, of what an event brought", &from_event, swept(60, "drain"), false),
        ("the sweep, of another hook", &from_event, swept(60, "logs"), true),
    ] {
        assert_eq!(recognize(node, &interruption), !joins, "{name}");
        match take_on(node, &interruption, 95) {
            None => assert!(!joins, "{name}"),
            Some(after) => {
                assert!(joins, "{name}");
                assert_eq!(entries(&after).len(), 2, "{name}");
            }
        }
    }
    assert_eq!(entries(&from_sweep), [("sweep:2026-01-01T00:01:00Z:drain".to_owned(), None)]);
}

#[test]
fn after_the_release_only_a_wait_that_began_later_is_another_action() {
    let swept_before = release_node(&take_on(&node(), &swept(10, "drain"), 11).unwrap(), 50);
    let by_event = release_node(&take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap(), 50);
    let restore = |node: &Node| Node { unschedulable: false, taints: Vec::new(), ..node.clone() };
    for (name, interruption, is_new) in [
        ("first seen before the release", swept(49, "drain"), false),
        ("first seen at the release", swept(50, "drain"), false),
        ("first seen after it", swept(51, "drain"), true),
        ("its own event, late", hook("e1", 0, "drain", "t1"), false),
        ("an action that began after that wait", hook("e2", 20, "drain", "t2"), true),
    ] {
        for node in [&swept_before, &by_event, &restore(&swept_before), &restore(&by_event)] {
            assert_eq!(take_on(node, &interruption, 70).is_some(), is_new, "{name}");
        }
    }
    let later = hook("e2", 60, "drain", "t2");
    assert!(take_on(&swept_before, &later, 61).is_some(), "a later action of the same hook");
}

#[test]
fn a_later_event_of_the_hook_joins_what_the_sweep_found_before_a_boot() {
    let mut booted = take_on(&node(), &swept(10, "drain"), 11).unwrap();
    booted.boot_id = Some("boot-2".into());
    let late = hook("e1", 5, "drain", "t1");
    assert!(take_on(&booted, &late, 100).is_none(), "the late event of that wait");
    let joined = take_on(&booted, &hook("e2", 90, "drain", "t2"), 100).unwrap();
    assert_eq!(entries(&joined).len(), 2);
    assert!(matches!(status(&joined, None), RecordStatus::Open(_)));
}

#[test]
fn an_instance_waits_for_another_action_if_each_of_its_hook_in_the_record_is_over() {
    let one = take_on(&node(), &hook("e1", 30, "drain", "t1"), 31).unwrap();
    let two = take_on(&one, &hook("e2", 40, "drain", "t2"), 41).unwrap();
    let found_before = take_on(&node(), &swept(50, "drain"), 51).unwrap();
    let mut of_other = swept(60, "drain");
    of_other.instance = id(OTHER);
    for (name, node, interruption, over, expected) in [
        ("its only action is over", &one, swept(60, "drain"), "t1", true),
        ("its only action may be open", &one, swept(60, "drain"), "", false),
        ("one of two may be open", &two, swept(60, "drain"), "t1", false),
        ("both are over", &two, swept(60, "drain"), "t1 t2", true),
        ("an action without a token may be open", &found_before, swept(60, "drain"), "t1", false),
        ("a hook that the record does not name", &one, swept(60, "logs"), "t1", false),
        ("an event of the hook", &one, hook("e3", 60, "drain", "t3"), "t1", false),
        ("another instance", &one, of_other, "t1", false),
        ("no record", &node(), swept(60, "drain"), "t1", false),
    ] {
        let is_over = |action: &LifecycleAction| {
            action.token.as_ref().is_some_and(|token| over.split(' ').any(|t| t == token.as_str()))
        };
        assert_eq!(is_another_wait(node, &interruption, is_over), expected, "{name}");
    }
}

#[test]
fn another_wait_joins_an_open_record_and_replaces_a_released_one() {
    let found = swept(60, "drain");
    let open = take_on(&node(), &hook("e1", 30, "drain", "t1"), 31).unwrap();
    // The sweep first saw it before the release.
    let released = release_node(&open, 70);
    let restored = Node { unschedulable: false, taints: Vec::new(), ..released.clone() };
    let is_over = |action: &LifecycleAction| action.token == Some(LifecycleToken::from("t1"));
    let options = AcceptOptions { is_another_wait: true, ..AcceptOptions::default() };
    for (name, node, count) in
        [("open", &open, 2), ("released", &released, 1), ("restored", &restored, 1)]
    {
        assert!(recognize(node, &found) && is_another_wait(node, &found, is_over), "{name}");
        assert!(take_on(node, &found, 95).is_none(), "{name}: without that answer of AWS");
        let after = take_on_with(node, &found, 95, &options).unwrap();
        assert_eq!(entries(&after).len(), count, "{name}");
        assert_eq!(entries(&after).last().unwrap().0, found.event_id, "{name}");
        // If the answer to the PATCH was lost, this shows that it had its effect.
        assert!(recognize(&after, &found) && !is_another_wait(&after, &found, is_over), "{name}");
    }
}

#[test]
fn a_record_shows_for_what_each_of_its_actions_keeps_the_instance_waiting() {
    let ends = hook("e1", 30, "drain", "t1");
    let (mut into_pool, mut root_volume) =
        (hook("e2", 40, "drain", "t2"), hook("e3", 50, "drain", "t3"));
    let (Cause::Terminate(pooled), Cause::Terminate(replaced)) =
        (&mut into_pool.cause, &mut root_volume.cause)
    else {
        panic!()
    };
    pooled.destination = Some(PoolEnd::WarmPool);
    replaced.purpose = HookPurpose::ReplaceRootVolume;
    let mut with_all = node();
    for interruption in [&ends, &into_pool, &root_volume] {
        with_all = take_on(&with_all, interruption, 60).unwrap();
    }
    let purpose = |node: &Node, interruption: &Interruption| {
        let record = Record::read(node.record().unwrap()).unwrap();
        record.wait_purpose(&interruption.lifecycle_action(&id(INSTANCE)).unwrap())
    };
    for (interruption, expected) in [
        (&ends, Some(WaitPurpose::LaunchOrEnd)),
        (&into_pool, Some(WaitPurpose::IntoWarmPool)),
        (&root_volume, Some(WaitPurpose::NewRootVolume)),
        (&hook("e4", 60, "drain", "t4"), None),
    ] {
        assert_eq!(purpose(&with_all, interruption), expected, "{interruption:?}");
    }
    // The sweep knows no tokens: two actions of a hook have the same name.
    let found = swept(60, "drain");
    let mut found_later = swept(90, "drain");
    let Cause::Terminate(pooled) = &mut found_later.cause else { panic!() };
    pooled.destination = Some(PoolEnd::WarmPool);
    let one = take_on(&node(), &found, 61).unwrap();
    assert_eq!(purpose(&one, &found), Some(WaitPurpose::LaunchOrEnd));
    let options = AcceptOptions { is_another_wait: true, ..AcceptOptions::default() };
    let both = take_on_with(&one, &found_later, 91, &options).unwrap();
    assert_eq!(entries(&both).len(), 2);
    assert_eq!(purpose(&both, &found), None, "it may be either");
}

#[test]
fn an_accept_of_what_the_sweep_found_is_recognized_when_its_answer_was_lost() {
    let interruption = swept(60, "drain");
    let after = take_on(&node(), &interruption, 61).unwrap();
    assert!(recognize(&after, &interruption) && !recognize(&node(), &interruption));
    let mut other = interruption;
    other.instance = id(OTHER);
    assert!(!recognize(&after, &other));
}
