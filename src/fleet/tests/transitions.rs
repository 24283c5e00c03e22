//! The effects of each change of a node.

use super::*;
use crate::{
    domain::{Annotations, KEEP_CORDONED, RECORD, RELEASE, TAINT},
    lifecycle::ActionSeen,
    record::{
        After, Released, restore_node,
        tests::{apply, hook, node, release_node, spot, take_on},
    },
};

/// A Node with the record of one lifecycle action.
pub(super) fn held() -> Node {
    take_on(&node(), &hook("e1", 0, "drain", "t1"), 0).unwrap()
}

pub(super) fn newer(node: &Node) -> Node {
    let version = node.resource_version.parse::<u64>().unwrap() + 1;
    Node { resource_version: version.to_string(), ..node.clone() }
}

pub(super) fn without_record(node: &Node) -> Node {
    let mut node = newer(node);
    node.annotations.remove(RECORD);
    node
}

fn without_taint(mut node: Node) -> Node {
    node.taints.retain(|taint| taint.key != TAINT);
    node
}

fn with(node: &Node, annotation: &str) -> Node {
    let mut node = newer(node);
    node.annotations.insert(annotation, "true");
    node
}

/// A Node whose drain goes on, in a fleet without other drains. AWS has accepted a heartbeat.
pub(super) fn draining() -> (World, Node) {
    let (mut world, node) = unverified();
    assert!(world.sees("drain", "t1", ActionSeen::Open).is_empty());
    (world, node)
}

/// The same before AWS has answered.
pub(super) fn unverified() -> (World, Node) {
    let (mut world, node) = (World::confirmed(), held());
    assert_eq!(world.accepts(&node), ["keep alive", "watch pods"]);
    (world, node)
}

const ENDED: [&str; 2] = ["unwatch pods", "complete"];

#[test]
fn an_empty_node_is_completed_after_the_shortest_time_of_a_drain() {
    let (mut world, node) = draining();
    assert!(world.pods(&node, drain::Input::Listed(Vec::new())).is_empty());
    assert!(world.after(4).is_empty());
    assert_eq!(world.after(1), ENDED);
    assert!(world.after(100).is_empty(), "once");
}

#[test]
fn a_repeat_changes_nothing_and_the_action_of_an_interruption_that_joins_gets_heartbeats() {
    let (mut world, node) = draining();
    assert!(world.accepts(&node).is_empty());
    let joined = take_on(&node, &hook("e2", 1, "other", "t2"), 1).unwrap();
    assert_eq!(world.accepts(&joined), ["keep alive", "keep alive"]);
}

#[test]
fn a_person_or_another_leader_can_end_a_drain_by_a_change_of_its_node() {
    type Change = fn(&Node) -> Node;
    let rows: [(&str, Change, &[&str]); 6] = [
        ("its release is asked for", |node| with(node, RELEASE), &ENDED),
        (
            "it has the annotation sundown.dev/ignore",
            |node| with(node, "sundown.dev/ignore"),
            &ENDED,
        ),
        ("the record is marked as released", |node| release_node(node, 5), &ENDED),
        (
            "it has neither a record nor the taint",
            |node| without_taint(without_record(node)),
            &ENDED,
        ),
        ("only the record was deleted", without_record, &["write back"]),
        ("the drain is paused", |node| with(node, "sundown.dev/pause"), &[]),
    ];
    for (row, change, expected) in rows {
        let (mut world, node) = draining();
        assert_eq!(world.shows(&change(&node)), expected, "{row}");
    }
}

#[test]
fn a_record_is_written_back_once_and_its_second_deletion_ends_the_drain() {
    let (mut world, node) = draining();
    let deleted = without_record(&node);
    assert_eq!(world.shows(&deleted), ["write back"]);
    assert!(world.shows(&newer(&deleted)).is_empty(), "the record is being written");
    let back = Node { annotations: node.annotations.clone(), ..newer(&newer(&deleted)) };
    assert!(world.shows(&back).is_empty());
    assert_eq!(world.shows(&without_record(&back)), ENDED);
}

#[test]
fn a_deleted_node_is_completed_from_memory_and_its_record_is_written_when_the_instance_registers_again()
 {
    let (mut world, node) = draining();
    let ended = world.deletes(&node);
    assert!(ended.contains(&"complete"), "{ended:?}");
    let again = Node { uid: "uid-2".to_owned(), ..crate::record::tests::node() };
    assert_eq!(world.shows(&again), ["register"]);
    let (mut world, node) = draining();
    world.deletes(&node);
    // The record is forgotten after 15 minutes.
    world.accepts(
        &take_on(
            &Node { name: "b".into(), uid: "uid-b".to_owned(), ..crate::record::tests::node() },
            &spot("e9", 0),
            0,
        )
        .unwrap(),
    );
    world.after(901);
    assert!(!world.shows(&again).contains(&"register"));
}

#[test]
fn a_node_that_claimed_the_instance_before_its_node_was_deleted_does_not_get_the_record() {
    let (mut world, node) = draining();
    let plain = crate::record::tests::node;
    let claimant = Node { name: "b".into(), uid: "uid-b".to_owned(), ..plain() };
    world.shows(&claimant);
    let ended = world.deletes(&node);
    assert!(ended.contains(&"complete"), "{ended:?}");
    assert!(world.shows(&newer(&claimant)).is_empty(), "it has not registered since");
    let again = Node { uid: "uid-2".to_owned(), ..plain() };
    assert_eq!(world.shows(&again), ["register"]);
    // The fleet sees the new Node of the same name before it hears of the deletion.
    let (mut world, _) = draining();
    assert!(world.shows(&again).contains(&"register"));
}

#[test]
fn a_leader_that_takes_over_a_deleted_node_completes_it_although_another_node_claims_its_instance()
{
    let plain = crate::record::tests::node;
    let node = held();
    let deleted = LastKnownNode {
        node: Arc::new(node.clone()),
        instance: id(INSTANCE),
        record: crate::record::Record::read(node.record().unwrap()).unwrap(),
        at: at(0),
    };
    let other = |created: i64| Node {
        name: "b".into(),
        uid: "uid-b".to_owned(),
        created: Some(at(created)),
        ..plain()
    };
    let rows = [
        ("it claimed the instance before the accept", other(-60), false),
        ("the machine has registered under a new name", other(60), true),
    ];
    for (row, other, gets_record) in rows {
        let mut world = World::unconfirmed();
        world.facts.with(|known| {
            known.deleted_nodes.push(deleted.clone());
            known.nodes.insert(other.name.clone(), Arc::new(other.clone()));
        });
        let listed = Input::Unschedulable { version: "100".to_owned(), nodes: Vec::new() };
        let mut follows = words(&world.step(listed));
        follows.extend(words(&world.step(Input::NodeRead { name: node.name.clone(), node: None })));
        follows.extend(world.shows(&newer(&other)));
        assert_eq!(follows.contains(&"register"), gets_record, "{row}: {follows:?}");
        assert_eq!(follows.contains(&"complete"), !gets_record, "{row}: {follows:?}");
    }
}

#[test]
fn before_the_list_of_the_term_a_record_in_the_index_only_gets_heartbeats() {
    let (mut world, node) = (World::unconfirmed(), held());
    assert_eq!(world.shows(&node), ["keep alive"]);
    assert!(world.after(60).is_empty());
    let listed =
        Input::Unschedulable { version: "100".to_owned(), nodes: vec![Arc::new(node.clone())] };
    assert_eq!(words(&world.step(listed)), ["keep alive", "watch pods"]);
}

#[test]
fn a_record_that_was_deleted_while_nobody_led_is_written_back_although_the_index_still_shows_it() {
    let (mut world, node) = (World::unconfirmed(), held());
    assert_eq!(world.shows(&node), ["keep alive"]);
    let list = |node: &Node| Input::Unschedulable {
        version: "100".to_owned(),
        nodes: vec![Arc::new(node.clone())],
    };
    let deleted = without_record(&node);
    let follows = words(&world.step(list(&deleted)));
    assert!(follows.contains(&"write back"), "{follows:?}");
    let read =
        || Input::NodeRead { name: node.name.clone(), node: Some(Arc::new(deleted.clone())) };
    assert_eq!(words(&world.step(read())), ["stop keep alive"]);
    assert!(world.shows(&deleted).is_empty(), "the index catches up");
    let back = Node { annotations: node.annotations.clone(), ..newer(&deleted) };
    assert_eq!(world.accepts(&back), ["keep alive", "watch pods"]);
    // Another leader has restored the Node.
    let mut world = World::unconfirmed();
    world.shows(&node);
    let follows = words(&world.step(list(&without_taint(deleted))));
    assert!(!follows.contains(&"write back"), "{follows:?}");
}

#[test]
fn a_record_that_was_deleted_before_the_machine_booted_while_nobody_led_is_written_back_and_void() {
    let drained = take_on(&node(), &spot("e1", 0), 1).unwrap();
    let deleted = LastKnownNode {
        node: Arc::new(drained.clone()),
        instance: id(INSTANCE),
        record: crate::record::Record::read(drained.record().unwrap()).unwrap(),
        at: at(0),
    };
    let booted = Node { boot_id: Some("boot-2".to_owned()), ..without_record(&drained) };
    for (row, node, is_written_back) in [
        ("it has the taint", booted.clone(), true),
        ("a person has removed the taint, too", without_taint(booted.clone()), false),
    ] {
        let mut world = World::unconfirmed();
        world.facts.with(|known| {
            known.deleted_nodes.push(deleted.clone());
            known.nodes.insert(node.name.clone(), Arc::new(node.clone()));
        });
        let nodes = vec![Arc::new(node.clone())];
        let listed = Input::Unschedulable { version: "100".to_owned(), nodes };
        let follows = words(&world.step(listed));
        let written = follows.iter().filter(|word| **word == "write back").count();
        assert_eq!(written, usize::from(is_written_back), "{row}: {follows:?}");
        if is_written_back {
            let back = Node { annotations: drained.annotations.clone(), ..newer(&node) };
            assert_eq!(world.shows(&back), ["restored"], "{row}");
        }
    }
}

#[test]
fn a_node_with_a_record_that_the_list_lacks_is_read_before_anything_else_is_done() {
    let (mut world, node) = (World::unconfirmed(), held());
    assert_eq!(world.shows(&node), ["keep alive"]);
    let listed = Input::Unschedulable { version: "100".to_owned(), nodes: Vec::new() };
    let follows = words(&world.step(listed));
    assert!(follows.contains(&"read the node") && !follows.contains(&"watch pods"), "{follows:?}");
    let restored = without_taint(without_record(&node));
    let read = Input::NodeRead { name: node.name.clone(), node: Some(Arc::new(restored)) };
    assert_eq!(words(&world.step(read)), ["stop keep alive"], "another leader has restored it");
}

#[test]
fn a_record_of_an_earlier_boot_counts_if_one_of_its_actions_is_open() {
    let booted = || Node { boot_id: Some("boot-2".to_owned()), ..held() };
    for (is_valid, expected) in
        [(true, vec!["keep alive", "watch pods"]), (false, vec!["restored"])]
    {
        let mut world = World::confirmed();
        assert_eq!(world.accepts(&booted()), ["ask for open actions"]);
        let answer = Input::Doubt { node: booted().name, uid: booted().uid, is_valid };
        assert_eq!(words(&world.step(answer)), expected, "{is_valid}");
    }
}

#[test]
fn the_actions_of_a_doubted_record_that_the_next_interruption_replaces_are_not_forgotten() {
    let booted = Node { boot_id: Some("boot-2".to_owned()), ..held() };
    let plain = Node { annotations: Annotations::default(), taints: Vec::new(), ..newer(&booted) };
    let replaced = take_on(&plain, &hook("e2", 5, "other", "t2"), 5).unwrap();
    let doubted = || {
        let mut world = World::confirmed();
        assert_eq!(world.accepts(&booted), ["ask for open actions"]);
        assert_eq!(world.accepts(&replaced), ["keep alive", "watch pods"]);
        world
    };
    let answer =
        |is_valid| Input::Doubt { node: booted.name.clone(), uid: booted.uid.clone(), is_valid };
    assert_eq!(words(&doubted().step(answer(true))), ["carry over"]);
    assert!(words(&doubted().step(answer(false))).is_empty());
    let mut settled = doubted();
    assert_eq!(words(&settled.step(answer(true))), ["carry over"]);
    settled.facts.with(|known| known.nodes.remove(&replaced.name));
    let effects = settled.step(Input::NodeDeleted(Arc::new(replaced.clone())));
    let completed = effects.iter().map(|effect| match effect {
        Effect::Complete(completion) => completion.actions.len(),
        _ => 0,
    });
    assert_eq!(completed.sum::<usize>(), 2, "both, before the record is written");
    // A third record lacks the hooks of both.
    let later =
        Node { annotations: Annotations::default(), taints: Vec::new(), ..newer(&replaced) };
    let third = take_on(&later, &hook("e3", 6, "third", "t3"), 6).unwrap();
    let mut twice = doubted();
    assert_eq!(words(&twice.step(answer(true))), ["carry over"]);
    let follows = twice.shows(&third);
    assert!(follows.contains(&"carry over"), "{follows:?}");
    let follows = twice.shows(&newer(&third));
    assert!(!follows.contains(&"carry over"), "it is ordered once: {follows:?}");
    let mut ended = doubted();
    assert_eq!(ended.shows(&release_node(&replaced, 9)), ENDED);
    assert_eq!(words(&ended.step(answer(true))), ["complete"], "while the other is completed");
    let mut over = doubted();
    over.shows(&release_node(&replaced, 9));
    let (node, uid) = (replaced.name.clone(), replaced.uid.clone());
    over.step(Input::CompletionDone { node, uid, is_node_deleted: false });
    assert_eq!(words(&over.step(answer(true))), ["complete"], "after the other is completed");
    let completed = doubted().deletes(&replaced);
    let completions = completed.iter().filter(|word| **word == "complete").count();
    assert_eq!(completions, 2, "the open action of each record: {completed:?}");
}

#[test]
fn the_instance_of_a_node_is_looked_up_again_when_the_index_shows_the_node_later() {
    let node = Node { instance: None, ..held() };
    let mut world = World::confirmed();
    assert_eq!(world.shows(&node), ["ask which instance"]);
    assert!(world.shows(&newer(&node)).is_empty(), "the instance is being looked up");
    world.facts.with(|known| known.nodes.clear());
    assert!(words(&world.step(Input::InstanceLookupEnded(node.name.clone()))).is_empty());
    assert_eq!(world.shows(&newer(&newer(&node))), ["ask which instance"]);
    let named = Input::InstanceFound { node: node.name.clone(), instance: id(INSTANCE) };
    assert_eq!(words(&world.step(named)), ["keep alive", "watch pods"]);
}

#[test]
fn the_loss_of_a_record_is_reported_once_for_each_node() {
    let mut world = World::confirmed();
    let lost = without_record(&held());
    for _ in 0..2 {
        let reports = |effects: Vec<Effect>| {
            let is_loss = |effect: &&Effect| {
                matches!(
                    effect, Effect::Report(_, event) if matches!(
                        **event, DrainEvent::RecordLost { .. }
                    )
                )
            };
            effects.iter().filter(is_loss).count()
        };
        assert_eq!(reports(world.step(Input::NodeApplied(Arc::new(lost.clone())))), 1);
        assert_eq!(reports(world.step(Input::NodeApplied(Arc::new(lost.clone())))), 0);
        world.deletes(&lost);
    }
}

#[test]
fn a_pause_and_its_end_are_reported() {
    let (mut world, node) = draining();
    let pauses = |effects: Vec<Effect>| {
        let paused = |effect: &Effect| match effect {
            Effect::PausedAll(paused) => Some(("all", *paused)),
            Effect::Report(_, event) => match **event {
                DrainEvent::PauseAnnotation(paused) => Some(("one", paused)),
                _ => None,
            },
            _ => None,
        };
        effects.iter().filter_map(paused).collect::<Vec<_>>()
    };
    let paused = with(&node, "sundown.dev/pause");
    assert_eq!(pauses(world.step(Input::NodeApplied(Arc::new(paused.clone())))), [("one", true)]);
    let resumed = Node { annotations: node.annotations.clone(), ..newer(&paused) };
    assert_eq!(pauses(world.step(Input::NodeApplied(Arc::new(resumed)))), [("one", false)]);
    assert_eq!(pauses(world.step(Input::PausedAll(true))), [("all", true)]);
    assert_eq!(pauses(world.step(Input::PausedAll(false))), [("all", false)]);
}

#[test]
fn an_empty_node_is_completed_also_while_all_drains_are_paused() {
    let (mut world, node) = draining();
    assert!(words(&world.step(Input::PausedAll(true))).is_empty());
    world.pods(&node, drain::Input::Listed(Vec::new()));
    assert_eq!(world.after(5), ENDED);
}

#[test]
fn nodes_of_one_instance_are_completed_when_the_last_of_them_is_empty() {
    let (mut world, first) = draining();
    let second = Node { name: "b".into(), uid: "uid-b".to_owned(), ..held() };
    assert_eq!(world.accepts(&second), ["keep alive", "watch pods"]);
    world.pods(&first, drain::Input::Listed(Vec::new()));
    world.now += 5;
    let ends = |effects: Vec<Effect>| {
        let may_begin = |effect: &Effect| match effect {
            Effect::Complete(completion) => Some(completion.from.is_some()),
            Effect::CompleteFrom(_, from) => Some(from.is_some()),
            _ => None,
        };
        effects.iter().filter_map(may_begin).collect::<Vec<_>>()
    };
    assert_eq!(ends(world.step(Input::Tick)), [false], "it waits for the other node");
    assert_eq!(
        ends(world.step(Input::Pods(second.name, drain::Input::Listed(Vec::new())))),
        [true, true]
    );
}

#[test]
fn a_completion_waits_for_the_complete_delay_of_each_node_of_its_instance() {
    let (mut world, first) = draining();
    world.fleet.settings.complete_delay = crate::domain::seconds(7);
    let second = Node { name: "b".into(), uid: "uid-b".to_owned(), ..held() };
    world.accepts(&second);
    world.pods(&first, drain::Input::Listed(Vec::new()));
    assert_eq!(world.after(5), ENDED);
    world.now += 10;
    let effects = world.step(Input::Pods(second.name, drain::Input::Listed(Vec::new())));
    let begins = effects.iter().filter_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion.from),
        Effect::CompleteFrom(_, from) => Some(*from),
        _ => None,
    });
    assert_eq!(begins.collect::<Vec<_>>(), [Some(at(22)), Some(at(22))]);
}

#[test]
fn an_action_that_joins_a_drain_that_is_over_waits_for_the_complete_delay_of_the_other_node() {
    let mut world = World::confirmed();
    world.fleet.settings.complete_delay = crate::domain::seconds(7);
    let first = take_on(&node(), &spot("s1", 0), 0).unwrap();
    let second = Node { name: "b".into(), uid: "uid-b".to_owned(), ..held() };
    world.accepts(&first);
    world.accepts(&second);
    world.pods(&first, drain::Input::Listed(Vec::new()));
    assert_eq!(world.after(5), ["unwatch pods", "write the end"]);
    // The end of the first drain is not written yet. Its record gets the action of the second node.
    world.accepts(&take_on(&first, &hook("e1", 0, "drain", "t1"), 5).unwrap());
    world.now += 10;
    let effects = world.step(Input::Pods(second.name, drain::Input::Listed(Vec::new())));
    let begins = effects.iter().filter_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion.from),
        Effect::CompleteFrom(_, from) => Some(*from),
        _ => None,
    });
    assert_eq!(begins.collect::<Vec<_>>(), [Some(at(22)), Some(at(22))]);
}

/// The number of actions and the time in seconds of each [`Effect::DrainResumed`]; `None` in a pause.
fn take_overs(effects: &[Effect]) -> Vec<(usize, Option<i64>)> {
    let resumed_at = |effect: &Effect| match effect {
        Effect::DrainResumed { actions, at: up, .. } => {
            Some((actions.len(), up.map(|up| up.as_second() - at(0).as_second())))
        }
        _ => None,
    };
    effects.iter().filter_map(resumed_at).collect()
}

#[test]
fn the_time_of_a_drain_counts_from_its_accept_and_anew_from_each_resume() {
    let (mut world, node) = (World::confirmed(), held());
    let accept = |node: &Node| Input::Accepted {
        node: Arc::new(node.clone()),
        instance: id(INSTANCE),
        instance_has_ended: false,
    };
    assert_eq!(take_overs(&world.step(accept(&node))), [(1, Some(0))]);
    world.now = 100;
    assert_eq!(take_overs(&world.step(Input::PausedAll(true))), [(1, None)]);
    world.now = 150;
    let joined = take_on(&node, &hook("e2", 1, "other", "t2"), 1).unwrap();
    assert_eq!(take_overs(&world.step(accept(&joined))), [(2, None)], "it joins in the pause");
    world.now = 200;
    assert_eq!(take_overs(&world.step(Input::PausedAll(false))), [(2, Some(200))]);
    let paused = Input::NodeApplied(Arc::new(with(&joined, "sundown.dev/pause")));
    assert_eq!(take_overs(&world.step(paused)), [(2, None)], "only this node");
}

#[test]
fn a_node_that_a_person_keeps_cordoned_is_restored_once_the_annotation_is_gone() {
    let mut world = World::confirmed();
    let drained = take_on(&node(), &spot("e1", 0), 1).unwrap();
    let mut kept = drained.clone();
    kept.boot_id = Some("boot-2".into());
    kept.annotations.insert(KEEP_CORDONED, "true");
    let none: [&str; 0] = [];
    assert_eq!(world.shows(&kept), none, "its record is void");
    assert_eq!(world.shows(&kept), none);
    let mut free = kept.clone();
    free.annotations.remove(KEEP_CORDONED);
    assert_eq!(world.shows(&free), ["restored"]);
    assert_eq!(world.shows(&free), none, "once");

    let mut world = World::confirmed();
    let mut kept = release_node(&drained, 50);
    kept.annotations.insert(KEEP_CORDONED, "true");
    assert_eq!(world.shows(&kept), none, "nothing is to be restored");
    let after = After::Released(Released::new(at(60), "returned"));
    let held = apply(&kept, &restore_node(&kept, None, &after).unwrap());
    assert_eq!(world.shows(&held), none);
    let mut free = held.clone();
    free.annotations.remove(KEEP_CORDONED);
    assert_eq!(world.shows(&free), ["restored"]);
    assert_eq!(world.shows(&free), none, "once");
    assert_eq!(world.shows(&held), none, "kept again before that was written");
    assert_eq!(world.shows(&free), ["restored"]);
}

#[test]
fn an_action_that_is_completed_gets_no_heartbeats_when_an_interruption_joins() {
    let (mut world, node) = draining();
    world.pods(&node, drain::Input::Listed(Vec::new()));
    assert_eq!(world.after(5), ENDED);
    let action = hook("e1", 0, "drain", "t1").lifecycle_action(&id(INSTANCE)).unwrap();
    let (name, uid) = (node.name.clone(), node.uid.clone());
    world.step(Input::ActionsClosed { node: name, uid, actions: vec![action] });
    let joined = take_on(&node, &hook("e2", 6, "other", "t2"), 6).unwrap();
    let kept = world.accepts(&joined).into_iter().filter(|word| *word == "keep alive").count();
    assert_eq!(kept, 1, "only the other action is open");
}

#[test]
fn an_interruption_that_joins_a_completion_restarts_no_heartbeats_of_the_actions_that_it_covers() {
    let (mut world, node) = draining();
    world.pods(&node, drain::Input::Listed(Vec::new()));
    assert_eq!(world.after(5), ENDED);
    // Nothing is completed yet, but AWS may have shown that the first hook is another party's.
    let joined = take_on(&node, &hook("e2", 6, "other", "t2"), 6).unwrap();
    let effects = world.step(Input::Accepted {
        node: Arc::new(joined),
        instance: id(INSTANCE),
        instance_has_ended: false,
    });
    let kept = effects.iter().filter_map(|effect| match effect {
        Effect::KeepAlive { action, .. } => Some(action.key.hook.as_str()),
        _ => None,
    });
    assert_eq!(kept.collect::<Vec<_>>(), ["other"]);
}
