//! What is understood.

use super::{INSTANCE, body, in_envelope, interruptions, one};
use crate::{
    domain::{
        CapacityBlock, Cause, ChangeAction, ChangeStatus, DrainSettings, HealthNotice, HookAction,
        HookPurpose, InstanceId, Interruption, Kind, Moment, PoolEnd, SpotAction, seconds,
    },
    interruption::{Irrelevant, Parsed, Reject, TEST_SOURCE, TestContent, TestEvent, parse},
};

fn moment(text: &str) -> Moment {
    text.parse().unwrap()
}

fn action(i: &Interruption) -> &HookAction {
    i.hook().unwrap()
}

fn state_change(state: &str) -> String {
    body::state_shutting_down.replace("shutting-down", state)
}

#[test]
fn a_terminate_action_is_parsed_with_all_its_fields() {
    let i = one(body::terminate);
    assert_eq!((i.kind(), i.instance.as_str()), (Kind::TerminateHook, INSTANCE));
    assert_eq!(i.event_id, "12345678-1234-1234-1234-123456789012");
    assert_eq!(i.time, Some(moment("2026-03-04T05:06:07Z")));
    let a = action(&i);
    assert_eq!((a.group.as_str(), a.hook.as_str()), ("my-asg", "my-hook"));
    assert_eq!(a.token.as_ref().unwrap().as_str(), "87654321-4321-4321-4321-210987654321");
    assert_eq!((a.origin, a.destination), (Some(PoolEnd::Group), Some(PoolEnd::Ec2)));
    assert_eq!(a.purpose, HookPurpose::Ordinary);
}

#[test]
fn a_native_notification_has_the_same_fields_and_its_request_id_is_the_event_id() {
    let i = one(body::native_terminate);
    assert_eq!((i.kind(), i.instance.as_str()), (Kind::TerminateHook, INSTANCE));
    assert_eq!(i.event_id, "18b2ec17-3e9b-4c15-8024-ff2e8ce8786a");
    assert_eq!(i.time, Some(moment("2021-01-19T00:36:26.533Z")));
    assert_eq!(action(&i).token.as_ref().unwrap().as_str(), "71514b9d-6a40-4b26-8523-05e7ee35fa40");
}

#[test]
fn settings_in_the_metadata_are_read_in_every_form_and_no_metadata_rejects_an_event() {
    let settings = r#"{"sundown":{"drain-timeout":"4h"}}"#;
    let quoted = serde_json::to_string(settings).unwrap();
    let lines = "LifecycleTransition: autoscaling:EC2_INSTANCE_TERMINATING\n\
        AutoScalingGroupName: my-asg\nLifecycleHookName: my-hook\n\
        EC2InstanceId: i-1234567890abcdef0\nNotificationMetadata: ";
    let in_event = |json: &str| body::terminate.replace("\"additional-info\"", json);
    let in_native = body::native_terminate.replace("\"hook message metadata\"", &quoted);
    for text in [
        in_event(&quoted),
        // What an input transformer of EventBridge makes of it.
        in_event(settings),
        in_native.clone(),
        in_envelope(&in_native),
        in_envelope(&format!("{lines}{settings}")),
    ] {
        let i = one(&text);
        assert_eq!(action(&i).settings().drain_timeout, Some(seconds(4 * 3600)), "{text}");
    }
    for json in ["null", "7", "[]", "{\"a\":1}", "\"\"", "\"{\"", "\"\\u0000\""] {
        assert_eq!(action(&one(in_event(json))).metadata, None, "{json}");
    }
    let bad = one(in_event(&quoted.replace("4h", "9d")));
    let metadata = action(&bad).metadata.as_ref().unwrap();
    assert_eq!((metadata.0, metadata.1.len()), (DrainSettings::NONE, 1));
}

#[test]
fn a_launch_action_is_distinguished_from_a_terminate_action() {
    let i = one(body::launch);
    assert_eq!(
        (i.kind(), action(&i).origin, action(&i).destination),
        (Kind::LaunchHook, Some(PoolEnd::Ec2), Some(PoolEnd::Group))
    );
    let native = body::native_terminate.replace("TERMINATING", "LAUNCHING");
    assert_eq!(one(native).kind(), Kind::LaunchHook);
}

#[test]
fn a_warm_pool_is_read_as_origin_or_destination() {
    let to = one(body::terminate_to_warm_pool);
    assert_eq!(
        (action(&to).origin, action(&to).destination),
        (Some(PoolEnd::Group), Some(PoolEnd::WarmPool))
    );
    assert_eq!(to.time, Some(moment("2021-01-13T00:12:37.214Z")));
    let within = one(body::terminate_in_warm_pool);
    assert_eq!(
        (action(&within).origin, action(&within).destination),
        (Some(PoolEnd::WarmPool), Some(PoolEnd::Ec2))
    );
    let newer =
        one(body::terminate.replace(r#""Origin":"AutoScalingGroup""#, r#""Origin":"Moon""#));
    assert_eq!(action(&newer).origin, None);
}

#[test]
fn a_root_volume_replacement_is_distinguished_from_a_termination() {
    let i = one(body::replace_root_volume);
    assert_eq!((i.kind(), action(&i).purpose), (Kind::RootVolume, HookPurpose::ReplaceRootVolume));
    let unsaid = body::replace_root_volume.replace(r#","Action":"ReplaceRootVolume""#, "");
    assert_eq!(
        action(&one(unsaid)).purpose,
        HookPurpose::ReplaceRootVolume,
        "from the group to the group"
    );
    let other = body::terminate.replace(r#""Origin""#, r#""Action":"Terminate","Origin""#);
    assert_eq!(action(&one(other)).purpose, HookPurpose::Ordinary);
}

#[test]
fn a_malformed_token_is_left_out() {
    let i = one(body::terminate.replace("87654321-4321-4321-4321-210987654321", "short"));
    assert_eq!(action(&i).token, None);
}

#[test]
fn c17_a_successful_launch_is_irrelevant_unless_it_comes_out_of_a_warm_pool() {
    assert_eq!(parse(body::launch_successful), Ok(Parsed::Irrelevant(Irrelevant::OrdinaryLaunch)));
    let unsaid = body::launch_successful.replace(r#","Origin":"EC2""#, "");
    assert_eq!(parse(unsaid), Ok(Parsed::Irrelevant(Irrelevant::OrdinaryLaunch)));
    let back = one(body::launch_successful.replace(r#""Origin":"EC2""#, r#""Origin":"WarmPool""#));
    assert_eq!(back.cause, Cause::LaunchSuccessful { group: "my-asg".into() });
    assert!(back.goes_into_service());
    let elsewhere = body::launch_successful
        .replace(r#""Origin":"EC2""#, r#""Origin":"WarmPool""#)
        .replace(r#""Destination":"AutoScalingGroup""#, r#""Destination":"WarmPool""#);
    assert_eq!(parse(elsewhere), Ok(Parsed::Irrelevant(Irrelevant::OrdinaryLaunch)));
}

#[test]
fn a_spot_warning_has_its_action_and_an_unknown_action_counts_as_terminate() {
    for (text, expected) in [
        (body::spot_terminate.to_owned(), SpotAction::Terminate),
        (body::spot_stop.to_owned(), SpotAction::Stop),
        (body::spot_hibernate.to_owned(), SpotAction::Hibernate),
        (body::spot_stop.replace(r#""stop""#, r#""evaporate""#), SpotAction::Terminate),
        (body::spot_stop.replace(r#","instance-action":"stop""#, ""), SpotAction::Terminate),
    ] {
        assert_eq!(one(&text).cause, Cause::Spot(expected), "{text}");
    }
}

#[test]
fn an_interruption_with_an_empty_unreadable_or_missing_time_is_accepted() {
    for time in [r#""time":"""#, r#""time":"yesterday""#, r#""time":null"#, r#""other":1"#] {
        let text = body::spot_terminate.replace(r#""time":"2026-03-04T05:06:07Z""#, time);
        assert_eq!((one(&text).time, one(&text).kind()), (None, Kind::Spot), "{time}");
    }
}

#[test]
fn times_are_read_with_and_without_milliseconds_and_with_an_offset() {
    for (text, same) in [
        ("2026-03-04T05:06:07Z", "2026-03-04T05:06:07Z"),
        ("2026-03-04T05:06:07.214Z", "2026-03-04T05:06:07.214Z"),
        ("2026-03-04T06:06:07+01:00", "2026-03-04T05:06:07Z"),
    ] {
        assert_eq!(
            one(body::rebalance.replace("2026-03-04T05:06:07Z", text)).time,
            Some(moment(same)),
            "{text}"
        );
    }
}

#[test]
fn a_capacity_warning_is_read_with_either_spelling_and_with_resources_as_string_or_list() {
    let hyphen = body::capacity.replace("detail_type", "detail-type");
    let list = hyphen.replace(
        r#""resources":"arn:aws:ec2:eu-west-1:123456789012:instance/i-1234567890abcdef0""#,
        r#""resources":["x"]"#,
    );
    assert_ne!(list, hyphen);
    for text in [body::capacity, &hyphen, &list] {
        let i = one(text);
        assert_eq!(
            (i.instance.as_str(), &i.cause),
            (INSTANCE, &Cause::CapacityReservation { ends: Some(moment("2026-03-04T05:08:07Z")) })
        );
    }
    let unsaid = body::capacity.replace("instance-termination-time", "x");
    assert_eq!(one(unsaid).cause, Cause::CapacityReservation { ends: None });
}

#[test]
fn a_capacity_block_warning_names_the_block_and_its_end() {
    let too = body::capacity_block
        .replace("Capacity Block Expiration", "Capacity Block Reservation Expiration");
    let underscore = body::capacity_block.replace("detail-type", "detail_type");
    let block = |ends: Option<&str>| CapacityBlock {
        reservation: "cr-1234567890abcdef0".parse().unwrap(),
        event_id: "12345678-1234-1234-1234-123456789012".to_owned(),
        time: Some(moment("2026-03-04T10:50:00Z")),
        ends: ends.map(moment),
    };
    let end = "2026-03-04T11:30:00Z";
    for text in [body::capacity_block, &too, &underscore, &in_envelope(&underscore)] {
        assert_eq!(parse(text), Ok(Parsed::CapacityBlock(block(Some(end)))), "{text}");
    }
    let without = body::capacity_block.replace("end-date", "x");
    let unreadable = body::capacity_block.replace(end, "tomorrow");
    for text in [without, unreadable] {
        assert_eq!(parse(text), Ok(Parsed::CapacityBlock(block(None))));
    }
    let test = body::capacity_block.replace("aws.ec2", TEST_SOURCE);
    let content = TestContent::CapacityBlock(block(Some(end)));
    assert_eq!(parse(test), Ok(Parsed::Test(TestEvent { content, ignored: 0, real: false })));
    let instance: InstanceId = INSTANCE.parse().unwrap();
    let of_one = block(None).of(instance.clone());
    assert_eq!((of_one.instance, of_one.cause), (instance, Cause::CapacityBlock { ends: None }));
}

#[test]
fn a_capacity_block_warning_without_the_id_of_a_reservation_is_rejected() {
    let id = "cr-1234567890abcdef0";
    let of = |to: &str| parse(body::capacity_block.replace(&format!("\"{id}\""), to));
    let field = "capacity-reservation-id";
    for wrong in [
        "\"i-1234567890abcdef0\"",
        "\"cr-\"",
        "\"cr-1234567\"",
        "\"cr-1234567890ABCDEF0\"",
        "\"*\"",
    ] {
        assert_eq!(of(wrong), Err(Reject::BadField(field)), "{wrong}");
    }
    assert_eq!(of(&format!("\"cr-{}\"", "a".repeat(33))), Err(Reject::BadField(field)));
    assert_eq!(of("\"\""), Err(Reject::MissingField(field)));
    assert_eq!(of("1").unwrap_err().as_str(), "wrong_type");
}

#[test]
fn the_four_ending_states_are_interruptions() {
    for state in ["stopping", "stopped", "shutting-down", "terminated"] {
        let i = one(state_change(state));
        assert_eq!(
            (i.instance.as_str(), &i.cause),
            ("i-abcd1111", &Cause::StateChange(state.parse().unwrap())),
            "{state}"
        );
    }
}

#[test]
fn c19_a_state_that_is_not_ending_or_not_known_is_irrelevant() {
    for state in ["pending", "running"] {
        assert_eq!(
            parse(state_change(state)),
            Ok(Parsed::Irrelevant(Irrelevant::StateNotEnding)),
            "{state}"
        );
    }
    assert_eq!(parse(state_change("creating")), Ok(Parsed::Irrelevant(Irrelevant::UnknownState)));
}

#[test]
fn c20_an_empty_or_partial_state_is_irrelevant() {
    for state in ["", "stop", "ing", "stopping,stopped", "Stopped", " stopped"] {
        assert_eq!(
            parse(state_change(state)),
            Ok(Parsed::Irrelevant(Irrelevant::UnknownState)),
            "{state:?}"
        );
    }
}

#[test]
fn c22_a_health_event_is_one_interruption_for_each_instance_in_it() {
    let all = interruptions(body::health);
    assert_eq!(
        all.iter().map(|i| i.instance.as_str()).collect::<Vec<_>>(),
        [INSTANCE, "i-abcd1111"]
    );
    for i in all {
        let Cause::ScheduledChange(notice) = i.cause else { panic!("{i:?}") };
        assert_eq!(notice.code, "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED");
        assert_eq!(notice.communication_id.as_deref(), Some("1234abc01232a4012345678-1"));
        assert_eq!(
            notice.starts,
            Some(moment("2016-06-05T15:10:09Z")),
            "RFC 1123, whatever the day of the week is"
        );
        assert_eq!(notice.status, ChangeStatus::Upcoming);
        assert_eq!(notice.action(), ChangeAction::BeforeStart);
    }
}

#[test]
fn a_health_event_names_instances_by_id_or_arn_and_each_counts_once() {
    let arn = r#"{"entityValue":"arn:aws:ec2:eu-west-1:123456789012:instance/i-abcd1111"},{"entityValue":"i-abcd1111"}"#;
    let all = interruptions(body::health.replace(r#"{"entityValue":"i-abcd1111"}"#, arn));
    assert_eq!(all.len(), 2);
    let closed = interruptions(body::health.replace("upcoming", "closed"));
    assert!(closed.iter().all(|i| notice(i).status == ChangeStatus::Closed));
}

fn notice(interruption: &Interruption) -> &HealthNotice {
    let Cause::ScheduledChange(notice) = &interruption.cause else { panic!("{interruption:?}") };
    notice
}

/// A Health event with all fields that decide something, and with these replaced.
fn full_health(changes: &[(&str, serde_json::Value)]) -> String {
    let mut detail = serde_json::json!({
        "eventArn": "arn:aws:health:eu-west-1::event/EC2/AWS_EC2_INSTANCE_STOP_SCHEDULED/x",
        "service": "EC2", "eventTypeCode": "AWS_EC2_INSTANCE_STOP_SCHEDULED",
        "eventTypeCategory": "scheduledChange", "eventScopeCode": "ACCOUNT_SPECIFIC",
        "communicationId": "c-1", "statusCode": "open", "eventRegion": "eu-west-1",
        "affectedAccount": "123456789012", "startTime": "Fri, 18 Dec 2026 09:00:00 GMT",
        "lastUpdatedTime": "Tue, 01 Dec 2026 08:00:00 GMT", "actionability": "ACTION_REQUIRED",
        "page": "2", "totalPages": "3",
        "affectedEntities": [{ "entityValue": "i-abcd1111", "status": "PENDING" }],
    });
    for (key, value) in changes {
        detail.as_object_mut().unwrap().insert((*key).to_owned(), value.clone());
    }
    serde_json::json!({
        "version": "0", "id": "e", "detail-type": "AWS Health Event", "source": "aws.health",
        "account": "999999999999", "time": "2026-12-01T08:00:05Z", "region": "us-west-2",
        "resources": [], "detail": detail,
    })
    .to_string()
}

#[test]
fn the_region_and_the_account_of_a_scheduled_change_are_those_in_the_detail() {
    let event = one(full_health(&[]));
    assert_eq!(
        *notice(&event),
        HealthNotice {
            event_arn: "arn:aws:health:eu-west-1::event/EC2/AWS_EC2_INSTANCE_STOP_SCHEDULED/x"
                .to_owned(),
            communication_id: Some("c-1".to_owned()),
            code: "AWS_EC2_INSTANCE_STOP_SCHEDULED".to_owned(),
            status: ChangeStatus::Open,
            starts: Some(moment("2026-12-18T09:00:00Z")),
            updated: Some(moment("2026-12-01T08:00:00Z")),
            region: Some("eu-west-1".to_owned()),
            account: Some("123456789012".to_owned()),
            is_informational: false,
        }
    );
    assert_eq!(event.time, Some(moment("2026-12-01T08:00:05Z")));
    assert_eq!(event.kind(), Kind::ScheduledChange);
}

#[test]
fn what_a_scheduled_change_lacks_or_garbles_does_not_lose_it() {
    use serde_json::json;
    let of =
        |key: &str, value: serde_json::Value| notice(&one(full_health(&[(key, value)]))).clone();
    for (key, value) in [("startTime", json!("soon")), ("startTime", json!(null))] {
        assert_eq!(of(key, value).starts, None, "{key}");
    }
    assert_eq!(
        of("startTime", json!("2026-12-18T09:00:00Z")).starts,
        notice(&one(full_health(&[]))).starts
    );
    assert_eq!(of("lastUpdatedTime", json!("")).updated, None);
    assert_eq!(of("eventRegion", json!("global")).region, None);
    assert_eq!(of("eventRegion", json!(5)).region, None);
    assert_eq!(of("affectedAccount", json!("me")).account, None);
    assert_eq!(of("communicationId", json!("")).communication_id, None);
    assert!(of("actionability", json!("INFORMATIONAL")).is_informational);
    assert!(!of("actionability", json!("ACTION_MAY_BE_REQUIRED")).is_informational);
    for (status, expected) in [
        (json!("upcoming"), ChangeStatus::Upcoming),
        (json!("open"), ChangeStatus::Open),
        (json!("closed"), ChangeStatus::Closed),
        (json!("new-status"), ChangeStatus::Upcoming),
        (json!(null), ChangeStatus::Upcoming),
    ] {
        assert_eq!(of("statusCode", status.clone()).status, expected, "{status}");
    }
}

#[test]
fn an_entity_that_is_resolved_is_closed_and_the_others_are_not() {
    let entity =
        |id: &str, status: &str| serde_json::json!({ "entityValue": id, "status": status });
    let all = serde_json::json!([
        entity("i-aaaa1111", "RESOLVED"),
        entity("i-aaaa2222", "PENDING"),
        entity("i-aaaa3333", "RESOLVED"),
        entity("i-aaaa3333", "IMPAIRED"),
    ]);
    let read = interruptions(full_health(&[("affectedEntities", all)]));
    let statuses: Vec<_> = read.iter().map(|i| (i.instance.as_str(), notice(i).status)).collect();
    assert_eq!(
        statuses,
        [
            ("i-aaaa1111", ChangeStatus::Closed),
            ("i-aaaa2222", ChangeStatus::Open),
            ("i-aaaa3333", ChangeStatus::Open),
        ]
    );
}

#[test]
fn c23_health_events_about_anything_else_are_irrelevant() {
    for (from, to, reason) in [
        (r#""service":"EC2""#, r#""service":"RDS""#, Irrelevant::OtherHealthService),
        (r#""scheduledChange""#, r#""issue""#, Irrelevant::OtherHealthCategory),
        (r#""scheduledChange""#, r#""accountNotification""#, Irrelevant::OtherHealthCategory),
        (r#""entityValue":"i-"#, r#""entityValue":"vol-"#, Irrelevant::NoInstance),
        ("affectedEntities", "otherEntities", Irrelevant::NoInstance),
    ] {
        assert_eq!(parse(body::health.replace(from, to)), Ok(Parsed::Irrelevant(reason)), "{to}");
    }
}

#[test]
fn c05_a_test_notification_in_an_event_is_recognized() {
    assert_eq!(parse(body::terminate_test), Ok(Parsed::TestNotification));
    let only_event = body::terminate.replace(
        r#""LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING""#,
        r#""Event":"autoscaling:TEST_NOTIFICATION""#,
    );
    assert_eq!(parse(only_event), Ok(Parsed::TestNotification));
}

#[test]
fn c07_a_native_test_notification_is_recognized() {
    assert_eq!(parse(body::native_test), Ok(Parsed::TestNotification));
    assert_eq!(parse(body::sns_test), Ok(Parsed::TestNotification));
    assert_eq!(
        parse(body::native_test.replace(r#""Event""#, r#""LifecycleTransition""#)),
        Ok(Parsed::TestNotification)
    );
}

#[test]
fn c08_a_bare_wrapper_around_a_native_notification_changes_nothing() {
    assert_eq!(parse(body::wrapped_native), parse(body::native_terminate));
}

#[test]
fn c09_an_sns_envelope_changes_nothing() {
    for (enveloped, plain) in [
        (body::sns_native, body::native_terminate),
        (body::sns_terminate, body::terminate),
        (body::sns_spot, body::spot_terminate),
    ] {
        assert_eq!(parse(enveloped), parse(plain));
    }
    for (name, plain) in body::CORPUS
        .iter()
        .filter(|(name, _)| !name.starts_with("sns") && !name.starts_with("wrapped"))
    {
        assert_eq!(parse(in_envelope(plain)), parse(plain), "{name}");
        assert_eq!(
            parse(in_envelope(&in_envelope(plain))),
            parse(plain),
            "{name}: a topic that forwards to a topic"
        );
    }
}

#[test]
fn a_notification_in_lines_of_text_is_read_as_the_same_in_json() {
    assert_eq!(parse(body::sns_native_lines), parse(body::native_terminate));
}

#[test]
fn c16_an_unknown_source_or_detail_type_is_irrelevant() {
    assert_eq!(parse(body::other_source), Ok(Parsed::Irrelevant(Irrelevant::OtherSource)));
    for (text, from) in [
        (body::terminate, "EC2 Instance-terminate Lifecycle Action"),
        (body::rebalance, "EC2 Instance Rebalance Recommendation"),
        (body::health, "AWS Health Event"),
    ] {
        assert_eq!(
            parse(text.replace(from, "Something Else")),
            Ok(Parsed::Irrelevant(Irrelevant::OtherDetailType))
        );
    }
    let scaling = body::native_test.replace("TEST_NOTIFICATION", "EC2_INSTANCE_LAUNCH");
    assert_eq!(parse(scaling), Ok(Parsed::Irrelevant(Irrelevant::OtherNotification)));
}

#[test]
fn fields_that_sundown_does_not_read_may_hold_anything() {
    let text = body::spot_terminate
        .replace(r#""account":"123456789012""#, r#""account":{"x":[1,2]},"new":null"#)
        .replace(r#""region":"eu-west-1","#, "");
    assert_eq!(one(text).kind(), Kind::Spot);
}
