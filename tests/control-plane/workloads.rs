//! Pods of every kind on nodes that go.

use serde_json::{Value, json};
use sundown::sim::aws::SpotAction;

use crate::{
    budgets::continued,
    objects::Pods,
    process::Process,
    stage::{HEARTBEAT_TIMEOUT, Stage, node_name},
    witness::{PodWatch, blocked},
};

fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}

fn is_going(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// A DaemonSet, a Job that runs, one that is done, a pod of nobody, a mirror pod and one with an
/// emptyDir, all on this node (the Job's pods may move to `refuges`, which join then).
struct Kinds {
    daemon: String,
    finished: String,
    running: String,
}

impl Kinds {
    async fn put(stage: &Stage, node: &str, refuges: Vec<String>) -> Self {
        let here = [node.to_owned()];
        let daemon_set = stage.put("default", &Pods::of("agent").on(&here, &[]).daemon_set()).await;
        stage.until("it runs", &daemon_set, |d| d["status"]["numberReady"] == 1).await;
        let done = stage
            .put("default", &Pods::of("done").with("finishes", "true").on(&here, &[]).job())
            .await;
        stage.until("it is done", &done, |j| j["status"]["succeeded"] == 1).await;
        let refuge: Vec<_> = refuges.iter().map(|i| node_name(i)).collect();
        let work = stage.put("default", &Pods::of("work").on(&here, &refuge).job()).await;
        stage.until("it runs", &work, |j| j["status"]["ready"] == 1).await;
        stage.join(refuges).await;
        stage.ready_pod("default", &Pods::of("bare").pod("bare", node)).await;
        let mut scratch = Pods::of("scratch").pod("scratch", node);
        scratch["spec"]["volumes"] = json!([{ "name": "scratch", "emptyDir": {} }]);
        stage.ready_pod("default", &scratch).await;
        let mut mirror = Pods::of("mirror").pod("mirror", node);
        mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "0123456789".into();
        stage.ready_pod("default", &mirror).await;
        let names = stage.pods_on(node, "default").await;
        let named = |start: &str| {
            names
                .iter()
                .find(|n| n.starts_with(start))
                .unwrap_or_else(|| panic!("{start} in {names:?}"))
                .clone()
        };
        Self { daemon: named("agent-"), finished: named("done-"), running: named("work-") }
    }

    async fn assert_drained(&self, stage: &Stage, node: &str) {
        let mut left = stage.pods_on(node, "default").await;
        left.sort();
        assert_eq!(left, [self.daemon.clone(), self.finished.clone(), "mirror".to_owned()]);
        for untouched in &left {
            assert!(!is_going(&stage.get(&pod_path(untouched)).await.unwrap()), "{untouched}");
            assert!(stage.evictions("default", untouched).is_empty(), "{untouched}");
        }
        for evicted in [self.running.as_str(), "bare", "scratch"] {
            let answers: Vec<_> =
                stage.evictions("default", evicted).iter().map(|c| c.code).collect();
            assert_eq!(answers, [201], "{evicted}");
        }
        let work = "/apis/batch/v1/namespaces/default/jobs/work";
        stage
            .until("its Job starts the work anew elsewhere", work, |j| j["status"]["ready"] == 1)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_every_kind_go_stay_or_are_waited_for_as_they_should() {
    let Some(stage) = Stage::new(22).await else { return };
    let (instances, refuges) = stage.group_and_refuges(3, 2, HEARTBEAT_TIMEOUT).await;
    let spot = stage.spot_group(2).await;
    let nodes: Vec<_> = instances.iter().map(|i| node_name(i)).collect();
    let kinds = Kinds::put(&stage, &nodes[0], refuges).await;
    // Grace periods longer than a spot notice leaves; kwok would let them take their time.
    let slow = Pods::of("slow").grace(600).with("stop-after", "600s");
    stage.ready_pod("default", &slow.pod("patient", &nodes[1])).await;
    stage.ready_pod("default", &slow.pod("hurried", &node_name(&spot[0]))).await;
    // Somebody's finalizers: one that is taken off in the end, one that stays although the pod has
    // stopped.
    for name in ["held", "abandoned"] {
        let mut pod = Pods::of("held").grace(1).pod(name, &nodes[2]);
        pod["metadata"]["finalizers"] = json!(["test.sundown.dev/hold"]);
        stage.ready_pod("default", &pod).await;
    }

    let watch = PodWatch::start(&stage).await;
    let mut sundown = stage.leader("sundown", &["--pod-events", "all"]).await;
    for instance in &instances {
        stage.world.aws.terminate(instance, true);
    }
    stage.world.aws.spot_interruption(&spot[0], SpotAction::Terminate);

    continued(&stage, &instances[0]).await;
    kinds.assert_drained(&stage, &nodes[0]).await;

    // A hook leaves all the time that a pod wants; a spot notice what there is.
    for name in ["patient", "hurried"] {
        stage.until("it is evicted", &pod_path(name), is_going).await;
    }
    stage
        .holds("the graces are seen", async || {
            ["patient", "hurried"].iter().all(|n| watch.grace("default", n).is_some())
        })
        .await;
    assert_eq!(watch.grace("default", "patient"), Some(600));
    let hurried = watch.grace("default", "hurried").unwrap();
    assert!((10..=110).contains(&hurried), "{hurried} s of the 120 that a spot notice gives");
    stage.wait_for_event("default", "hurried", "ShortenedGrace", "instead of 600 s").await;
    stage.wait_for_event("default", "patient", "Evicted", "600 s").await;

    held_by_a_finalizer(&stage, &mut sundown, &instances[2]).await;

    // Still waited for; then it stops by itself.
    assert!(
        stage.world.aws.actions().iter().any(|a| a.instance == instances[1] && a.end.is_none()),
        "it was not waited for"
    );
    stage.delete(&pod_path("patient"), &json!({ "gracePeriodSeconds": 0 })).await;
    // Its time may be over by now.
    let deleted = stage
        .send(http::Method::DELETE, &pod_path("hurried"), &json!({ "gracePeriodSeconds": 0 }))
        .await;
    assert!(
        deleted
            .as_ref()
            .err()
            .is_none_or(|error| matches!(error, kube::Error::Api(status) if status.code == 404)),
        "{deleted:?}"
    );
    continued(&stage, &instances[1]).await;
    sundown.counts("drains_total{end=\"empty\"}", 4.0).await;
    assert!(sundown.metric("pods_forced_total").await < 0.5);
    stage.assert_polite();
}

async fn held_by_a_finalizer(stage: &Stage, sundown: &mut Process, instance: &str) {
    for name in ["held", "abandoned"] {
        stage.until("it is evicted", &pod_path(name), is_going).await;
    }
    blocked(sundown, "finalizer", 2).await;
    stage.wait_for_event("default", "held", "Blocked", "finalizer").await;
    assert!(
        stage.world.aws.actions().iter().any(|a| a.instance == instance && a.end.is_none()),
        "they are waited for"
    );
    // The kubelet says that the one has stopped: what still holds its object is no reason to keep
    // the machine.
    stage
        .patch(
            &format!("{}/status", pod_path("abandoned")),
            &json!({ "status": { "phase": "Succeeded" } }),
        )
        .await;
    blocked(sundown, "finalizer", 1).await;
    stage.patch(&pod_path("held"), &json!({ "metadata": { "finalizers": null } })).await;
    continued(stage, instance).await;
    assert!(stage.get(&pod_path("held")).await.is_none());
    assert!(stage.get(&pod_path("abandoned")).await.is_some(), "its finalizer holds it still");
}
