//! Requests to the API server.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use futures::{FutureExt as _, future::join_all};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sundown::domain::Moment;

use super::{Work, client};

/// A request with its body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plain {
    method: String,
    path: String,
    /// Empty: none. That of a PATCH is a merge patch.
    body: String,
}

impl Plain {
    pub fn new(method: &http::Method, path: impl Into<String>, body: &Value) -> Self {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Self { method: method.to_string(), path: path.into(), body }
    }

    pub(super) fn request(self) -> http::Request<Vec<u8>> {
        let kind = if self.method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(self.method.as_str())
            .uri(self.path)
            .header("content-type", kind);
        request.body(self.body.into_bytes()).unwrap()
    }
}

impl From<http::Request<Vec<u8>>> for Plain {
    fn from(request: http::Request<Vec<u8>>) -> Self {
        let (parts, body) = request.into_parts();
        Self {
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            body: String::from_utf8(body).unwrap(),
        }
    }
}

/// These requests, so many at once; all must be granted.
#[derive(Debug, Serialize, Deserialize)]
pub struct Requests {
    pub kubeconfig: PathBuf,
    pub width: usize,
    pub all: VecDeque<Plain>,
}

impl Requests {
    pub(super) async fn prepare(self) -> Work {
        let client = client(&self.kubeconfig).await;
        open(&client, self.width).await;
        let (requests, width) = (Arc::new(Mutex::new(self.all)), self.width);
        async move {
            let worker = |_| {
                let (client, requests) = (client.clone(), Arc::clone(&requests));
                tokio::spawn(async move {
                    loop {
                        let Some(next) = requests.lock().unwrap().pop_front() else { return };
                        client.request_text(next.request()).await.unwrap();
                    }
                })
            };
            for worker in join_all((0..width).map(worker)).await {
                worker.unwrap();
            }
        }
        .boxed()
    }
}

/// Opens as many connections. (kube speaks HTTP/1.1: each request under way has one of its own.)
async fn open(client: &kube::Client, width: usize) {
    let ask = |_| client.request_text(http::Request::get("/version").body(Vec::new()).unwrap());
    for answer in join_all((0..width).map(ask)).await {
        answer.unwrap();
    }
}

/// All Nodes in pages of so many, read as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pages {
    pub kubeconfig: PathBuf,
    pub page: usize,
    /// As many there are to be.
    pub nodes: usize,
}

impl Pages {
    pub(super) async fn prepare(self) -> Work {
        let client = client(&self.kubeconfig).await;
        open(&client, 1).await;
        async move {
            let (mut token, mut count) = (String::new(), 0);
            loop {
                let path = format!("/api/v1/nodes?limit={}&continue={token}", self.page);
                let page: Value = client
                    .request(http::Request::get(path).body(Vec::new()).unwrap())
                    .await
                    .unwrap();
                count += page["items"].as_array().unwrap().len();
                page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut token);
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(count, self.nodes);
        }
        .boxed()
    }
}

/// What every next leader must do before it acts: a write of the Lease, and a consistent LIST of
/// the Nodes that are unschedulable, read as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Successor {
    pub kubeconfig: PathBuf,
    /// The path of a Lease that nobody else writes.
    pub lease: String,
    /// As many Nodes are to be unschedulable.
    pub nodes: usize,
}

impl Successor {
    pub(super) async fn prepare(self) -> Work {
        let client = client(&self.kubeconfig).await;
        open(&client, 1).await;
        async move {
            let renewed =
                Moment::from(jiff::Timestamp::now()).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
            let lease = json!({
                "spec": {
                    "holderIdentity": "bare", "leaseDurationSeconds": 15, "renewTime": renewed
                }
            });
            client
                .request_text(Plain::new(&http::Method::PATCH, self.lease, &lease).request())
                .await
                .unwrap();
            let path = "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue";
            let list: Value =
                client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
            assert_eq!(list["items"].as_array().unwrap().len(), self.nodes, "unschedulable nodes");
        }
        .boxed()
    }
}
