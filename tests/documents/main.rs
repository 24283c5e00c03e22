//! What is written beside the code, held against the code: manifests, policies, pages.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests: a panic is how they fail"
)]

mod alerts;
mod book;
mod by_hand;
#[allow(dead_code, reason = "what only tests/packaging needs of it")]
mod calls;
mod chart;
mod commands;
mod conformance;
mod deploy;
mod expressions;
mod failure_modes;
mod figures;
mod from_nth;
mod full_run;
mod generated;
mod iam;
mod image;
mod links;
mod operations;
mod pages;
mod picture;
mod rooms;
mod scenarios;
mod settings;
mod workflows;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A file of the project.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A piece of Rust as it would be on one line of any length: how the formatter broke it does not
/// matter to a test that looks for a call in it.
fn on_one_line(code: &str) -> String {
    let mut words = code.split_whitespace().collect::<Vec<_>>().join(" ");
    for (broken, whole) in [
        ("\\ ", ""),
        ("( ", "("),
        ("[ ", "["),
        (", )", ")"),
        (" )", ")"),
        (", ]", "]"),
        (" .", "."),
    ] {
        words = words.replace(broken, whole);
    }
    words
}

#[test]
fn code_that_the_formatter_broke_reads_as_on_one_line() {
    let broken = "stage\n    .rule(\n        Rule::new(\"a \\\n         b\", [\n            1,\n        ]),\n    )";
    assert_eq!(on_one_line(broken), "stage.rule(Rule::new(\"a b\", [1]))");
}

/// The files under `dir` with this ending, by their path from the root, in order.
fn files(dir: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut look_in = vec![PathBuf::from(dir)];
    while let Some(dir) = look_in.pop() {
        for entry in fs::read_dir(root().join(&dir)).unwrap() {
            let path = dir.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                look_in.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// What stands between backquotes in the first column of the tables under the heading `heading`, up
/// to the next heading.
fn first_column(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page
        .split(&format!("\n{heading}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no heading `{heading}`"));
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned()).collect()
}
