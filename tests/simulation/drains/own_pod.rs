//! The node that Sundown itself runs on.

use sundown::sim::{aws::SpotAction, kube::PodSpec};

use super::{Scene, graceful};
use crate::harness::Stage;

#[tokio::test(start_paused = true)]
async fn c54_our_own_pod_goes_last_and_hands_leadership_over_first() {
    let mut stage = Stage::new(854);
    let instances = stage.group(3, 300);
    stage.pass(5).await;
    let nodes: Vec<String> = instances.iter().map(|i| stage.world.node_of(i).unwrap()).collect();
    for (n, node) in nodes.iter().enumerate().take(2) {
        let name = format!("sundown-{n}");
        stage
            .world
            .kube
            .add_pod(&PodSpec::on(node.clone(), "sundown", name).shape(graceful(30, 2)));
    }
    let as_pod = |stage: &mut Stage, n: usize| {
        stage.environment("NODE_NAME", &nodes[n]);
        stage.environment("POD_NAME", &format!("sundown-{n}"));
        stage.environment("POD_NAMESPACE", "sundown");
    };
    as_pod(&mut stage, 1);
    let other = stage.start("sundown-1", &["--lease-namespace", "sundown"]);
    stage.pass(1).await;
    other.stop().await;
    as_pod(&mut stage, 0);
    let scene = Scene::led(stage, instances, &[]).await;
    let Scene { mut stage, sundown, instances } = scene;
    as_pod(&mut stage, 1);
    let other = stage.start("sundown-1", &[]);
    stage.pass(5).await;
    stage.world.kube.add_pod(
        &PodSpec::on(nodes[0].clone(), "shop", "web-0").label("app", "web").shape(graceful(60, 30)),
    );
    stage.pass(5).await;
    assert_eq!((sundown.metric("leader"), other.metric("leader")), (1.0, 0.0));
    stage.world.aws.terminate(&instances[0], true);
    stage.until(30, "the other one leads", || other.metrics.leads()).await;
    stage
        .until(120, "the action is over", || {
            stage.actions(&instances[0]).iter().all(|a| a.end.is_some())
        })
        .await;
    let own = |e: &sundown::sim::kube::Entry| {
        matches!(
            &e.fact, sundown::sim::kube::Fact::Evicted { pod, .. } if pod.name == "sundown-0"
        )
    };
    assert!(
        stage.deeds().iter().filter(|e| own(e)).all(|e| e.by == "sundown-1"),
        "leadership is handed over before our own pod goes"
    );
    let removals: Vec<String> = stage.removals().into_iter().map(|(name, ..)| name).collect();
    assert!(
        removals.contains(&"web-0".to_owned()) && removals.contains(&"sundown-0".to_owned()),
        "{removals:?}"
    );
    assert_eq!(removals.len(), 2, "each once: {removals:?}");
    sundown.stop().await;
    other.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_comes_when_a_leader_that_handed_over_is_told_to_stop_does_not_vanish_in_its_long_poll()
 {
    let mut stage = Stage::new(856);
    let instances = stage.group(3, 300);
    stage.pass(5).await;
    for (n, instance) in instances.iter().enumerate().take(2).rev() {
        let node = stage.world.node_of(instance).unwrap();
        stage.environment("NODE_NAME", &node);
        stage.environment("POD_NAME", &format!("sundown-{n}"));
        stage.environment("POD_NAMESPACE", "kube-system");
    }
    let Scene { stage, sundown, instances } = Scene::led(stage, instances, &[]).await;
    let other = stage.start("sundown-1", &[]);
    stage.pass(47).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(30, "the other one leads", || other.metrics.leads()).await;
    let stopping = tokio::spawn(sundown.stop());
    stage.pass(5).await;
    assert!(!stopping.is_finished());
    stage.world.aws.spot_interruption(&instances[2], SpotAction::Terminate);
    stage.until(2, "it is taken on", || stage.is_cordoned(&instances[2])).await;
    stopping.await.unwrap();
    stage
        .until(200, "the action is over", || {
            stage.actions(&instances[0]).iter().all(|a| a.end.is_some())
        })
        .await;
    other.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_only_replica_evicts_itself_last() {
    let mut stage = Stage::new(855);
    let instances = stage.group(2, 300);
    stage.pass(5).await;
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage
        .world
        .kube
        .add_pod(&PodSpec::on(node.clone(), "sundown", "sundown-0").shape(graceful(30, 2)));
    stage.world.kube.add_pod(&PodSpec::on(node.clone(), "shop", "web-0").shape(graceful(60, 40)));
    stage.environment("NODE_NAME", &node);
    stage.environment("POD_NAME", "sundown-0");
    stage.environment("POD_NAMESPACE", "sundown");
    let scene = Scene::led(stage, instances, &[]).await;
    scene.terminate(0).await;
    scene.completed(0, 120).await;
    let at = |name: &str| scene.removals(name)[0].0;
    assert!(
        super::between(at("web-0"), at("sundown-0")) >= 40.0,
        "only when nothing else that counts is left"
    );
    scene.end().await;
}
