//! The page `docs/operations.md`: words of metrics, log lines, alerts. (Metrics and Events have
//! pages that are generated.)

use std::collections::BTreeSet;

use sundown::{
    controller::label_values,
    drain::{BlockReason, Class},
    interruption::Reject,
    observe::{DrainEnd, MessageOutcome, Metrics},
};

use crate::{files, first_column, on_one_line, read};

const PAGE: &str = "docs/operations.md";

/// The names under which metrics are registered, from the source: families without a series yet are
/// in no output.
pub fn registered() -> BTreeSet<String> {
    let source = read("src/observe/metrics.rs") + &read("src/observe/metrics/places.rs");
    let source = on_one_line(&source);
    let literal = |text: &str| text.split('"').next().unwrap().to_owned();
    let mut names = BTreeSet::new();
    // `seconds(…)`, `plain_seconds(…)` and `register_with_unit(…, Unit::Seconds, …)` append the
    // unit.
    let calls = [
        ("reg(&mut r, \"", ""),
        ("seconds(&mut r, \"", "_seconds"),
        ("reg(r, \"", ""),
        ("seconds_by(r, \"", "_seconds"),
    ];
    for (call, unit) in calls {
        names.extend(source.split(call).skip(1).map(|rest| literal(rest) + unit));
    }
    names.extend(
        source.split("r.register_with_unit(\"").skip(1).map(|rest| literal(rest) + "_seconds"),
    );
    names.extend(source.split("r.register(\"").skip(1).map(literal));
    names.into_iter().map(|name| format!("sundown_{name}")).collect()
}

fn words_of(all: impl IntoIterator<Item = &'static str>) -> BTreeSet<String> {
    all.into_iter().map(str::to_owned).collect()
}

#[test]
fn the_words_of_labels_on_the_page_are_those_of_the_code() {
    let page = read(PAGE);
    let outcomes = MessageOutcome::ALL.iter().map(|o| o.as_str());
    assert_eq!(first_column(&page, "### Outcomes of messages"), words_of(outcomes));
    assert_eq!(
        first_column(&page, "### Ends of drains"),
        words_of(DrainEnd::ALL.iter().map(|e| e.as_str()))
    );
    assert_eq!(
        first_column(&page, "### Reasons of blocked pods"),
        words_of(BlockReason::ALL.iter().map(|r| r.as_str()))
    );
    assert_eq!(
        first_column(&page, "### Answers to evictions and deletions"),
        words_of(Class::WORDS.iter().copied())
    );
    assert_eq!(
        first_column(&page, "### Why bodies are not understood"),
        words_of(Reject::LABELS.iter().copied())
    );
}

/// The sources of the service without their tests, as one text a file; spaces and line breaks count
/// as one space.
fn sources(dir: &str) -> Vec<String> {
    let ours = files(dir, ".rs")
        .into_iter()
        .filter(|f| !f.contains("/tests") && !f.starts_with("src/sim") && !f.ends_with("fake.rs"));
    ours.map(|f| read(&f).split("\n#[cfg(test)]\nmod tests {").next().unwrap().to_owned()).collect()
}

fn literals(source: &str) -> impl Iterator<Item = &str> {
    source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
}

#[test]
fn every_log_line_on_the_page_is_one_of_the_code() {
    let (sources, lines) =
        (sources("src"), first_column(&read(PAGE), "## Log lines that ask for something"));
    assert!(lines.len() > 20, "{lines:?}");
    for line in lines {
        assert!(
            sources.iter().any(|s| literals(s).any(|l| l.starts_with(&line))),
            "nothing logs `{line}`"
        );
    }
}

#[test]
fn every_metric_that_an_alert_asks_for_exists() {
    let page = read(PAGE);
    let registered = registered();
    let asked: Vec<_> = page
        .split(|c: char| !c.is_ascii_lowercase() && c != '_')
        .filter(|w| w.starts_with("sundown_"))
        .collect();
    assert!(asked.len() > 20, "{asked:?}");
    for word in asked {
        let family = ["_total", "_bucket"]
            .iter()
            .fold(word, |w, ending| w.strip_suffix(ending).unwrap_or(w));
        assert!(registered.contains(family), "{word}");
    }
}

#[test]
fn what_alerts_ask_the_growth_of_is_there_from_the_start() {
    let rendered = Metrics::new(&label_values()).render().unwrap();
    for series in [
        "sundown_api_calls_total{target=\"autoscaling\",action=\"CompleteLifecycleAction\",outcome=\"denied\"}",
        "sundown_api_calls_total{target=\"sqs\",action=\"ReceiveMessage\",outcome=\"denied\"}",
        "sundown_api_calls_total{target=\"kubernetes\",action=\"evict\",outcome=\"forbidden\"}",
        "sundown_api_calls_total{target=\"kubernetes\",action=\"patch_node\",outcome=\"unauthorized\"}",
        "sundown_api_calls_total{target=\"kubernetes\",action=\"replace_lease\",outcome=\"forbidden\"}",
        "sundown_completions_total{result=\"failed\"}",
        "sundown_watch_failures_total{object=\"watch_nodes\"}",
        "sundown_watch_failures_total{object=\"watch_lease\"}",
        "sundown_intake_events_total{event=\"lost\"}",
        "sundown_decode_failures_total{object=\"watch_pods\"}",
        "sundown_api_call_duration_seconds_count{target=\"ec2\"}",
    ] {
        assert!(rendered.contains(&format!("{series} 0\n")), "{series} is missing");
    }
}

/// `kubectl auth can-i VERB TYPE/NAME` asks about an object of that name: a subresource is a flag,
/// and without it the answer is "no".
#[test]
fn rights_are_asked_for_in_the_words_of_kubectl() {
    let asked: Vec<_> = files("docs", ".md").into_iter().map(|page| (read(&page), page)).collect();
    let asked: Vec<_> = asked
        .iter()
        .flat_map(|(text, page)| text.split("auth can-i ").skip(1).map(move |rest| (page, rest)))
        .collect();
    assert!(!asked.is_empty());
    for (page, rest) in asked {
        let resource = rest.split_whitespace().nth(1).unwrap();
        assert!(!resource.contains('/'), "{page} asks for {resource}");
    }
}
