//! Flags and variables in the pages.

use crate::{links::all_pages, read};

/// The anchor that a heading gets.
pub fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

/// The variables that tests read, by the file that does.
const OF_TESTS: &[(&str, &str)] = &[
    ("SUNDOWN_SEED", "tests/simulation/seeds/usual.rs"),
    ("SUNDOWN_SEEDS", "tests/simulation/seeds/usual.rs"),
    ("SUNDOWN_FIRST_SEED", "tests/simulation/seeds/usual.rs"),
    ("SUNDOWN_NEW_SEEDS", "tests/simulation/seeds/usual.rs"),
    ("SUNDOWN_FIRST_NEW_SEED", "tests/simulation/seeds/usual.rs"),
    ("SUNDOWN_HASHES", "tests/simulation/seeds/usual.rs"),
    ("SUNDOWN_KILL", "tests/simulation/seeds/kill.rs"),
    ("SUNDOWN_KILLS", "tests/simulation/seeds/kill.rs"),
    ("SUNDOWN_FUZZ_SEED", "tests/fuzz_parse.rs"),
    ("SUNDOWN_FUZZ_SECONDS", "tests/fuzz_parse.rs"),
    ("SUNDOWN_WRITE_DOCS", "tests/documents/generated.rs"),
    ("SUNDOWN_CONTROL_PLANE", "tests/control-plane/cluster.rs"),
    ("SUNDOWN_BINARY", "tests/binary/process.rs"),
    ("SUNDOWN_PYTHON", "tests/contract/python.rs"),
    ("SUNDOWN_CASE", "tests/contract/play.rs"),
    ("SUNDOWN_SKIP", "tests/binary/skip.rs"),
];

#[test]
fn the_variables_of_tests_are_read_there_and_told_to_contributors() {
    let page = read("CONTRIBUTING.md");
    for (name, file) in OF_TESTS {
        assert!(read(file).contains(&format!("\"{name}\"")), "{file} does not read {name}");
        assert!(page.contains(&format!("`{name}")), "CONTRIBUTING.md does not name {name}");
    }
}

#[test]
fn variables_in_the_pages_are_those_of_flags_and_of_tests() {
    let known = sundown::config::document();
    let mut seen = 0;
    for page in all_pages() {
        let text = read(&page);
        for name in text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|w| w.starts_with("SUNDOWN_") && *w != "SUNDOWN_")
        {
            assert!(
                known.contains(&format!("`{name}`"))
                    || OF_TESTS.iter().any(|(of_test, _)| *of_test == name),
                "{page} names {name}"
            );
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen} names");
}

/// Of `sundown simulate`, cargo, kubectl, docker, aws, terraform.
const FLAGS_OF_OTHERS: &[&str] = &[
    "release",
    "serve",
    "no-service",
    "oldest",
    "all",
    "nocapture",
    "seed",
    "scenario",
    "real-time",
    "speed",
    "locked",
    "check",
    "launch",
    "as",
    "field-selector",
    "tail",
    "prefix",
    "queue-name",
    "yes",
    "to",
    "visibility-timeout",
];

/// Every flag in a code span of the page is one of `sundown run`, or one of these. How many there
/// were.
pub fn flags_in_code_spans(page: &str, others: &[&str]) -> usize {
    let (text, known) = (read(page), sundown::config::document());
    // Blocks of commands use flags of other programs; code spans are about ours.
    let prose: String = text.split("```").step_by(2).collect();
    let of_others = ["kubectl ", "aws ", "terraform ", "docker "];
    let spans = prose
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|span| !of_others.iter().any(|program| span.starts_with(program)));
    let mut seen = 0;
    for flag in spans
        .flat_map(str::split_whitespace)
        .filter_map(|w| w.strip_prefix("--"))
        .filter(|w| !w.is_empty())
    {
        let flag = flag.split('=').next().unwrap();
        let fine = known.contains(&format!("| `--{flag} "))
            || known.contains(&format!("| `--{flag}`"))
            || others.contains(&flag);
        assert!(fine, "{page} names --{flag}");
        seen += 1;
    }
    seen
}

#[test]
fn flags_in_code_spans_of_the_pages_exist() {
    let pages = [
        "README.md",
        "docs/install.md",
        "docs/iam.md",
        "docs/operations.md",
        "docs/interruptions.md",
        "docs/architecture.md",
        "docs/scenarios.md",
    ];
    let seen: usize = pages.iter().map(|page| flags_in_code_spans(page, FLAGS_OF_OTHERS)).sum();
    assert!(seen > 50, "{seen} flags");
}
