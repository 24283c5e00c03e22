//! Flags: what they forbid is seen.

use serde_json::json;
use sundown::sim::{
    aws::{ActionReport, Call, Fault, FaultRule, How, Outcome},
    kube::NodeSpec,
};

use super::*;

/// The run, as one of a process with this flag.
fn under(evidence: &Evidence, flag: &str) -> Vec<String> {
    let mut evidence = evidence.clone();
    for (_, flags) in &mut evidence.terms.flags {
        flags.push(flag.to_owned());
    }
    judge(&evidence)
}

#[tokio::test(start_paused = true)]
async fn a_force_that_a_flag_forbids_or_puts_off_is_seen() {
    const EARLY: &str = "was deleted too early";
    // The pod has 30 s, and 110 s after the notice it must be gone: it was deleted after 80 s.
    let evidence = reclaimed().await;
    breaks(&under(&evidence, "--force-after=never"), "which --force-after or a setting forbids");
    breaks(&under(&evidence, "--force-after=deadline"), EARLY);
    breaks(&under(&evidence, "--force-after=0.9"), EARLY);
    breaks(&under(&evidence, "--spot-deadline-margin=0s"), EARLY);
    for flag in [
        "--force-after=0",
        "--force-after=0.6",
        "--spot-deadline-margin=20s",
        "--deadline-margin=60s",
    ] {
        keeps(&under(&evidence, flag), EARLY, flag);
    }
    breaks(&under(&evidence, "--spot-deadline-margin=40s"), "got a grace of 30 s");
}

#[tokio::test(start_paused = true)]
async fn a_force_that_a_hook_forbids_is_seen_unless_the_last_record_does_not_name_the_hook() {
    const FORBIDDEN: &str = "which --force-after or a setting forbids";
    let mut evidence = reclaimed().await;
    let (instance, _) = node_of(&evidence);
    let (sent, forced) =
        (accepted(&evidence), when(&evidence, |f| matches!(f, Fact::Deleted { .. })));
    let time = sent.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "version": "0", "id": "one-more", "source": "aws.autoscaling",
        "detail-type": "EC2 Instance-terminate Lifecycle Action", "time": time,
        "detail": {
            "AutoScalingGroupName": "asg", "LifecycleHookName": "drain",
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
            "EC2InstanceId": instance,
            "LifecycleActionToken": "00000000-0000-4000-8000-000000000009",
            "NotificationMetadata": "{\"sundown\":{\"force-after\":\"never\"}}",
        },
    });
    send(&mut evidence, &body.to_string(), sent, forced);
    let of_spot = evidence.entries.iter().map(|e| &e.fact).find(|f| {
        matches!(
            f, Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    });
    let of_spot = of_spot.unwrap().clone();
    let mut with_hook = of_spot.clone();
    if let Fact::Annotated { annotations, .. } = &mut with_hook {
        let text = annotations.get_mut("sundown.dev/record").unwrap();
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["interruptions"].as_array_mut().unwrap().push(json!({
            "kind": "terminate-hook", "event": "one-more", "time": time, "accepted": time,
            "group": "asg", "hook": "drain", "token": "00000000-0000-4000-8000-000000000009",
        }));
        *text = record.to_string();
    }
    let named = |from: u64, until: Option<u64>| {
        let before = |millis: u64| forced - Duration::from_millis(millis);
        let mut evidence = evidence.clone();
        insert(&mut evidence, before(from), "sundown-0", with_hook.clone());
        if let Some(until) = until {
            insert(&mut evidence, before(until), "sundown-0", of_spot.clone());
        }
        judge(&evidence)
    };
    breaks(&named(10_000, None), FORBIDDEN);
    keeps(&named(2_000, None), FORBIDDEN, "the hook was hardly known");
    for until in [100, 1_000, 2_500, 6_000] {
        keeps(&named(10_000, Some(until)), FORBIDDEN, "the last record does not name the hook");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_given_up_when_its_pods_were_to_be_gone_is_seen() {
    const EARLY: &str = "was completed before";
    let mut evidence = overdue().await;
    keeps(&judge(&evidence), EARLY, "at its end");
    let end = evidence.actions[0].end.as_mut().unwrap();
    end.at = end.at - s(5);
    breaks(&judge(&evidence), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_too_short_is_seen() {
    const SHORT: &str = "--min-drain-time is";
    let evidence = hooked().await;
    for flag in ["--min-drain-time=0s", "--min-drain-time=8s"] {
        keeps(&under(&evidence, flag), SHORT, flag);
    }
    breaks(&under(&evidence, "--min-drain-time=30s"), SHORT);
}

#[tokio::test(start_paused = true)]
async fn a_call_for_a_hook_that_a_flag_does_not_name_is_seen() {
    const OTHERS: &str = "which is not ours";
    let evidence = hooked().await;
    for flag in ["--lifecycle-hook=other", "--lifecycle-hook=drain-*", "--lifecycle-hook=dra??n"] {
        breaks(&under(&evidence, flag), OTHERS);
    }
    for flag in ["--lifecycle-hook=*", "--lifecycle-hook=d*n", "--lifecycle-hook=dr?in"] {
        keeps(&under(&evidence, flag), OTHERS, flag);
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_for_a_hook_beside_one_named_sundown_is_seen() {
    const OTHERS: &str = "RecordLifecycleActionHeartbeat for asg/drain/";
    let mut evidence = hooked().await;
    let mut named = evidence.actions[0].clone();
    named.hook = "sundown-terminate".to_owned();
    let (begun, object) = (named.started, format!("asg/other/{}", named.instance));
    evidence.actions.push(ActionReport { hook: "other".to_owned(), ..named.clone() });
    evidence.actions.push(named);
    let heartbeat = Call { at: begun + s(20), object, ..evidence.calls[0].clone() };
    let described = Call {
        api: "autoscaling:DescribeLifecycleHooks".to_owned(),
        object: "asg".to_owned(),
        at: begun + s(4),
        ..heartbeat.clone()
    };
    let described = Call { outcome: Outcome::Ok, ..described };
    let heartbeat =
        Call { api: "autoscaling:RecordLifecycleActionHeartbeat".to_owned(), ..heartbeat };
    let other = "RecordLifecycleActionHeartbeat for asg/other/";
    evidence.calls.retain(|c| c.api != described.api);
    evidence.calls.push(heartbeat);
    keeps(&judge(&evidence), other, "nobody had described the hooks");
    keeps(&judge(&evidence), OTHERS, "it was accepted");
    evidence.calls.push(described);
    breaks(&judge(&evidence), other);
    // The PATCH that accepts it is under way.
    let (_, node) = node_of(&evidence);
    let hangs = |by: &str, node: &str, from: u64| {
        let mut evidence = evidence.clone();
        evidence.disturbances.push(Disturbance {
            at: begun + s(from),
            until: Some(begun + s(12)),
            by: by.to_owned(),
            what: "patch nodes".to_owned(),
            object: node.to_owned(),
            is_silent: false,
        });
        judge(&evidence)
    };
    let by = evidence.calls[0].by.clone();
    keeps(&hangs(&by, &node, 3), other, "its process does not decide anew meanwhile");
    breaks(&hangs("sundown-9", &node, 3), other);
    breaks(&hangs(&by, "another-node", 3), other);
    breaks(&hangs(&by, &node, 7), other);
}

#[tokio::test(start_paused = true)]
async fn a_completion_of_a_hook_beside_one_named_sundown_is_seen_unless_aws_denied_the_description()
{
    let mut evidence = hooked().await;
    let action = evidence.actions[0].clone();
    evidence.actions.push(ActionReport { hook: "sundown-terminate".to_owned(), ..action.clone() });
    evidence.calls.retain(|c| c.api != "autoscaling:DescribeLifecycleHooks");
    let end = action.end.clone().unwrap();
    let (denied, ok) = (|| Outcome::Error("AccessDenied".to_owned()), || Outcome::Ok);
    let answered = |answers: &[(u64, &str, Outcome)], change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence.clone();
        evidence.calls.extend(answers.iter().map(|(ago, by, outcome)| Call {
            at: end.at - s(*ago),
            api: "autoscaling:DescribeLifecycleHooks".to_owned(),
            object: "asg".to_owned(),
            by: (*by).to_owned(),
            outcome: outcome.clone(),
        }));
        change(&mut evidence);
        judge(&evidence)
    };
    let (unchanged, by): (&dyn Fn(&mut Evidence), _) = (&|_| {}, end.by.as_str());
    let others = ["CompleteLifecycleAction for asg/drain/", "was completed and is not ours"];
    let all_keep = |broken: &[String], why: &str| {
        others.iter().for_each(|rule| keeps(broken, rule, why));
    };
    let all_break = |broken: &[String]| others.iter().for_each(|rule| breaks(broken, rule));
    all_keep(&answered(&[(9, by, denied())], unchanged), "AWS denied the description");
    all_break(&answered(&[], unchanged));
    all_break(&answered(&[(9, "sundown-9", denied())], unchanged));
    all_break(&answered(&[(9, by, Outcome::Error("Throttling".to_owned()))], unchanged));
    all_break(&answered(&[(9, by, denied()), (4, by, ok())], unchanged));
    all_break(&answered(&[(9, by, ok()), (4, by, denied())], unchanged));
    all_keep(&answered(&[(700, by, ok()), (4, by, denied())], unchanged), "it is forgotten");
    let named = |e: &mut Evidence| e.terms.flags[0].1.push("--lifecycle-hook=other".to_owned());
    all_break(&answered(&[(9, by, denied())], &named));
    let foreign = |e: &mut Evidence| {
        e.terms.groups.insert("asg".to_owned(), Belongs::OtherCluster);
    };
    all_break(&answered(&[(9, by, denied())], &foreign));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_claims_the_instance_of_another_one_and_is_not_cordoned_is_seen() {
    const MISSED: &str = "and was not cordoned";
    let stage = Stage::new(7);
    let instance = stage.group(1, 60).remove(0);
    stage.world.kube.add_node(&NodeSpec::named("rogue").instance(instance.clone()));
    let node = stage.world.nodes()[&instance].clone();
    let node = if node == "rogue" { stage.world.node_of(&instance).unwrap() } else { node };
    let sundown = led(&stage, &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage
        .until(60, "it is completed", || stage.actions(&instance).iter().any(|a| a.end.is_some()))
        .await;
    stage.pass(3).await;
    let mut evidence = stage.evidence();
    sundown.stop().await;
    stage.end();
    evidence.nodes.insert(instance, node.clone());
    keeps(&judge(&evidence), MISSED, "it was cordoned");
    keeps(&judge(&evidence), "left cordoned", "it stays so");
    let is_it = |e: &Entry| match &e.fact {
        Fact::NodeChanged(state) => state.name == "rogue" && state.unschedulable,
        Fact::Cordoned(name) => name == "rogue",
        _ => false,
    };
    evidence.entries.retain(|e| !is_it(e));
    breaks(&judge(&evidence), MISSED);
    let late = |name: &str| {
        let mut evidence = evidence.clone();
        let (begun, ended) = (evidence.begun, evidence.ended);
        fault(&mut evidence, "patch nodes", begun, ended);
        evidence.disturbances.last_mut().unwrap().object = name.to_owned();
        judge(&evidence)
    };
    keeps(&late(&node), MISSED, "the answer to the accept may have come late");
    keeps(&late("rogue"), MISSED, "its PATCH may have failed");
    breaks(&late("another"), MISSED);
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_a_node_to_be_left_alone_is_seen_unless_ec2_could_not_say_which_node_is_the_right_one()
 {
    const OTHERS: &str = "which is not ours";
    let stage = Stage::new(8);
    let instance = stage.group(1, 60).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    stage.world.kube.edit("nodes", "", &node, |n| {
        n["metadata"]["annotations"]["sundown.dev/ignore"] = json!("true");
    });
    stage.world.kube.add_node(&NodeSpec::named("rogue").instance(instance.clone()));
    let sundown = led(&stage, &[]).await;
    stage.world.aws.fault(FaultRule::new("ec2:*", Fault::Throttle, How::Always));
    stage.world.aws.terminate(&instance, true);
    stage
        .until(60, "it is completed", || stage.actions(&instance).iter().any(|a| a.end.is_some()))
        .await;
    stage.pass(3).await;
    let mut evidence = stage.evidence();
    sundown.stop().await;
    stage.end_unjudged();
    evidence.nodes.insert(instance.clone(), node.clone());
    evidence.terms.groups.insert("asg".to_owned(), Belongs::Ignored);
    keeps(&judge(&evidence), OTHERS, "EC2 did not answer");
    let but = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence.clone();
        change(&mut evidence);
        judge(&evidence)
    };
    breaks(&but(&|e| e.disturbances.retain(|d| !d.what.starts_with("ec2:"))), OTHERS);
    breaks(&but(&|e| e.disturbances.iter_mut().for_each(|d| d.by = "sundown-1".into())), OTHERS);
    let at = accepted(&evidence) - s(1);
    let answer = Call {
        api: "ec2:DescribeInstances".to_owned(),
        object: format!("instance-id={instance}"),
        at,
        outcome: Outcome::Ok,
        ..evidence.calls[0].clone()
    };
    breaks(&but(&|e| e.calls.push(Call { by: "sundown-0".into(), ..answer.clone() })), OTHERS);
    // It gets a heartbeat before its accept, which waits for EC2.
    let heartbeat = |before: u64, by: &str| {
        let at = accepted(&evidence) - s(before);
        but(&|e| {
            e.calls.push(Call {
                api: "autoscaling:RecordLifecycleActionHeartbeat".to_owned(),
                object: format!("asg/drain/{instance}"),
                at,
                by: by.to_owned(),
                outcome: Outcome::Ok,
            });
        })
    };
    keeps(&heartbeat(2, "sundown-0"), OTHERS, "its accept is on its way");
    breaks(&heartbeat(2, "sundown-1"), OTHERS);
    breaks(&heartbeat(60, "sundown-0"), OTHERS);
    // The other Node cannot be written, so there is no accept.
    let tried = |status: u16, by: &str| {
        let at = accepted(&evidence);
        but(&|e| {
            for entry in &mut e.entries {
                if let Fact::Annotated { annotations, .. } = &mut entry.fact {
                    annotations.remove("sundown.dev/record");
                }
            }
            let patch = e.requests.iter().find(|r| r.verb == "patch" && r.name == "rogue");
            let patch = patch.unwrap().clone();
            let (client, name) = (by.to_owned(), "rogue".to_owned());
            e.requests.push(Request { at, status, client, name, ..patch });
            e.calls.retain(|c| c.at <= at || !c.object.starts_with("asg/drain/"));
            e.calls.push(Call {
                api: "autoscaling:RecordLifecycleActionHeartbeat".to_owned(),
                object: format!("asg/drain/{instance}"),
                at: at + s(1),
                by: "sundown-0".to_owned(),
                outcome: Outcome::Ok,
            });
        })
    };
    keeps(&tried(503, "sundown-0"), "Heartbeat for asg/drain", "its accept is tried again");
    breaks(&tried(200, "sundown-0"), "Heartbeat for asg/drain");
    breaks(&tried(503, "sundown-1"), "Heartbeat for asg/drain");
    // The Node that was drained has the Event of the completion.
    let with_events = |is_kept: &dyn Fn(&str) -> bool| {
        but(&|e| {
            let ended = e.ended + s(60);
            longer(e, ended);
            e.events.retain(|event| is_kept(&event.reason));
        })
    };
    keeps(&with_events(&|_| true), "LifecycleCompleted of", "it has it");
    breaks(
        &with_events(&|reason| reason != "LifecycleCompleted"),
        "LifecycleCompleted of rogue has no Event",
    );
    let claims_another = |e: &mut Evidence| {
        for entry in &mut e.entries {
            if let Fact::NodeChanged(state) = &mut entry.fact
                && state.name == node
            {
                state.provider_id = "aws:///eu-west-1a/i-0another".to_owned();
            }
        }
    };
    breaks(&but(&claims_another), OTHERS);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_that_writes_is_seen() {
    let mut evidence = hooked().await;
    evidence.terms.flags[0].1.push("--dry-run".to_owned());
    let broken = judge(&evidence);
    for write in [
        "sent patch nodes",
        "sent update leases",
        "called sqs:DeleteMessage",
        "called autoscaling:CompleteLifecycleAction",
    ] {
        breaks(&broken, write);
    }
    evidence.requests.retain(|r| !r.is_write());
    evidence.calls.retain(|c| c.api.contains("Describe") || c.api == "sqs:ReceiveMessage");
    assert_eq!(judge(&evidence), Vec::<String>::new());
    let came: usize = evidence.messages.iter().map(|m| m.deliveries.len()).sum();
    evidence.idle = 30 + came;
    clean(&evidence, "each message that comes again is asked about again");
    evidence.idle += 1;
    breaks(&judge(&evidence), "calls in a minute in which nothing happened");
}

#[tokio::test(start_paused = true)]
async fn a_message_for_others_that_is_deleted_from_a_shared_queue_is_seen() {
    const OTHERS: &str = "may be for another cluster";
    let mut evidence = reclaimed().await;
    keeps(&under(&evidence, "--shared-queue"), OTHERS, "its instance is one of this cluster");
    evidence.terms.groups.insert("spot".to_owned(), Belongs::OtherCluster);
    keeps(&judge(&evidence), OTHERS, "the queue is not shared");
    breaks(&under(&evidence, "--shared-queue"), OTHERS);
}

#[tokio::test(start_paused = true)]
async fn a_completion_without_a_node_where_the_cluster_has_no_name_is_seen() {
    const NO_NODE: &str = "which has no Node, and the cluster has no name";
    let mut evidence = hooked().await;
    keeps(&under(&evidence, "--no-cluster-name"), NO_NODE, "it has a Node");
    evidence.entries.retain(|e| !matches!(e.fact, Fact::Annotated { .. }));
    keeps(&judge(&evidence), NO_NODE, "the cluster has a name");
    breaks(&under(&evidence, "--no-cluster-name"), NO_NODE);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_before_the_delay_of_evict_after_is_over_is_seen() {
    const EARLY: &str = "before --evict-after";
    let mut evidence = hooked().await;
    evidence.terms.drain_timeout = 600;
    breaks(&under(&evidence, "--evict-after=terminate-hook=1m"), EARLY);
    for flag in [
        "--evict-after=terminate-hook=1s",
        "--evict-after=rebalance=1m",
        "--evict-after=terminate-hook=replacement-ready",
    ] {
        keeps(&under(&evidence, flag), EARLY, flag);
    }
    evidence.terms.drain_timeout = 299;
    keeps(&under(&evidence, "--evict-after=terminate-hook=1m"), EARLY, "it is too short");
}
