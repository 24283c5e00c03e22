//! The pages for readers who are new or in trouble: the index, concepts, failure modes, security,
//! sizing, questions.

use std::collections::BTreeSet;

use serde_json::Value;
use sundown::{
    domain::{EXCLUDE_FROM_LOAD_BALANCERS, EXCLUDED_BY_US},
    drain::{Outcome, Phase},
    record::{MAX_INTERRUPTIONS, Record},
};

use crate::{
    calls, files, first_column, operations::registered, pages::flags_in_code_spans, read,
    scenarios::fields,
};

const BOOK: [&str; 9] = [
    "docs/README.md",
    "docs/concepts.md",
    "docs/failure-modes.md",
    "docs/security.md",
    "docs/sizing.md",
    "docs/beside.md",
    "docs/faq.md",
    "docs/upgrade.md",
    "docs/notifications.md",
];

/// The cells of the rows of all tables in a text, without their heads.
pub fn rows(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<_> = text.lines().collect();
    let is_rule = |line: &str| line.starts_with("| ---");
    let body = |n: usize| {
        lines[n].starts_with("| ")
            && !is_rule(lines[n])
            && !lines.get(n + 1).is_some_and(|next| is_rule(next))
    };
    let cells = |line: &str| {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    (0..lines.len()).filter(|n| body(*n)).map(|n| cells(lines[n])).collect()
}

/// What stands between backquotes, blocks aside.
pub fn spans(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_page_is_in_the_index() {
    let index = read("docs/README.md");
    for page in files("docs", ".md")
        .into_iter()
        .filter(|p| p != "docs/README.md" && !p.starts_with("docs/adr/"))
    {
        let name = page.strip_prefix("docs/").unwrap();
        assert!(index.contains(&format!("]({name})")), "docs/README.md does not name {name}");
    }
    assert!(read("README.md").contains("](docs/README.md)"));
}

/// A person who arrives from a search decides in a minute.
#[test]
fn the_readme_is_short_shows_it_working_and_says_where_it_stands() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= 120, "{} lines", readme.lines().count());
    for command in ["cargo run --release -- simulate", "tests/run"] {
        assert!(readme.contains(&format!("```console\n{command}\n```")), "{command}");
    }
    let version = concat!("version ", env!("CARGO_PKG_VERSION"));
    for (page, text) in [("README.md", readme), ("docs/from-nth.md", read("docs/from-nth.md"))] {
        let top: String = text.lines().take(25).collect::<Vec<_>>().join(" ").replace("> ", "");
        for words in [
            version,
            "o image is published",
            "not run against real AWS",
            "interruptions.md#scheduled-changes",
        ] {
            assert!(top.contains(words), "{page} does not begin with: {words}");
        }
    }
}

#[test]
fn flags_of_the_book_exist() {
    // Of cluster-autoscaler, cargo, helm, the API server, and of `sundown` itself.
    let others = [
        "max-graceful-termination-sec",
        "locked",
        "version",
        "reset-then-reuse-values",
        "max-requests-inflight",
    ];
    let seen: usize = BOOK.iter().map(|page| flags_in_code_spans(page, &others)).sum();
    assert!(seen > 30, "{seen} flags");
}

/// The reasons of Events, from the page that has them.
fn reasons() -> BTreeSet<String> {
    rows(&read("docs/events.md"))
        .into_iter()
        .filter_map(|row| row[0].strip_prefix('`')?.strip_suffix('`').map(str::to_owned))
        .collect()
}

#[test]
fn metrics_alerts_and_events_of_the_book_exist() {
    let (metrics, page) = (registered(), read("docs/operations.md"));
    let (alerts, events) = (first_column(&page, "## Alerts"), reasons());
    let mut seen = 0;
    for (file, span) in BOOK
        .into_iter()
        .flat_map(|file| spans(&read(file)).into_iter().map(move |span| (file, span)))
    {
        let word = span.split(['{', ' ', '=']).next().unwrap();
        if word.starts_with("sundown_") {
            let family = ["_total", "_bucket"]
                .iter()
                .fold(word, |w, ending| w.strip_suffix(ending).unwrap_or(w));
            assert!(metrics.contains(family), "{file} names {word}");
            seen += 1;
        } else if word.starts_with("Sundown") && word.len() > 7 {
            assert!(alerts.contains(word), "{file} names the alert {word}");
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen} names");
    let mut seen = 0;
    for file in BOOK {
        let text = read(file);
        for named in ["Event `", "Events `"]
            .into_iter()
            .flat_map(|word| text.split(word).skip(1))
            .map(|rest| rest.split('`').next().unwrap())
        {
            assert!(events.contains(named), "{file} names the Event {named}");
            seen += 1;
        }
    }
    assert!(seen > 4, "{seen} names of Events");
}

#[test]
fn log_lines_of_the_failure_modes_are_those_of_operations() {
    let lines = first_column(&read("docs/operations.md"), "## Log lines that ask for something");
    let page = read("docs/failure-modes.md");
    let named: Vec<_> =
        page.split("log `").skip(1).map(|rest| rest.split('`').next().unwrap()).collect();
    assert!(named.len() > 4, "{named:?}");
    for line in named {
        assert!(lines.contains(line), "docs/operations.md does not have `{line}`");
    }
}

/// The example was cut out of a run; the real code must read it and write the same.
#[test]
fn the_record_on_the_page_is_one_and_every_field_is_explained() {
    let page = read("docs/concepts.md");
    let text = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let record = Record::read(text).unwrap();
    let (shown, written): (Value, Value) =
        (serde_json::from_str(text).unwrap(), serde_json::from_str(&record.write()).unwrap());
    assert_eq!(shown, written);
    assert_eq!(record.open_actions(record.instance()).len(), 1, "it owes the hook that it names");
    assert!(record.released().is_some_and(|r| r.outcome == "empty"));

    let source = read("src/record/schema.rs");
    for (name, heading) in [
        ("Record", "### Fields of the record"),
        ("Before", "### Field `before`"),
        ("KnownEntry", "### Fields of an interruption"),
        ("Released", "### Field `released`: the end of the drain"),
    ] {
        let mut there = fields(&source, name, str::to_owned);
        assert!(there.remove("rest"), "{name} keeps what it does not know");
        assert_eq!(first_column(&page, heading), there, "{heading}");
    }
    assert!(page.contains(&format!("at most {MAX_INTERRUPTIONS}")));
}

#[test]
fn the_words_of_the_concepts_are_those_of_the_code() {
    let page = read("docs/concepts.md");
    let phases = [
        Phase::Listing,
        Phase::Marked,
        Phase::Draining,
        Phase::Volumes,
        Phase::Paused,
        Phase::Ended,
    ]
    .map(|p| p.as_str().to_owned());
    assert_eq!(first_column(&page, "## Drain"), BTreeSet::from(phases));
    let left = Vec::new;
    let outcomes = [
        Outcome::Empty,
        Outcome::DeadlineReached { left: left() },
        Outcome::TimedOut { left: left() },
        Outcome::NodeGone,
        Outcome::InstanceOver,
        Outcome::NotEvicted { left: left() },
        Outcome::Expired { left: left() },
        Outcome::Unreachable { left: left() },
        Outcome::Released { left: left() },
        Outcome::Contradicted { left: left() },
    ];
    let row = page.lines().find(|l| l.starts_with("| `outcome` |")).unwrap();
    let named: BTreeSet<_> = spans(row).into_iter().skip(1).collect();
    // A record of a launch into a warm pool ends without a drain.
    let expected = outcomes.iter().map(Outcome::as_str).chain(["into_warm_pool"]);
    assert_eq!(named, expected.map(str::to_owned).collect());
    // Every key of ours, and no other.
    let keys = read("src/domain/keys.rs");
    let ours: BTreeSet<_> = keys
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|k| k.contains("sundown.dev/") && *k != "sundown.dev/")
        // The key of a gate ends with a name.
        .map(|k| if k.ends_with('/') { format!("{k}NAME") } else { k.to_owned() })
        .collect();
    assert_eq!(first_column(&page, "## The record"), ours);
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(&format!(
            "`{EXCLUDE_FROM_LOAD_BALANCERS}` with the value `{EXCLUDED_BY_US}`"
        ))
    );
}

#[test]
fn the_rights_on_the_page_are_those_that_are_used() {
    let page = read("docs/security.md");
    let section =
        page.split("\n## Rights in Kubernetes\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let verbs = |row: &Vec<String>| row[1].split(", ").map(str::to_owned).collect::<Vec<_>>();
    let rights = rows(section);
    let said: BTreeSet<_> = rights
        .iter()
        .flat_map(|row| {
            verbs(row).into_iter().map(move |verb| (row[0].trim_matches('`').to_owned(), verb))
        })
        .collect();
    let by_flag =
        [calls::of_disruption_target(), calls::of_node_conditions(), calls::of_deleted_nodes()];
    let all = by_flag.into_iter().chain([calls::of_cluster(), calls::of_lease()]).flatten();
    let used: BTreeSet<_> = all.map(|(_, resource, verb)| (resource, verb)).collect();
    assert_eq!(said, used);
}
