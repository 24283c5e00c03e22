//! Drains: how fast a freed budget is used, and what a drain costs the API server.

use std::{collections::BTreeMap, time::Duration};

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use serde_json::Value;
use sundown::{
    domain::{Moment, MomentExt as _},
    sim::{
        aws::SpotAction,
        kube::{BudgetSpec, Entry, Fact, PodShape, PodSpec, Timing, Workload},
    },
};

use crate::{
    report::{Bar, Baseline, Figure},
    stage::{Stage, block_on, settings},
};

/// Services with a budget of one, and how many of their pods are evicted one after the other.
const SERVICES: usize = 8;
const REPLICAS: usize = 25;

/// Pods that stop and start quickly, so that budgets free often.
fn quick() -> PodShape {
    let soon = Some(Duration::from_millis(100));
    PodShape { stop: soon, start: soon, ready: soon, ..PodShape::default() }
}

pub fn budget() -> Vec<Figure> {
    block_on(async {
        let mut world = settings();
        world.kube.timing = Timing { disruption: Duration::from_millis(5), ..Timing::default() };
        let stage = Stage::new("budget", world).await;
        let going = stage.spot_group(20);
        for i in 0..SERVICES {
            let name = format!("service-{i}");
            stage.world.kube.add_deployment(&Workload::new("shop", &name, REPLICAS).shape(quick()));
            stage.world.kube.add_budget(&BudgetSpec::for_app("shop", &name).max(1));
        }
        stage.until("all pods run", || stage.world.kube.pods().iter().filter(|p| p.ready).count() == SERVICES * REPLICAS).await;
        // Where their replacements go.
        let mut spec = sundown::sim::aws::GroupSpec::new("new", 20);
        spec.replace_after = None;
        stage.world.add_group(spec, &[]);
        let service = stage.service().await;
        let witness = tokio::spawn(witness(stage.bare_kube()));
        let begun = stage.clock.now();
        for instance in &going {
            stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        let is_eviction = |e: &Entry| matches!(e.fact, Fact::Evicted { .. });
        let evicted = || stage.world.kube.journal().iter().filter(|e| is_eviction(e)).count();
        stage.until("nearly all pods are evicted", || evicted() >= SERVICES * (REPLICAS - 1)).await;
        witness.abort();
        drop(service);
        let ours = waits(&stage, begun, |r| r.verb == "create" && r.subresource == "eviction" && r.client.starts_with("sundown/"));
        let bare = waits(&stage, begun, |r| r.verb == "get" && r.resource == "poddisruptionbudgets" && !r.client.starts_with("sundown/"));
        assert!(ours.len() >= 100 && bare.len() >= 100, "too few samples: {} and {}", ours.len(), bare.len());
        vec![Figure {
            name: "budget",
            what: format!("from a budget that frees to the next eviction under it, p99 of {}", ours.len()),
            value: p99(&ours),
            unit: "ms",
            bar: Bar::Most(50.0),
            baseline: Some(Baseline { what: "a bare watch that answers each with a GET", value: p99(&bare), floor: Bar::Most(40.0) }),
        }]
    })
}

/// Watches the budgets and asks for each that has freed, at once.
async fn witness(client: kube::Client) {
    let request = http::Request::get("/apis/policy/v1/poddisruptionbudgets?watch=true&resourceVersion=0").body(Vec::new()).unwrap();
    let mut lines = client.request_stream(request).await.unwrap().lines();
    while let Ok(Some(line)) = lines.try_next().await {
        let event: Value = serde_json::from_str(&line).unwrap();
        let name = event.pointer("/object/metadata/name").and_then(Value::as_str);
        let freed = event.pointer("/object/status/disruptionsAllowed").and_then(Value::as_i64).is_some_and(|n| n > 0);
        if let (Some(name), true) = (name, freed) {
            let path = format!("/apis/policy/v1/namespaces/shop/poddisruptionbudgets/{name}");
            let client = client.clone();
            tokio::spawn(async move { client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await });
        }
    }
}

/// From each moment at which a budget freed to the next request about it, in milliseconds; a budget whose pods are all evicted is not asked for.
fn waits(stage: &Stage, from: Moment, about: impl Fn(&sundown::sim::kube::Request) -> bool) -> Vec<f64> {
    // Pods of deployments are called after them.
    let budget_of = |name: &str| name.split('-').take(2).collect::<Vec<_>>().join("-");
    let mut requests: BTreeMap<String, Vec<Moment>> = BTreeMap::new();
    for request in stage.world.kube.requests().into_iter().filter(|r| r.at >= from && about(r)) {
        requests.entry(budget_of(&request.name)).or_default().push(request.at);
    }
    let freed = stage.world.kube.journal().into_iter().filter(|e| e.at >= from).filter_map(|e| match e.fact {
        Fact::BudgetFreed { name, .. } => Some((name, e.at)),
        _ => None,
    });
    let wait = |(name, at): (String, Moment)| {
        let next = requests.get(&name)?.iter().find(|asked| **asked >= at)?;
        Some(next.since_or_zero(at).as_secs_f64() * 1e3)
    };
    freed.filter_map(wait).collect()
}

pub fn p99(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The smallest value that 99 of 100 do not exceed.
    sorted[(sorted.len() * 99).div_ceil(100) - 1]
}

const NODES: usize = 100;
const PODS: usize = 10;

pub fn calls() -> Vec<Figure> {
    block_on(async {
        let stage = Stage::new("calls", settings()).await;
        let instances = stage.group(NODES);
        for (instance, node) in stage.world.nodes() {
            for i in 0..PODS {
                stage.world.kube.add_pod(&PodSpec::on(&node, "shop", format!("pod-{instance}-{i}")));
            }
        }
        let service = stage.service().await;
        let begun = stage.clock.now();
        for instance in &instances {
            stage.world.aws.terminate(instance, true);
        }
        let completed = || stage.world.aws.actions().iter().filter(|a| a.end.is_some()).count();
        stage.until("every hook is completed", || completed() == NODES && stage.in_queue() == 0).await;
        drop(service);
        stage.went_well();
        let requests = stage.asked(begun);
        let removes = |r: &&sundown::sim::kube::Request| r.resource == "pods" && (r.subresource == "eviction" || r.verb == "delete");
        let removing = requests.iter().filter(removes).count();
        let aside = |r: &&sundown::sim::kube::Request| matches!(r.resource.as_str(), "events" | "leases");
        let others = requests.iter().filter(|r| !removes(r) && !aside(r)).count();
        let aws = stage.called(begun).into_iter().filter(|api| api != "autoscaling:RecordLifecycleActionHeartbeat").count();
        vec![
            Figure {
                name: "calls-evict",
                what: format!("evictions and deletes a pod, {NODES} nodes of {PODS} pods, no budgets"),
                value: removing as f64 / (NODES * PODS) as f64,
                unit: "calls",
                bar: Bar::Most(1.05),
                baseline: None,
            },
            Figure {
                name: "calls-other",
                what: format!("other calls a node from queue to completion ({others} to Kubernetes, {aws} to AWS in all)"),
                value: (others + aws) as f64 / NODES as f64,
                unit: "calls",
                bar: Bar::Most(6.0),
                baseline: None,
            },
        ]
    })
}
