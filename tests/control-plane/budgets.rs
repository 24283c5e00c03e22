//! Disruption budgets of every kind, kept while the scheduler and the controllers bring the
//! replacements.

use serde_json::{Value, json};
use sundown::sim::aws::{HookResult, Verdict};

use crate::{
    objects::Pods,
    stage::{HEARTBEAT_TIMEOUT, Stage, node_name},
    witness::{PodWatch, blocked},
};

/// The action was completed with CONTINUE by Sundown.
pub async fn continued(stage: &Stage, instance: &str) {
    let end = stage.completed(instance).await.end.unwrap();
    assert_eq!(
        (end.verdict, end.by.as_str()),
        (Verdict::Completed(HookResult::Continue), "AKIASUNDOWN")
    );
}

/// One way to write a budget, and what it means.
struct Row {
    app: &'static str,
    replicas: usize,
    bound: &'static str,
    value: Value,
    /// How many may be away (percentages are rounded up, `pkg/controller/disruption`).
    away: usize,
}

fn rows() -> Vec<Row> {
    let row = |app, replicas, bound, value, away| Row { app, replicas, bound, value, away };
    vec![
        row("least", 4, "minAvailable", json!(3), 1),
        row("most", 4, "maxUnavailable", json!(2), 2),
        row("least-share", 5, "minAvailable", json!("50%"), 2),
        row("most-share", 4, "maxUnavailable", json!("30%"), 2),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_of_every_kind_let_the_next_pod_go_when_its_predecessor_is_replaced() {
    let Some(stage) = Stage::new(20).await else { return };
    stage.alone().await;
    // Everything stands on four nodes, which go, and moves to the three others.
    let (instances, refuges) = stage.group_and_refuges(4, 3, HEARTBEAT_TIMEOUT).await;
    let [doomed, refuge] =
        [&instances, &refuges].map(|of| of.iter().map(|i| node_name(i)).collect::<Vec<_>>());
    let refuge = refuge.as_slice();
    let mut deployments = Vec::new();
    for row in rows() {
        let pods = Pods::of(row.app).on(&doomed[..2], refuge);
        deployments.push(stage.ready("default", &pods.deployment(row.replicas)).await);
        stage
            .allowing(
                "default",
                &pods.budget(row.bound, &row.value),
                i64::try_from(row.away).unwrap(),
            )
            .await;
    }
    let quorum = Pods::of("quorum").on(&doomed[2..], refuge);
    let quorum_path = stage.ready("default", &quorum.stateful_set(3)).await;
    stage.allowing("default", &quorum.budget("maxUnavailable", &json!(1)), 1).await;
    let members = stage.pods_on(&doomed[2], "default").await.len()
        + stage.pods_on(&doomed[3], "default").await.len();
    assert_eq!(members, 3, "the quorum stands on nodes that go");
    stage.join(refuges).await;

    let watch = PodWatch::start(&stage).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    for instance in &instances {
        stage.world.aws.terminate(instance, true);
    }
    for instance in &instances {
        continued(&stage, instance).await;
        assert!(
            stage.pods_on(&node_name(instance), "default").await.is_empty(),
            "it was not empty"
        );
    }
    for path in deployments.iter().chain([&quorum_path]) {
        stage.is_whole(path).await;
    }
    for row in rows() {
        let moved = sundown_evicted(&stage, row.app);
        assert_eq!(moved, row.replicas, "each pod of {} was evicted, once", row.app);
        let least = watch.least(row.app);
        assert!(
            least >= row.replicas - row.away,
            "{}: only {least} of {} were healthy",
            row.app,
            row.replicas
        );
        assert!(moved > row.away, "without replacements not all would have gone");
    }
    assert_eq!(sundown_evicted(&stage, "quorum"), 3);
    assert!(watch.least("quorum") >= 2, "the quorum was lost");
    // A budget is not polled: each pod is tried once when its turn comes, and those that are
    // refused once more when there is room. (And every half a minute, which this takes on a slow
    // machine only.)
    let calls = stage.calls();
    let evictions: Vec<_> = calls.iter().filter(|c| c.resource == "pods/eviction").collect();
    let took = evictions.last().unwrap().received.since_or_zero(evictions[0].received);
    let refused = evictions.iter().filter(|c| c.code == 429).count();
    let pods: usize = rows().iter().map(|r| r.replicas).sum::<usize>() + 3;
    let most = (2 + usize::try_from(took.as_secs()).unwrap() / 30) * pods;
    assert!(refused <= most, "{refused} refusals for {pods} pods in {took:?}");
    assert!(sundown.metric("pods_forced_total").await < 0.5);
    stage.assert_polite();
    sundown.signal("TERM");
    assert_eq!(sundown.ended().await.code(), Some(0));
}

/// Accepted evictions of pods of this app.
fn sundown_evicted(stage: &Stage, app: &str) -> usize {
    let of_app = |name: &str| {
        name.strip_prefix(app)
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|rest| !rest.starts_with("share"))
    };
    stage
        .calls()
        .iter()
        .filter(|c| c.resource == "pods/eviction" && c.code == 201 && of_app(&c.name))
        .count()
}

/// Three pods of which two must be available: `a` and `b` elsewhere, `c` on the node that goes.
/// Returns their paths.
async fn trio(
    stage: &Stage,
    app: &str,
    policy: Option<&str>,
    ready: [bool; 3],
    doomed: &str,
    refuge: &str,
) -> [String; 3] {
    let pods = Pods::of(app);
    let mut paths = Vec::new();
    for (name, on) in [("a", refuge), ("b", refuge), ("c", doomed)] {
        paths.push(stage.ready_pod("default", &pods.pod(&format!("{app}-{name}"), on)).await);
    }
    for (path, ready) in paths.iter().zip(ready) {
        if !ready {
            stage.report_ready(path, false).await;
        }
    }
    let mut budget = pods.budget("minAvailable", &json!(2));
    if let Some(policy) = policy {
        budget["spec"]["unhealthyPodEvictionPolicy"] = policy.into();
    }
    let path = stage.allowing("default", &budget, 0).await;
    let healthy = ready.iter().filter(|r| **r).count();
    stage
        .until("the healthy are counted", &path, |b| b["status"]["currentHealthy"] == healthy)
        .await;
    paths.try_into().unwrap()
}

/// It was refused by its budget, and is waited for.
async fn is_refused(stage: &Stage, pod: &str) {
    stage
        .holds(&format!("{pod} is refused"), async || {
            stage.evictions("default", pod).iter().any(|c| c.code == 429)
        })
        .await;
    assert!(
        stage
            .get(&format!("/api/v1/namespaces/default/pods/{pod}"))
            .await
            .is_some_and(|p| p["metadata"]["deletionTimestamp"].is_null())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_not_ready_are_evicted_by_their_budgets_policy() {
    let Some(stage) = Stage::new(21).await else { return };
    stage.alone().await;
    let instances = stage.group(3).await;
    let (doomed, refuge) = (node_name(&instances[0]), node_name(&instances[1]));
    let t = |app, policy, ready| trio(&stage, app, policy, ready, &doomed, &refuge);
    // Nothing is allowed in any of them.
    t("spare", None, [true, true, false]).await;
    t("always", Some("AlwaysAllow"), [false, false, false]).await;
    let short = t("short", Some("IfHealthyBudget"), [true, false, false]).await;
    let always_ready = t("always-ready", Some("AlwaysAllow"), [true, false, true]).await;

    let mut sundown = stage.leader("sundown", &[]).await;
    stage.world.aws.terminate(&instances[0], true);
    for app in ["spare", "always"] {
        stage.gone(&format!("/api/v1/namespaces/default/pods/{app}-c")).await;
        let answers: Vec<_> =
            stage.evictions("default", &format!("{app}-c")).iter().map(|c| c.code).collect();
        assert_eq!(answers, [201], "{app}");
    }
    is_refused(&stage, "short-c").await;
    is_refused(&stage, "always-ready-c").await;
    blocked(&mut sundown, "pdb", 2).await;
    assert!(stage.world.aws.actions()[0].end.is_none(), "they are waited for");

    // Now enough of the others are healthy: for the one that is not ready, and for the one that is.
    stage.report_ready(&short[1], true).await;
    stage.gone(&short[2]).await;
    stage.report_ready(&always_ready[1], true).await;
    continued(&stage, &instances[0]).await;
    assert!(stage.get(&always_ready[2]).await.is_none());
    assert!(sundown.metric("pods_forced_total").await < 0.5);
    stage.assert_polite();
}
