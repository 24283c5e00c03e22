use serde_json::json;

use super::*;

const INSTANCE: &str = "i-0123456789abcdef0";
const TOKEN: &str = "12345678-1234-1234-1234-123456789012";

fn instant(text: &str) -> Moment {
    text.parse().unwrap()
}

fn terminating() -> Value {
    json!({
        "EC2InstanceId": INSTANCE, "AutoScalingGroupName": "asg", "LifecycleHookName": "drain",
        "LifecycleActionToken": TOKEN,
        "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING", "RequestId": "r",
        "Time": "2026-01-05T09:00:00.250Z",
    })
}

fn of_event_bridge(source: &str, detail_type: &str, detail: &Value) -> Vec<Event> {
    let time = "2026-01-05T09:00:00Z";
    events(
        &json!({
            "id": "e", "source": source, "detail-type": detail_type, "time": time, "detail": detail
        })
        .to_string(),
    )
}

#[test]
fn a_lifecycle_action_is_read_from_an_event_a_notification_and_a_topic() {
    let body = terminating();
    let native = events(&body.to_string());
    let [one] = &native[..] else { panic!("{native:?}") };
    assert_eq!(
        (one.kind, one.id.as_str(), one.instance.as_str()),
        (Kind::TerminateHook, "r", INSTANCE)
    );
    assert_eq!(
        (one.time, one.token.as_deref()),
        (Some(instant("2026-01-05T09:00:00.250Z")), Some(TOKEN))
    );
    assert_eq!(one.hook, Some(("asg".to_owned(), "drain".to_owned())));
    let lines: Vec<String> = body
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| format!("{k}: {}", v.as_str().unwrap()))
        .collect();
    assert_eq!(events(&lines.join("\n")), native);
    assert_eq!(events(&json!({ "Message": body.to_string() }).to_string()), native);
    let wrapped = json!({ "Type": "Notification", "Message": body.to_string() }).to_string();
    assert_eq!(events(&wrapped), native);
    let twice = json!({ "Type": "Notification", "Message": wrapped }).to_string();
    assert_eq!(events(&twice), native);
    assert_eq!(events(&json!({ "Type": "Notification", "Message": twice }).to_string()), []);
    let event =
        of_event_bridge("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", &body);
    assert_eq!(
        event,
        [Event { id: "e".to_owned(), time: Some(instant("2026-01-05T09:00:00Z")), ..one.clone() }]
    );
}

#[test]
fn only_what_ends_an_instance_is_an_interruption() {
    let of_ec2 = |detail_type: &str, state: &str| {
        let detail = json!({
            "instance-id": INSTANCE, "state": state,
            "instance-termination-time": "2026-01-05T09:02:00Z"
        });
        of_event_bridge("aws.ec2", detail_type, &detail)
            .into_iter()
            .map(|e| (e.kind, e.is_interruption(), e.ends))
            .collect::<Vec<_>>()
    };
    let state_change = "EC2 Instance State-change Notification";
    assert_eq!(of_ec2(state_change, "stopping"), [(Kind::StateChange, true, None)]);
    assert_eq!(of_ec2(state_change, "running"), [(Kind::StateChange, false, None)]);
    assert_eq!(of_ec2("EC2 Spot Instance Interruption Warning", ""), [(Kind::Spot, true, None)]);
    assert_eq!(
        of_ec2("EC2 Instance Rebalance Recommendation", ""),
        [(Kind::Rebalance, false, None)]
    );
    let capacity = "EC2 Capacity Reservation Instance Interruption Warning";
    assert_eq!(
        of_ec2(capacity, ""),
        [(Kind::CapacityReservation, true, Some(instant("2026-01-05T09:02:00Z")))]
    );
    let health =
        json!({ "affectedEntities": [{ "entityValue": "i-1" }, { "entityValue": "i-2" }] });
    let of_health = of_event_bridge("aws.health", "AWS Health Event", &health);
    assert_eq!(
        of_health.iter().map(|e| (e.instance.as_str(), e.is_interruption())).collect::<Vec<_>>(),
        [("i-1", false), ("i-2", false)]
    );
}

#[test]
fn the_warning_of_a_capacity_block_is_one_event_for_each_instance_in_it() {
    let detail = json!({
        "capacity-reservation-id": "cr-1", "end-date": "2026-01-05T09:40:00Z"
    });
    for kind in ["", " Reservation"] {
        let detail_type = format!("Capacity Block{kind} Expiration Warning");
        let [of_block] = &of_event_bridge("aws.ec2", &detail_type, &detail)[..] else {
            panic!("{detail_type}")
        };
        assert_eq!(of_block.ends, Some(instant("2026-01-05T09:40:00Z")));
        assert!(of_block.is_interruption());
        let blocks = [("i-1", "cr-1"), ("i-2", "cr-2"), ("i-3", "cr-1")]
            .map(|(i, block)| (i.to_owned(), block.to_owned()));
        let each = of_block.clone().of_each(&blocks.into());
        let instances: Vec<_> = each.iter().map(|event| event.instance.as_str()).collect();
        assert_eq!(instances, ["i-1", "i-3"]);
    }
}

#[test]
fn what_is_no_event_asks_for_nothing() {
    for body in [
        "",
        "{",
        "[]",
        "null",
        "\u{fffd}\u{1}",
        "{\"detail-type\":\"EC2 Spot Instance Interruption Warning\"}",
        "a: b",
    ] {
        assert_eq!(events(body), [], "{body}");
    }
    let detail = json!({ "instance-id": INSTANCE });
    assert_eq!(of_event_bridge("aws.ecs", "EC2 Spot Instance Interruption Warning", &detail), []);
    let tested = of_event_bridge("sundown.test", "EC2 Spot Instance Interruption Warning", &detail);
    assert!(tested.iter().all(|e| e.is_test && e.kind == Kind::Spot) && tested.len() == 1);
}
