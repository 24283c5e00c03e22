//! A control plane with as many nodes and pods as a figure needs, and the bare client beside it.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Uri};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use sundown::{domain::Moment, sim::aws::InstanceSpec};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::audit::{Audit, Call};
use crate::{
    bare::{Bare, Job, Plain, Requests},
    cluster::{ADMIN, Flags, SUNDOWN},
    control_plane::{Stage, node_name},
    process::Process,
    system::{cpu_seconds, idle_seconds},
};

/// Connections by which a cluster is set up.
const WIDTH: usize = 32;
/// How long anything may take before the benchmark gives up.
const LIMIT: Duration = Duration::from_mins(10);

pub struct Bench {
    pub stage: Stage,
    client: kube::Client,
}

impl Bench {
    /// Nobody writes on Nodes meanwhile: the node controller would, on all that have no kubelet (or
    /// kwok) behind them, and the one that tells how long Secrets are kept writes on every Node
    /// anew when there are 100, 500 or 1 000.
    pub async fn start() -> Self {
        let flags = Flags {
            controllers: &["--controllers=*,-node-lifecycle-controller,-ttl-controller"],
            ..Flags::default()
        };
        let stage = Stage::of(1, &flags)
            .await
            .expect("SUNDOWN_CONTROL_PLANE says where it is: benches/run sets it");
        let client = stage.cluster.client(ADMIN);
        let bench = Self { stage, client };
        // The applied Deployment would stand on the nodes that go.
        let none = json!({ "spec": { "replicas": 0 } });
        bench
            .all(
                [request(
                    Method::PATCH,
                    "/apis/apps/v1/namespaces/sundown/deployments/sundown",
                    &none,
                )]
                .into_iter(),
            )
            .await;
        bench
            .until("its pods are gone", || async {
                bench.list("/api/v1/namespaces/sundown/pods").await.is_empty()
            })
            .await;
        bench
    }

    /// Instances of this cluster that belong to no group.
    pub fn instances(&self, count: usize) -> Vec<String> {
        let tag =
            (format!("kubernetes.io/cluster/{}", self.stage.world.cluster()), "owned".to_owned());
        let spec = InstanceSpec { spot: true, tags: [tag].into(), ..InstanceSpec::default() };
        let instances: Vec<_> =
            (0..count).map(|_| self.stage.world.aws.create_instance(spec.clone())).collect();
        // Their Nodes are in the real cluster. In the embedded one, whose API server nobody asks,
        // they would join minutes later, in another run.
        for instance in &instances {
            self.stage.world.keep_out(instance);
        }
        instances
    }

    /// Their Nodes, ready, with so much in an annotation; with kwok behind them or with nobody.
    pub async fn nodes(&self, instances: &[String], kib: usize, kwok: bool) {
        let padding = "x".repeat(kib * 1024);
        let node = |instance: &String| {
            let name = node_name(instance);
            let by =
                if kwok { ("kwok.x-k8s.io/node", "fake") } else { ("example.com/node", "bare") };
            let annotations = json!({ by.0: by.1, "example.com/padding": padding });
            let labels = json!({
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "eu-west-1a",
                "kubernetes.io/os": "linux"
            });
            let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
            let spec = json!({ "providerID": format!("aws:///eu-west-1a/{instance}") });
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec })
        };
        self.all(instances.iter().map(|i| request(Method::POST, "/api/v1/nodes", &node(i)))).await;
        // New Nodes have the taint not-ready, which the node controller would take away.
        let untainted = json!({ "spec": { "taints": null } });
        let patch = |i: &String| {
            request(Method::PATCH, &format!("/api/v1/nodes/{}", node_name(i)), &untainted)
        };
        self.all(instances.iter().map(patch)).await;
        if !kwok {
            let ready =
                json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
            let patch = |i: &String| {
                request(Method::PATCH, &format!("/api/v1/nodes/{}/status", node_name(i)), &ready)
            };
            self.all(instances.iter().map(patch)).await;
        }
    }

    /// So many bare pods on each of these nodes, running, which take a minute to stop; with so much
    /// in an annotation.
    pub async fn pods(&self, instances: &[String], each: usize, kib: usize) {
        let padding = "x".repeat(kib * 1024);
        let pod = |instance: &String, i: usize| {
            let annotations =
                json!({ "test.sundown.dev/stop-after": "60s", "example.com/padding": padding });
            let metadata = json!({
                "name": format!("pod-{instance}-{i}"), "labels": { "app": "bench" },
                "annotations": annotations
            });
            let containers = json!([{ "name": "main", "image": "none" }]);
            let spec = json!({
                "nodeName": node_name(instance), "terminationGracePeriodSeconds": 60,
                "containers": containers
            });
            request(
                Method::POST,
                "/api/v1/namespaces/default/pods",
                &json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }),
            )
        };
        self.all(
            instances
                .iter()
                .flat_map(|instance| (0..each).map(move |i| (instance, i)))
                .map(|(instance, i)| pod(instance, i)),
        )
        .await;
        let others =
            "/api/v1/namespaces/default/pods?fieldSelector=status.phase%21%3DRunning&limit=1";
        self.until("all pods run", || async { self.list(others).await.is_empty() }).await;
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let list: Value = self.client.request(get(path)).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Takes Nodes and pods away, and what kwok is about to do with them.
    pub async fn clear(&mut self) {
        for path in ["/api/v1/nodes", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0"] {
            let _: Value =
                self.client.request(request(Method::DELETE, path, &Value::Null)).await.unwrap();
        }
        self.stage.cluster.start_kwok();
    }

    /// Stops a service, whatever it is at; the next one begins in a cluster without its nodes.
    pub async fn stop(&self, mut service: Process) {
        service.signal("TERM");
        service.ended().await;
    }

    /// Sends these over 32 connections; all must be granted.
    pub async fn all(&self, requests: impl Iterator<Item = Request<Vec<u8>>>) {
        send(&self.client, requests).await;
    }

    /// A bare client that makes these requests as Sundown's own user: what an administrator asks
    /// for is exempt from priority and fairness, which costs the others time.
    pub async fn bare(
        &self,
        width: usize,
        requests: impl Iterator<Item = Request<Vec<u8>>>,
    ) -> Bare {
        let all = requests.map(Plain::from).collect();
        Bare::start(Job::Requests(Requests {
            kubeconfig: self.stage.cluster.kubeconfig(SUNDOWN),
            width,
            all,
        }))
        .await
    }

    /// CPU seconds so far of everybody who is at work, this process as `bench`, and of nobody;
    /// [`spent`] tells what came since.
    pub fn cpu(&self, service: Option<&Process>) -> BTreeMap<&'static str, f64> {
        let names = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];
        let cluster = names.map(|name| (name, self.stage.cluster.process(name)));
        let others =
            [("bench", std::process::id())].into_iter().chain(service.map(|s| ("sundown", s.id())));
        let processes =
            cluster.into_iter().chain(others).map(|(name, process)| (name, cpu_seconds(process)));
        processes.chain([("nobody", idle_seconds())]).collect()
    }

    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// A connection of its own that speaks HTTP/2; it ends with the last of its clones.
    pub async fn http2(&self) -> http2::SendRequest<Full<Bytes>> {
        let cluster = &self.stage.cluster;
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(cluster.folder.path().join("ca.pem")).unwrap())
            .unwrap();
        let mut config =
            ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let url: Uri = cluster.url().parse().unwrap();
        let (host, port) = (url.host().unwrap().to_owned(), url.port_u16().unwrap());
        let socket = TcpStream::connect((host.as_str(), port)).await.unwrap();
        let secure = TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from(host).unwrap(), socket)
            .await
            .unwrap();
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(secure)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// A request as [`Bench::http2`] takes it.
    pub fn with_token(&self, request: Request<Vec<u8>>) -> Request<Full<Bytes>> {
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("{}{}", self.stage.cluster.url(), parts.uri).parse().unwrap();
        parts.headers.insert("authorization", format!("Bearer {ADMIN}").parse().unwrap());
        Request::from_parts(parts, Full::from(body))
    }

    pub fn audit(&self) -> Audit {
        Audit::from_now(self.stage.cluster.folder.path().join("audit.log"))
    }

    /// Waits until this is so. It is looked at seldom: looking costs what is measured.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, mut holds: impl FnMut() -> F) {
        let end = std::time::Instant::now() + LIMIT;
        while !holds().await {
            assert!(std::time::Instant::now() < end, "it does not happen that {what}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits until the queue has no message any more, visible or not. It is in this process, so
    /// looking often costs nothing.
    pub async fn until_all_is_deleted(&self) {
        let empty = || {
            let queue = self.stage.world.aws.queue(self.stage.world.queue()).unwrap();
            queue.visible + queue.in_flight == 0
        };
        let all = async {
            while !empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LIMIT, all).await.expect("every message is deleted");
    }
}

async fn send(client: &kube::Client, requests: impl Iterator<Item = Request<Vec<u8>>>) {
    let answers =
        stream::iter(requests).map(|request| client.request_text(request)).buffer_unordered(WIDTH);
    answers.for_each(|answer| async move { drop(answer.unwrap()) }).await;
}

/// What each has spent between two looks at [`Bench::cpu`], in seconds.
pub fn spent(before: &BTreeMap<&'static str, f64>, after: &BTreeMap<&'static str, f64>) -> String {
    let each = after
        .iter()
        .map(|(name, to)| (name, to - before.get(name).copied().unwrap_or(0.0)))
        .filter(|(_, spent)| *spent > 0.1);
    each.map(|(name, spent)| format!("{name} {spent:.2}")).collect::<Vec<_>>().join(", ")
}

/// A request with a JSON body; a PATCH is a merge patch.
pub fn request(method: Method, path: &str, body: &Value) -> Request<Vec<u8>> {
    let kind =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap()
}

pub fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

/// What an accept writes, without anybody who reads it. Other keys the admission policy of the
/// manifests would refuse.
pub fn bare_accept(instance: &str) -> Request<Vec<u8>> {
    let record = json!({
        "version": 1,
        "interruptions": [{
            "kind": "spot", "event": "12345678-1234-1234-1234-123456789012",
            "at": "2026-03-04T05:06:07Z"
        }]
    });
    let labels = json!({ "node.kubernetes.io/exclude-from-external-load-balancers": "sundown" });
    let metadata =
        json!({ "annotations": { "sundown.dev/record": record.to_string() }, "labels": labels });
    let taint =
        json!({ "key": "sundown.dev/interruption", "value": "spot", "effect": "NoSchedule" });
    let body =
        json!({ "metadata": metadata, "spec": { "unschedulable": true, "taints": [taint] } });
    request(Method::PATCH, &format!("/api/v1/nodes/{}", node_name(instance)), &body)
}

/// From a moment to the last of these answers, in seconds.
pub fn until_last<'a>(from: Moment, calls: impl Iterator<Item = &'a Call>) -> f64 {
    let last = calls.map(|c| c.answered).max().expect("there are calls");
    last.duration_since(from).as_secs_f64()
}
