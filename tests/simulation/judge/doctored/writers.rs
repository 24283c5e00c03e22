//! One writer at a time.

use sundown::sim::{
    aws::{Call, Outcome},
    kube::Request,
};

use super::*;

const US: &str = "sundown-0";
const OTHER: &str = "sundown-1";
const BEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";

/// From then on another process holds the Lease.
fn taken_over(evidence: &Evidence, at: Moment, holder: &str, by: &str) -> Evidence {
    let mut evidence = evidence.clone();
    insert(
        &mut evidence,
        at,
        by,
        Fact::LeaseHeld { lease: "sundown".to_owned(), holder: holder.to_owned() },
    );
    evidence
}

#[tokio::test(start_paused = true)]
async fn a_write_while_another_process_holds_the_lease_is_seen() {
    const SENT: &str = "without the Lease";
    let evidence = hooked().await;
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    let just_before = evicted - Duration::from_millis(1);
    let broken = judge(&taken_over(&evidence, just_before, "pod-of-another", OTHER));
    breaks(&broken, "sundown-0 sent `create pods/eviction web-0` without the Lease");
    breaks(&broken, "the eviction of web-0 by sundown-0 took effect without the Lease");
    breaks(&broken, "sundown-0 completed asg/drain/");
    keeps(
        &judge(&taken_over(&evidence, evidence.ended, "pod-of-another", OTHER)),
        SENT,
        "it has done its work",
    );
    breaks(&judge(&taken_over(&evidence, just_before, "", US)), SENT);
    // A thief is found out at the next renewal.
    let stolen = taken_over(&evidence, just_before, "thief", "<scenario>");
    keeps(&judge(&stolen), "the eviction of web-0", "it cannot know yet");
    breaks(&judge(&stolen), "sundown-0 completed asg/drain/");
    let mut before = evidence.clone();
    before.entries.retain(|e| !matches!(e.fact, Fact::LeaseHeld { .. }));
    breaks(&judge(&before), SENT);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_a_standby_writes_is_seen() {
    let mut evidence = hooked().await;
    let at = evidence.ended - s(1);
    let mut event = evidence.requests.iter().find(|r| r.resource == "events").unwrap().clone();
    event.at = at;
    let by = |client: &str| Request { client: client.to_owned(), ..event.clone() };
    evidence.requests.push(by(US));
    clean(&evidence, "the leader may");
    evidence.requests.push(by(OTHER));
    breaks(&judge(&evidence), "sundown-1 sent `create events/");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_of_a_process_that_does_not_lead_is_seen_unless_it_led_and_cannot_know() {
    const NEVER: &str = "had never led";
    const ANOTHER: &str = "while another process led";
    let evidence = hooked().await;
    let (instance, _) = node_of(&evidence);
    let end = evidence.actions[0].end.as_ref().unwrap().at;
    let heartbeat = |by: &str, at: Moment, from: &Evidence| {
        let mut evidence = from.clone();
        let object = format!("asg/drain/{instance}");
        evidence.calls.push(Call {
            at,
            api: BEAT.to_owned(),
            object,
            by: by.to_owned(),
            outcome: Outcome::Ok,
        });
        evidence
    };
    breaks(&judge(&heartbeat(OTHER, end, &evidence)), NEVER);
    keeps(&judge(&heartbeat(US, end, &evidence)), NEVER, "it leads");
    let mut later = taken_over(&evidence, end, "pod-of-another", OTHER);
    later.ended = end + s(60);
    keeps(&judge(&heartbeat(US, end + s(10), &later)), ANOTHER, "it has not seen that yet");
    let goes_on_with_heartbeats = heartbeat(US, end + s(20), &later);
    breaks(&judge(&goes_on_with_heartbeats), ANOTHER);
    let mut cut_off = goes_on_with_heartbeats;
    fault(&mut cut_off, "watch leases", end, end + s(20));
    keeps(&judge(&cut_off), ANOTHER, "it could not see the Lease");
    let mut long_well = heartbeat(US, end + s(50), &later);
    fault(&mut long_well, "watch leases", end, end + s(20));
    breaks(&judge(&long_well), ANOTHER);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_a_process_whose_lease_has_expired_is_seen() {
    const SENT: &str = "without the Lease";
    let mut evidence = hooked().await;
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    evidence.requests.retain(|r| r.resource != "leases" || r.at <= evicted);
    breaks(&judge(&evidence), "sundown-0 sent `patch nodes/");
    let after = |flags: &[&str]| {
        let mut evidence = evidence.clone();
        // The drain went on for longer than the Lease lasted.
        let end = evicted + s(12);
        let is_late = |e: &&mut Entry| e.at > evicted && matches!(e.fact, Fact::NodeChanged(_));
        evidence.entries.iter_mut().filter(is_late).for_each(|e| e.at = end);
        evidence.requests.iter_mut().filter(|r| r.at > evicted).for_each(|r| r.at = evicted);
        evidence.calls.retain(|c| c.at <= evicted);
        evidence.terms.flags =
            vec![("sundown".to_owned(), flags.iter().map(|f| (*f).to_owned()).collect())];
        judge(&evidence)
    };
    keeps(
        &after(&[]),
        SENT,
        "what was sent in time may have its effect until another one may lead",
    );
    breaks(
        &after(&["--lease-duration=9s", "--lease-renew-deadline=4s"]),
        "took effect without the Lease",
    );
}

#[tokio::test(start_paused = true)]
async fn a_thief_is_found_out_within_the_renew_deadline_that_is_set() {
    let mut evidence = hooked().await;
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    led_from_the_beginning(&mut evidence);
    let stolen = taken_over(&evidence, evicted - s(5), "thief", "<scenario>");
    keeps(&judge(&stolen), "the eviction of web-0", "it cannot know yet");
    let mut short = stolen;
    short.terms.flags = vec![("sundown".to_owned(), vec!["--lease-renew-deadline=4s".to_owned()])];
    breaks(&judge(&short), "the eviction of web-0");
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_thief_is_found_out_may_have_its_effect_until_the_lease_expires() {
    const DONE: &str = "the eviction of web-0 by sundown-0 took effect without the Lease";
    const SENT: &str = "sundown-0 sent `create pods/eviction web-0` without the Lease";
    let mut evidence = hooked().await;
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    led_from_the_beginning(&mut evidence);
    evidence.terms.flags =
        vec![("sundown".to_owned(), vec!["--lease-renew-deadline=4s".to_owned()])];
    // The API server took some seconds for the eviction. 5 s before its effect somebody took the
    // Lease.
    let stolen = taken_over(&evidence, evicted - s(5), "thief", "<scenario>");
    let sent_at = |at: Moment| {
        let mut evidence = stolen.clone();
        let is_eviction = |r: &&mut Request| r.subresource == "eviction" && r.name == "web-0";
        evidence.requests.iter_mut().filter(is_eviction).for_each(|r| r.at = at);
        evidence
    };
    let in_time = sent_at(evicted - s(2));
    keeps(&judge(&in_time), DONE, "it could not know of the thief when it sent the eviction");
    breaks(&judge(&sent_at(evicted - Duration::from_millis(500))), DONE);
    breaks(&judge(&sent_at(evicted - Duration::from_millis(500))), SENT);
    let mut answered = in_time.clone();
    let is_eviction = |r: &&mut Request| r.subresource == "eviction" && r.name == "web-0";
    answered.requests.iter_mut().filter(is_eviction).for_each(|r| r.answered = Some(r.at));
    breaks(&judge(&answered), DONE);
    let another = taken_over(&in_time, evicted - s(1), "pod-of-another", OTHER);
    breaks(&judge(&another), DONE);
    let mut expired = in_time;
    expired.requests.retain(|r| r.resource != "leases" || r.at <= evicted - s(16));
    breaks(&judge(&expired), DONE);
}
