//! The pages `docs/from-nth.md` and `docs/notifications.md`: what they name of ours exists.

use std::collections::BTreeSet;

use sundown::observe::webhook::{NAMES, On, Template};

use crate::{first_column, read};

const PAGE: &str = "docs/from-nth.md";
const CHART: &str = "deploy/helm/sundown/values.yaml";

/// The rows of the table: flag, value, default, answer, here, why.
fn rows() -> Vec<[String; 6]> {
    let page = read(PAGE);
    let table = page
        .split("<!-- the table begins -->")
        .nth(1)
        .unwrap()
        .split("<!-- the table ends -->")
        .next()
        .unwrap();
    let cells = |line: &str| {
        line.trim_matches('|').split(" | ").map(|c| c.trim().to_owned()).collect::<Vec<_>>()
    };
    table
        .lines()
        .filter(|l| l.starts_with("| `") || l.starts_with("| –"))
        .map(|line| cells(line).try_into().unwrap_or_else(|c| panic!("{c:?}")))
        .collect()
}

/// The flags of `sundown run`.
fn flags() -> BTreeSet<String> {
    let page = sundown::config::document();
    page.lines()
        .filter_map(|l| l.strip_prefix("| `--"))
        .map(|rest| rest.split(['`', ' ']).next().unwrap().to_owned())
        .collect()
}

fn spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// `drainTimeout` → `drain-timeout`.
fn kebab(key: &str) -> String {
    key.chars()
        .flat_map(
            |c| if c.is_ascii_uppercase() { vec!['-', c.to_ascii_lowercase()] } else { vec![c] },
        )
        .collect()
}

#[test]
fn every_flag_and_every_value_of_ours_in_the_table_exists() {
    let (flags, rows) = (flags(), rows());
    assert!(rows.len() > 90, "{} rows", rows.len());
    let chart: serde_json::Value = serde_saphyr::from_str(&read(CHART)).unwrap();
    let (mut named, mut looked_up) = (0, 0);
    for [flag, value, _, _, here, why] in &rows {
        let row = format!("{flag} {value}");
        for span in spans(here).into_iter().chain(spans(why)) {
            if let Some(flag) = span.strip_prefix("--") {
                named += 1;
                assert!(flags.contains(flag.split([' ', '=']).next().unwrap()), "{row}: {span}");
            }
        }
        for span in spans(here).into_iter().filter(|s| !s.starts_with("--")) {
            if let Some(key) = span.strip_prefix("config.") {
                // The chart's `config` is the flags in camel case; several queues are a list there.
                let flag = if key == "queueUrls" { "queue-url".to_owned() } else { kebab(key) };
                assert!(flags.contains(&flag), "{row}: {span}");
            } else {
                looked_up += 1;
                assert!(
                    chart.pointer(&format!("/{}", span.replace('.', "/"))).is_some(),
                    "{row}: {CHART} has no {span}"
                );
            }
        }
    }
    assert!(named > 30, "{named} flags are named");
    assert!(looked_up > 20, "{looked_up} values of the chart are named");
}

#[test]
fn every_row_has_an_answer_and_one_without_a_counterpart_says_why() {
    for [flag, value, _, answer, here, why] in rows() {
        assert!(
            ["same", "better default", "dropped", "no counterpart", "IMDS mode only"]
                .contains(&answer.as_str()),
            "{flag} {value}: {answer}"
        );
        assert!(answer != "same" || here != "–", "{flag} {value}");
        assert!(
            !["dropped", "no counterpart"].contains(&answer.as_str()) || why != "–",
            "{flag} {value}"
        );
    }
}

#[test]
fn commands_and_flags_of_ours_in_the_pages_exist() {
    let flags = flags();
    for page in [PAGE, "docs/notifications.md"] {
        let text = read(page);
        let prose = text.split("<!-- the table begins -->").next().unwrap();
        // Blocks of commands use flags of other programs.
        let prose: String = prose.split("```").step_by(2).collect();
        let mut named = 0;
        for line in prose.lines() {
            for word in line
                .split(|c: char| c.is_whitespace() || "`,;().".contains(c))
                .filter_map(|w| w.strip_prefix("--"))
                .filter(|w| !w.is_empty() && !w.starts_with('-'))
            {
                let flag = word.split('=').next().unwrap();
                named += 1;
                // Of kubectl.
                assert!(flags.contains(flag) || flag == "replicas", "{page} names --{flag}");
            }
        }
        assert!(named > 5, "{page}: {named}");
    }
}

#[test]
fn the_names_of_templates_are_on_the_page_and_its_examples_can_be_used() {
    let page = read("docs/notifications.md");
    let mut names: BTreeSet<_> = NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    names.insert("labels['KEY']".to_owned());
    assert_eq!(first_column(&page, "## The text"), names);
    let block = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let span = spans(&page).into_iter().find(|s| s.starts_with("{\"text\"")).unwrap();
    assert_eq!(span, sundown::observe::webhook::DEFAULT_TEMPLATE);
    let both = [On::Accepted, On::Ended].into();
    for example in [block, span] {
        Template::for_events(example, &both).unwrap_or_else(|e| panic!("{example}: {e}"));
    }
    let syntax = page.split("\n### Template syntax\n").nth(1).unwrap();
    let syntax = syntax.split("\n### ").next().unwrap();
    let table = crate::book::rows(syntax);
    let examples: Vec<_> = table.iter().flat_map(|cells| spans(&cells[1])).collect();
    assert!(examples.len() > 5, "{examples:?}");
    for example in examples {
        Template::for_events(&serde_json::json!([example]).to_string(), &both)
            .unwrap_or_else(|e| panic!("{example}: {e}"));
    }
}
