//! The main job, end to end.

use sundown::sim::{aws::SpotAction, kube::Workload};

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn c01_a_spot_notice_cordons_the_node_evicts_its_pods_and_is_deleted() {
    let stage = Stage::new(1).await;
    let instances = stage.spot_group(3);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 9));
    stage.world.kube.add_daemon_set(&Workload::new("shop", "agent", 1));
    stage.pods_run(12).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    let node = stage.node_of(&instances[0]);
    let web = || {
        stage.world.kube.pods_on(&node).into_iter().filter(|p| p.name.starts_with("web")).count()
    };
    let before = web();
    assert!(before > 0, "nothing to evict");
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    stage.until("the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until("its pods are gone", || web() == 0).await;
    stage.until("the message is deleted", || stage.in_queue() == 0).await;
    assert_eq!(stage.evicted().len(), before, "each pod is evicted once");
    assert!(
        stage.evicted().iter().all(|name| name.starts_with("web")),
        "the DaemonSet's pods stay"
    );
    assert!(
        !stage.is_cordoned(&instances[1]) && !stage.is_cordoned(&instances[2]),
        "no other node is touched"
    );
    sundown.counts("messages_total{kind=\"spot\",outcome=\"accepted\"}", 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c02_a_terminate_hook_drains_the_node_and_is_completed() {
    let stage = Stage::new(2).await;
    let instances = stage.group(3);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 6));
    stage.pods_run(6).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    let node = stage.node_of(&instances[0]);
    stage.world.aws.terminate(&instances[0], true);
    stage.until("the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until("the action is completed", || stage.is_completed(&instances[0])).await;
    let done = stage.action(&instances[0]).unwrap().end.unwrap();
    let last = stage
        .world
        .kube
        .journal()
        .into_iter()
        .filter(|e| matches!(&e.fact, sundown::sim::kube::Fact::PodGone(p) if p.node == node));
    assert!(
        last.map(|e| e.at).max().is_some_and(|at| at <= done.at),
        "the node is empty before AWS hears of it"
    );
    stage.until("the message is deleted", || stage.in_queue() == 0).await;
    sundown.counts("completions_total{result=\"accepted\"}", 1.0).await;
    let events = || stage.world.kube.objects("events");
    let has_event = |reason: &str| events().iter().any(|e| e["reason"] == reason);
    stage.until("the Node's Events report it", || has_event("InterruptionAccepted")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_writes_nothing_and_reports_once_what_it_would_do() {
    let stage = Stage::new(3).await;
    let instances = stage.group(2);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 4));
    stage.pods_run(4).await;
    let mut sundown = stage.start("dry", &["--dry-run"]);
    sundown.ready().await;
    stage.world.aws.terminate(&instances[0], true);
    let line = sundown.logged("Dry run: would cordon and drain the node").await;
    assert!(line.contains(&instances[0]) && line.contains(&stage.node_of(&instances[0])), "{line}");
    // A second event goes the whole way after the first: what the first one causes is caused by
    // then.
    stage.world.aws.terminate(&instances[1], true);
    stage
        .until("the second event is received", || {
            sundown.lines("would cordon and drain").len() >= 2
        })
        .await;
    assert_eq!(sundown.lines("would cordon and drain").len(), 2, "once for each event");
    sundown.signal("TERM");
    assert_eq!(sundown.ended().await.code(), Some(0));
    let writes: Vec<_> = stage
        .world
        .kube
        .requests()
        .into_iter()
        .filter(sundown::sim::kube::Request::is_write)
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    let calls = stage.world.aws.counts();
    let reading = |api: &str| {
        api == "sqs:ReceiveMessage" || api == "sqs:GetQueueAttributes" || api.contains(":Describe")
    };
    assert!(calls.keys().all(|api| reading(api)), "{calls:?}");
    assert_eq!(stage.in_queue(), 2, "the messages are still there");
    assert!(stage.holder().is_none(), "a dry run takes no Lease");
}
