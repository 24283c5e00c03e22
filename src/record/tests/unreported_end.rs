use super::*;

fn silent(node: Node) -> Node {
    Node { ready: Ready::Unknown, ..node }
}

#[test]
fn ec2_is_asked_about_nodes_that_are_not_ready_and_not_drained() {
    let open = take_on(&node(), &spot("e1", 100), 105).unwrap();
    let released = release_node(&open, 200);
    let mut back = released.clone();
    back.unschedulable = false;
    back.taints.retain(|taint| taint.key != TAINT);
    let asked = requested(&node());
    let asked_and_released = release_node(&asked, 200);
    let mut damaged = node();
    set_record(&mut damaged, "{");
    for (case, node, expected) in [
        ("Ready", node(), false),
        ("no record", silent(node()), true),
        ("Ready is False", Node { ready: Ready::False, ..node() }, true),
        ("no providerID", Node { instance: None, ..silent(node()) }, false),
        ("in a drain", silent(open), false),
        ("after a drain", silent(released), false),
        ("in a drain that only people ask for", silent(asked), true),
        ("after such a drain", silent(asked_and_released), true),
        ("restored after a drain", silent(back), true),
        ("a damaged record", silent(damaged), true),
    ] {
        assert_eq!(may_end_unreported(&node), expected, "{case}");
    }
}

#[test]
fn only_an_instance_that_is_about_to_end_is_taken_on() {
    for (state, expected) in [
        (InstanceState::Pending, false),
        (InstanceState::Running, false),
        (InstanceState::Stopping, true),
        (InstanceState::Stopped, false),
        (InstanceState::ShuttingDown, true),
        (InstanceState::Terminated, false),
    ] {
        let found = unreported_end(&id(INSTANCE), state, at(100));
        assert_eq!(found.is_some(), expected, "{state:?}");
        assert!(found.is_none_or(|found| is_sweep_event_id(&found.event_id)));
    }
}
