//! How lifecycle actions end.

use super::*;

fn end(evidence: &mut Evidence) -> &mut ActionEnd {
    evidence.actions[0].end.as_mut().unwrap()
}

/// A hook that was completed twenty seconds after the first eviction, with a pod left and long before its deadline.
async fn hasty() -> (Evidence, Timestamp, String) {
    let mut evidence = overdue().await;
    let at = when(&evidence, |f| matches!(f, Fact::Evicted { .. })) + s(20);
    end(&mut evidence).at = at;
    let (_, node) = node_of(&evidence);
    (evidence, at, node)
}

#[tokio::test(start_paused = true)]
async fn a_hook_whose_pods_nobody_asked_and_that_is_given_up_at_its_deadline_is_seen() {
    let mut evidence = overdue().await;
    evidence.requests.retain(|r| r.resource != "pods" || !["create", "delete"].contains(&r.verb.as_str()));
    evidence.entries.retain(|e| !matches!(e.fact, Fact::Evicted { .. } | Fact::Deleted { .. }));
    breaks(&judge(&evidence), "nobody had asked [\"stuck-0\"] to go");
    let mut troubled = evidence.clone();
    troubled.excuses.push((evidence.begun, evidence.ended));
    clean(&troubled, "trouble is a reason");
    let (_, node) = node_of(&evidence);
    let mut meddled = evidence.clone();
    meddled.hands.push((evidence.begun, node, "rebooted"));
    clean(&meddled, "somebody interfered");
    let late = evidence.actions[0].end.as_ref().unwrap().at - s(5);
    evidence.entries.iter_mut().filter(|e| matches!(e.fact, Fact::Bound(_))).for_each(|e| e.at = late);
    clean(&evidence, "it came too late to be asked");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_completes_in_a_pause_is_seen() {
    let mut evidence = overdue().await;
    let at = end(&mut evidence).at;
    evidence.pauses = vec![(at - s(1), evidence.ended)];
    clean(&evidence, "it takes two seconds to be known");
    evidence.pauses = vec![(at - s(20), at - s(1))];
    clean(&evidence, "it was over");
    evidence.pauses = vec![(at - s(4), evidence.ended)];
    breaks(&judge(&evidence), "are left, paused since");
    evidence.excuses = vec![(at - s(3), evidence.ended)];
    clean(&evidence, "nobody was well for long enough to know it");
    evidence.excuses = vec![(at - s(1), evidence.ended)];
    breaks(&judge(&evidence), "are left, paused since");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_speaks_again_is_waited_for() {
    let (mut evidence, at, node) = hasty().await;
    breaks(&judge(&evidence), "was completed before");
    evidence.hands = vec![(at - s(100), node.clone(), "lost")];
    keeps(&judge(&evidence), "was completed before", "it was unreachable");
    evidence.hands.push((at - s(5), node.clone(), "back"));
    keeps(&judge(&evidence), "was completed before", "the call may have been on its way");
    evidence.hands[0].0 = at - s(150);
    evidence.hands[1].0 = at - s(15);
    breaks(&judge(&evidence), "was completed before");
    evidence.hands = vec![(at - s(60), node, "lost")];
    breaks(&judge(&evidence), "was completed before");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_registers_again_is_waited_for() {
    let (evidence, at, node) = hasty().await;
    let with = |gone: u64, added: Option<u64>| {
        let mut evidence = evidence.clone();
        insert(&mut evidence, at - s(gone), "<test>", Fact::NodeGone(node.clone()));
        if let Some(added) = added {
            insert(&mut evidence, at - s(added), "<test>", Fact::NodeAdded(node.clone()));
        }
        judge(&evidence)
    };
    keeps(&with(19, None), "was completed before", "it is gone");
    keeps(&with(10, Some(9)), "was completed before", "it was gone a moment ago");
    breaks(&with(19, Some(15)), "was completed before");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_completed_long_after_its_node_is_empty_is_seen() {
    let mut evidence = hooked().await;
    let at = end(&mut evidence).at + s(30);
    end(&mut evidence).at = at;
    breaks(&judge(&evidence), "was completed late");
    let (_, node) = node_of(&evidence);
    let but = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence.clone();
        change(&mut evidence);
        judge(&evidence)
    };
    let late = "was completed late";
    keeps(&but(&|e| e.terms.complete_delay = 30), late, "it was told to wait");
    keeps(&but(&|e| e.terms.calm = false), late, "something was broken");
    keeps(&but(&|e| e.pauses.push((at - s(35), at - s(1)))), late, "it was paused");
    keeps(&but(&|e| e.hands.push((at - s(35), node.clone(), "released"))), late, "somebody interfered");
    let stays = |e: &mut Evidence| e.entries.retain(|e| !matches!(e.fact, Fact::PodGone(_) | Fact::PodFinished(_)));
    keeps(&but(&stays), late, "a pod is left");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_abandoned_is_seen() {
    let mut evidence = hooked().await;
    end(&mut evidence).verdict = Verdict::Completed(HookResult::Abandon);
    breaks(&judge(&evidence), "was not continued");
    breaks(&judge_any(&evidence, &[]), "was not continued");
    end(&mut evidence).by = "somebody".to_owned();
    clean(&evidence, "what others do is theirs");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_times_out_is_seen_unless_nobody_could_beat() {
    let mut evidence = hooked().await;
    let at = evidence.actions[0].started + s(60);
    evidence.ended = at + s(60);
    *end(&mut evidence) = ActionEnd { at, verdict: Verdict::TimedOut(HookResult::Continue), by: String::new() };
    breaks(&judge(&evidence), "timed out (60s)");
    let mut beaten = evidence.clone();
    beaten.actions[0].beats.push(at - s(20));
    keeps(&judge(&beaten), "timed out (60s)", "the next one was not due yet");
    evidence.excuses.push((at - s(25), at));
    keeps(&judge(&evidence), "timed out (60s)", "something was broken when it was due");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_stays_open_or_runs_into_its_global_timeout_is_seen() {
    let mut evidence = hooked().await;
    end(&mut evidence).verdict = Verdict::GlobalTimeout(HookResult::Continue);
    end(&mut evidence).by = String::new();
    breaks(&judge(&evidence), "ran into its global timeout");
    evidence.actions[0].end = None;
    breaks(&judge(&evidence), "is open");
}
