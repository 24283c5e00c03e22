use super::*;

fn restore(node: &Node) -> Node {
    apply(node, &restore_node(node, None, &After::Removed).unwrap())
}

/// What `kubectl describe node` shows of it.
fn appearance(node: &Node) -> (bool, &[Taint], &std::collections::BTreeMap<String, String>) {
    (node.unschedulable, &node.taints, &node.labels)
}

#[test]
fn a_released_record_shows_its_release_and_the_cordon_stays() {
    let mut open = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    open.annotations.insert(RELEASE, "true");
    open.annotations.insert(FORCE, "true");
    let released = release_node(&open, 50);
    assert!(released.unschedulable && released.has_our_taint());
    let is_ordered = released.released_by_hand() || released.forced_by_hand();
    assert!(!is_ordered, "the orders are for this drain, not for the next one");
    let RecordStatus::Released { record, has_our_changes: true } = status(&released, None) else {
        panic!()
    };
    assert_eq!(record.released(), Some(&Released::new(at(50), "empty")));
    assert_eq!(release(&released, &Released::new(at(60), "empty")), None, "once");
    assert_eq!(
        release(&node(), &Released::new(at(60), "empty")),
        None,
        "without a record there is nothing to release"
    );
}

#[test]
fn s23_a_node_cordoned_by_a_person_before_stays_cordoned_and_only_our_label_goes() {
    let asked = AcceptOptions { exclude: true, ..AcceptOptions::default() };
    let mut cordoned = node();
    cordoned.unschedulable = true;
    let mut labelled = node();
    std::sync::Arc::make_mut(&mut labelled.labels)
        .insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), "theirs".into());
    let mut bare = node();
    bare.taints.clear();
    for before in [node(), cordoned, labelled, bare] {
        let open = take_on_with(&before, &spot("e1", 0), 1, &asked).unwrap();
        let mut rebooted = open.clone();
        rebooted.boot_id = Some("boot-2".into());
        for drained in [open, rebooted] {
            let after = restore(&drained);
            assert_eq!(appearance(&after), appearance(&before));
            assert_eq!(after.annotations, before.annotations);
        }
    }
}

#[test]
fn a_node_that_booted_during_its_drain_keeps_cordon_and_taint_when_it_is_released_and_loses_them_at_the_next_boot()
 {
    let reboot = |node: &Node, boot: &str| Node { boot_id: Some(boot.into()), ..node.clone() };
    let open = reboot(&take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap(), "boot-2");
    let record = Record::read(open.record().unwrap()).unwrap();
    let mut deleted = open.clone();
    deleted.annotations.remove(RECORD);
    let written_back =
        apply(&deleted, &write_back_released(&deleted, &record, &Released::new(at(50), "empty")));
    for released in [release_node(&open, 50), written_back] {
        assert!(matches!(
            status(&released, None),
            RecordStatus::Released { has_our_changes: true, .. }
        ));
        let next = status(&reboot(&released, "boot-3"), None);
        assert!(
            matches!(next, RecordStatus::Void { why: VoidReason::Rebooted, .. }),
            "the machine is in service again, so the Node is restored"
        );
    }
}

#[test]
fn a_node_that_is_restored_after_a_disproof_keeps_a_released_record() {
    let open = take_on(&node(), &spot("e1", 0), 1).unwrap();
    let after = apply(
        &open,
        &restore_node(&open, None, &After::Released(Released::new(at(9), "stale"))).unwrap(),
    );
    assert_eq!(appearance(&after), appearance(&node()));
    assert!(matches!(status(&after, None), RecordStatus::Released { has_our_changes: false, .. }));
}

#[test]
fn a_change_by_a_person_during_the_drain_stays() {
    let mut open = take_on(&node(), &spot("e1", 0), 1).unwrap();
    open.unschedulable = false;
    open.taints.push(taint("new", "x", "NoSchedule"));
    let body = restore_node(&open, None, &After::Removed).unwrap();
    assert_eq!(body["spec"].as_object().unwrap().keys().collect::<Vec<_>>(), ["taints"]);
    let keys: Vec<_> = apply(&open, &body).taints.into_iter().map(|t| t.key).collect();
    assert_eq!(keys, ["dedicated", "new"]);
}

#[test]
fn a_record_on_a_node_that_is_not_an_instance_does_not_count() {
    let mut fargate = Node { instance: None, is_elsewhere: true, ..node() };
    set_record(
        &mut fargate,
        &format!(
            r#"{{"version":1,"instance":"{OTHER}","before":{{"unschedulable":false}},"interruptions":[]}}"#
        ),
    );
    assert!(matches!(
        status(&fargate, Some(&OTHER.parse().unwrap())),
        RecordStatus::Void { why: VoidReason::OtherInstance, .. }
    ));
}

#[test]
fn a_forged_record_uncordons_nothing() {
    let mut theirs = node();
    theirs.unschedulable = true;
    let forged = format!(
        r#"{{"version":1,"instance":"{OTHER}","before":{{"unschedulable":false}},"interruptions":[]}}"#
    );
    set_record(&mut theirs, &forged);
    assert!(matches!(
        status(&theirs, None),
        RecordStatus::Void { why: VoidReason::OtherInstance, .. }
    ));
    let after = restore(&theirs);
    assert!(after.unschedulable && after.record().is_none());
}

#[test]
fn a_record_is_void_after_a_reboot_unless_a_hook_may_be_open() {
    let reboot = |mut node: Node| {
        node.boot_id = Some("boot-2".into());
        node
    };
    let spotted = take_on(&node(), &spot("e1", 0), 1).unwrap();
    let hooked = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    assert!(matches!(
        status(&reboot(spotted.clone()), None),
        RecordStatus::Void { why: VoidReason::Rebooted, .. }
    ));
    assert!(matches!(
        status(&reboot(hooked.clone()), None),
        RecordStatus::Doubtful { why: Doubt::HookMayBeOpen, .. }
    ));
    assert!(
        matches!(
            status(&reboot(release_node(&hooked, 9)), None),
            RecordStatus::Void { why: VoidReason::Rebooted, .. }
        ),
        "the machine is in service again, so the Node is restored"
    );
    let mut restored = reboot(release_node(&spotted, 9));
    restored.unschedulable = false;
    restored.taints.clear();
    assert!(
        matches!(status(&restored, None), RecordStatus::Released { has_our_changes: false, .. }),
        "nothing that Sundown set is left"
    );
    let mut silent = spotted;
    silent.boot_id = None;
    assert!(
        matches!(status(&silent, None), RecordStatus::Open(_)),
        "a boot ID that is not reported does not count as a reboot"
    );
}

#[test]
fn a_record_deleted_by_hand_is_written_back_and_nothing_else() {
    let open = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let RecordStatus::Open(record) = status(&open, None) else { panic!() };
    let mut bare = open.clone();
    bare.annotations.remove(RECORD);
    bare.unschedulable = false;
    let body = write_back(&bare, &record);
    assert_eq!(body["spec"], Value::Null, "uncordoned by hand stays uncordoned");
    assert_eq!(apply(&bare, &body).annotations, open.annotations);

    let released = restore_node(&bare, Some(&record), &After::Removed).unwrap();
    assert_eq!(
        appearance(&apply(&bare, &released)),
        appearance(&node()),
        "it can be restored without its own record, too"
    );
}

#[test]
fn the_same_instance_registered_again_gets_its_record_again() {
    let open = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let RecordStatus::Open(record) = status(&open, None) else { panic!() };
    let new = Node { uid: "uid-2".into(), resource_version: "90".into(), taints: vec![], ..node() };
    let again = apply(&new, &reregister(&new, &id(INSTANCE), &record, &[]).unwrap());
    assert!(again.unschedulable && our_taint(&again) == Some("terminate-hook"));
    assert_eq!(status(&again, None), RecordStatus::Open(record.clone()));

    let other = Node { instance: Some(id(OTHER)), ..new.clone() };
    assert_eq!(
        reregister(&other, &id(INSTANCE), &record, &[]),
        None,
        "c39: never the new instance of that name"
    );
    assert_eq!(reregister(&again, &id(INSTANCE), &record, &[]), None, "it has a record");

    let rebooted = Node { boot_id: Some("boot-2".into()), ..new };
    let doubtful = apply(&rebooted, &reregister(&rebooted, &id(INSTANCE), &record, &[]).unwrap());
    assert!(matches!(status(&doubtful, None), RecordStatus::Doubtful { .. }));
    let RecordStatus::Open(spotted) = status(&take_on(&node(), &spot("e1", 0), 1).unwrap(), None)
    else {
        panic!()
    };
    assert_eq!(
        reregister(&rebooted, &id(INSTANCE), &spotted, &[]),
        None,
        "a spot notice does not outlive a reboot"
    );
}

#[test]
fn a_record_that_is_written_on_a_new_node_keeps_what_others_set_on_the_old_and_the_new_one() {
    let open = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let RecordStatus::Open(ours) = status(&open, None) else { panic!() };
    let cordoned_before =
        Record { before: Before { unschedulable: true, ..Before::default() }, ..ours.clone() };
    let out_before =
        Record { before: Before { excluded: true, ..Before::default() }, ..ours.clone() };
    let new = Node { uid: "uid-2".into(), resource_version: "90".into(), taints: vec![], ..node() };
    let cordoned = Node { unschedulable: true, ..new.clone() };
    let labelled = |value: &str| {
        let mut node = new.clone();
        std::sync::Arc::make_mut(&mut node.labels)
            .insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), value.into());
        node
    };
    for (fresh, record, unschedulable, excluded) in [
        (new.clone(), &ours, false, false),
        // Somebody cordoned the new Node, the old one, or both.
        (cordoned.clone(), &ours, true, false),
        (new.clone(), &cordoned_before, true, false),
        (cordoned, &cordoned_before, true, false),
        (labelled("true"), &ours, false, true),
        (labelled(EXCLUDED_BY_US), &ours, false, false),
        (new.clone(), &out_before, false, true),
    ] {
        let again = apply(&fresh, &reregister(&fresh, &id(INSTANCE), record, &[]).unwrap());
        let RecordStatus::Open(written) = status(&again, None) else { panic!("{again:?}") };
        assert_eq!(
            (written.before.unschedulable, written.before.excluded),
            (unschedulable, excluded),
            "{fresh:?}"
        );
        let back = apply(&again, &restore_node(&again, None, &After::Removed).unwrap());
        assert_eq!(
            (back.unschedulable, our_taint(&back)),
            (unschedulable, None),
            "restored as others had it"
        );
    }
}

#[test]
fn a_deleted_record_is_restored_as_it_was_or_added_to_the_one_that_was_written_since() {
    let held = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let held_record = Record::read(held.record().unwrap()).unwrap();
    let mut deleted = held.clone();
    deleted.annotations.remove(RECORD);
    assert_eq!(
        apply(&deleted, &restore_record(&deleted, &held_record).unwrap()).record(),
        held.record()
    );
    let fresh = take_on(&deleted, &spot("e2", 5), 6).unwrap();
    let whole = apply(&fresh, &restore_record(&fresh, &held_record).unwrap());
    assert_eq!((open_actions(&whole), kinds(&whole).len()), (vec!["asg/drain".to_owned()], 2));
    let mut untainted = deleted;
    untainted.taints.clear();
    for (node, why) in [
        (held, "the record was not deleted"),
        (whole, "it was added already"),
        (release_node(&fresh, 9), "the new record is released"),
        (untainted, "somebody restored the Node"),
    ] {
        assert_eq!(restore_record(&node, &held_record), None, "{why}");
    }
}

#[test]
fn the_label_has_a_patch_of_its_own() {
    assert_eq!(exclude(&node()), None, "nothing would show whose the label is");
    let bare = take_on(&node(), &spot("e1", 0), 0).unwrap();
    let out = apply(&bare, &exclude(&bare).unwrap());
    assert_eq!(
        out.labels.get(EXCLUDE_FROM_LOAD_BALANCERS).map(String::as_str),
        Some(EXCLUDED_BY_US)
    );
    assert_eq!(exclude(&out), None);
    let mut theirs = bare;
    std::sync::Arc::make_mut(&mut theirs.labels)
        .insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), String::new());
    assert_eq!(exclude(&theirs), None);
}

#[test]
fn actions_may_be_open_until_the_release_and_after_a_reboot() {
    let rebooted = |node: &Node| Node { boot_id: Some("boot-2".into()), ..node.clone() };
    let hooked = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let noticed = take_on(&node(), &spot("e1", 0), 1).unwrap();
    let other = Node { instance: Some(id(OTHER)), ..hooked.clone() };
    for (what, node, expected) in [
        ("no record", node(), false),
        ("open", hooked.clone(), true),
        ("open, no hook", noticed.clone(), true),
        ("booted since", rebooted(&hooked), true),
        ("booted since, no hook", rebooted(&noticed), false),
        ("of another instance", other, false),
        ("released", release_node(&hooked, 9), false),
    ] {
        assert_eq!(status(&node, None).with_open_actions().is_some(), expected, "{what}");
    }
}

#[test]
fn the_interruptions_that_a_new_record_lacks_of_the_one_that_it_replaced_are_added_to_it() {
    let held = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let held_record = Record::read(held.record().unwrap()).unwrap();
    let mut deleted = held.clone();
    deleted.annotations.remove(RECORD);
    let mut damaged = held.clone();
    set_record(&mut damaged, "{");
    for node in [deleted, damaged] {
        let fresh = take_on(&node, &spot("e2", 5), 6).unwrap();
        assert!(open_actions(&fresh).is_empty());
        let whole = apply(&fresh, &merge_patch(&fresh, &held_record).unwrap());
        assert_eq!(open_actions(&whole), ["asg/drain"]);
        assert_eq!((kinds(&whole).len(), our_taint(&whole)), (2, Some("spot")));
        assert!(
            !Record::read(whole.record().unwrap()).unwrap().before.unschedulable,
            "the state before the first interruption"
        );
        assert_eq!(merge_patch(&whole, &held_record), None, "once");
        assert_eq!(
            merge_patch(&release_node(&fresh, 9), &held_record),
            None,
            "a released record has no open actions"
        );
    }
    assert_eq!(merge_patch(&held, &held_record), None);
}

#[test]
fn a_node_that_a_person_keeps_cordoned_is_only_noted_to_be_restored_until_the_annotation_is_gone() {
    let keep = |node: &Node, keeps: bool| {
        let mut node = node.clone();
        if keeps {
            node.annotations.insert(KEEP_CORDONED, "true");
        } else {
            node.annotations.remove(KEEP_CORDONED);
        }
        node
    };
    let open = take_on(&node(), &hook("e1", 0, "drain", "t1"), 1).unwrap();
    let end = || Released::new(at(70), "returned");
    let after = || After::Released(end());
    let mut rebooted = open.clone();
    rebooted.boot_id = Some("boot-2".into());
    rebooted = {
        let mut text: Value = serde_json::from_str(rebooted.record().unwrap()).unwrap();
        for field in ["hook", "group", "token"] {
            text["interruptions"][0].as_object_mut().unwrap().remove(field);
        }
        text["interruptions"][0]["kind"] = "spot".into();
        set_record(&mut rebooted, &text.to_string());
        rebooted
    };
    let held = Record::read(open.record().unwrap()).unwrap();
    let lost = Node { annotations: node().annotations, ..open.clone() };
    for (case, drained, record, after, is_noted) in [
        ("its drain ends", &open, None, after(), true),
        ("its drain had ended", &release_node(&open, 50), None, after(), true),
        ("the same by another way", &release_node(&open, 50), None, After::Removed, true),
        ("it has lost its record", &lost, Some(&held), After::Lost(end()), true),
        ("it has booted: the void record shows that", &rebooted, None, After::Removed, false),
    ] {
        let kept = keep(drained, true);
        let patch = restore_node(&kept, record, &after);
        assert_eq!(patch.is_some(), is_noted, "{case}");
        let noted = patch.map_or(kept.clone(), |patch| apply(&kept, &patch));
        assert_eq!(appearance(&noted), appearance(&kept), "{case}: all of it stays");
        assert_eq!(restore_node(&noted, record, &after), None, "{case}: once");
        if case == "it has lost its record" {
            let noted = Record::read(noted.record().unwrap()).unwrap();
            assert_eq!(noted.released.unwrap().at, at(70), "when the drain ended");
        }
        let free = keep(&noted, false);
        let record = Record::read(free.record().unwrap()).unwrap();
        assert!(!is_restore_due(&noted, &record), "{case}");
        assert_eq!(is_restore_due(&free, &record), is_noted, "{case}");
        let restored = restore(&free);
        assert_eq!(appearance(&restored), appearance(&node()), "{case}");
        let left = restored.record().and_then(|text| Record::read(text).ok());
        assert!(!left.is_some_and(|left| is_restore_due(&restored, &left)), "{case}");
    }
    let not_kept =
        Node { annotations: [(KEEP_CORDONED.to_owned(), "false".to_owned())].into(), ..node() };
    assert!(!not_kept.keeps_cordon(), "only `true` counts");
}
