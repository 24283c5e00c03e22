use proptest::prelude::*;

use super::*;

fn interruptions() -> impl Strategy<Value = Interruption> {
    let cause = prop_oneof![
        Just(Cause::Spot(SpotAction::Stop)),
        (0..9_000_i64).prop_map(|n| Cause::CapacityReservation { ends: Some(at(n)) }),
        (0..9_000_i64).prop_map(|n| Cause::CapacityBlock { ends: Some(at(n)) }),
        prop_oneof![
            Just(InstanceState::Stopping),
            Just(InstanceState::ShuttingDown),
            Just(InstanceState::Terminated)
        ]
        .prop_map(Cause::StateChange),
        ("[ab]", prop::option::of("[tuv]")).prop_map(|(hook, token)| Cause::Terminate(
            HookAction {
                group: "asg".into(),
                hook: hook.as_str().into(),
                token: token.map(Into::into),
                origin: None,
                destination: None,
                purpose: HookPurpose::Ordinary,
                metadata: None,
            }
        )),
        Just(Cause::Rebalance),
    ];
    ("[0-9]{0,2}", prop::option::of(-300..300_i64), cause).prop_map(|(event_id, time, cause)| {
        Interruption { instance: id(INSTANCE), event_id, time: time.map(at), cause }
    })
}

fn nodes() -> impl Strategy<Value = Node> {
    let taints = prop::collection::vec(
        (
            prop_oneof!["[a-c]".boxed(), Just(TAINT.to_owned()).boxed()],
            prop::option::of("[x-z]"),
            "NoSchedule|NoExecute",
        ),
        0..5,
    );
    let label = prop::option::of(prop_oneof![Just("theirs".to_owned()), Just(String::new())]);
    (any::<bool>(), taints, label).prop_map(|(unschedulable, taints, label)| Node {
        unschedulable,
        taints: taints
            .into_iter()
            .map(|(key, value, effect)| Taint { key, value, effect, time_added: None })
            .collect(),
        labels: std::sync::Arc::new(
            label.into_iter().map(|v| (EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), v)).collect(),
        ),
        ..node()
    })
}

fn foreign_taints(node: &Node) -> Vec<&Taint> {
    node.taints.iter().filter(|t| t.key != TAINT).collect()
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_accepted_node_is_restored(
        mut before in nodes(), all in prop::collection::vec((interruptions(), 0..600_i64), 1..6),
        label: bool
    ) {
        before.taints.retain(|t| t.key != TAINT);
        let options = AcceptOptions { exclude: label, ..AcceptOptions::default() };
        let mut node = before.clone();
        for (interruption, now) in &all {
            node = take_on_with(&node, interruption, *now, &options).unwrap_or(node);
        }
        let after = apply(&node, &restore_node(&node, None, &After::Removed).unwrap());
        prop_assert_eq!(
            Node { resource_version: String::new(), ..after },
            Node { resource_version: String::new(), ..before }
        );
    }

    #[test]
    fn no_patch_drops_or_reorders_foreign_taints_or_touches_a_foreign_label(
        mut node in nodes(),
        all in prop::collection::vec((interruptions(), 0..600_i64, any::<bool>()), 1..6),
    ) {
        let options = AcceptOptions { exclude: true, ..AcceptOptions::default() };
        let theirs = node.labels.clone();
        for (interruption, now, then_release) in &all {
            let was = node.clone();
            node = take_on_with(&node, interruption, *now, &options).unwrap_or(node);
            if *then_release && let Some(body) = release(&node, &Released::new(at(*now), "empty")) {
                node = apply(&node, &body);
            }
            prop_assert_eq!(foreign_taints(&was), foreign_taints(&node));
            prop_assert_eq!(node.taints.iter().filter(|t| t.key == TAINT).count(), 1);
            prop_assert!(theirs.is_empty() || theirs == node.labels);
        }
    }

    #[test]
    fn every_accepted_hook_has_an_open_action(
        all in prop::collection::vec((interruptions(), 0..600_i64), 1..12)
    ) {
        let mut held = node();
        let mut names = std::collections::BTreeSet::new();
        for (interruption, now) in &all {
            held = take_on(&held, interruption, *now).unwrap_or(held);
            names.extend(interruption.hook().map(|h| format!("asg/{}", h.hook)));
            prop_assert_eq!(open_actions(&held), names.iter().cloned().collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_accepted_interruption_is_recognized_and_is_a_repeat(
        all in prop::collection::vec((interruptions(), 0..600_i64), 1..6)
    ) {
        let mut node = node();
        for (interruption, now) in &all {
            if let Some(next) = take_on(&node, interruption, *now) {
                prop_assert!(recognize(&next, interruption));
                prop_assert_eq!(take_on(&next, interruption, *now), None);
                node = next;
            }
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_with_all_unknown_fields(
        extra in prop::collection::vec(json_values(), 4),
        all in prop::collection::vec((interruptions(), 0..600_i64), 1..6),
    ) {
        let mut node = node();
        for (interruption, now) in &all {
            node = take_on(&node, interruption, *now).unwrap_or(node);
        }
        let mut text: Value = serde_json::from_str(release_node(&node, 900).record().unwrap()).unwrap();
        for (at, value) in ["", "/before", "/interruptions/0", "/released"].into_iter().zip(extra) {
            text.pointer_mut(at).unwrap().as_object_mut().unwrap().insert("new".into(), value);
        }
        let record = Record::read(&text.to_string()).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&record.write()).unwrap(), text);
        prop_assert_eq!(Record::read(&record.write()).unwrap(), record);
    }

    #[test]
    fn no_annotation_causes_a_panic(
        text in prop_oneof![".*", json_values().prop_map(|v| v.to_string())],
        interruption in interruptions()
    ) {
        let mut node = node();
        set_record(&mut node, &text);
        prop_assert!(matches!(status(&node, None), RecordStatus::Damaged(_)));
        prop_assert!(take_on(&node, &interruption, 1).is_some());
        prop_assert_eq!(restore_node(&node, None, &After::Removed), None);
    }
}
