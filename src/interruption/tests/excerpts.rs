//! What a log shows of a body that was not understood.
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use super::{body, in_envelope};
use crate::{
    domain::Cause,
    interruption::{Parsed, TestContent, excerpt, parse},
};

#[test]
fn a_short_body_is_shown_whole_and_a_long_one_is_cut() {
    for text in ["", "Hello, world", r#"{"a":1,"detail":{"state":"running"}}"#, "ключ: значение"]
    {
        assert_eq!(excerpt(text), text);
    }
    assert_eq!(excerpt(&"é".repeat(1_000_000)), "é".repeat(200));
}

#[test]
fn tokens_and_other_secrets_are_not_shown() {
    const SECRET: &str = "71514b9d-6a40-4b26-8523-05e7eEXAMPLE";
    let json = format!(r#"{{"LifecycleActionToken":"{SECRET}","a":"b"}}"#);
    for text in [
        json.clone(),
        in_envelope(&json),
        in_envelope(&in_envelope(&json)),
        format!("LifecycleActionToken: {SECRET}\nAutoScalingGroupName: asg"),
        format!(
            "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token={SECRET}&TopicArn=t"
        ),
        format!(r#"{{"credentials":{{"sessionToken" : "{SECRET}"}}}}"#),
        format!("<Token>{SECRET}</Token>"),
        format!(r#"{{"db_password":'{SECRET}',"#),
        format!("token {SECRET}, token {SECRET}"),
        format!(r#"{{"lifecycleactiontoken":"{SECRET}"#),
        // It begins within what is shown and ends behind it.
        format!(r#"{}"token":"{SECRET}""#, "x".repeat(180)),
        format!(r#"{}"token":"{SECRET}""#, "x".repeat(150)),
    ] {
        let shown = excerpt(&text);
        assert!(!shown.contains("71514b9d") && !shown.contains("EXAMPLE"), "{shown}");
        assert!(
            shown.contains("oken") || shown.contains("password") || shown.chars().count() == 200,
            "{shown}"
        );
    }
    assert_eq!(excerpt(&json), r#"{"LifecycleActionToken":"[...]","a":"b"}"#);
}

#[test]
fn a_test_event_that_names_thousands_of_instances_is_cut_short() {
    let entities: Vec<_> =
        (0..5_000).map(|n| serde_json::json!({ "entityValue": format!("i-{n:017x}") })).collect();
    let real = body::health.parse::<serde_json::Value>().unwrap();
    let mut test = real.clone();
    test["source"] = "sundown.test".into();
    test["detail"]["affectedEntities"] = entities.clone().into();
    let Ok(Parsed::Test(test)) = parse(test.to_string()) else { panic!("no test event") };
    let TestContent::Interruptions(all) = test.content else { panic!("no interruptions") };
    assert_eq!((all.len(), test.ignored), (100, 4_900));
    assert!(all.iter().all(|i| matches!(i.cause, Cause::ScheduledChange(_))));
    // An event from AWS has no limit on instances.
    let mut real = real;
    real["detail"]["affectedEntities"] = entities.into();
    let Ok(Parsed::Interruptions(all)) = parse(real.to_string()) else {
        panic!("no interruptions")
    };
    assert_eq!(all.len(), 5_000);
}
