//! The figures of `docs/benchmarks.md`, each with its baseline measured in the same run.
//!
//! `benches/run` measures all of them (three quarters of an hour), `benches/run NAME…` those whose name begins so, `benches/run --list` names
//! them. JSON lines come first, then a table. It fails when a figure misses its bar (1), or when a baseline is worse than what any idle
//! machine with two cores reaches: then the machine is too noisy for the figures to mean anything (3).
//!
//! The service is the binary of this very build, run as a process; the embedded AWS and the embedded Kubernetes are in this one, on loopback:
//! two cores are shared by both, and by the baselines' clients.
#![allow(
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints, and fails by panicking"
)]

mod burst;
mod drains;
mod flood;
mod memory;
mod pure;
mod real;
mod report;
mod stage;

#[allow(dead_code, reason = "what only tests need of it")]
#[path = "../tests/control-plane/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "what only tests need of it")]
#[path = "../tests/control-plane/stage.rs"]
mod control_plane;
#[allow(dead_code, reason = "what only tests need of it")]
#[path = "../tests/control-plane/log.rs"]
mod log;
#[allow(dead_code, reason = "what only tests need of it")]
#[path = "../tests/binary/process.rs"]
mod process;

use std::process::ExitCode;

use report::{Figure, Verdict};

/// The names of the figures that come of a measurement, and how it is made.
type Bench = (&'static [&'static str], fn() -> Vec<Figure>);

/// What can be measured.
const BENCHES: &[Bench] = &[
    (&["parse"], pure::parse),
    (&["drain-core", "drain-core-linear"], pure::drain_core),
    (&["burst", "burst-calls"], burst::burst),
    (&["flood", "flood-known", "flood-known-patches"], flood::flood),
    (&["budget"], drains::budget),
    (&["calls-evict", "calls-other"], drains::calls),
    (&["memory-drains"], memory::drains),
    (&["memory-nodes"], memory::nodes),
    (&["memory-bodies"], memory::bodies),
    (&["size"], memory::size),
    (&["real-burst-100"], real::hundred),
    (&["real-burst-1000"], real::thousand),
    (&["real-evictions", "real-evictions-calls", "real-evictions-reads"], real::evictions),
    (&["real-budget"], real::budget),
    (&["real-flood-known", "real-flood-deleted", "real-flood"], real::flood),
    (&["real-ready", "real-memory-nodes"], real::nodes),
    (&["real-memory-100", "real-memory-1000"], real::drains),
    (&["real-takeover-term", "real-takeover-kill", "real-takeover-gap"], real::takeover),
    (&["real-watches-8", "real-watches-32", "real-watches-128", "real-watches-512"], real::watches),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        BENCHES.iter().flat_map(|(names, _)| *names).for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|a| name.starts_with(a.as_str()));
    let mut figures = Vec::new();
    for (names, bench) in BENCHES.iter().filter(|(names, _)| names.iter().any(|name| wanted(name))) {
        eprintln!("{} …", names.join(", "));
        let measured = bench();
        // At once: what comes later may fail.
        report::json_lines(&measured);
        figures.extend(measured);
    }
    if figures.is_empty() {
        eprintln!("no figure is called {}; --list names them", arguments.join(" "));
        return ExitCode::from(2);
    }
    report::table(&figures);
    let verdicts: Vec<Verdict> = figures.iter().map(Figure::verdict).collect();
    if verdicts.contains(&Verdict::Noisy) {
        eprintln!("\nnoisy machine: a baseline is worse than its floor, so this run says nothing");
        return ExitCode::from(3);
    }
    if verdicts.contains(&Verdict::Missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
