//! An embedded Kubernetes: an API server with a store, and small controllers behind it.
//!
//! It speaks the wire protocol, so the real client talks to it: in process
//! ([`EmbeddedKube::client`]) or over loopback ([`EmbeddedKube::serve`]). Everything that happens
//! by itself happens on tokio's clock, in an order that the seed decides.

mod agenda;
mod build;
mod control;
mod delete;
mod deployments;
mod discovery;
mod disruption;
mod events;
mod eviction;
mod failure;
mod faults;
mod journal;
mod json;
mod kinds;
mod kubelet;
mod list;
mod machine;
mod namespaces;
mod nodes;
mod object;
mod options;
mod patch;
mod path;
mod pods;
mod react;
mod render;
mod request;
mod rules;
mod scenario;
mod scheduler;
mod selector;
mod server;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod trouble;
mod validate;
mod verbs;
mod watch;
mod workloads;

pub use build::{BudgetSpec, NodeSpec, PodShape, PodSpec, PodState, PodView, Workload};
pub use control::EmbeddedKube;
pub use faults::{Away, EvictionReview, EvictionVerdict, Fault, Match, Rule, RuleId};
pub use journal::{ConditionState, Entry, Fact, NodeState, PodRef, Request};
pub use options::{Expired, Options, Timing};
pub use server::{KubeService, ResponseBody};

use super::http::BoxError;
