//! What is not understood: it gets a reason and a hint, and is kept.

use super::{body, in_envelope};
use crate::interruption::{Irrelevant, MAX_BODY, Reject, parse};

/// The word of the rejection of a body that must be rejected.
fn rejected(body: impl AsRef<[u8]>) -> &'static str {
    let shown = String::from_utf8_lossy(body.as_ref().get(..body.as_ref().len().min(200)).unwrap())
        .into_owned();
    let reject = parse(body).expect_err(&shown);
    assert!(Reject::LABELS.contains(&reject.as_str()), "{shown}");
    assert!(!reject.hint().is_empty() && reject.to_string().len() < 1000, "{shown}");
    reject.as_str()
}

#[test]
fn c10_a_body_that_is_not_json_is_rejected() {
    for text in [
        "?",
        "{",
        "{]",
        r#"{"version":"0""#,
        "null x",
        "\u{feff}{}",
        "Hello, world",
        "{\"a\":\"\u{1}\"}",
    ] {
        assert_eq!(rejected(text), "not_json", "{text}");
    }
}

#[test]
fn c11_a_spot_event_without_a_valid_detail_is_rejected() {
    for detail in [r#""?""#, "[]", "5", r#"["i-1234567890abcdef0","terminate"]"#] {
        let text = body::spot_terminate.replace(
            r#"{"instance-id":"i-1234567890abcdef0","instance-action":"terminate"}"#,
            detail,
        );
        assert_eq!(rejected(&text), "wrong_type", "{detail}");
    }
    assert_eq!(
        rejected(body::spot_terminate.replace(r#""detail":{"#, r#""detail":{?"#)),
        "not_json"
    );
    assert_eq!(
        rejected(body::spot_terminate.replace(r#""detail":"#, r#""details":"#)),
        "missing_field"
    );
    assert_eq!(
        rejected(body::spot_terminate.replace(r#""detail":{"#, r#""detail":null,"x":{"#)),
        "missing_field"
    );
}

#[test]
fn c12_a_lifecycle_event_without_a_valid_detail_is_rejected() {
    for detail in [r#""detail":"?","x":{"#, r#""detail":[],"x":{"#, r#""detail":true,"x":{"#] {
        assert_eq!(
            rejected(body::terminate.replace(r#""detail":{"#, detail)),
            "wrong_type",
            "{detail}"
        );
    }
}

#[test]
fn c13_an_empty_event_is_rejected() {
    assert_eq!(rejected(body::empty_object), "other_shape");
    assert_eq!(
        rejected(r#"{"version":"","id":"","detail-type":"","source":"","detail":null}"#),
        "other_shape"
    );
}

#[test]
fn c14_an_empty_body_is_rejected() {
    for text in ["", " ", "\n\t\r "] {
        assert_eq!(rejected(text), "empty");
    }
}

#[test]
fn c15_an_object_that_is_not_an_event_is_rejected() {
    for text in [
        r#"{"a":1}"#,
        "[]",
        "[[]]",
        "5",
        "null",
        "true",
        r#""text""#,
        r#"["0","id","EC2 Spot Instance Interruption Warning",null,"aws.ec2"]"#,
        r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}"#,
        r#"{"Type":"Something","Message":"{}"}"#,
    ] {
        assert_eq!(rejected(text), "other_shape", "{text}");
    }
}

#[test]
fn a_body_that_is_not_utf8_is_rejected() {
    assert_eq!(rejected([0xff, 0xfe, b'{', b'}']), "not_utf8");
    let mut bytes = body::spot_terminate.as_bytes().to_vec();
    *bytes.get_mut(40).unwrap() = 0x80;
    assert_eq!(rejected(bytes), "not_utf8");
    assert_eq!(rejected(body::spot_terminate.replace(r#""id":""#, r#""id":"\ud800"#)), "not_json");
}

#[test]
fn a_value_of_the_wrong_type_is_named() {
    for (from, to) in [
        (r#""version":"0""#, r#""version":0"#),
        (r#""source":"aws.ec2""#, r#""source":["aws.ec2"]"#),
        (r#""instance-id":"i-1234567890abcdef0""#, r#""instance-id":12"#),
        (r#""instance-action":"terminate""#, r#""instance-action":{"a":1}"#),
        (r#""time":"2026-03-04T05:06:07Z""#, r#""time":1772600767"#),
    ] {
        assert_eq!(rejected(body::spot_terminate.replace(from, to)), "wrong_type", "{to}");
    }
    for (from, to) in [
        (r#"{"entityValue":"i-abcd1111"}"#, r#""i-abcd1111""#),
        (r#"{"entityValue":"i-abcd1111"}"#, r#"["i-abcd1111"]"#),
        (r#""entityValue":"i-abcd1111""#, r#""entityValue":7"#),
        (r#""affectedEntities":["#, r#""affectedEntities":7,"x":["#),
    ] {
        assert_eq!(rejected(body::health.replace(from, to)), "wrong_type", "{to}");
    }
    assert_eq!(rejected(r#"{"Type":"Notification","Message":{"detail-type":"x"}}"#), "wrong_type");
}

#[test]
fn only_a_duplicate_of_a_field_that_sundown_reads_is_rejected() {
    for (from, to) in [
        (r#""source":"#, r#""source":"aws.health","source":"#),
        (r#""detail":"#, r#""detail":{},"detail":"#),
        (r#""instance-id":"#, r#""instance-id":"i-12345678","instance-id":"#),
    ] {
        assert_eq!(rejected(body::spot_terminate.replace(from, to)), "duplicate_key", "{to}");
    }
    assert!(
        parse(body::spot_terminate.replace(r#""region":"#, r#""region":"x","region":"#)).is_ok()
    );
    assert_eq!(
        rejected(
            body::sns_native_lines
                .replace("EC2InstanceId:", r"EC2InstanceId: i-12345678\nEC2InstanceId:")
        ),
        "duplicate_key"
    );
}

#[test]
fn an_unknown_version_is_rejected_but_a_missing_one_is_accepted() {
    assert_eq!(
        rejected(body::terminate.replace(r#""version":"0""#, r#""version":"1""#)),
        "unknown_version"
    );
    assert_eq!(
        rejected(body::other_source.replace(r#""version":"0""#, r#""version":"2.0""#)),
        "unknown_version"
    );
    assert_eq!(parse(body::terminate.replace(r#""version":"0","#, "")), parse(body::terminate));
}

#[test]
fn a_malformed_instance_id_is_rejected() {
    let long = "i-".repeat(100_000);
    for id in [
        "i-",
        "i-xyz",
        "i-1234567890ABCDEF0",
        "mi-1234567890abcdef0",
        "i-1234567890abcdef0 ",
        "i-1234567890abcdef01",
        &long,
    ] {
        for text in [body::terminate, body::native_terminate, body::spot_terminate, body::rebalance]
        {
            assert_eq!(
                rejected(text.replace("\"i-1234567890abcdef0\"", &format!("{id:?}"))),
                "bad_instance_id",
                "{id:.40}"
            );
        }
    }
    assert_eq!(
        rejected(
            body::spot_terminate
                .replace("i-1234567890abcdef0\",\"instance-action", "\",\"instance-action")
        ),
        "missing_field"
    );
}

#[test]
fn a_missing_required_field_is_named() {
    for key in ["EC2InstanceId", "AutoScalingGroupName", "LifecycleHookName", "LifecycleTransition"]
    {
        let gone = body::terminate.replace(&format!(r#""{key}""#), r#""x""#);
        assert_eq!(parse(&gone), Err(Reject::MissingField(key)));
    }
    assert_eq!(
        parse(body::terminate.replace(r#""source""#, r#""x""#)),
        Err(Reject::MissingField("source"))
    );
    assert_eq!(
        parse(body::state_running.replace(r#""state""#, r#""x""#)),
        Err(Reject::MissingField("state"))
    );
    assert_eq!(rejected(r#"{"Type":"Notification","TopicArn":"t"}"#), "missing_field");
}

#[test]
fn names_that_are_too_long_or_have_control_characters_are_rejected() {
    let long = "x".repeat(256);
    for (text, from) in [
        (body::terminate, "my-hook"),
        (body::terminate, "my-asg"),
        (body::native_terminate, "18b2ec17-3e9b-4c15-8024-ff2e8ce8786a"),
    ] {
        assert_eq!(
            rejected(text.replace(&format!(r#"{from}""#), &format!(r#"{long}""#))),
            "bad_field"
        );
        assert_eq!(rejected(text.replace(&format!(r#"{from}""#), r#"a\u0000b""#)), "bad_field");
    }
}

#[test]
fn a_transition_that_is_unknown_or_contradicts_the_detail_type_is_rejected() {
    for text in [body::terminate, body::native_terminate] {
        assert_eq!(
            rejected(text.replace("EC2_INSTANCE_TERMINATING", "EC2_INSTANCE_DREAMING")),
            "unknown_transition"
        );
    }
    assert_eq!(
        rejected(body::terminate.replace("EC2_INSTANCE_TERMINATING", "EC2_INSTANCE_LAUNCHING")),
        "unknown_transition"
    );
}

#[test]
fn a_subscription_that_must_be_confirmed_is_rejected() {
    assert_eq!(rejected(body::sns_subscription), "unconfirmed");
    assert!(parse(body::sns_subscription).unwrap_err().hint().contains("SubscribeURL"));
}

#[test]
fn an_error_inside_an_envelope_is_the_same_as_without_the_envelope() {
    for text in ["", "?", "[]", "{}"] {
        assert_eq!(parse(in_envelope(text)), parse(text));
    }
    let mut text = body::spot_terminate.to_owned();
    for _ in 0..3 {
        text = in_envelope(&text);
    }
    assert_eq!(rejected(text), "too_many_envelopes");
}

#[test]
fn large_bodies_and_deep_nesting_are_answered_in_bounded_time_and_stack() {
    const KIB: usize = 1024;
    assert_eq!(rejected("x".repeat(256 * KIB)), "not_json");
    assert_eq!(rejected(" ".repeat(256 * KIB)), "empty");
    assert_eq!(rejected("x".repeat(MAX_BODY + 1)), "too_long");
    for open in
        ["[", r#"{"a":"#, r#"{"detail":"#, r#"{"Message":"#, r#"{"detail":{"affectedEntities":["#]
    {
        let label = rejected(open.repeat(256 * KIB / open.len()));
        assert!(matches!(label, "not_json" | "wrong_type"), "{open}: {label}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(rejected(&deep), "other_shape");
    let padded =
        body::spot_terminate.replace(r#""resources":["#, &format!(r#""x":{deep},"resources":["#));
    assert_eq!(parse(padded), parse(body::spot_terminate), "what nobody looks at may be deep");
    let many = format!(r#"{{"entityValue":"{}"}},"#, "i-abcd1111").repeat(5_000);
    assert_eq!(
        parse(body::health.replace(r#"{"entityValue":"i-abcd1111"},"#, &many)),
        parse(body::health)
    );
}

#[test]
fn every_reason_in_metrics_is_unique_and_in_snake_case() {
    let mut words: Vec<_> =
        Reject::LABELS.into_iter().chain(Irrelevant::ALL.map(Irrelevant::as_str)).collect();
    assert!(
        words
            .iter()
            .all(|w| w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'))
    );
    words.sort_unstable();
    let all = words.len();
    words.dedup();
    assert_eq!(words.len(), all);
}
