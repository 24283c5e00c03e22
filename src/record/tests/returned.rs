use super::*;

fn out_of_pool(time: Option<i64>) -> Interruption {
    Interruption {
        time: time.map(at),
        ..event("launch", 0, Cause::LaunchSuccessful { group: "asg".into() })
    }
}

fn launch_action(destination: Option<PoolEnd>) -> Interruption {
    let action = HookAction {
        group: "asg".into(),
        hook: "boot".into(),
        token: None,
        origin: Some(PoolEnd::WarmPool),
        destination,
        purpose: HookPurpose::Ordinary,
        metadata: None,
    };
    event("launch", 500, Cause::Launch(action))
}

/// The name of the answer, and how many lifecycle actions must be closed first.
fn answer(node: &Node, interruption: &Interruption) -> (&'static str, usize) {
    match returned(node, interruption, None) {
        Returned::Nothing => ("nothing", 0),
        Returned::RestoreNode => ("restore", 0),
        Returned::EndDrain { actions, .. } => ("end the drain", actions.len()),
    }
}

#[test]
fn a_node_is_restored_if_its_instance_goes_into_service_after_all_interruptions_of_its_record() {
    let open = take_on(&node(), &hook("e1", 100, "drain", "t1"), 105).unwrap();
    let joined = take_on(&open, &spot("e2", 300), 301).unwrap();
    let released = release_node(&open, 200);
    let mut uncordoned = apply(
        &released,
        &restore_node(&released, None, &After::Released(Released::new(at(210), "returned")))
            .unwrap(),
    );
    uncordoned.taints.retain(|t| t.key != TAINT);
    let mut rebooted = released.clone();
    rebooted.boot_id = Some("boot-2".into());
    let mut newer: Value = serde_json::from_str(released.record().unwrap()).unwrap();
    newer["interruptions"].as_array_mut().unwrap().push(json!({ "kind": "of-a-newer-version" }));
    let mut foreign = released.clone();
    set_record(&mut foreign, &newer.to_string());
    let other = Node { instance: Some(id(OTHER)), ..released.clone() };
    let late = || out_of_pool(Some(500));
    for (case, node, event, expected) in [
        ("released", &released, late(), ("restore", 0)),
        ("a launch action", &released, launch_action(Some(PoolEnd::Group)), ("restore", 0)),
        (
            "a launch action into the pool",
            &released,
            launch_action(Some(PoolEnd::WarmPool)),
            ("nothing", 0),
        ),
        ("a launch action without a destination", &released, launch_action(None), ("nothing", 0)),
        ("another event", &released, state("s", 500, InstanceState::Running), ("nothing", 0)),
        ("open", &open, late(), ("end the drain", 1)),
        ("later than the hook alone", &joined, out_of_pool(Some(200)), ("nothing", 0)),
        ("later than the notice that joined", &joined, late(), ("end the drain", 1)),
        (
            "accepted and released after the launch",
            &released,
            out_of_pool(Some(101)),
            ("restore", 0),
        ),
        ("at the same time", &released, out_of_pool(Some(100)), ("nothing", 0)),
        ("older", &released, out_of_pool(Some(50)), ("nothing", 0)),
        ("an event without a time", &released, out_of_pool(None), ("nothing", 0)),
        ("restored already", &uncordoned, late(), ("nothing", 0)),
        ("no record", &super::node(), late(), ("nothing", 0)),
        ("booted since", &rebooted, late(), ("nothing", 0)),
        ("an entry that cannot be read", &foreign, late(), ("nothing", 0)),
        ("another instance", &other, late(), ("nothing", 0)),
    ] {
        assert_eq!(answer(node, &event), expected, "{case}");
    }
}

fn found_by_sweep() -> Interruption {
    let found = launch_action(Some(PoolEnd::Group));
    Interruption { event_id: crate::domain::sweep_event_id(at(500), &"boot".into()), ..found }
}

#[test]
fn a_launch_that_the_sweep_finds_restores_only_what_a_warm_pool_did_before_it() {
    let mut to_pool = hook("e1", 100, "drain", "t1");
    if let Cause::Terminate(action) = &mut to_pool.cause {
        action.destination = Some(PoolEnd::WarmPool);
    }
    let open = take_on(&node(), &to_pool, 105).unwrap();
    let released = release_node(&open, 200);
    let spot_open = take_on(&node(), &spot("e2", 100), 105).unwrap();
    let spot_released = release_node(&spot_open, 200);
    let both = take_on(&open, &spot("e3", 120), 121).unwrap();
    let both_released = release_node(&both, 200);
    for (case, node, absent_at, expected) in [
        ("released", &released, Some(450), "restore"),
        ("open", &open, Some(450), "end the drain"),
        ("released, and a new leader sees the instance wait at once", &released, None, "nothing"),
        ("open, and a new leader sees the instance wait at once", &open, None, "nothing"),
        ("the launch may be the earlier one", &released, Some(100), "nothing"),
        ("a spot notice", &spot_open, Some(450), "nothing"),
        ("a released spot notice", &spot_released, Some(450), "nothing"),
        ("a spot notice, and a new leader", &spot_open, None, "nothing"),
        ("a spot notice that joined", &both, Some(450), "nothing"),
        ("a released one that joined", &both_released, Some(450), "nothing"),
    ] {
        let answer = match returned(node, &found_by_sweep(), absent_at.map(at)) {
            Returned::Nothing => "nothing",
            Returned::RestoreNode => "restore",
            Returned::EndDrain { .. } => "end the drain",
        };
        assert_eq!(answer, expected, "{case}");
    }
}

#[test]
fn an_instance_ends_again_only_if_its_group_shows_it_waiting_in_a_terminate_hook() {
    let rows = [
        (Some("Terminating:Wait"), true),
        (Some("Warmed:Pending:Wait"), true),
        (Some("InService"), false),
        (Some("Pending:Wait"), false),
        (None, false),
    ];
    for (state, waits) in rows {
        assert_eq!(waits_to_end_again(state), waits, "{state:?}");
    }
}

#[test]
fn a_request_holds_the_node_of_an_instance_that_is_back_until_it_is_gone() {
    let late = out_of_pool(Some(500));
    let alone = requested(&node());
    let both = take_on(&alone, &hook("e1", 300, "drain", "t1"), 301).unwrap();
    let gone = |node: &Node| Node { requests: None, ..node.clone() };
    for (case, node, expected) in [
        ("open, a request alone", alone.clone(), "nothing"),
        ("open, with an action", both.clone(), "end the drain"),
        ("released, and it asks", release_node(&both, 400), "nothing"),
        ("released, and it is gone", gone(&release_node(&both, 400)), "restore"),
        ("released, a request alone", release_node(&alone, 400), "nothing"),
    ] {
        assert_eq!(answer(&node, &late).0, expected, "{case}");
    }
    let Returned::EndDrain { events, .. } = returned(&both, &late, None) else { panic!() };
    assert_eq!(events.into_iter().collect::<Vec<_>>(), ["e1"], "the request holds on");
}
