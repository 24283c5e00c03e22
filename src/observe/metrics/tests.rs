use std::time::Duration;

use super::*;
use crate::{domain::Kind, observe::labels::MessageOutcome};

#[test]
fn known_series_exist_from_the_start_and_events_are_counted() {
    let metrics = Metrics::new(&LabelValues {
        rejections: vec!["not_json"],
        block_reasons: vec!["budget"],
        answers: vec!["ok"],
        ..LabelValues::default()
    });
    let before = metrics.render().unwrap();
    for line in [
        "sundown_messages_total{kind=\"spot\",outcome=\"accepted\"} 0\n",
        "sundown_rejected_bodies_total{reason=\"not_json\"} 0\n",
        "sundown_blocked_pods{reason=\"budget\"} 0\n",
        "sundown_evictions_total{answer=\"ok\"} 0\n",
        "sundown_pod_deletes_total{answer=\"ok\"} 0\n",
        "sundown_heartbeats_total{result=\"over\"} 0\n",
        "sundown_completions_total{result=\"gone\"} 0\n",
        "sundown_records_total{event=\"void\"} 0\n",
        "sundown_events_dropped_total{reason=\"rate\"} 0\n",
        "sundown_leader 0\n",
        "sundown_dry_run 0\n",
        "sundown_deadline_misses_total 0\n",
        "sundown_clock_skew_seconds 0.0\n",
        concat!("sundown_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n"),
    ] {
        assert!(before.contains(line), "{line} is missing in:\n{before}");
    }
    assert!(before.ends_with("# EOF\n"));

    metrics.message(Some(Kind::Spot), MessageOutcome::Accepted);
    metrics.message(None, MessageOutcome::Test);
    metrics.accepted_after(Kind::Spot, Duration::from_millis(1500));
    metrics.set_leader(true);
    metrics.set_leader(true);
    metrics.api_call("sqs", "DeleteMessageBatch", "ok", Duration::from_millis(7));
    metrics.set_clock_skew(jiff::SignedDuration::from_millis(-2500));
    let after = metrics.render().unwrap();
    for line in [
        "sundown_messages_total{kind=\"spot\",outcome=\"accepted\"} 1\n",
        "sundown_messages_total{kind=\"none\",outcome=\"test\"} 1\n",
        "sundown_accept_lag_seconds_bucket{le=\"2.0\",kind=\"spot\"} 1\n",
        "sundown_accept_lag_seconds_bucket{le=\"1.0\",kind=\"spot\"} 0\n",
        "sundown_leader_changes_total{role=\"leader\"} 1\n",
        "sundown_api_calls_total{target=\"sqs\",action=\"DeleteMessageBatch\",outcome=\"ok\"} 1\n",
        "sundown_api_call_duration_seconds_count{target=\"sqs\"} 1\n",
        "sundown_clock_skew_seconds -2.5\n",
    ] {
        assert!(after.contains(line), "{line} is missing in:\n{after}");
    }
}
