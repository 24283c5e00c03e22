//! Traces: one for each drain, which shows where its time went.
//!
//! They are built from the events that are reported anyway. The OpenTelemetry SDK queues and sends
//! them on a thread of its own, so that drains never wait for a collector. Spans that could not be
//! sent are counted. A build without the feature `otlp` (`--no-default-features`) sends no traces.

mod drain;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod span_data;
#[cfg(feature = "otlp")]
mod tracer;

use std::{fmt::Debug, path::PathBuf, time::Duration};

pub use self::drain::{DrainStart, DrainTrace};
#[cfg(feature = "otlp")]
pub use self::tracer::{ExporterParts, Tracer, start};
use crate::domain::Moment;

/// The `--otlp-…` flags: the collector that traces are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The whole URL that spans are posted to, with its path.
    pub endpoint: String,
    /// A file with more headers, one `Name: value` a line, which is read again for every request.
    pub headers: Option<PathBuf>,
}

impl Settings {
    /// The settings for the collector at `url`. `/v1/traces`, the path of OTLP, is appended unless
    /// the URL ends with it.
    #[must_use]
    pub fn at(url: &str, headers: Option<PathBuf>) -> Self {
        let base = url.trim_end_matches('/');
        let endpoint = if base.ends_with("/v1/traces") {
            base.to_owned()
        } else {
            format!("{base}/v1/traces")
        };
        Self { endpoint, headers }
    }
}

/// The flags for traces cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableSettings {
    /// The file with headers cannot be used.
    #[error("--otlp-headers-file {path}: {why}; give one `Name: value` a line")]
    Headers {
        /// The path of the file.
        path: String,
        /// The reason, without the values of headers, which are secret.
        why: String,
    },
    /// The HTTP client could not be built.
    #[error("traces cannot be sent: {0}")]
    Client(String),
}

/// The spans of one drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The trace ID. Every leader that this drain has computes the same one.
    pub id: [u8; 16],
    /// The spans; the first is the root.
    pub spans: Vec<Span>,
}

/// A span as in OpenTelemetry: a step of the drain with its start and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The span ID, unique in its trace.
    pub id: [u8; 8],
    /// The ID of the span that contains this one. `None`: this is the root.
    pub parent: Option<[u8; 8]>,
    /// One of a few fixed names: `drain`, `accept`, `evict`, `blocked` or `complete`.
    pub name: &'static str,
    /// When it began.
    pub start: Moment,
    /// When it ended.
    pub end: Moment,
    /// Facts about the step.
    pub attributes: Vec<Attribute>,
    /// Events during the step, at most 64.
    pub events: Vec<Event>,
    /// How many more events there were.
    pub dropped_events: u32,
    /// The error message. `None`: nothing failed.
    pub failed: Option<String>,
}

/// An event of a span, as in OpenTelemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub at: Moment,
    /// One of a few fixed names, such as `first eviction`.
    pub name: &'static str,
    /// Facts about the event.
    pub attributes: Vec<Attribute>,
}

/// The name and the value of an attribute.
pub type Attribute = (&'static str, Value);

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `string_value` in OTLP.
    Text(String),
    /// `int_value` in OTLP.
    Number(i64),
    /// `bool_value` in OTLP.
    Flag(bool),
}

/// Takes the traces of drains that have ended; replaced by a fake in tests.
pub trait TraceSink: Debug + Send + Sync {
    /// Queues a trace. Must not wait, because the task of all drains calls it.
    fn send(&self, trace: Trace);

    /// Sends what is queued, and stops. Blocks the thread, for `limit` at most.
    fn shutdown(&self, limit: Duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_otlp_is_appended_once() {
        for url in [
            "http://c:4318",
            "http://c:4318/",
            "http://c:4318/v1/traces",
            "http://c:4318/v1/traces/",
        ] {
            assert_eq!(Settings::at(url, None).endpoint, "http://c:4318/v1/traces", "{url}");
        }
        assert_eq!(Settings::at("https://c/otlp", None).endpoint, "https://c/otlp/v1/traces");
    }
}
