//! The page `docs/scenarios.md`: the fields of a scenario and of the summary.

use std::collections::BTreeSet;

use crate::{first_column, read};

const PAGE: &str = "docs/scenarios.md";

/// The fields of a struct as serde reads and writes them, from its source.
pub fn fields(source: &str, name: &str, convert: fn(&str) -> String) -> BTreeSet<String> {
    let start = format!("struct {name} {{\n");
    let body = source
        .split(&start)
        .nth(1)
        .unwrap_or_else(|| panic!("no struct {name}"))
        .split("\n}")
        .next()
        .unwrap();
    let mut fields = BTreeSet::new();
    let mut skipped = false;
    for line in body.lines().map(str::trim) {
        if line == "#[serde(skip)]" {
            skipped = true;
        } else if !line.starts_with("//") && !line.starts_with('#') {
            let field = line.split(':').next().unwrap().rsplit(' ').next().unwrap();
            if !std::mem::take(&mut skipped) {
                fields.insert(convert(field));
            }
        }
    }
    assert!(!fields.is_empty(), "{name} has no fields");
    fields
}

fn camel(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |all, word| all + &word[..1].to_uppercase() + &word[1..])
}

/// The structs that serde knows in a source.
fn structs(source: &str) -> BTreeSet<&str> {
    let marked = source
        .split("#[derive(")
        .skip(1)
        .filter(|part| part.split(']').next().unwrap().contains("erialize"));
    marked
        .filter_map(|part| part.lines().find_map(|line| line.split("struct ").nth(1)))
        .map(|rest| rest.split(' ').next().unwrap())
        .collect()
}

#[test]
fn every_field_of_a_scenario_is_on_the_page_and_every_one_on_the_page_exists() {
    let (page, source) = (read(PAGE), read("src/cli/simulate/scenario.rs"));
    let sections = [
        ("Scenario", "## Scenario"),
        ("Group", "## Groups"),
        ("Hook", "## Hook"),
        ("Workload", "## Workloads"),
        ("Budget", "## Budget"),
        ("Event", "## Events"),
        ("Instances", "## Instances"),
    ];
    let of_the_file: BTreeSet<&str> = source
        .lines()
        .filter_map(|line| line.strip_prefix("pub(super) struct "))
        .map(|rest| rest.trim_end_matches(" {"))
        .collect();
    assert_eq!(of_the_file, sections.iter().map(|(name, _)| *name).collect());
    for (name, heading) in sections {
        assert_eq!(first_column(&page, heading), fields(&source, name, camel), "{heading}");
    }
}

#[test]
fn every_field_of_the_summary_is_on_the_page_and_every_one_on_the_page_exists() {
    let (page, source, board) =
        (read(PAGE), read("src/cli/simulate/summary.rs"), read("src/controller/board.rs"));
    let sections = [
        ("Summary", "### The summary"),
        ("NodeSummary", "### A node"),
        ("HookSummary", "### A lifecycle action"),
        ("Calls", "### Calls"),
    ];
    assert_eq!(structs(&source), sections.iter().map(|(name, _)| *name).collect());
    for (name, heading) in sections {
        assert_eq!(first_column(&page, heading), fields(&source, name, camel), "{heading}");
    }
    assert_eq!(
        first_column(&page, "### A blocked pod"),
        fields(&board, "BlockedFor", str::to_owned)
    );
}

#[test]
fn the_sick_instance_of_its_scenario_is_drained_set_unhealthy_and_replaced() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scenarios/impaired.yaml");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sundown"))
        .args(["simulate", "--scenario", file])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("A status check fails of 1 instance of `general`"), "{said}");
    assert!(said.contains("CONTINUE"), "its terminate hook is completed: {said}");
}

#[test]
fn the_scenario_on_the_page_can_be_played() {
    let page = read(PAGE);
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenario-of-the-page.yaml");
    std::fs::write(&file, yaml).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sundown"))
        .args(["simulate", "--scenario"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("one node of three goes") && said.contains("CONTINUE"), "{said}");
}
