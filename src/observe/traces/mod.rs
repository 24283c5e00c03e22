//! Traces: one for each drain, for whoever looks for where its time went.
//!
//! They are put together from what is reported anyway, and sent by a task of their own: drains
//! never wait for them. What is not sent is counted. A build without the feature `otlp`
//! (`--no-default-features`) sends none.

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

pub use self::drain::{Begun, DrainTrace};
#[cfg(feature = "otlp")]
pub use self::otlp::{ExporterParts, start};
use super::{Metrics, TraceResult};
use crate::domain::Moment;

/// So many traces wait at most; what comes on top is dropped and counted.
const WAITING: usize = 256;

/// How traces are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where the collector takes spans: the whole URL.
    pub endpoint: String,
    /// A file with more headers, one `Name: value` a line; read anew for every request.
    pub headers: Option<PathBuf>,
}

impl Settings {
    /// The collector at this URL, to which the path of traces is appended as OTLP has it, unless it
    /// is there.
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

/// Traces cannot be sent this way.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file with headers cannot be used.
    #[error("--otlp-headers-file {path}: {why}; give one `Name: value` a line")]
    Headers {
        /// Which.
        path: String,
        /// Why, without their values.
        why: String,
    },
    /// There is no way to send.
    #[error("traces cannot be sent: {0}")]
    Client(String),
}

/// The spans of one drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The same whoever tells of this drain.
    pub id: [u8; 16],
    /// The first is the root.
    pub spans: Vec<Span>,
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Told from the others of its trace.
    pub id: [u8; 8],
    /// Within which it happened.
    pub parent: Option<[u8; 8]>,
    /// What it was: few words, known beforehand.
    pub name: &'static str,
    /// When it began.
    pub start: Moment,
    /// When it ended.
    pub end: Moment,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
    /// What happened meanwhile.
    pub events: Vec<Event>,
    /// Events that there was no room for.
    pub dropped_events: u32,
    /// What went wrong.
    pub failed: Option<String>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Moment,
    /// What.
    pub name: &'static str,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
}

/// A name and what stands for it.
pub type Attribute = (&'static str, Value);

/// What stands for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A number.
    Number(i64),
    /// Whether it is so.
    Flag(bool),
}

/// Has traces sent. Clones send through the same task.
#[derive(Debug, Clone)]
pub struct Tracer {
    traces: mpsc::Sender<Trace>,
    /// How many are neither sent nor given up.
    pending: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

/// Where they come out.
#[derive(Debug)]
pub struct Outbox {
    traces: mpsc::Receiver<Trace>,
    pending: Arc<AtomicUsize>,
}

impl Tracer {
    /// One, and where its traces come out.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> (Self, Outbox) {
        let (traces, out) = mpsc::channel(WAITING);
        let pending = Arc::<AtomicUsize>::default();
        (Self { traces, pending: Arc::clone(&pending), metrics }, Outbox { traces: out, pending })
    }

    /// Has a trace sent. Never waits.
    pub fn send(&self, trace: Trace) {
        let spans = trace.spans.len();
        self.pending.fetch_add(1, Ordering::Relaxed);
        if self.traces.try_send(trace).is_err() {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            self.metrics.trace_spans(TraceResult::Dropped, spans);
            warn!(
                "A trace is dropped: {WAITING} wait to be sent. See whether the collector answers."
            );
        }
    }

    /// Waits until all are sent or given up, for this long at most.
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
    /// The next; `None`: there will be none any more.
    pub async fn next(&mut self) -> Option<Trace> {
        self.traces.recv().await
    }

    /// One that waits already.
    pub fn waiting(&mut self) -> Option<Trace> {
        self.traces.try_recv().ok()
    }

    /// So many that came out are sent or given up.
    pub fn done(&self, traces: usize) {
        self.pending.fetch_sub(traces, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Words;

    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_is_dropped_and_counted_and_holds_nobody_up() {
        let metrics = Arc::new(Metrics::new(&Words::default()));
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
        // Nobody takes the others: it gives up in time.
        tracer.flush(Duration::from_secs(2)).await;
    }

    #[test]
    fn the_path_of_traces_is_appended_once() {
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
