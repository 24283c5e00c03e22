use std::collections::BTreeSet;

use super::*;

fn key(token: &str) -> LifecycleAction {
    let key = HookKey { group: "asg".into(), hook: "drain".into(), instance: id(INSTANCE) };
    LifecycleAction { key, token: Some(token.into()) }
}

/// A name for each [`OnEnd`].
fn word(on_end: &OnEnd) -> &'static str {
    match on_end {
        OnEnd::Nothing => "nothing",
        OnEnd::Restore { uses_held_record: true } => "restored by the held record",
        OnEnd::Restore { uses_held_record: false } => "restored",
        OnEnd::Complete(..) => "complete first",
        OnEnd::Reopen => "reopen",
        OnEnd::Write { is_held: true, .. } => "released and held",
        OnEnd::Write { is_restored: true, .. } => "released and restored",
        OnEnd::Write { is_restored: false, .. } => "released",
    }
}

struct Case {
    node: Node,
    why: EndReason,
    disproved: &'static [&'static str],
    is_completed: bool,
}

fn on_end(case: &Case) -> OnEnd {
    let open = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let record = Record::read(open.record().unwrap()).unwrap();
    let disproved = case.disproved.iter().map(ToString::to_string).collect();
    let done: BTreeSet<_> = case.is_completed.then(|| key("t1")).into_iter().collect();
    let instance = id(INSTANCE);
    let drain = EndedDrain {
        instance: &instance,
        record: &record,
        why: case.why,
        disproved: &disproved,
        done: &done,
    };
    drain.on_end(
        &case.node,
        |record| record.open_actions(&id(INSTANCE)),
        &Released::new(at(50), "empty"),
    )
}

#[test]
fn the_end_that_is_written_depends_on_the_reason_of_the_end_and_on_the_record_of_the_node() {
    use EndReason::{ByHand, InstanceGoes, NothingHolds};
    let of_hook = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let of_notice = take_on(&node(), &spot("e1", 0), 1).unwrap();
    let of_both = take_on(&of_hook, &spot("e2", 5), 6).unwrap();
    let mut deleted = of_hook.clone();
    deleted.annotations.remove(RECORD);
    let mut cleaned = deleted.clone();
    cleaned.taints.clear();
    let mut damaged = of_hook.clone();
    set_record(&mut damaged, "{");
    let released = release_node(&of_hook, 40);
    let restored = apply(
        &of_hook,
        &restore_node(&of_hook, None, &After::Released(Released::new(at(40), "stale"))).unwrap(),
    );
    let mut returned = released.clone();
    returned.boot_id = Some("boot-2".into());
    let mut rebooted = of_hook.clone();
    rebooted.boot_id = Some("boot-2".into());
    let ordered = |node: &Node| {
        let mut node = node.clone();
        node.annotations.insert(RELEASE, "true");
        node
    };
    for (what, node, why, disproved, is_completed, expected) in [
        (
            "an open action is completed before the end is written",
            &of_hook,
            InstanceGoes,
            &[][..],
            false,
            "complete first",
        ),
        ("the instance goes", &of_hook, InstanceGoes, &[], true, "released"),
        ("a notice has no lifecycle action", &of_notice, InstanceGoes, &[], false, "released"),
        (
            "the machine has booted, and the hook was proved open",
            &rebooted,
            InstanceGoes,
            &[],
            true,
            "released",
        ),
        (
            "a person asked for the release as the drain ended, no action",
            &ordered(&of_notice),
            InstanceGoes,
            &[],
            false,
            "released and restored",
        ),
        (
            "a person asked for the release as the drain ended, the action is completed first",
            &ordered(&of_hook),
            InstanceGoes,
            &[],
            false,
            "complete first",
        ),
        (
            "a person asked for the release as the drain ended, the action was completed",
            &ordered(&of_hook),
            InstanceGoes,
            &[],
            true,
            "released",
        ),
        ("released by hand, no action", &of_notice, ByHand, &[], false, "released and restored"),
        (
            "released by hand, the action is completed first",
            &of_hook,
            ByHand,
            &[],
            false,
            "complete first",
        ),
        (
            "released by hand, the action was completed: the instance goes",
            &of_hook,
            ByHand,
            &[],
            true,
            "released",
        ),
        ("disproved", &of_hook, NothingHolds, &["e1"], false, "released and restored"),
        (
            "disproved, and another interruption has joined",
            &of_both,
            NothingHolds,
            &["e1"],
            false,
            "reopen",
        ),
        (
            "disproved, both of them",
            &of_both,
            NothingHolds,
            &["e1", "e2"],
            false,
            "released and restored",
        ),
        (
            "the record was deleted, and the drain ended by itself",
            &deleted,
            InstanceGoes,
            &[],
            true,
            "released",
        ),
        (
            "the record was deleted, no action was open, and the drain ended by itself",
            &deleted,
            InstanceGoes,
            &[],
            false,
            "released",
        ),
        (
            "record and taint were removed, and the drain ended by itself",
            &cleaned,
            InstanceGoes,
            &[],
            true,
            "nothing",
        ),
        (
            "the record was deleted twice, and an action was completed",
            &deleted,
            ByHand,
            &[],
            true,
            "released",
        ),
        (
            "the record was deleted twice, and no action was open",
            &deleted,
            ByHand,
            &[],
            false,
            "restored by the held record",
        ),
        (
            "the record was deleted, and disproved",
            &deleted,
            NothingHolds,
            &["e1"],
            false,
            "restored by the held record",
        ),
        (
            "the record is damaged, and the instance goes",
            &damaged,
            InstanceGoes,
            &[],
            true,
            "nothing",
        ),
        (
            "the record is damaged, and an action was completed",
            &damaged,
            ByHand,
            &[],
            true,
            "nothing",
        ),
        (
            "the record is damaged, and no action was open",
            &damaged,
            ByHand,
            &[],
            false,
            "restored by the held record",
        ),
        (
            "the record is damaged, and disproved",
            &damaged,
            NothingHolds,
            &["e1"],
            false,
            "restored by the held record",
        ),
        ("somebody has written the end already", &released, InstanceGoes, &[], true, "nothing"),
        ("somebody has released it already, by hand", &released, ByHand, &[], true, "nothing"),
        (
            "somebody has released it already, and nothing holds",
            &released,
            NothingHolds,
            &["e1"],
            false,
            "released and restored",
        ),
        (
            "the answer to the write that restored it was lost",
            &restored,
            NothingHolds,
            &["e1"],
            false,
            "nothing",
        ),
        (
            "the machine has booted after its release, and nothing holds",
            &returned,
            NothingHolds,
            &["e1"],
            false,
            "restored",
        ),
    ] {
        let case = Case { node: node.clone(), why, disproved, is_completed };
        assert_eq!(word(&on_end(&case)), expected, "{what}");
    }
}

#[test]
fn a_node_with_a_written_end_is_never_drained_again() {
    let of_hook = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let mut deleted = of_hook.clone();
    deleted.annotations.remove(RECORD);
    for (node, why, is_completed) in [
        (of_hook.clone(), EndReason::InstanceGoes, true),
        (of_hook.clone(), EndReason::ByHand, true),
        (deleted.clone(), EndReason::ByHand, true),
        (deleted, EndReason::InstanceGoes, true),
        (take_on(&super::node(), &spot("e1", 0), 1).unwrap(), EndReason::ByHand, false),
    ] {
        let OnEnd::Write { patch, .. } =
            on_end(&Case { node: node.clone(), why, disproved: &[], is_completed })
        else {
            panic!("{why:?}")
        };
        let after = apply(&node, &patch);
        assert!(matches!(status(&after, None), RecordStatus::Released { .. }), "{why:?}");
    }
}
