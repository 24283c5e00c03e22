//! The conditions `DrainInProgress` and `Drained` of a Node, which a real API server merges with
//! those of other writers.

use std::time::Duration;

use serde_json::Value;
use sundown::sim::aws::HealthNotice;

use crate::{
    hands::{accepted, hold, let_go, node_path, stage_of_ours},
    shapes::{allow_node_conditions, other_conditions, with_foreign_condition},
    stage::Stage,
};

/// Status and reason of a condition.
fn shown<'a>(node: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    let all = node["status"]["conditions"].as_array()?;
    let condition = all.iter().find(|condition| condition["type"] == kind)?;
    Some((condition["status"].as_str()?, condition["reason"].as_str()?))
}

/// Waits until both conditions show this, and checks that all others are as before.
async fn until_shown(
    stage: &Stage,
    instance: &str,
    expected: [Option<(&str, &str)>; 2],
    others: &[Value],
) {
    let is_shown =
        |node: &Value| [shown(node, "DrainInProgress"), shown(node, "Drained")] == expected;
    let what = format!("its conditions are {expected:?}");
    let node = stage.until(&what, &node_path(instance), is_shown).await;
    assert_eq!(other_conditions(&node), others, "conditions of other writers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_shows_its_drain_beside_the_conditions_of_others_and_neither_once_it_stays() {
    let Some(stage) = stage_of_ours(26).await else { return };
    let instances = stage.spot_group(1).await;
    let instance = &instances[0];
    hold(&stage, "held", instance).await;
    let others = with_foreign_condition(&stage, instance).await;
    allow_node_conditions(&stage, "sundown-drain-conditions").await;
    let _sundown = stage.leader("sundown", &["--drain-conditions"]).await;

    // Within an hour of its start a change is drained at once.
    let now: sundown::domain::Moment = jiff::Timestamp::now().into();
    let notice = HealthNotice::retirement([instance.clone()], now.plus(Duration::from_mins(50)));
    stage.world.aws.health(&notice);
    accepted(&stage, instance).await;
    let blocked = [Some(("True", "BlockedByBudget")), Some(("False", "BlockedByBudget"))];
    until_shown(&stage, instance, blocked, &others).await;

    let_go(&stage, "held").await;
    let drained = [Some(("False", "DrainCompleted")), Some(("True", "DrainCompleted"))];
    until_shown(&stage, instance, drained, &others).await;

    stage.world.aws.health(&HealthNotice { status: "closed".to_owned(), ..notice });
    until_shown(&stage, instance, [None, None], &others).await;
}
