//! Sundown as a process against a real Kubernetes control plane, and the embedded AWS.
//!
//! `tests/control-plane/build` builds the control plane and prints where it is;
//! `SUNDOWN_CONTROL_PLANE` names the folder for these tests. Without it they are skipped, with
//! SUNDOWN_CONTROL_PLANE=required they fail.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests: a panic is how they fail, and they run in real time"
)]

mod admission;
mod audit;
mod budgets;
mod checking;
mod cluster;
mod comebacks;
mod conditions;
mod draining;
mod failing;
mod gone;
mod hands;
mod installing;
mod jobs;
#[allow(dead_code, reason = "what only benchmarks need of it")]
mod log;
mod nodes;
mod objects;
mod people;
mod policy;
#[allow(dead_code, reason = "what only tests of the embedded servers need of it")]
#[path = "../binary/process.rs"]
mod process;
mod refusals;
mod replicas;
mod requests;
mod rights;
mod shapes;
mod shedding;
mod shell;
#[path = "../binary/skip.rs"]
mod skip;
mod stage;
mod status;
mod webhook;
mod witness;
mod wording;
mod workloads;
