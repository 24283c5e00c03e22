//! Settings of a drain that its Node or its hook gives: which of them rule, and which are bad.

use serde_json::json;
use sundown::sim::aws::{Call, Outcome};

use super::*;

const RECORD: &str = "sundown.dev/record";
const PERSON: &str = "kubectl";
const US: &str = "sundown-0";
const TIME: &str = "%Y-%m-%dT%H:%M:%SZ";

/// From this moment on, the Node has this annotation, or no longer has it.
fn annotate(evidence: &mut Evidence, from: Moment, key: &str, value: Option<&str>) {
    let is_page = |e: &&Entry| e.at <= from && matches!(e.fact, Fact::Annotated { .. });
    let before = evidence.entries.iter().rev().find(is_page).unwrap().fact.clone();
    insert(evidence, from, PERSON, before);
    for entry in evidence.entries.iter_mut().filter(|e| e.at >= from) {
        let Fact::Annotated { annotations, .. } = &mut entry.fact else { continue };
        let key = format!("sundown.dev/{key}");
        match value {
            Some(value) => drop(annotations.insert(key, value.to_owned())),
            None => drop(annotations.remove(&key)),
        }
    }
}

/// The hook has this NotificationMetadata.
fn give(evidence: &mut Evidence, metadata: &str) {
    edit_bodies(evidence, |body| {
        if body["detail"]["LifecycleHookName"].is_string() {
            body["detail"]["NotificationMetadata"] = json!(metadata);
        }
    });
}

/// NotificationMetadata that gives one setting.
fn metadata(key: &str, value: &str) -> String {
    json!({ "sundown": { key: value } }).to_string()
}

/// The Node, or its hook, gives this setting from the accept on.
fn set(evidence: &mut Evidence, key: &str, of_node: Option<&str>, of_hook: Option<&str>) {
    let from = accepted(evidence) - s(1);
    if let Some(value) = of_node {
        annotate(evidence, from, key, Some(value));
    }
    if let Some(value) = of_hook {
        give(evidence, &metadata(key, value));
    }
}

/// An event of a terminate hook of this instance. Without a token, it may be about any action.
fn event_of_hook(id: &str, instance: &str, hook: &str, metadata: &str, at: Moment) -> Value {
    json!({
        "version": "0", "id": id, "source": "aws.autoscaling",
        "detail-type": "EC2 Instance-terminate Lifecycle Action",
        "time": at.strftime(TIME).to_string(),
        "detail": {
            "AutoScalingGroupName": "asg", "LifecycleHookName": hook,
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
            "EC2InstanceId": instance, "NotificationMetadata": metadata,
        },
    })
}

/// What a record holds of such an event.
fn entry_of_hook(id: &str, hook: &str, time: Moment, accepted: Moment) -> Value {
    json!({
        "kind": "terminate-hook", "event": id, "time": time.strftime(TIME).to_string(),
        "accepted": accepted.to_string(), "group": "asg", "hook": hook,
    })
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_given_up_before_the_drain_timeout_of_its_node_or_hook_is_seen() {
    const EARLY: &str = "was completed before";
    let evidence = overdue().await;
    let begun = accepted(&evidence);
    let ends = |after: u64, flag: &str, of_node: Option<&str>, of_hook: Option<&str>| {
        let mut evidence = evidence.clone();
        evidence.actions[0].end.as_mut().unwrap().at = begun + s(after);
        evidence.terms.flags[0].1.push(flag.to_owned());
        set(&mut evidence, "drain-timeout", of_node, of_hook);
        judge(&evidence)
    };
    breaks(&ends(30, "", None, None), EARLY);
    keeps(&ends(30, "", Some("30s"), None), EARLY, "the Node gives it half a minute");
    keeps(&ends(30, "", None, Some("30s")), EARLY, "the hook gives it half a minute");
    breaks(&ends(30, "", Some("45s"), Some("30s")), EARLY);
    keeps(&ends(30, "", Some("20s"), Some("30s")), EARLY, "a bad annotation hides no hook");
    breaks(&ends(30, "", Some("20s"), None), EARLY);
    breaks(&ends(30, "", None, Some("20s")), EARLY);
    // The flag gives it a minute, and allows no more.
    keeps(&ends(57, "", Some("10m"), None), EARLY, "the flags do not allow it");
    keeps(&ends(57, "", None, Some("10m")), EARLY, "the flags do not allow it");
    breaks(&ends(57, "--max-drain-timeout=1h", Some("10m"), None), EARLY);
    breaks(&ends(57, "--max-drain-timeout=1h", None, Some("10m")), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_force_that_the_node_forbids_or_puts_off_is_seen_once_its_annotation_is_known() {
    const FORBIDDEN: &str = "which --force-after or a setting forbids";
    const EARLY: &str = "was deleted too early";
    // The pod has 30 s, and 110 s after the notice it must be gone: it was deleted after 80 s.
    let evidence = reclaimed().await;
    let forced = when(&evidence, |f| matches!(f, Fact::Deleted { .. }));
    let with = |value: &str, flag: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(flag.to_owned());
        set(&mut evidence, "force-after", Some(value), None);
        judge(&evidence)
    };
    breaks(&with("never", ""), FORBIDDEN);
    breaks(&with("deadline", ""), EARLY);
    breaks(&with("0.9", ""), EARLY);
    keeps(&with("0.6", ""), EARLY, "it may be deleted after 66 s");
    keeps(&with("2", ""), EARLY, "there is no such share");
    breaks(&with("0.6", "--force-after=0.9"), EARLY);
    let since = |ago: u64, until: Option<u64>| {
        let mut evidence = evidence.clone();
        annotate(&mut evidence, forced - s(ago), "force-after", Some("never"));
        if let Some(until) = until {
            annotate(&mut evidence, forced - s(until), "force-after", None);
        }
        judge(&evidence)
    };
    breaks(&since(10, None), FORBIDDEN);
    keeps(&since(2, None), FORBIDDEN, "the annotation was hardly known");
    keeps(&since(10, Some(2)), FORBIDDEN, "it is gone");
    keeps(&since(10, Some(5)), FORBIDDEN, "it has been gone for a while");
}

#[tokio::test(start_paused = true)]
async fn a_force_that_one_of_two_hooks_forbids_is_seen() {
    const FORBIDDEN: &str = "which --force-after or a setting forbids";
    let mut evidence = reclaimed().await;
    let (instance, _) = node_of(&evidence);
    let at = accepted(&evidence);
    let hooks = [("one", "drain", "never"), ("two", "drain-too", "0.6")];
    for (id, hook, share) in hooks {
        let body = event_of_hook(id, &instance, hook, &metadata("force-after", share), at);
        send(&mut evidence, &body.to_string(), at, at);
    }
    let named = |which: &[usize]| {
        let mut evidence = evidence.clone();
        edit_records(&mut evidence, |record| {
            let all = record["interruptions"].as_array_mut().unwrap();
            let of = |i: &usize| entry_of_hook(hooks[*i].0, hooks[*i].1, at, at);
            all.extend(which.iter().map(of));
        });
        judge(&evidence)
    };
    breaks(&named(&[0]), FORBIDDEN);
    keeps(&named(&[1]), FORBIDDEN, "it may be deleted after 66 s");
    // Of two hooks, the one that gives the pods more time counts.
    breaks(&named(&[0, 1]), FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_that_is_longer_or_shorter_than_a_setting_says_is_seen() {
    const GRACE: &str = "web-0 got a grace of";
    let mut evidence = hooked().await;
    evidence.terms.graces.push(("web".to_owned(), 60));
    // The pod was evicted five seconds later: AWS had confirmed the action long before.
    let evicted = |grace: u64, of_node: Option<&str>, of_hook: Option<&str>| {
        let mut evidence = evidence.clone();
        let is_evicted = |e: &&mut Entry| matches!(e.fact, Fact::Evicted { .. });
        let entry = evidence.entries.iter_mut().find(is_evicted).unwrap();
        entry.at = entry.at + s(5);
        if let Fact::Evicted { grace: given, .. } = &mut entry.fact {
            *given = grace;
        }
        set(&mut evidence, "max-grace-period", of_node, of_hook);
        evidence
    };
    keeps(&judge(&evicted(60, None, None)), GRACE, "it has a minute of its own");
    breaks(&judge(&evicted(40, None, None)), GRACE);
    keeps(&judge(&evicted(40, Some("40s"), None)), GRACE, "the Node allows no more");
    breaks(&judge(&evicted(60, Some("40s"), None)), GRACE);
    keeps(&judge(&evicted(40, None, Some("40s"))), GRACE, "the hook allows no more");
    keeps(&judge(&evicted(60, Some("2m"), None)), GRACE, "its own is shorter");
    keeps(&judge(&evicted(60, Some("10s"), None)), GRACE, "a setting of less than 30 s is bad");
    breaks(&judge(&evicted(10, Some("10s"), None)), GRACE);
    breaks(&judge(&evicted(60, None, Some("40s"))), GRACE);
    let mut unconfirmed = evicted(60, None, Some("40s"));
    unconfirmed.calls.retain(|c| c.api != "autoscaling:RecordLifecycleActionHeartbeat");
    keeps(&judge(&unconfirmed), GRACE, "an event alone shortens nothing");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_completed_later_than_a_setting_delays_it_is_seen() {
    const LATE: &str = "was completed late";
    let mut evidence = hooked().await;
    let end = evidence.actions[0].end.as_mut().unwrap();
    end.at = end.at + s(30);
    let at = end.at;
    longer(&mut evidence, at + s(10));
    let with = |of_node: Option<&str>, of_hook: Option<&str>| {
        let mut evidence = evidence.clone();
        set(&mut evidence, "complete-delay", of_node, of_hook);
        judge(&evidence)
    };
    breaks(&with(None, None), LATE);
    keeps(&with(Some("30s"), None), LATE, "the Node asks for it");
    keeps(&with(None, Some("30s")), LATE, "the hook asks for it");
    breaks(&with(Some("20s"), None), LATE);
    breaks(&with(None, Some("20s")), LATE);
    breaks(&with(Some("20s"), Some("30s")), LATE);
    keeps(&with(Some("2h"), Some("30s")), LATE, "a bad annotation hides no hook");
    breaks(&with(Some("2h"), None), LATE);
    let removed = |ago: u64| {
        let mut evidence = evidence.clone();
        set(&mut evidence, "complete-delay", Some("30s"), None);
        annotate(&mut evidence, at - s(ago), "complete-delay", None);
        judge(&evidence)
    };
    keeps(&removed(2), LATE, "it was hardly known that the annotation is gone");
    breaks(&removed(10), LATE);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_while_no_setting_delays_the_completion_is_waited_for() {
    const EARLY: &str = "was completed before";
    let mut evidence = hooked().await;
    let (_, node) = node_of(&evidence);
    let end = evidence.actions[0].end.as_mut().unwrap();
    end.at = end.at + s(30);
    let at = end.at;
    longer(&mut evidence, at + s(10));
    evidence.calls.retain(|c| c.api != "autoscaling:CompleteLifecycleAction");
    let pod = PodRef {
        namespace: "load".into(),
        name: "agent-0".into(),
        uid: "uid-of-agent-0".into(),
        node,
    };
    insert(&mut evidence, at - s(5), "<foreign-daemonset>", Fact::Bound(pod));
    let with = |of_node: Option<&str>, of_hook: Option<&str>| {
        let mut evidence = evidence.clone();
        set(&mut evidence, "complete-delay", of_node, of_hook);
        judge(&evidence)
    };
    breaks(&with(None, None), EARLY);
    keeps(&with(Some("30s"), None), EARLY, "it came in the delay that the Node gives");
    keeps(&with(None, Some("30s")), EARLY, "it came in the delay that the hook gives");
    breaks(&with(Some("0s"), Some("30s")), EARLY);
}

const HEARTBEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";

/// A hook was drained. Its record and its evictions are left out, and another pod was on its node.
async fn with_a_slow_pod() -> (Evidence, PodRef) {
    let mut evidence = hooked().await;
    let (_, node) = node_of(&evidence);
    let (begun, ended) = (evidence.begun, evidence.actions[0].started + s(65));
    longer(&mut evidence, ended);
    evidence.entries.retain(|e| !matches!(e.fact, Fact::Annotated { .. } | Fact::Evicted { .. }));
    evidence.requests.retain(|r| (r.verb.as_str(), r.resource.as_str()) != ("patch", "nodes"));
    let pod = PodRef {
        namespace: "load".into(),
        name: "slow-0".into(),
        uid: "uid-of-slow-0".into(),
        node,
    };
    insert(&mut evidence, begun, "<scheduler>", Fact::Bound(pod.clone()));
    (evidence, pod)
}

/// An event about the action with this token is accepted then. It says that the drain may take no
/// longer than half a minute.
fn shorten(evidence: &mut Evidence, token: &str, at: Moment) {
    let (instance, node) = node_of(evidence);
    let short = metadata("drain-timeout", "30s");
    let mut body = event_of_hook("one-more", &instance, "drain", &short, at);
    body["detail"]["LifecycleActionToken"] = json!(token);
    send(evidence, &body.to_string(), at, at);
    let mut entry = entry_of_hook("one-more", "drain", at, at);
    entry["token"] = json!(token);
    let record = json!({ "version": 1, "instance": instance, "interruptions": [entry] });
    let page = Fact::Annotated {
        node,
        provider_id: format!("aws:///eu-west-1a/{instance}"),
        annotations: [(RECORD.to_owned(), record.to_string())].into(),
    };
    insert(evidence, at, US, page);
}

#[tokio::test(start_paused = true)]
async fn a_grace_by_the_flag_after_aws_has_confirmed_a_shorter_drain_timeout_is_seen() {
    const GRACE: &str = "slow-0 got a grace of";
    let (mut evidence, pod) = with_a_slow_pod().await;
    evidence.terms.drain_timeout = 60;
    let sent = evidence.actions[0].started + s(5);
    let token = evidence.actions[0].token.clone();
    shorten(&mut evidence, &token, sent);
    let mut successes = evidence.calls.iter().filter(|c| c.outcome == Outcome::Ok);
    let heartbeat = successes.find(|c| c.api == HEARTBEAT).unwrap().clone();
    evidence.calls.retain(|c| c.api != HEARTBEAT);
    let with = |grace: u64, confirmed_after: Option<u64>| {
        let mut evidence = evidence.clone();
        let forced = Fact::Deleted { pod: pod.clone(), grace, again: false, overrun: Vec::new() };
        insert(&mut evidence, sent + s(30), US, forced);
        let confirmed = confirmed_after.map(|after| sent + s(after));
        evidence.calls.extend(confirmed.map(|at| Call { at, ..heartbeat.clone() }));
        judge(&evidence)
    };
    // By the flag, its pods are to be gone after 55 s, and by the hook after 25 s.
    keeps(&with(25, None), GRACE, "AWS has not confirmed the action");
    breaks(&with(25, Some(1)), GRACE);
    keeps(&with(22, Some(27)), GRACE, "the time of the hook had passed before AWS confirmed it");
    breaks(&with(22, Some(20)), GRACE);
    breaks(&with(22, None), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_force_by_the_short_drain_timeout_of_an_event_that_names_no_action_is_seen() {
    const EARLY: &str = "slow-0 was deleted too early";
    let (mut evidence, pod) = with_a_slow_pod().await;
    let sent = evidence.actions[0].started + s(5);
    let token = evidence.actions[0].token.clone();
    let forced = Fact::Deleted { pod, grace: 5, again: false, overrun: Vec::new() };
    insert(&mut evidence, sent + s(20), US, forced);
    // Only an event says that the drain may take no longer than half a minute.
    let with = |token: &str, is_confirmed: bool| {
        let mut evidence = evidence.clone();
        shorten(&mut evidence, token, sent);
        if !is_confirmed {
            evidence.calls.retain(|c| c.api != HEARTBEAT);
        }
        judge(&evidence)
    };
    keeps(&with(&token, true), EARLY, "AWS has confirmed the action");
    breaks(&with("00000000-0000-4000-8000-000000000009", false), EARLY);
}

/// An Event reported then that a setting is ignored.
fn report_ignored(evidence: &mut Evidence, at: Moment) {
    let accepted = evidence.events.iter().find(|e| e.reason == "InterruptionAccepted");
    let mut event = accepted.unwrap().clone();
    (event.reason, event.severity) = ("SettingsIgnored".to_owned(), "Warning".to_owned());
    (event.first, event.last) = (at, at);
    evidence.events.insert(event);
}

const IGNORED: &str = "an Event is not true: Event { reason: \"SettingsIgnored\"";

#[tokio::test(start_paused = true)]
async fn an_event_that_a_good_annotation_is_ignored_is_seen_and_one_of_a_bad_annotation_is_true() {
    let evidence = hooked().await;
    let begun = accepted(&evidence);
    let with = |key: &str, value: &str, flag: &str, after: u64| {
        let mut evidence = evidence.clone();
        evidence.terms.flags[0].1.push(flag.to_owned());
        set(&mut evidence, key, Some(value), None);
        report_ignored(&mut evidence, begun + s(after));
        judge(&evidence)
    };
    breaks(&with("keep-cordoned", "true", "", 2), IGNORED);
    for (key, value) in [
        ("drain-timeout", "5m"),
        ("force-after", "never"),
        ("force-after", "deadline"),
        ("force-after", "0.5"),
        ("max-grace-period", "1m"),
        ("complete-delay", "0s"),
    ] {
        breaks(&with(key, value, "", 2), IGNORED);
    }
    for (key, value) in [
        ("drain-timeout", "soon"),
        ("drain-timeout", "29s"),
        ("drain-timeout", "49h"),
        ("force-after", "2"),
        ("max-grace-period", "-1s"),
        ("complete-delay", "9"),
        ("complete-delay", "2h"),
    ] {
        keeps(&with(key, value, "", 2), IGNORED, value);
    }
    let allowed = |key: &str, value: &str, flag: &str| with(key, value, flag, 2);
    keeps(&allowed("force-after", "0.1", ""), IGNORED, "a pod has half of the time");
    breaks(&allowed("force-after", "0.1", "--force-after=0"), IGNORED);
    keeps(&allowed("drain-timeout", "2h", "--drain-timeout=1h"), IGNORED, "the flag is shorter");
    breaks(&allowed("drain-timeout", "2h", "--drain-timeout=3h"), IGNORED);
    keeps(&allowed("drain-timeout", "2h", "--max-drain-timeout=1h"), IGNORED, "so is this one");
    keeps(&with("drain-timeout", "30s", "", 31), IGNORED, "it had passed");
    breaks(&with("drain-timeout", "1m", "", 31), IGNORED);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_a_good_setting_of_a_hook_is_ignored_is_seen_and_one_of_bad_metadata_is_true()
{
    let evidence = hooked().await;
    let begun = accepted(&evidence);
    let with = |metadata: &str| {
        let mut evidence = evidence.clone();
        give(&mut evidence, metadata);
        report_ignored(&mut evidence, begun + s(2));
        judge(&evidence)
    };
    for good in [
        "owner=search",
        r#"{"team":"search"}"#,
        r#"{"sundown":{"drain-timeout":"5m","complete-delay":"10s"}}"#,
        r#"{"sundown":{"force-after":"0.8"},"team":"search"}"#,
        r#"{"sundown":{"force-after":0.8}}"#,
    ] {
        breaks(&with(good), IGNORED);
    }
    for bad in [
        r#"{"sundown":"#,
        r#"{"sundown":"fast"}"#,
        r#"{"sundown":{"speed":"fast"}}"#,
        r#"{"sundown":{"drain-timeout":"5s"}}"#,
        r#"{"sundown":{"drain-timeout":true}}"#,
        r#"{"sundown":{"drain-timeout":"soon","max-grace-period":"50s"}}"#,
    ] {
        keeps(&with(bad), IGNORED, bad);
    }
    // A bad annotation is gone at the accept.
    let after = |seconds: u64| {
        let mut evidence = evidence.clone();
        annotate(&mut evidence, begun - s(1), "drain-timeout", Some("soon"));
        annotate(&mut evidence, begun, "drain-timeout", None);
        report_ignored(&mut evidence, begun + s(seconds));
        longer(&mut evidence, begun + s(90));
        judge(&evidence)
    };
    keeps(&after(50), IGNORED, "its call may have been tried again for a while");
    breaks(&after(70), IGNORED);
}
