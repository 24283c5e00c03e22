//! Sundown drains Kubernetes nodes before AWS takes their instances away.
//!
//! `docs/architecture.md` describes the modules, which of them may use which, and the rules that
//! their code follows.

pub mod aws;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod controller;
pub mod domain;
pub mod drain;
pub mod election;
pub mod fleet;
pub mod interruption;
pub mod lifecycle;
pub mod observe;
pub mod record;
pub mod runtime;
pub mod sim;
pub mod triage;
