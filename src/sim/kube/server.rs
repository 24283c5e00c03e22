//! From an HTTP request to an HTTP response.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};

use super::{
    BoxError,
    eviction::{Eviction, TRIES, Try},
    failure::Failure,
    faults::Fault,
    journal,
    kinds::Kind,
    object::Key,
    path::{Query, Target, verb},
    render::Render,
    request::{Call, Reply},
    rules::Asked,
    store::State,
    watch,
};
use crate::{runtime::Clock, sim::tripwire::Way};

/// The body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// The real server waits 500 to 550 ms before it tries again after a conflict.
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// The API server as a tower service.
#[derive(Clone)]
pub struct KubeService {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) clock: Clock,
    /// The name of the client for the journal; `None`: requests are named by their user agent.
    pub(super) tag: Option<Arc<str>>,
}

impl std::fmt::Debug for KubeService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeService").field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl<B> tower::Service<Request<B>> for KubeService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

/// A request before anything is known about it.
struct Incoming {
    path: String,
    query: Query,
    method: http::Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Incoming {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

/// A request under way. Dropped when it is answered, and when the client gives it up.
struct Exchange<'a> {
    service: &'a KubeService,
    entry: u64,
    /// 0: the client got no answer.
    status: u16,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let now = self.service.clock.now();
        self.service.lock().journal.end(self.entry, self.status, now);
    }
}

impl KubeService {
    /// Answers one request. An error is a connection that fails.
    pub async fn answer<B>(self, request: Request<B>) -> Result<Response<ResponseBody>, BoxError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        let incoming = Incoming {
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            method: parts.method,
            headers: parts.headers,
            body,
        };
        let (asked, call) = self.understand(&incoming);
        let tripwire = self.lock().tripwire.clone();
        let what = || format!("{} {}", asked.verb, asked.whole_resource());
        let way = tripwire.pass(&asked.client, self.clock.now(), what);
        if way == Way::Dead {
            return std::future::pending().await;
        }
        let timeout = duration(incoming.query.get("timeout"));
        let (entry, faults) = self.begin(&asked, incoming.query.get("dryRun") == "All", timeout);
        let mut exchange = Exchange { service: &self, entry, status: 0 };
        let (status, answer) = self.through(faults, &asked, call, &incoming.path, timeout).await;
        if way == Way::Last {
            tripwire.spring();
            return std::future::pending().await;
        }
        exchange.status = status;
        answer
    }

    /// Parses which objects a request is about; `Err` if it is not a request for objects.
    fn understand(&self, incoming: &Incoming) -> (Asked, Result<Call, Failure>) {
        let agent = incoming.header(header::USER_AGENT);
        let by: Arc<str> = self.tag.clone().unwrap_or_else(|| agent.into());
        let mut asked = Asked {
            client: by.to_string(),
            verb: incoming.method.as_str().to_lowercase(),
            resource: incoming.path.clone(),
            group: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
        };
        let Target::Resource { group, version, plural, namespace, name, subresource } =
            Target::parse(&incoming.path)
        else {
            return (asked, Err(Failure::no_such_page()));
        };
        if !self.lock().kinds.iter().any(|k| k.group == group && k.version == version) {
            return (asked, Err(Failure::no_such_page()));
        }
        let Some(kind) = self
            .lock()
            .kinds
            .iter()
            .find(|k| k.plural == plural && k.group == group && k.version == version)
            .cloned()
        else {
            return (asked, Err(Failure::no_such_resource()));
        };
        let Some(verb) = verb(&incoming.method, !name.is_empty(), &incoming.query) else {
            return (asked, Err(Failure::no_such_method()));
        };
        let header = |name| incoming.header(name).to_owned();
        let call = Call {
            by,
            verb,
            kind,
            key: Key::new(namespace, name),
            subresource,
            query: incoming.query.clone(),
            content_type: header(header::CONTENT_TYPE),
            accept: header(header::ACCEPT),
            body: incoming.body.clone(),
        };
        asked = call.asked();
        (asked, Ok(call))
    }

    fn begin(&self, asked: &Asked, dry_run: bool, timeout: Option<Duration>) -> (u64, Vec<Fault>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let at = state.clock.now();
        let entry = state.journal.begin(asked, at, dry_run, timeout);
        let faults = state.rules.judge(asked, &mut state.random);
        if let Some(last) = state.journal.requests.last_mut().filter(|_| state.journal.on) {
            last.is_disturbed = !faults.is_empty();
        }
        (entry, faults)
    }

    async fn through(
        &self,
        faults: Vec<Fault>,
        asked: &Asked,
        call: Result<Call, Failure>,
        path: &str,
        timeout: Option<Duration>,
    ) -> (u16, Result<Response<ResponseBody>, BoxError>) {
        let refused = || (0, Err("connection refused".into()));
        let mut late = Duration::ZERO;
        let mut after = None;
        for fault in faults {
            let failure = match fault {
                Fault::Slow(d) => {
                    if let Some(timeout) = timeout.filter(|timeout| *timeout < d) {
                        // The server's time begins when the request has arrived.
                        tokio::time::sleep(timeout + Duration::from_millis(1)).await;
                        return self.respond(None, Err(Failure::timeout()));
                    }
                    tokio::time::sleep(d).await;
                    continue;
                }
                Fault::SlowAnswer(d) => {
                    late += d;
                    continue;
                }
                Fault::AnswerLost | Fault::HangAfterEffect | Fault::Garbled => {
                    after = Some(fault);
                    continue;
                }
                Fault::Refused => return refused(),
                Fault::Hang => std::future::pending().await,
                Fault::Status { code, reason, message, retry_after } => {
                    Failure::new(code, &reason, message).retry_after(retry_after.unwrap_or(0))
                }
                Fault::Forbidden => asked.forbidden(),
                Fault::Unauthorized => Failure::new(401, "Unauthorized", "Unauthorized"),
                Fault::Overloaded { retry_after } => Failure::overloaded(retry_after),
            };
            return self.respond(None, Err(failure));
        }
        let answer = match &call {
            Ok(call)
                if call.subresource == "eviction"
                    && call.verb == "create"
                    && call.kind.plural == "pods" =>
            {
                self.evict(call).await
            }
            Ok(call) => self.lock().perform(call),
            Err(f) if f.code == 404 && f.plain => self.lock().discover(path),
            Err(f) => Err(f.clone()),
        };
        if late > Duration::ZERO {
            tokio::time::sleep(late).await;
        }
        if self.lock().rules.is_cut_off(&asked.client) {
            return std::future::pending().await;
        }
        match after {
            Some(Fault::AnswerLost) => {
                (0, Err("connection closed before message completed".into()))
            }
            Some(Fault::HangAfterEffect) => std::future::pending().await,
            Some(_) => (0, Ok(self.plain(200, "<html>502 Bad Gateway</html>", "text/html"))),
            None => self.respond(call.as_ref().ok(), answer),
        }
    }

    async fn evict(&self, call: &Call) -> Result<Reply, Failure> {
        let eviction = Eviction::read(call)?;
        if let Some(answer) = self.lock().admit_eviction(call, &eviction)? {
            return Ok(answer);
        }
        let (mut tries, mut read) = (0, None);
        loop {
            let one = self.lock().evict(call, &eviction, read.take())?;
            match one {
                Try::Done(reply) => return Ok(reply),
                Try::Granting(budget) => {
                    let latency = self.lock().options.timing.budget_write;
                    tokio::time::sleep(latency).await;
                    read = Some(budget);
                    continue;
                }
                Try::Again(failure) | Try::Contended(failure) if tries + 1 >= TRIES => {
                    return Err(failure);
                }
                Try::Again(_) | Try::Contended(_) => {
                    let jitter = 1.0 + 0.1 * self.lock().random.f64();
                    tokio::time::sleep(BETWEEN_TRIES.mul_f64(jitter)).await;
                }
            }
            tries += 1;
        }
    }

    fn respond(
        &self,
        call: Option<&Call>,
        answer: Result<Reply, Failure>,
    ) -> (u16, Result<Response<ResponseBody>, BoxError>) {
        let (code, body, kind, retry_after) = match answer {
            Ok(Reply::Stored(code, shown)) => {
                let bytes = call.map_or_else(
                    || shown.bytes.clone(),
                    |call| Render::of(call, self.clock).bytes(&shown),
                );
                (code, full(bytes), "application/json", None)
            }
            Ok(Reply::Object(code, value)) => {
                let value = match call {
                    Some(call) => Render::of(call, self.clock).object(value),
                    None => value,
                };
                (code, full(value.to_string()), "application/json", None)
            }
            Ok(Reply::Json(code, value)) => {
                (code, full(value.to_string()), "application/json", None)
            }
            Ok(Reply::Bytes(bytes)) => (200, full(bytes), "application/json", None),
            Ok(Reply::Text(text)) => (200, full(text), "text/plain; charset=utf-8", None),
            Ok(Reply::Watch(started)) => {
                let stream = watch::body(started, Arc::downgrade(&self.state));
                (200, StreamBody::new(stream).boxed_unsync(), "application/json", None)
            }
            Err(f) if f.plain => {
                (f.code, full(f.message), "text/plain; charset=utf-8", f.retry_after)
            }
            Err(f) => (f.code, full(f.status().to_string()), "application/json", f.retry_after),
        };
        let mut response = Response::new(body);
        *response.status_mut() =
            http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if code == 429 && kind.starts_with("text") {
            headers.insert(
                "x-kubernetes-pf-flowschema-uid",
                HeaderValue::from_static("6b9bbd8c-3b2b-4a3c-9b1a-2f0c7f5f3f11"),
            );
        }
        if let Some(date) = http_date(self.clock) {
            headers.insert(header::DATE, date);
        }
        (code, Ok(response))
    }

    fn plain(&self, code: u16, text: &'static str, kind: &'static str) -> Response<ResponseBody> {
        let mut response = Response::new(full(text));
        *response.status_mut() =
            http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(date) = http_date(self.clock) {
            response.headers_mut().insert(header::DATE, date);
        }
        response
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A duration as Go writes it, in whole seconds or milliseconds; others are left out.
fn duration(text: &str) -> Option<Duration> {
    if let Some(millis) = text.strip_suffix("ms") {
        return millis.parse().ok().map(Duration::from_millis);
    }
    text.strip_suffix('s')?.parse().ok().map(Duration::from_secs)
}

fn http_date(clock: Clock) -> Option<HeaderValue> {
    let text = jiff::fmt::rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&clock.now().into())
        .ok()?;
    HeaderValue::from_str(&text).ok()
}

fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Kinds by name, for objects that scenarios put there.
pub(super) fn kind_of<'a>(
    kinds: &'a [Arc<Kind>],
    api_version: &str,
    kind: &str,
) -> Option<&'a Arc<Kind>> {
    kinds.iter().find(|k| k.kind == kind && k.api_version() == api_version)
}

impl journal::Journal {
    fn begin(
        &mut self,
        asked: &Asked,
        at: crate::domain::Moment,
        dry_run: bool,
        timeout: Option<Duration>,
    ) -> u64 {
        *self.counts.entry((asked.verb.clone(), asked.whole_resource())).or_default() += 1;
        self.seen += 1;
        if self.on {
            self.requests.push(journal::Request {
                at,
                answered: None,
                is_disturbed: false,
                ended: None,
                client: asked.client.clone(),
                verb: asked.verb.clone(),
                resource: asked.resource.clone(),
                subresource: asked.subresource.clone(),
                namespace: asked.namespace.clone(),
                name: asked.name.clone(),
                status: 0,
                dry_run,
                timeout,
            });
        }
        self.seen
    }

    fn end(&mut self, entry: u64, status: u16, now: crate::domain::Moment) {
        // The newest entry is the last; entries of before the journal was cleared are gone.
        let back = usize::try_from(self.seen - entry).unwrap_or(usize::MAX);
        let index = self.requests.len().checked_sub(back.saturating_add(1));
        if let Some(request) = index.and_then(|i| self.requests.get_mut(i)) {
            request.status = status;
            request.answered = (status != 0).then_some(now);
            request.ended = Some(now);
        }
    }
}
