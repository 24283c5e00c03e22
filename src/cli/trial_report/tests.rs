use super::*;

fn entry(at: &str, kind: &str, instance: &str, would: &str, more: &str) -> String {
    format!(
        r#"{{"trial":1,"at":"2026-01-05T09:00:{at}Z","time":"2026-01-05T09:00:00Z","event":"e-{instance}","kind":"{kind}","instance":"{instance}","would":"{would}"{more}}}"#
    )
}

fn log() -> String {
    [
        entry("01.5", "spot", "i-1", "drain", r#","node":"ip-1","ends":"2026-01-05T09:02:00Z""#),
        r#"{"timestamp":"2026-01-05T09:00:01Z","level":"INFO","message":"This process leads."}"#
            .to_owned(),
        format!(
            "[pod/sundown-trial-0/sundown] {}",
            entry("03", "spot", "i-2", "drain", r#","node":"ip-2","later":{"a":1}"#)
        ),
        entry("04", "spot", "i-1", "drain", r#","node":"ip-1""#),
        entry("09", "spot", "i-3", "drain", r#","node":"ip-3""#),
        entry("09", "terminate-hook", "i-4", "complete", r#","group":"asg","hook":"drain""#),
        entry("09", "rebalance", "i-5", "nothing", r#","why":"ignored""#),
        entry("02", "rebalance", "i-6", "mark", r#","node":"ip-6""#),
        r#"{"trial":1,"at":"2026-01-05T09:00:10Z","would":"not_understood","why":"not_json"}"#
            .to_owned(),
        r#"{"trial":1,"at":"2026-01-05T09:00:10Z","would":"not_understood","why":"not_json"}"#
            .to_owned(),
        r#"{"trial":1,"at":"2026-01-0"#.to_owned(),
        String::new(),
    ]
    .join("\n")
}

#[test]
fn each_event_is_counted_once_and_other_lines_are_skipped() {
    let report = report(&log()).unwrap();
    assert_eq!((report.events, report.copies, report.other_lines), (8, 1, 2));
    let spot = &report.kinds["spot"];
    assert_eq!(
        (spot.came, spot.would_drain, spot.median_lag_ms, spot.longest_lag_ms),
        (3, 3, Some(3000), Some(9000))
    );
    assert_eq!(report.kinds["terminate-hook"].would_complete, 1);
    assert_eq!(report.kinds["rebalance"].nothing["ignored"], 1);
    assert_eq!(report.kinds["rebalance"].would_mark, 1);
    assert_eq!(
        (report.kinds["rebalance"].median_lag_ms, report.kinds["other"].not_understood["not_json"]),
        (Some(2000), 2)
    );
}

#[test]
fn the_text_has_the_events_their_times_and_what_would_have_been_done() {
    let text = as_text(&report(&log()).unwrap());
    for words in [
        "8 events, 2026-01-05T09:00:00Z to 2026-01-05T09:00:10Z; 1 came more than once; 2 \
         lines of other logs passed over",
        "spot                   3      3     0         0        0        0   3.0 s, 9.0 s",
        "spot i-1: would cordon and drain ip-1 after 1.5 s, 118 s before the machine goes",
        "terminate-hook i-4 (drain of asg): would complete the hook after 9.0 s: the instance \
         has no node",
        "rebalance i-5: nothing: ignored",
        "rebalance i-6: would only taint or cordon ip-6 after 2.0 s; its pods would stay (--on)",
        "other: not understood (not_json)",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

#[test]
fn a_file_without_a_line_of_a_trial_is_refused_and_a_trial_without_events_is_not() {
    let of_run = "2026-01-05T09:00:00Z  INFO sundown::controller::service: Sundown runs.";
    let of_trial = format!(
        "{of_run}\n2026-01-05T09:00:00Z  WARN sundown::controller::service: {TRIAL_BEGINS}, but"
    );
    let of_trial_as_json = format!(
        r#"{{"level":"WARN","message":"{TRIAL_BEGINS}, but","target":"sundown::controller::service"}}"#
    );
    for text in [log(), of_trial, of_trial_as_json, r#"{"trial":2}"#.to_owned()] {
        assert!(demand_a_trial("f", &text).is_ok(), "{text}");
    }
    for (text, words) in [
        ("", "f is empty"),
        ("\n \n", "f is empty"),
        (of_run, "f is not the log of a trial (1 line read"),
        ("{\"a\":1}\n\nb", "(2 lines read"),
        ("apiVersion: v1", "--trial-log"),
    ] {
        let error = demand_a_trial("f", text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn an_empty_log_and_one_of_a_newer_version_are_reported() {
    assert!(as_text(&report("").unwrap()).contains("No event was recorded"));
    let error = report("\n{\"trial\":2}").unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("trial 2"), "{error}");
}
