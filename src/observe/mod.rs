//! Metrics, logs, traces, notifications and the HTTP endpoints.

pub mod endpoints;
mod health;
mod json_lines;
mod labels;
pub mod logs;
pub mod metrics;
pub mod traces;
pub mod webhook;

pub use endpoints::Endpoints;
pub use health::{Loop, Loops, Readiness, ReadyFlag};
pub use labels::{
    CompletionResult, DrainEnd, GoneNodeStep, HeartbeatResult, ImpairedStep, MessageOutcome,
    PodState, RecordEvent, SweepResult, TraceResult, WebhookResult,
};
pub use logs::{LogFormat, LogOnce};
pub use metrics::{Calls, LabelValues, Metrics, Place};
