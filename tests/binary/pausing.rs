//! `sundown pause`, `hold`, `resume`, `force` and `release`.

use std::time::Duration;

use sundown::sim::kube::{BudgetSpec, Workload};

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn pause_holds_all_drains_until_resume() {
    let stage = Stage::new(40).await;
    let instances = stage.group(3);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 6));
    stage.pods_run(6).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    let output = stage.person(&["pause"]).await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(
        output.out.contains("paused") && output.out.contains("kube-system/sundown"),
        "{}",
        output.out
    );
    assert!(stage.person(&["pause"]).await.out.contains("already"));
    sundown.counts("paused", 1.0).await;

    stage.world.aws.terminate(&instances[0], true);
    stage.until("the node is cordoned", || stage.is_cordoned(&instances[0])).await;
    stage.until("the message is deleted", || stage.in_queue() == 0).await;
    // Evictions begin at the latest 2 s after the accept where nothing holds them. This is a look
    // at what does not happen.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(stage.evicted().is_empty(), "{:?}", stage.evicted());

    let output = stage.person(&["resume"]).await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.out.contains("resumed"), "{}", output.out);
    stage.until("the action is completed", || stage.is_completed(&instances[0])).await;
    assert!(!stage.evicted().is_empty());
    assert_eq!(sundown.metric("paused").await.to_string(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn release_ends_the_drain_of_a_node_and_completes_its_hook() {
    let stage = Stage::new(41).await;
    let instances = stage.group(2);
    // The budget allows nothing, ever.
    stage.world.kube.add_deployment(&Workload::new("shop", "quorum", 4));
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "quorum").max(0));
    stage.pods_run(4).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    stage.world.aws.terminate(&instances[0], true);
    sundown.counts("blocked_pods{reason=\"pdb\"}", 1.0).await;
    assert!(!stage.is_completed(&instances[0]));
    let node = stage.node_of(&instances[0]);
    let output = stage.person(&["release", &node]).await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.out.contains(&node), "{}", output.out);
    stage.until("the action is completed", || stage.is_completed(&instances[0])).await;
    assert!(stage.evicted().is_empty(), "nothing was evicted past the budget");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_asks_for_a_node_that_is_not_there_fails_and_names_it() {
    let stage = Stage::new(42).await;
    let output = stage.person(&["release", "ip-10-9-9-9"]).await;
    assert_eq!(output.code, Some(1), "{}", output.out);
    assert!(output.err.contains("ip-10-9-9-9"), "{}", output.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_node_that_is_not_being_drained_is_refused_and_changes_nothing() {
    let stage = Stage::new(43).await;
    let instance = stage.group(1).remove(0);
    let node = stage.node_of(&instance);
    let before = stage.node(&instance);
    let output = stage.person(&["release", &node]).await;
    assert_eq!(output.code, Some(2), "{} {}", output.out, output.err);
    assert!(
        output.err.contains(&node)
            && output.err.contains("nothing to release")
            && output.out.is_empty(),
        "{}",
        output.err
    );
    let record = serde_json::json!({ "version": 1, "instance": instance, "interruptions": [],
        "released": { "at": "2026-01-01T00:00:00Z", "outcome": "empty" } });
    stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["annotations"]["sundown.dev/record"] = record.to_string().into();
    });
    let output = stage.person(&["release", &node]).await;
    assert_eq!(output.code, Some(2), "{} {}", output.out, output.err);
    assert!(output.err.contains("released already"), "{}", output.err);
    let is_ordered =
        |n: &serde_json::Value| n["metadata"]["annotations"].get("sundown.dev/release").is_some();
    assert!(!is_ordered(&before) && !is_ordered(&stage.node(&instance)));
    // Somebody took the record away in mid-drain: the leader still has it in memory.
    for annotations in
        [serde_json::json!({}), serde_json::json!({ "sundown.dev/record": "garbage" })]
    {
        stage.world.kube.edit("nodes", "", &node, |n| {
            n["metadata"]["annotations"] = annotations.clone();
            n["spec"]["taints"] = serde_json::json!([{
                "key": "sundown.dev/interruption", "value": "spot", "effect": "NoSchedule"
            }]);
        });
        let output = stage.person(&["release", &node]).await;
        assert_eq!(output.code, Some(0), "{} {}", output.out, output.err);
        assert!(is_ordered(&stage.node(&instance)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_is_the_pause_of_one_node_and_resume_ends_it() {
    let stage = Stage::new(44).await;
    let instances = stage.group(2);
    let (node, other) = (stage.node_of(&instances[0]), stage.node_of(&instances[1]));
    let paused = |name: &str| {
        let node = stage.world.kube.object("nodes", "", name).unwrap();
        node["metadata"]["annotations"].get("sundown.dev/pause").cloned()
    };
    let held = stage.person(&["hold", &instances[1]]).await;
    assert_eq!(held.code, Some(0), "{}", held.err);
    assert!(held.out.contains(&other) && held.out.contains("sundown resume"), "{}", held.out);
    assert_eq!((paused(&other), paused(&node)), (Some("true".into()), None));
    let resumed = stage.person(&["resume", &other]).await;
    assert_eq!((resumed.code, paused(&other)), (Some(0), None), "{}", resumed.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn force_deletes_what_a_budget_refuses_and_is_refused_without_a_drain() {
    let stage = Stage::new(45).await;
    let instances = stage.group(2);
    stage.world.kube.add_deployment(&Workload::new("shop", "quorum", 4));
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "quorum").max(0));
    stage.pods_run(4).await;
    let refused = stage.person(&["force", &instances[0]]).await;
    assert_eq!(refused.code, Some(2), "{} {}", refused.out, refused.err);
    assert!(refused.err.contains("nothing to force"), "{}", refused.err);
    let mut sundown = stage.leader("sundown", &[]).await;
    stage.world.aws.terminate(&instances[0], true);
    sundown.counts("blocked_pods{reason=\"pdb\"}", 1.0).await;
    assert!(!stage.is_completed(&instances[0]));
    let forced = stage.person(&["force", &instances[0]]).await;
    assert_eq!(forced.code, Some(0), "{}", forced.err);
    assert!(forced.out.contains("no longer waits for budgets, gates"), "{}", forced.out);
    stage.until("the action is completed", || stage.is_completed(&instances[0])).await;
    assert!(stage.evicted().is_empty(), "each was deleted past the budget");
}
