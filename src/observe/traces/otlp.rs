//! OTLP over HTTP: traces as protobuf, to a collector.

use std::{sync::Arc, time::Duration};

use aws_smithy_types::body::SdkBody;
use http_body_util::{BodyExt as _, Limited};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span as Wire, Status, span},
};
use prost::Message as _;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{Attribute, Event, Outbox, Settings, Span, Trace, Tracer, Unusable, Value};
use crate::{
    domain::{Moment, seconds},
    observe::{
        Metrics, TraceResult,
        webhook::{self, Http, Reply, Secret},
    },
    runtime::{Backoff, Random, Spawner},
};

/// So many traces go in one request.
const BATCH: usize = 64;
/// How long the first waits for others.
const LINGER: Duration = Duration::from_millis(500);
/// How long one try may take.
const TRY: Duration = seconds(5);
/// How long a batch is tried at most.
const PATIENCE: Duration = seconds(60);
/// The shortest pause between two tries, whatever a collector asks for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause that a collector may ask for.
const LONGEST_PAUSE: Duration = seconds(30);
/// So much of an answer is read.
const ANSWER: usize = 64 * 1024;
/// How often a lasting failure is told.
const TOLD_EVERY: Duration = seconds(60);

/// What an exporter works with.
pub struct ExporterParts {
    /// How traces are sent.
    pub settings: Settings,
    /// `--cluster-name`.
    pub cluster: Option<String>,
    /// Which process this is.
    pub instance: String,
    /// Randomness.
    pub random: Random,
    /// Starts tasks.
    pub spawner: Spawner,
    /// Where spans are counted.
    pub metrics: Arc<Metrics>,
}

/// Starts the task that sends. Errs where the file with headers cannot be used.
pub fn start(parts: ExporterParts) -> Result<Tracer, Unusable> {
    headers(&parts.settings)?;
    let http = Http::new(None).map_err(Unusable::Client)?;
    let (tracer, outbox) = Tracer::new(Arc::clone(&parts.metrics));
    let resource = resource(parts.cluster.as_deref(), &parts.instance);
    let spawner = parts.spawner.clone();
    let exporter = Exporter { http, resource, parts, told: None };
    // It ends with the last tracer.
    drop(spawner.spawn(exporter.work(outbox)));
    Ok(tracer)
}

struct Exporter {
    http: Http,
    resource: Resource,
    parts: ExporterParts,
    told: Option<Instant>,
}

/// What came of one try.
enum Tried {
    /// Taken, but for so many spans.
    Sent(u64),
    /// Another try may help, after this pause where the collector asks for one.
    Again(String, Option<Duration>),
    /// No other try helps.
    Refused(String),
}

impl Exporter {
    async fn work(mut self, mut outbox: Outbox) {
        while let Some(first) = outbox.next().await {
            tokio::time::sleep(LINGER).await;
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Some(next) = outbox.waiting()
            {
                batch.push(next);
            }
            self.send(&batch).await;
            outbox.done(batch.len());
        }
    }

    async fn send(&mut self, batch: &[Trace]) {
        let spans: u64 = batch.iter().map(|trace| trace.spans.len() as u64).sum();
        let count = |result, spans: u64| {
            self.parts.metrics.trace_spans(result, usize::try_from(spans).unwrap_or(usize::MAX));
        };
        let body = request(&self.resource, batch).encode_to_vec();
        let begun = Instant::now();
        let mut backoff = Backoff::new(seconds(2), seconds(16));
        loop {
            let (why, pause) = match self.once(&body).await {
                Tried::Sent(rejected) => {
                    let rejected = rejected.min(spans);
                    count(TraceResult::Sent, spans - rejected);
                    count(TraceResult::Failed, rejected);
                    debug!(spans, rejected, "Traces are sent.");
                    return;
                }
                Tried::Refused(why) => (why, PATIENCE),
                Tried::Again(why, asked) => {
                    let pause = asked.unwrap_or_else(|| backoff.pause(&self.parts.random));
                    (why, pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
                }
            };
            if begun.elapsed() + pause >= PATIENCE {
                count(TraceResult::Failed, spans);
                if self.told.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
                    self.told = Some(Instant::now());
                    warn!(why, spans, "Traces could not be sent; they are given up. Drains go on.");
                }
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, body: &[u8]) -> Tried {
        let settings = &self.parts.settings;
        let headers = match headers(settings) {
            Ok(headers) => headers,
            Err(error) => return Tried::Refused(error.to_string()),
        };
        let asked = async {
            let reply = self
                .http
                .exchange(&Secret::new(settings.endpoint.clone()), &headers, SdkBody::from(body))
                .await?;
            let Reply { status, retry_after, body } = reply;
            // What was taken is not sent again because of what is said about it.
            let body = Limited::new(body, ANSWER)
                .collect()
                .await
                .map(http_body_util::Collected::to_bytes)
                .unwrap_or_default();
            Ok::<_, String>((status, retry_after, body))
        };
        match tokio::time::timeout(TRY, asked).await {
            Err(_) => Tried::Again(format!("no answer within {} s", TRY.as_secs()), None),
            Ok(Err(why)) => Tried::Again(why, None),
            Ok(Ok((200..=299, _, body))) => {
                // Some collectors answer with JSON, or with nothing: then all was taken.
                let partial = ExportTraceServiceResponse::decode(body)
                    .ok()
                    .and_then(|answer| answer.partial_success);
                Tried::Sent(
                    partial.map_or(0, |partial| {
                        u64::try_from(partial.rejected_spans).unwrap_or_default()
                    }),
                )
            }
            // Those that OTLP calls retryable.
            Ok(Ok((status @ (429 | 502 | 503 | 504), retry_after, _))) => {
                Tried::Again(format!("it answers {status}"), retry_after)
            }
            Ok(Ok((status, ..))) => {
                Tried::Refused(format!("it answers {status}, which no second try changes"))
            }
        }
    }
}

fn headers(settings: &Settings) -> Result<http::HeaderMap, Unusable> {
    webhook::headers(settings.headers.as_deref(), "application/x-protobuf").map_err(|error| {
        match error {
            webhook::Unusable::Headers { path, why } => Unusable::Headers { path, why },
            other => Unusable::Client(other.to_string()),
        }
    })
}

fn resource(cluster: Option<&str>, instance: &str) -> Resource {
    let mut attributes = vec![
        ("service.name", "sundown"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    attributes.extend(cluster.map(|name| ("k8s.cluster.name", name)));
    let attributes =
        attributes.into_iter().map(|(name, value)| (name, Value::Text(value.to_owned())));
    Resource { attributes: attributes.map(|a| key_value(&a)).collect(), ..Resource::default() }
}

fn request(resource: &Resource, batch: &[Trace]) -> ExportTraceServiceRequest {
    let spans = batch
        .iter()
        .flat_map(|trace| trace.spans.iter().map(|span| wire(&trace.id, span)))
        .collect();
    let scope = InstrumentationScope {
        name: "sundown".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans,
            ..ResourceSpans::default()
        }],
    }
}

fn wire(trace: &[u8; 16], span: &Span) -> Wire {
    Wire {
        trace_id: trace.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.map(|id| id.to_vec()).unwrap_or_default(),
        name: span.name.to_owned(),
        kind: span::SpanKind::Internal.into(),
        start_time_unix_nano: nanoseconds(span.start),
        end_time_unix_nano: nanoseconds(span.end),
        attributes: span.attributes.iter().map(key_value).collect(),
        events: span.events.iter().map(event).collect(),
        dropped_events_count: span.dropped_events,
        status: span.failed.clone().map(|message| Status {
            message,
            code: opentelemetry_proto::tonic::trace::v1::status::StatusCode::Error.into(),
        }),
        ..Wire::default()
    }
}

fn event(event: &Event) -> span::Event {
    span::Event {
        time_unix_nano: nanoseconds(event.at),
        name: event.name.to_owned(),
        attributes: event.attributes.iter().map(key_value).collect(),
        ..span::Event::default()
    }
}

fn key_value((name, value): &Attribute) -> KeyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::StringValue(text.clone()),
        Value::Number(number) => any_value::Value::IntValue(*number),
        Value::Flag(flag) => any_value::Value::BoolValue(*flag),
    };
    KeyValue {
        key: (*name).to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn nanoseconds(moment: Moment) -> u64 {
    u64::try_from(moment.as_nanosecond()).unwrap_or_default()
}
