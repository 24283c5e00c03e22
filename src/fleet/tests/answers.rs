//! What the answers of AWS and of the API server change: proofs of stale interruptions, returns,
//! silent kubelets, the take-over of several Nodes, and labels.

use super::{
    transitions::{draining, held, newer, without_record},
    *,
};
use crate::{
    domain::{EXCLUDE_FROM_LOAD_BALANCERS, Ready},
    record::{
        AcceptOptions, EndReason,
        tests::{hook, node, spot, take_on, take_on_with},
    },
};

/// A Node with the record of an interruption that was read after it had become stale.
fn stale(event: &str) -> Node {
    let options = AcceptOptions { stale: true, ..AcceptOptions::default() };
    take_on_with(&node(), &spot(event, 0), 300, &options).unwrap()
}

fn proof(node: &Node, event: &str, holds: bool) -> Input {
    Input::Proof { node: node.name.clone(), event: event.to_owned(), holds }
}

fn end_reasons(effects: &[Effect]) -> Vec<EndReason> {
    let reason = |effect: &Effect| match effect {
        Effect::Complete(completion) => Some(completion.end_reason),
        _ => None,
    };
    effects.iter().filter_map(reason).collect()
}

#[test]
fn a_stale_interruption_is_verified_once_and_ends_its_drain_only_if_it_is_disproved() {
    for (holds, expected) in [(true, vec![]), (false, vec![EndReason::NothingHolds])] {
        let (mut world, stale) = (World { now: 300, ..World::confirmed() }, stale("e1"));
        assert_eq!(world.accepts(&stale), ["watch pods", "verify"]);
        assert!(!world.shows(&newer(&stale)).contains(&"verify"), "it is being verified");
        assert_eq!(end_reasons(&world.step(proof(&stale, "e1", holds))), expected, "{holds}");
    }
}

#[test]
fn a_disproved_interruption_ends_no_drain_that_has_another_one() {
    let (mut world, stale) = (World { now: 300, ..World::confirmed() }, stale("e1"));
    world.accepts(&stale);
    let joined = take_on(&stale, &hook("e2", 300, "drain", "t1"), 301).unwrap();
    assert_eq!(world.accepts(&joined), ["keep alive"]);
    assert!(end_reasons(&world.step(proof(&joined, "e1", false))).is_empty());
}

#[test]
fn an_instance_that_is_in_service_again_ends_the_drain_if_none_of_its_interruptions_holds() {
    let rows: [(&str, &[&str], bool); 3] = [
        ("nothing else interrupts it", &["e1"], true),
        ("an event that is not in the record changes nothing", &["e9"], false),
        ("no event", &[], false),
    ];
    for (row, events, ends) in rows {
        let (mut world, node) = draining();
        let events: BTreeSet<String> = events.iter().map(|event| (*event).to_owned()).collect();
        let returned = |uid: &str| Input::Returned {
            node: node.name.clone(),
            uid: uid.to_owned(),
            events: events.clone(),
        };
        assert!(words(&world.step(returned("another"))).is_empty(), "{row}: another Node");
        let effects = world.step(returned(&node.uid));
        let expected = if ends { vec![EndReason::NothingHolds] } else { vec![] };
        assert_eq!(end_reasons(&effects), expected, "{row}");
    }
}

/// A node with one pod whose kubelet has been silent since the beginning, until the drain reads its
/// Node from the API server.
fn silent() -> (World, Node) {
    let (mut world, node) = draining();
    let pod =
        crate::domain::Pod { node: Some(node.name.clone()), ..crate::drain::tests::pod("web-0") };
    world.pods(&node, drain::Input::Watch(drain::WatchState::Open));
    world.pods(&node, drain::Input::Listed(vec![pod]));
    let silent = Node { ready: Ready::Unknown, ready_since: Some(at(0)), ..newer(&node) };
    world.shows(&silent);
    assert!(!world.after(59).contains(&"ask for the instance"), "not silent for a minute yet");
    assert!(world.after(2).contains(&"ask for the instance"));
    assert!(world.after(31).contains(&"read the silent node"), "half a minute more for the pods");
    (world, silent)
}

#[test]
fn a_silent_node_is_given_up_only_if_the_api_server_itself_shows_it_silent() {
    let read = |node: &Node, found: Option<Node>| Input::SilentNodeRead {
        node: node.name.clone(),
        uid: node.uid.clone(),
        found: found.map(Arc::new),
    };
    let (mut world, node) = silent();
    let reports = Node { ready: Ready::True, ..node.clone() };
    let effects = world.step(read(&node, Some(reports)));
    assert!(!words(&effects).contains(&"complete"), "its watch was dead");
    for found in [Some(silent().1), None] {
        let (mut world, node) = silent();
        let effects = words(&world.step(read(&node, found)));
        assert!(effects.contains(&"complete"), "{effects:?}");
    }
}

#[test]
fn ec2_is_asked_about_a_silent_node_only_until_its_kubelet_reports() {
    const STOP: &str = "stop asking for the instance";
    let (mut world, node) = silent();
    let reports = Node { ready: Ready::True, ready_since: Some(at(100)), ..newer(&node) };
    let effects = world.shows(&reports);
    assert!(effects.contains(&STOP) || world.after(1).contains(&STOP));

    let (mut world, node) = silent();
    let found = Some(Arc::new(Node { ready: Ready::True, ..node.clone() }));
    let (uid, name) = (node.uid.clone(), node.name.clone());
    let effects = world.step(Input::SilentNodeRead { node: name, uid, found });
    assert!(words(&effects).contains(&STOP), "the read shows that it reports");
}

#[test]
fn a_node_that_is_silent_with_many_others_is_given_up_only_if_ec2_shows_that_its_instance_ends() {
    let (mut world, node) = draining();
    world.facts.with(|known| known.silent = 9);
    world.shows(&Node { ready: Ready::Unknown, ready_since: Some(at(0)), ..newer(&node) });
    assert!(world.after(61).contains(&"ask for the instance"));
    assert!(!world.after(120).contains(&"read the silent node"), "the network may be broken");
    let ends =
        Input::InstanceEnds { node: node.name.clone(), instance: id(INSTANCE), has_ended: false };
    assert!(words(&world.step(ends)).contains(&"complete"));
}

#[test]
fn a_stopping_instance_ends_a_drain_at_once_only_if_its_kubelet_is_silent() {
    let ends = |node: &Node, has_ended: bool| Input::InstanceEnds {
        node: node.name.clone(),
        instance: id(INSTANCE),
        has_ended,
    };
    let rows = [(false, false, false), (false, true, true), (true, false, true)];
    for (is_silent, has_ended, completes) in rows {
        let (mut world, node) = if is_silent { silent() } else { draining() };
        let effects = words(&world.step(ends(&node, has_ended)));
        let row = format!("silent {is_silent}, ended {has_ended}: {effects:?}");
        assert_eq!(effects.contains(&"complete"), completes, "{row}");
    }
}

#[test]
fn a_new_leader_takes_over_each_node_of_the_list_and_reads_those_that_the_list_lacks() {
    let name = |number: usize| NodeName::from(format!("node-{number}"));
    let of = |number: usize| {
        let instance = format!("i-0123456789abcde{number:02}");
        let plain = Node {
            name: name(number),
            uid: format!("uid-{number}"),
            instance: Some(id(&instance)),
            ..node()
        };
        let mut interruption = hook("e1", 0, "drain", "t1");
        interruption.instance = id(&instance);
        Arc::new(take_on(&plain, &interruption, 0).unwrap())
    };
    let (listed, lacking) = (vec![of(1), of(2)], of(3));
    let mut world = World::unconfirmed();
    world.facts.with(|known| {
        for node in listed.iter().chain([&lacking]) {
            known.nodes.insert(node.name.clone(), Arc::clone(node));
        }
    });
    let list = Input::Unschedulable { version: "100".to_owned(), nodes: listed };
    let mut effects = words(&world.step(list));
    effects.sort_unstable();
    effects.dedup_by(|a, b| a == b && *a == "keep alive");
    assert_eq!(effects, ["keep alive", "read the node", "watch pods", "watch pods"]);
    let read = Input::NodeRead { name: lacking.name.clone(), node: Some(Arc::clone(&lacking)) };
    assert!(words(&world.step(read)).contains(&"watch pods"), "somebody had uncordoned it");
}

#[test]
fn a_node_leaves_load_balancers_when_its_label_is_due_and_is_tried_again_where_there_is_no_room() {
    let rows: [(Exclusion, &[&str]); 3] =
        [(Exclusion::Never, &[]), (Exclusion::Early, &["exclude"]), (Exclusion::Late, &[])];
    for (exclude, expected) in rows {
        let (mut world, node) = (World::excluding(exclude), held());
        world.accepts(&node);
        let pod = crate::domain::Pod {
            node: Some(node.name.clone()),
            ..crate::drain::tests::pod("web-0")
        };
        world.pods(&node, drain::Input::Listed(vec![pod]));
        let is_label = |word: &&str| *word == "exclude";
        let labels: Vec<_> = world.after(0).into_iter().filter(is_label).collect();
        assert_eq!(labels, expected, "{exclude:?}");
    }
    let (mut world, node) = (World::excluding(Exclusion::Early), held());
    world.accepts(&node);
    assert!(world.after(0).contains(&"exclude"));
    assert!(!world.after(1).contains(&"exclude"), "the answer is waited for");
    world.step(Input::LabelWritten(node.name.clone(), LabelWrite::NoRoom));
    assert!(world.after(1).contains(&"exclude"), "there may be room by now");
    let mut labelled = newer(&node);
    Arc::make_mut(&mut labelled.labels)
        .insert(EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), "sundown".to_owned());
    world.step(Input::LabelWritten(node.name.clone(), LabelWrite::Seen(Arc::new(labelled))));
    assert!(!world.after(1).contains(&"exclude"), "it has the label");
}

#[test]
fn a_node_leaves_load_balancers_late_only_once_its_pods_may_be_evicted() {
    let (mut world, node) = (World::excluding(Exclusion::Late), held());
    world.accepts(&node);
    world.pods(&node, drain::Input::Listed(Vec::new()));
    assert!(!world.after(1).contains(&"exclude"), "AWS has not answered");
    world.sees("drain", "t1", crate::lifecycle::ActionSeen::Open);
    assert!(world.after(1).contains(&"exclude"));
}

#[test]
fn a_node_leaves_load_balancers_only_once_its_deleted_record_is_written_back() {
    let (mut world, node) = (World::excluding(Exclusion::Early), held());
    world.accepts(&node);
    let deleted = without_record(&node);
    assert_eq!(world.shows(&deleted), ["write back"]);
    assert!(!world.after(1).contains(&"exclude"), "nothing would show whose the label is");
    let back = Node { annotations: node.annotations.clone(), ..newer(&deleted) };
    world.shows(&back);
    assert!(world.after(1).contains(&"exclude"));
}
