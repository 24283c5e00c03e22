//! Launch hooks that are completed too early, or with the wrong result.

use sundown::sim::aws::{GroupSpec, HookSpec};

use super::*;

const EARLY: &str = "was completed before it had a Node";
const ABANDONED: &str = "was abandoned";
const LOST: &str = "deleted before its intent was durable";

fn end(evidence: &mut Evidence) -> &mut ActionEnd {
    evidence.actions[0].end.as_mut().unwrap()
}

/// An instance was launched, and its hook was completed when its Node was ready.
async fn launched() -> Evidence {
    let stage = Stage::new(47);
    let hook = HookSpec::launching("boot").heartbeat_timeout(s(120));
    stage.world.add_group(GroupSpec { replace_after: None, ..GroupSpec::new("asg", 1) }, &[hook]);
    let sundown = led(&stage, &[]).await;
    let instance = stage.world.aws.launch("asg").unwrap();
    stage
        .until(90, "it is completed", || stage.actions(&instance).iter().any(|a| a.end.is_some()))
        .await;
    stage.until(5, "its message is deleted", || stage.in_queue() == 0).await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

#[tokio::test(start_paused = true)]
async fn a_launch_hook_that_is_completed_before_it_has_a_node_is_seen() {
    let mut evidence = launched().await;
    keeps(&judge(&evidence), EARLY, "its Node was there");
    let at = end(&mut evidence).at;
    let node = evidence.nodes[&evidence.actions[0].instance].clone();
    let is_registration =
        |e: &&mut Entry| matches!(&e.fact, Fact::NodeAdded(name) if *name == node);
    evidence.entries.iter_mut().filter(is_registration).for_each(|e| e.at = at + s(1));
    breaks(&judge(&evidence), EARLY);
    breaks(&judge_any(&evidence, &[]), EARLY);
    evidence.actions[0].started = at - s(301);
    keeps(&judge(&evidence), EARLY, "the launch timeout was over");
}

#[tokio::test(start_paused = true)]
async fn a_launch_hook_that_is_abandoned_is_seen_unless_a_flag_says_so_and_its_time_is_over() {
    let mut evidence = launched().await;
    end(&mut evidence).verdict = Verdict::Completed(HookResult::Abandon);
    breaks(&judge(&evidence), ABANDONED);
    let flags = vec!["--launch-on-timeout=abandon".to_owned()];
    evidence.terms.flags.push(("sundown".to_owned(), flags));
    breaks(&judge(&evidence), ABANDONED);
    evidence.actions[0].started = end(&mut evidence).at - s(301);
    keeps(&judge(&evidence), ABANDONED, "the launch timeout was over");
}

#[tokio::test(start_paused = true)]
async fn a_launch_hook_that_times_out_is_seen_unless_its_heartbeats_failed_from_the_first_on() {
    const TIMED_OUT: &str = "timed out (120s)";
    const HEARTBEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";
    let mut evidence = launched().await;
    let started = evidence.actions[0].started;
    let at = started + s(120);
    longer(&mut evidence, at + s(60));
    *end(&mut evidence) =
        ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() };
    evidence.actions[0].heartbeats.clear();
    breaks(&judge(&evidence), TIMED_OUT);
    let own = format!("asg/boot/{}", evidence.actions[0].instance);
    // One each 10 s, and no answer: each is felt for 23 s.
    let failed = |by: &str, object: &str, first: u64, last: u64| {
        let mut evidence = evidence.clone();
        evidence.disturbances.extend((first..=last).step_by(10).map(|after| Disturbance {
            at: started + s(after),
            until: None,
            by: by.to_owned(),
            what: HEARTBEAT.to_owned(),
            object: object.to_owned(),
            is_silent: false,
        }));
        judge(&evidence)
    };
    keeps(&failed("sundown-0", &own, 35, 115), TIMED_OUT, "the first was in time, and all failed");
    breaks(&failed("sundown-0", &own, 35, 55), TIMED_OUT);
    breaks(&failed("sundown-0", &own, 70, 110), TIMED_OUT);
    breaks(&failed("sundown-0", "asg/boot/i-another", 35, 115), TIMED_OUT);
    breaks(&failed("sundown-9", &own, 35, 115), TIMED_OUT);
}

#[tokio::test(start_paused = true)]
async fn the_message_of_a_launch_hook_that_is_deleted_while_the_hook_waits_is_seen() {
    let mut evidence = launched().await;
    keeps(&judge(&evidence), LOST, "the hook was completed before");
    let at = end(&mut evidence).at;
    let of_launch = |m: &&mut SentMessage| m.body.contains("INSTANCE_LAUNCHING");
    evidence.messages.iter_mut().filter(of_launch).for_each(|m| m.deleted = Some(at - s(5)));
    breaks(&judge(&evidence), LOST);
}
