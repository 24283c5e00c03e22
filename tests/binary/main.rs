//! The built binary as a process, against the embedded AWS and the embedded Kubernetes on loopback,
//! in real time.
//!
//! Nothing here waits for a fixed time in order that something has happened: every wait is for
//! something that can be seen, with a limit that a loaded machine keeps too.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::missing_panics_doc,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests: a panic is how they fail, and they run in real time"
)]

mod checking;
mod draining;
mod empty_root;
mod enrolling;
#[allow(dead_code, reason = "what only other tests need of it")]
#[path = "../documents/expressions.rs"]
mod expressions;
mod flags;
mod leading;
mod leaving_nth;
mod notifying;
mod pausing;
mod probing;
mod process;
mod requesting;
mod scraping;
mod simulating;
mod skip;
mod stage;
mod status;
mod stopping;
mod testing;
