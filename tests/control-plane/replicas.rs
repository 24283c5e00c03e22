//! Several replicas, of which one writes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sundown::runtime::Clock;

use crate::{
    audit::{self, assert_evicted_once, assert_one_writer, calls},
    cluster::{ADMIN, replica_token},
    draining::released,
    hands::{self, accepted, completed_by_sundown, hold, let_go, patch, stage_of_ours, wait_for},
    process::Process,
    stage::{Stage, node_name},
};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/sundown/leases/sundown";

/// How long after somebody else has written the Lease a request of its holder may still come in: it
/// hears of it by its watch, and asks.
const NOTICE: Duration = Duration::from_secs(3);

/// Writes the Lease as another holder would; `None`: gives it up.
async fn write_lease(stage: &Stage, holder: Option<&str>) {
    let now = format!("{:.6}", Clock::system().now());
    let spec = json!({
        "holderIdentity": holder, "leaseDurationSeconds": 60, "acquireTime": now, "renewTime": now
    });
    patch(&stage.cluster.client(ADMIN), LEASE, &json!({ "spec": spec })).await;
}

async fn leads_no_more(sundown: &mut Process) {
    sundown
        .answers("/metrics", "it does not lead", |_, text| text.contains("\nsundown_leader 0\n"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lease_is_taken_writes_nothing_until_it_is_free_again() {
    let Some(stage) = stage_of_ours(9).await else { return };
    let instances = stage.group(3).await;
    hold(&stage, "held", &instances[0]).await;
    let mut sundown = stage.start("sundown-0", &replica_token(0), &[]);
    sundown.counts("leader", 1.0).await;
    stage.world.aws.terminate(&instances[0], true);
    accepted(&stage, &instances[0]).await;
    wait_for("its pod is refused", || {
        calls(&stage).iter().any(|c| c.is("create", "pods/eviction") && c.code == 429)
    })
    .await;

    write_lease(&stage, Some("somebody-else")).await;
    leads_no_more(&mut sundown).await;
    let stopped = Clock::system().now();
    // Much to do: a pod may go, and another node is to be drained.
    let_go(&stage, "held").await;
    let budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/held";
    stage.until("it may go", budget, |b| b["status"]["disruptionsAllowed"] == 1).await;
    stage.world.aws.terminate(&instances[1], true);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let written = |c: &&audit::Call| {
        (audit::is_write(c) || (c.user == audit::USER && c.holder.is_some()))
            && c.received > stopped
    };
    assert_eq!(calls(&stage).iter().find(written).map(|c| format!("{c:?}")), None);
    assert!(!hands::has_taint(&stage.node(&instances[1]).await));
    assert!(stage.world.aws.actions().iter().all(|a| a.end.is_none()), "nothing is completed");
    assert_eq!(stage.get(LEASE).await.unwrap()["spec"]["holderIdentity"], "somebody-else");

    write_lease(&stage, None).await;
    sundown.counts("leader", 1.0).await;
    for instance in &instances[..2] {
        completed_by_sundown(&stage, instance).await;
        released(&stage, instance).await;
    }
    let calls = calls(&stage);
    assert_evicted_once(&calls, &["held".to_owned()]);
    assert_one_writer(&calls, NOTICE);
    let names: Vec<_> = audit::holders(&calls).into_iter().map(|(_, holder)| holder).collect();
    assert_eq!(
        (&names[1], &names[2], names.len()),
        (&Some("somebody-else".to_owned()), &None, 4),
        "{names:?}"
    );
    assert_eq!(names[0], names[3], "the same process");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_replicas_one_writes_also_when_the_leader_stands_still_and_wakes() {
    let Some(stage) = stage_of_ours(10).await else { return };
    let instances = stage.group(4).await;
    for (n, instance) in instances[..3].iter().enumerate() {
        hold(&stage, &format!("held-{n}"), instance).await;
    }
    let mut first = stage.start("sundown-0", &replica_token(0), &[]);
    first.counts("leader", 1.0).await;
    let mut second = stage.start("sundown-1", &replica_token(1), &[]);
    second.ready().await;
    assert!(second.metric("leader").await < 0.5);
    for instance in &instances[..2] {
        stage.world.aws.terminate(instance, true);
        accepted(&stage, instance).await;
    }

    first.signal("STOP");
    let stopped = Instant::now();
    second.counts("leader", 1.0).await;
    second.counts("drains_active", 2.0).await;
    // Long enough that its connections and watches are dead and its clocks jump.
    tokio::time::sleep(Duration::from_mins(1).saturating_sub(stopped.elapsed())).await;
    // The one that wakes finds that a pod may go which it was waiting for, and a Node that is
    // changed under it.
    let_go(&stage, "held-0").await;
    stage.world.aws.terminate(&instances[2], true);
    first.signal("CONT");
    leads_no_more(&mut first).await;
    accepted(&stage, &instances[2]).await;
    completed_by_sundown(&stage, &instances[0]).await;
    let holder = |second: &[audit::Call]| audit::holders(second).last().unwrap().1.clone().unwrap();
    let until_now = calls(&stage);
    assert!(
        until_now.iter().any(|c| audit::is_write(c) && c.uid == "sundown-0"),
        "the first one wrote"
    );
    assert!(
        until_now.iter().any(|c| audit::is_write(c) && c.uid == "sundown-1"),
        "the second one wrote"
    );
    assert_one_writer(&until_now, Duration::ZERO);

    // And back again.
    let was = holder(&until_now);
    second.signal("TERM");
    assert_eq!(second.ended().await.code(), Some(0));
    first.counts("leader", 1.0).await;
    assert_ne!(holder(&calls(&stage)), was);
    for (pod, instance) in ["held-1", "held-2"].into_iter().zip(&instances[1..]) {
        let_go(&stage, pod).await;
        completed_by_sundown(&stage, instance).await;
        released(&stage, instance).await;
    }
    let calls = calls(&stage);
    assert_evicted_once(&calls, &["held-0", "held-1", "held-2"].map(str::to_owned));
    assert_one_writer(&calls, Duration::ZERO);
}

/// So many nodes go at once.
const MANY: usize = 200;

/// A pod on each of the nodes that go, of which a tenth may be away at any time.
async fn one_on_each(stage: &Stage, instances: &[String]) {
    let nodes: Vec<_> = instances.iter().map(|i| node_name(i)).collect();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "many" },
        "spec": {
            "replicas": MANY, "selector": { "matchLabels": { "app": "many" } },
            "template": {
                "metadata": {
                    "labels": { "app": "many" },
                    "annotations": {
                        "test.sundown.dev/stop-after": "2s", "test.sundown.dev/ready-after": "1s"
                    },
                },
                "spec": {
                    "containers": [{
                        "name": "main", "image": "none"
                    }], "terminationGracePeriodSeconds": 3,
                    "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 100,
                            "preference": {
                                "matchExpressions": [{
                                    "key": "kubernetes.io/hostname", "operator": "In",
                                    "values": nodes
                                }]
                            }
                        },
                    ] } },
                    "topologySpreadConstraints": [{
                        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": { "matchLabels": { "app": "many" } },
                    }],
                },
            },
        },
    });
    stage.create("/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "many" },
        "spec": { "selector": { "matchLabels": { "app": "many" } }, "maxUnavailable": "10%" },
    });
    stage.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).await;
    stage
        .until("all pods are ready", "/apis/apps/v1/namespaces/default/deployments/many", |d| {
            d["status"]["readyReplicas"] == MANY
        })
        .await;
    assert_eq!(placed(stage, instances).await.len(), MANY, "they are where they are to be");
}

/// The pods on the nodes of these instances.
async fn placed(stage: &Stage, instances: &[String]) -> Vec<String> {
    let nodes: Vec<_> = instances.iter().map(|i| node_name(i)).collect();
    let list = stage.get(hands::PODS).await.unwrap();
    let there = |pod: &&Value| nodes.iter().any(|node| pod["spec"]["nodeName"] == **node);
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(there)
        .map(|p| p["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Completed actions, and those that there are.
fn ended(stage: &Stage) -> usize {
    stage.world.aws.actions().iter().filter(|a| a.end.is_some()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_two_hundred_drains_ends_each_of_them_once() {
    let Some(stage) = stage_of_ours(11).await else { return };
    // The scheduler looks at some of so many nodes only, and would take one of the refuges now and
    // then.
    let (instances, refuges) = stage.group_and_refuges(MANY, 6, Duration::from_mins(1)).await;
    let instances = instances.as_slice();
    one_on_each(&stage, instances).await;
    stage.join(refuges).await;
    let mut old: Vec<_> =
        (0..2).map(|n| stage.start(&format!("sundown-{n}"), &replica_token(n), &[])).collect();
    for replica in &mut old {
        replica.ready().await;
    }
    for instance in instances {
        stage.world.aws.terminate(instance, true);
    }
    wait_for("pods are evicted", || audit::evicted(&calls(&stage)).len() >= 10).await;

    // As a Deployment does it: one more at a time, and when it is ready one of the old ones less.
    let (mut new, mut begun) = (Vec::new(), Vec::new());
    for (n, mut replica) in old.into_iter().enumerate() {
        let mut next = stage.start(&format!("sundown-{}", n + 2), &replica_token(n + 2), &[]);
        next.ready().await;
        new.push(next);
        begun.push(ended(&stage));
        replica.signal("TERM");
        assert_eq!(replica.ended().await.code(), Some(0));
    }
    assert!(begun.iter().all(|n| *n < MANY), "all was over before the restart was: {begun:?}");

    let end = Instant::now() + 2 * crate::process::LIMIT;
    while ended(&stage) < MANY {
        assert!(Instant::now() < end, "{} of {MANY} have ended", ended(&stage));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for instance in instances {
        let action = completed_by_sundown(&stage, instance).await;
        // Who stops between the completion and the record leaves it to the next one to find that
        // out.
        assert!(action.late_calls.len() <= new.len(), "{action:?}");
        released(&stage, instance).await;
    }
    let calls = calls(&stage);
    let evicted = audit::evicted(&calls);
    let twice: BTreeMap<_, _> = evicted.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(placed(&stage, instances).await, Vec::<String>::new());
    assert!(
        !calls.iter().any(|c| audit::is_write(c) && c.is("delete", "pods")),
        "nothing was forced"
    );
    assert_one_writer(&calls, Duration::ZERO);
    let leaders = audit::holders(&calls).into_iter().filter_map(|(_, holder)| holder).count();
    assert!(leaders >= 2, "the leader was replaced");
}
