//! What happens to a node, and what follows from it.

use super::*;
use crate::{
    domain::{RECORD, RELEASE, TAINT},
    record::tests::{hook, let_go, node, spot, take_on},
};

/// A Node with the record of one lifecycle action.
fn held() -> Node {
    take_on(&node(), &hook("e1", 0, "drain", "t1"), 0).unwrap()
}

fn newer(node: &Node) -> Node {
    let version = node.resource_version.parse::<u64>().unwrap() + 1;
    Node { resource_version: version.to_string(), ..node.clone() }
}

fn without_record(node: &Node) -> Node {
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
    node.annotations.insert(annotation.to_owned(), "true".to_owned());
    node
}

/// A Node whose drain goes on, in a fleet that knows of no other.
fn draining() -> (World, Node) {
    let (mut world, node) = (World::confirmed(), held());
    assert_eq!(world.accepts(&node), ["keep alive", "watch pods"]);
    (world, node)
}

const ENDED: [&str; 2] = ["unwatch pods", "complete"];

#[test]
fn an_empty_node_is_completed_after_the_least_time_of_a_drain() {
    let (mut world, node) = draining();
    assert!(world.pods(&node, drain::Input::Listed(Vec::new())).is_empty());
    assert!(world.after(4).is_empty());
    assert_eq!(world.after(1), ENDED);
    assert!(world.after(100).is_empty(), "once");
}

#[test]
fn a_repeat_changes_nothing_and_an_interruption_that_joins_is_kept_alive_too() {
    let (mut world, node) = draining();
    assert!(world.accepts(&node).is_empty());
    let joined = take_on(&node, &hook("e2", 1, "other", "t2"), 1).unwrap();
    assert_eq!(world.accepts(&joined), ["keep alive", "keep alive"]);
}

#[test]
fn what_a_person_or_another_leader_does_to_the_node_ends_its_drain() {
    type Change = fn(&Node) -> Node;
    let rows: [(&str, Change, &[&str]); 6] = [
        ("release is asked for", |node| with(node, RELEASE), &ENDED),
        ("it is to be left alone", |node| with(node, "sundown.dev/ignore"), &ENDED),
        ("the record says that it is released", |node| let_go(node, 5), &ENDED),
        ("neither record nor taint is there", |node| without_taint(without_record(node)), &ENDED),
        ("the record alone was deleted", without_record, &["bring back"]),
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
    assert_eq!(world.shows(&deleted), ["bring back"]);
    assert!(world.shows(&newer(&deleted)).is_empty(), "it is being written");
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
    // Nothing of it is left after 15 minutes.
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
fn before_the_list_of_the_term_a_record_in_the_index_is_only_kept_alive() {
    let (mut world, node) = (World::unconfirmed(), held());
    assert_eq!(world.shows(&node), ["keep alive"]);
    assert!(world.after(60).is_empty());
    let listed =
        Input::Unschedulable { version: "100".to_owned(), nodes: vec![Arc::new(node.clone())] };
    assert_eq!(words(&world.step(listed)), ["keep alive", "watch pods"]);
}

#[test]
fn a_record_that_the_list_lacks_is_read_before_anything_is_done() {
    let (mut world, node) = (World::unconfirmed(), held());
    assert_eq!(world.shows(&node), ["keep alive"]);
    let listed = Input::Unschedulable { version: "100".to_owned(), nodes: Vec::new() };
    let follows = words(&world.step(listed));
    assert!(follows.contains(&"read the node") && !follows.contains(&"watch pods"), "{follows:?}");
    let put_back = without_taint(without_record(&node));
    let read = Input::NodeRead { name: node.name.clone(), node: Some(Arc::new(put_back)) };
    assert_eq!(words(&world.step(read)), ["stop keep alive"], "another leader has put it back");
}

#[test]
fn a_record_of_an_earlier_boot_counts_if_one_of_its_actions_is_open() {
    let booted = || Node { boot_id: Some("boot-2".to_owned()), ..held() };
    for (counts, expected) in [(true, vec!["keep alive", "watch pods"]), (false, vec!["put back"])]
    {
        let mut world = World::confirmed();
        assert_eq!(world.accepts(&booted()), ["ask for open actions"]);
        let answer = Input::Doubt { node: booted().name, uid: booted().uid, counts };
        assert_eq!(words(&world.step(answer)), expected, "{counts}");
    }
}

#[test]
fn a_node_without_an_instance_is_asked_about_again_when_the_index_shows_it_later() {
    let node = Node { instance: None, ..held() };
    let mut world = World::confirmed();
    assert_eq!(world.shows(&node), ["ask which instance"]);
    assert!(world.shows(&newer(&node)).is_empty(), "it is being asked about");
    world.facts.with(|known| known.nodes.clear());
    assert!(words(&world.step(Input::NotNamed(node.name.clone()))).is_empty());
    assert_eq!(world.shows(&newer(&newer(&node))), ["ask which instance"]);
    let named = Input::Named { node: node.name.clone(), instance: id(INSTANCE) };
    assert_eq!(words(&world.step(named)), ["keep alive", "watch pods"]);
}

#[test]
fn a_loss_of_the_record_is_said_once_for_each_node_and_forgotten_with_it() {
    let mut world = World::confirmed();
    let lost = without_record(&held());
    for _ in 0..2 {
        let said = |effects: Vec<Effect>| {
            let is_loss = |effect: &&Effect| {
                matches!(
                    effect, Effect::Report(_, event) if matches!(
                        **event, DrainEvent::RecordLost { .. }
                    )
                )
            };
            effects.iter().filter(is_loss).count()
        };
        assert_eq!(said(world.step(Input::NodeApplied(Arc::new(lost.clone())))), 1);
        assert_eq!(said(world.step(Input::NodeApplied(Arc::new(lost.clone())))), 0);
        world.deletes(&lost);
    }
}

#[test]
fn a_pause_is_reported_and_taken_back() {
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
fn a_pause_of_all_drains_completes_an_empty_node_all_the_same() {
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
    assert_eq!(ends(world.step(Input::Tick)), [false], "it waits for the other");
    assert_eq!(
        ends(world.step(Input::Pods(second.name, drain::Input::Listed(Vec::new())))),
        [true, true]
    );
}
