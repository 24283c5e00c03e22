//! Label selectors: of disruption budgets (objects) and of `--node-selector` (kubectl's text form).

use std::{collections::BTreeMap, str::FromStr};

use super::Labels;

/// A label selector: every requirement must hold. An empty one selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

/// The text is not a label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{term}` is not a label requirement: {why} (as for `kubectl -l`: key, !key, key=value, \
     key!=value, key in (a,b), key notin (a,b))"
)]
pub struct BadSelector {
    /// The part that was not understood.
    pub term: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Selector {
    /// From the fields of a `LabelSelector` object. `None` if it has an unknown operator: the API
    /// server ignores such a budget too (`eviction.go`: an invalid selector matches nothing).
    #[must_use]
    pub fn from_parts(
        labels: impl IntoIterator<Item = (String, String)>,
        expressions: impl IntoIterator<Item = (String, String, Vec<String>)>,
    ) -> Option<Self> {
        let mut all: Vec<_> =
            labels.into_iter().map(|(k, v)| Requirement::In(k, vec![v])).collect();
        for (key, operator, values) in expressions {
            all.push(match operator.as_str() {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                "DoesNotExist" => Requirement::DoesNotExist(key),
                _ => return None,
            });
        }
        Some(Self(all))
    }

    /// It has no requirement, and selects everything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These labels satisfy every requirement.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.holds(|key| labels.get(key).map(String::as_str))
    }

    /// The labels of this pod satisfy every requirement.
    #[must_use]
    pub fn selects(&self, labels: &Labels) -> bool {
        self.holds(|key| labels.get(key))
    }

    fn holds<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let among = |values: &[String], v: &str| values.iter().any(|value| value == v);
        self.0.iter().all(|r| match r {
            Requirement::In(key, values) => label(key).is_some_and(|v| among(values, v)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|v| !among(values, v)),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::DoesNotExist(key) => label(key).is_none(),
        })
    }

    /// The label keys that the selector reads and an index must therefore keep.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|r| match r {
            Requirement::In(key, _)
            | Requirement::NotIn(key, _)
            | Requirement::Exists(key)
            | Requirement::DoesNotExist(key) => key.as_str(),
        })
    }
}

impl FromStr for Selector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Self, BadSelector> {
        terms(text)
            .into_iter()
            .filter(|t| !t.is_empty())
            .map(requirement)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Splits at the commas that are not inside parentheses.
fn terms(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default().trim());
    parts
}

fn requirement(term: &str) -> Result<Requirement, BadSelector> {
    let bad = |why| BadSelector { term: term.to_owned(), why };
    let key = |text: &str| {
        let text = text.trim();
        let fine = !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
        if fine { Ok(text.to_owned()) } else { Err(bad("that is no label key")) }
    };
    if let Some(rest) = term.strip_prefix('!') {
        return Ok(Requirement::DoesNotExist(key(rest)?));
    }
    if let Some((k, v)) = term.split_once("!=") {
        return Ok(Requirement::NotIn(key(k)?, vec![v.trim().to_owned()]));
    }
    if let Some((k, v)) = term.split_once('=') {
        return Ok(Requirement::In(key(k)?, vec![v.trim_start_matches('=').trim().to_owned()]));
    }
    let Some((head, tail)) = term.split_once('(') else {
        return Ok(Requirement::Exists(key(term)?));
    };
    let values = tail.strip_suffix(')').ok_or_else(|| bad("a parenthesis is not closed"))?;
    let values = values.split(',').map(|v| v.trim().to_owned()).collect();
    match head.trim().rsplit_once(char::is_whitespace) {
        Some((k, "in")) => Ok(Requirement::In(key(k)?, values)),
        Some((k, "notin")) => Ok(Requirement::NotIn(key(k)?, values)),
        _ => Err(bad("expected `in` or `notin` before the parenthesis")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_text_form_means_the_same_as_for_kubectl() {
        for (text, with, holds) in [
            ("", &[][..], true),
            ("a", &[("a", "")], true),
            ("!a", &[("a", "")], false),
            ("a=b", &[("a", "b")], true),
            ("a==b", &[("a", "c")], false),
            ("a!=b", &[], true),
            ("a in (b, c)", &[("a", "c")], true),
            ("a notin (b,c)", &[("a", "c")], false),
            ("a in (b,c),d", &[("a", "c")], false),
            ("!karpenter.sh/nodepool,eks.amazonaws.com/compute-type!=auto", &[], true),
            (
                "!karpenter.sh/nodepool,eks.amazonaws.com/compute-type!=auto",
                &[("eks.amazonaws.com/compute-type", "auto")],
                false,
            ),
            (
                "!karpenter.sh/nodepool,eks.amazonaws.com/compute-type!=auto",
                &[("karpenter.sh/nodepool", "x")],
                false,
            ),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().matches(&labels(with)), holds, "{text}");
        }
        for bad in ["a b", "a in (b", "a within (b)", "=b", "! "] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_operator_makes_no_selector() {
        assert_eq!(Selector::from_parts([], [("a".into(), "Gt".into(), vec![])]), None);
        assert!(Selector::from_parts([], []).unwrap().matches(&labels(&[("x", "y")])));
    }
}
