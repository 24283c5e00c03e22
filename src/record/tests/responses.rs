//! What is written on a Node for each response (`--on`), and what is undone.

use super::*;

fn with(response: Response) -> AcceptOptions {
    AcceptOptions { response, ..AcceptOptions::default() }
}

fn rebalance(event_id: &str, time: i64) -> Interruption {
    event(event_id, time, Cause::Rebalance)
}

/// Whether the Node is cordoned, and the effect of Sundown's taint.
fn cordon_and_taint(node: &Node) -> (bool, Option<&str>) {
    let taint = node.taints.iter().find(|t| t.key == TAINT);
    (node.unschedulable, taint.map(|t| t.effect.as_str()))
}

fn restore(node: &Node) -> Node {
    let after = After::Released(Released::new(at(100), "expired"));
    apply(node, &restore_node(node, None, &after).unwrap())
}

#[test]
fn each_response_has_its_own_cordon_and_taint_and_is_in_the_record_unless_it_drains() {
    for (response, expected, recorded) in [
        (Response::Prefer, (false, Some("PreferNoSchedule")), Some("prefer")),
        (Response::Cordon, (true, Some("NoSchedule")), Some("cordon")),
        (Response::Drain, (true, Some("NoSchedule")), None),
    ] {
        let accepted = take_on_with(&node(), &rebalance("r", 0), 1, &with(response)).unwrap();
        assert_eq!(cordon_and_taint(&accepted), expected);
        let record: Value = serde_json::from_str(accepted.record().unwrap()).unwrap();
        assert_eq!(record["interruptions"][0]["response"].as_str(), recorded);
        assert_eq!(Record::read(accepted.record().unwrap()).unwrap().response(), response);
        let restored = restore(&accepted);
        assert_eq!(cordon_and_taint(&restored), (false, None));
        assert_eq!(restored.taints, node().taints, "other taints stay");
    }
}

#[test]
fn an_interruption_with_a_stronger_response_joins_and_sets_its_cordon_and_taint() {
    let accepted = take_on_with(&node(), &rebalance("r", 0), 1, &with(Response::Prefer)).unwrap();
    for response in [Response::Cordon, Response::Drain] {
        let joined = take_on_with(&accepted, &rebalance("r2", 5), 6, &with(response)).unwrap();
        assert_eq!(cordon_and_taint(&joined), (true, Some("NoSchedule")));
        assert_eq!(kinds(&joined).len(), 1, "it takes the place of the weaker one");
        assert_eq!(cordon_and_taint(&restore(&joined)), (false, None), "the cordon is Sundown's");
    }
    let spot_notice = take_on_with(&accepted, &spot("s", 5), 6, &with(Response::Drain)).unwrap();
    assert_eq!(our_taint(&spot_notice), Some("spot"));
}

#[test]
fn an_equal_or_weaker_response_without_an_earlier_end_is_a_repeat() {
    let drained = take_on(&node(), &spot("s", 0), 1).unwrap();
    for response in [Response::Prefer, Response::Cordon, Response::Drain] {
        assert_eq!(take_on_with(&drained, &rebalance("r", 1), 2, &with(response)), None);
    }
    let accepted = take_on_with(&node(), &rebalance("r", 0), 1, &with(Response::Prefer)).unwrap();
    assert_eq!(take_on_with(&accepted, &rebalance("r2", 9), 10, &with(Response::Prefer)), None);
}

#[test]
fn a_cordon_of_somebody_else_on_a_node_that_is_only_tainted_stays() {
    let tainted = take_on_with(&node(), &rebalance("r", 0), 1, &with(Response::Prefer)).unwrap();
    let cordoned = Node { unschedulable: true, ..tainted };
    assert_eq!(cordon_and_taint(&restore(&cordoned)), (true, None));
    let joined = take_on(&cordoned, &spot("s", 5), 6).unwrap();
    assert_eq!(cordon_and_taint(&restore(&joined)), (true, None), "also after a drain");
}

#[test]
fn a_node_that_a_person_uncordons_is_not_cordoned_again() {
    let drained = take_on(&node(), &spot("s", 0), 1).unwrap();
    let uncordoned = Node { unschedulable: false, ..drained };
    let joined = take_on(&uncordoned, &hook("h", 2, "drain", "t"), 3).unwrap();
    assert_eq!(cordon_and_taint(&joined), (false, Some("NoSchedule")));
}

#[test]
fn a_stronger_response_replaces_a_released_record_whose_taint_is_still_there() {
    for response in [Response::Prefer, Response::Cordon] {
        let accepted = take_on_with(&node(), &spot("s", 0), 1, &with(response)).unwrap();
        let ended = release_node(&accepted, 6);
        assert_eq!(take_on_with(&ended, &spot("s", 0), 7, &with(Response::Drain)), None, "a copy");
        let stopping = state("x", 10, InstanceState::Stopping);
        let drained = take_on(&ended, &stopping, 11).unwrap();
        assert!(matches!(status(&drained, None), RecordStatus::Open(_)));
        assert_eq!(
            cordon_and_taint(&restore(&drained)),
            (false, None),
            "what was before is not lost"
        );
        let cordoned = Node { unschedulable: true, ..ended };
        let drained = take_on(&cordoned, &stopping, 11).unwrap();
        let is_of_a_person = response == Response::Prefer;
        assert_eq!(cordon_and_taint(&restore(&drained)), (is_of_a_person, None), "{response:?}");
    }
}

#[test]
fn a_weaker_response_leaves_the_taint_of_an_earlier_drain_on_an_uncordoned_node() {
    let drained = take_on(&node(), &hook("h", 0, "drain", "t"), 1).unwrap();
    let uncordoned = Node { unschedulable: false, ..drained };
    let ended = release_node(&uncordoned, 6);
    let stopping = state("x", 10, InstanceState::Stopping);
    let accepted = take_on_with(&ended, &stopping, 11, &with(Response::Prefer)).unwrap();
    assert_eq!(cordon_and_taint(&accepted), (false, Some("NoSchedule")), "the instance still goes");
    assert_eq!(cordon_and_taint(&restore(&accepted)), (false, None));
    let terminated = state("y", 12, InstanceState::Terminated);
    let joined = take_on_with(&accepted, &terminated, 13, &with(Response::Prefer)).unwrap();
    assert_eq!(cordon_and_taint(&joined), (false, Some("NoSchedule")), "also for a second event");
    let mut lost = take_on(&node(), &hook("h", 0, "drain", "t"), 1).unwrap();
    lost.annotations = Annotations::default();
    let accepted = take_on_with(&lost, &stopping, 11, &with(Response::Prefer)).unwrap();
    assert_eq!(
        cordon_and_taint(&accepted),
        (true, Some("NoSchedule")),
        "a person deleted its record"
    );
    let booted = Node { boot_id: Some("boot-2".into()), ..ended };
    let accepted = take_on_with(&booted, &stopping, 11, &with(Response::Prefer)).unwrap();
    assert_eq!(
        cordon_and_taint(&accepted),
        (false, Some("PreferNoSchedule")),
        "the instance was back"
    );
    let cordoned = release_node(&take_on(&node(), &hook("h", 0, "drain", "t"), 1).unwrap(), 6);
    let waits = Node { boot_id: Some("boot-2".into()), ..cordoned };
    let accepted = take_on_with(&waits, &stopping, 11, &with(Response::Prefer)).unwrap();
    assert_eq!(
        cordon_and_taint(&accepted),
        (true, Some("NoSchedule")),
        "it waits until its instance is back"
    );
    assert_eq!(cordon_and_taint(&restore(&accepted)), (false, None));
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

#[test]
fn a_cordon_of_sundown_stays_its_own_when_the_machine_has_booted_since() {
    let drained = take_on(&node(), &spot("s", 0), 1).unwrap();
    let hooked =
        take_on_with(&drained, &hook("h", 2, "drain", "t"), 3, &with(Response::Prefer)).unwrap();
    let rebooted = Node { boot_id: Some("boot-2".into()), ..hooked };
    let joined = take_on(&rebooted, &hook("h2", 9, "other", "t2"), 10).unwrap();
    assert_eq!(cordon_and_taint(&restore(&joined)), (false, None));
}

#[test]
fn a_later_recommendation_takes_the_place_of_an_older_one() {
    let first = take_on_with(&node(), &rebalance("r", 0), 1, &with(Response::Prefer)).unwrap();
    let later = take_on_with(&first, &rebalance("r2", 600), 601, &with(Response::Prefer)).unwrap();
    let record = Record::read(later.record().unwrap()).unwrap();
    let facts = record.interruptions(&id(INSTANCE));
    assert_eq!((facts.len(), facts[0].event_id.as_str()), (1, "r2"));
    assert_eq!(take_on_with(&later, &rebalance("r", 0), 602, &with(Response::Prefer)), None);
    let drained = take_on(&later, &spot("s", 700), 701).unwrap();
    assert_eq!(take_on_with(&drained, &rebalance("r3", 800), 801, &with(Response::Prefer)), None);
}

#[test]
fn nth_taints_are_written_only_for_nodes_that_are_cordoned() {
    for (response, expected) in [(Response::Prefer, 0), (Response::Cordon, 1)] {
        let options = AcceptOptions { compat: Some(Compat::Nth), ..with(response) };
        let accepted = take_on_with(&node(), &rebalance("r", 0), 1, &options).unwrap();
        let is_nth = |t: &&Taint| t.key.starts_with("aws-node-termination-handler/");
        assert_eq!(accepted.taints.iter().filter(is_nth).count(), expected, "{response:?}");
        assert_eq!(restore(&accepted).taints, node().taints);
    }
}

#[test]
fn copies_of_events_that_an_earlier_version_recorded_are_repeats() {
    let stop = event("s", 0, Cause::Spot(SpotAction::Stop));
    let mut node = take_on(&node(), &stop, 1).unwrap();
    let text = node.record().unwrap().replace("spot-stop", "spot");
    set_record(&mut node, &text);
    assert_eq!(take_on(&node, &stop, 2), None);
    let restored = restore(&node);
    assert_eq!(take_on(&restored, &stop, 101), None, "a person has released the node");
}
