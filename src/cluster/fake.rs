//! A small API server for the tests of `cluster`: objects, LIST in pages, WATCH with bookmarks,
//! faults, and a list of the received requests.

#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use super::{Cluster, ClusterEvent, ClusterParts, Outcome, Settings, Target, lease::WriteGuard};
use crate::{
    domain::Moment,
    runtime::{Clock, Observer, Random, Spawner},
};

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// A request that the fake received.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Value,
}

impl Seen {
    pub(super) fn is_watch(&self) -> bool {
        self.query.contains_key("watch")
    }

    pub(super) fn is_list_of(&self, path: &str) -> bool {
        self.method == Method::GET && self.path == path && !self.is_watch()
    }
}

/// What happens to a request instead of a normal answer.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The answer has this code, `Retry-After` header and body.
    Answer(u16, Option<&'static str>, String),
    /// The connection breaks before the answer.
    Broken,
    /// The request is never answered.
    Hang,
    /// The normal answer comes after this time.
    Slow(Duration),
}

type Script = Box<dyn Fn(&Seen) -> Option<Fault> + Send>;

#[derive(Default)]
struct World {
    version: u64,
    /// A watch from before this version is answered with 410.
    oldest: u64,
    /// Objects by collection, then by namespace and name.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    log: Vec<(u64, String, Value)>,
    watches: Vec<Watch>,
    seen: Vec<Seen>,
    script: Option<Script>,
    /// Watches deliver nothing and do not end.
    frozen: bool,
}

struct Watch {
    collection: String,
    fields: Option<String>,
    lines: mpsc::UnboundedSender<Result<Bytes, std::io::Error>>,
}

#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<World>>);

pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const PODS: &str = "/api/v1/pods";
pub(super) const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";
pub(super) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// Keeps the outcome of every request, and counts unreadable objects.
#[derive(Default)]
pub(super) struct Counter(pub(super) Mutex<Vec<(Target, Outcome)>>, pub(super) Mutex<u32>);

impl Observer<ClusterEvent> for Counter {
    fn observe(&self, event: ClusterEvent) {
        match event {
            ClusterEvent::Called { target, outcome, .. } => {
                self.0.lock().unwrap().push((target, outcome));
            }
            ClusterEvent::Unreadable(_) => *self.1.lock().unwrap() += 1,
            ClusterEvent::WatchBroke(_) => {}
        }
    }
}

impl Fake {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(super) fn client(&self) -> kube::Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move { fake.serve(request).await }
        });
        kube::Client::new(service, "default")
    }

    pub(super) fn cluster(&self) -> Cluster {
        self.cluster_with(Arc::new(Counter::default()), WriteGuard::open(), Settings::default())
    }

    pub(super) fn cluster_with(
        &self,
        observer: Arc<dyn Observer<ClusterEvent>>,
        guard: WriteGuard,
        settings: Settings,
    ) -> Cluster {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Moment>().unwrap());
        Cluster::new(ClusterParts {
            client: self.client(),
            clock,
            random: Random::seeded(7),
            spawner: Spawner::new(),
            observer,
            guard,
            settings,
        })
    }

    pub(super) fn script(&self, script: impl Fn(&Seen) -> Option<Fault> + Send + 'static) {
        self.world().script = Some(Box::new(script));
    }

    pub(super) fn heal(&self) {
        self.world().script = None;
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.world().seen.clone()
    }

    pub(super) fn forget_requests(&self) {
        self.world().seen.clear();
    }

    /// Creates or replaces an object, as another client would.
    pub(super) fn put(&self, collection: &str, mut object: Value) -> Value {
        let mut world = self.world();
        world.version += 1;
        let version = world.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let known = world
            .objects
            .entry(collection.to_owned())
            .or_default()
            .insert(key_of(&object), object.clone());
        world.record(collection, if known.is_some() { "MODIFIED" } else { "ADDED" }, &object);
        object
    }

    pub(super) fn remove(&self, collection: &str, key: &str) {
        let mut world = self.world();
        let Some(mut object) = world.objects.get_mut(collection).and_then(|c| c.remove(key)) else {
            return;
        };
        world.version += 1;
        object["metadata"]["resourceVersion"] = json!(world.version.to_string());
        world.record(collection, "DELETED", &object);
    }

    /// Ends every watch: by a broken connection, or normally.
    pub(super) fn cut(&self, broken: bool) {
        for watch in self.world().watches.drain(..) {
            if broken {
                watch.lines.send(Err(std::io::Error::other("reset by peer"))).ok();
            }
        }
    }

    /// Keeps watches open but delivers nothing through them, not even their end.
    pub(super) fn freeze(&self, frozen: bool) {
        self.world().frozen = frozen;
    }

    /// Sends this line to every watch of a collection.
    pub(super) fn send_line(&self, collection: &str, line: &Value) {
        for watch in self.world().watches.iter().filter(|w| w.collection == collection) {
            watch.lines.send(Ok(format!("{line}\n").into())).ok();
        }
    }

    /// Forgets all changes so far: a watch from an earlier version gets a 410.
    pub(super) fn compact(&self) {
        let mut world = self.world();
        world.version += 1;
        world.oldest = world.version;
        world.log.clear();
    }

    pub(super) fn watches(&self) -> usize {
        let mut world = self.world();
        world.watches.retain(|w| !w.lines.is_closed());
        world.watches.len()
    }

    async fn serve(&self, request: Request<Body>) -> Result<Answer, std::io::Error> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let query = parts.uri.query().unwrap_or_default();
        let seen = Seen {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        };
        let fault = {
            let mut world = self.world();
            world.seen.push(seen.clone());
            world.script.as_ref().and_then(|script| script(&seen))
        };
        match fault {
            Some(Fault::Answer(code, retry_after, body)) => {
                let mut answer = Response::builder().status(code);
                if let Some(seconds) = retry_after {
                    answer = answer.header("Retry-After", seconds);
                }
                return Ok(answer.body(whole(body)).unwrap());
            }
            Some(Fault::Broken) => return Err(std::io::Error::other("connection refused")),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
            None => {}
        }
        Ok(self.world().answer(&seen))
    }
}

fn key_of(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn whole(text: String) -> UnsyncBoxBody<Bytes, std::io::Error> {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

fn answer(code: u16, body: &Value) -> Answer {
    Response::builder().status(code).body(whole(body.to_string())).unwrap()
}

pub(super) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message
    })
}

fn selected(object: &Value, fields: Option<&String>) -> bool {
    fields.is_none_or(|f| {
        object.pointer("/spec/nodeName").and_then(Value::as_str) == f.strip_prefix("spec.nodeName=")
    })
}

impl World {
    fn record(&mut self, collection: &str, kind: &str, object: &Value) {
        let event = json!({"type": kind, "object": object});
        self.log.push((self.version, collection.to_owned(), event.clone()));
        if self.frozen {
            return;
        }
        for watch in self
            .watches
            .iter()
            .filter(|w| w.collection == collection && selected(object, w.fields.as_ref()))
        {
            watch.lines.send(Ok(format!("{event}\n").into())).ok();
        }
    }

    fn answer(&mut self, seen: &Seen) -> Answer {
        let fields = seen.query.get("fieldSelector");
        if seen.is_watch() {
            return self.watch(seen, fields);
        }
        let lists = [NODES, PODS, BUDGETS, ATTACHMENTS];
        if seen.method == Method::GET && lists.contains(&seen.path.as_str()) {
            return self.list(seen, fields);
        }
        if seen.method == Method::POST
            && (seen.path.ends_with("/eviction") || seen.path.ends_with("/events"))
        {
            return answer(201, &json!({"kind": "Status", "status": "Success"}));
        }
        let (collection, name) = seen.path.rsplit_once('/').unwrap_or_default();
        let known = self.objects.get(collection).and_then(|c| c.get(name)).cloned();
        match (&seen.method, known) {
            (&Method::PATCH, _) if collection.ends_with("/events") => answer(200, &seen.body),
            (&Method::DELETE, _) => answer(200, &json!({"kind": "Status", "status": "Success"})),
            (&Method::PATCH, Some(object)) => self.patch(collection, object, &seen.body),
            (_, Some(object)) => answer(200, &object),
            (_, None) => answer(404, &status(404, "NotFound", "not found")),
        }
    }

    fn patch(&mut self, collection: &str, mut object: Value, patch: &Value) -> Answer {
        if patch
            .pointer("/metadata/resourceVersion")
            .is_some_and(|v| v != &object["metadata"]["resourceVersion"])
        {
            return answer(409, &status(409, "Conflict", "the object has been modified"));
        }
        json_patch::merge(&mut object, patch);
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects
            .entry(collection.to_owned())
            .or_default()
            .insert(key_of(&object), object.clone());
        self.record(collection, "MODIFIED", &object);
        answer(200, &object)
    }

    fn list(&self, seen: &Seen, fields: Option<&String>) -> Answer {
        let all: Vec<&Value> = self
            .objects
            .get(&seen.path)
            .into_iter()
            .flat_map(BTreeMap::values)
            .filter(|o| selected(o, fields))
            .collect();
        let number = |key: &str| seen.query.get(key).and_then(|n| n.parse::<usize>().ok());
        let (from, limit) =
            (number("continue").unwrap_or(0), number("limit").unwrap_or(usize::MAX));
        let items: Vec<_> = all.iter().skip(from).take(limit).collect();
        let more = if from + items.len() < all.len() {
            (from + items.len()).to_string()
        } else {
            String::new()
        };
        answer(
            200,
            &json!({
                "kind": "List",
                "metadata": {"resourceVersion": self.version.to_string(), "continue": more},
                "items": items
            }),
        )
    }

    fn watch(&mut self, seen: &Seen, fields: Option<&String>) -> Answer {
        let from: u64 = seen.query.get("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0);
        let timeout: u64 =
            seen.query.get("timeoutSeconds").and_then(|v| v.parse().ok()).unwrap_or(300);
        let (lines, receiver) = mpsc::unbounded_channel();
        if from < self.oldest {
            let error = json!({"type": "ERROR", "object": status(410, "Expired", "too old \
                resource version")});
            lines.send(Ok(format!("{error}\n").into())).ok();
        } else {
            for (_, _, event) in self.log.iter().filter(|(v, c, event)| {
                *v > from && *c == seen.path && selected(&event["object"], fields)
            }) {
                lines.send(Ok(format!("{event}\n").into())).ok();
            }
            self.watches.push(Watch {
                collection: seen.path.clone(),
                fields: fields.cloned(),
                lines,
            });
        }
        let ends =
            if self.frozen { None } else { Some(Instant::now() + Duration::from_secs(timeout)) };
        let stream = futures::stream::unfold(receiver, move |mut receiver| async move {
            let next = match ends {
                Some(ends) => tokio::time::timeout_at(ends, receiver.recv()).await.ok().flatten(),
                None => receiver.recv().await,
            };
            next.map(|line| (line.map(Frame::data), receiver))
        });
        Response::new(StreamBody::new(stream).boxed_unsync())
    }
}

/// A Node with an instance, and with fields that Sundown does not read.
pub(super) fn node(name: &str, provider_id: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": name, "pool": "blue"},
            "annotations": {
                "sundown.dev/pause": "true",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true"
            },
        },
        "spec": {
            "providerID": provider_id,
            "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]
        },
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}
            ],
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "InternalDNS", "address": format!("{name}.ec2.internal")}
            ],
            "nodeInfo": {"bootID": "boot-1", "kernelVersion": "6.1"},
            "images": [{"names": ["a", "b"], "sizeBytes": 1}],
        },
    })
}

/// A running pod on a node.
pub(super) fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "web", "uid": format!("uid-{name}"),
            "labels": {"app": "web"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u",
                "controller": true
            }],
        },
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 20,
            "containers": [{"name": "c", "image": "i"}]
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Lets all tasks run until they wait for time to pass.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
