//! What a refusal by admission, or for want of a right, reads like: the embedded API server has it
//! in the same words.

use std::net::SocketAddr;

use http::Method;
use serde_json::{Value, json};
use sundown::{
    runtime::{Clock, Spawner},
    sim::kube::{EmbeddedKube, EvictionVerdict, Options, PodSpec},
};

use crate::{
    admission::{Rule, Verdict, Webhook},
    cluster::SUNDOWN,
    objects::Pods,
    stage::Stage,
};

/// A pod that no node has, called after its namespace.
fn pod(name: &str) -> Value {
    Pods::of(name).pod(name, "none")
}

async fn asked(client: &kube::Client, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    let answer = client.send(request.body(body.into()).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    (
        code,
        serde_json::from_slice(&bytes)
            .unwrap_or_else(|e| panic!("{path}: {e}: {}", String::from_utf8_lossy(&bytes))),
    )
}

async fn evicted(client: &kube::Client, name: &str) -> (u16, Value) {
    let path = format!("/api/v1/namespaces/{name}/pods/{name}/eviction");
    asked(
        client,
        Method::POST,
        &path,
        &json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": name, "namespace": name }
        }),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_admission_or_for_want_of_a_right_reads_the_same_on_the_embedded_server() {
    let Some(stage) = Stage::new(29).await else { return };
    let webhook = Webhook::start(&stage).await;
    for name in ["denied", "busy", "unreachable"] {
        stage.add_namespace(name).await;
        stage.create(&format!("/api/v1/namespaces/{name}/pods"), &pod(name)).await;
    }
    webhook.set_verdict("denied", Some(Verdict::Deny(403, "the data is being moved".to_owned())));
    webhook.set_verdict("busy", Some(Verdict::Deny(429, "a migration has begun".to_owned())));
    let rule = |name, namespaces| Rule {
        name,
        namespaces,
        operations: &["CREATE"],
        resources: &["pods/eviction"],
    };
    stage.ask(webhook.address, &rule("evictions", &["denied", "busy"])).await;
    let unused_address: SocketAddr =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    stage.ask(unused_address, &rule("evictions-too", &["unreachable"])).await;

    let tasks = Spawner::new();
    let kube = EmbeddedKube::start(Options::default(), Clock::system(), 1, &tasks);
    for name in ["denied", "busy", "unreachable"] {
        kube.add_pod(&PodSpec::on("none", name, name));
    }
    let (real, embedded) = (stage.cluster.client(SUNDOWN), kube.client());
    for name in ["denied", "busy", "unreachable"] {
        stage.refuses_eviction(name, name).await;
        let real = evicted(&real, name).await;
        // The words of the webhook, or of who failed to reach it, are given; how they are put is
        // what is compared.
        let message = real.1["message"].as_str().unwrap();
        let cause = message.split_once("test.sundown.dev\": ").map(|(_, cause)| cause.to_owned());
        kube.eviction_webhook(move |review| match review.name.as_str() {
            "denied" => EvictionVerdict::Deny("the data is being moved".to_owned()),
            "busy" => EvictionVerdict::Busy("a migration has begun".to_owned()),
            _ => EvictionVerdict::Unreachable(cause.clone().unwrap_or_default()),
        });
        let (code, status) = evicted(&embedded, name).await;
        let named = if name == "unreachable" {
            "evictions-too.test.sundown.dev"
        } else {
            "evictions.test.sundown.dev"
        };
        let status = status.to_string().replace("evictions.example.com", named);
        assert_eq!((code, serde_json::from_str(&status).unwrap()), real, "{name}");
    }

    // Neither right is among those that Sundown is given.
    for (verb, method, resource, path, body) in [
        ("delete", Method::DELETE, "nodes", "/api/v1/nodes/some", Value::Null),
        ("create", Method::POST, "pods", "/api/v1/namespaces/denied/pods", pod("other")),
        (
            "update",
            Method::PUT,
            "poddisruptionbudgets",
            "/apis/policy/v1/namespaces/denied/poddisruptionbudgets/some",
            json!({}),
        ),
    ] {
        kube.deny(verb, resource);
        let (real, embedded) = (
            asked(&real, method.clone(), path, &body).await,
            asked(&embedded, method, path, &body).await,
        );
        assert_eq!(real.0, 403, "{verb} {resource}");
        assert_eq!(embedded, real, "{verb} {resource}");
    }
    tasks.kill();
}
