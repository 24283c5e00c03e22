//! The order of the pods, pods that ask for something, rules about pods, volumes, and drains that a
//! person forces.

use super::{
    super::{
        Attached,
        traits::{CRITICAL, Traits},
    },
    *,
};

/// A hook was drained under these flags; two pods took ten seconds to stop.
async fn with_two_pods(flags: &[&str]) -> Evidence {
    let stage = Stage::new(12);
    let instance = stage.group(1, 300).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    for name in ["one-0", "two-0"] {
        let shape = PodShape { grace: Some(s(30)), stop: Some(s(10)), ..PodShape::default() };
        stage.world.kube.add_pod(&PodSpec::on(node.as_str(), "load", name).shape(shape));
    }
    let sundown = led(&stage, flags).await;
    stage.world.aws.terminate(&instance, true);
    let is_over = || stage.actions(&instance).iter().any(|a| a.end.is_some());
    stage.until(300, "it is completed", is_over).await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

/// The same run, if a pod had these traits.
fn with(evidence: &Evidence, pod: &str, traits: Traits) -> Evidence {
    let mut evidence = evidence.clone();
    evidence.terms.traits.push(("load".to_owned(), pod.to_owned(), traits));
    evidence
}

fn asking(key: &'static str, value: &'static str) -> Traits {
    Traits { annotations: vec![(key, value)], ..Traits::default() }
}

/// The same run, if the process had this flag, too.
fn flagged(mut evidence: Evidence, flag: &str) -> Evidence {
    evidence.terms.flags[0].1.push(flag.to_owned());
    evidence
}

/// The same run, if the pod had another name.
fn renamed(evidence: &Evidence, from: &str, to: &str) -> Evidence {
    let mut evidence = evidence.clone();
    for entry in &mut evidence.entries {
        if let Fact::Evicted { pod, .. }
        | Fact::Deleted { pod, .. }
        | Fact::PodGone(pod)
        | Fact::Bound(pod)
        | Fact::PodReady(pod)
        | Fact::PodFinished(pod) = &mut entry.fact
            && pod.name == from
        {
            to.clone_into(&mut pod.name);
        }
    }
    evidence
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_asked_before_those_of_earlier_groups_are_gone_is_seen() {
    const EARLY: &str = "which its group waits for until";
    let evidence = with_two_pods(&["--pod-order=together"]).await;
    let critical = || Traits { priority: CRITICAL, ..Traits::default() };
    let under = |order: &str, traits: Traits| {
        let mut evidence = with(&evidence, "two-0", traits);
        evidence.terms.flags[0].1.retain(|flag| !flag.starts_with("--pod-order"));
        judge(&flagged(evidence, order))
    };
    breaks(&under("--pod-order=critical-last", critical()), EARLY);
    breaks(&under("--pod-order=priority:0,1000", critical()), EARLY);
    keeps(&under("--pod-order=together", critical()), EARLY, "all go at once");
    keeps(&under("--pod-order=priority:0,2000000001", critical()), EARLY, "it is in one group");
    breaks(&under("--pod-order=together", asking("sundown.dev/drain", "last")), EARLY);
    let daemon = Traits { is_drained_daemon: true, ..Traits::default() };
    breaks(&under("--pod-order=critical-last", daemon), EARLY);
    let mut ruled = with(&evidence, "one-0", Traits::default());
    ruled.terms.rules = vec![json!({ "match": { "namespaces": ["lo*"] }, "order": 1 })];
    keeps(&judge(&ruled), EARLY, "both have this order");
    ruled.terms.rules[0]["match"]["podLabels"] = json!("tier=late");
    let late = Traits { labels: vec![("tier", "late")], ..Traits::default() };
    ruled.terms.traits.push(("load".to_owned(), "two-0".to_owned(), late));
    breaks(&judge(&ruled), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_to_wait_and_is_asked_before_its_time_is_seen() {
    const EARLY: &str = "which may wait until";
    let evidence = with_two_pods(&[]).await;
    breaks(&judge(&with(&evidence, "two-0", asking("sundown.dev/drain", "wait"))), EARLY);
    keeps(
        &judge(&with(&evidence, "two-0", asking("sundown.dev/drain", "later"))),
        EARLY,
        "nonsense",
    );
    let other = with(&evidence, "two-0", asking("karpenter.sh/do-not-disrupt", "true"));
    keeps(&judge(&other), EARLY, "no flag honors the key");
    breaks(&judge(&flagged(other, "--honor=karpenter.sh/do-not-disrupt")), EARLY);
    let aged = with(&evidence, "two-0", asking("karpenter.sh/do-not-disrupt", "1s"));
    keeps(&judge(&flagged(aged, "--honor=karpenter.sh/do-not-disrupt")), EARLY, "it is older");
    let mut short = with(&evidence, "two-0", asking("sundown.dev/drain", "wait"));
    short.terms.drain_timeout = 300;
    keeps(&judge(&short), EARLY, "a drain of five minutes waits for no pod");
    let mut ruled = with(&evidence, "two-0", Traits { owner: "Job", ..Traits::default() });
    ruled.terms.rules =
        vec![json!({ "match": { "ownerKinds": ["Job"] }, "behavior": "WaitCompleted" })];
    breaks(&judge(&ruled), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_to_be_left_alone_and_is_touched_is_seen() {
    let evidence = with_two_pods(&[]).await;
    breaks(&judge(&renamed(&evidence, "two-0", "skipped-0")), "skipped-0 was touched");
    breaks(&judge(&renamed(&evidence, "two-0", "agent-daemon-0")), "agent-daemon-0 was touched");
    keeps(&judge(&renamed(&evidence, "two-0", "shipper-0")), "was touched", "it is drained");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_completed_before_the_pods_of_a_drained_daemon_set_are_gone_is_seen() {
    let mut evidence = renamed(&with_two_pods(&[]).await, "two-0", "shipper-0");
    let traits = Traits { is_drained_daemon: true, ..Traits::default() };
    evidence.terms.traits.push(("load".to_owned(), "shipper".to_owned(), traits));
    evidence.entries.retain(|entry| match &entry.fact {
        Fact::PodGone(pod) | Fact::PodFinished(pod) => pod.name != "shipper-0",
        _ => true,
    });
    breaks(&judge(&evidence), "was completed before");
}

#[tokio::test(start_paused = true)]
async fn graces_and_forced_deletes_that_a_rule_forbids_are_seen() {
    const FORBIDDEN: &str = "which --force-after or a setting forbids";
    let evidence = reclaimed().await;
    let ruled = |rule: Value| {
        let mut evidence = with(&evidence, "quorum-0", Traits::default());
        evidence.terms.rules = vec![rule];
        judge(&evidence)
    };
    breaks(&ruled(json!({ "behavior": "Evict", "forceAfter": "never" })), FORBIDDEN);
    breaks(
        &ruled(json!({ "behavior": "Evict", "forceAfter": "deadline" })),
        "was deleted too early",
    );
    breaks(&ruled(json!({ "behavior": "Evict", "maxGracePeriod": "20s" })), "got a grace of 30 s");
    let other = json!({ "match": { "namespaces": ["other"] }, "forceAfter": "never" });
    keeps(&ruled(other), FORBIDDEN, "the rule is for another namespace");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_completed_while_a_volume_is_attached_is_seen() {
    const ATTACHED: &str = "was completed while the volumes of";
    let mut evidence = with_two_pods(&[]).await;
    for entry in &mut evidence.entries {
        if let Fact::PodGone(pod) | Fact::Bound(pod) | Fact::PodFinished(pod) = &mut entry.fact {
            "extra".clone_into(&mut pod.namespace);
        }
    }
    let (_, node) = node_of(&evidence);
    let end = evidence.actions[0].end.as_ref().unwrap().at;
    let attached = |pod: &str, detached: Option<Moment>| {
        let mut evidence = evidence.clone();
        evidence.volumes.push(Attached { node: node.clone(), pod: pod.to_owned(), detached });
        evidence
    };
    breaks(&judge(&attached("one-0", None)), ATTACHED);
    breaks(&judge(&attached("one-0", Some(end + s(5)))), ATTACHED);
    keeps(&judge(&attached("one-0", Some(end))), ATTACHED, "it was detached");
    keeps(&judge(&attached("another-0", None)), ATTACHED, "its pod did not leave the node");
    let never = flagged(attached("one-0", None), "--wait-for-volumes=never");
    keeps(&judge(&never), ATTACHED, "nobody waits for volumes");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_asks_although_a_person_forces_its_drain_is_seen() {
    const FORCED: &str = "a person forced the drain of";
    let evidence = with_two_pods(&["--evict-after=terminate-hook=2m"]).await;
    let forced = |from: Moment| {
        let mut evidence = evidence.clone();
        let is_written = |e: &&Entry| matches!(e.fact, Fact::Annotated { .. }) && e.at <= from;
        let mut order = evidence.entries.iter().rfind(is_written).unwrap().fact.clone();
        if let Fact::Annotated { annotations, .. } = &mut order {
            annotations.insert("sundown.dev/force".to_owned(), "true".to_owned());
        }
        insert(&mut evidence, from, "kubectl", order);
        judge(&evidence)
    };
    let begun = accepted(&evidence);
    breaks(&forced(begun + s(10)), FORCED);
    keeps(&forced(begun + s(100)), FORCED, "its pods are asked 20 s later");
}
