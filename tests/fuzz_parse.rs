//! The parser against damaged events, for `SUNDOWN_FUZZ_SECONDS` (default 2) from
//! `SUNDOWN_FUZZ_SEED` (default 1): whatever comes, it answers, the same way twice, and in bounded
//! words. Starts from the seed corpus of `tests/fuzz`, which libFuzzer uses too.
//!
//! A failure prints the body and can be replayed with the same seed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    time::{Duration, Instant},
};

use sundown::interruption::{Parsed, Reject, TestContent, parse};

/// Bodies between two looks at the clock, and how many such rounds there are at least.
const ROUND: usize = 256;
const ROUNDS: usize = 40;
/// Bodies kept to go on from.
const POOL: usize = 2048;

/// Texts that the parser looks for, and values that parsers stumble over.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "-0",
    "1e999",
    "\u{feff}",
    "\u{0}",
    "i-",
    "i-1234567890abcdef0",
    "0",
    "\"version\":\"1\",",
    "\"detail\":{",
    "\"detail\":null,",
    "\"detail-type\":\"",
    "\"detail_type\":\"",
    "\"source\":\"aws.health\",",
    "\"Message\":\"",
    "\"Type\":\"Notification\",",
    "\"LifecycleTransition\":\"",
    "\"Event\":\"autoscaling:TEST_NOTIFICATION\",",
    "LifecycleTransition: autoscaling:\n",
    "\"affectedEntities\":[",
    "{\"entityValue\":\"i-12345678\"},",
    "\"time\":\"\",",
    "9999-12-31T23:59:59Z",
    "Sat, 05 Jun 2016 15:10:09 GMT",
];

fn number(name: &str, default: u64) -> u64 {
    env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

fn seeds() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/parse");
    let mut files: Vec<_> =
        fs::read_dir(&corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// One small damage: a byte, a word, a piece cut out, doubled, or taken from another body.
fn damage(body: &mut Vec<u8>, pool: &[Vec<u8>], random: &mut fastrand::Rng) {
    let at = random.usize(..=body.len());
    let end = (at + random.usize(..64)).min(body.len());
    let piece: Vec<u8> = match random.u8(..7) {
        0 => {
            body.drain(at..end);
            return;
        }
        1 => {
            if let Some(byte) = body.get_mut(at) {
                *byte ^= 1 << random.u8(..8);
            }
            return;
        }
        2 => vec![random.u8(..)],
        3 => body.get(at..end).unwrap().to_vec(),
        4 => {
            WORDS.get(random.usize(..WORDS.len())).unwrap().repeat(random.usize(1..4)).into_bytes()
        }
        5 => {
            let other = pool.get(random.usize(..pool.len())).unwrap();
            let from = random.usize(..=other.len());
            other.get(from..(from + random.usize(..200)).min(other.len())).unwrap().to_vec()
        }
        // An envelope around all of it.
        _ => {
            let message = serde_json::Value::from(String::from_utf8_lossy(body));
            *body = format!(r#"{{"Type":"Notification","Message":{message}}}"#).into_bytes();
            return;
        }
    };
    body.splice(at..at, piece);
}

/// What holds for every body. Says which answer it was.
fn check(body: &[u8]) -> &'static str {
    let first = parse(body);
    assert_eq!(first, parse(body), "the same bytes, another answer: {}", body.escape_ascii());
    match first {
        Ok(Parsed::Interruptions(all)) => {
            assert!(!all.is_empty(), "{}", body.escape_ascii());
            "interruptions"
        }
        Ok(Parsed::CapacityBlock(_)) => "capacity_block",
        Ok(Parsed::Test(test)) => {
            if let TestContent::Interruptions(all) = test.content {
                assert!(!all.is_empty());
            }
            "test_event"
        }
        Ok(Parsed::TestNotification) => "test",
        Ok(Parsed::Irrelevant(reason)) => reason.as_str(),
        Err(reject) => {
            assert!(
                reject.to_string().len() < 1000 && Reject::LABELS.contains(&reject.as_str()),
                "{}",
                body.escape_ascii()
            );
            reject.as_str()
        }
    }
}

#[test]
fn damaged_events_get_an_answer_and_the_same_one_twice() {
    let seed = number("SUNDOWN_FUZZ_SEED", 1);
    #[allow(clippy::disallowed_methods, reason = "the test itself is limited in real time")]
    let until = Instant::now() + Duration::from_secs(number("SUNDOWN_FUZZ_SECONDS", 2));
    let mut random = fastrand::Rng::with_seed(seed);
    let sources = seeds();
    let mut pool = sources.clone();
    let mut answers = BTreeMap::<_, u64>::new();
    for body in &sources {
        *answers.entry(check(body)).or_default() += 1;
    }
    for round in 0.. {
        #[allow(clippy::disallowed_methods, reason = "the test itself is limited in real time")]
        if round >= ROUNDS && Instant::now() >= until {
            break;
        }
        for _ in 0..ROUND {
            let from = if random.bool() { &sources } else { &pool };
            let mut body = from.get(random.usize(..from.len())).unwrap().clone();
            for _ in 0..random.u8(1..4) {
                damage(&mut body, &pool, &mut random);
            }
            body.truncate(64 * 1024);
            let answer = check(&body);
            *answers.entry(answer).or_default() += 1;
            // What is still JSON is worth going on from; the pool stays bounded.
            if !matches!(answer, "not_json" | "not_utf8" | "too_many_envelopes") {
                if pool.len() < POOL {
                    pool.push(body);
                } else if let Some(place) = pool.get_mut(random.usize(..POOL)) {
                    *place = body;
                }
            }
        }
    }
    println!("seed {seed}: {} bodies, {answers:?}", answers.values().sum::<u64>());
    assert!(answers.len() > 15, "it should reach most of the parser: {answers:?}");
}
