//! An admission webhook with the answers that a test sets: a real HTTPS server, asked by the API
//! server.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex, Weak},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use sundown::sim::http::loopback;
use tokio::{sync::watch, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

use crate::stage::Stage;

/// What it answers for a namespace.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// No, with this code and these words.
    Deny(u16, String),
    /// Nothing, until that is changed.
    Hold,
}

type Verdicts = BTreeMap<String, Verdict>;

/// A running webhook. It allows evictions in every namespace without a verdict.
pub struct Webhook {
    pub address: SocketAddr,
    verdicts: watch::Sender<Verdicts>,
    /// Who was asked about: operation, namespace and name.
    asked: Arc<Mutex<Vec<(String, String, String)>>>,
    /// Somebody who is kept waiting has one more of it.
    held: Arc<()>,
    server: JoinHandle<()>,
}

impl Webhook {
    /// Starts one, with the certificate of the stage's API server: it is for 127.0.0.1, and of the
    /// stage's CA.
    pub async fn start(stage: &Stage) -> Self {
        let file = |name: &str| stage.cluster.folder.path().join(name);
        let chain = vec![CertificateDer::from_pem_file(file("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let settings = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(
            settings.with_no_client_auth().with_single_cert(chain, key).unwrap(),
        ));
        let listener = loopback().await.unwrap();
        let address = listener.local_addr().unwrap();
        let (verdicts, asked) =
            (watch::Sender::new(Verdicts::new()), Arc::new(Mutex::new(Vec::new())));
        let held = Arc::new(());
        let (changes, seen, waiting) = (verdicts.subscribe(), asked.clone(), Arc::downgrade(&held));
        let server = tokio::spawn(async move {
            // Connections end with the set, and that with the task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, changes, seen, waiting) =
                    (tls.clone(), changes.clone(), seen.clone(), waiting.clone());
                connections.spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(|request| {
                        answer(request, changes.clone(), seen.clone(), waiting.clone())
                    });
                    drop(
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await,
                    );
                });
            }
        });
        Self { address, verdicts, asked, held, server }
    }

    /// Sets its answer about evictions in a namespace. `None`: it allows them.
    pub fn set_verdict(&self, namespace: &str, verdict: Option<Verdict>) {
        self.verdicts.send_modify(|all| {
            match verdict {
                Some(verdict) => all.insert(namespace.to_owned(), verdict),
                None => all.remove(namespace),
            };
        });
    }

    /// How many it keeps waiting now.
    pub fn held(&self) -> usize {
        Arc::strong_count(&self.held) - 1
    }

    /// How often it was asked for an operation on something.
    pub fn asked(&self, operation: &str, namespace: &str, name: &str) -> usize {
        let about = |(o, s, n): &&(String, String, String)| {
            (o.as_str(), s.as_str(), n.as_str()) == (operation, namespace, name)
        };
        self.asked.lock().unwrap().iter().filter(about).count()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    request: Request<Incoming>,
    mut verdicts: watch::Receiver<Verdicts>,
    seen: Arc<Mutex<Vec<(String, String, String)>>>,
    waiting: Weak<()>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let Ok(body) = request.into_body().collect().await else {
        return Ok(Response::new(Full::default()));
    };
    let review: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let text = |field: &str| review["request"][field].as_str().unwrap_or_default().to_owned();
    let namespace = text("namespace");
    seen.lock().unwrap().push((text("operation"), namespace.clone(), text("name")));
    let mut held = None;
    let verdict = loop {
        let verdict = verdicts.borrow_and_update().get(&namespace).cloned();
        match verdict {
            Some(Verdict::Hold) => {
                held = held.or_else(|| waiting.upgrade());
                if verdicts.changed().await.is_err() {
                    break verdict;
                }
            }
            verdict => break verdict,
        }
    };
    drop(held);
    let mut response = json!({ "uid": review["request"]["uid"], "allowed": true });
    if let Some(Verdict::Deny(code, message)) = verdict {
        response["allowed"] = false.into();
        response["status"] = json!({ "code": code, "message": message });
    }
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response
    });
    Ok(Response::builder()
        .header("content-type", "application/json")
        .body(Full::new(answer.to_string().into()))
        .unwrap())
}

/// What a webhook is asked about.
pub struct Rule<'a> {
    pub name: &'a str,
    pub namespaces: &'a [&'a str],
    pub operations: &'a [&'a str],
    pub resources: &'a [&'a str],
}

impl Stage {
    /// Has the API server ask a webhook at this address, there or not, and refuse where it gets no
    /// answer. The path of the configuration.
    pub async fn ask(&self, address: SocketAddr, rule: &Rule<'_>) -> String {
        let ca = ByteString(fs::read(self.cluster.folder.path().join("ca.pem")).unwrap());
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": { "name": rule.name },
            "webhooks": [{
                "name": format!("{}.test.sundown.dev", rule.name),
                "clientConfig": { "url": format!("https://{address}/"), "caBundle": ca },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": rule.operations,
                    "resources": rule.resources
                }],
                "namespaceSelector": {
                    "matchExpressions": [{
                        "key": "kubernetes.io/metadata.name", "operator": "In",
                        "values": rule.namespaces
                    }]
                },
                "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 30,
            }],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        self.create(path, &configuration).await;
        format!("{path}/{}", rule.name)
    }

    /// Waits until everybody's eviction of a pod is refused: what admission is told it learns by a
    /// watch.
    pub async fn refuses_eviction(&self, namespace: &str, pod: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction?dryRun=All");
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": pod, "namespace": namespace }
        });
        self.holds(&format!("the eviction of {pod} is refused"), async || {
            self.send(http::Method::POST, &path, &eviction).await.is_err()
        })
        .await;
    }
}
