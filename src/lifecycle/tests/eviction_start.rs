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
        name: format!("node-{n}").as_str().into(),
        uid: format!("uid-{n}"),
        resource_version: "1".to_owned(),
        created: Some(at(created)),
        instance: Some(format!("i-{n:017x}").parse().unwrap()),
        is_elsewhere: false,
        boot_id: None,
        unschedulable: false,
        taints: Vec::new(),
        labels: Arc::default(),
        annotations: BTreeMap::new(),
        ready: Ready::True,
        ready_since: None,
        dns: None,
        address: None,
    }
}

#[test]
fn a_node_is_replaced_by_a_new_one_of_its_group_or_if_the_group_has_all_that_it_wants() {
    let drained = member(1, -1000).instance.unwrap();
    let not_ready = |node| Node { ready: Ready::False, ..node };
    let cordoned = |node| Node { unschedulable: true, ..node };
    let tainted = |mut node: Node| {
        node.taints.push(Taint {
            key: TAINT.to_owned(),
            value: None,
            effect: "PreferNoSchedule".to_owned(),
            time_added: None,
        });
        node
    };
    let other_group = member(9, 50);
    for (case, desired, state, others, expected) in [
        ("nothing came", 2, "InService", vec![], false),
        ("only an older node is there", 2, "InService", vec![member(2, -500)], false),
        ("a new node", 2, "InService", vec![member(2, 50)], true),
        ("a new node of the same second", 2, "InService", vec![member(2, 0)], true),
        ("it waits in a launch hook", 2, "Pending:Wait", vec![member(2, 50)], true),
        ("it is about to end", 2, "Terminating:Wait", vec![member(2, 50)], false),
        ("it is not Ready", 2, "InService", vec![not_ready(member(2, 50))], false),
        ("it is cordoned", 2, "InService", vec![cordoned(member(2, 50))], false),
        ("it has Sundown's taint", 2, "InService", vec![tainted(member(2, 50))], false),
        ("it is of another group", 2, "InService", vec![other_group], false),
        ("the group has become smaller", 1, "InService", vec![member(2, -500)], true),
        ("the group is to be empty", 0, "InService", vec![], true),
    ] {
        let members: BTreeMap<String, String> = [(1, "Terminating:Wait"), (2, state)]
            .map(|(n, state)| (member(n, 0).instance.unwrap().to_string(), state.to_owned()))
            .into();
        let mut nodes: Vec<Arc<Node>> = others.into_iter().map(Arc::new).collect();
        nodes.push(Arc::new(member(1, 60)));
        assert_eq!(is_replaced(&drained, at(0), desired, &members, &nodes), expected, "{case}");
    }
}
