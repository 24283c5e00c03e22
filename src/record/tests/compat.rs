//! Taints and label of NTH beside Sundown's.

use super::*;

const ASKED: AcceptOptions = AcceptOptions {
    response: Response::Drain,
    exclude: true,
    stale: false,
    sent: None,
    current_limit: None,
    margin: std::time::Duration::ZERO,
    spot_margin: std::time::Duration::ZERO,
    compat: Some(Compat::Nth),
    unconfirmed: false,
    is_another_wait: false,
};

/// NTH's taints: key without its domain, value and effect.
fn theirs(node: &Node) -> Vec<(&str, &str, &str)> {
    let of_nth = |t: &'_ Taint| t.key.starts_with("aws-node-termination-handler/");
    node.taints
        .iter()
        .filter(|t| of_nth(t))
        .map(|t| (t.key.split_once('/').unwrap().1, t.value.as_deref().unwrap(), t.effect.as_str()))
        .collect()
}

#[test]
fn the_taint_of_each_kind_is_as_nth_writes_it() {
    // "spot-itn-event-" and the bytes of the id in hexadecimal digits, 63 characters at most.
    let long = "12345678-1234-1234-1234-123456789012";
    for (interruption, expected) in [
        (spot("e1", 0), vec![("spot-itn", "spot-itn-event-6531", "NoSchedule")]),
        (
            spot(long, 0),
            vec![(
                "spot-itn",
                "spot-itn-event-31323334353637382d313233342d313233342d313233342d",
                "NoSchedule",
            )],
        ),
        (
            hook("e1", 0, "drain", "t1"),
            vec![("asg-lifecycle-termination", "asg-lifecycle-term-6531", "NoSchedule")],
        ),
        (
            event("e1", 0, Cause::Rebalance),
            vec![("rebalance-recommendation", "rebalance-recommendation-event-6531", "NoSchedule")],
        ),
        (state("e1", 0, InstanceState::Stopping), vec![]),
        (event("e1", 0, Cause::CapacityReservation { ends: None }), vec![]),
    ] {
        let open = take_on_with(&node(), &interruption, 1, &ASKED).unwrap();
        assert_eq!(theirs(&open), expected, "{interruption:?}");
        assert!(theirs(&open).iter().all(|(_, value, _)| value.len() <= 63));
        assert!(
            open.has_our_taint() && open.taints.iter().any(|t| t.key == "dedicated"),
            "beside all other taints"
        );
        assert_eq!(open.labels[EXCLUDE_FROM_LOAD_BALANCERS], "aws-node-termination-handler");
        assert!(
            theirs(&take_on(&node(), &interruption, 1).unwrap()).is_empty(),
            "only with --compat nth"
        );
    }
}

#[test]
fn the_taints_and_the_label_of_nth_are_removed_with_ours() {
    let open = take_on_with(&node(), &spot("e1", 0), 1, &ASKED).unwrap();
    let joined = take_on_with(&open, &hook("e2", 2, "drain", "t1"), 3, &ASKED).unwrap();
    assert_eq!(
        theirs(&joined).iter().map(|(key, ..)| *key).collect::<Vec<_>>(),
        ["spot-itn", "asg-lifecycle-termination"]
    );
    for drained in [open, joined] {
        let mut without_ours = drained.clone();
        without_ours.taints.retain(|t| t.key != TAINT);
        for drained in [drained, without_ours] {
            let after = apply(&drained, &restore_node(&drained, None, &After::Removed).unwrap());
            assert_eq!(
                (&after.taints, &after.labels, after.unschedulable),
                (&node().taints, &node().labels, false)
            );
        }
    }
}

#[test]
fn a_released_node_keeps_the_taints_of_nth_as_it_keeps_ours() {
    let open = take_on_with(&node(), &hook("e1", 0, "drain", "t1"), 1, &ASKED).unwrap();
    let released = release_node(&open, 50);
    assert_eq!((released.taints, released.labels), (open.taints, open.labels));
}

#[test]
fn taints_and_label_that_nth_itself_left_behind_stay() {
    let mut before = node();
    before.taints.push(taint(
        "aws-node-termination-handler/spot-itn",
        "spot-itn-event-old",
        "NoSchedule",
    ));
    std::sync::Arc::make_mut(&mut before.labels)
        .insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), "aws-node-termination-handler".into());
    for asked in [ASKED, AcceptOptions { exclude: true, ..AcceptOptions::default() }] {
        let open = take_on_with(&before, &spot("e1", 0), 1, &asked).unwrap();
        assert_eq!(
            theirs(&open),
            [("spot-itn", "spot-itn-event-old", "NoSchedule")],
            "one for each key"
        );
        let after = apply(&open, &restore_node(&open, None, &After::Removed).unwrap());
        assert_eq!((&after.taints, &after.labels), (&before.taints, &before.labels));
    }
}

#[test]
fn a_late_label_and_a_node_that_registers_again_follow_the_record() {
    let late = AcceptOptions { exclude: false, ..ASKED };
    let open = take_on_with(&node(), &hook("e1", 0, "drain", "t1"), 1, &late).unwrap();
    assert!(!open.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS));
    let labelled = apply(&open, &exclude(&open).unwrap());
    assert_eq!(labelled.labels[EXCLUDE_FROM_LOAD_BALANCERS], "aws-node-termination-handler");
    let RecordStatus::Open(record) = status(&labelled, None) else { panic!() };
    assert_eq!(record.compat(), Some(Compat::Nth));
    let fresh = Node { uid: "uid-2".into(), ..node() };
    let again = apply(&fresh, &reregister(&fresh, &id(INSTANCE), &record, &[]).unwrap());
    assert_eq!(theirs(&again), theirs(&open));
}
