//! Nodes that are put back although nothing shows that their instances are back.

use sundown::sim::{
    aws::{ServiceChange, ServiceEvent},
    kube::NodeState,
};

use super::*;

const NOTHING: &str = "nothing shows that it is back";
const KEEP_CORDONED: &str = "sundown.dev/keep-cordoned";
const RELEASE: &str = "sundown.dev/release";

/// An instance left its warm pool, no event reported it, and its Node was put back.
async fn returned() -> Evidence {
    let stage = Stage::new(27);
    let instance = stage.group(1, 60).remove(0);
    let sundown = led(&stage, &["--sweep-interval=1m"]).await;
    let pool = [("Destination", "WarmPool")];
    stage.world.aws.other_action("asg", "drain", &instance, &pool).unwrap();
    stage
        .until(60, "its drain is over", || {
            stage.record(&instance).is_some_and(|record| record["released"].is_object())
        })
        .await;
    stage.pass(120).await;
    stage.world.aws.leave_warm_pool(&instance);
    stage.until(120, "it is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

fn left(evidence: &mut Evidence) -> &mut ServiceChange {
    let out = |c: &&mut ServiceChange| c.change == ServiceEvent::OutOfWarmPool;
    evidence.service_changes.iter_mut().find(out).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_put_back_while_its_instance_is_in_the_pool_is_seen() {
    let evidence = returned().await;
    keeps(&judge(&evidence), NOTHING, "it had left the pool");
    let mut in_the_pool = evidence.clone();
    in_the_pool.service_changes.retain(|c| c.change == ServiceEvent::IntoWarmPool);
    breaks(&judge(&in_the_pool), NOTHING);
    breaks(&judge_any(&in_the_pool, &[]), NOTHING);
    let mut too_late = evidence.clone();
    left(&mut too_late).at = evidence.ended;
    breaks(&judge(&too_late), NOTHING);
    // One sight alone: it left between the two.
    let mut asked = evidence.calls.iter().rev();
    let last = asked.find(|c| c.api == "autoscaling:DescribeAutoScalingGroups").unwrap();
    let mut once = evidence.clone();
    left(&mut once).at = last.at - s(5);
    breaks(&judge(&once), NOTHING);
    let mut no_sweep = evidence.clone();
    no_sweep.terms.flags.clear();
    breaks(&judge(&no_sweep), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_spot_reclaim_that_is_put_back_is_seen() {
    let mut evidence = returned().await;
    for entry in &mut evidence.entries {
        let Fact::NodeChanged(state) = &mut entry.fact else { continue };
        let Some(text) = state.annotations.get_mut("sundown.dev/record") else { continue };
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["interruptions"][0]["kind"] = "spot".into();
        *text = record.to_string();
    }
    breaks(&judge(&evidence), NOTHING);
}

/// A spot notice, and a person who keeps the node cordoned and asks for its release. It is put back
/// when that person no longer keeps it.
async fn held() -> Evidence {
    let stage = Stage::new(52);
    let instance = stage.spot_group(3).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = led(&stage, &[]).await;
    stage.world.aws.spot_interruption(&instance, SpotAction::Terminate);
    stage.until(10, "it is accepted", || stage.record(&instance).is_some()).await;
    stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["annotations"][KEEP_CORDONED] = "true".into();
        n["metadata"]["annotations"][RELEASE] = "true".into();
    });
    stage
        .until(10, "its drain is over", || {
            stage.record(&instance).is_some_and(|record| record["released"].is_object())
        })
        .await;
    stage.pass(5).await;
    assert!(stage.is_cordoned(&instance), "a person keeps it");
    stage.world.kube.edit("nodes", "", &node, |n| {
        drop(n["metadata"]["annotations"].as_object_mut().unwrap().remove(KEEP_CORDONED));
    });
    stage.until(10, "it is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_put_back_when_nobody_keeps_it_any_more_is_seen_unless_that_was_ordered() {
    let evidence = held().await;
    keeps(&judge(&evidence), NOTHING, "a person had asked for its release");
    let with = |change: &dyn Fn(&mut NodeState)| {
        let mut evidence = evidence.clone();
        for entry in &mut evidence.entries {
            if let Fact::NodeChanged(state) = &mut entry.fact {
                change(state);
            }
        }
        judge(&evidence)
    };
    breaks(&with(&|s| drop(s.annotations.remove(RELEASE))), NOTHING);
    breaks(&with(&|s| drop(s.annotations.remove(KEEP_CORDONED))), NOTHING);
    let with_hook = with(&|s| {
        let Some(text) = s.annotations.get_mut("sundown.dev/record") else { return };
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["interruptions"][0]["hook"] = "drain".into();
        *text = record.to_string();
    });
    breaks(&with_hook, NOTHING);
    // Another drain has ended since.
    let ended_again = with(&|s| {
        let is_kept = s.annotations.contains_key(KEEP_CORDONED);
        let text = s.annotations.get_mut("sundown.dev/record").filter(|_| !is_kept);
        let Some(text) = text else { return };
        let mut record: Value = serde_json::from_str(text).unwrap();
        if record["released"].is_object() {
            record["released"]["at"] = "2026-01-05T09:30:00Z".into();
        }
        *text = record.to_string();
    });
    breaks(&ended_again, NOTHING);
}

/// A recommendation that expires while a person keeps the node cordoned. It is put back when that
/// person no longer keeps it.
async fn expired() -> Evidence {
    let stage = Stage::new(53);
    let instance = stage.spot_group(3).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = led(&stage, &["--on=rebalance=drain", "--rebalance-ttl=1m"]).await;
    stage.world.aws.rebalance_recommendation(&instance);
    stage.until(10, "it is accepted", || stage.record(&instance).is_some()).await;
    stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["annotations"][KEEP_CORDONED] = "true".into();
    });
    stage
        .until(70, "it has expired", || {
            stage.record(&instance).is_some_and(|record| record["released"].is_object())
        })
        .await;
    stage.pass(5).await;
    assert!(stage.is_cordoned(&instance), "a person keeps it");
    stage.world.kube.edit("nodes", "", &node, |n| {
        drop(n["metadata"]["annotations"].as_object_mut().unwrap().remove(KEEP_CORDONED));
    });
    stage.until(10, "it is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_put_back_when_nobody_keeps_it_any_more_is_seen_unless_what_it_held_expired()
{
    let evidence = expired().await;
    keeps(&judge(&evidence), NOTHING, "the recommendation expired");
    let mut longer = evidence.clone();
    for (_, flags) in &mut longer.terms.flags {
        flags.retain(|flag| !flag.starts_with("--rebalance-ttl"));
    }
    breaks(&judge(&longer), NOTHING);
    let mut of_spot = evidence;
    for entry in &mut of_spot.entries {
        let Fact::NodeChanged(state) = &mut entry.fact else { continue };
        let Some(text) = state.annotations.get_mut("sundown.dev/record") else { continue };
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["interruptions"][0]["kind"] = "spot".into();
        *text = record.to_string();
    }
    breaks(&judge(&of_spot), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_put_back_although_a_person_keeps_it_cordoned_is_seen() {
    const KEPT: &str = "a person keeps it cordoned";
    let mut evidence = returned().await;
    keeps(&judge(&evidence), KEPT, "nobody did");
    for entry in &mut evidence.entries {
        if let Fact::NodeChanged(state) = &mut entry.fact {
            state.annotations.insert(KEEP_CORDONED.to_owned(), "true".to_owned());
        }
    }
    breaks(&judge(&evidence), KEPT);
}
