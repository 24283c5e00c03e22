//! Sends traces to a collector by OTLP over HTTP, encoded as protobuf.

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

use super::{Attribute, Event, Outbox, Settings, Span, Trace, Tracer, UnusableSettings, Value};
use crate::{
    domain::{Moment, seconds},
    observe::{
        Metrics, TraceResult,
        webhook::{self, Http, Reply, Secret},
    },
    runtime::{Backoff, Random, Spawner},
};

/// How many traces one request has at most.
const BATCH: usize = 64;
/// How long the first trace of a batch waits for others.
const LINGER: Duration = Duration::from_millis(500);
/// How long one attempt may take.
const TRY: Duration = seconds(5);
/// For how long a batch is retried at most, counted from its first attempt.
const RETRY_FOR: Duration = seconds(60);
/// The shortest pause between two attempts, even if the collector asks for a shorter one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between two attempts, even if the collector asks for a longer one.
const LONGEST_PAUSE: Duration = seconds(30);
/// How many bytes of an answer are read at most.
const ANSWER: usize = 64 * 1024;
/// How often a failure that lasts is logged.
const LOG_EVERY: Duration = seconds(60);

/// What [`start`] needs.
pub struct ExporterParts {
    /// The flags for traces.
    pub settings: Settings,
    /// `--cluster-name`: the attribute `k8s.cluster.name`. `None`: no such attribute.
    pub cluster: Option<String>,
    /// The name of this process: the attribute `service.instance.id`.
    pub instance: String,
    /// Spreads the pauses between attempts.
    pub random: Random,
    /// Starts the task that sends.
    pub spawner: Spawner,
    /// Counts spans (`sundown_trace_spans_total`).
    pub metrics: Arc<Metrics>,
}

/// Starts the task that sends traces. Errs when the file with headers cannot be used, or when the
/// HTTP client cannot be built.
pub fn start(parts: ExporterParts) -> Result<Tracer, UnusableSettings> {
    headers(&parts.settings)?;
    let http = Http::new(None).map_err(UnusableSettings::Client)?;
    let (tracer, outbox) = Tracer::new(Arc::clone(&parts.metrics));
    let resource = resource(parts.cluster.as_deref(), &parts.instance);
    let spawner = parts.spawner.clone();
    let exporter = Exporter { http, resource, parts, last_logged: None };
    // The task ends when the last tracer is dropped.
    drop(spawner.spawn(exporter.work(outbox)));
    Ok(tracer)
}

struct Exporter {
    http: Http,
    resource: Resource,
    parts: ExporterParts,
    /// When a failure was logged last.
    last_logged: Option<Instant>,
}

/// The result of one attempt.
enum Attempt {
    /// The collector took the batch, except for this number of spans.
    Sent(u64),
    /// It failed for this reason, and a retry may help, after this pause if the collector asks for
    /// one.
    Again(String, Option<Duration>),
    /// It failed for this reason, and a retry cannot help.
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
                Attempt::Sent(rejected) => {
                    let rejected = rejected.min(spans);
                    count(TraceResult::Sent, spans - rejected);
                    count(TraceResult::Failed, rejected);
                    debug!(spans, rejected, "Sent traces.");
                    return;
                }
                Attempt::Refused(why) => (why, RETRY_FOR),
                Attempt::Again(why, asked) => {
                    let pause = asked.unwrap_or_else(|| backoff.pause(&self.parts.random));
                    (why, pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
                }
            };
            if begun.elapsed() + pause >= RETRY_FOR {
                count(TraceResult::Failed, spans);
                if self.last_logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
                    self.last_logged = Some(Instant::now());
                    warn!(
                        why,
                        spans,
                        "Could not send traces and gave them up. Check the collector. Drains go \
                         on."
                    );
                }
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, body: &[u8]) -> Attempt {
        let settings = &self.parts.settings;
        let headers = match headers(settings) {
            Ok(headers) => headers,
            Err(error) => return Attempt::Refused(error.to_string()),
        };
        let asked = async {
            let reply = self
                .http
                .exchange(&Secret::new(settings.endpoint.clone()), &headers, SdkBody::from(body))
                .await?;
            let Reply { status, retry_after, body } = reply;
            // A body that cannot be read is no reason to send the batch again: the status decides.
            let body = Limited::new(body, ANSWER)
                .collect()
                .await
                .map(http_body_util::Collected::to_bytes)
                .unwrap_or_default();
            Ok::<_, String>((status, retry_after, body))
        };
        match tokio::time::timeout(TRY, asked).await {
            Err(_) => Attempt::Again(format!("no answer within {} s", TRY.as_secs()), None),
            Ok(Err(why)) => Attempt::Again(why, None),
            Ok(Ok((200..=299, _, body))) => {
                // Some collectors answer with JSON or an empty body: then all spans were taken.
                let partial = ExportTraceServiceResponse::decode(body)
                    .ok()
                    .and_then(|answer| answer.partial_success);
                Attempt::Sent(
                    partial.map_or(0, |partial| {
                        u64::try_from(partial.rejected_spans).unwrap_or_default()
                    }),
                )
            }
            // The statuses that the OTLP specification calls retryable.
            Ok(Ok((status @ (429 | 502 | 503 | 504), retry_after, _))) => {
                Attempt::Again(format!("the collector answered with status {status}"), retry_after)
            }
            Ok(Ok((status, ..))) => Attempt::Refused(format!(
                "the collector answered with status {status}; a retry cannot help"
            )),
        }
    }
}

fn headers(settings: &Settings) -> Result<http::HeaderMap, UnusableSettings> {
    webhook::headers(settings.headers.as_deref(), "application/x-protobuf").map_err(|error| {
        match error {
            webhook::UnusableSettings::Headers { path, why } => {
                UnusableSettings::Headers { path, why }
            }
            other => UnusableSettings::Client(other.to_string()),
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
