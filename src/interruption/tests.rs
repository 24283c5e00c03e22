//! Every shape, every row of bad input, and what holds for any bytes at all.

mod bad;
mod excerpts;
mod properties;
mod shapes;

use crate::domain::Interruption;

use super::{Parsed, parse};

macro_rules! corpus {
    ($($name:ident),* $(,)?) => {
        /// The bodies that the fuzzer starts from too: one of each shape.
        pub(super) const CORPUS: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
        $(
            pub(super) const $name: &str = include_str!(
                concat!(
                    env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus/parse/", stringify!($name),
                    ".json"
                )
            );
        )*
    };
}

#[allow(non_upper_case_globals, reason = "named as their files")]
mod body {
    corpus!(
        capacity,
        capacity_block,
        empty_object,
        health,
        launch,
        launch_successful,
        native_terminate,
        native_test,
        other_source,
        rebalance,
        replace_root_volume,
        sns_native,
        sns_native_lines,
        sns_spot,
        sns_subscription,
        sns_terminate,
        sns_test,
        spot_hibernate,
        spot_stop,
        spot_terminate,
        state_running,
        state_shutting_down,
        terminate,
        terminate_in_warm_pool,
        terminate_settings,
        terminate_test,
        terminate_to_warm_pool,
        wrapped_native,
    );
}

const INSTANCE: &str = "i-1234567890abcdef0";

/// The interruptions in a body that must hold some.
fn interruptions(body: impl AsRef<[u8]>) -> Vec<Interruption> {
    match parse(&body) {
        Ok(Parsed::Interruptions(all)) => all,
        other => panic!("{other:?} from {}", String::from_utf8_lossy(body.as_ref())),
    }
}

/// The one interruption in a body that must hold exactly one.
fn one(body: impl AsRef<[u8]>) -> Interruption {
    let [one] = <[Interruption; 1]>::try_from(interruptions(body)).unwrap();
    one
}

/// An SNS envelope around a text.
fn in_envelope(message: &str) -> String {
    format!(
        r#"{{"Type":"Notification","TopicArn":"arn:aws:sns:eu-west-1:123456789012:t","Message":{}}}"#,
        serde_json::Value::from(message)
    )
}
