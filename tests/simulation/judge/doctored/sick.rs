//! Nodes that are drained as impaired although their instances are well, or most others are not.

use sundown::sim::aws::{Call, Check, InstanceChange, Outcome, State};

use super::*;

const NO_CAUSE: &str = "which nobody had sent";
const NO_REASON: &str = "was set unhealthy without reason";
const NOTHING: &str = "nothing shows that it is back";

/// A status check of the first of ten instances fails. Its node is drained, and Auto Scaling is
/// told, or the check passes again and the node is put back.
async fn impaired(recovers: bool) -> Evidence {
    let stage = Stage::new(28);
    let instance = stage.spot_group(10).remove(0);
    let mut flags = vec!["--sweep-interval=1m", "--on=impaired=drain"];
    flags.extend((!recovers).then_some("--then=impaired=unhealthy"));
    let sundown = led(&stage, &flags).await;
    stage.world.aws.fail_check(&instance, Check::System, true);
    let is_over = || stage.record(&instance).is_some_and(|record| record["released"].is_object());
    stage.until(700, "its drain is over", is_over).await;
    if recovers {
        stage.pass(30).await;
        stage.world.aws.fail_check(&instance, Check::System, false);
        stage.until(450, "it is put back", || !stage.is_cordoned(&instance)).await;
    } else {
        let is_told = || stage.world.aws.count("autoscaling:SetInstanceHealth") == 1;
        stage.until(70, "Auto Scaling is told", is_told).await;
    }
    stage.pass(3).await;
    ended(stage, sundown).await
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_drained_as_impaired_while_its_instance_is_well_is_seen() {
    let evidence = impaired(false).await;
    keeps(&judge(&evidence), NO_CAUSE, "its check fails");
    keeps(&judge(&evidence), NO_REASON, "its check fails");
    let mut well = evidence.clone();
    well.check_changes.clear();
    breaks(&judge(&well), NO_CAUSE);
    breaks(&judge_any(&well, &[]), NO_CAUSE);
    breaks(&judge(&well), NO_REASON);
    let mut soon = evidence.clone();
    soon.check_changes[0].at = accepted(&evidence) - s(570);
    breaks(&judge(&soon), NO_CAUSE);
    // The check passes that long before the accept.
    let passes = |before: Duration, asked_by: Option<&str>| {
        let mut evidence = evidence.clone();
        let instance = evidence.check_changes[0].instance.clone();
        let at = accepted(&evidence) - before;
        let passed = sundown::sim::aws::CheckChange { at, instance, fails: false };
        evidence.check_changes.push(passed);
        if let Some(by) = asked_by {
            evidence.calls.iter_mut().for_each(|call| call.by = by.to_owned());
        }
        judge(&evidence)
    };
    let just_before = Duration::from_millis(1);
    keeps(&passes(just_before, None), NO_CAUSE, "AWS had just answered that it fails");
    breaks(&passes(just_before, Some("sundown-9")), NO_CAUSE);
    breaks(&passes(s(6), None), NO_CAUSE);
    let mut ignored = evidence.clone();
    ignored.terms.flags[0].1.retain(|flag| !flag.starts_with("--on"));
    breaks(&judge(&ignored), NO_CAUSE);
}

#[tokio::test(start_paused = true)]
async fn rounds_about_a_sick_instance_are_no_restlessness_unless_they_come_too_often() {
    const RESTLESS: &str = "calls in a minute in which nothing happened";
    let mut evidence = impaired(false).await;
    let call = Call {
        at: evidence.ended - s(59),
        api: "ec2:DescribeInstanceStatus".to_owned(),
        object: "system-status.status=impaired".to_owned(),
        by: evidence.calls[0].by.clone(),
        outcome: Outcome::Ok,
    };
    evidence.calls.retain(|c| c.object != call.object);
    // One a minute: at most two in the last one.
    let with = |rounds: usize, idle: usize, is_sick: bool| {
        let mut evidence = evidence.clone();
        evidence.calls.extend(std::iter::repeat_n(call.clone(), rounds));
        evidence.idle = idle;
        if !is_sick {
            evidence.check_changes.clear();
        }
        judge(&evidence)
    };
    keeps(&with(0, 30, true), RESTLESS, "some calls are made all the time");
    breaks(&with(0, 31, true), RESTLESS);
    keeps(&with(2, 40, true), RESTLESS, "five calls for each round");
    breaks(&with(2, 41, true), RESTLESS);
    breaks(&with(3, 41, true), RESTLESS);
    breaks(&with(2, 31, false), RESTLESS);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_drained_as_impaired_while_others_look_sick_too_is_seen() {
    let evidence = impaired(false).await;
    let mut elsewhere = evidence.clone();
    let others: Vec<String> = evidence.nodes.keys().take(4).cloned().collect();
    for instance in others.clone() {
        let (at, fails) = (evidence.check_changes[0].at, true);
        elsewhere.check_changes.push(sundown::sim::aws::CheckChange { at, instance, fails });
    }
    breaks(&judge(&elsewhere), NO_CAUSE);
    breaks(&judge(&elsewhere), NO_REASON);
    let sick = evidence.check_changes[0].instance.clone();
    let at = evidence.check_changes[0].at;
    // The drains of the others are over, and what they began for was of this kind.
    let held = |kind: &str, effect: Option<&str>| {
        let mut doctored = elsewhere.clone();
        for instance in others.iter().filter(|instance| **instance != sick) {
            let mut states = evidence.entries.iter().rev().filter_map(|entry| match &entry.fact {
                Fact::NodeChanged(state) if entry.at <= at => Some(state),
                _ => None,
            });
            let state = states.find(|state| state.provider_id.ends_with(instance.as_str()));
            let mut node = (**state.unwrap()).clone();
            let time = at.to_string();
            let record = json!({
                "version": 1, "instance": instance,
                "interruptions": [{ "kind": kind, "event": "e", "time": time, "accepted": time }],
                "released": { "at": time, "outcome": "not_evicted" },
            });
            node.annotations.insert("sundown.dev/record".to_owned(), record.to_string());
            let taint =
                |of: &str| ("sundown.dev/interruption".to_owned(), kind.to_owned(), of.to_owned());
            node.taints.extend(effect.map(taint));
            insert(&mut doctored, at, "sundown-0", Fact::NodeChanged(node.into()));
        }
        judge(&doctored)
    };
    for effect in ["NoSchedule", "PreferNoSchedule"] {
        let judged = held("capacity-block", Some(effect));
        keeps(&judged, NO_CAUSE, "AWS has announced that the others end");
        keeps(&judged, NO_REASON, "AWS has announced that the others end");
        breaks(&held("impaired", Some(effect)), NO_CAUSE);
        breaks(&held("impaired", Some(effect)), NO_REASON);
    }
    breaks(&held("capacity-block", None), NO_CAUSE);
    // EC2 shows no checks of instances that have ended.
    let ended = others.into_iter().filter(|instance| *instance != sick);
    elsewhere.changes.extend(ended.map(|id| InstanceChange { at, id, state: State::ShuttingDown }));
    keeps(&judge(&elsewhere), NO_CAUSE, "the others are going");
}

#[tokio::test(start_paused = true)]
async fn an_impaired_node_that_is_put_back_too_soon_is_seen() {
    let evidence = impaired(true).await;
    keeps(&judge(&evidence), NOTHING, "it was healthy for five minutes");
    let mut sick = evidence.clone();
    sick.check_changes.truncate(1);
    breaks(&judge(&sick), NOTHING);
    let mut soon = evidence.clone();
    soon.check_changes[1].at = soon.check_changes[1].at + s(150);
    breaks(&judge(&soon), NOTHING);
}
