//! What sets a deadline, and what does not.

use serde_json::json;
use sundown::sim::aws::{Call, InstanceChange, Outcome, State};

use super::*;

const EARLY: &str = "was deleted too early";

/// Changes the first interruption of each record.
fn edit_first(evidence: &mut Evidence, change: impl Fn(&mut Value)) {
    edit_records(evidence, |record| change(&mut record["interruptions"][0]));
}

#[tokio::test(start_paused = true)]
async fn a_force_on_account_of_what_waits_for_its_proof_is_seen() {
    let mut evidence = reclaimed().await;
    keeps(&judge(&evidence), EARLY, "a spot notice rules");
    edit_first(&mut evidence, |entry| entry["stale"] = json!(true));
    breaks(&judge(&evidence), EARLY);
    let forced = when(&evidence, |f| matches!(f, Fact::Deleted { .. }));
    let id = node_of(&evidence).0;
    evidence.changes.push(InstanceChange { id, state: State::ShuttingDown, at: forced - s(1) });
    keeps(&judge(&evidence), EARLY, "it is proved");
}

#[tokio::test(start_paused = true)]
async fn a_force_on_account_of_what_was_over_at_its_accept_is_seen() {
    let mut evidence = reclaimed().await;
    let sent = (accepted(&evidence) - s(130)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    edit_bodies(&mut evidence, |body| body["time"] = json!(sent));
    edit_first(&mut evidence, |entry| entry["time"] = json!(sent));
    breaks(&judge(&evidence), EARLY);
}

/// A pod with 30 s of its own is deleted with as many at `at`, whether a person has ordered to force
/// its drain a second after the accept or not.
fn forced_in_full(evidence: &Evidence, at: Moment, by_hand: bool) -> Vec<String> {
    let mut evidence = evidence.clone();
    let (begun, from) = (evidence.begun, accepted(&evidence) + s(1));
    if by_hand {
        let is_written = |e: &&Entry| matches!(e.fact, Fact::Annotated { .. }) && e.at <= from;
        let mut order = evidence.entries.iter().rfind(is_written).unwrap().fact.clone();
        if let Fact::Annotated { annotations, .. } = &mut order {
            annotations.insert("sundown.dev/force".to_owned(), "true".to_owned());
        }
        insert(&mut evidence, from, "kubectl", order);
    }
    let pod = PodRef {
        namespace: "load".into(),
        name: "slow-0".into(),
        uid: "uid-of-slow-0".into(),
        node: node_of(&evidence).1,
    };
    insert(&mut evidence, begun, "<scheduler>", Fact::Bound(pod.clone()));
    let forced = Fact::Deleted { pod, grace: 30, again: false, overrun: Vec::new() };
    insert(&mut evidence, at, "sundown-0", forced);
    judge(&evidence)
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_past_the_deadline_is_seen_unless_only_a_person_forces_the_drain() {
    const GRACE: &str = "slow-0 got a grace of 30 s";
    let evidence = reclaimed().await;
    let at = accepted(&evidence);
    // The notice came so long before its accept that its deadline is then.
    let before = s(120).saturating_sub(evidence.terms.margin("spot"));
    let noticed = |later: u64| {
        let mut evidence = evidence.clone();
        let sent = (at - before + s(later)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        edit_bodies(&mut evidence, |body| body["time"] = json!(sent));
        edit_first(&mut evidence, |entry| entry["time"] = json!(sent));
        evidence
    };
    keeps(&forced_in_full(&noticed(0), at + s(5), true), GRACE, "the deadline was over");
    breaks(&forced_in_full(&noticed(0), at + s(5), false), GRACE);
    breaks(&forced_in_full(&noticed(8), at + s(5), true), GRACE);
    breaks(&forced_in_full(&noticed(8), at + s(5), false), GRACE);
    // The deadline passes in a pause.
    let paused = |from: u64, to: u64| {
        let mut evidence = noticed(8);
        evidence.pauses = vec![(at + s(from), at + s(to))];
        evidence
    };
    keeps(&forced_in_full(&paused(3, 12), at + s(14), true), GRACE, "it was over at the end");
    breaks(&forced_in_full(&paused(3, 12), at + s(14), false), GRACE);
    breaks(&forced_in_full(&paused(3, 4), at + s(14), true), GRACE);
    // Without a notice that still counts, the drain only ends.
    let mut ended = noticed(0);
    let long_ago = (at - s(130)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    edit_bodies(&mut ended, |body| body["time"] = json!(long_ago));
    edit_first(&mut ended, |entry| entry["time"] = json!(long_ago));
    ended.terms.drain_timeout = 60;
    keeps(&forced_in_full(&ended, at + s(45), true), GRACE, "--drain-timeout forces nothing");
    breaks(&forced_in_full(&ended, at + s(45), false), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_force_on_account_of_a_made_up_hook_is_seen_unless_aws_answered_no_heartbeat_for_it() {
    let mut evidence = hooked().await;
    evidence.entries.retain(|e| !matches!(e.fact, Fact::Annotated { .. } | Fact::Evicted { .. }));
    evidence.calls.retain(|c| !c.api.ends_with("Heartbeat"));
    let (instance, node) = node_of(&evidence);
    let (begun, written) = (evidence.begun, evidence.actions[0].started + s(5));
    longer(&mut evidence, written + s(60));
    let hook = json!({
        "kind": "terminate-hook", "event": "made-up", "time": written.to_string(),
        "accepted": written.to_string(),
        "group": "asg", "hook": "drain", "token": "00000000-0000-4000-8000-000000000000",
    });
    let record = json!({ "version": 1, "instance": instance, "interruptions": [hook] });
    let annotations = [("sundown.dev/record".to_owned(), record.to_string())].into();
    let page = Fact::Annotated {
        node: node.clone(),
        provider_id: format!("aws:///eu-west-1a/{instance}"),
        annotations,
    };
    insert(&mut evidence, written, "kubectl", page);
    let pod = PodRef {
        namespace: "load".into(),
        name: "slow-0".into(),
        uid: "uid-of-slow-0".into(),
        node,
    };
    insert(&mut evidence, begun, "<scheduler>", Fact::Bound(pod.clone()));
    insert(
        &mut evidence,
        written + s(45),
        "sundown-0",
        Fact::Deleted { pod, grace: 10, again: false, overrun: Vec::new() },
    );
    let with = |after: u64, outcome: Outcome| {
        let mut evidence = evidence.clone();
        let (at, by, object) =
            (written + s(after), "sundown-0".to_owned(), format!("asg/drain/{instance}"));
        let api = "autoscaling:RecordLifecycleActionHeartbeat".to_owned();
        evidence.calls.push(Call { at, api, object, by, outcome });
        judge(&evidence)
    };
    let given_up = |of: &str| {
        let mut evidence = evidence.clone();
        evidence.disturbances.push(Disturbance {
            at: written + s(15),
            until: None,
            by: "sundown-0".to_owned(),
            what: "autoscaling:RecordLifecycleActionHeartbeat".to_owned(),
            object: format!("asg/{of}/{instance}"),
            is_silent: false,
        });
        judge(&evidence)
    };
    let error = |code: &str| Outcome::Error(code.to_owned());
    breaks(&judge(&evidence), EARLY);
    keeps(&given_up("drain"), EARLY, "AWS did not answer");
    breaks(&given_up("another"), EARLY);
    keeps(
        &with(15, error("ResourceContention")),
        EARLY,
        "nobody can know that no such action is open",
    );
    breaks(&with(15, error("ValidationError")), EARLY);
    breaks(&with(15, Outcome::Ok), EARLY);
    // A process that takes the drain over does not know what AWS answered the one before.
    let taken_over_from = |first: &str| {
        let mut evidence = evidence.clone();
        for (after, by, code) in [(15, first, "ValidationError"), (44, "sundown-0", "Throttling")] {
            let (at, by) = (written + s(after), by.to_owned());
            let api = "autoscaling:RecordLifecycleActionHeartbeat".to_owned();
            let object = format!("asg/drain/{instance}");
            evidence.calls.push(Call { at, api, object, by, outcome: error(code) });
        }
        judge(&evidence)
    };
    keeps(&taken_over_from("sundown-1"), EARLY, "its own first heartbeat failed");
    breaks(&taken_over_from("sundown-0"), EARLY);
    // An action of that hook has begun meanwhile, and AWS accepted a heartbeat for it.
    keeps(&with(4, Outcome::Ok), EARLY, "two thirds of the window that it granted are over");
    evidence.terms.heartbeat_timeouts.clear();
    breaks(&judge(&evidence), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_from_the_end_of_a_pause_is_judged_by_when_the_process_could_read_the_lease()
{
    const GRACE: &str = "s, its own is";
    let mut evidence = overdue().await;
    let at = accepted(&evidence);
    let resumed = at + s(10);
    evidence.pauses = vec![(at - s(1), resumed)];
    let pod = PodRef {
        namespace: "load".into(),
        name: "slow-0".into(),
        uid: "uid-of-slow-0".into(),
        node: node_of(&evidence).1,
    };
    let begun = evidence.begun;
    insert(&mut evidence, begun, "<scheduler>", Fact::Bound(pod.clone()));
    // From the accept, the deadline is 55 s later; from the end of the pause, as long.
    let with = |grace: u64, by: &str, until: Moment| {
        let mut evidence = evidence.clone();
        let forced = Fact::Deleted { pod: pod.clone(), grace, again: false, overrun: Vec::new() };
        insert(&mut evidence, at + s(50), "sundown-0", forced);
        evidence.disturbances.push(Disturbance {
            at: at - s(20),
            until: Some(until - s(300)),
            by: by.to_owned(),
            what: "watch leases".to_owned(),
            object: String::new(),
            is_silent: true,
        });
        judge(&evidence)
    };
    keeps(&with(15, "sundown-9", resumed), GRACE, "it saw the end of the pause at once");
    breaks(&with(18, "sundown-9", resumed), GRACE);
    keeps(&with(18, "sundown-0", resumed), GRACE, "it read the Lease some time later");
    breaks(&with(21, "sundown-0", resumed), GRACE);
    breaks(&with(18, "sundown-0", resumed - s(1)), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_force_of_a_pod_that_never_had_two_seconds_to_be_asked_is_seen_unless_awss_clock_was_measured_ahead()
 {
    const NEVER: &str = "quorum-0 was deleted and never asked to go";
    let mut evidence = reclaimed().await;
    let begun = accepted(&evidence);
    evidence.requests.retain(|r| r.subresource != "eviction" || r.name != "quorum-0");
    let forced =
        evidence.entries.iter_mut().find(|e| matches!(e.fact, Fact::Deleted { .. })).unwrap();
    forced.at = forced.at + Duration::from_millis(1_700);
    let ahead = |millis: u64| {
        let mut evidence = evidence.clone();
        let says = (begun + Duration::from_millis(millis)).to_string();
        edit_first(&mut evidence, |entry| entry["accepted"] = json!(says));
        judge(&evidence)
    };
    breaks(&ahead(0), NEVER);
    keeps(&ahead(600), NEVER, "the process took its deadline to be 0.6 s earlier");
    breaks(&ahead(100), NEVER);
    let released = |millis: u64| {
        let mut evidence = evidence.clone();
        edit_records(&mut evidence, |record| {
            let at = record["released"]["at"].as_str().and_then(|t| t.parse::<Moment>().ok());
            let says = at.map(|at| (at + Duration::from_millis(millis)).to_string());
            says.into_iter().for_each(|says| record["released"]["at"] = json!(says));
        });
        judge(&evidence)
    };
    keeps(&released(600), NEVER, "the time of the release shows the same");
    breaks(&released(100), NEVER);
    let by_another = |millis: u64| {
        let mut evidence = evidence.clone();
        let is_it = |e: &&mut Entry| matches!(e.fact, Fact::Deleted { .. });
        let forced = evidence.entries.iter_mut().find(is_it).unwrap();
        forced.at = forced.at - Duration::from_millis(millis);
        forced.by = "sundown-1".to_owned();
        judge(&evidence)
    };
    keeps(&by_another(0), NEVER, "it took the drain over, and had measured AWS's clock before");
    breaks(&by_another(1_000), NEVER);
    let by_hand = |millis: u64| {
        let mut evidence = evidence.clone();
        let is_it = |e: &&mut Entry| matches!(e.fact, Fact::Deleted { .. });
        let forced = evidence.entries.iter_mut().find(is_it).unwrap();
        forced.at = forced.at - Duration::from_millis(millis);
        edit_first(&mut evidence, |entry| entry["event"] = json!("made-up"));
        for entry in &mut evidence.entries {
            if matches!(entry.fact, Fact::Annotated { .. }) {
                entry.by = "kubectl".to_owned();
            }
        }
        judge(&evidence)
    };
    keeps(&by_hand(0), NEVER, "a person wrote the record");
    breaks(&by_hand(1_000), NEVER);
}

/// The drain of a hook without heartbeats, whose record shows no end and whose action lasts 90 s.
async fn unended() -> Evidence {
    let mut evidence = hooked().await;
    let started = evidence.actions[0].started;
    let is_released = |e: &Entry| {
        matches!(
            &e.fact, Fact::Annotated { annotations, .. } if annotations.values().any(|a| a.contains("\"released\":{"))
        )
    };
    evidence.entries.retain(|e| !is_released(e));
    evidence.calls.retain(|c| !c.api.ends_with("Heartbeat"));
    longer(&mut evidence, started + s(100));
    evidence.actions[0].end.as_mut().unwrap().at = started + s(90);
    evidence
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_by_an_assumed_window_is_seen_unless_the_process_led_again_and_its_heartbeat_failed()
 {
    const GRACE: &str = "s, its own is";
    let mut evidence = unended().await;
    let started = evidence.actions[0].started;
    let (instance, node) = node_of(&evidence);
    let pod = PodRef {
        namespace: "load".into(),
        name: "slow-0".into(),
        uid: "uid-of-slow-0".into(),
        node,
    };
    let begun = evidence.begun;
    insert(&mut evidence, begun, "<scheduler>", Fact::Bound(pod.clone()));
    let forced = Fact::Deleted { pod, grace: 5, again: false, overrun: Vec::new() };
    insert(&mut evidence, started + s(57), "sundown-0", forced);
    // The window may have begun 50 s before the heartbeat: an interval, and the time until another
    // process would have led.
    let with = |leads_again: bool, outcome: Outcome| {
        let mut evidence = evidence.clone();
        let is_between = |at: Moment| at > started + s(20) && at < started + s(52);
        if leads_again {
            evidence.requests.retain(|r| r.resource != "leases" || !is_between(r.at));
        }
        let (at, by) = (started + s(56), "sundown-0".to_owned());
        let api = "autoscaling:RecordLifecycleActionHeartbeat".to_owned();
        let object = format!("asg/drain/{instance}");
        evidence.calls.push(Call { at, api, object, by, outcome });
        judge(&evidence)
    };
    let failed = || Outcome::Error("InternalFailure".to_owned());
    keeps(&with(true, failed()), GRACE, "it cannot know who led meanwhile");
    breaks(&with(false, failed()), GRACE);
    breaks(&with(true, Outcome::Ok), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_is_measured_by_the_first_request_that_may_have_evicted_this_very_pod() {
    const GRACE: &str = "s, its own is";
    let mut evidence = overdue().await;
    let at = accepted(&evidence);
    let eviction = evidence.requests.iter().find(|r| r.subresource == "eviction").unwrap().clone();
    // Both are answered when the pod is evicted. From the accept, the deadline is 55 s later.
    let answered = at + s(40);
    for sent in [answered - s(4), answered] {
        let name = "slow-0".to_owned();
        let (answered, ended) = (Some(answered), Some(answered));
        evidence.requests.push(Request { at: sent, answered, ended, name, ..eviction.clone() });
    }
    let with = |bound: Moment, grace: u64| {
        let mut evidence = evidence.clone();
        let pod = PodRef {
            namespace: "load".into(),
            name: "slow-0".into(),
            uid: "uid-of-slow-0".into(),
            node: node_of(&evidence).1,
        };
        insert(&mut evidence, bound, "<scheduler>", Fact::Bound(pod.clone()));
        let evicted = Fact::Evicted { pod, grace, again: false, overrun: Vec::new() };
        insert(&mut evidence, answered, "sundown-0", evicted);
        judge(&evidence)
    };
    let begun = evidence.begun;
    keeps(&with(begun, 19), GRACE, "the first request evicted it, and its answer came late");
    breaks(&with(begun, 15), GRACE);
    keeps(&with(answered - s(2), 15), GRACE, "the first request was about the pod before");
    breaks(&with(answered - s(2), 19), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_force_before_the_end_of_a_window_is_seen_unless_its_heartbeat_was_sent_long_before() {
    let mut evidence = unended().await;
    let started = evidence.actions[0].started;
    let (instance, _) = node_of(&evidence);
    force(&mut evidence, started + s(50), 15);
    // AWS accepts a heartbeat 13 s after the beginning of the action.
    let with = |sent: u64| {
        let mut evidence = evidence.clone();
        let by = "sundown-0".to_owned();
        let (at, object) = (started + s(13), format!("asg/drain/{instance}"));
        let api = "autoscaling:RecordLifecycleActionHeartbeat".to_owned();
        evidence.disturbances.push(Disturbance {
            at: started + s(sent),
            until: Some(at),
            by: by.clone(),
            what: api.clone(),
            object: object.clone(),
            is_silent: false,
        });
        evidence.calls.push(Call { at, api, object, by, outcome: Outcome::Ok });
        judge(&evidence)
    };
    keeps(&with(10), EARLY, "its window may count from when it was sent");
    breaks(&with(13), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_force_after_the_heartbeat_that_granted_a_new_window_is_seen_unless_it_did_so_just_then()
{
    let mut evidence = unended().await;
    let started = evidence.actions[0].started;
    let (instance, _) = node_of(&evidence);
    force(&mut evidence, started + s(50), 15);
    // The first window lasts 60 s. AWS accepts one heartbeat.
    let with = |sent: u64, answered: u64| {
        let mut evidence = evidence.clone();
        let (by, at) = ("sundown-0".to_owned(), started + s(answered));
        let api = "autoscaling:RecordLifecycleActionHeartbeat".to_owned();
        let object = format!("asg/drain/{instance}");
        if sent < answered {
            evidence.disturbances.push(Disturbance {
                at: started + s(sent),
                until: Some(at),
                by: by.clone(),
                what: api.clone(),
                object: object.clone(),
                is_silent: false,
            });
        }
        evidence.calls.push(Call { at, api, object, by, outcome: Outcome::Ok });
        judge(&evidence)
    };
    keeps(&with(50, 50), EARLY, "its answer came at the moment of the delete");
    keeps(&with(46, 52), EARLY, "its answer had not come yet");
    breaks(&with(49, 49), EARLY);
    breaks(&with(46, 49), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_force_by_the_window_of_an_earlier_heartbeat_is_seen_unless_the_record_names_two_actions()
{
    let mut evidence = unended().await;
    let started = evidence.actions[0].started;
    let (instance, _) = node_of(&evidence);
    force(&mut evidence, started + s(50), 15);
    for after in [10, 13] {
        let (at, by) = (started + s(after), "sundown-0".to_owned());
        let api = "autoscaling:RecordLifecycleActionHeartbeat".to_owned();
        let object = format!("asg/drain/{instance}");
        evidence.calls.push(Call { at, api, object, by, outcome: Outcome::Ok });
    }
    let recorded = |f: &Fact| match f {
        Fact::Annotated { annotations, .. } => annotations.get("sundown.dev/record").cloned(),
        _ => None,
    };
    let record = evidence.entries.iter().find_map(|e| recorded(&e.fact)).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    // A person adds another action to the record.
    let with = |joins: &[&str]| {
        let (mut evidence, at) = (evidence.clone(), started + s(2));
        let mut all = record["interruptions"].as_array().unwrap().clone();
        for hook in joins {
            let mut entry = made_up_hook(at);
            entry["hook"] = json!(hook);
            all.push(entry);
        }
        write_by_hand(&mut evidence, at, &all);
        judge(&evidence)
    };
    breaks(&with(&[]), EARLY);
    keeps(&with(&["drain"]), EARLY, "the last heartbeat may be the other action's");
    breaks(&with(&["another"]), EARLY);
}

/// In this run nothing is left of the record that was written; a person wrote another one.
async fn made_up() -> Evidence {
    let mut evidence = hooked().await;
    evidence.entries.retain(|e| !matches!(e.fact, Fact::Annotated { .. } | Fact::Evicted { .. }));
    evidence
}

/// A hook that a person writes into a record.
fn made_up_hook(at: Moment) -> Value {
    json!({
        "kind": "terminate-hook", "event": "made-up", "time": at.to_string(),
        "accepted": at.to_string(),
        "group": "asg", "hook": "drain", "token": "00000000-0000-4000-8000-000000000000",
    })
}

/// A person writes a record with these hooks.
fn write_by_hand(evidence: &mut Evidence, at: Moment, hooks: &[Value]) {
    write_record(evidence, at, "kubectl", hooks);
}

/// Somebody writes a record with these interruptions.
fn write_record(evidence: &mut Evidence, at: Moment, by: &str, interruptions: &[Value]) {
    let (instance, _) = node_of(evidence);
    let record = json!({ "version": 1, "instance": instance, "interruptions": interruptions });
    annotate(evidence, at, by, [("sundown.dev/record".to_owned(), record.to_string())].into());
}

fn annotate(
    evidence: &mut Evidence,
    at: Moment,
    by: &str,
    annotations: std::collections::BTreeMap<String, String>,
) {
    let (instance, node) = node_of(evidence);
    let provider_id = format!("aws:///eu-west-1a/{instance}");
    insert(evidence, at, by, Fact::Annotated { node, provider_id, annotations });
}

/// A pod is deleted by force.
fn force(evidence: &mut Evidence, at: Moment, grace: u64) {
    let (_, node) = node_of(evidence);
    let pod = PodRef {
        namespace: "load".into(),
        name: "slow-0".into(),
        uid: "uid-of-slow-0".into(),
        node,
    };
    let begun = evidence.begun;
    insert(evidence, begun, "<scheduler>", Fact::Bound(pod.clone()));
    insert(
        evidence,
        at,
        "sundown-0",
        Fact::Deleted { pod, grace, again: false, overrun: Vec::new() },
    );
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_a_pod_is_measured_by_the_hook_that_a_person_wrote_last() {
    const GRACE: &str = "slow-0 got a grace of";
    let mut evidence = made_up().await;
    evidence.terms.drain_timeout = 40;
    let first = evidence.actions[0].started + s(5);
    longer(&mut evidence, first + s(60));
    force(&mut evidence, first + s(50), 25);
    write_by_hand(&mut evidence, first, &[made_up_hook(first)]);
    breaks(&judge(&evidence), GRACE);
    let with = |second: u64, joins: bool| {
        let (mut evidence, second) = (evidence.clone(), first + s(second));
        let old = joins.then(|| made_up_hook(first));
        let hooks: Vec<Value> = old.into_iter().chain([made_up_hook(second)]).collect();
        write_by_hand(&mut evidence, second, &hooks);
        judge(&evidence)
    };
    for joins in [false, true] {
        keeps(&with(40, joins), GRACE, "its time is over after 40 s, less a margin of 5 s");
        breaks(&with(30, joins), GRACE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_written_back_holds_each_hook_that_a_person_wrote_into_it() {
    const GRACE: &str = "slow-0 got a grace of";
    let mut evidence = made_up().await;
    evidence.terms.drain_timeout = 40;
    let first = evidence.actions[0].started + s(5);
    longer(&mut evidence, first + s(60));
    let second = first + s(10);
    let with = |joins: bool, grace: u64| {
        let mut evidence = evidence.clone();
        let old = joins.then(|| made_up_hook(first));
        let hooks: Vec<Value> = old.into_iter().chain([made_up_hook(second)]).collect();
        write_by_hand(&mut evidence, first, &[made_up_hook(first)]);
        write_by_hand(&mut evidence, second, &hooks);
        annotate(&mut evidence, second + s(2), "kubectl", [].into());
        write_record(&mut evidence, second + s(3), "sundown-0", &hooks);
        force(&mut evidence, second + s(6), grace);
        judge(&evidence)
    };
    keeps(&with(true, 19), GRACE, "the older hook leaves 40 s, less a margin of 5 s");
    breaks(&with(true, 10), GRACE);
    breaks(&with(false, 19), GRACE);
    keeps(&with(false, 29), GRACE, "the newer one leaves ten seconds more");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_notice_from_the_future_counts_from_its_receipt() {
    const GRACE: &str = "slow-0 got a grace of";
    let mut evidence = made_up().await;
    evidence.requests.retain(|r| r.verb != "patch");
    let received = evidence.actions[0].started + s(5);
    let accepted = received + s(12);
    longer(&mut evidence, accepted + s(120));
    let (instance, _) = node_of(&evidence);
    let time = (received + s(600)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "id": "e", "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2", "time": time,
        "detail": { "instance-id": instance, "instance-action": "terminate" },
    });
    send(&mut evidence, &body.to_string(), received, received);
    let entry = json!({
        "kind": "spot", "event": "e", "time": (received + s(5)).to_string(),
        "accepted": accepted.to_string(),
    });
    write_record(&mut evidence, accepted, "sundown-0", &[entry]);
    let margin = evidence.terms.margin("spot").as_secs();
    let with = |grace: u64| {
        let mut evidence = evidence.clone();
        force(&mut evidence, received + s(100), grace - margin);
        judge(&evidence)
    };
    keeps(&with(25), GRACE, "a notice is taken to be 5 s younger than its receipt at most");
    breaks(&with(32), GRACE);
    breaks(&with(18), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_by_the_api_servers_clock_is_seen_unless_aws_had_not_answered_the_process() {
    const GRACE: &str = "slow-0 got a grace of";
    let with = |evidence: &Evidence, grace: u64, has_answered: bool| {
        let mut evidence = evidence.clone();
        let accepted = evidence.actions[0].started + s(5);
        longer(&mut evidence, accepted + s(60));
        force(&mut evidence, accepted + s(10), grace);
        // AWS's clock is ten minutes ahead, and the record is in its time.
        evidence.messages.iter_mut().for_each(|m| m.sent = m.sent + s(600));
        write_by_hand(&mut evidence, accepted, &[made_up_hook(accepted + s(600))]);
        if !has_answered {
            evidence.calls.retain(|call| call.by != "sundown-0");
        }
        judge(&evidence)
    };
    let mut evidence = made_up().await;
    evidence.terms.drain_timeout = 40;
    keeps(&with(&evidence, 25, true), GRACE, "so much is left of 40 s, less a margin of 5 s");
    breaks(&with(&evidence, 30, true), GRACE);
    keeps(&with(&evidence, 30, false), GRACE, "the process takes the deadline to be far ahead");
    breaks(&with(&evidence, 20, false), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_given_up_at_a_deadline_of_an_older_one_is_seen() {
    const EARLY: &str = "was completed before";
    let mut evidence = overdue().await;
    let begun = accepted(&evidence);
    let (instance, node) = node_of(&evidence);
    let first = begun - s(20);
    evidence.actions[0].end.as_mut().unwrap().at = begun + s(30);
    let time = first.to_string();
    let ends = (begun + s(30)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "id": "e", "detail-type": "EC2 Capacity Reservation Instance Interruption Warning",
        "source": "aws.ec2", "time": time,
        "detail": { "instance-id": instance, "instance-termination-time": ends },
    });
    send(&mut evidence, &body.to_string(), first, first);
    let capacity = json!({ "kind": "capacity-reservation", "event": "e", "time": time, "accepted": time, "ends": ends });
    let with = |joins: bool| {
        let mut evidence = evidence.clone();
        let mut record = json!({ "version": 1, "instance": instance, "interruptions": [capacity] });
        if joins {
            edit_records(&mut evidence, |written| {
                written["interruptions"].as_array_mut().unwrap().push(capacity.clone());
            });
        } else {
            record["released"] = json!({ "at": time, "outcome": "released" });
        }
        let annotations = [("sundown.dev/record".to_owned(), record.to_string())].into();
        let page = Fact::Annotated {
            node: node.clone(),
            provider_id: format!("aws:///eu-west-1a/{instance}"),
            annotations,
        };
        insert(&mut evidence, first, "sundown-0", page);
        judge(&evidence)
    };
    keeps(&with(true), EARLY, "its deadline rules this drain");
    breaks(&with(false), EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_a_person_makes_up_asks_for_a_drain_whatever_on_says() {
    const EVICTED: &str = "although --on does not ask for its eviction";
    let mut evidence = hooked().await;
    evidence.terms.flags[0].1.push("--on=terminate-hook=cordon".to_owned());
    breaks(&judge(&evidence), EVICTED);
    let at = accepted(&evidence);
    evidence.entries.retain(|e| !matches!(e.fact, Fact::Annotated { .. }));
    write_by_hand(&mut evidence, at, &[made_up_hook(at)]);
    keeps(&judge(&evidence), EVICTED, "a record is taken at its word");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_counts_anew_is_seen_unless_the_process_has_just_learned_awss_clock() {
    const GRACE: &str = "slow-0 got a grace of";
    let mut evidence = made_up().await;
    evidence.terms.drain_timeout = 40;
    let at = evidence.actions[0].started + s(5);
    longer(&mut evidence, at + s(120));
    write_by_hand(&mut evidence, at, &[made_up_hook(at)]);
    // The process leads anew after the deadline.
    let held = |e: &&Entry| matches!(&e.fact, Fact::LeaseHeld { lease, .. } if lease == "sundown");
    let held = evidence.entries.iter().find(held).unwrap().clone();
    let free = Fact::LeaseHeld { lease: "sundown".to_owned(), holder: String::new() };
    insert(&mut evidence, at + s(35), &held.by, free);
    insert(&mut evidence, at + s(36), &held.by, held.fact);
    force(&mut evidence, at + s(92), 23);
    let answered = |after: u64| {
        let mut evidence = evidence.clone();
        let first = evidence.calls.iter().find(|c| c.api.starts_with("autoscaling:")).unwrap();
        let first = first.clone();
        evidence.calls.retain(|call| call.by != first.by);
        evidence.calls.push(sundown::sim::aws::Call { at: at + s(after), ..first });
        judge(&evidence)
    };
    keeps(&answered(80), GRACE, "35 s count from when AWS answered");
    breaks(&answered(70), GRACE);
    breaks(&answered(30), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_force_by_the_window_of_a_made_up_event_is_seen_unless_aws_could_not_answer_about_it() {
    const TOKEN: &str = "00000000-0000-4000-8000-000000000009";
    const HEARTBEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";
    let mut evidence = made_up().await;
    let (instance, _) = node_of(&evidence);
    let sent = evidence.actions[0].started + s(5);
    longer(&mut evidence, sent + s(60));
    evidence.calls.retain(|c| c.api != HEARTBEAT);
    evidence.requests.retain(|r| (r.verb.as_str(), r.resource.as_str()) != ("patch", "nodes"));
    let time = sent.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "version": "0", "id": "one-more", "source": "aws.autoscaling", "time": time,
        "detail-type": "EC2 Instance-terminate Lifecycle Action",
        "detail": {
            "AutoScalingGroupName": "asg", "LifecycleHookName": "drain",
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
            "EC2InstanceId": instance, "LifecycleActionToken": TOKEN,
        },
    });
    send(&mut evidence, &body.to_string(), sent, sent);
    let entry = json!({
        "kind": "terminate-hook", "event": "one-more", "time": time,
        "accepted": sent.to_string(), "group": "asg", "hook": "drain", "token": TOKEN,
    });
    write_record(&mut evidence, sent, "sundown-0", &[entry]);
    force(&mut evidence, sent + s(45), 10);
    let answers = |evidence: &Evidence, outcome: Outcome| {
        let mut evidence = evidence.clone();
        let (at, api, by) = (sent + s(15), HEARTBEAT.to_owned(), "sundown-0".to_owned());
        let object = format!("asg/drain/{instance}");
        evidence.calls.push(Call { at, api, object, by, outcome });
        judge(&evidence)
    };
    let error = |code: &str| Outcome::Error(code.to_owned());
    breaks(&judge(&evidence), EARLY);
    keeps(
        &answers(&evidence, error("ResourceContention")),
        EARLY,
        "nobody can know that no such action is open",
    );
    breaks(&answers(&evidence, error("ValidationError")), EARLY);
    // Auto Scaling began that action, for another instance.
    let mut exists = evidence.clone();
    let other = ActionReport {
        instance: "i-0123456789abcdef0".to_owned(),
        token: TOKEN.to_owned(),
        ..evidence.actions[0].clone()
    };
    exists.actions.push(other);
    breaks(&answers(&exists, error("ResourceContention")), EARLY);
}
