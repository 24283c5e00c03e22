#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use serde_json::{Value, json};

use super::*;
use crate::cluster::fake::{Fake, Fault, settle, status};

fn about_node(message: &str) -> EventNote {
    EventNote {
        about: About::Node("ip-10-0-0-1.ec2.internal".into()),
        severity: Severity::Normal,
        reason: EventReason::Drained,
        message: message.to_owned(),
    }
}

fn recorder(fake: &Fake, waiting: usize) -> Recorder {
    Recorder::start(
        &fake.cluster(),
        RecorderSettings {
            waiting,
            instance: "sundown-0".to_owned(),
            ..RecorderSettings::default()
        },
    )
}

#[tokio::test(start_paused = true)]
async fn an_event_about_a_node_is_where_kubectl_describe_looks() {
    let fake = Fake::default();
    let recorder = recorder(&fake, 10);
    recorder.note(about_node("30 pods left in 41 s"));
    let pod =
        About::Pod(PodKey { namespace: "web".into(), name: "web-1".to_owned() }, "uid-1".into());
    recorder.note(EventNote {
        about: pod,
        severity: Severity::Warning,
        reason: EventReason::Forced,
        message: "é".repeat(2000),
    });
    assert!(recorder.flush(Duration::from_secs(1)).await);
    let seen = fake.seen();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.as_str()),
        ("POST", "/api/v1/namespaces/default/events")
    );
    let body = &seen[0].body;
    assert_eq!(
        body["involvedObject"],
        json!({
            "apiVersion": "v1", "kind": "Node", "name": "ip-10-0-0-1.ec2.internal",
            "uid": "ip-10-0-0-1.ec2.internal"
        })
    );
    assert!(body["metadata"]["name"].as_str().unwrap().starts_with("ip-10-0-0-1.ec2.internal."));
    assert_eq!(
        (&body["type"], &body["reason"], &body["count"]),
        (&json!("Normal"), &json!("Drained"), &json!(1))
    );
    assert_eq!(
        (&body["source"]["component"], &body["reportingComponent"]),
        (&json!("sundown"), &json!("sundown"))
    );
    assert_eq!(body["firstTimestamp"], json!("2026-01-01T00:00:00Z"));
    assert_eq!(seen[1].path, "/api/v1/namespaces/web/events");
    assert_eq!(seen[1].body["involvedObject"]["uid"], json!("uid-1"));
    assert_eq!(seen[1].body["message"].as_str().unwrap().len(), 1024);
}

#[tokio::test(start_paused = true)]
async fn equal_events_are_one_with_a_count() {
    let fake = Fake::default();
    let recorder = recorder(&fake, 10);
    for _ in 0..5 {
        recorder.note(about_node("same"));
    }
    assert!(recorder.flush(Duration::from_secs(1)).await);
    assert_eq!(fake.seen().len(), 1);
    assert_eq!(fake.seen()[0].body["count"], json!(5));
    tokio::time::sleep(Duration::from_mins(1)).await;
    recorder.note(about_node("same"));
    assert!(recorder.flush(Duration::from_secs(1)).await);
    let again = fake.seen()[1].clone();
    assert_eq!(again.method, "PATCH");
    assert!(again.path.ends_with(fake.seen()[0].body["metadata"]["name"].as_str().unwrap()));
    assert_eq!(
        (&again.body["count"], again.body["lastTimestamp"].as_str().unwrap().len()),
        (&json!(6), 20)
    );
    tokio::time::sleep(Duration::from_mins(11)).await;
    recorder.note(about_node("same"));
    assert!(recorder.flush(Duration::from_secs(1)).await);
    assert_eq!(
        (fake.seen()[2].method.as_str(), &fake.seen()[2].body["count"]),
        ("POST", &json!(1)),
        "the window is over"
    );
    assert_eq!(
        recorder.counts(),
        RecorderCounts { written: 3, coalesced: 5, dropped: 0, failed: 0 }
    );
}

#[tokio::test(start_paused = true)]
async fn at_most_twenty_are_sent_in_a_second_and_those_beyond_the_queue_are_dropped_and_counted() {
    let fake = Fake::default();
    let recorder = recorder(&fake, 100);
    for n in 0..150 {
        recorder.note(about_node(&format!("number {n}")));
    }
    assert_eq!(recorder.counts().dropped, 50);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!((19..=21).contains(&fake.seen().len()), "{}", fake.seen().len());
    assert!(recorder.flush(Duration::from_secs(5)).await);
    assert_eq!(recorder.counts().written, 100);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_not_accepted_is_tried_a_few_times_and_then_dropped() {
    let fake = Fake::default();
    let recorder = recorder(&fake, 100);
    fake.script(|_| Some(Fault::Answer(403, None, status(403, "Forbidden", "no").to_string())));
    recorder.note(about_node("a"));
    assert!(recorder.flush(Duration::from_secs(1)).await);
    assert_eq!((fake.seen().len(), recorder.counts().failed), (1, 1), "no permission: not again");
    fake.script(|_| Some(Fault::Broken));
    recorder.note(about_node("b"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((fake.seen().len(), recorder.counts().failed), (4, 2));
    fake.heal();
    recorder.note(about_node("c"));
    assert!(recorder.flush(Duration::from_secs(2)).await);
    fake.script(|s| {
        (s.method == "PATCH")
            .then(|| Fault::Answer(404, None, status(404, "NotFound", "no such event").to_string()))
    });
    recorder.note(about_node("c"));
    settle().await;
    assert!(recorder.flush(Duration::from_secs(2)).await);
    let last = fake.seen().last().unwrap().clone();
    assert_eq!(
        (last.method.as_str(), &last.body["count"]),
        ("POST", &json!(2)),
        "an Event that somebody deleted is created again"
    );
}

/// Lets an API server create Events and lose its first `lost` answers to creations. A name that it
/// has is a conflict. The result lists the names of the Events that exist.
fn lose_answers(fake: &Fake, lost: usize) -> impl Fn() -> Vec<Value> {
    let names = Arc::new(Mutex::new(Vec::new()));
    let (existing, answers) = (Arc::clone(&names), Mutex::new(0));
    fake.script(move |request| {
        if request.method != "POST" {
            return None;
        }
        let mut existing = existing.lock().unwrap();
        let name = request.body["metadata"]["name"].clone();
        let exists = existing.contains(&name);
        if !exists {
            existing.push(name);
        }
        let mut answers = answers.lock().unwrap();
        *answers += 1;
        match exists {
            _ if *answers <= lost => Some(Fault::Broken),
            true => Some(Fault::Answer(409, None, status(409, "AlreadyExists", "").to_string())),
            false => None,
        }
    });
    move || names.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_the_same_event_is_not_created_twice() {
    for lost in [1, 2] {
        let fake = Fake::default();
        let recorder = recorder(&fake, 10);
        let names = lose_answers(&fake, lost);
        recorder.note(about_node("same"));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(names().len(), 1, "{:?}", names());
        let sent = fake.seen();
        assert!(
            sent.iter().all(|request| request.method == "POST"),
            "its count is written already"
        );
        assert_eq!((sent.len(), recorder.counts().written), (lost + 1, 1));
        assert_eq!(recorder.counts().failed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_count_of_an_event_whose_answer_was_lost_is_written_afterwards() {
    // How many answers are lost, and whether the recorder gives up before one arrives.
    for (lost, gives_up) in [(1, false), (3, true)] {
        let fake = Fake::default();
        let recorder = recorder(&fake, 10);
        let names = lose_answers(&fake, lost);
        recorder.note(about_node("same"));
        let pause = if gives_up { 10_000 } else { 500 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        assert_eq!(recorder.counts().failed, u64::from(gives_up));
        recorder.note(about_node("same"));
        tokio::time::sleep(Duration::from_secs(10)).await;
        let last = fake.seen().last().unwrap().clone();
        let name = names()[0].as_str().unwrap().to_owned();
        assert_eq!((last.method.as_str(), &last.body["count"]), ("PATCH", &json!(2)));
        assert!(last.path.ends_with(&name), "{}", last.path);
        assert_eq!(names().len(), 1, "{:?}", names());
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_recorder_writes_nothing_more() {
    let fake = Fake::default();
    let recorder = recorder(&fake, 100);
    for n in 0..100 {
        recorder.note(about_node(&format!("number {n}")));
    }
    recorder.close(Duration::from_millis(300)).await;
    let written = fake.seen().len();
    assert!((6..=8).contains(&written), "{written} in the time that was left");
    recorder.note(about_node("after the end"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(fake.seen().len(), written);
    assert_eq!(
        recorder.counts(),
        RecorderCounts {
            written: written as u64,
            coalesced: 0,
            dropped: 101 - written as u64,
            failed: 0
        }
    );
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_request_under_way_but_not_for_ever_and_does_not_repeat_it() {
    // How many milliseconds closing takes, and how many Events are dropped.
    let cases = [
        (Fault::Slow(Duration::from_millis(400)), 400, 0),
        (Fault::Hang, 600, 1),
        (Fault::Broken, 300, 1),
    ];
    for (fault, least, dropped) in cases {
        let fake = Fake::default();
        let recorder = recorder(&fake, 100);
        let case = format!("{fault:?}");
        fake.script(move |_| Some(fault.clone()));
        recorder.note(about_node("a"));
        settle().await;
        let begun = tokio::time::Instant::now();
        recorder.close(Duration::from_millis(300)).await;
        let took = begun.elapsed().as_millis();
        assert!((least..=least + 20).contains(&took), "{case}: {took} ms");
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!((fake.seen().len(), recorder.counts().dropped), (1, dropped), "{case}");
    }
}
