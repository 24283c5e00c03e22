//! The parser under libFuzzer: total (no panic, no endless loop) and deterministic.

#![no_main]
#![allow(dead_code, unused_imports, reason = "two rooms without the rest of the house")]

#[path = "../../../src/domain/mod.rs"]
mod domain;
#[path = "../../../src/interruption/mod.rs"]
mod interruption;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let first = interruption::parse(body);
    assert_eq!(first, interruption::parse(body));
    match first {
        Ok(interruption::Parsed::Interruptions(all)) => assert!(!all.is_empty()),
        Ok(interruption::Parsed::Test(test)) => match test.content {
            interruption::TestContent::Interruptions(all) => assert!(!all.is_empty()),
            interruption::TestContent::CapacityBlock(_) => {}
        },
        Ok(
            interruption::Parsed::CapacityBlock(_)
            | interruption::Parsed::TestNotification
            | interruption::Parsed::Irrelevant(_),
        ) => {}
        Err(reject) => assert!(reject.to_string().len() < 1000 && !reject.hint().is_empty()),
    }
});
