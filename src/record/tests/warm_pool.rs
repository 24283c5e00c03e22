use super::*;

fn launched(event_id: &str, time: i64) -> Interruption {
    let action = HookAction {
        group: "asg".into(),
        hook: "boot".into(),
        token: Some(event_id.into()),
        origin: Some(PoolEnd::Ec2),
        destination: Some(PoolEnd::WarmPool),
        purpose: HookPurpose::Ordinary,
        metadata: None,
    };
    event(event_id, time, Cause::Launch(action))
}

fn cordon(node: &Node, event: &Interruption) -> Option<Node> {
    into_warm_pool(node, event, at(105), None).map(|patch| apply(node, &patch))
}

fn restored(node: &Node) -> Node {
    let released = Released::new(at(300), "returned");
    apply(node, &restore_node(node, None, &After::Released(released)).unwrap())
}

#[test]
fn a_node_in_a_warm_pool_is_cordoned_with_a_released_record_and_comes_back_as_it_was() {
    let pooled = cordon(&node(), &launched("e1", 100)).unwrap();
    assert!(pooled.unschedulable && pooled.has_our_taint());
    let RecordStatus::Released { record, has_our_changes } = status(&pooled, None) else {
        panic!("{pooled:?}");
    };
    assert!(has_our_changes);
    let text: Value = serde_json::from_str(&record.write()).unwrap();
    assert_eq!(text["released"]["outcome"], "into_warm_pool");
    let entry = &text["interruptions"][0];
    assert_eq!((&entry["kind"], &entry["warm_pool"]), (&json!("launch-hook"), &json!(true)));
    let awaited = awaited_return(&pooled).unwrap();
    assert_eq!(awaited.group.as_ref().map(GroupName::as_str), Some("asg"));
    let out = event("out", 200, Cause::LaunchSuccessful { group: "asg".into() });
    assert_eq!(returned(&pooled, &out, None), Returned::RestoreNode);
    let back = restored(&pooled);
    assert_eq!((back.unschedulable, &back.taints), (false, &node().taints));
}

#[test]
fn what_a_person_cordoned_stays_cordoned() {
    let by_hand = Node { unschedulable: true, ..node() };
    let pooled = cordon(&by_hand, &launched("e1", 100)).unwrap();
    assert!(restored(&pooled).unschedulable);
}

#[test]
fn only_a_node_without_our_changes_is_cordoned_for_a_warm_pool() {
    let pooled = cordon(&node(), &launched("e1", 100)).unwrap();
    let back = restored(&pooled);
    let draining = take_on(&node(), &spot("e2", 90), 95).unwrap();
    let drained = release_node(&draining, 99);
    let mut rebooted = drained.clone();
    rebooted.boot_id = Some("boot-2".into());
    let mut damaged = node();
    set_record(&mut damaged, "{");
    let other = Node { instance: Some(id(OTHER)), ..node() };
    let into_group = {
        let mut event = launched("e1", 100);
        if let Cause::Launch(action) = &mut event.cause {
            action.destination = Some(PoolEnd::Group);
        }
        event
    };
    let event = launched("e1", 100);
    for (case, node, event, expected) in [
        ("no record", node(), &event, true),
        ("a damaged record", damaged, &event, true),
        ("a record of an earlier boot", rebooted, &event, true),
        ("cordoned already, by this event", pooled, &event, false),
        ("restored since: a late copy of its event", back.clone(), &event, false),
        ("restored since: another launch into the pool", back, &launched("e3", 900), true),
        ("in a drain", draining, &event, false),
        ("after a drain", drained, &event, false),
        ("another instance has the name", other, &event, false),
        ("a launch into the group", node(), &into_group, false),
    ] {
        assert_eq!(cordon(&node, event).is_some(), expected, "{case}");
    }
}

fn into_pool(event_id: &str, time: i64) -> Interruption {
    let mut action = hook(event_id, time, "drain", event_id);
    if let Cause::Terminate(action) = &mut action.cause {
        action.destination = Some(PoolEnd::WarmPool);
    }
    action
}

#[test]
fn an_interruption_in_the_pool_drains_the_node_and_the_record_still_knows_the_pool() {
    let launched = cordon(&node(), &launched("e1", 100)).unwrap();
    let returned = release_node(&take_on(&node(), &into_pool("e1", 100), 105).unwrap(), 110);
    for (case, event, is_drained) in [
        ("a spot notice", spot("e2", 200), true),
        ("a terminate action", hook("e2", 200, "drain", "t2"), true),
        ("it shuts down", state("e2", 200, InstanceState::ShuttingDown), true),
        ("it stops, as instances of a pool do", state("e2", 200, InstanceState::Stopping), false),
        ("it has stopped", state("e2", 200, InstanceState::Stopped), false),
        ("a recommendation", event("e2", 200, Cause::Rebalance), false),
    ] {
        for pooled in [&launched, &returned] {
            let drained = take_on(pooled, &event, 201);
            assert_eq!(drained.is_some(), is_drained, "{case}");
            let Some(drained) = drained else { continue };
            let record = Record::read(drained.record().unwrap()).unwrap();
            assert!(record.released().is_none() && !record.before.unschedulable, "{case}");
            assert_eq!(record.pool_group().map(GroupName::as_str), Some("asg"), "{case}");
            assert!(take_on(&drained, &event, 202).is_none(), "{case}: a copy");
            let released = release_node(&drained, 300);
            assert_eq!(awaited_return(&released), None, "{case}: it stays InService");
            let booted = Node { boot_id: Some("boot-2".into()), ..released };
            let awaited = awaited_boot(&booted).unwrap();
            assert_eq!(awaited.group.as_ref().map(GroupName::as_str), Some("asg"), "{case}");
        }
    }
    let back = restored(&launched);
    let drained = take_on(&back, &spot("e2", 400), 401).unwrap();
    let record = Record::read(drained.record().unwrap()).unwrap();
    assert_eq!(record.pool_group(), None, "it has left the pool");
}

#[test]
fn a_record_that_replaces_one_of_an_earlier_boot_in_the_pool_still_knows_the_pool() {
    let pooled = cordon(&node(), &launched("e1", 100)).unwrap();
    let booted = Node { boot_id: Some("boot-2".into()), ..pooled };
    let stopping = state("e2", 200, InstanceState::Stopping);
    let stopped = release_node(&take_on(&booted, &stopping, 201).unwrap(), 210);
    let awaited = awaited_return(&stopped).unwrap();
    assert_eq!(awaited.group.as_ref().map(GroupName::as_str), Some("asg"));
    let again = Node { boot_id: Some("boot-3".into()), ..stopped };
    assert_eq!(awaited_boot(&again).unwrap().group.as_ref().map(GroupName::as_str), Some("asg"));
}
