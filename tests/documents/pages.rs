//! Links, flags and commands in the pages.

use std::collections::BTreeSet;

use crate::{files, read, root};

fn pages() -> Vec<String> {
    let mut pages: Vec<_> = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "terraform/README.md",
        "terraform/modules/policy/README.md",
        "deploy/helm/sundown/README.md",
    ]
    .map(str::to_owned)
    .into();
    pages.extend(files("docs", ".md"));
    pages
}

/// The anchor that a heading gets.
pub fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = read(&page);
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).filter(|t| !t.starts_with("http")) {
            let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
            let dir = root().join(&page).parent().unwrap().to_owned();
            let file = if file.is_empty() { root().join(&page) } else { dir.join(file) };
            assert!(file.exists(), "{page} links to {target}");
            if !wanted.is_empty() {
                let there = std::fs::read_to_string(&file).unwrap();
                let anchors: BTreeSet<_> = there.lines().filter(|l| l.starts_with('#')).map(|l| anchor(l.trim_start_matches('#').trim())).collect();
                assert!(anchors.contains(wanted), "{page} links to {target}");
            }
        }
    }
}

/// The variables that tests read, by the file that does.
const OF_TESTS: &[(&str, &str)] = &[
    ("SUNDOWN_SEED", "tests/simulation/seeds/mod.rs"),
    ("SUNDOWN_SEEDS", "tests/simulation/seeds/mod.rs"),
    ("SUNDOWN_FIRST_SEED", "tests/simulation/seeds/mod.rs"),
    ("SUNDOWN_FUZZ_SEED", "tests/fuzz_parse.rs"),
    ("SUNDOWN_FUZZ_SECONDS", "tests/fuzz_parse.rs"),
    ("SUNDOWN_WRITE_DOCS", "src/config/tests.rs"),
    ("SUNDOWN_CONTROL_PLANE", "tests/control-plane/cluster.rs"),
    ("SUNDOWN_BINARY", "tests/binary/process.rs"),
    ("SUNDOWN_PYTHON", "tests/contract/python.rs"),
    ("SUNDOWN_CASE", "tests/contract/play.rs"),
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
    for page in pages() {
        let text = read(&page);
        for name in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| w.starts_with("SUNDOWN_") && *w != "SUNDOWN_") {
            assert!(known.contains(&format!("`{name}`")) || OF_TESTS.iter().any(|(of_test, _)| *of_test == name), "{page} names {name}");
        }
    }
}

/// Of `sundown simulate`, cargo, kubectl, docker, aws, terraform.
const FLAGS_OF_OTHERS: &[&str] = &[
    "release",
    "serve",
    "oldest",
    "all",
    "nocapture",
    "seed",
    "scenario",
    "real-time",
    "speed",
    "locked",
    "check",
    "as",
    "field-selector",
    "tail",
    "prefix",
    "queue-name",
];

/// Every flag in a code span of the page is one of `sundown run`, or one of these.
pub fn flags_in_code_spans(page: &str, others: &[&str]) {
    let (text, known) = (read(page), sundown::config::document());
    // Blocks of commands use flags of other programs; code spans are about ours.
    let prose: String = text.split("```").step_by(2).collect();
    let of_others = ["kubectl ", "aws ", "terraform ", "docker "];
    let spans = prose.split('`').skip(1).step_by(2).filter(|span| !of_others.iter().any(|program| span.starts_with(program)));
    for flag in spans.flat_map(str::split_whitespace).filter_map(|w| w.strip_prefix("--")).filter(|w| !w.is_empty()) {
        let flag = flag.split('=').next().unwrap();
        let fine = known.contains(&format!("| `--{flag} ")) || known.contains(&format!("| `--{flag}`")) || others.contains(&flag);
        assert!(fine, "{page} names --{flag}");
    }
}

#[test]
fn flags_in_code_spans_of_the_pages_exist() {
    for page in ["README.md", "docs/operations.md", "docs/interruptions.md", "docs/architecture.md", "docs/scenarios.md"] {
        flags_in_code_spans(page, FLAGS_OF_OTHERS);
    }
}
