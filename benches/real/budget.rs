//! How soon a budget that frees is used.

use std::collections::BTreeMap;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::Method;
use serde_json::{Value, json};
use sundown::{domain::Moment, sim::aws::SpotAction};

use super::{
    audit::Call,
    bench::{Bench, get, request},
};
use crate::{
    drains::p99,
    report::{Bar, Baseline, Figure},
    stage::block_on,
};

/// Deployments with a budget of one, and how many of their pods are evicted one after the other.
const SERVICES: usize = 10;
const REPLICAS: usize = 25;
/// What the promise is about.
const SAMPLES: usize = 200;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

pub fn budget() -> Vec<Figure> {
    block_on(async {
        let bench = Bench::start().await;
        let going = bench.instances(10);
        bench.nodes(&going, 0, true).await;
        for i in 0..SERVICES {
            let name = format!("service-{i}");
            bench.stage.create("/apis/apps/v1/namespaces/default/deployments", &deployment(&name)).await;
            let spec = json!({ "maxUnavailable": 1, "selector": { "matchLabels": { "app": name } } });
            let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name }, "spec": spec });
            bench.stage.create(BUDGETS, &budget).await;
        }
        for i in 0..SERVICES {
            let path = format!("{BUDGETS}/service-{i}");
            bench.stage.until("all of its pods are ready", &path, |b| b["status"]["currentHealthy"] == REPLICAS).await;
        }
        // Where the replacements go.
        bench.nodes(&bench.instances(10), 0, true).await;
        let service = bench.stage.leader("sundown", &[]).await;
        // A pod of its own under each budget would change the budget, so the bare client asks with dryRun for one that is there.
        let witness = tokio::spawn(witness(bench.client().clone()));
        let audit = bench.audit();
        for instance in &going {
            bench.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        let evicted = |call: &Call| call.is_by_sundown() && call.did("create", "pods/eviction");
        bench.until("the budgets have freed often enough", || async { audit.count(evicted) >= SAMPLES + 25 }).await;
        witness.abort();
        drop(service);
        let calls = audit.calls();
        let (ours, bare) = (
            waits(&calls, |c| c.is_by_sundown() && c.resource == "pods/eviction"),
            waits(&calls, |c| !c.is_by_sundown() && c.resource == "pods/eviction"),
        );
        eprintln!("  ours: {}\n  bare: {}", course(&ours, &calls), course(&bare, &calls));
        assert!(ours.len() >= SAMPLES, "too few samples: {}", ours.len());
        assert!(bare.len() >= SAMPLES / 2, "too few samples of the bare client: {}", bare.len());
        vec![Figure {
            name: "real-budget",
            what: format!("from the status write that frees a budget to the next eviction under it, p99 of {}", ours.len()),
            value: p99(&times(&ours)),
            unit: "ms",
            bar: Bar::Most(50.0),
            baseline: Some(Baseline {
                what: "a bare watch that answers each with a POST of an eviction (dryRun)",
                value: p99(&times(&bare)),
                floor: Bar::Most(50.0),
            }),
        }]
    })
}

/// Pods that stop within a second and are ready a second after that.
fn deployment(name: &str) -> Value {
    let labels = json!({ "app": name });
    let annotations = json!({ "test.sundown.dev/stop-after": "500ms", "test.sundown.dev/ready-after": "500ms" });
    let template = json!({
        "metadata": { "labels": labels, "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    });
    let spec = json!({ "replicas": REPLICAS, "selector": { "matchLabels": labels }, "template": template });
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name }, "spec": spec })
}

/// Which budget a request is about: pods of deployments are called after them.
fn budget_of(pod: &str) -> String {
    pod.split('-').take(2).collect::<Vec<_>>().join("-")
}

/// Watches the budgets and asks for a pod of each that has freed, at once.
async fn witness(client: kube::Client) {
    let pods: Value = client.request(get("/api/v1/namespaces/default/pods")).await.unwrap();
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods["items"].as_array().unwrap() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        names.entry(budget_of(name)).or_default().push(name.to_owned());
    }
    let mut lines = client.request_stream(get(&format!("{BUDGETS}?watch=true&resourceVersion=0"))).await.unwrap().lines();
    while let Ok(Some(line)) = lines.try_next().await {
        let event: Value = serde_json::from_str(&line).unwrap();
        if !frees(&event["object"]) {
            continue;
        }
        let Some(name) = event["object"]["metadata"]["name"].as_str().and_then(|budget| names.get(budget)?.first()) else { continue };
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name }, "deleteOptions": { "dryRun": ["All"] } });
        let asked = request(Method::POST, &format!("/api/v1/namespaces/default/pods/{name}/eviction?dryRun=All"), &eviction);
        let client = client.clone();
        tokio::spawn(async move { drop(client.request_text(asked).await) });
    }
}

fn frees(budget: &Value) -> bool {
    budget["status"]["disruptionsAllowed"].as_i64().is_some_and(|n| n > 0)
}

/// From each answer that says that a budget has freed to the eviction that may use it, in milliseconds; a budget whose pods are all evicted is not
/// asked for. The answer may be logged after the watchers have heard of it, and what was under way already and is granted has used it: that is
/// no time at all.
fn waits(calls: &[Call], about: impl Fn(&Call) -> bool) -> Vec<(f64, &Call)> {
    // Calls come in the order in which they came in.
    let mut requests: BTreeMap<String, Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|c| about(c)) {
        requests.entry(budget_of(&call.name)).or_default().push(call);
    }
    let mut last: BTreeMap<&str, bool> = BTreeMap::new();
    let mut waits = Vec::new();
    let mut writes: Vec<_> = calls.iter().filter(|c| c.resource == "poddisruptionbudgets/status" && c.code == 200 && !c.is_by_sundown()).collect();
    writes.sort_by_key(|c| c.answered);
    for write in writes {
        let is_free = frees(&write.object);
        let was_free = last.insert(&write.name, is_free).unwrap_or(true);
        if !is_free || was_free {
            continue;
        }
        let may_use = |asked: &&&Call| asked.received >= write.received || asked.code == 201 && asked.answered >= write.received;
        let next = requests.get(&write.name).and_then(|of| of.iter().find(may_use));
        if let Some(next) = next {
            waits.push((next.received.duration_since(write.answered).as_secs_f64().max(0.0) * 1e3, write));
        }
    }
    waits
}

fn times(waits: &[(f64, &Call)]) -> Vec<f64> {
    waits.iter().map(|(time, _)| *time).collect()
}

/// The longest, and what was asked about these budgets meanwhile.
fn course(waits: &[(f64, &Call)], calls: &[Call]) -> String {
    let mut longest = waits.to_vec();
    longest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let line = |(time, write): &(f64, &Call)| {
        let since = |moment: Moment| moment.duration_since(write.answered).as_secs_f64() * 1e3;
        let near = calls.iter().filter(|c| budget_of(&c.name) == write.name && (-400.0..*time + 50.0).contains(&since(c.received)));
        let near =
            near.map(|c| format!("{:.0}..{:.0} {} {} {} {}", since(c.received), since(c.answered), c.is_by_sundown(), c.verb, c.resource, c.code));
        format!("{time:.0} ms: {}", near.collect::<Vec<_>>().join("; "))
    };
    longest.iter().take(6).map(line).collect::<Vec<_>>().join("\n    ")
}
