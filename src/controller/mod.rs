//! Runs the pure machines and performs their effects.
//!
//! - `service`: the one function that a run and a simulation call; leadership comes and goes in it.
//!   `upkeep`: what goes on whoever leads.
//! - `intake`: from the queues to the desk. `desk`, `case`: from a message to a decision. `accept`:
//!   the PATCH.
//! - `fleet`: the task that runs [`crate::fleet`], and `fleet::perform`, where its effects become
//!   calls. `hooks`: heartbeats and completions. `release`: the end of a drain. `node_writer`:
//!   writes of a Node that must succeed in the end. `departed`: what a Node owed that went while
//!   nobody led. `dead_letters`: how deep those queues are.
//! - `report`: what happens to drains becomes log lines, metrics, Events, notifications and traces.
//!   `outlets`: where else: `trial`, `notices`. `places`: where a node is, for figures.

mod accept;
mod board;
mod case;
mod claims;
mod context;
mod counting;
mod dead_letters;
mod departed;
mod desk;
mod fleet;
mod hook_claims;
mod hooks;
pub mod intake;
mod node_writer;
mod notices;
mod outlets;
mod places;
mod questions;
mod release;
mod report;
mod returns;
mod service;
mod trial;
mod upkeep;

pub use board::{BlockedFor, Board, NodeReport};
pub use counting::words;
pub use fleet::{drain_settings, limit_settings};
pub use outlets::Outlets;
pub use service::{AWAITED, Parts, serve};
pub use trial::{NotATrialQueue, TRIAL_BEGINS, TrialEntry, TrialLog, Would, vouch};
