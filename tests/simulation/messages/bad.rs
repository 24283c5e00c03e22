//! Bodies that nobody understands: counted by reason, said once, kept for the dead-letter queue,
//! and nothing spins or ends.

use serde_json::json;
use sundown::sim::aws::{Fault, FaultRule, How};

use super::{bodies, logs::Logs, tools::with_dead_letters};
use crate::harness::Stage;

/// How often a message is received before it goes to the dead-letter queue.
const RECEIVES: u32 = 3;

/// Each body is rejected for this reason at every receive, and then lies in the dead-letter queue
/// as it was; Sundown still works after it.
async fn kept(seed: u64, reason: &str, bad: &[String]) {
    let logs = Logs::keep();
    let stage = with_dead_letters(seed, RECEIVES);
    let instances = stage.spot_group(2);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.clear_journal();
    for body in bad {
        stage.send(body);
    }
    stage.pass(10).await;
    assert_eq!(stage.in_queue(), bad.len(), "kept");
    assert_eq!(sundown.rejected(reason), bad.len() as f64, "{reason}");
    stage
        .until(300, "they are in the dead-letter queue", || {
            stage.bodies_in("dead").len() == bad.len()
        })
        .await;
    let dead = stage.bodies_in("dead");
    assert!(bad.iter().all(|b| dead.contains(b)), "as they were");
    assert_eq!(
        sundown.rejected(reason),
        f64::from(RECEIVES) * bad.len() as f64,
        "at every receive"
    );
    let told = logs.with(&["was not understood", &format!("reason=\"{reason}\""), "hint="]);
    assert_eq!(told.len(), 1, "said once for the kind, with a hint: {told:?}");
    assert!(told[0].len() < 1500, "not the whole body");
    assert_eq!(stage.world.aws.deletions().len(), 0);
    assert_eq!(stage.world.aws.count("sqs:DeleteMessageBatch"), 0);
    assert_eq!(stage.describes(), 0);
    let receives = stage.world.aws.count("sqs:ReceiveMessage");
    assert!(receives < 80, "{receives} receives: it spins");
    assert!(stage.kube_writes().is_empty());
    assert!(sundown.readiness.missing().is_empty() && sundown.loops.stuck().is_empty());
    stage.send(&bodies::spot(&instances[0], &stage.now()));
    stage.until(30, "a good one is acted on", || stage.is_cordoned(&instances[0])).await;
    sundown.stop().await;
    stage.end();
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|b| (*b).to_owned()).collect()
}

const INSTANCE: &str = "i-0123456789abcdef0";
const TIME: &str = "2026-01-05T09:01:00Z";

fn spot() -> String {
    bodies::spot(INSTANCE, TIME)
}

fn terminate() -> String {
    bodies::terminate("asg", "drain", INSTANCE, TIME)
}

#[tokio::test(start_paused = true)]
async fn c10_a_body_that_is_no_json_is_kept_counted_and_said_once() {
    kept(30, "not_json", &texts(&["?", "{", "Hello, world", "<xml/>", "\u{feff}{}"])).await;
}

#[tokio::test(start_paused = true)]
async fn c11_a_spot_event_without_a_valid_detail_is_kept() {
    let detail = format!("{{\"instance-action\":\"terminate\",\"instance-id\":\"{INSTANCE}\"}}");
    assert!(spot().contains(&detail), "{}", spot());
    let bad: Vec<_> = ["\"?\"", "[]", "5"].iter().map(|d| spot().replace(&detail, d)).collect();
    kept(31, "wrong_type", &bad).await;
}

#[tokio::test(start_paused = true)]
async fn c12_a_lifecycle_event_without_a_valid_detail_is_kept() {
    let event = |detail| {
        bodies::event("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", TIME, &detail)
    };
    kept(32, "wrong_type", &[event(json!("?")), event(json!([])), event(json!(true))]).await;
}

#[tokio::test(start_paused = true)]
async fn c13_c15_an_empty_event_and_objects_that_are_no_event_are_kept() {
    let all = [
        "{}",
        "{\"a\":1}",
        "[]",
        "5",
        "null",
        "\"text\"",
        "{\"Type\":\"Something\",\"Message\":\"{}\"}",
        "{\"detail-type\":\"\",\"source\":\"\"}",
    ];
    kept(33, "other_shape", &texts(&all)).await;
}

#[tokio::test(start_paused = true)]
async fn c14_an_empty_body_is_kept() {
    kept(34, "empty", &texts(&["", " ", "\n\t "])).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_of_256_kib_and_one_that_is_nested_deeply_are_kept() {
    let large = format!("{{{}", "x".repeat(256 * 1024 - 1));
    let deep = "{\"a\":".repeat(50_000);
    let open = "[".repeat(256 * 1024);
    kept(35, "not_json", &[large, deep, open]).await;
}

#[tokio::test(start_paused = true)]
async fn deep_nesting_that_is_json_is_kept_too() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    kept(36, "other_shape", &[deep]).await;
}

#[tokio::test(start_paused = true)]
async fn values_of_the_wrong_type_are_kept() {
    let wrong = [
        spot().replace(&format!("\"{INSTANCE}\""), "12"),
        spot().replace("\"aws.ec2\"", "[\"aws.ec2\"]"),
        spot().replace(&format!("\"{TIME}\""), "1772600767"),
        terminate().replace("\"drain\"", "{\"a\":1}"),
        bodies::health(&[INSTANCE], "scheduledChange", TIME)
            .replace(&format!("\"{INSTANCE}\""), "7"),
    ];
    kept(37, "wrong_type", &wrong).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_versions_are_kept() {
    let version = |b: String| b.replace("\"version\":\"0\"", "\"version\":\"1\"");
    kept(38, "unknown_version", &[version(spot()), version(terminate())]).await;
}

#[tokio::test(start_paused = true)]
async fn duplicate_keys_are_kept() {
    let twice = [
        spot().replace("\"source\":", "\"source\":\"aws.health\",\"source\":"),
        spot().replace("\"instance-id\":", "\"instance-id\":\"i-12345678\",\"instance-id\":"),
    ];
    kept(39, "duplicate_key", &twice).await;
}

#[tokio::test(start_paused = true)]
async fn instance_ids_that_are_none_are_kept() {
    let ids = [
        "i-",
        "i-xyz",
        "i-0123456789ABCDEF0",
        "mi-0123456789abcdef0",
        "i-0123456789abcdef0 ",
        "i-0123456789abcdef01",
        "i-0123456789abcdef0,i-1",
    ];
    let mut bad: Vec<_> = ids.iter().map(|id| spot().replace(INSTANCE, id)).collect();
    bad.push(terminate().replace(INSTANCE, "i-\\u0000"));
    bad.push(bodies::state_change("*", "terminated", TIME));
    kept(40, "bad_instance_id", &bad).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_event_cannot_do_without_is_missed() {
    let bad = [
        spot().replace(INSTANCE, ""),
        terminate().replace("\"AutoScalingGroupName\"", "\"x\""),
        terminate().replace("\"LifecycleTransition\"", "\"x\""),
        spot().replace("\"source\"", "\"x\""),
    ];
    kept(41, "missing_field", &bad).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_transitions_and_bad_names_and_unconfirmed_topics_are_kept() {
    kept(
        42,
        "unknown_transition",
        &[
            terminate().replace("TERMINATING", "DREAMING"),
            terminate().replace("TERMINATING", "LAUNCHING"),
        ],
    )
    .await;
    kept(43, "bad_field", &[terminate().replace("\"drain\"", &format!("\"{}\"", "x".repeat(300)))])
        .await;
    let confirm = json!({
        "Type": "SubscriptionConfirmation", "MessageId": "1", "TopicArn": "t", "Message": "x",
        "SubscribeURL": "https://x", "Token": "t"
    });
    kept(44, "unconfirmed", &[confirm.to_string()]).await;
    kept(45, "too_many_envelopes", &[bodies::in_sns(&bodies::in_sns(&bodies::in_sns(&spot())))])
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_sqs_that_is_no_text_at_all_is_asked_for_again() {
    let stage = Stage::new(46);
    let instances = stage.spot_group(2);
    let sundown = stage.settled(&[]).await;
    stage.world.aws.fault(FaultRule::new("sqs:ReceiveMessage", Fault::Garbage, How::Times(5)));
    stage.send(&bodies::spot(&instances[0], &stage.now()));
    stage.until(60, "it is acted on in the end", || stage.is_cordoned(&instances[0])).await;
    assert_eq!(sundown.messages("spot", "accepted"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_understood_is_logged_without_its_token() {
    let logs = Logs::keep();
    let stage = with_dead_letters(39, RECEIVES);
    let sundown = stage.settled(&[]).await;
    let token = "71514b9d-6a40-4b26-8523-05e7e6e5a1b2";
    stage.send(&format!(r#"{{"version":"9","LifecycleActionToken":"{token}","detail-type":"x"}}"#));
    stage.pass(10).await;
    let lines = logs.with(&["was not understood", "LifecycleActionToken"]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(logs.with(&[token]), Vec::<String>::new());
    sundown.stop().await;
    stage.end();
}
