//! The figures of `docs/benchmarks.md`, each with its baseline measured in the same run.
//!
//! `benches/run` measures all of them (an hour), `benches/run NAME…` those whose name or group
//! starts with NAME, `benches/run --list` names them. Each measured figure is printed as a line of
//! JSON and written into `docs/figures`; a table comes last. `--once` makes one run where otherwise
//! several count, and writes nothing. The exit code is 1 when a figure misses a bar, and 3 when a
//! baseline is worse than what any idle machine with two cores reaches: the machine is too noisy
//! then for the figures to mean anything.
//!
//! The service is the binary of this very build, run as a process. So is the bare client of the
//! baselines (`figures bare`). The embedded AWS and the embedded Kubernetes are in this process, on
//! loopback. All of them share the machine's cores.
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

mod bare;
mod burst;
mod drains;
mod flood;
mod hostile;
mod memory;
mod pure;
mod real;
mod record;
mod report;
mod scale;
mod stage;
mod sweep;
mod system;
mod takeover;

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
#[path = "../tests/binary/skip.rs"]
mod skip;

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use report::{Figure, Verdict};

/// A measurement.
struct Bench {
    /// A name for several measurements; empty: none.
    group: &'static str,
    figures: &'static [&'static str],
    measure: fn() -> Vec<Figure>,
}

const fn bench(
    group: &'static str,
    figures: &'static [&'static str],
    measure: fn() -> Vec<Figure>,
) -> Bench {
    Bench { group, figures, measure }
}

/// What can be measured. The pages show the figures in this order.
const BENCHES: &[Bench] = &[
    bench("", &["parse"], pure::parse),
    bench("", &["drain-core", "drain-core-linear"], pure::drain_core),
    bench("", &["burst", "burst-calls"], burst::burst),
    bench("", &["flood", "flood-known", "flood-known-patches"], flood::flood),
    bench("", &["budget"], drains::budget),
    bench("", &["calls-evict", "calls-other"], drains::calls),
    bench("", &["takeover-5000"], takeover::takeover),
    bench("hostile", &["hostile-webhook-200", "hostile-webhook-500"], hostile::webhook),
    bench("hostile", &["hostile-connections"], hostile::connections),
    bench("hostile", &["memory-bodies"], memory::bodies),
    bench("", &["memory-drains"], memory::drains),
    bench("", &["memory-nodes"], memory::nodes),
    bench("", &["scale-10k-cpu", "scale-10k-memory"], scale::ten_thousand),
    bench("", &["sweep-calls", "sweep-cpu"], sweep::sweep),
    bench("", &["size"], memory::size),
    bench("", &["real-burst-100"], real::hundred),
    bench("", &["real-burst-1000"], real::thousand),
    bench("", &["real-evictions", "real-evictions-calls", "real-evictions-reads"], real::evictions),
    bench("", &["real-budget"], real::budget),
    bench("", &["real-flood-known", "real-flood-deleted"], real::flood_known),
    bench("", &["real-flood"], real::flood),
    bench("", &["real-ready", "real-memory-nodes"], real::nodes),
    bench("", &["real-memory-100"], real::drains_100),
    bench("", &["real-memory-1000"], real::drains_1000),
    bench("", &["real-takeover-term", "real-takeover-kill", "real-takeover-gap"], real::takeover),
    bench("", &["real-takeover-5000"], real::takeover_5000),
    bench(
        "",
        &["real-watches-8", "real-watches-32", "real-watches-128", "real-watches-512"],
        real::watches,
    ),
    bench("", &["real-watches-lists"], real::watches_lists),
];

static ONCE: AtomicBool = AtomicBool::new(false);

/// How often is measured what is measured several times.
pub fn runs() -> usize {
    if ONCE.load(Ordering::Relaxed) { 1 } else { 5 }
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("bare") => return bare::main(),
        Some("--list") => {
            BENCHES.iter().flat_map(|b| b.figures).for_each(|name| println!("{name}"));
            return ExitCode::SUCCESS;
        }
        Some("--once") => {
            ONCE.store(true, Ordering::Relaxed);
            arguments.remove(0);
        }
        _ => {}
    }
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|a| name.starts_with(a.as_str()));
    let mut figures = Vec::new();
    for bench in BENCHES.iter().filter(|b| {
        b.figures.iter().any(|name| wanted(name)) || !b.group.is_empty() && wanted(b.group)
    }) {
        eprintln!("{} …", bench.figures.join(", "));
        let measured = (bench.measure)();
        // At once: what comes later may fail.
        report::json_lines(&measured);
        if !ONCE.load(Ordering::Relaxed) {
            record::write(&measured);
        }
        figures.extend(measured);
    }
    if figures.is_empty() {
        eprintln!("no figure is called {}; --list names them", arguments.join(" "));
        return ExitCode::from(2);
    }
    report::table(&figures);
    let verdicts: Vec<Verdict> = figures.iter().map(Figure::verdict).collect();
    if verdicts.contains(&Verdict::Noisy) {
        eprintln!(
            "\nnoisy machine: a baseline is worse than its floor, so its figures say nothing and \
             are not written"
        );
        return ExitCode::from(3);
    }
    if verdicts.contains(&Verdict::Missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
