//! Through the real client, in paused time.

#![allow(clippy::indexing_slicing, reason = "a test that finds nothing there must fail")]

mod cluster;
mod disruption;
mod eviction;
mod faults;
mod server;
mod storage;
mod watching;

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    core::Status,
};

use super::{BudgetSpec, EmbeddedKube, NodeSpec, Options, PodShape, PodSpec, PodState, Workload};
use crate::runtime::{Clock, Spawner};

fn cluster_with(options: Options) -> EmbeddedKube {
    let clock = Clock::starting_at("2026-03-01T12:00:00Z".parse().unwrap());
    EmbeddedKube::start(options, clock, 7, &Spawner::new())
}

fn cluster() -> EmbeddedKube {
    cluster_with(Options::default())
}

fn with_nodes(n: usize) -> EmbeddedKube {
    let kube = cluster();
    for i in 0..n {
        kube.add_node(&NodeSpec::named(format!("n{i}")).instance(format!("i-{i:017}")));
    }
    kube
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A little time: lags of the controllers.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

fn pods(kube: &EmbeddedKube) -> Api<Pod> {
    Api::namespaced(kube.client(), "shop")
}

fn nodes(kube: &EmbeddedKube) -> Api<Node> {
    Api::all(kube.client())
}

async fn evict(kube: &EmbeddedKube, name: &str) -> Result<(), Status> {
    evict_with(kube, name, serde_json::json!({})).await
}

async fn evict_with(
    kube: &EmbeddedKube,
    name: &str,
    options: serde_json::Value,
) -> Result<(), Status> {
    let eviction = serde_json::json!({ "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": name, "namespace": "shop" }, "deleteOptions": options });
    let made: Result<serde_json::Value, kube::Error> =
        pods(kube).create_subresource("eviction", name, &PostParams::default(), &eviction).await;
    made.map(|_| ()).map_err(status)
}

fn status(error: kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => *status,
        other => panic!("no Status: {other}"),
    }
}

/// The text of the first cause.
fn cause(status: &Status) -> String {
    status
        .details
        .as_ref()
        .and_then(|d| d.causes.first())
        .map(|c| c.message.clone())
        .unwrap_or_default()
}

async fn budget(kube: &EmbeddedKube, name: &str) -> (i32, i32, i32, i32) {
    let api: Api<PodDisruptionBudget> = Api::namespaced(kube.client(), "shop");
    let status = api.get(name).await.unwrap().status.unwrap();
    (
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
    )
}
