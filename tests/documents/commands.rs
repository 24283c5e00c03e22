//! The page `docs/commands.md` and what it says of commands, held against the binary and its
//! sources.

use std::{collections::BTreeSet, process::Command};

use crate::{files, first_column, on_one_line, read};

/// The long flags of a command, as its help says them.
fn flags(command: &str) -> BTreeSet<String> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_sundown")).args([command, "--help"]).output().unwrap();
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    let words = help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').map(str::to_owned);
    words
        .filter_map(|w| w.strip_prefix("--").map(str::to_owned))
        .filter(|w| !w.is_empty())
        .collect()
}

/// Of helm, kubectl, cargo, docker and the aws CLI.
const OF_OTHERS: &[&str] = &[
    "logs",
    "field-selector",
    "path",
    "locked",
    "rm",
    "auto-scaling-group-name",
    "scaling-processes",
    "query",
    "rule",
    "ids",
    "name",
    "queue-name",
    "namespace",
    "association-id",
    "role-name",
    "policy-name",
];

/// What stands in backquotes, and in blocks.
fn spoken(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == '`')
        .filter_map(|w| w.strip_prefix("--"))
        .map(|w| w.split(['=', ',', '.', ';', ':', ')']).next().unwrap())
}

#[test]
fn the_flags_on_the_pages_are_those_of_the_commands() {
    let known: BTreeSet<String> = ["run", "status", "explain", "check", "enroll", "send-test"]
        .into_iter()
        .flat_map(flags)
        .collect();
    let mut seen = 0;
    for page in ["docs/commands.md", "docs/uninstall.md"] {
        let text = read(page);
        for flag in
            spoken(&text).filter(|f| f.starts_with(char::is_alphabetic) && !OF_OTHERS.contains(f))
        {
            assert!(known.contains(flag), "{page} names --{flag}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} flags");
}

#[test]
fn every_flag_of_people_is_on_the_pages() {
    let text = read("docs/commands.md") + &read("docs/uninstall.md");
    let run = flags("run");
    for command in ["status", "explain", "check", "enroll", "send-test"] {
        // Those of `run` have a page of their own.
        for flag in flags(command).difference(&run).filter(|f| *f != "output" && *f != "metadata") {
            assert!(text.contains(&format!("--{flag}")), "--{flag} of {command} is on no page");
        }
    }
}

#[test]
fn every_point_of_the_check_is_on_the_page_and_every_one_on_the_page_is_asked() {
    let begin = [
        "POINT: &str = \"",
        "Finding::yes(\"",
        "Finding::no(\"",
        "Finding::cannot_tell(\"",
        "Finding::of_error(\"",
        "Finding::of_look_up(\"",
        "bogus(\"",
        "probe(\"",
    ];
    let sources = files("src/cli/check", ".rs")
        .into_iter()
        .filter(|f| !f.ends_with("/tests.rs") && !f.ends_with("/finding.rs"));
    let mut points = BTreeSet::new();
    for source in sources {
        let text = on_one_line(&read(&source));
        let code = text.split("#[cfg(test)]").next().unwrap();
        for start in begin {
            points.extend(
                code.split(start).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()),
            );
        }
    }
    assert_eq!(first_column(&read("docs/commands.md"), "### Points"), points);
}
