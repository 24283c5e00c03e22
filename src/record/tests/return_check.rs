use super::*;

fn to_pool(event_id: &str, time: i64) -> Interruption {
    let mut action = hook(event_id, time, "drain", "t1");
    if let Cause::Terminate(action) = &mut action.cause {
        action.destination = Some(PoolEnd::WarmPool);
    }
    action
}

fn root_volume(event_id: &str, time: i64) -> Interruption {
    let mut action = hook(event_id, time, "drain", "t2");
    if let Cause::Terminate(action) = &mut action.cause {
        action.purpose = HookPurpose::ReplaceRootVolume;
    }
    action
}

fn spot_action(event_id: &str, time: i64, action: SpotAction) -> Interruption {
    event(event_id, time, Cause::Spot(action))
}

/// A Node whose record holds these interruptions, in this order, and is released at 200.
fn released(interruptions: &[Interruption]) -> Node {
    released_on(&node(), interruptions)
}

fn released_on(node: &Node, interruptions: &[Interruption]) -> Node {
    let accepted = interruptions
        .iter()
        .fold(node.clone(), |node, interruption| take_on(&node, interruption, 105).unwrap_or(node));
    release_node(&accepted, 200)
}

fn facts(state: InstanceState, launched: i64) -> InstanceFacts {
    InstanceFacts {
        id: id(INSTANCE),
        state,
        launched: Some(at(launched)),
        private_dns: None,
        private_address: None,
        tags: std::collections::BTreeMap::new(),
    }
}

#[test]
fn only_records_of_instances_that_may_come_back_are_watched() {
    let pool = || to_pool("e1", 100);
    let stopping = |time| state("s1", time, InstanceState::Stopping);
    let mut restored = released(&[pool()]);
    restored.unschedulable = false;
    restored.taints.retain(|taint| taint.key != TAINT);
    let mut newer: Value = serde_json::from_str(released(&[pool()]).record().unwrap()).unwrap();
    newer["interruptions"].as_array_mut().unwrap().push(json!({ "kind": "of-a-newer-version" }));
    let mut unknown = released(&[pool()]);
    set_record(&mut unknown, &newer.to_string());
    let mut two_groups: Value =
        serde_json::from_str(released(&[pool(), root_volume("e2", 150)]).record().unwrap())
            .unwrap();
    two_groups["interruptions"][1]["group"] = "another".into();
    let mut of_two_groups = released(&[pool()]);
    set_record(&mut of_two_groups, &two_groups.to_string());
    let mut rebooted = released(&[pool()]);
    rebooted.boot_id = Some("boot-2".into());
    let mut kept = released(&[pool()]);
    kept.annotations.insert(KEEP_CORDONED, "true");
    let bootless = Node { boot_id: None, ..node() };
    let is = |node: &Node| awaited_return(node).map(|w| (w.group.is_some(), w.needs_instance()));
    for (case, node, expected) in [
        ("into a warm pool", released(&[pool()]), Some((true, false))),
        ("a root volume", released(&[root_volume("e1", 100)]), Some((true, false))),
        ("both", released(&[pool(), root_volume("e2", 150)]), Some((true, false))),
        ("to EC2", released(&[hook("e1", 100, "drain", "t1")]), None),
        ("a spot reclaim joined", released(&[pool(), spot("e2", 102)]), None),
        ("spot", released(&[spot("e1", 100)]), None),
        (
            "hibernation",
            released(&[spot_action("e1", 100, SpotAction::Hibernate)]),
            Some((false, true)),
        ),
        ("a spot stop", released(&[spot_action("e1", 100, SpotAction::Stop)]), None),
        (
            "a spot stop without a boot ID",
            released_on(&bootless, &[spot_action("e1", 100, SpotAction::Stop)]),
            Some((false, true)),
        ),
        ("stopping", released(&[stopping(100)]), Some((false, true))),
        ("stopped", released(&[state("s1", 100, InstanceState::Stopped)]), Some((false, true))),
        ("shutting-down", released(&[state("s1", 100, InstanceState::ShuttingDown)]), None),
        ("a pool and a stop", released(&[pool(), stopping(104)]), Some((true, true))),
        ("a recommendation", released(&[event("e1", 100, Cause::Rebalance)]), None),
        ("a person keeps it cordoned", kept, None),
        ("an open record", take_on(&node(), &pool(), 105).unwrap(), None),
        ("restored already", restored, None),
        ("booted since: the record is void", rebooted, None),
        ("an entry that cannot be read", unknown, None),
        ("two groups", of_two_groups, None),
        ("no record", node(), None),
    ] {
        assert_eq!(is(&node), expected, "{case}");
    }
}

#[test]
fn aws_must_show_what_the_record_demands() {
    let pool = awaited_return(&released(&[to_pool("e1", 100)])).unwrap();
    for (state, expected) in [
        (Some("InService"), Some(at(200))),
        (Some("Standby"), None),
        (Some("Terminating:Wait"), None),
        (Some("Warmed:Running"), None),
        (Some("Warmed:Pending:Wait"), None),
        (Some("Pending:Proceed"), None),
        (Some("ReplacingRootVolume:Wait"), None),
        (Some("RootVolumeReplaced"), None),
        (None, None),
    ] {
        let answer = AwsAnswer { group_state: state, instance: None };
        assert_eq!(pool.shown_by(&answer), expected, "{state:?}");
    }
    let hibernated =
        awaited_return(&released(&[spot_action("e1", 100, SpotAction::Hibernate)])).unwrap();
    let stopped = awaited_return(&released(&[state("s1", 100, InstanceState::Stopping)])).unwrap();
    let running = |launched| facts(InstanceState::Running, launched);
    for (case, awaited, facts, expected) in [
        ("not stopped yet", &hibernated, running(0), None),
        ("started since", &hibernated, running(500), Some(at(500))),
        ("starts", &hibernated, facts(InstanceState::Pending, 500), None),
        ("a state change shows the stop", &stopped, running(0), Some(at(200))),
        ("started since that", &stopped, running(500), Some(at(500))),
        ("stops", &stopped, facts(InstanceState::Stopping, 0), None),
        ("ends", &stopped, facts(InstanceState::ShuttingDown, 500), None),
    ] {
        let answer = AwsAnswer { group_state: None, instance: Some(&facts) };
        assert_eq!(awaited.shown_by(&answer), expected, "{case}");
        assert_eq!(awaited.shown_by(&AwsAnswer::default()), None, "{case}, no such instance");
    }
    let both = [to_pool("e1", 100), state("s1", 104, InstanceState::Stopping)];
    let both = awaited_return(&released(&both)).unwrap();
    let instance = running(500);
    for (group_state, instance, expected) in [
        (Some("InService"), Some(&instance), Some(at(500))),
        (Some("InService"), None, None),
        (Some("Warmed:Running"), Some(&instance), None),
    ] {
        assert_eq!(both.shown_by(&AwsAnswer { group_state, instance }), expected);
    }
}

#[test]
fn the_node_must_be_ready_with_a_lease_renewed_since() {
    for (ready, renewed, expected) in [
        (Ready::True, Some(201), Look::Back),
        (Ready::True, Some(200), Look::Away),
        (Ready::True, None, Look::Away),
        (Ready::False, Some(201), Look::Away),
        (Ready::Unknown, Some(201), Look::Away),
    ] {
        let node = Node { ready, ..released(&[to_pool("e1", 100)]) };
        let look = Look::of_node(&node, at(200), renewed.map(at));
        assert_eq!(look, expected, "{ready:?} {renewed:?}");
    }
}

#[test]
fn an_instance_must_be_seen_back_twice_fifteen_seconds_apart() {
    use Look::{Away, Back, Unanswered};
    let first = released(&[to_pool("e1", 100)]);
    for (case, looks, restored_at) in [
        ("twice", &[(0, Back), (15, Back)][..], Some(15)),
        ("too soon", &[(0, Back), (14, Back)], None),
        ("the first one counts", &[(0, Back), (5, Back), (16, Back)], Some(16)),
        ("away in between", &[(0, Back), (8, Away), (15, Back), (29, Back)], None),
        ("away in between, then twice", &[(0, Back), (8, Away), (15, Back), (30, Back)], Some(30)),
        ("no answer in between", &[(0, Back), (8, Unanswered), (15, Back)], Some(15)),
        ("only once", &[(0, Back), (15, Unanswered)], None),
        ("never", &[(0, Away), (15, Away)], None),
    ] {
        let mut sightings = ReturnSightings::default();
        let restored = looks
            .iter()
            .find(|(second, look)| sightings.note(&first, *look, at(*second), at(*second)));
        assert_eq!(restored.map(|(second, _)| *second), restored_at, "{case}");
    }
    let mut sightings = ReturnSightings::default();
    let another = release_node(&take_on(&first, &to_pool_again(), 305).unwrap(), 400);
    assert!(!sightings.note(&first, Back, at(0), at(0)));
    assert!(!sightings.note(&another, Back, at(500), at(500)), "another drain: it begins anew");
    assert!(sightings.note(&another, Back, at(515), at(515)));
    // AWS answered the first question 8 s after it was asked.
    let mut sightings = ReturnSightings::default();
    assert!(!sightings.note(&first, Back, at(0), at(8)));
    assert!(!sightings.note(&first, Back, at(15), at(15)), "only 7 s after the first answer");
    assert!(sightings.note(&first, Back, at(23), at(23)));
}

fn to_pool_again() -> Interruption {
    let mut action = hook("e9", 300, "drain", "t9");
    if let Cause::Terminate(action) = &mut action.cause {
        action.destination = Some(PoolEnd::WarmPool);
    }
    action
}

#[test]
fn the_second_look_comes_fifteen_seconds_after_the_first() {
    let node = std::sync::Arc::new(released(&[to_pool("e1", 100)]));
    let awaited = awaited_return(&node).unwrap();
    let mut sightings = ReturnSightings::default();
    let next = |sightings: &ReturnSightings, now| sightings.next_look(at(now), seconds(60));
    assert_eq!(next(&sightings, 0), at(60));
    sightings.note(&node, Look::Back, at(0), at(0));
    assert_eq!(next(&sightings, 1), at(15));
    assert_eq!(next(&sightings, 14), at(19), "no busy loop");
    assert_eq!(next(&sightings, 100), at(105), "AWS does not answer");
    sightings.keep(&[(node, awaited)]);
    assert_eq!(next(&sightings, 1), at(15));
    sightings.keep(&[]);
    assert_eq!(next(&sightings, 1), at(61));
}

#[test]
fn a_request_that_is_gone_keeps_no_instance_waiting_for_its_return_and_one_that_asks_does() {
    let asking = released_on(&requested(&node()), &[spot_action("e2", 100, SpotAction::Hibernate)]);
    assert_eq!(awaited_return(&asking), None);
    let gone = Node { requests: None, ..asking };
    assert!(awaited_return(&gone).is_some());
}
