//! Random worlds in which random things happen and go wrong, each from a seed, judged by rules that share no code with the service.
//!
//! `SUNDOWN_SEEDS=N` runs so many seeds instead of the usual ones (from `SUNDOWN_FIRST_SEED` on), `SUNDOWN_SEED=S` one alone and prints
//! its plan and its timeline; with `SUNDOWN_LOG=info` what the service says of itself too.

mod build;
mod people;
mod plan;
mod play;

use std::{fmt::Write as _, time::Duration};

use self::plan::Plan;
use crate::judge::{Evidence, judge, story};

/// So many seeds run every time, spread over [`LANES`] tests that run side by side.
const USUAL: u64 = 40;
const LANES: u64 = 2;

/// Runs a seed on a runtime of its own.
fn run(seed: u64) -> Evidence {
    // Paused time stands still while anything is busy: what spins, spins for ever, and so would whoever waits for this.
    let (_done, over) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if over.recv_timeout(Duration::from_secs(120)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("seed {seed} has been running for over two minutes: something spins");
            if over.recv_timeout(Duration::from_secs(480)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("seed {seed} has been running for ten minutes: given up");
                std::process::abort();
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(play::play(&Plan::of(seed)))
}

fn lane(lane: u64) {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().unwrap_or_else(|_| panic!("{name}={v} is no number")));
    if let Some(seed) = number("SUNDOWN_SEED") {
        if lane == 0 {
            if let Ok(filter) = std::env::var("SUNDOWN_LOG") {
                sundown::observe::logs::init(&filter, sundown::observe::LogFormat::Json).unwrap();
            }
            let evidence = run(seed);
            println!("{:#?}\n{}", Plan::of(seed), story::timeline(&evidence));
            let broken = judge(&evidence);
            assert!(broken.is_empty(), "seed {seed} breaks:\n{}", broken.join("\n"));
        }
        return;
    }
    let (first, many) = (number("SUNDOWN_FIRST_SEED").unwrap_or(1), number("SUNDOWN_SEEDS").unwrap_or(USUAL));
    let mut all = String::new();
    for seed in (first..first + many).filter(|s| s % LANES == lane) {
        let broken = judge(&run(seed));
        if !broken.is_empty() {
            println!("seed {seed} breaks:\n  {}", broken.join("\n  "));
            writeln!(all, "seed {seed} breaks:\n  {}", broken.join("\n  ")).unwrap();
        }
    }
    assert!(all.is_empty(), "{all}\nto see one again: SUNDOWN_SEED=N cargo test --test simulation seeds:: -- --nocapture");
}

#[test]
fn whatever_happens_in_a_random_world_the_promises_are_kept_on_even_seeds() {
    lane(0);
}

#[test]
fn whatever_happens_in_a_random_world_the_promises_are_kept_on_odd_seeds() {
    lane(1);
}

#[test]
fn the_same_seed_gives_the_same_journal_twice() {
    let journal = |seed: u64| {
        let evidence = run(seed);
        format!("{:#?}", (&evidence.entries, &evidence.requests, &evidence.calls, &evidence.actions))
    };
    // One in which much is broken.
    let seed = (1_u64..).find(|s| Plan::of(*s).acts.iter().filter(|(_, a)| a.trouble().is_some()).count() > 4).unwrap();
    let (one, two) = (journal(seed), journal(seed));
    if one != two {
        let differs = one.lines().zip(two.lines()).find(|(a, b)| a != b);
        panic!("seed {seed} went differently: {differs:?}");
    }
    assert_ne!(one, journal(seed + 1));
}
