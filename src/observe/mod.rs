//! Metrics, logs, traces, notifications, the admin listener.

pub mod admin;
mod health;
mod labels;
pub mod logs;
pub mod metrics;
pub mod traces;
pub mod webhook;

pub use admin::Admin;
pub use health::{Loop, Loops, Readiness, ReadyFlag};
pub use labels::{BeatResult, CompletionResult, DrainEnd, MessageOutcome, PodState, RecordEvent, TraceResult, WebhookResult};
pub use logs::{LogFormat, LogOnce};
pub use metrics::{Calls, Metrics, Place, Words};
