//! Plays cases to a server and reports where its answers differ from what is written.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    process::LIMIT,
    script::{Ask, Case, Step},
    shown::{Saved, through},
};

/// A status, headers and a body.
pub struct Answer {
    pub code: u16,
    pub headers: http::HeaderMap,
    pub body: BoxStream<'static, bytes::Bytes>,
}

/// A server that cases are played to.
pub trait Server: Sync {
    fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> impl Future<Output = Answer> + Send;

    /// What a case is played with from the start.
    fn known(&self) -> Vec<(&'static str, String)>;

    /// The path of what a case names: `configmaps/x` in its namespace.
    fn path(&self, short: &str) -> String {
        short.to_owned()
    }

    /// It is not the real one but stands for it, and is known to be wrong here and there.
    fn is_stand_in(&self) -> bool {
        false
    }

    /// Watches and pages from before cannot be continued after it.
    fn forget(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Sends to a Kubernetes API server, as it is.
pub async fn ask_kubernetes(
    client: &kube::Client,
    method: Method,
    path: &str,
    headers: &[(&'static str, String)],
    body: Vec<u8>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = client
        .send(request.body(Body::from(body)).unwrap())
        .await
        .unwrap_or_else(|error| panic!("{path} is not answered: {error}"));
    let (head, body) = answer.into_parts();
    let body = body
        .into_data_stream()
        .take_while(|part| std::future::ready(part.is_ok()))
        .map(Result::unwrap_or_default)
        .boxed();
    Answer { code: head.status.as_u16(), headers: head.headers, body }
}

/// A case that is being played.
pub struct Player<'a, S> {
    server: &'a S,
    saved: Saved,
    watches: BTreeMap<&'static str, Watch>,
}

struct Watch {
    body: BoxStream<'static, bytes::Bytes>,
    read: Vec<u8>,
}

impl Watch {
    /// The next event; `None`: it has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap_or_else(|error| {
                    panic!("{error} in {:?}", String::from_utf8_lossy(&line))
                }));
            }
            self.read.extend(self.body.next().await?);
        }
    }
}

/// What was to come, and what came.
type Difference = (Value, Value);

impl<'a, S: Server> Player<'a, S> {
    pub fn new(server: &'a S, case: &str) -> Self {
        let mut saved = Saved::default();
        let mut namespace = format!("c-{}", case.replace('_', "-"));
        namespace.truncate(60);
        saved.save("ns", namespace.trim_end_matches('-').to_owned());
        for (name, value) in server.known() {
            saved.save(name, value);
        }
        Self { server, saved, watches: BTreeMap::new() }
    }

    /// Plays all steps, and returns those that differ.
    pub async fn play(&mut self, steps: &[Step]) -> Result<(), String> {
        let mut differences = Vec::new();
        for (n, step) in steps.iter().enumerate() {
            let (what, result) = match step {
                Step::Ask(ask) => (format!("{} {}", ask.method, ask.path), self.ask(ask).await),
                Step::Open { name, ask } => {
                    (format!("watch {}", ask.path), self.open(name, ask).await)
                }
                Step::Events { name, expected } => {
                    (format!("events of {name}"), self.events(name, expected).await)
                }
                Step::Ends { name } => (format!("the end of {name}"), self.ends(name).await),
                Step::Forget => {
                    self.server.forget().await;
                    continue;
                }
            };
            if let Err((expected, actual)) = result {
                differences.push(format!(
                    "step {} ({what})\n  expected: {expected}\n  answered: {actual}",
                    n + 1
                ));
            }
            // What comes after would fail for the same reason, and may take its time to.
            if differences.len() == 3 {
                break;
            }
        }
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
    }

    async fn send(&self, ask: &Ask) -> Answer {
        let path = self.saved.fill(&self.server.path(&ask.path));
        let body = ask.body.as_ref().map_or_else(Vec::new, |body| match body {
            // What is not even JSON.
            Value::String(text) => text.clone().into_bytes(),
            body => serde_json::to_vec(&self.saved.fill_in(body)).unwrap(),
        });
        let headers: Vec<_> =
            ask.headers.iter().map(|(name, value)| (*name, self.saved.fill(value))).collect();
        let answer = self.server.ask(
            Method::from_bytes(ask.method.as_bytes()).unwrap(),
            &path,
            &headers,
            body,
        );
        tokio::time::timeout(LIMIT, answer)
            .await
            .unwrap_or_else(|_| panic!("{path} is not answered"))
    }

    /// Asks, and again where the answer may take a while to become so.
    async fn ask(&mut self, ask: &Ask) -> Result<(), Difference> {
        let end = Instant::now() + LIMIT;
        loop {
            let result = self.ask_once(ask).await;
            if result.is_ok() || !ask.eventually || Instant::now() > end {
                return result;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn ask_once(&mut self, ask: &Ask) -> Result<(), Difference> {
        let answer = self.send(ask).await;
        let header_fields = [("retryAfter", "retry-after"), ("queryError", "x-amzn-query-error")];
        let header_fields = header_fields
            .map(|(name, header)| {
                Some((name, answer.headers.get(header)?.to_str().unwrap().to_owned()))
            })
            .into_iter()
            .flatten()
            .collect();
        let bytes = answer.body.map(Ok::<_, ()>).try_fold(Vec::new(), |mut all, part| async move {
            all.extend(part);
            Ok(all)
        });
        let bytes = bytes.await.unwrap();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        if ask.unlike.is_none() || !self.server.is_stand_in() {
            self.compare(answer.code, body.clone(), header_fields, ask)?;
        }
        for (name, pointer) in &ask.saves {
            match body.pointer(pointer) {
                Some(Value::String(text)) => self.saved.save(name, text.clone()),
                Some(other) => self.saved.save(name, other.to_string()),
                None => return Err((format!("something at {pointer}").into(), body)),
            }
        }
        Ok(())
    }

    fn compare(
        &self,
        code: u16,
        mut body: Value,
        header_fields: Vec<(&str, String)>,
        ask: &Ask,
    ) -> Result<(), Difference> {
        let refusal = code >= 400;
        if refusal && let Value::Object(fields) = &mut body {
            for field in ["kind", "apiVersion", "metadata", "status", "code"] {
                fields.remove(field);
            }
            // moto has this field by the name that the Query protocol gave it.
            if let Some(message) = fields.remove("Message").filter(|_| self.server.is_stand_in()) {
                fields.insert("message".to_owned(), message);
            }
            fields.extend(
                header_fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())),
            );
        }
        let seen = through(&self.saved.hide_in(&body), &ask.expected, refusal);
        let (expected, actual) = (
            json!({ "code": ask.code, "body": ask.expected }),
            json!({ "code": code, "body": seen }),
        );
        if expected == actual { Ok(()) } else { Err((expected, actual)) }
    }

    async fn open(&mut self, name: &'static str, ask: &Ask) -> Result<(), Difference> {
        let answer = self.send(ask).await;
        if answer.code != ask.code {
            return Err((ask.code.into(), answer.code.into()));
        }
        self.watches.insert(name, Watch { body: answer.body, read: Vec::new() });
        Ok(())
    }

    async fn events(&mut self, name: &str, expected: &Value) -> Result<(), Difference> {
        let watch = self.watches.get_mut(name).expect("a watch of this name is open");
        let mut actual = Vec::new();
        let end = Instant::now() + LIMIT;
        for want in expected.as_array().expect("events are a list") {
            let event = loop {
                match tokio::time::timeout_at(end, watch.next()).await {
                    Ok(Some(event))
                        if event["type"] == "BOOKMARK" && want["type"] != "BOOKMARK" => {}
                    Ok(Some(event)) => break event,
                    Ok(None) => break "the end".into(),
                    Err(_) => break "nothing".into(),
                }
            };
            let seen = through(&self.saved.hide_in(&event), want, false);
            let differs = seen != *want;
            actual.push(seen);
            if differs {
                return Err((expected.clone(), actual.into()));
            }
        }
        Ok(())
    }

    async fn ends(&mut self, name: &str) -> Result<(), Difference> {
        let watch = self.watches.get_mut(name).expect("a watch of this name is open");
        let end = Instant::now() + LIMIT;
        loop {
            match tokio::time::timeout_at(end, watch.next()).await {
                Ok(None) => return Ok(()),
                Ok(Some(event)) if event["type"] == "BOOKMARK" => {}
                Ok(Some(event)) => return Err(("the end".into(), event)),
                Err(_) => return Err(("the end".into(), "nothing".into())),
            }
        }
    }
}

/// Fails with every case that differs, by its name.
pub fn judge(server: &str, results: Vec<(&'static str, Result<(), String>)>) {
    assert!(!results.is_empty(), "nothing was played");
    let of = results.len();
    let failed: Vec<String> = results
        .into_iter()
        .filter_map(|(name, result)| Some(format!("{name}: {}", result.err()?)))
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {of} cases differ on {server}:\n\n{}\n",
        failed.len(),
        failed.join("\n\n")
    );
}

/// The cases whose names hold SUNDOWN_CASE; all of them without it.
pub fn chosen(cases: Vec<Case>) -> Vec<Case> {
    let wanted = std::env::var("SUNDOWN_CASE").unwrap_or_default();
    cases.into_iter().filter(|case| case.name.contains(&wanted)).collect()
}
