//! What sets a deadline, and what does not.

use serde_json::json;
use sundown::sim::aws::{InstanceChange, State};

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

#[tokio::test(start_paused = true)]
async fn a_force_of_a_pod_that_never_had_two_seconds_to_be_asked_is_seen_unless_awss_clock_was_measured_ahead() {
    const NEVER: &str = "quorum-0 was deleted and never asked to go";
    let mut evidence = reclaimed().await;
    let begun = accepted(&evidence);
    evidence.requests.retain(|r| r.subresource != "eviction" || r.name != "quorum-0");
    let forced = evidence.entries.iter_mut().find(|e| matches!(e.fact, Fact::Deleted { .. })).unwrap();
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
        "id": "e", "detail-type": "EC2 Capacity Reservation Instance Interruption Warning", "source": "aws.ec2", "time": time,
        "detail": { "instance-id": instance, "instance-termination-time": ends },
    });
    send(&mut evidence, &body.to_string(), first, first);
    let capacity = json!({ "kind": "capacity", "event": "e", "time": time, "accepted": time, "ends": ends });
    let with = |joins: bool| {
        let mut evidence = evidence.clone();
        let mut record = json!({ "version": 1, "instance": instance, "interruptions": [capacity] });
        if joins {
            edit_records(&mut evidence, |written| written["interruptions"].as_array_mut().unwrap().push(capacity.clone()));
        } else {
            record["released"] = json!({ "at": time, "outcome": "released" });
        }
        let annotations = [("sundown.dev/record".to_owned(), record.to_string())].into();
        let page = Fact::Annotated { node: node.clone(), provider_id: format!("aws:///eu-west-1a/{instance}"), annotations };
        insert(&mut evidence, first, "sundown-0", page);
        judge(&evidence)
    };
    keeps(&with(true), EARLY, "its deadline rules this drain");
    breaks(&with(false), EARLY);
}
