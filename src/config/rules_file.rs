//! Reads the administrator's rules about pods (`--rules-file`). An error names the line, the field
//! and what to write instead.

use std::{fs::File, io::Read as _, path::Path, time::Duration};

use serde::Deserialize;
use serde_saphyr::Spanned;
use wildmatch::WildMatch;

use super::values::parse_duration;
use crate::domain::{
    ForceAfter, MAX_POD_GROUPS, MAX_POD_RULES, PodBehavior, PodMatch, PodRule, PodRules, RulePlace,
    Selector, seconds,
};

/// A longer file is not read.
const LONGEST: u64 = 256 * 1024;
/// The most entries of a list in a rule.
const MOST_ENTRIES: usize = 64;
/// The longest grace period that a rule may give.
const LONGEST_GRACE: Duration = seconds(48 * 3600);
/// The most characters of a value that an error repeats.
const QUOTED: usize = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    rules: Vec<Spanned<Rule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    r#match: Match,
    behavior: Behavior,
    order: Option<i32>,
    max_grace_period: Option<Spanned<String>>,
    force_after: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Match {
    namespaces: Vec<Spanned<String>>,
    pod_labels: Option<Spanned<String>>,
    owner_kinds: Vec<Spanned<String>>,
    node_labels: Option<Spanned<String>>,
    namespace_labels: Option<Spanned<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum Behavior {
    Evict,
    Skip,
    WaitCompleted,
}

/// Reads the file.
pub(crate) fn read(path: &Path) -> Result<PodRules, String> {
    let failed = |error: std::io::Error| format!("the file cannot be read: {error}");
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
    parse(&text)
}

/// Reads the text of a file.
pub(crate) fn parse(text: &str) -> Result<PodRules, String> {
    if text.len() as u64 > LONGEST {
        return Err(format!("the file has more than {} KiB; shorten it", LONGEST / 1024));
    }
    // Only the first line: the others repeat a part of the file.
    let first_line = |error: serde_saphyr::Error| {
        let error = error.to_string();
        format!("{}; write `rules:` and a list of rules", error.lines().next().unwrap_or_default())
    };
    let file: RulesFile = serde_saphyr::from_str(text).map_err(first_line)?;
    let rules: Result<Vec<PodRule>, String> =
        file.rules.into_iter().enumerate().map(|(number, rule)| rule_of(number, rule)).collect();
    let rules = rules?;
    let count = rules.len();
    PodRules::new(rules).ok_or_else(|| {
        if count > MAX_POD_RULES {
            format!("rules has {count} entries; write at most {MAX_POD_RULES}")
        } else {
            format!(
                "the rules have too many different values of order; use at most {MAX_POD_GROUPS}, \
                 with 0 for the pods that no rule gives one"
            )
        }
    })
}

fn rule_of(number: usize, rule: Spanned<Rule>) -> Result<PodRule, String> {
    let (line, rule) = (rule.referenced.line(), rule.value);
    let behavior = match (rule.behavior, rule.order) {
        (Behavior::Evict, order) => PodBehavior::Evict(order),
        (Behavior::Skip, None) => PodBehavior::Skip,
        (Behavior::WaitCompleted, None) => PodBehavior::WaitCompleted,
        (Behavior::Skip | Behavior::WaitCompleted, Some(_)) => {
            return Err(format!(
                "line {line}: rules[{number}].order is only for `behavior: Evict`; remove it"
            ));
        }
    };
    let field = |name: &str| format!("rules[{number}].{name}");
    let grace = |text: &Spanned<String>| {
        let remedy = "use a duration from 1s to 48h, such as 10m";
        parse_duration(&text.value)
            .ok()
            .filter(|grace| (seconds(1)..=LONGEST_GRACE).contains(grace))
            .ok_or_else(|| wrong(&field("maxGracePeriod"), text, remedy))
    };
    let force = |text: &Spanned<String>| {
        let force: Result<ForceAfter, String> = text.value.parse();
        force.map_err(|remedy| wrong(&field("forceAfter"), text, &remedy))
    };
    Ok(PodRule {
        place: RulePlace { number: number + 1, line },
        matches: match_of(number, &rule.r#match, line)?,
        behavior,
        max_grace_period: rule.max_grace_period.as_ref().map(grace).transpose()?,
        force_after: rule.force_after.as_ref().map(force).transpose()?,
    })
}

fn match_of(number: usize, of: &Match, line: u64) -> Result<PodMatch, String> {
    let field = |name: &str| format!("rules[{number}].match.{name}");
    for (name, list) in [("namespaces", &of.namespaces), ("ownerKinds", &of.owner_kinds)] {
        if list.len() > MOST_ENTRIES {
            let field = field(name);
            return Err(format!("line {line}: {field} is too long; write at most {MOST_ENTRIES}"));
        }
        let is_name = |text: &str| {
            (1..=253).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.*?".contains(&b))
        };
        if let Some(bad) = list.iter().find(|entry| !is_name(&entry.value)) {
            return Err(wrong(&field(name), bad, "use 1 to 253 letters, digits, `-` and `.`"));
        }
    }
    let selector = |name: &str, text: Option<&Spanned<String>>| {
        let Some(text) = text else { return Ok(Selector::default()) };
        let selector: Result<Selector, _> = text.value.parse();
        selector.map_err(|bad| wrong(&field(name), text, &bad.to_string()))
    };
    Ok(PodMatch {
        namespaces: of.namespaces.iter().map(|glob| WildMatch::new(&glob.value)).collect(),
        labels: selector("podLabels", of.pod_labels.as_ref())?,
        owner_kinds: of.owner_kinds.iter().map(|kind| kind.value.clone()).collect(),
        node_labels: selector("nodeLabels", of.node_labels.as_ref())?,
        namespace_labels: selector("namespaceLabels", of.namespace_labels.as_ref())?,
    })
}

fn wrong(field: &str, value: &Spanned<String>, remedy: &str) -> String {
    let quoted: String = value.value.chars().take(QUOTED).collect();
    format!("line {}: {field} is `{quoted}`; {remedy}", value.referenced.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
rules:
- match:
    namespaces: [kube-system, team-*]
    podLabels: app in (web,api), !canary
    ownerKinds: [Job]
    nodeLabels: pool=gpu
  behavior: Evict
  order: -5
  maxGracePeriod: 10m
  forceAfter: 0.75
- behavior: WaitCompleted
  match: {ownerKinds: [Job]}
- behavior: Skip
  match:
    namespaceLabels: team in (web,db)
";

    #[test]
    fn the_rules_of_a_file_are_read_in_their_order() {
        let rules = parse(GOOD).unwrap();
        let first = rules.get(0).unwrap();
        assert_eq!(first.behavior, PodBehavior::Evict(Some(-5)));
        assert_eq!(first.max_grace_period, Some(seconds(600)));
        assert_eq!(first.force_after, Some(ForceAfter::Share(0.75)));
        assert_eq!((first.matches.namespaces.len(), first.matches.owner_kinds.len()), (2, 1));
        assert_eq!(first.matches.labels, "app in (web,api), !canary".parse().unwrap());
        assert_eq!(first.matches.node_labels, "pool=gpu".parse().unwrap());
        assert_eq!(rules.namespace_label_keys().collect::<Vec<_>>(), ["team"]);
        let place = |position| rules.get(position).unwrap().place;
        assert_eq!(place(0), RulePlace { number: 1, line: 2 });
        assert_eq!(place(2), RulePlace { number: 3, line: 13 });
        assert_eq!(rules.get(1).unwrap().behavior, PodBehavior::WaitCompleted);
        assert_eq!(rules.get(2).unwrap().behavior, PodBehavior::Skip);
        assert_eq!((rules.count(), rules.groups()), (3, Some(2)));
        assert_eq!(parse("rules: []").unwrap(), PodRules::default());
    }

    #[test]
    fn a_bad_file_is_refused_with_the_line_the_field_and_the_remedy() {
        for (text, words) in [
            (
                GOOD.replace("forceAfter: 0.75", "forceAfter: 2"),
                &["line 10: rules[0].forceAfter is `2`", "use never, deadline"][..],
            ),
            (GOOD.replace("10m", "10"), &["line 9: rules[0].maxGracePeriod is `10`", "1s to 48h"]),
            (GOOD.replace("10m", "100h"), &["rules[0].maxGracePeriod is `100h`", "1s to 48h"]),
            (GOOD.replace("!canary", "=x"), &["line 4: rules[0].match.podLabels", "kubectl -l"]),
            (
                GOOD.replace("pool=gpu", "=gpu"),
                &["line 6: rules[0].match.nodeLabels", "kubectl -l"],
            ),
            (
                GOOD.replace("team in (web,db)", "team in web"),
                &["line 15: rules[2].match.namespaceLabels", "kubectl -l"],
            ),
            (GOOD.replace("team-*", "\"a b\""), &["line 3: rules[0].match.namespaces is `a b`"]),
            (
                GOOD.replace("behavior: Skip", "behavior: Skip\n  order: 1"),
                &["rules[2].order is only for `behavior: Evict`; remove it", "line 1"],
            ),
            (
                GOOD.replace("behavior: Skip", "behavior: Ignore"),
                &["line 13", "Ignore", "WaitCompleted"],
            ),
            (GOOD.replace("order: -5", "oder: -5"), &["line 8", "oder", "order"]),
            ("rules:\n- match: {}\n".to_owned(), &["behavior", "line 2"]),
            ("rules: 5".to_owned(), &["line 1", "write `rules:` and a list"]),
            (String::new(), &["write `rules:` and a list"]),
            ("rules: [".to_owned(), &["line 1", "write `rules:` and a list"]),
            (format!("rules:{}", "\n- behavior: Skip".repeat(65)), &["65 entries", "at most 64"]),
            (
                format!(
                    "rules:{}",
                    (1..9)
                        .map(|n| format!("\n- {{behavior: Evict, order: {n}}}"))
                        .collect::<Vec<_>>()
                        .concat()
                ),
                &["too many different values of order", "at most 8"],
            ),
        ] {
            let error = parse(&text).unwrap_err();
            for word in words {
                assert!(error.contains(word), "{word:?} is not in {error:?}");
            }
        }
    }

    #[test]
    fn the_example_of_the_documentation_is_good() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pods.md");
        let page = std::fs::read_to_string(page).unwrap();
        let example = page.split("```").find_map(|block| {
            block.strip_prefix("yaml\n").filter(|block| block.starts_with("rules:"))
        });
        assert_eq!(parse(example.unwrap()).unwrap().count(), 4);
    }

    #[test]
    fn a_file_that_is_missing_too_long_or_no_text_is_refused() {
        let name = format!("sundown-bad-rules-{}.yaml", std::process::id());
        let file = std::env::temp_dir().join(name);
        assert!(read(&file).unwrap_err().contains("cannot be read"));
        std::fs::write(&file, "#".repeat(300 * 1024)).unwrap();
        assert!(read(&file).unwrap_err().contains("more than 256 KiB"));
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(read(&file).unwrap_err().contains("cannot be read"));
        std::fs::write(&file, GOOD).unwrap();
        assert_eq!(read(&file).unwrap().count(), 3);
        std::fs::remove_file(&file).unwrap();
    }
}
