//! The chart, by the Helms that people have, its alerts, by promtool, and the manifests that are
//! made of it, by kustomize.
//!
//! `tests/control-plane/build` builds them beside the control plane and prints where they are;
//! SUNDOWN_CONTROL_PLANE says so to these tests. Without it they are skipped, with
//! SUNDOWN_CONTROL_PLANE=required they fail. What needs only Rust is in tests/documents.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::print_stderr,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests: a panic is how they fail"
)]

mod alerts;
#[path = "../documents/calls.rs"]
mod calls;
mod chart;
#[allow(dead_code, reason = "what only other tests need of it")]
#[path = "../documents/expressions.rs"]
mod expressions;
mod from_nth;
mod manifests;
mod pod_rules;
#[allow(dead_code, reason = "what only tests of processes need of it")]
#[path = "../binary/process.rs"]
mod process;
mod roles;
mod schema;
mod security;
#[allow(dead_code, reason = "what only other tests need of it")]
#[path = "../documents/settings.rs"]
mod settings;
#[path = "../binary/skip.rs"]
mod skip;
mod snapshots;
mod tools;
mod values_of_peers;
