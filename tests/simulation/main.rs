//! The whole service against the embedded AWS and the embedded Kubernetes, in paused time.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::duration_suboptimal_units,
    clippy::needless_for_each,
    clippy::missing_panics_doc,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::maybe_infinite_iter,
    dead_code,
    reason = "tests: a panic is how they fail, and counters are whole numbers"
)]

mod drains;
mod harness;
mod judge;
mod messages;
mod operation;
mod seeds;
mod skeleton;
