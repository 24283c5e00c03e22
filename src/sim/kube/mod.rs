//! An embedded Kubernetes: an API server with a store, and small controllers behind it.
//!
//! It speaks the wire protocol, so the real client talks to it: in process ([`EmbeddedKube::client`]) or over loopback
//! ([`EmbeddedKube::serve`]). Everything that happens by itself happens on tokio's clock, in an order that the seed decides.

mod build;
mod control;
mod faults;
mod journal;
mod options;

pub use build::{BudgetSpec, NodeSpec, PodShape, PodSpec, PodState, PodView, Workload};
pub use control::EmbeddedKube;
pub use faults::{Away, EvictionReview, EvictionVerdict, Fault, Match, Rule, RuleId};
pub use journal::{Entry, Fact, PodRef, Request};
pub use options::{Expired, Options, Timing};
