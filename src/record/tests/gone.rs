use super::*;

const BOTH: GoneNodes = GoneNodes { taint: true, delete: true };
const TAINT_ONLY: GoneNodes = GoneNodes { taint: true, delete: false };
const DELETE_ONLY: GoneNodes = GoneNodes { taint: false, delete: true };

fn drained(event: &Interruption) -> Node {
    release_node(&take_on(&node(), event, 105).unwrap(), 200)
}

fn root_volume() -> Interruption {
    let mut action = hook("e1", 100, "drain", "t1");
    if let Cause::Terminate(action) = &mut action.cause {
        action.purpose = HookPurpose::ReplaceRootVolume;
    }
    action
}

#[test]
fn only_the_end_of_an_instance_that_its_record_terminates_is_awaited() {
    let by_hook = drained(&hook("e1", 100, "drain", "t1"));
    let spot_action = |action| event("e1", 100, Cause::Spot(action));
    let without_taint = Node { taints: Vec::new(), ..by_hook.clone() };
    let joined = |first: &Interruption, second: &Interruption| {
        release_node(&take_on(&take_on(&node(), first, 105).unwrap(), second, 110).unwrap(), 200)
    };
    let only = |response| {
        let options = AcceptOptions { response, ..AcceptOptions::default() };
        release_node(&take_on_with(&node(), &spot("e1", 100), 105, &options).unwrap(), 200)
    };
    for (case, node, expected) in [
        ("a terminate hook", by_hook.clone(), true),
        ("a spot notice", drained(&spot("e1", 100)), true),
        ("it shuts down", drained(&state("e1", 100, InstanceState::ShuttingDown)), true),
        ("its drain goes on", take_on(&node(), &spot("e1", 100), 105).unwrap(), false),
        ("no record", node(), false),
        ("a warm pool", drained(&to_pool()), false),
        ("a new root volume", drained(&root_volume()), false),
        ("it stops", drained(&state("e1", 100, InstanceState::Stopping)), false),
        ("spot stops it", drained(&spot_action(SpotAction::Stop)), false),
        ("spot hibernates it", drained(&spot_action(SpotAction::Hibernate)), false),
        ("only a rebalance recommendation", drained(&event("e1", 100, Cause::Rebalance)), false),
        (
            "a rebalance recommendation, then spot",
            joined(&event("e1", 100, Cause::Rebalance), &spot("e2", 101)),
            true,
        ),
        (
            "it stops, and then its group terminates it",
            joined(&state("e1", 100, InstanceState::Stopping), &hook("e2", 101, "drain", "t1")),
            true,
        ),
        (
            "its group terminates it, and it stops after that",
            joined(&hook("e1", 100, "drain", "t1"), &state("e2", 101, InstanceState::Stopping)),
            true,
        ),
        ("a new root volume, then spot", joined(&root_volume(), &spot("e2", 101)), false),
        ("another boot", Node { boot_id: Some("boot-2".into()), ..by_hook.clone() }, false),
        ("another instance", Node { instance: Some(id(OTHER)), ..by_hook.clone() }, false),
        ("an unknown instance", Node { instance: None, ..by_hook.clone() }, false),
        ("restored by a person", without_taint, false),
        ("uncordoned by a person", Node { unschedulable: false, ..by_hook }, false),
        ("only cordoned", only(Response::Cordon), false),
        ("only tainted", only(Response::Prefer), false),
    ] {
        assert_eq!(awaited_termination(&node, BOTH).is_some(), expected, "{case}");
    }
}

#[test]
fn a_node_is_tainted_and_then_deleted_only_once_ec2_shows_that_its_instance_is_gone() {
    use InstanceState::{Running, ShuttingDown, Stopped, Terminated};
    let ready = drained(&spot("e1", 100));
    let silent = Node { ready: Ready::Unknown, ..ready.clone() };
    let awaited = awaited_termination(&ready, BOTH).unwrap();
    let step = |node: &Node, found: Option<&InstanceFacts>, wanted, now| {
        awaited.next(node, found, 1, wanted, at(now))
    };
    for state in [Running, ShuttingDown, Stopped] {
        let wait = GoneStep::Wait(GoneWait::State(state));
        assert_eq!(step(&silent, Some(&facts(state)), BOTH, 300), wait);
    }
    let gone = facts(Terminated);
    let several = awaited.next(&silent, Some(&gone), 2, BOTH, at(300));
    assert_eq!(several, GoneStep::Wait(GoneWait::SeveralNodes), "it may be another machine");
    // A wrong region or account would look like this.
    assert_eq!(step(&silent, None, BOTH, 300), GoneStep::Wait(GoneWait::NotKnown));
    assert_eq!(step(&silent, Some(&gone), DELETE_ONLY, 300), GoneStep::Delete);
    // A kubelet keeps the Node that it finds under its name, with the providerID of the machine
    // before it.
    assert_eq!(step(&ready, Some(&gone), BOTH, 300), GoneStep::Wait(GoneWait::Ready));
    let found = Some(&gone);
    let GoneStep::Taint(patch) = step(&silent, found, BOTH, 300) else { panic!("not tainted") };
    let tainted = apply(&silent, &patch);
    let new = tainted.taints.last().unwrap();
    assert_eq!(
        (new.key.as_str(), new.value.as_deref(), new.effect.as_str()),
        ("node.kubernetes.io/out-of-service", Some("nodeshutdown"), "NoExecute")
    );
    assert_eq!(tainted.taints.len(), silent.taints.len() + 1, "the others stay");
    assert_eq!(awaited_termination(&tainted, BOTH).as_ref(), Some(&awaited));
    assert_eq!(awaited_termination(&tainted, TAINT_ONLY), None, "EC2 is not asked for nothing");
    assert_eq!(step(&tainted, found, TAINT_ONLY, 900), GoneStep::Done);
    let just = GoneStep::Wait(GoneWait::Tainted);
    assert_eq!(step(&tainted, found, BOTH, 359), just, "its pods go first");
    assert_eq!(step(&tainted, found, BOTH, 360), GoneStep::Delete);
}

#[test]
fn after_an_hour_the_end_of_an_instance_is_no_longer_awaited() {
    let awaited = awaited_termination(&drained(&spot("e1", 100)), BOTH).unwrap();
    assert!(!awaited.is_given_up(at(200 + 3_599), true));
    assert!(awaited.is_given_up(at(200 + 3_600), true));
    assert!(!awaited.is_given_up(at(200 + 3_600), false), "a new leader asks once");
}
