//! When the evictions of a drain begin (`--evict-after`).

use std::{collections::BTreeMap, sync::Arc};

use super::{deadlines::taken, *};

fn facts(kind: Kind, accepted: i64) -> InterruptionFacts {
    taken(kind, accepted, accepted)
}

fn limits(force_at: Option<i64>) -> Limits {
    Limits { force_at: force_at.map(at), ..Limits::without_deadline(at(0), false) }
}

fn by_kind(given: &[&str]) -> EvictAfterByKind {
    let given: Vec<KindEvictAfter> = given.iter().map(|text| text.parse().unwrap()).collect();
    EvictAfterByKind::new(&given).unwrap()
}

#[test]
fn evictions_wait_for_the_first_of_delay_replacement_and_half_of_the_time() {
    use EvictionStart::{At, Now, ReplacementReady};
    let (ten_minutes, ready) = ("terminate-hook=10m", "terminate-hook=replacement-ready");
    for (given, force_at, now, is_replaced, expected) in [
        (vec![], Some(3600), 0, false, Now),
        (vec!["rebalance=10m"], Some(3600), 0, false, Now),
        (vec![ten_minutes], Some(3600), 0, false, At(at(600))),
        (vec![ten_minutes], Some(3600), 599, false, At(at(600))),
        (vec![ten_minutes], Some(3600), 600, false, Now),
        (vec![ten_minutes], Some(600), 0, false, At(at(300))),
        (vec![ready], Some(3600), 0, false, ReplacementReady(at(1800))),
        (vec![ready], Some(3600), 1799, false, ReplacementReady(at(1800))),
        (vec![ready], Some(3600), 1800, false, Now),
        (vec![ready], Some(3600), 1, true, Now),
        (vec![ready], Some(300), 0, false, ReplacementReady(at(150))),
        (vec![ready], Some(299), 0, false, Now),
        (vec![ready], None, 0, false, ReplacementReady(at(1800))),
    ] {
        let found = eviction_start(
            &limits(force_at),
            &[facts(Kind::TerminateHook, 0)],
            &by_kind(&given),
            is_replaced,
            at(now),
        );
        assert_eq!(found, expected, "{given:?} {force_at:?} at {now}, {is_replaced}");
    }
}

#[test]
fn an_interruption_that_does_not_wait_begins_the_evictions_of_all() {
    use EvictionStart::{At, Now, ReplacementReady};
    let both = ["terminate-hook=replacement-ready", "rebalance=5m"];
    let hook = || facts(Kind::TerminateHook, 0);
    let not_drained = InterruptionFacts { response: Response::Cordon, ..hook() };
    for (interruptions, expected) in [
        (vec![], Now),
        (vec![hook(), facts(Kind::StateChange, 60)], Now),
        (vec![InterruptionFacts { kind: None, ..hook() }], Now),
        (vec![not_drained.clone()], Now),
        (vec![not_drained, facts(Kind::Rebalance, 60)], At(at(360))),
        (vec![hook(), facts(Kind::Rebalance, 60)], ReplacementReady(at(360))),
    ] {
        let found =
            eviction_start(&limits(Some(3600)), &interruptions, &by_kind(&both), false, at(61));
        assert_eq!(found, expected, "{interruptions:?}");
    }
    let urgent = Limits { urgent: true, ..limits(Some(3600)) };
    assert_eq!(eviction_start(&urgent, &[hook()], &by_kind(&both), false, at(0)), Now);
}

/// A Ready Node that was created at `created`. The number is that of its instance.
fn member(n: u8, created: i64) -> Node {
    Node {
        created: Some(at(created)),
        instance: Some(format!("i-{n:017x}").parse().unwrap()),
        ..Node::for_test(&format!("node-{n}"))
    }
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), value: None, effect: effect.to_owned(), time_added: None }
}

fn tainted(mut node: Node, key: &str, effect: &str) -> Node {
    node.taints.push(taint(key, effect));
    node
}

/// Whether instance 5 of a group that wants `desired` instances is replaced. `others`: the other
/// instances of the group with their lifecycle states and Nodes. Its own taint is of the group.
fn replaced(state: &str, desired: impl Into<Option<usize>>, others: &[(&str, &Node)]) -> bool {
    let id = |node: &Node| node.instance.as_ref().unwrap().to_string();
    let drained = tainted(member(5, -1000), "dedicated", "NoSchedule");
    let mut members = BTreeMap::from([(id(&drained), state.to_owned())]);
    members.extend(others.iter().map(|(state, node)| (id(node), (*state).to_owned())));
    let nodes = others.iter().map(|(_, node)| (*node).clone());
    let nodes: Vec<_> = nodes.chain([drained.clone()]).map(Arc::new).collect();
    let capacity = GroupCapacity::new(desired.into(), BTreeMap::new());
    is_replaced(drained.instance.as_ref().unwrap(), at(0), &capacity, &members, &nodes)
}

#[test]
fn a_node_that_auto_scaling_terminates_is_replaced_when_the_group_has_all_that_it_wants() {
    for number in [3, 9] {
        is_replaced_by(&member(number, 50));
    }
}

fn is_replaced_by(new: &Node) {
    let old = member(2, -500);
    let not_ready = Node { ready: Ready::False, ..new.clone() };
    let cordoned = Node { unschedulable: true, ..new.clone() };
    let starting = tainted(new.clone(), "node.cilium.io/agent-not-ready", "NoExecute");
    let dedicated = tainted(new.clone(), "dedicated", "NoSchedule");
    let hinted = tainted(new.clone(), "maybe", "PreferNoSchedule");
    for (case, desired, state, node, expected) in [
        ("it is there", 2, "InService", new, true),
        ("it waits in a launch hook", 2, "Pending:Wait", new, true),
        ("it is not in service yet", 2, "Pending", new, false),
        ("it is in standby", 2, "Standby", new, false),
        ("it has the taint of its group", 2, "InService", &dedicated, true),
        ("it has a taint that keeps no pod away", 2, "InService", &hinted, true),
        ("it is not Ready", 2, "InService", &not_ready, false),
        ("it has a startup taint", 2, "InService", &starting, false),
        ("it is cordoned while it launches", 2, "Pending:Wait", &cordoned, false),
        ("a person has cordoned it: none will come", 2, "InService", &cordoned, true),
    ] {
        let others = [("InService", &old), (state, node)];
        assert_eq!(replaced("Terminating:Wait", desired, &others), expected, "{case}");
    }
    let one = [("InService", &old)];
    assert!(!replaced("Terminating:Wait", 2, &one), "nothing came");
    assert!(replaced("Terminating:Wait", 1, &one), "the group has become smaller");
    assert!(replaced("Terminating:Wait", 0, &[]), "the group is to be empty");
    let came = [("InService", &old), ("InService", new)];
    assert!(replaced("Terminating:Wait", None, &came), "the group counts vCPUs, and one came");
    assert!(!replaced("Terminating:Wait", None, &one), "the group counts vCPUs, and none came");
}

#[test]
fn each_new_node_lets_one_more_of_the_nodes_that_go_begin() {
    let (old, new) = (member(2, -500), member(9, 50));
    let (first, last) = (member(1, -900), member(8, -900));
    let going = |node| ("Terminating:Wait", node);
    // Of the two that go, one is replaced: that of the smaller id begins.
    assert!(replaced(
        "Terminating:Wait",
        3,
        &[going(&last), ("InService", &old), ("InService", &new)]
    ));
    assert!(!replaced(
        "Terminating:Wait",
        3,
        &[going(&first), ("InService", &old), ("InService", &new)]
    ));
}

#[test]
fn a_node_that_its_group_still_counts_is_replaced_by_a_new_one() {
    let (old, new) = (member(2, -500), member(9, 0));
    let draining = tainted(member(1, -900), TAINT, "NoSchedule");
    let replaced = |others: &[(&str, &Node)]| replaced("InService", 3, others);
    assert!(!replaced(&[("InService", &old)]));
    assert!(replaced(&[("InService", &old), ("InService", &new)]));
    let both_go = [("InService", &draining), ("InService", &new)];
    assert!(!replaced(&both_go), "the new one is for the node that goes first");
}
