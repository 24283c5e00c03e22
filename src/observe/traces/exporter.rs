//! The OTLP exporter of OpenTelemetry, with Sundown's HTTP client, and with every span counted.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use aws_smithy_types::body::SdkBody;
use http_body_util::{BodyExt as _, Limited};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter as Export},
};
use prost::Message as _;
use tokio::{runtime::Handle, time::Instant};
use tracing::{debug, warn};

use super::{Settings, UnusableSettings};
use crate::{
    domain::seconds,
    observe::{
        Metrics, TraceResult,
        webhook::{self, Http, Secret},
    },
};

/// How long one attempt may take.
const TRY: Duration = seconds(5);
/// For how long a batch is retried at most, counted from its first attempt.
const RETRY_FOR: Duration = seconds(60);
/// How many bytes of an answer are read at most.
const ANSWER: usize = 64 * 1024;
/// How often a failure that lasts is logged.
const LOG_EVERY: Duration = seconds(60);

/// Exports batches, and counts their spans by result.
#[derive(Debug)]
pub(super) struct CountingExporter {
    inner: SpanExporter,
    last: Arc<Mutex<LastAnswer>>,
    /// How many spans the processor has not handed over yet.
    waiting: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
    /// When a failure was logged last.
    logged: Mutex<Option<Instant>>,
}

/// What the last answer of the collector contains beyond the result that the exporter returns.
#[derive(Debug, Default)]
struct LastAnswer {
    /// How many spans of the batch the collector rejected although it took the others.
    rejected: u64,
    /// Why there was no answer. `None`: there was one.
    failure: Option<String>,
}

impl CountingExporter {
    /// Must be called within the runtime that the HTTP calls shall use.
    pub(super) fn new(
        settings: Settings,
        waiting: Arc<AtomicUsize>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, UnusableSettings> {
        headers(settings.headers.as_ref())?;
        let last = Arc::<Mutex<LastAnswer>>::default();
        let client = Client {
            http: Arc::new(Http::new(None).map_err(UnusableSettings::Client)?),
            headers: settings.headers,
            runtime: Handle::current(),
            last: Arc::clone(&last),
        };
        // The attempts double their pauses, and the time limit ends them before their number does.
        let retries = RetryPolicy::recommended()
            .with_max_retries(16)
            .with_initial_delay(seconds(1))
            .with_max_delay(seconds(16))
            .with_max_jitter(seconds(1));
        let inner = SpanExporter::builder()
            .with_http()
            .with_endpoint(settings.endpoint)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(RETRY_FOR)
            .with_retry_policy(retries)
            .with_http_client(client)
            .build()
            .map_err(|error| UnusableSettings::Client(error.to_string()))?;
        Ok(Self { inner, last, waiting, metrics, logged: Mutex::default() })
    }

    fn log(&self, why: &str, spans: usize) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            *logged = Some(Instant::now());
            warn!(
                why,
                spans, "Could not send traces and gave them up. Check the collector. Drains go on."
            );
        }
    }
}

impl Export for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let result = self.inner.export(batch).await;
        // The processor exports one batch at a time, so this is the answer to this batch.
        let LastAnswer { rejected, failure } =
            std::mem::take(&mut *self.last.lock().unwrap_or_else(PoisonError::into_inner));
        match &result {
            Ok(()) => {
                let rejected = usize::try_from(rejected).unwrap_or(spans).min(spans);
                self.metrics.trace_spans(TraceResult::Sent, spans - rejected);
                self.metrics.trace_spans(TraceResult::Failed, rejected);
                debug!(spans, rejected, "Sent traces.");
            }
            Err(error) => {
                self.metrics.trace_spans(TraceResult::Failed, spans);
                self.log(&failure.unwrap_or_else(|| error.to_string()), spans);
            }
        }
        result
    }

    fn shutdown_with_timeout(&self, limit: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(limit)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Sundown's HTTP client as OpenTelemetry wants one. The SDK exports on a thread of its own, where
/// no runtime is: each call is a task of the service's runtime.
#[derive(Debug)]
struct Client {
    http: Arc<Http>,
    /// `--otlp-headers-file`.
    headers: Option<PathBuf>,
    runtime: Handle,
    last: Arc<Mutex<LastAnswer>>,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let result = self.post(request).await;
        let last = match &result {
            Ok(response) if response.status().is_success() => {
                // Some collectors answer with JSON or an empty body: then all spans were taken.
                let partial = ExportTraceServiceResponse::decode(response.body().clone())
                    .ok()
                    .and_then(|answer| answer.partial_success);
                let rejected = partial.map_or(0, |partial| partial.rejected_spans);
                LastAnswer { rejected: u64::try_from(rejected).unwrap_or_default(), failure: None }
            }
            Ok(_) => LastAnswer::default(),
            Err(error) => LastAnswer { rejected: 0, failure: Some(error.to_string()) },
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
        result
    }
}

impl Client {
    async fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        // Those of the exporter, which are of OTEL_EXPORTER_OTLP_HEADERS too, then Sundown's own.
        let mut all = parts.headers;
        all.extend(headers(self.headers.as_ref())?);
        let url = Secret::new(parts.uri.to_string());
        let http = Arc::clone(&self.http);
        let call = self.runtime.spawn(async move {
            let answer = async {
                let reply = http.exchange(&url, &all, SdkBody::from(body)).await?;
                let mut response = Response::builder().status(reply.status);
                if let Some(pause) = reply.retry_after {
                    response = response.header(http::header::RETRY_AFTER, pause.as_secs());
                }
                // A body that cannot be read is no reason to send the batch again: the status
                // decides.
                let body = Limited::new(reply.body, ANSWER)
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes)
                    .unwrap_or_default();
                Ok::<_, HttpError>(response.body(body)?)
            };
            tokio::time::timeout(TRY, answer)
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {} s", TRY.as_secs()).into()))
        });
        call.await?
    }
}

fn headers(file: Option<&PathBuf>) -> Result<http::HeaderMap, UnusableSettings> {
    webhook::headers(file.map(PathBuf::as_path), "application/x-protobuf").map_err(|error| {
        match error {
            webhook::UnusableSettings::Headers { path, why } => {
                UnusableSettings::Headers { path, why }
            }
            other => UnusableSettings::Client(other.to_string()),
        }
    })
}
