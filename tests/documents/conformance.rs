//! `docs/conformance.md`: the cases whose numbers begin the names of tests (`c17_…`, `s20_…`).
//!
//! The files in `conformance/` hold the cases. The names of their tests come from the sources.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::{files, generated::hold, read};

/// The tables of the page: heading and file.
const TABLES: [(&str, &str); 6] = [
    ("Messages", "messages"),
    ("Instances and their Nodes", "instances"),
    ("Drains and completions", "completions"),
    ("Heartbeats", "heartbeats"),
    ("Bursts, restarts, outages", "operation"),
    ("Pods and evictions", "evictions"),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// `C1`, `S1`.
    number: String,
    input: String,
    outcome: String,
    /// Markdown. What stands in brackets is a name in `sources.yaml`.
    source: String,
    /// Why no test has the number in its name. `None` if a test has it.
    no_test: Option<String>,
    /// The part of the outcome that the tests leave open.
    not_shown: Option<String>,
}

/// A function whose name begins with the numbers of cases.
struct Function {
    path: String,
    name: String,
    numbers: Vec<String>,
    is_test: bool,
}

/// A name of a source and its address.
type Sources = BTreeMap<String, String>;

/// `C17` for `c17`; `None` for a word that is not a number of a case.
fn number(word: &str) -> Option<String> {
    let digits = word.strip_prefix(['c', 's'])?;
    let is_number = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| word[..1].to_uppercase() + digits.trim_start_matches('0'))
}

fn functions(path: &str, source: &str) -> Vec<Function> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let signature = line.strip_prefix("async ").unwrap_or(line);
        let Some(rest) = signature.strip_prefix("fn ") else { continue };
        let name = rest.split(['(', '<']).next().unwrap();
        let numbers: Vec<String> = name.split('_').map_while(number).collect();
        let mut attributes =
            lines[..at].iter().rev().take_while(|l| l.starts_with("#[") || l.starts_with("//"));
        let is_test = attributes.any(|line| line.starts_with("#[") && line.contains("test"));
        if !numbers.is_empty() {
            found.push(Function { path: path.to_owned(), name: name.to_owned(), numbers, is_test });
        }
    }
    found
}

fn all_functions() -> Vec<Function> {
    let paths = files("src", ".rs").into_iter().chain(files("tests", ".rs"));
    paths.flat_map(|path| functions(&path, &read(&path))).collect()
}

fn parse<T: for<'de> Deserialize<'de>>(name: &str) -> T {
    let file = format!("tests/documents/conformance/{name}.yaml");
    serde_saphyr::from_str(&read(&file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn tests_of<'a>(row: &Row, functions: &'a [Function]) -> Vec<&'a Function> {
    functions.iter().filter(|f| f.is_test && f.numbers.contains(&row.number)).collect()
}

/// The names in brackets.
fn sources_of(row: &Row) -> impl Iterator<Item = &str> {
    row.source.split('[').skip(1).filter_map(|rest| Some(rest.split_once(']')?.0))
}

const HEAD: &str = "# Conformance

Which cases does Sundown have to handle, where does each case come from, and which tests show it?
The name of such a test begins with the number of its case: `c17_…` shows C17, `c05_c07_…` shows C5
and C7.

- Cases with a C come from the tests, the code and the issues of other node drainers, mostly of
  [aws-node-termination-handler](https://github.com/aws/aws-node-termination-handler) (NTH below).
- Cases with an S are scenarios of draining on Kubernetes, from the tests and issues of Kubernetes
  and of tools that drain nodes.
- The outcome is what Sundown has to do, which may differ from what the source does. The source
  \"Own\" means that we know no other project with a test for the case.
- Where a case has no test, the last column gives the reason, and what Sundown does today.

This page is generated from `tests/documents/conformance` and from the names of the tests. A test
holds the page against both.
";

fn page(tables: &[(&str, Vec<Row>)], functions: &[Function], sources: &Sources) -> String {
    let rows = || tables.iter().flat_map(|(_, rows)| rows);
    let shown = rows().filter(|row| !tests_of(row, functions).is_empty()).count();
    let mut lines =
        vec![HEAD.to_owned(), format!("{} cases, {shown} of them with tests.\n", rows().count())];
    for (heading, rows) in tables {
        lines.push(format!(
            "## {heading}\n\n| case | input | outcome | source | tests |\n\
             | --- | --- | --- | --- | --- |"
        ));
        lines.extend(rows.iter().map(|row| table_line(row, &tests_of(row, functions))));
        lines.push(String::new());
    }
    lines.extend(sources.iter().map(|(name, address)| format!("[{name}]: {address}")));
    lines.join("\n") + "\n"
}

fn table_line(row: &Row, tests: &[&Function]) -> String {
    let names = tests.iter().map(|test| format!("`{}::{}`", test.path, test.name));
    let reasons = [("No test.", &row.no_test), ("Not shown.", &row.not_shown)];
    let reasons = reasons
        .iter()
        .filter_map(|(title, text)| Some(format!("**{title}** {}", (*text).as_ref()?)));
    let shown = names.chain(reasons).collect::<Vec<_>>().join("<br>");
    format!("| {} | {} | {} | {} | {shown} |", row.number, row.input, row.outcome, row.source)
}

/// What is wrong with the cases and the tests that have their numbers.
fn faults(rows: &[&Row], functions: &[Function], sources: &Sources) -> Vec<String> {
    let mut faults = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let (number, has_test) = (&row.number, !tests_of(row, functions).is_empty());
        let texts = [&row.input, &row.outcome, &row.source];
        let texts: Vec<_> = texts.into_iter().chain(&row.no_test).chain(&row.not_shown).collect();
        if texts.iter().any(|text| text.trim().is_empty() || text.contains(['|', '\n'])) {
            faults.push(format!("{number}: a text is empty, or breaks the table"));
        }
        if rows[..n].iter().any(|before| before.number == *number) {
            faults.push(format!("{number} is there twice"));
        }
        match (has_test, &row.no_test, &row.not_shown) {
            (false, None, _) => {
                faults.push(format!("{number} has no test: give the reason in `no_test`"));
            }
            (true, Some(_), _) => faults.push(format!("{number} has a test: remove `no_test`")),
            (false, Some(_), Some(_)) => {
                faults.push(format!("{number} has no test: remove `not_shown`"));
            }
            _ => {}
        }
        let unknown = sources_of(row).filter(|source| !sources.contains_key(*source));
        faults.extend(unknown.map(|source| format!("{number}: sources.yaml has no {source}")));
    }
    for function in functions {
        let Function { path, name, numbers, is_test } = function;
        if !is_test {
            faults.push(format!("{path}::{name} is not a test"));
        }
        let unknown = numbers.iter().filter(|n| rows.iter().all(|row| row.number != **n));
        faults.extend(unknown.map(|n| format!("{path}::{name}: there is no case {n}")));
    }
    let used: BTreeSet<_> = rows.iter().flat_map(|row| sources_of(row)).collect();
    let unused = sources.keys().filter(|name| !used.contains(name.as_str()));
    faults.extend(unused.map(|name| format!("no case comes from {name}")));
    faults
}

#[test]
fn the_page_of_conformance_is_generated() {
    let tables = TABLES.map(|(heading, name)| (heading, parse(name)));
    hold("docs/conformance.md", &page(&tables, &all_functions(), &parse("sources")));
}

#[test]
fn every_case_has_a_test_or_says_why_not_and_every_number_in_a_tests_name_is_a_case() {
    let rows: Vec<Row> = TABLES.iter().flat_map(|(_, name)| parse::<Vec<Row>>(name)).collect();
    let (rows, functions) = (rows.iter().collect::<Vec<_>>(), all_functions());
    assert!(functions.len() > 200, "{} tests", functions.len());
    let faults = faults(&rows, &functions, &parse("sources"));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_fault_of_a_case_or_a_test_is_found() {
    let source = [
        "#[test]",
        "fn c01_a() {}",
        "/// Why.",
        "#[tokio::test]",
        "async fn c02_s03_b() {}",
        "fn c04_helper<T>() {}",
        "fn c5_d() {}",
        "fn cut_c06() {}",
    ];
    let functions = functions("src/a.rs", &source.join("\n"));
    let found: Vec<_> =
        functions.iter().map(|f| (f.name.as_str(), f.numbers.join(" "), f.is_test)).collect();
    let [c1, c2, c4] = ["C1", "C2 S3", "C4"].map(str::to_owned);
    assert_eq!(found, [("c01_a", c1, true), ("c02_s03_b", c2, true), ("c04_helper", c4, false)]);

    let row = |number: &str, no_test: Option<&str>, not_shown: Option<&str>| Row {
        number: number.to_owned(),
        input: "An input.".to_owned(),
        outcome: "An outcome.".to_owned(),
        source: "[A] and [B]".to_owned(),
        no_test: no_test.map(str::to_owned),
        not_shown: not_shown.map(str::to_owned),
    };
    let sources: Sources =
        ["A", "B"].map(|name| (name.to_owned(), "https://example.com".to_owned())).into();
    let good = [
        row("C1", None, None),
        row("C2", None, Some("The rest.")),
        row("S3", None, None),
        row("C4", Some("Not built yet."), None),
    ];
    let good: Vec<&Row> = good.iter().collect();
    let helper = "src/a.rs::c04_helper is not a test";
    assert_eq!(faults(&good, &functions, &sources), [helper]);

    let untested = row("C9", None, None);
    let tested = row("C1", Some("Not built yet."), None);
    let neither = row("C9", Some("Not built yet."), Some("The rest."));
    let broken = Row { input: "a | b".to_owned(), ..row("C1", None, None) };
    let unknown = Row { source: "[A], [B], [C]".to_owned(), ..row("C1", None, None) };
    for (rows, fault) in [
        (vec![good[0], &untested], "C9 has no test: give the reason in `no_test`"),
        (vec![&tested], "C1 has a test: remove `no_test`"),
        (vec![&neither], "C9 has no test: remove `not_shown`"),
        (vec![&broken], "C1: a text is empty, or breaks the table"),
        (vec![good[0], good[0]], "C1 is there twice"),
        (vec![&unknown], "C1: sources.yaml has no C"),
        (vec![good[0]], "src/a.rs::c02_s03_b: there is no case S3"),
        (vec![], "no case comes from A"),
    ] {
        let found = faults(&rows, &functions, &sources);
        assert!(found.iter().any(|f| f == fault), "{fault}: {found:?}");
    }
}
