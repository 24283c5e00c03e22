//! What holds for any bytes at all.

use proptest::{prelude::*, sample::select};

use super::{body, in_envelope, one};
use crate::{
    domain::{Cause, InstanceId},
    interruption::{Parsed, Reject, TestContent, parse},
};

/// An answer is complete and bounded, whatever it is.
fn is_sound(body: &[u8]) {
    let first = parse(body);
    assert_eq!(first, parse(body), "the same bytes, the same answer");
    match first {
        Ok(Parsed::Interruptions(all)) => assert!(!all.is_empty()),
        Ok(Parsed::Test(test)) => match test.content {
            TestContent::Interruptions(all) => assert!(!all.is_empty()),
            TestContent::CapacityBlock(_) => {}
        },
        Ok(Parsed::CapacityBlock(_) | Parsed::TestNotification | Parsed::Irrelevant(_)) => {}
        Err(reject) => {
            assert!(Reject::LABELS.contains(&reject.as_str()));
            assert!(reject.to_string().len() < 1000);
        }
    }
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof!["i-[0-9a-f]{17}", "i-[0-9a-f]{8}"]
}

fn name() -> impl Strategy<Value = String> {
    "[ -~&&[^\"\\\\]]{1,255}"
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        is_sound(&bytes);
    }

    #[test]
    fn any_text_in_an_envelope_gets_the_answer_of_the_text(text in ".{0,200}") {
        prop_assert_eq!(parse(in_envelope(&text)), parse(&text));
    }

    #[test]
    fn damaged_events_get_an_answer(
        (_, text) in select(body::CORPUS),
        damage in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..8
        ),
    ) {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte, how) in damage {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => *bytes.get_mut(at).unwrap() = byte,
                1 => bytes.insert(at, byte),
                2 => bytes.truncate(at),
                _ => {
                    let tail = bytes.split_off(at);
                    bytes.extend_from_slice(&tail);
                    bytes.extend_from_slice(&tail);
                }
            }
        }
        is_sound(&bytes);
    }

    #[test]
    fn fields_with_any_value_get_an_answer(
        (_, text) in select(body::CORPUS), field in any::<prop::sample::Index>(), value in select(&[
        "null", "true", "0", "-1e308", "\"\"", "[]", "{}", "\"x\"", "\"\\u0000\"", "[null]",
        "{\"a\":{}}", "\"9999-12-31T23:59:59Z\"",
    ])) {
        let mut event: serde_json::Value = serde_json::from_str(text).unwrap();
        let top = event.as_object_mut().unwrap();
        let inner = top.contains_key("detail") && field.index(2) == 0;
        let map = if inner { top["detail"].as_object_mut().unwrap() } else { top };
        if let Some(slot) = (!map.is_empty()).then(|| field.index(map.len())).and_then(|n| map.values_mut().nth(n)) {
            *slot = serde_json::from_str(value).unwrap();
        }
        is_sound(event.to_string().as_bytes());
    }

    #[test]
    fn an_instance_id_comes_out_as_it_went_in(id in id(), (kind, text) in select(body::CORPUS)) {
        let expected: InstanceId = id.parse().unwrap();
        let renamed = text.replace("i-1234567890abcdef0", &id).replace("i-abcd1111", &id);
        match (parse(text), parse(&renamed)) {
            (Ok(Parsed::Interruptions(_)), Ok(Parsed::Interruptions(all))) => {
                prop_assert_eq!(
                    all.iter().map(|i| &i.instance).collect::<Vec<_>>(), [&expected], "{}", kind
                );
            }
            (before, after) => prop_assert_eq!(before, after, "{}", kind),
        }
    }

    #[test]
    fn the_names_of_a_lifecycle_action_come_out_as_they_went_in(group in name(), hook in name()) {
        let text = body::terminate.replace("my-hook", &hook).replace(
            r#""my-asg""#, &format!(r#""{group}""#)
        );
        let Cause::Terminate(action) = one(text).cause else { unreachable!() };
        prop_assert_eq!(action.group.as_str(), group);
        prop_assert_eq!(action.hook.as_str(), hook);
    }
}
