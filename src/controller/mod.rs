//! Runs the pure machines and performs their effects.
//!
//! - `service`: the one function that a run and a simulation call; leadership comes and goes in it.
//!   `housekeeping`: what goes on whoever leads.
//! - `intake`: from the queues to the desk. `desk`, `case`: from a message to a decision. `accept`:
//!   the PATCH.
//! - `fleet`: the task that runs [`crate::fleet`], and `fleet::perform`, where its effects become
//!   calls. `hooks`: heartbeats and completions. `release`: the end of a drain. `node_writer`:
//!   writes of a Node that must succeed in the end. `departed`: what a Node owed that went while
//!   nobody led. `dead_letters`: how deep those queues are.
//! - `report`: what happens to drains becomes log lines, metrics, Events, notifications and traces.
//!   `sinks`: where else: `trial`, `notices`. `places`: where a node is, for figures.

mod accept;
mod board;
mod claims;
mod context;
mod counting;
mod dead_letters;
mod decision;
mod deleted_nodes;
mod fleet;
mod hook_claims;
mod hooks;
mod housekeeping;
pub mod intake;
mod message_reader;
mod node_writer;
mod notices;
mod places;
mod questions;
mod release;
mod report;
mod returns;
mod service;
mod sinks;
mod trial;

pub use board::{BlockedFor, Board, NodeReport};
pub use counting::words;
pub use fleet::{drain_settings, limit_settings};
pub use service::{AWAITED, Parts, serve};
pub use sinks::Sinks;
pub use trial::{NotATrialQueue, TRIAL_BEGINS, TrialEntry, TrialLog, Would, vouch};
