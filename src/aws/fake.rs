//! A minimal AWS for the tests of the shells: clients that a closure answers, and a small queue.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_async::{rt::sleep::TokioSleep, time::TimeSource};
use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
    },
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
    runtime_components::RuntimeComponents,
};
use aws_smithy_types::body::SdkBody;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

use super::{Api, ApiCall, Clients, Outcome};
use crate::runtime::{Clock, Observer};

/// A request that the fake received.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// `ReceiveMessage`, `CompleteLifecycleAction` and so on.
    pub(crate) action: String,
    /// The parameters, from JSON or from a Query form.
    pub(crate) input: Value,
    /// When the request arrived.
    pub(crate) at: Instant,
}

/// An answer of the fake.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Answer {
        status: u16,
        body: String,
        date: Option<String>,
    },
    /// The connection is half open: no answer ever comes.
    Never,
    /// The connection is reset.
    Reset,
}

impl Reply {
    pub(crate) fn json(body: &Value) -> Self {
        Self::Answer { status: 200, body: body.to_string(), date: None }
    }

    pub(crate) fn xml(body: &str) -> Self {
        Self::Answer { status: 200, body: body.to_owned(), date: None }
    }

    /// An error of the JSON protocol.
    pub(crate) fn json_error(status: u16, code: &str) -> Self {
        Self::Answer {
            status,
            body: json!({"__type": code, "message": "an error of the fake"}).to_string(),
            date: None,
        }
    }

    /// An error of the Query protocols (Auto Scaling, EC2).
    pub(crate) fn xml_error(status: u16, code: &str, message: &str) -> Self {
        let error = format!(
            "<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
        );
        Self::Answer {
            status,
            body: format!("<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>"),
            date: None,
        }
    }
}

type Handler = Arc<dyn Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync>;

#[derive(Clone)]
struct Connector(Handler);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let handler = Arc::clone(&self.0);
        let at = Instant::now();
        let request = request.try_into_http1x().unwrap();
        HttpConnectorFuture::new(async move {
            let target =
                request.headers().get("x-amz-target").map(|t| t.to_str().unwrap().to_owned());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let (action, input) = if let Some(target) = target {
                (
                    target.rsplit('.').next().unwrap().to_owned(),
                    serde_json::from_slice(&body).unwrap(),
                )
            } else {
                let form: BTreeMap<String, String> =
                    form_urlencoded::parse(&body).into_owned().collect();
                (form.get("Action").unwrap().clone(), json!(form))
            };
            match handler(Call { action, input, at }).await {
                Reply::Answer { status, body, date } => {
                    let mut response = http::Response::builder().status(status);
                    if let Some(date) = date {
                        response = response.header("date", date);
                    }
                    Ok(HttpResponse::try_from(response.body(SdkBody::from(body)).unwrap()).unwrap())
                }
                Reply::Never => std::future::pending().await,
                Reply::Reset => Err(ConnectorError::io("connection reset by peer".into())),
            }
        })
    }
}

impl HttpClient for Connector {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

#[derive(Debug)]
struct Time(Instant);

impl TimeSource for Time {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_hours(500_000) + self.0.elapsed()
    }
}

/// A clock for tests that starts at 2027-01-15T08:00:00Z.
pub(crate) fn clock() -> Clock {
    Clock::starting_at("2027-01-15T08:00:00Z".parse().unwrap())
}

fn base(handler: Handler) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "AKIDEXAMPLE",
            "secret",
            None,
            None,
            "fake",
        )))
        .http_client(Connector(handler))
        .sleep_impl(TokioSleep::new())
        .time_source(Time(Instant::now()))
        .build()
}

/// Clients whose requests a closure answers.
pub(crate) fn clients<F>(handler: impl Fn(Call) -> F + Send + Sync + 'static) -> Clients
where
    F: Future<Output = Reply> + Send + 'static,
{
    observed_clients((), handler)
}

/// As [`clients`], with an observer.
pub(crate) fn observed_clients<F>(
    observer: impl Observer<ApiCall>,
    handler: impl Fn(Call) -> F + Send + Sync + 'static,
) -> Clients
where
    F: Future<Output = Reply> + Send + 'static,
{
    Clients::from_config(
        &base(Arc::new(move |call| Box::pin(handler(call)))),
        clock(),
        Arc::new(observer),
    )
}

/// Clients without credentials, which cannot sign requests.
pub(crate) fn clients_without_credentials() -> Clients {
    let base = base(Arc::new(|_| Box::pin(async { Reply::Never })));
    let none =
        aws_config::meta::credentials::CredentialsProviderChain::first_try("None", NoCredentials);
    Clients::from_config(
        &base.into_builder().credentials_provider(SharedCredentialsProvider::new(none)).build(),
        clock(),
        Arc::new(()),
    )
}

#[derive(Debug)]
struct NoCredentials;

impl aws_credential_types::provider::ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(
        &'a self,
    ) -> aws_credential_types::provider::future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        use aws_credential_types::provider::{error::CredentialsError, future::ProvideCredentials};
        ProvideCredentials::ready(Err(CredentialsError::not_loaded("no credentials")))
    }
}

/// An observer that keeps all reported calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reported(Arc<Mutex<Vec<(Api, Outcome, Duration)>>>);

impl Reported {
    pub(crate) fn all(&self) -> Vec<(Api, Outcome, Duration)> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer<ApiCall> for Reported {
    fn observe(&self, ApiCall { api, outcome, took }: ApiCall) {
        self.0.lock().unwrap().push((api, outcome, took));
    }
}

pub(crate) const QUEUE_URL: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/q";

/// A message in the fake queue.
#[derive(Debug, Clone)]
struct Stored {
    body: String,
    /// `SentTimestamp`, in milliseconds.
    sent: u128,
    visible_at: Instant,
    receipt: String,
    count: u32,
}

type Fault = Box<dyn FnMut(&Call) -> Option<Reply> + Send>;

#[derive(Default)]
struct QueueState {
    next: u64,
    /// When the first message was sent.
    begun: Option<Instant>,
    messages: BTreeMap<u64, Stored>,
    /// The messages by the time when they become visible.
    order: BTreeSet<(Instant, u64)>,
    calls: Vec<Call>,
    fault: Option<Fault>,
}

impl QueueState {
    fn show(&mut self, key: u64, at: Instant) {
        if let Some(message) = self.messages.get_mut(&key) {
            self.order.remove(&(message.visible_at, key));
            message.visible_at = at;
            self.order.insert((at, key));
        }
    }

    fn remove(&mut self, key: u64) {
        if let Some(message) = self.messages.remove(&key) {
            self.order.remove(&(message.visible_at, key));
        }
    }
}

/// A queue with long polls and visibility timeouts that accepts only the newest receipt of a
/// message.
#[derive(Clone, Default)]
pub(crate) struct FakeQueue {
    state: Arc<Mutex<QueueState>>,
    arrival: Arc<Notify>,
    latency: Duration,
}

impl FakeQueue {
    pub(crate) fn new(latency: Duration) -> Self {
        Self { latency, ..Self::default() }
    }

    pub(crate) fn clients(&self) -> Clients {
        let this = self.clone();
        clients(move |call| this.clone().answer(call))
    }

    pub(crate) fn send(&self, body: &str) {
        let mut state = self.state.lock().unwrap();
        let key = state.next;
        state.next += 1;
        let sent =
            1_800_000_000_000 + state.begun.get_or_insert_with(Instant::now).elapsed().as_millis();
        state.messages.insert(
            key,
            Stored {
                body: body.to_owned(),
                sent,
                visible_at: Instant::now(),
                receipt: String::new(),
                count: 0,
            },
        );
        state.show(key, Instant::now());
        self.arrival.notify_waiters();
    }

    /// Makes a message visible again, as if its visibility timeout had passed.
    pub(crate) fn expire(&self, body: &str) {
        let mut state = self.state.lock().unwrap();
        let keys: Vec<_> =
            state.messages.iter().filter(|(_, m)| m.body == body).map(|(key, _)| *key).collect();
        for key in keys {
            state.show(key, Instant::now());
        }
        self.arrival.notify_waiters();
    }

    /// Sets a closure that answers instead of the queue if it returns a reply.
    pub(crate) fn fault(&self, fault: impl FnMut(&Call) -> Option<Reply> + Send + 'static) {
        self.state.lock().unwrap().fault = Some(Box::new(fault));
    }

    pub(crate) fn heal(&self) {
        self.state.lock().unwrap().fault = None;
    }

    pub(crate) fn calls(&self, action: &str) -> Vec<Call> {
        self.state.lock().unwrap().calls.iter().filter(|c| c.action == action).cloned().collect()
    }

    pub(crate) fn forget_calls(&self) {
        self.state.lock().unwrap().calls.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().unwrap().messages.len()
    }

    /// How many messages could be received now.
    pub(crate) fn visible(&self) -> usize {
        let now = Instant::now();
        self.state.lock().unwrap().messages.values().filter(|m| m.visible_at <= now).count()
    }

    async fn answer(self, call: Call) -> Reply {
        let fault = {
            let mut state = self.state.lock().unwrap();
            state.calls.push(call.clone());
            state.fault.as_mut().and_then(|f| f(&call))
        };
        tokio::time::sleep(self.latency).await;
        if let Some(reply) = fault {
            return reply;
        }
        match call.action.as_str() {
            // Like SQS, the fake does not notice that the client has disconnected.
            "ReceiveMessage" => {
                tokio::spawn(async move { self.receive(&call.input).await }).await.unwrap()
            }
            "DeleteMessageBatch" => self.batch(&call.input, |state, key, _| {
                if let Some(key) = key {
                    state.remove(key);
                }
                // "If you use an old ReceiptHandle, the request will succeed, but the message might
                // not be deleted."
                true
            }),
            "ChangeMessageVisibilityBatch" => {
                let reply = self.batch(&call.input, |state, key, entry| {
                    let visibility =
                        Duration::from_secs(entry["VisibilityTimeout"].as_u64().unwrap());
                    key.map(|key| state.show(key, Instant::now() + visibility)).is_some()
                });
                self.arrival.notify_waiters();
                reply
            }
            "GetQueueAttributes" => Reply::json(
                &json!({"Attributes": {"ApproximateNumberOfMessages": self.visible().to_string()}}),
            ),
            other => panic!("the fake queue does not know {other}"),
        }
    }

    async fn receive(&self, input: &Value) -> Reply {
        let until =
            Instant::now() + Duration::from_secs(input["WaitTimeSeconds"].as_u64().unwrap());
        loop {
            let (found, next) = self.take(input);
            let now = Instant::now();
            if !found.is_empty() || now >= until {
                return Reply::json(&json!({ "Messages": found }));
            }
            tokio::select! {
                biased;
                () = self.arrival.notified() => {}
                () = tokio::time::sleep_until(next.map_or(until, |n| n.min(until))) => {}
            }
        }
    }

    fn take(&self, input: &Value) -> (Vec<Value>, Option<Instant>) {
        let (max, hide) = (
            input["MaxNumberOfMessages"].as_u64().unwrap(),
            Duration::from_secs(input["VisibilityTimeout"].as_u64().unwrap()),
        );
        let now = Instant::now();
        let mut state = self.state.lock().unwrap();
        let mut found = Vec::new();
        let keys: Vec<_> = state
            .order
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(usize::try_from(max).unwrap())
            .map(|(_, key)| *key)
            .collect();
        for key in keys {
            state.show(key, now + hide);
            let m = state.messages.get_mut(&key).unwrap();
            m.count += 1;
            m.receipt = format!("{key}-{}", m.count);
            found.push(json!({
                "MessageId": format!("id-{key}"), "ReceiptHandle": m.receipt, "Body": m.body,
                "Attributes": {
                    "ApproximateReceiveCount": m.count.to_string(),
                    "SentTimestamp": m.sent.to_string()
                },
            }));
        }
        (found, state.order.first().map(|(at, _)| *at))
    }

    /// Calls `each` for every entry, with the key of the message if this is its newest receipt. If
    /// `each` returns false, the entry fails with a sender fault.
    fn batch(
        &self,
        input: &Value,
        each: impl Fn(&mut QueueState, Option<u64>, &Value) -> bool,
    ) -> Reply {
        let mut state = self.state.lock().unwrap();
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for entry in input["Entries"].as_array().unwrap() {
            let receipt = entry["ReceiptHandle"].as_str().unwrap();
            let key: u64 = receipt.split('-').next().unwrap().parse().unwrap();
            let key = state.messages.get(&key).filter(|m| m.receipt == receipt).map(|_| key);
            if each(&mut state, key, entry) {
                good.push(json!({"Id": entry["Id"]}));
            } else {
                bad.push(json!({
                    "Id": entry["Id"], "SenderFault": true, "Code": "ReceiptHandleIsInvalid",
                    "Message": "stale"
                }));
            }
        }
        Reply::json(&json!({"Successful": good, "Failed": bad}))
    }
}
