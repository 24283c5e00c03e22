//! The contract: the embedded servers answer as the real ones do, and real clients work with them.
//!
//! A case is a script of requests with the answers that are expected, written beside them. The same
//! case is played to the embedded server (in plain `cargo test`) and to the real one: to a
//! Kubernetes control plane where SUNDOWN_CONTROL_PLANE names one (`tests/control-plane/build`), to
//! moto for SQS, where SUNDOWN_PYTHON names an interpreter that has it (`tests/contract/python`).
//! Without them those tests report that they are skipped; with `required` for a value they fail.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    clippy::disallowed_methods,
    reason = "tests: a panic is how they fail, and they run in real time; scripts take JSON by \
        value"
)]

mod clients;
#[allow(dead_code, reason = "what other tests need of it")]
#[path = "../control-plane/cluster.rs"]
mod cluster;
mod kubernetes;
mod play;
#[allow(dead_code, reason = "what other tests need of it")]
#[path = "../binary/process.rs"]
mod process;
mod python;
mod script;
mod shown;
#[path = "../binary/skip.rs"]
mod skip;
mod sqs;
