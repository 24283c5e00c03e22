//! Nodes of warm pools that are cordoned without a reason, or too late.

use sundown::sim::aws::{GroupSpec, HookSpec, ServiceChange, ServiceEvent, Transition};

use super::*;

const NO_ACTION: &str = "no action asks for it";
const LATE: &str = "it was not cordoned before";

/// An instance was launched into its warm pool, left it, and its Node was put back.
async fn pooled() -> Evidence {
    let stage = Stage::new(2_490);
    let hook = HookSpec::launching("sundown-launch").heartbeat_timeout(s(120));
    let spec = GroupSpec { replace_after: None, ..GroupSpec::new("asg", 1) };
    let instance = stage.world.add_group(spec, &[hook]).remove(0);
    let sundown = led(&stage, &["--sweep-interval=1m"]).await;
    let pool = [("Origin", "EC2"), ("Destination", "WarmPool")];
    stage.world.aws.other_action("asg", "sundown-launch", &instance, &pool).unwrap();
    stage
        .until(60, "it is completed", || stage.actions(&instance).iter().any(|a| a.end.is_some()))
        .await;
    stage.pass(60).await;
    stage.world.aws.leave_warm_pool(&instance);
    stage.until(120, "it is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cordoned_for_a_warm_pool_without_an_open_action_is_seen() {
    let evidence = pooled().await;
    keeps(&judge(&evidence), NO_ACTION, "its action was open");
    let mut unconfirmed = evidence.clone();
    unconfirmed.actions[0].heartbeats.clear();
    breaks(&judge(&unconfirmed), NO_ACTION);
    let mut into_the_group = evidence.clone();
    into_the_group.service_changes.clear();
    for message in &mut into_the_group.messages {
        message.body = message.body.replace("WarmPool", "AutoScalingGroup").into();
    }
    breaks(&judge(&into_the_group), NO_ACTION);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_completed_before_the_node_of_the_pool_is_cordoned_is_seen() {
    let mut evidence = pooled().await;
    keeps(&judge(&evidence), LATE, "it was cordoned first");
    let started = evidence.actions[0].started;
    evidence.actions[0].end.as_mut().unwrap().at = started;
    breaks(&judge(&evidence), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_launch_into_the_group_needs_no_cordon_although_a_scale_in_to_the_pool_follows() {
    let mut evidence = pooled().await;
    let launch = evidence.actions[0].clone();
    let end = launch.started;
    evidence.actions[0].end.as_mut().unwrap().at = end;
    let entries = evidence.service_changes.iter_mut();
    entries.filter(|c| c.change == ServiceEvent::IntoWarmPool).for_each(|c| c.at = end + s(50));
    let after = |destination: Option<&str>, scale_in: Option<Moment>| {
        let mut evidence = evidence.clone();
        for message in &mut evidence.messages {
            message.body = match destination {
                Some(destination) => message.body.replace("WarmPool", destination).into(),
                // It was lost.
                None => message.body.replace(&launch.token, "another").into(),
            };
        }
        evidence.actions.extend(scale_in.map(|started| ActionReport {
            hook: "sundown-terminate".to_owned(),
            token: "00000000-0000-4000-8000-000000000009".to_owned(),
            transition: Transition::Terminating,
            started,
            heartbeats: Vec::new(),
            end: None,
            ..launch.clone()
        }));
        judge(&evidence)
    };
    breaks(&after(Some("WarmPool"), None), LATE);
    keeps(&after(Some("AutoScalingGroup"), None), LATE, "its message says where it goes");
    breaks(&after(None, None), LATE);
    keeps(&after(None, Some(end + s(40))), LATE, "a scale-in took it into the pool");
    breaks(&after(None, Some(end - s(1))), LATE);
    breaks(&after(None, Some(end + s(51))), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cordoned_for_a_pool_is_seen_unless_its_instance_is_there_a_minute_later() {
    let mut evidence = pooled().await;
    let token = evidence.actions[0].token.clone();
    for message in &mut evidence.messages {
        // It was lost.
        message.body = message.body.replace(&token, "another").into();
    }
    let (id, _) = node_of(&evidence);
    let end = evidence.actions[0].end.as_ref().unwrap().at;
    // No message shows where the instance goes. It enters the pool then.
    let entered = |of: &str, at: Moment| {
        let mut evidence = evidence.clone();
        evidence.service_changes.retain(|c| c.change != ServiceEvent::IntoWarmPool);
        let (instance, change) = (of.to_owned(), ServiceEvent::IntoWarmPool);
        evidence.service_changes.push(ServiceChange { at, instance, change });
        judge(&evidence)
    };
    keeps(&entered(&id, end), NO_ACTION, "it is there as soon as its hook is completed");
    keeps(&entered(&id, end + s(60)), NO_ACTION, "its pool stops it first");
    breaks(&entered(&id, end + s(61)), NO_ACTION);
    breaks(&entered(&id, end - s(1)), NO_ACTION);
    breaks(&entered("i-0123456789abcdef0", end), NO_ACTION);
}
