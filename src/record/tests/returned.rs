use super::*;

fn out_of_pool(time: Option<i64>) -> Interruption {
    Interruption {
        time: time.map(at),
        ..event("launch", 0, What::LaunchSuccessful { group: "asg".into() })
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
    };
    event("launch", 500, What::Launch(action))
}

/// What is to be done, in a word, and how many actions must be over first.
fn told(node: &Node, interruption: &Interruption) -> (&'static str, usize) {
    match returned(node, interruption) {
        Returned::Nothing => ("nothing", 0),
        Returned::Restore => ("restore", 0),
        Returned::EndDrain { actions, .. } => ("end the drain", actions.len()),
    }
}

#[test]
fn an_instance_that_goes_into_service_after_all_that_its_record_tells_is_put_back() {
    let open = take_on(&node(), &hook("e1", 100, "drain", "t1"), 105).unwrap();
    let joined = take_on(&open, &spot("e2", 300), 301).unwrap();
    let released = let_go(&open, 200);
    let mut uncordoned = apply(
        &released,
        &restore(&released, None, &After::Released(Released::new(at(210), "returned"))).unwrap(),
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
        (
            "a launch action that does not say where to",
            &released,
            launch_action(None),
            ("nothing", 0),
        ),
        ("another event", &released, state("s", 500, InstanceState::Running), ("nothing", 0)),
        ("open", &open, late(), ("end the drain", 1)),
        ("later than the hook alone", &joined, out_of_pool(Some(200)), ("nothing", 0)),
        ("later than what joined", &joined, late(), ("end the drain", 1)),
        (
            "accepted and released after the launch",
            &released,
            out_of_pool(Some(101)),
            ("restore", 0),
        ),
        ("at the same time", &released, out_of_pool(Some(100)), ("nothing", 0)),
        ("older", &released, out_of_pool(Some(50)), ("nothing", 0)),
        ("at a time that is not said", &released, out_of_pool(None), ("nothing", 0)),
        ("put back already", &uncordoned, late(), ("nothing", 0)),
        ("no record", &super::node(), late(), ("nothing", 0)),
        ("booted since", &rebooted, late(), ("nothing", 0)),
        ("something that cannot be read", &foreign, late(), ("nothing", 0)),
        ("another instance", &other, late(), ("nothing", 0)),
    ] {
        assert_eq!(told(node, &event), expected, "{case}");
    }
}
