//! Traces: one for each drain, which shows where its time went.
//!
//! They are built from the events that are reported anyway. A task of their own sends them, so that
//! drains never wait for a collector. Spans that could not be sent are counted. A build without the
//! feature `otlp` (`--no-default-features`) sends no traces.

mod drain;
#[cfg(feature = "otlp")]
mod otlp;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::mpsc;
use tracing::warn;

pub use self::drain::{DrainStart, DrainTrace};
#[cfg(feature = "otlp")]
pub use self::otlp::{ExporterParts, start};
use super::{Metrics, TraceResult};
use crate::domain::Moment;

/// How many traces may wait to be sent; more are dropped and counted.
const WAITING: usize = 256;

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
    /// A string.
    Text(String),
    /// An integer.
    Number(i64),
    /// A boolean.
    Flag(bool),
}

/// Queues traces to be sent. All clones share one queue.
#[derive(Debug, Clone)]
pub struct Tracer {
    traces: mpsc::Sender<Trace>,
    /// How many traces are neither sent nor given up yet.
    pending: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

/// The receiving end of a [`Tracer`]'s queue.
#[derive(Debug)]
pub struct Outbox {
    traces: mpsc::Receiver<Trace>,
    pending: Arc<AtomicUsize>,
}

impl Tracer {
    /// A tracer and the receiving end of its queue.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> (Self, Outbox) {
        let (traces, out) = mpsc::channel(WAITING);
        let pending = Arc::<AtomicUsize>::default();
        (Self { traces, pending: Arc::clone(&pending), metrics }, Outbox { traces: out, pending })
    }

    /// Queues a trace. Never waits: when the queue is full, the trace is dropped.
    pub fn send(&self, trace: Trace) {
        let spans = trace.spans.len();
        self.pending.fetch_add(1, Ordering::Relaxed);
        if self.traces.try_send(trace).is_err() {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            self.metrics.trace_spans(TraceResult::Dropped, spans);
            warn!(
                "Dropped a trace, because {WAITING} others wait to be sent. Check whether the \
                 collector answers. Drains go on."
            );
        }
    }

    /// Waits until every queued trace is sent or given up, for `most` at most.
    pub async fn flush(&self, most: Duration) {
        let everything = async {
            while self.pending.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(most, everything).await.ok();
    }
}

impl Outbox {
    /// Waits for the next trace. `None`: every tracer was dropped, so no other trace comes.
    pub async fn next(&mut self) -> Option<Trace> {
        self.traces.recv().await
    }

    /// The next trace, if one waits already.
    pub fn waiting(&mut self) -> Option<Trace> {
        self.traces.try_recv().ok()
    }

    /// `traces` of the traces that were taken out are now sent or given up.
    pub fn done(&self, traces: usize) {
        self.pending.fetch_sub(traces, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::LabelValues;

    #[tokio::test(start_paused = true)]
    async fn traces_that_nobody_takes_are_dropped_and_counted_and_delay_nobody() {
        let metrics = Arc::new(Metrics::new(&LabelValues::default()));
        let (tracer, mut outbox) = Tracer::new(Arc::clone(&metrics));
        let span = Span {
            id: [1; 8],
            parent: None,
            name: "drain",
            start: Moment::UNIX_EPOCH,
            end: Moment::UNIX_EPOCH,
            attributes: vec![],
            events: vec![],
            dropped_events: 0,
            failed: None,
        };
        for _ in 0..WAITING + 3 {
            tracer.send(Trace { id: [7; 16], spans: vec![span.clone(), span.clone()] });
        }
        assert!(
            metrics.render().unwrap().contains("sundown_trace_spans_total{result=\"dropped\"} 6\n")
        );
        assert!(outbox.next().await.is_some() && outbox.waiting().is_some());
        outbox.done(2);
        // Nobody takes the others: `flush` stops after its limit.
        tracer.flush(Duration::from_secs(2)).await;
    }

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
