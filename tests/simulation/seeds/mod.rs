//! Random worlds in which random things happen and go wrong, each from a seed, judged by rules that
//! share no code with the service.
//!
//! `SUNDOWN_SEEDS=N` runs so many seeds instead of the usual ones (with `SUNDOWN_FIRST_SEED`: these
//! alone, from there on), `SUNDOWN_SEED=S` one alone and prints its plan and its timeline; with
//! `SUNDOWN_LOG=info` what the service says of itself too. `tests/simulate-many` plays many more in
//! the release profile.

mod build;
mod changes;
mod coverage;
mod draw;
mod eighth;
mod eleventh;
mod faults;
mod fifth;
mod fourteenth;
mod fourth;
pub mod kill;
mod ninth;
#[cfg(test)]
mod once_failed;
mod people;
mod phases;
mod plan;
mod play;
mod replicas;
mod returns;
pub mod runner;
mod second;
mod seventh;
mod sixth;
mod tenth;
mod third;
mod thirteenth;
mod twelfth;
#[cfg(test)]
mod usual;

use self::plan::Plan;
use crate::judge::{Evidence, judge, timeline};

/// Plays the world of a seed on a runtime of its own.
pub fn play_seed(seed: u64) -> Evidence {
    // Everything happens in this process: without sockets, no step of the time asks the kernel for
    // any.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(play::play(&Plan::of(seed)))
}

/// Plays one seed, prints its plan and its timeline, and returns the promises that it broke. With
/// `SUNDOWN_LOG=info` it prints what the service logs, too.
pub fn replay(seed: u64) -> Vec<String> {
    if let Ok(filter) = std::env::var("SUNDOWN_LOG") {
        sundown::observe::logs::init(&filter, sundown::observe::LogFormat::Json).unwrap();
    }
    let evidence = play_seed(seed);
    println!("{:#?}\n{}", Plan::of(seed), timeline::timeline(&evidence));
    let broken = judge(&evidence);
    if broken.is_empty() {
        println!("seed {seed} breaks no promise");
    } else {
        println!("seed {seed} breaks:\n  {}", broken.join("\n  "));
    }
    broken
}
