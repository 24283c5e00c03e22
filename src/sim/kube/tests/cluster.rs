use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{
    super::{Fact, Timing, json::Look},
    *,
};

fn on(kube: &EmbeddedKube, node: &str) -> Vec<String> {
    kube.pods_on(node).into_iter().map(|p| p.name).collect()
}

async fn cordon(kube: &EmbeddedKube, node: &str) {
    nodes(kube)
        .patch(
            node,
            &PatchParams::default(),
            &Patch::Merge(json!({ "spec": { "unschedulable": true } })),
        )
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn deployments_spread_become_ready_and_replace_what_is_evicted() {
    let kube = with_nodes(3);
    kube.add_deployment(&Workload::new("shop", "web", 6));
    pass(5).await;
    for node in ["n0", "n1", "n2"] {
        assert_eq!(on(&kube, node).len(), 2);
    }
    assert!(kube.pods().iter().all(|p| p.ready));
    let deployment = kube.object("deployments", "shop", "web").unwrap();
    assert_eq!(
        (deployment.int("status.readyReplicas"), deployment.condition("Available")),
        (6, "True")
    );
    cordon(&kube, "n0").await;
    for name in on(&kube, "n0") {
        evict(&kube, &name).await.unwrap();
    }
    pass(5).await;
    assert_eq!((on(&kube, "n0").len(), kube.pods().len()), (0, 6));
    let facts: Vec<_> =
        kube.journal().into_iter().filter(|e| matches!(e.fact, Fact::Cordoned(_))).collect();
    assert_eq!((facts.len(), facts[0].by.as_str()), (1, "client"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_takes_its_stop_time_but_never_more_than_its_grace() {
    for (grace, stop, asked, expected) in [
        (30, 5, None, 5),
        (30, 90, None, 30),
        (30, 90, Some(7), 7),
        (30, 3, Some(7), 3),
        (600, 590, Some(60), 60),
    ] {
        let kube = with_nodes(1);
        let shape = PodShape {
            grace: Some(Duration::from_secs(grace)),
            stop: Some(Duration::from_secs(stop)),
            ..PodShape::default()
        };
        kube.add_pod(&PodSpec::on("n0", "shop", "p").shape(shape));
        settle().await;
        let params =
            asked.map_or_else(DeleteParams::default, |g| DeleteParams::default().grace_period(g));
        pods(&kube).delete("p", &params).await.unwrap();
        let pod = kube.object("pods", "shop", "p").unwrap();
        assert_eq!(
            pod.int("metadata.deletionGracePeriodSeconds"),
            i64::from(asked.unwrap_or(u32::try_from(grace).unwrap()))
        );
        tokio::time::sleep(Duration::from_millis(expected * 1000 - 10)).await;
        assert!(kube.object("pods", "shop", "p").is_some(), "{grace} {stop} {asked:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(kube.object("pods", "shop", "p").is_none(), "{grace} {stop} {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s04_a_shortened_grace_counts_from_then() {
    let kube = with_nodes(1);
    let shape = PodShape {
        grace: Some(Duration::from_mins(100)),
        stop: Some(Duration::from_mins(80)),
        ..PodShape::default()
    };
    kube.add_pod(&PodSpec::on("n0", "shop", "p").shape(shape));
    settle().await;
    pods(&kube).delete("p", &DeleteParams::default()).await.unwrap();
    pass(1000).await;
    pods(&kube).delete("p", &DeleteParams::default().grace_period(210)).await.unwrap();
    pass(209).await;
    assert!(kube.object("pods", "shop", "p").is_some());
    pass(2).await;
    assert!(kube.object("pods", "shop", "p").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_finished_pod_that_is_leaving_stays_until_its_volumes_are_unmounted_whoever_asks_again() {
    let timing = Timing { removal: Duration::from_secs(20), ..Timing::default() };
    let kube = cluster_with(Options { timing, ..Options::default() });
    kube.add_node(&NodeSpec::named("n0"));
    let shape = PodShape {
        grace: Some(Duration::from_secs(30)),
        stop: Some(Duration::from_secs(5)),
        ..PodShape::default()
    };
    kube.add_pod(&PodSpec::on("n0", "shop", "p").shape(shape));
    settle().await;
    pods(&kube).delete("p", &DeleteParams::default()).await.unwrap();
    pass(10).await;
    assert_eq!(kube.object("pods", "shop", "p").unwrap().text("status.phase"), "Succeeded");
    evict_with(&kube, "p", json!({ "gracePeriodSeconds": 30 })).await.unwrap();
    pods(&kube).delete("p", &DeleteParams::default().grace_period(10)).await.unwrap();
    assert_eq!(
        kube.object("pods", "shop", "p").unwrap().int("metadata.deletionGracePeriodSeconds"),
        10
    );
    pass(10).await;
    assert!(kube.object("pods", "shop", "p").is_some());
    pass(6).await;
    assert!(kube.object("pods", "shop", "p").is_none());
}

#[tokio::test(start_paused = true)]
async fn finalizers_and_stuck_pods_stay() {
    let kube = with_nodes(1);
    kube.add_pod(
        &PodSpec::on("n0", "shop", "held")
            .shape(PodShape { finalizers: vec!["example.com/hold".into()], ..PodShape::default() }),
    );
    kube.add_pod(
        &PodSpec::on("n0", "shop", "stuck").shape(PodShape { stuck: true, ..PodShape::default() }),
    );
    for name in ["held", "stuck"] {
        pods(&kube).delete(name, &DeleteParams::default()).await.unwrap();
    }
    pass(3600).await;
    assert_eq!(kube.object("pods", "shop", "held").unwrap().text("status.phase"), "Succeeded");
    assert_eq!(kube.object("pods", "shop", "stuck").unwrap().text("status.phase"), "Running");
    let free = json!({ "metadata": { "finalizers": null } });
    pods(&kube).patch("held", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    assert!(kube.object("pods", "shop", "held").is_none());
    pods(&kube).delete("stuck", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(kube.object("pods", "shop", "stuck").is_none());
}

#[tokio::test(start_paused = true)]
async fn stateful_sets_come_up_in_order_and_keep_their_names() {
    let kube = with_nodes(3);
    kube.add_stateful_set(&Workload::new("shop", "db", 3));
    pass(4).await;
    assert_eq!(kube.pods().len(), 2);
    pass(8).await;
    assert_eq!(
        kube.pods().iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
        ["db-0", "db-1", "db-2"]
    );
    let old = kube.pods()[1].uid.clone();
    let node = kube.pods()[1].node.clone().unwrap();
    cordon(&kube, &node).await;
    evict(&kube, "db-1").await.unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(kube.pods()[1].uid, old);
    pass(6).await;
    let new = kube.pods()[1].clone();
    assert!(
        new.uid != old && new.ready && new.node.as_deref() != Some(&node) && new.name == "db-1"
    );
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_respects_taints_selectors_and_readiness() {
    let kube = cluster();
    let mut tainted = NodeSpec::named("tainted");
    tainted.taints = vec![("dedicated".into(), "db".into(), "NoSchedule".into())];
    let mut late = NodeSpec::named("late").label("disk", "ssd");
    late.ready_after = Duration::from_secs(30);
    kube.add_node(&tainted);
    kube.add_node(&late);
    kube.add_pod(&PodSpec { node: None, ..PodSpec::on("", "shop", "plain").state(PodState::New) });
    let bearing = PodShape {
        tolerations: vec![json!({ "key": "dedicated", "operator": "Exists" })],
        ..PodShape::default()
    };
    kube.add_pod(&PodSpec {
        node: None,
        ..PodSpec::on("", "shop", "bearing").state(PodState::New).shape(bearing)
    });
    pass(5).await;
    assert_eq!(on(&kube, "tainted"), ["bearing"]);
    assert_eq!(kube.object("pods", "shop", "plain").unwrap().condition("PodScheduled"), "False");
    pass(30).await;
    assert_eq!(on(&kube, "late"), ["plain"]);
    cordon(&kube, "late").await;
    settle().await;
    let node = kube.object("nodes", "", "late").unwrap();
    assert!(
        node.items("spec.taints")
            .iter()
            .any(|t| t.text("key") == "node.kubernetes.io/unschedulable")
    );
    kube.add_pod(&PodSpec {
        node: None,
        ..PodSpec::on("", "shop", "waiting").state(PodState::New)
    });
    pass(60).await;
    assert!(kube.object("pods", "shop", "waiting").unwrap().text("spec.nodeName").is_empty());
    nodes(&kube)
        .patch(
            "late",
            &PatchParams::default(),
            &Patch::Merge(json!({ "spec": { "unschedulable": null } })),
        )
        .await
        .unwrap();
    settle().await;
    assert_eq!(on(&kube, "late"), ["plain", "waiting"]);
    assert!(kube.object("nodes", "", "late").unwrap().items("spec.taints").is_empty());
}

#[tokio::test(start_paused = true)]
async fn daemon_sets_follow_the_nodes_and_stay_on_cordoned_ones() {
    let kube = with_nodes(2);
    kube.add_daemon_set(&Workload::new("kube-system", "agent", 0));
    pass(5).await;
    assert_eq!((on(&kube, "n0").len(), on(&kube, "n1").len()), (1, 1));
    cordon(&kube, "n0").await;
    pass(5).await;
    assert_eq!(on(&kube, "n0").len(), 1);
    kube.add_node(&NodeSpec::named("n2"));
    pass(5).await;
    assert_eq!(on(&kube, "n2").len(), 1);
    assert_eq!(
        kube.object("daemonsets", "kube-system", "agent").unwrap().int("status.numberReady"),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_lost_machine_turns_unknown_and_is_then_deleted() {
    let kube = with_nodes(2);
    kube.add_deployment(&Workload::new("shop", "web", 2));
    pass(10).await;
    cordon(&kube, "n0").await;
    kube.machine_gone("i-00000000000000000");
    for name in on(&kube, "n0") {
        evict(&kube, &name).await.unwrap();
    }
    pass(39).await;
    assert_eq!(kube.object("nodes", "", "n0").unwrap().condition("Ready"), "True");
    assert_eq!(on(&kube, "n0").len(), 1);
    pass(2).await;
    let node = kube.object("nodes", "", "n0").unwrap();
    assert_eq!((node.condition("Ready"), node.items("spec.taints").len()), ("Unknown", 3));
    assert!(!kube.pods_on("n0")[0].ready);
    pass(20).await;
    assert!(kube.object("nodes", "", "n0").is_none());
    pass(25).await;
    assert_eq!((kube.pods().len(), on(&kube, "n1").len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_lost_kubelet_comes_back_and_its_pods_with_it() {
    let kube = with_nodes(1);
    kube.add_pod(&PodSpec::on("n0", "shop", "p"));
    kube.kubelet_lost("n0");
    pass(60).await;
    assert_eq!(kube.object("nodes", "", "n0").unwrap().condition("Ready"), "Unknown");
    assert!(!kube.pods()[0].ready);
    evict(&kube, "p").await.unwrap();
    pass(100).await;
    assert_eq!(kube.pods().len(), 1);
    kube.kubelet_back("n0");
    pass(5).await;
    assert_eq!(kube.object("nodes", "", "n0").unwrap().condition("Ready"), "True");
    assert!(kube.object("nodes", "", "n0").unwrap().items("spec.taints").is_empty());
    assert!(kube.pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_leave_an_unreachable_node_after_five_minutes() {
    let kube = with_nodes(1);
    kube.add_pod(&PodSpec::on("n0", "shop", "p"));
    kube.kubelet_lost("n0");
    pass(330).await;
    assert_eq!(kube.pods()[0].deletion, None);
    pass(20).await;
    assert!(kube.pods()[0].deletion.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_reboot_brings_a_new_boot_id_and_the_pods_back() {
    let kube = with_nodes(1);
    kube.add_pod(&PodSpec::on("n0", "shop", "p"));
    settle().await;
    let boot = |kube: &EmbeddedKube| {
        kube.object("nodes", "", "n0").unwrap().text("status.nodeInfo.bootID").to_owned()
    };
    let before = boot(&kube);
    kube.reboot("n0");
    assert!(!kube.pods()[0].ready);
    pass(5).await;
    assert!(kube.pods()[0].ready && boot(&kube) != before);
}

#[tokio::test(start_paused = true)]
async fn mirror_pods_come_back_and_jobs_end() {
    let kube = with_nodes(1);
    kube.add_pod(&PodSpec { mirror: true, ..PodSpec::on("n0", "kube-system", "proxy-n0") });
    kube.add_job(&Workload::new("shop", "once", 2));
    pass(60).await;
    let job = kube.object("jobs", "shop", "once").unwrap();
    assert_eq!((job.int("status.succeeded"), job.condition("Complete")), (2, "True"));
    let mirror = kube.pods_on("n0").into_iter().find(|p| p.mirror).unwrap();
    kube.delete("pods", "kube-system", "proxy-n0");
    pass(5).await;
    assert!(kube.pods().iter().any(|p| p.mirror && p.uid != mirror.uid));
}

#[tokio::test(start_paused = true)]
async fn a_new_template_rolls_the_pods_without_falling_below_the_replicas() {
    let kube = with_nodes(3);
    kube.add_deployment(&Workload::new("shop", "web", 4));
    pass(10).await;
    let old: Vec<_> = kube.pods().into_iter().map(|p| p.uid).collect();
    kube.edit("deployments", "shop", "web", |d| {
        d.put("spec.template.metadata.annotations", json!({ "restarted": "now" }));
    });
    for _ in 0..40 {
        pass(1).await;
        assert!(kube.pods().iter().filter(|p| p.ready && p.deletion.is_none()).count() >= 3);
    }
    assert_eq!(kube.pods().len(), 4);
    assert!(kube.pods().iter().all(|p| !old.contains(&p.uid)));
    kube.delete("deployments", "shop", "web");
    pass(10).await;
    assert!(kube.pods().is_empty() && kube.objects("replicasets").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let kube = with_nodes(5);
        kube.add_deployment(&Workload::new("shop", "web", 12));
        kube.add_stateful_set(&Workload::new("shop", "db", 3));
        pass(20).await;
        kube.machine_gone("i-00000000000000003");
        pass(200).await;
        runs.push(format!("{:?}{:?}", kube.journal(), kube.objects("pods")));
    }
    assert!(runs[0] == runs[1]);
}

#[tokio::test(start_paused = true)]
async fn a_large_cluster_is_set_up_at_once() {
    let kube =
        cluster_with(Options { timing: Timing::instant(), journal: false, ..Options::default() });
    for i in 0..50 {
        kube.add_node(&NodeSpec::named(format!("n{i}")).kib(16));
    }
    kube.add_deployment(&Workload::new("shop", "web", 500));
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(kube.pods().iter().all(|p| p.ready));
    assert!(kube.object("nodes", "", "n0").unwrap().to_string().len() >= 16 * 1024);
    assert!(kube.journal().is_empty());
}
