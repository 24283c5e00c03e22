//! Queues traces in the batch processor of the OpenTelemetry SDK.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanProcessor as _},
};
use tracing::warn;

use super::{Settings, Trace, TraceSink, UnusableSettings, exporter::CountingExporter, span_data};
use crate::{
    domain::seconds,
    observe::{Metrics, TraceResult},
};

/// How many spans may wait to be sent. More are dropped and counted. The SDK takes the memory of
/// the whole queue at the start: ADR 12 has the figures.
const QUEUE: usize = 1024;
/// How many spans one request has at most.
const BATCH: usize = 128;
/// How long spans wait for others, unless a whole batch waits.
const LINGER: Duration = seconds(1);

/// What [`start`] needs.
#[derive(Debug)]
pub struct ExporterParts {
    /// The flags for traces.
    pub settings: Settings,
    /// `--cluster-name`: the attribute `k8s.cluster.name`. `None`: no such attribute.
    pub cluster: Option<String>,
    /// The name of this process: the attribute `service.instance.id`.
    pub instance: String,
    /// Counts spans (`sundown_trace_spans_total`).
    pub metrics: Arc<Metrics>,
}

/// Starts the thread that sends traces. Call it within the runtime that the HTTP calls shall use.
/// Errs when the file with headers cannot be used, or when the HTTP client cannot be built.
pub fn start(parts: ExporterParts) -> Result<Tracer, UnusableSettings> {
    let ExporterParts { settings, cluster, instance, metrics } = parts;
    let waiting = Arc::<AtomicUsize>::default();
    let exporter = CountingExporter::new(settings, Arc::clone(&waiting), Arc::clone(&metrics))?;
    // The builder reads variables of the SDK (OTEL_BSP_…), which these three override.
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(LINGER)
        .build();
    let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    processor.set_resource(&resource(cluster, instance));
    let scope =
        InstrumentationScope::builder("sundown").with_version(env!("CARGO_PKG_VERSION")).build();
    Ok(Tracer { processor, scope, waiting, metrics })
}

/// The queue of the spans that a collector gets.
#[derive(Debug)]
pub struct Tracer {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    /// How many spans were queued and not yet handed to the exporter. The SDK does not report how
    /// many it drops, so Sundown never queues more than the SDK's queue holds.
    waiting: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

impl TraceSink for Tracer {
    /// When not all of its spans fit into the queue, the trace is dropped.
    fn send(&self, trace: Trace) {
        let spans = trace.spans.len();
        let more = |waiting| Some(waiting + spans).filter(|all| *all <= QUEUE);
        if self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            self.metrics.trace_spans(TraceResult::Dropped, spans);
            warn!(
                "Dropped a trace, because its spans do not fit beside those that wait to be sent. \
                 Check whether the collector answers. Drains go on."
            );
            return;
        }
        for span in trace.spans {
            self.processor.on_end(span_data::of(&trace.id, span, &self.scope));
        }
    }

    fn shutdown(&self, limit: Duration) {
        if let Err(error) = self.processor.shutdown_with_timeout(limit) {
            warn!(
                %error,
                "Could not send all traces before the end of this process. Check the collector."
            );
        }
    }
}

/// The attributes of OTEL_RESOURCE_ATTRIBUTES and of the SDK; Sundown's own override them.
fn resource(cluster: Option<String>, instance: String) -> Resource {
    let own = [
        KeyValue::new("service.name", "sundown"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", instance),
    ];
    let cluster = cluster.map(|name| KeyValue::new("k8s.cluster.name", name));
    Resource::builder().with_attributes(own.into_iter().chain(cluster)).build()
}
