//! Runs the pure state machines and performs their effects.
//!
//! - The process: `service` has [`serve`], the one function that `sundown run` and a simulation
//!   call; leadership begins and ends there. `shared`: what all tasks share. `context`: what the
//!   tasks of a term share besides. `conditions`: those of `/readyz`.
//!   `housekeeping`: background checks on every replica. `pod_rules`: the rules
//!   about pods. `dead_letters`: the depth of the dead-letter queues.
//! - A message: `intake` receives and deletes it, `message_reader` parses it, `decision` and
//!   `questions` decide about each of its interruptions, and `dry_report` reports what a dry run
//!   would do. `decision_lines`: its log lines. `sweep` finds hooks whose message never came,
//!   `impaired_sweep` sick instances. `capacity_block`: the instances of a Capacity Block.
//!   `scheduled_events`: those that EC2 shows. `planned`: scheduled
//!   changes. `hook_claims`: which lifecycle hooks
//!   Sundown answers. `returns`: instances that are back in service. `claims` and `accept` write the
//!   record.
//! - A drain: `fleet` runs [`crate::fleet`], and `fleet::perform` turns its effects into calls.
//!   `drain_conditions`: the conditions of Nodes about their drains. `hooks`: heartbeats and completions. `release`: the end of a drain. `node_writer`: PATCHes of
//!   Nodes, retried until they succeed. `deleted_nodes`: Nodes that disappeared with open lifecycle
//!   actions while nobody led.
//! - Output: `report` turns events into log lines, metrics, Kubernetes Events, notifications
//!   (`notices`) and traces. `board`: a report about each drain, for people. `sinks`: other
//!   receivers, such as the log of a `trial`. `places`: group, zone and type of a node. `counting`:
//!   metrics of calls.

mod abandon;
mod accept;
mod active_term;
mod board;
mod capacity_block;
mod claims;
mod conditions;
mod context;
mod counting;
mod dead_letters;
mod decision;
mod decision_lines;
mod deleted_nodes;
mod drain_conditions;
mod dry_report;
mod end_sweep;
mod fleet;
mod gone_sweep;
mod hook_claims;
mod hooks;
mod housekeeping;
mod impaired_sweep;
pub mod intake;
mod intake_slot;
mod message_end;
mod message_reader;
mod node_writer;
mod notices;
mod places;
mod planned;
mod pod_rules;
mod questions;
mod release;
mod report;
mod requests;
mod return_sweep;
mod returns;
mod rounds;
mod scheduled_events;
mod service;
mod shared;
mod sinks;
mod sweep;
mod trial;
mod warm_pool;

pub use board::{BlockedFor, Board, NodeReport};
pub use conditions::AWAITED;
pub use counting::label_values;
pub use fleet::{drain_settings, limit_settings};
pub use service::{Parts, serve};
pub use sinks::Sinks;
pub use trial::{NotATrialQueue, TRIAL_BEGINS, TrialEntry, TrialLog, Would, check_trial_queues};
