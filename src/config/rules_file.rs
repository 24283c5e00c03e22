//! Reads the administrator's rules about pods (`--rules-file`). An error names the line, the field
//! and what to write instead.

use std::{fs::File, io::Read as _, path::Path, time::Duration};

use serde::Deserialize;
use serde_saphyr::Spanned;
use wildmatch::WildMatch;

use super::{
    any_value::{Value, given, list, map},
    values::parse_duration,
};
use crate::domain::{
    ForceAfter, MAX_POD_GROUPS, MAX_POD_RULES, PodBehavior, PodMatch, PodRule, PodRules, RulePlace,
    Selector, seconds,
};

/// The longest file that Sundown reads, in bytes.
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
    #[serde(deserialize_with = "list")]
    rules: Vec<Spanned<Rule>>,
}

/// The file, whatever its rules contain.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopLevel {
    #[serde(rename = "rules", deserialize_with = "list")]
    _rules: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Rule {
    #[serde(default, deserialize_with = "map")]
    r#match: Match,
    behavior: Spanned<Value>,
    #[serde(default, deserialize_with = "given")]
    order: Option<Spanned<Value>>,
    max_grace_period: Option<Spanned<String>>,
    force_after: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Match {
    #[serde(deserialize_with = "given")]
    namespaces: Option<Spanned<Value>>,
    #[serde(deserialize_with = "given")]
    pod_labels: Option<Spanned<Value>>,
    #[serde(deserialize_with = "given")]
    owner_kinds: Option<Spanned<Value>>,
    #[serde(deserialize_with = "given")]
    node_labels: Option<Spanned<Value>>,
    #[serde(deserialize_with = "given")]
    namespace_labels: Option<Spanned<Value>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Behavior {
    Evict,
    Skip,
    WaitCompleted,
}

/// Reads the rules from a file. The error tells the operator what to correct.
pub(crate) fn read(path: &Path) -> Result<PodRules, String> {
    let failed = |error: std::io::Error| format!("the file cannot be read: {error}");
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
    parse(&text)
}

/// Reads the rules from the text of a file.
pub(crate) fn parse(text: &str) -> Result<PodRules, String> {
    if text.len() as u64 > LONGEST {
        return Err(format!("the file has more than {} KiB; shorten it", LONGEST / 1024));
    }
    let file: RulesFile =
        serde_saphyr::from_str(text).map_err(|error| with_remedy(&error, text))?;
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

/// An error of the parser, and what to write instead unless the error shows that itself.
fn with_remedy(error: &serde_saphyr::Error, text: &str) -> String {
    let error = error.to_string();
    // Only the first line: the others repeat a part of the file.
    let error = error.lines().next().unwrap_or_default();
    if serde_saphyr::from_str::<Value>(text).is_err() {
        format!("{error}; write one YAML document, with each key once")
    } else if serde_saphyr::from_str::<TopLevel>(text).is_err() {
        format!("{error}; write `rules:` and a list of rules")
    } else {
        error.to_owned()
    }
}

fn rule_of(number: usize, rule: Spanned<Rule>) -> Result<PodRule, String> {
    let (line, rule) = (rule.referenced.line(), rule.value);
    let field = |name: &str| format!("rules[{number}].{name}");
    let behavior = match rule.behavior.value.text() {
        Some("Evict") => Behavior::Evict,
        Some("Skip") => Behavior::Skip,
        Some("WaitCompleted") => Behavior::WaitCompleted,
        _ => {
            let remedy = "use Evict, Skip or WaitCompleted";
            return Err(wrong_value(&field("behavior"), &rule.behavior, remedy));
        }
    };
    let order = |order: &Spanned<Value>| {
        let remedy = "use a whole number from -2147483648 to 2147483647";
        order.value.whole().ok_or_else(|| wrong_value(&field("order"), order, remedy))
    };
    let behavior = match (behavior, rule.order.as_ref().map(order).transpose()?) {
        (Behavior::Evict, order) => PodBehavior::Evict(order),
        (Behavior::Skip, None) => PodBehavior::Skip,
        (Behavior::WaitCompleted, None) => PodBehavior::WaitCompleted,
        (Behavior::Skip | Behavior::WaitCompleted, Some(_)) => {
            return Err(format!(
                "line {line}: rules[{number}].order is only for `behavior: Evict`; remove it"
            ));
        }
    };
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
        matches: match_of(number, &rule.r#match)?,
        behavior,
        max_grace_period: rule.max_grace_period.as_ref().map(grace).transpose()?,
        force_after: rule.force_after.as_ref().map(force).transpose()?,
    })
}

fn match_of(number: usize, of: &Match) -> Result<PodMatch, String> {
    let field = |name: &str| format!("rules[{number}].match.{name}");
    let selector = |name: &str, value: Option<&Spanned<Value>>| {
        let Some(value) = value else { return Ok(Selector::default()) };
        let Some(text) = value.value.text() else {
            let remedy = "write a label selector as for `kubectl -l`, such as app=web";
            return Err(wrong_value(&field(name), value, remedy));
        };
        let selector: Result<Selector, _> = text.parse();
        selector.map_err(|bad| wrong_value(&field(name), value, &bad.to_string()))
    };
    let namespaces = names(&field("namespaces"), of.namespaces.as_ref())?;
    let owner_kinds = names(&field("ownerKinds"), of.owner_kinds.as_ref())?;
    let list = of.owner_kinds.as_ref().map(|list| &list.value);
    if let Some(Value::List(entries)) = list
        && let Some(glob) = entries.iter().find(|entry| is_glob(entry))
    {
        let remedy = "write whole kinds, such as Job";
        return Err(wrong_value(&field("ownerKinds"), glob, remedy));
    }
    Ok(PodMatch {
        namespaces: namespaces.into_iter().map(WildMatch::new).collect(),
        labels: selector("podLabels", of.pod_labels.as_ref())?,
        owner_kinds: owner_kinds.into_iter().map(str::to_owned).collect(),
        node_labels: selector("nodeLabels", of.node_labels.as_ref())?,
        namespace_labels: selector("namespaceLabels", of.namespace_labels.as_ref())?,
    })
}

fn is_glob(entry: &Spanned<Value>) -> bool {
    entry.value.text().is_some_and(|text| text.contains(['*', '?']))
}

/// The entries of a list of names or globs.
fn names<'a>(field: &str, list: Option<&'a Spanned<Value>>) -> Result<Vec<&'a str>, String> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let Value::List(entries) = &list.value else {
        return Err(wrong_value(field, list, "write a list, such as [batch]"));
    };
    if entries.len() > MOST_ENTRIES {
        let line = list.referenced.line();
        return Err(format!("line {line}: {field} is too long; write at most {MOST_ENTRIES}"));
    }
    entries.iter().map(|entry| name_of(field, entry)).collect()
}

/// An entry of a list of names or globs.
fn name_of<'a>(field: &str, entry: &'a Spanned<Value>) -> Result<&'a str, String> {
    let is_name = |text: &&str| {
        (1..=253).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.*?".contains(&b))
    };
    let Some(text) = entry.value.text() else {
        return Err(wrong_value(
            field,
            entry,
            "write names; put numbers, true and false in quotes",
        ));
    };
    let remedy = "use 1 to 253 letters, digits, `-` and `.`";
    Some(text).filter(is_name).ok_or_else(|| wrong_value(field, entry, remedy))
}

fn wrong_value(field: &str, value: &Spanned<Value>, remedy: &str) -> String {
    let line = value.referenced.line();
    match value.value.shown(QUOTED) {
        Some(quoted) => format!("line {line}: {field} is `{quoted}`; {remedy}"),
        None => format!("line {line}: {field}: {remedy}"),
    }
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
                &["line 13: rules[2].behavior is `Ignore`; use Evict, Skip or WaitCompleted"],
            ),
            (GOOD.replace("order: -5", "oder: -5"), &["line 8", "oder", "order"]),
            ("rules:\n- match: {}\n".to_owned(), &["behavior", "line 2"]),
            ("rules: 5".to_owned(), &["line 1", "write `rules:` and a list"]),
            (String::new(), &["write `rules:` and a list"]),
            ("rules: [".to_owned(), &["line 1", "write one YAML document"]),
            ("rules:".to_owned(), &["line 1", "write `rules:` and a list"]),
            ("rules: ~".to_owned(), &["line 1", "write `rules:` and a list"]),
            ("- behavior: Skip".to_owned(), &["line 1", "write `rules:` and a list"]),
            ("rules: []\nrule: []".to_owned(), &["line 2", "write `rules:` and a list"]),
            (
                "rules: []\n---\nrules: []".to_owned(),
                &["line ", "write one YAML document, with each key once"],
            ),
            (
                GOOD.replace("order: -5", "behavior: Skip"),
                &["line 8", "behavior", "with each key once"],
            ),
            (
                GOOD.replace("-5", "1.5"),
                &["line 8: rules[0].order: use a whole number from -2147483648"],
            ),
            (GOOD.replace("-5", "3000000000"), &["rules[0].order is `3000000000`; use a whole"]),
            (GOOD.replace("-5", ""), &["line 8: rules[0].order: use a whole number"]),
            (
                GOOD.replace("behavior: Evict", "behavior: [Evict]"),
                &["line 7: rules[0].behavior: use Evict, Skip or WaitCompleted"],
            ),
            (
                GOOD.replace("[kube-system, team-*]", "batch"),
                &["line 3: rules[0].match.namespaces is `batch`; write a list, such as [batch]"],
            ),
            (
                GOOD.replace("[kube-system, team-*]", ""),
                &["line 3: rules[0].match.namespaces: write a list"],
            ),
            (
                GOOD.replace("kube-system", "1.5"),
                &["line 3: rules[0].match.namespaces: write names; put numbers"],
            ),
            (
                GOOD.replace("    ownerKinds: [Job]", "    ownerKinds: {Job: true}"),
                &["line 5: rules[0].match.ownerKinds: write a list"],
            ),
            (
                GOOD.replace("app in (web,api), !canary", "{app: x}"),
                &["line 4: rules[0].match.podLabels: write a label selector as for `kubectl -l`"],
            ),
            (
                GOOD.replace("    ownerKinds: [Job]", "    ownerKinds: [Cron*]"),
                &["line 5: rules[0].match.ownerKinds is `Cron*`; write whole kinds, such as Job"],
            ),
            ("rules:\n- behavior: Skip\n  match:\n".to_owned(), &["line 3", "podLabels"]),
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
            let is_top_level = words.iter().any(|word| word.contains("write `rules:`"));
            assert_eq!(error.contains("write `rules:`"), is_top_level, "{error}");
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
