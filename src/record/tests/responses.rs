//! What is written on a Node for each response (`--on`), and what is undone.

use super::*;

fn with(response: Response) -> AcceptOptions {
    AcceptOptions { response, ..AcceptOptions::default() }
}

fn rebalance(event_id: &str, time: i64) -> Interruption {
    event(event_id, time, Cause::Rebalance)
}

/// Whether the Node is cordoned, and the effect of Sundown's taint.
fn marks(node: &Node) -> (bool, Option<&str>) {
    let taint = node.taints.iter().find(|t| t.key == TAINT);
    (node.unschedulable, taint.map(|t| t.effect.as_str()))
}

fn put_back(node: &Node) -> Node {
    let after = After::Released(Released::new(at(100), "expired"));
    apply(node, &restore_node(node, None, &after).unwrap())
}

#[test]
fn each_response_has_its_own_marks_and_is_in_the_record_unless_it_drains() {
    for (response, expected, recorded) in [
        (Response::Prefer, (false, Some("PreferNoSchedule")), Some("prefer")),
        (Response::Cordon, (true, Some("NoSchedule")), Some("cordon")),
        (Response::Drain, (true, Some("NoSchedule")), None),
    ] {
        let marked = take_on_with(&node(), &rebalance("r", 0), 1, &with(response)).unwrap();
        assert_eq!(marks(&marked), expected);
        let record: Value = serde_json::from_str(marked.record().unwrap()).unwrap();
        assert_eq!(record["interruptions"][0]["response"].as_str(), recorded);
        assert_eq!(Record::read(marked.record().unwrap()).unwrap().response(), response);
        let restored = put_back(&marked);
        assert_eq!(marks(&restored), (false, None));
        assert_eq!(restored.taints, node().taints, "other taints stay");
    }
}

#[test]
fn an_interruption_with_a_stronger_response_joins_and_sets_its_marks() {
    let marked = take_on_with(&node(), &rebalance("r", 0), 1, &with(Response::Prefer)).unwrap();
    for response in [Response::Cordon, Response::Drain] {
        let joined = take_on_with(&marked, &rebalance("r2", 5), 6, &with(response)).unwrap();
        assert_eq!(marks(&joined), (true, Some("NoSchedule")));
        assert_eq!(kinds(&joined).len(), 2);
        assert_eq!(marks(&put_back(&joined)), (false, None), "the cordon is Sundown's");
    }
    let spot_notice = take_on_with(&marked, &spot("s", 5), 6, &with(Response::Drain)).unwrap();
    assert_eq!(our_taint(&spot_notice), Some("spot"));
}

#[test]
fn an_equal_or_weaker_response_without_an_earlier_end_is_a_repeat() {
    let drained = take_on(&node(), &spot("s", 0), 1).unwrap();
    for response in [Response::Prefer, Response::Cordon, Response::Drain] {
        assert_eq!(take_on_with(&drained, &rebalance("r", 1), 2, &with(response)), None);
    }
    let marked = take_on_with(&node(), &rebalance("r", 0), 1, &with(Response::Prefer)).unwrap();
    assert_eq!(take_on_with(&marked, &rebalance("r2", 9), 10, &with(Response::Prefer)), None);
}

#[test]
fn a_cordon_of_somebody_else_on_a_node_that_is_only_tainted_stays() {
    let tainted = take_on_with(&node(), &rebalance("r", 0), 1, &with(Response::Prefer)).unwrap();
    let cordoned = Node { unschedulable: true, ..tainted };
    assert_eq!(marks(&put_back(&cordoned)), (true, None));
    let joined = take_on(&cordoned, &spot("s", 5), 6).unwrap();
    assert_eq!(marks(&put_back(&joined)), (true, None), "also after a drain");
}

#[test]
fn a_node_that_a_person_uncordons_is_not_cordoned_again() {
    let drained = take_on(&node(), &spot("s", 0), 1).unwrap();
    let uncordoned = Node { unschedulable: false, ..drained };
    let joined = take_on(&uncordoned, &hook("h", 2, "drain", "t"), 3).unwrap();
    assert_eq!(marks(&joined), (false, Some("NoSchedule")));
}

#[test]
fn a_stronger_response_replaces_a_released_record_whose_marks_are_still_there() {
    for response in [Response::Prefer, Response::Cordon] {
        let marked = take_on_with(&node(), &spot("s", 0), 1, &with(response)).unwrap();
        let ended = release_node(&marked, 6);
        assert_eq!(take_on_with(&ended, &spot("s", 0), 7, &with(Response::Drain)), None, "a copy");
        let stopping = state("x", 10, InstanceState::Stopping);
        let drained = take_on(&ended, &stopping, 11).unwrap();
        assert!(matches!(status(&drained, None), RecordStatus::Open(_)));
        assert_eq!(marks(&put_back(&drained)), (false, None), "what was before is not lost");
    }
}

#[test]
fn a_response_of_a_newer_version_drains_and_survives_a_rewrite() {
    let mut node = take_on_with(&node(), &spot("s", 0), 1, &with(Response::Cordon)).unwrap();
    let text = node.record().unwrap().replace("cordon", "evaporate");
    set_record(&mut node, &text);
    let record = Record::read(node.record().unwrap()).unwrap();
    assert_eq!(record.response(), Response::Drain);
    assert!(record.write().contains(r#""response":"evaporate""#));
}
