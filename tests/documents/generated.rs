//! The pages that are made of the code: `SUNDOWN_WRITE_DOCS=1 tests/run --test documents generated`
//! writes them.

use std::collections::{BTreeMap, BTreeSet};

use sundown::{cluster::EventReason, config, controller::label_values, observe::Metrics};

use crate::{files, operations::registered, read, root};

/// What a process counts that has just started. A family whose labels are not known beforehand has
/// no series then, and is not in the text: it is to be counted once here, for its labels to be
/// seen.
fn fresh() -> String {
    let metrics = Metrics::new(&label_values());
    metrics.set_dead_letters("QUEUE", Some(0));
    metrics.render().unwrap()
}

/// Holds a page against what is to stand there, or writes it.
pub fn hold(page: &str, generated: &str) {
    if std::env::var_os("SUNDOWN_WRITE_DOCS").is_some() {
        std::fs::write(root().join(page), generated).unwrap();
    }
    let written = std::fs::read_to_string(root().join(page)).unwrap_or_default();
    let (is, should) = first_difference(&written, generated);
    assert!(
        written == generated,
        "{page} is not what the code says. Its first other line is\n  {is}\nand should be\n  \
         {should}\nThis writes it: SUNDOWN_WRITE_DOCS=1 tests/run --test documents generated"
    );
}

fn first_difference<'a>(written: &'a str, generated: &'a str) -> (&'a str, &'a str) {
    let end = "(the end)";
    let mut pairs =
        written.lines().chain(std::iter::repeat(end)).zip(generated.lines().chain([end]));
    pairs.find(|(is, should)| is != should).unwrap_or((end, end))
}

#[test]
fn the_page_of_flags_is_generated() {
    hold("docs/configuration.md", &config::document());
}

#[test]
fn the_page_of_the_commands_flags_is_generated() {
    hold("docs/flags.md", &sundown::cli::document());
}

#[test]
fn the_page_of_responses_is_generated() {
    hold("docs/responses.md", &sundown::domain::responses_document());
}

/// The page explains the settings in prose; its table is generated.
#[test]
fn the_table_of_settings_is_generated() {
    const PAGE: &str = "docs/settings.md";
    let (table, page) = (sundown::domain::settings_table(), read(PAGE));
    let head = table.lines().next().unwrap();
    let (before, rest) = page.split_once(head).unwrap_or_else(|| panic!("{PAGE}: no row {head}"));
    let after: Vec<&str> = rest.lines().skip(1).skip_while(|line| line.starts_with('|')).collect();
    hold(PAGE, &format!("{before}{table}{}\n", after.join("\n")));
}

#[test]
fn the_page_of_events_is_generated() {
    hold("docs/events.md", &sundown::cluster::reason::document());
}

#[test]
fn the_page_of_metrics_is_generated() {
    hold("docs/metrics.md", &metrics_page(&families(&fresh())));
}

#[test]
fn every_metric_that_is_registered_is_on_the_page() {
    let shown: BTreeSet<String> =
        families(&fresh()).into_iter().map(|family| family.name).collect();
    assert_eq!(
        registered(),
        shown,
        "a family without a series is in no output: initialise it, or count it once in `fresh`"
    );
}

/// A reason that nothing gives would be told to people who wait for it.
#[test]
fn every_reason_in_the_table_is_given_somewhere() {
    let sources: String =
        files("src/controller", ".rs").into_iter().map(|file| read(&file)).collect();
    for reason in EventReason::ALL {
        let given = format!("EventReason::{}", reason.as_str());
        let mut after = sources.split(&given).skip(1);
        assert!(
            after.any(|rest| !rest.starts_with(char::is_alphanumeric)),
            "nothing in src/controller gives {given}"
        );
    }
}

/// A metric, as OpenMetrics describe it.
struct Shown {
    name: String,
    kind: String,
    help: String,
    /// The values of each of its labels, in the order of the labels.
    labels: Vec<(String, Vec<String>)>,
}

/// Reads the text format.
fn families(text: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for line in text.lines() {
        if let Some((name, help)) =
            line.strip_prefix("# HELP ").map(|rest| rest.split_once(' ').unwrap())
        {
            all.push(Shown {
                name: name.to_owned(),
                kind: String::new(),
                help: help.to_owned(),
                labels: Vec::new(),
            });
        } else if let Some((_, kind)) =
            line.strip_prefix("# TYPE ").map(|rest| rest.split_once(' ').unwrap())
        {
            kind.clone_into(&mut all.last_mut().unwrap().kind);
        } else if let Some((_, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            all.last_mut().unwrap().see(labels.split_once('}').unwrap().0);
        }
    }
    all.sort_by_key(Shown::asked);
    all
}

impl Shown {
    /// One series: `kind="spot",outcome="accepted"`.
    fn see(&mut self, series: &str) {
        for (label, value) in series.split(',').map(|pair| pair.split_once('=').unwrap()) {
            let value = value.trim_matches('"').to_owned();
            match self.labels.iter_mut().find(|(name, _)| name == label) {
                Some((_, values)) if values.contains(&value) => {}
                Some((_, values)) => values.push(value),
                None => self.labels.push((label.to_owned(), vec![value])),
            }
        }
    }

    /// Under which name it is asked for.
    fn asked(&self) -> String {
        match self.kind.as_str() {
            "counter" => format!("{}_total", self.name),
            "info" => format!("{}_info", self.name),
            _ => self.name.clone(),
        }
    }

    /// Its labels but for the bounds of buckets.
    fn own_labels(&self) -> impl Iterator<Item = &(String, Vec<String>)> {
        self.labels.iter().filter(|(label, _)| label != "le")
    }
}

const HEAD: &str = "# Metrics

All metrics of `/metrics`, in the OpenMetrics format. This page is generated from the answer of a
process that has just started; a test fails if the two differ.
[Operations](operations.md#metrics) explains which metrics matter when, and [the
alerts](operations.md#alerts) use them.

The table has the names that a query uses. A histogram `NAME` has the series `NAME_bucket`,
`NAME_sum` and `NAME_count`. A series whose labels are known beforehand exists from the start,
with the value 0.

| metric | type | labels | what it is |
| --- | --- | --- | --- |
";

/// Where the words of a label are explained.
const EXPLAINED: &[(&str, &str, &str)] = &[
    ("sundown_messages", "outcome", "operations.md#outcomes-of-messages"),
    ("sundown_drains", "end", "operations.md#ends-of-drains"),
    ("sundown_blocked_pods", "reason", "operations.md#reasons-of-blocked-pods"),
    ("sundown_evictions", "answer", "operations.md#answers-to-evictions-and-deletions"),
    ("sundown_rejected_bodies", "reason", "operations.md#why-bodies-are-not-understood"),
    ("sundown_ready", "condition", "operations.md#probes"),
    ("sundown_dlq_messages", "queue", "operations.md#dead-letters"),
    ("sundown_drains_started_by_group", "group", "operations.md#by-place"),
    ("sundown_drains_started_by_group", "zone", "operations.md#by-place"),
    ("sundown_drains_started_by_group", "type", "operations.md#by-place"),
];

/// What stands between backquotes, with commas between.
fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn metrics_page(families: &[Shown]) -> String {
    let mut lines = vec![HEAD.trim_end().to_owned()];
    lines.extend(families.iter().map(|family| {
        let labels = quoted(family.own_labels().map(|(label, _)| label.as_str()));
        format!(
            "| `{}` | {} | {labels} | {} |",
            family.asked(),
            family.kind,
            family.help.replace('|', "\\|")
        )
    }));
    lines.push(
        "\n## Labels\n\nThe values of each label. Metrics whose label has the same values share a \
         row.\n"
            .to_owned(),
    );
    lines.push("| label | metrics | values |\n| --- | --- | --- |".to_owned());
    lines.extend(by_words(families).into_iter().map(|((label, words), of)| {
        let explained = EXPLAINED
            .iter()
            .find(|(name, of_label, _)| *of_label == label && of.iter().any(|f| f.name == *name));
        let label = explained
            .map_or_else(|| format!("`{label}`"), |(_, _, page)| format!("[`{label}`]({page})"));
        let of: Vec<_> = of.iter().map(|family| family.asked()).collect();
        format!(
            "| {label} | {} | {} |",
            quoted(of.iter().map(String::as_str)),
            quoted(words.iter().map(String::as_str))
        )
    }));
    lines.push("\n## Buckets\n\n| histogram | bounds in seconds |\n| --- | --- |".to_owned());
    lines.extend(families.iter().filter(|family| family.kind == "histogram").map(|family| {
        let bounds = family
            .labels
            .iter()
            .find(|(label, _)| label == "le")
            .map(|(_, bounds)| bounds.join(", "))
            .unwrap_or_default();
        format!("| `{}` | {bounds} |", family.name)
    }));
    lines.join("\n") + "\n"
}

/// The metrics that have the same words for the same label. What an info says is no word.
fn by_words(families: &[Shown]) -> BTreeMap<(String, Vec<String>), Vec<&Shown>> {
    let mut all: BTreeMap<(String, Vec<String>), Vec<&Shown>> = BTreeMap::new();
    for family in families.iter().filter(|family| family.kind != "info") {
        for (label, words) in family.own_labels() {
            let mut words = words.clone();
            words.sort();
            all.entry((label.clone(), words)).or_default().push(family);
        }
    }
    all
}

#[test]
fn where_words_are_explained_is_said_of_labels_that_exist() {
    let families = families(&fresh());
    for (name, label, _) in EXPLAINED {
        assert!(
            families.iter().any(|f| f.name == *name && f.labels.iter().any(|(l, _)| l == label)),
            "{name} has no label {label}"
        );
    }
}
