//! Lifecycle actions whose event EventBridge lost.

use super::*;
use crate::harness::NO_CLUSTER_NAME;

/// A hook that was drained and completed, and whose event was lost.
async fn lost() -> Evidence {
    let mut evidence = hooked().await;
    evidence.messages.retain(|m| !m.body.contains("LifecycleHookName"));
    let (begun, act) = (evidence.begun, "LoseEvents { seconds: 600 }".to_owned());
    evidence.acts.push((begun, act));
    evidence
}

fn under(evidence: &Evidence, flags: &[&str]) -> Vec<String> {
    let mut evidence = evidence.clone();
    evidence.terms.flags[0].1.extend(flags.iter().map(|&flag| flag.to_owned()));
    judge(&evidence)
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_event_is_lost_and_that_the_sweep_could_have_found_is_seen() {
    const TIMED_OUT: &str = "timed out (60s)";
    let mut evidence = lost().await;
    let at = evidence.actions[0].started + s(60);
    longer(&mut evidence, at + s(60));
    edit_records(&mut evidence, |record| record["interruptions"] = Value::Array(Vec::new()));
    evidence.actions[0].heartbeats.clear();
    evidence.actions[0].end =
        Some(ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() });
    keeps(&under(&evidence, &["--sweep-interval=30s"]), TIMED_OUT, "it had no time");
    breaks(&under(&evidence, &["--sweep-interval=10s"]), TIMED_OUT);
    let nameless = ["--sweep-interval=10s", NO_CLUSTER_NAME];
    keeps(&under(&evidence, &nameless), TIMED_OUT, "without a name of the cluster nobody sweeps");
    let ignored = ["--sweep-interval=10s", "--on=terminate-hook=ignore"];
    keeps(&under(&evidence, &ignored), TIMED_OUT, "its event asks for nothing");
    breaks(&under(&evidence, &["--sweep-interval=10s", "--on=spot=ignore"]), TIMED_OUT);
    let mut launch = evidence.clone();
    launch.actions[0].transition = sundown::sim::aws::Transition::Launching;
    keeps(&under(&launch, &["--sweep-interval=10s"]), TIMED_OUT, "nobody sweeps for it");
    launch.actions[0].end = None;
    keeps(&under(&launch, &["--sweep-interval=10s"]), "is open", "its time is not over");
    launch.actions[0].transition = sundown::sim::aws::Transition::Terminating;
    breaks(&under(&launch, &["--sweep-interval=10s"]), "is open");
    evidence.acts.clear();
    breaks(&under(&evidence, &nameless), TIMED_OUT);
    breaks(&under(&evidence, &ignored), TIMED_OUT);
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_event_is_lost_is_completed_in_time_from_when_the_sweep_found_it() {
    const LATE: &str = "was completed late";
    let mut evidence = lost().await;
    led_from_the_beginning(&mut evidence);
    // No pod ran on its node.
    let of_pods = |e: &Entry| {
        matches!(
            e.fact,
            Fact::Bound(_)
                | Fact::PodReady(_)
                | Fact::Evicted { .. }
                | Fact::PodFinished(_)
                | Fact::PodGone(_)
        )
    };
    evidence.entries.retain(|e| !of_pods(e));
    let accepted = accepted(&evidence);
    evidence.actions[0].started = accepted - s(30);
    evidence.actions[0].heartbeats.insert(0, accepted - s(1));
    edit_records(&mut evidence, |record| {
        record["interruptions"][0]["event"] = format!("sweep:{accepted}:drain").into();
        record["interruptions"][0].as_object_mut().unwrap().remove("token");
    });
    evidence.terms.flags[0].1.push("--sweep-interval=30s".to_owned());
    let completed = |after: u64, acts: &[(Moment, String)]| {
        let mut evidence = evidence.clone();
        evidence.actions[0].end.as_mut().unwrap().at = accepted + s(after);
        evidence.acts = acts.to_vec();
        judge(&evidence)
    };
    let acts = &evidence.acts;
    keeps(&completed(6, acts), LATE, "nobody knew of it before");
    breaks(&completed(9, acts), LATE);
    breaks(&completed(6, &[]), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_late_call_is_seen_unless_the_node_came_back_and_its_record_names_no_token() {
    const LATE: &str = "after its end";
    let mut evidence = hooked().await;
    let (accepted, end) = (accepted(&evidence), evidence.actions[0].end.as_ref().unwrap().at);
    evidence.actions[0].late_calls = vec![end + s(60)];
    longer(&mut evidence, end + s(90));
    evidence.terms.flags[0].1.push("--sweep-interval=30s".to_owned());
    let came_back = |has_token: bool, added: Option<u64>, is_written: bool| {
        let mut evidence = evidence.clone();
        if !has_token {
            // As if the sweep found it: AWS accepted a heartbeat before the accept.
            evidence.actions[0].heartbeats.insert(0, accepted - s(1));
            edit_records(&mut evidence, |record| {
                record["interruptions"][0]["event"] = format!("sweep:{accepted}:drain").into();
                record["interruptions"][0].as_object_mut().unwrap().remove("token");
            });
        }
        let has_record = |e: &&Entry| {
            e.at == accepted
                && matches!(
                    &e.fact,
                    Fact::Annotated { annotations, .. }
                        if annotations.contains_key("sundown.dev/record")
                )
        };
        let again = evidence.entries.iter().find(has_record).unwrap().clone();
        let (_, node) = node_of(&evidence);
        if let Some(added) = added {
            insert(&mut evidence, end + s(added), "<kubelet>", Fact::NodeAdded(node));
        }
        if is_written {
            insert(&mut evidence, end + s(59), &again.by, again.fact);
        }
        judge(&evidence)
    };
    keeps(&came_back(false, Some(58), true), LATE, "the same hook may be open again");
    breaks(&came_back(true, Some(58), true), LATE);
    breaks(&came_back(false, None, true), LATE);
    breaks(&came_back(false, Some(58), false), LATE);
    breaks(&came_back(false, Some(61), true), LATE);
}

#[tokio::test(start_paused = true)]
async fn an_ignored_action_whose_event_is_lost_is_seen_unless_on_ignores_what_its_event_had_said() {
    const TIMED_OUT: &str = "timed out (60s)";
    const FORBIDDEN: &str = "was completed, which --on forbids";
    let completed = lost().await;
    let mut timed_out = completed.clone();
    let at = timed_out.actions[0].started + s(60);
    longer(&mut timed_out, at + s(60));
    edit_records(&mut timed_out, |record| record["interruptions"] = Value::Array(Vec::new()));
    timed_out.actions[0].heartbeats.clear();
    timed_out.actions[0].end =
        Some(ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() });
    let with = |evidence: &Evidence, replaces_root_volume: bool, kind: &str| {
        let mut evidence = evidence.clone();
        evidence.actions[0].replaces_root_volume = replaces_root_volume;
        under(&evidence, &["--sweep-interval=10s", &format!("--on={kind}=ignore")])
    };
    for (replaces, own, other) in
        [(true, "root-volume", "terminate-hook"), (false, "terminate-hook", "root-volume")]
    {
        keeps(&with(&timed_out, replaces, own), TIMED_OUT, "its event asks for nothing");
        breaks(&with(&timed_out, replaces, other), TIMED_OUT);
        breaks(&with(&completed, replaces, own), FORBIDDEN);
        keeps(&with(&completed, replaces, other), FORBIDDEN, "its event asks for a drain");
    }
}
