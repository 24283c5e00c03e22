//! Runs as a whole, what they leave alone, and pauses.

use super::*;

const US: &str = "sundown-0";

#[tokio::test(start_paused = true)]
async fn a_run_that_never_comes_to_rest_or_spins_or_panics_is_seen() {
    let evidence = hooked().await;
    let mut one = evidence.clone();
    one.restless.push("a message waits".to_owned());
    breaks(&judge(&one), "it never came to rest: a message waits");
    let mut one = evidence.clone();
    one.idle = 30;
    clean(&one, "some calls are made all the time");
    one.idle = 31;
    breaks(&judge(&one), "31 calls in a minute");
    let mut one = evidence;
    one.panics = 1;
    breaks(&judge(&one), "1 panics");
}

#[tokio::test(start_paused = true)]
async fn what_a_drain_leaves_alone_and_is_touched_is_seen() {
    let evidence = hooked().await;
    for name in ["daemon-abcde", "mirror-0", "finished-0", "tolerant-0"] {
        let mut evidence = evidence.clone();
        let evicted = evidence.entries.iter_mut().find_map(|e| {
            if let Fact::Evicted { pod, .. } = &mut e.fact { Some(pod) } else { None }
        });
        evicted.unwrap().name = name.to_owned();
        breaks(&judge(&evidence), &format!("{name} was touched"));
        breaks(&judge_any(&evidence, &[]), &format!("{name} was touched"));
    }
    let mut evidence = evidence;
    let grace = evidence.entries.iter_mut().find_map(|e| {
        if let Fact::Evicted { grace, .. } = &mut e.fact { Some(grace) } else { None }
    });
    *grace.unwrap() = 0;
    breaks(&judge(&evidence), "web-0 got no grace");
    breaks(&judge_any(&evidence, &[]), "web-0 got no grace");
    let evicted = when(&evidence, |f| matches!(f, Fact::Evicted { .. }));
    let finished = |at: Moment| {
        let mut evidence = evidence.clone();
        evidence.entries.iter_mut().find(|e| matches!(e.fact, Fact::PodFinished(_))).unwrap().at =
            at;
        judge(&evidence)
    };
    keeps(&finished(evicted), "grace of 0 s", "a pod that has finished needs none");
    keeps(&finished(evicted), "got no grace", "a pod that has finished needs none");
    breaks(&finished(evicted - s(5)), "web-0 got no grace");
    let blind = |by: &str| {
        let mut evidence = evidence.clone();
        evidence.entries.iter_mut().find(|e| matches!(e.fact, Fact::PodFinished(_))).unwrap().at =
            evicted - s(5);
        let (by, what, object) = (by.to_owned(), "watch pods".to_owned(), String::new());
        let (at, until) = (evicted - s(6), Some(evicted));
        evidence.disturbances.push(Disturbance { at, until, by, what, object, is_silent: false });
        judge(&evidence)
    };
    keeps(&blind(US), "got no grace", "the process could not see that the pod had finished");
    breaks(&blind("sundown-1"), "web-0 got no grace");
    let others: Vec<_> =
        evidence.entries.iter().map(|e| Entry { by: "kubectl".to_owned(), ..e.clone() }).collect();
    keeps(
        &judge_any(&Evidence { entries: others, ..evidence }, &[]),
        "got no grace",
        "others may do what they like",
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_asked_again_while_it_leaves_in_time_is_seen() {
    let mut evidence = hooked().await;
    let first =
        evidence.entries.iter().find(|e| matches!(e.fact, Fact::Evicted { .. })).unwrap().clone();
    let Fact::Evicted { pod, grace, overrun, .. } = first.fact else { panic!() };
    let again =
        |grace| Fact::Evicted { pod: pod.clone(), grace, again: true, overrun: overrun.clone() };
    let mut late = evidence.clone();
    insert(&mut evidence, first.at + s(1), US, again(grace));
    breaks(&judge(&evidence), "asked again");
    evidence.terms.calm = false;
    keeps(&judge(&evidence), "asked again", "an answer may have been lost");
    late.terms.drain_timeout = 25;
    insert(&mut late, first.at + s(1), US, again(10));
    keeps(&judge(&late), "asked again", "it would have outlived its deadline");
}

#[tokio::test(start_paused = true)]
async fn trouble_that_comes_after_a_pause_was_known_excuses_no_removal() {
    let mut evidence = reclaimed().await;
    let forced = when(&evidence, |f| matches!(f, Fact::Deleted { .. }));
    evidence.pauses = vec![(forced - s(20), evidence.ended)];
    fault(&mut evidence, "watch nodes", forced - s(21), forced + s(1));
    clean(&evidence, "nobody could know");
    evidence.disturbances.clear();
    fault(&mut evidence, "watch nodes", forced - s(10), forced + s(1));
    breaks(&judge(&evidence), "has been paused since");
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_was_sent_before_a_pause_is_excused_and_one_that_was_sent_in_it_is_seen() {
    let mut evidence = reclaimed().await;
    let forced = when(&evidence, |f| matches!(f, Fact::Deleted { .. }));
    evidence.pauses = vec![(forced - s(6), evidence.ended)];
    let is_it =
        |r: &Request| r.verb == "delete" && r.resource == "pods" && r.answered == Some(forced);
    let i = evidence.requests.iter().position(is_it).unwrap();
    evidence.requests[i].at = forced - s(3);
    breaks(&judge(&evidence), "has been paused since");
    evidence.requests[i].at = forced - s(7);
    keeps(&judge(&evidence), "has been paused since", "no call takes it back");
}

#[tokio::test(start_paused = true)]
async fn a_removal_while_a_deleted_record_cannot_be_written_back_is_excused_once() {
    const CLOSED: &str = "which has no open record";
    let mut evidence = reclaimed().await;
    let forced = when(&evidence, |f| matches!(f, Fact::Deleted { .. }));
    let is_record = |f: &Fact| {
        matches!(
            f, Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    };
    let written = evidence.entries.iter().find(|e| is_record(&e.fact)).unwrap().fact.clone();
    let Fact::Annotated { node, .. } = &written else { panic!() };
    let node = node.clone();
    let mut deleted = written.clone();
    if let Fact::Annotated { annotations, .. } = &mut deleted {
        annotations.remove("sundown.dev/record");
    }
    insert(&mut evidence, forced - s(4), "kubectl", deleted.clone());
    breaks(&judge(&evidence), CLOSED);
    let failing = |by: &str, what: &str, object: &str| {
        let (at, by, what, object) =
            (forced - s(4), by.to_owned(), what.to_owned(), object.to_owned());
        Disturbance { at, until: Some(at), by, what, object, is_silent: false }
    };
    for other in [
        failing("sundown-1", "patch nodes", &node),
        failing(US, "patch nodes", "another"),
        failing(US, "create events", ""),
        failing("sundown-1", "watch nodes", ""),
        failing(US, "watch pods", ""),
    ] {
        breaks(&judge(&Evidence { disturbances: vec![other], ..evidence.clone() }), CLOSED);
    }
    evidence.disturbances = vec![failing(US, "patch nodes", &node)];
    keeps(&judge(&evidence), CLOSED, "it could not be written back");
    let unseen = vec![failing(US, "watch nodes", "")];
    let unseen = Evidence { disturbances: unseen, ..evidence.clone() };
    keeps(&judge(&unseen), CLOSED, "the process could not see the deletion");
    // It was deleted and written back before: the second deletion ends the drain.
    insert(&mut evidence, forced - s(8), "kubectl", deleted);
    insert(&mut evidence, forced - s(7), US, written);
    breaks(&judge(&evidence), CLOSED);
    evidence.disturbances = vec![failing(US, "watch nodes", "")];
    keeps(&judge(&evidence), CLOSED, "the process could not see the second deletion");
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_outlasts_its_drain_is_seen_if_the_end_was_known_when_it_was_sent() {
    const CLOSED: &str = "which has no open record";
    let mut evidence = hooked().await;
    let is_released = |f: &Fact| match f {
        Fact::Annotated { annotations, .. } => {
            annotations.get("sundown.dev/record").is_some_and(|r| r.contains("\"released\":{"))
        }
        _ => false,
    };
    let (released, start) = (when(&evidence, is_released), accepted(&evidence));
    let late = released + s(5);
    let evicted =
        evidence.entries.iter().find(|e| matches!(e.fact, Fact::Evicted { .. })).unwrap().clone();
    let request = evidence.requests.iter().find(|r| r.subresource == "eviction").unwrap().clone();
    insert(&mut evidence, late, US, evicted.fact);
    let sent = |evidence: &Evidence, at: Moment| {
        let mut evidence = evidence.clone();
        evidence.requests.push(Request { at, answered: Some(late), ..request.clone() });
        judge(&evidence)
    };
    breaks(&sent(&evidence, released + s(3)), CLOSED);
    keeps(
        &sent(&evidence, released - s(2)),
        CLOSED,
        "the node emptied at a time that nobody could know",
    );
    edit_records(&mut evidence, |record| {
        if !record["released"].is_null() {
            record["released"]["outcome"] = "deadline".into();
        }
    });
    // A drain ends two seconds before its deadline.
    evidence.terms.drain_timeout =
        u64::try_from(released.duration_since(start).as_secs()).unwrap() + 2;
    breaks(&sent(&evidence, released - s(2)), CLOSED);
}
