//! Drains: how fast a freed budget is used, and what a drain costs the API server.

use std::{collections::BTreeMap, time::Duration};

use sundown::{
    domain::Moment,
    sim::{
        aws::SpotAction,
        kube::{BudgetSpec, Entry, Fact, PodShape, PodSpec, Request, Timing, Workload},
    },
};

use crate::{
    bare::{Answer, Bare, Budgets, workload_of},
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
        stage
            .until("all pods run", || {
                stage.world.kube.pods().iter().filter(|p| p.ready).count() == SERVICES * REPLICAS
            })
            .await;
        // Where their replacements go.
        let mut spec = sundown::sim::aws::GroupSpec::new("new", 20);
        spec.replace_after = None;
        stage.world.add_group(spec, &[]);
        let service = stage.service().await;
        let mut witness = Bare::start(Budgets::job(stage.kubeconfig(), "shop", Answer::Get)).await;
        witness.begin();
        let begun = stage.clock.now();
        for instance in &going {
            stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        let is_eviction = |e: &Entry| matches!(e.fact, Fact::Evicted { .. });
        let evicted = || stage.world.kube.journal().iter().filter(|e| is_eviction(e)).count();
        stage.until("nearly all pods are evicted", || evicted() >= SERVICES * (REPLICAS - 1)).await;
        let end = stage.clock.now();
        drop((witness, service));
        let evicted = evictions(&stage);
        // A budget whose pods are all evicted is not asked for any more.
        let has_pods_left = |name: &str, at: Moment| {
            evicted.get(name).map_or(0, |of| of.iter().filter(|e| **e < at).count()) < REPLICAS
        };
        let ours = waits(&stage, begun, end, has_pods_left, |r| {
            r.verb == "create" && r.subresource == "eviction" && r.client.starts_with("sundown/")
        });
        let bare = waits(
            &stage,
            begun,
            end,
            |_, _| true,
            |r| {
                r.verb == "get"
                    && r.resource == "poddisruptionbudgets"
                    && !r.client.starts_with("sundown/")
            },
        );
        assert!(
            ours.len() >= 100 && bare.len() >= 100,
            "too few samples: {} and {}",
            ours.len(),
            bare.len()
        );
        vec![Figure {
            name: "budget",
            what: format!(
                "from a budget that frees to the next eviction under it, p99 of {}",
                ours.len()
            ),
            measured: p99(&ours).into(),
            unit: "ms",
            bar: Bar::Most(50.0),
            ratio: Bar::Most(2.0),
            baseline: Some(Baseline {
                what: "a bare watch that answers each with a GET",
                value: p99(&bare),
                floor: Bar::Most(40.0),
            }),
        }]
    })
}

/// From each moment at which a budget freed to the next request about it, in milliseconds. A wait
/// that did not end counts as what it has lasted `until` the end of the measurement, where a
/// request is expected.
fn waits(
    stage: &Stage,
    from: Moment,
    until: Moment,
    is_expected: impl Fn(&str, Moment) -> bool,
    about: impl Fn(&Request) -> bool,
) -> Vec<f64> {
    let mut requests: BTreeMap<String, Vec<Moment>> = BTreeMap::new();
    for request in stage.world.kube.requests().into_iter().filter(|r| r.at >= from && about(r)) {
        requests.entry(workload_of(&request.name)).or_default().push(request.at);
    }
    let freed = stage
        .world
        .kube
        .journal()
        .into_iter()
        .filter(|e| (from..until).contains(&e.at))
        .filter_map(|e| match e.fact {
            Fact::BudgetFreed { name, .. } => Some((name, e.at)),
            _ => None,
        });
    let wait = |(name, at): (String, Moment)| {
        let next =
            requests.get(&name).and_then(|asked| asked.iter().find(|asked| **asked >= at)).copied();
        let end = next.or_else(|| is_expected(&name, at).then_some(until))?;
        Some(end.since_or_zero(at).as_secs_f64() * 1e3)
    };
    freed.filter_map(wait).collect()
}

/// When a pod of each workload was evicted.
fn evictions(stage: &Stage) -> BTreeMap<String, Vec<Moment>> {
    let mut evicted: BTreeMap<String, Vec<Moment>> = BTreeMap::new();
    for entry in stage.world.kube.journal() {
        if let Fact::Evicted { pod, again: false, .. } = entry.fact {
            evicted.entry(workload_of(&pod.name)).or_default().push(entry.at);
        }
    }
    evicted
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
                stage.world.kube.add_pod(&PodSpec::on(
                    &node,
                    "shop",
                    format!("pod-{instance}-{i}"),
                ));
            }
        }
        let service = stage.service().await;
        let begun = stage.clock.now();
        for instance in &instances {
            stage.world.aws.terminate(instance, true);
        }
        let completed = || stage.world.aws.actions().iter().filter(|a| a.end.is_some()).count();
        stage
            .until("every hook is completed", || completed() == NODES && stage.in_queue() == 0)
            .await;
        drop(service);
        stage.went_well();
        let requests = stage.asked(begun);
        let removes = |r: &&Request| {
            r.resource == "pods" && (r.subresource == "eviction" || r.verb == "delete")
        };
        let removing = requests.iter().filter(removes).count();
        let aside = |r: &&Request| matches!(r.resource.as_str(), "events" | "leases");
        let others = requests.iter().filter(|r| !removes(r) && !aside(r)).count();
        let aws = stage
            .called(begun)
            .into_iter()
            .filter(|api| api != "autoscaling:RecordLifecycleActionHeartbeat")
            .count();
        vec![
            Figure {
                name: "calls-evict",
                what: format!(
                    "evictions and deletes a pod, {NODES} nodes of {PODS} pods, no budgets"
                ),
                measured: (removing as f64 / (NODES * PODS) as f64).into(),
                unit: "calls",
                bar: Bar::Most(1.05),
                ratio: Bar::None,
                baseline: None,
            },
            Figure {
                name: "calls-other",
                what: format!(
                    "other calls a node from queue to completion ({others} to Kubernetes, {aws} \
                     to AWS in all)"
                ),
                measured: ((others + aws) as f64 / NODES as f64).into(),
                unit: "calls",
                bar: Bar::Most(6.0),
                ratio: Bar::None,
                baseline: None,
            },
        ]
    })
}
