//! How soon a budget that frees is used.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sundown::{domain::Moment, sim::aws::SpotAction};

use super::{audit::Call, bench::Bench};
use crate::{
    bare::{Answer, Bare, Budgets, frees, workload_of},
    cluster::ADMIN,
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
            bench
                .stage
                .create("/apis/apps/v1/namespaces/default/deployments", &deployment(&name))
                .await;
            let spec =
                json!({ "maxUnavailable": 1, "selector": { "matchLabels": { "app": name } } });
            let budget = json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": { "name": name }, "spec": spec
            });
            bench.stage.create(BUDGETS, &budget).await;
        }
        for i in 0..SERVICES {
            let path = format!("{BUDGETS}/service-{i}");
            bench
                .stage
                .until("all of its pods are ready", &path, |b| {
                    b["status"]["currentHealthy"] == REPLICAS
                })
                .await;
        }
        // Where the replacements go.
        bench.nodes(&bench.instances(10), 0, true).await;
        let service = bench.stage.leader("sundown", &[]).await;
        // A pod of its own under each budget would change the budget, so the bare client asks with
        // dryRun for one that is there.
        let kubeconfig = bench.stage.cluster.kubeconfig(ADMIN);
        let mut witness =
            Bare::start(Budgets::job(kubeconfig, "default", Answer::EvictDryRun)).await;
        witness.begin();
        let audit = bench.audit();
        for instance in &going {
            bench.stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        let evicted = |call: &Call| call.is_by_sundown() && call.did("create", "pods/eviction");
        bench
            .until("the budgets have freed often enough", || async {
                audit.count(evicted) >= SAMPLES + 25
            })
            .await;
        let end = Moment::from(jiff::Timestamp::now());
        drop((witness, service));
        let calls = audit.calls();
        // A budget whose pods are all evicted is not asked for any more.
        let has_pods_left = |name: &str, at: Moment| {
            let is_before = |call: &&Call| {
                evicted(call) && call.answered < at && workload_of(&call.name) == name
            };
            calls.iter().filter(is_before).count() < REPLICAS
        };
        let ours = waits(&calls, end, has_pods_left, |c| {
            c.is_by_sundown() && c.resource == "pods/eviction"
        });
        let bare = waits(
            &calls,
            end,
            |_, _| true,
            |c| !c.is_by_sundown() && c.resource == "pods/eviction",
        );
        eprintln!("  ours: {}\n  bare: {}", course(&ours, &calls), course(&bare, &calls));
        assert!(ours.len() >= SAMPLES, "too few samples: {}", ours.len());
        assert!(bare.len() >= SAMPLES / 2, "too few samples of the bare client: {}", bare.len());
        vec![Figure {
            name: "real-budget",
            what: format!(
                "from the status write that frees a budget to the next eviction under it, p99 of \
                 {}",
                ours.len()
            ),
            measured: p99(&times(&ours)).into(),
            unit: "ms",
            bar: Bar::Most(50.0),
            ratio: Bar::Most(1.5),
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
    let annotations =
        json!({ "test.sundown.dev/stop-after": "500ms", "test.sundown.dev/ready-after": "500ms" });
    let template = json!({
        "metadata": { "labels": labels, "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    });
    let spec = json!({
        "replicas": REPLICAS, "selector": { "matchLabels": labels }, "template": template
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name }, "spec": spec
    })
}

/// From each answer that says that a budget has freed to the eviction that may use it, in
/// milliseconds. A wait that did not end counts as what it has lasted `until` the end of the
/// measurement, where an eviction is expected. The answer may be logged after the watchers have
/// heard of it, and what was under way already and is granted has used it: that is no time at all.
fn waits(
    calls: &[Call],
    until: Moment,
    is_expected: impl Fn(&str, Moment) -> bool,
    about: impl Fn(&Call) -> bool,
) -> Vec<(f64, &Call)> {
    // Calls come in the order in which they came in.
    let mut requests: BTreeMap<String, Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|c| about(c)) {
        requests.entry(workload_of(&call.name)).or_default().push(call);
    }
    let mut last: BTreeMap<&str, bool> = BTreeMap::new();
    let mut waits = Vec::new();
    let is_status = |c: &&Call| {
        c.resource == "poddisruptionbudgets/status"
            && c.code == 200
            && !c.is_by_sundown()
            && c.answered < until
    };
    let mut writes: Vec<_> = calls.iter().filter(is_status).collect();
    writes.sort_by_key(|c| c.answered);
    for write in writes {
        let is_free = frees(&write.object);
        let was_free = last.insert(&write.name, is_free).unwrap_or(true);
        if !is_free || was_free {
            continue;
        }
        let may_use = |asked: &&&Call| {
            asked.received >= write.received
                || asked.code == 201 && asked.answered >= write.received
        };
        let next = requests
            .get(&write.name)
            .and_then(|of| of.iter().find(may_use))
            .map(|asked| asked.received);
        if let Some(end) =
            next.or_else(|| is_expected(&write.name, write.answered).then_some(until))
        {
            waits.push((end.duration_since(write.answered).as_secs_f64().max(0.0) * 1e3, write));
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
        let near = calls.iter().filter(|c| {
            workload_of(&c.name) == write.name
                && (-400.0..*time + 50.0).contains(&since(c.received))
        });
        let near = near.map(|c| {
            format!(
                "{:.0}..{:.0} {} {} {} {}",
                since(c.received),
                since(c.answered),
                c.is_by_sundown(),
                c.verb,
                c.resource,
                c.code
            )
        });
        format!("{time:.0} ms: {}", near.collect::<Vec<_>>().join("; "))
    };
    longest.iter().take(6).map(line).collect::<Vec<_>>().join("\n    ")
}
