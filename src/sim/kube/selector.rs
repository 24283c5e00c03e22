//! Label and field selectors.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    json::Look,
    validate::{is_label_value, is_qualified_name},
};

/// A selector that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) String);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Demand {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Missing,
    Greater(i64),
    Less(i64),
}

/// Demands on labels, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Labels(Vec<(String, Demand)>);

impl Labels {
    /// The text of a query parameter: `a=b,c!=d,e in (f,g),h,!i`.
    pub(super) fn parse(text: &str) -> Result<Self, Unreadable> {
        split_outside_brackets(text)
            .into_iter()
            .map(|part| demand(part).ok_or_else(|| unreadable(part)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// A `LabelSelector` object; `None` for null, which matches nothing.
    pub(super) fn from_json(selector: &Value) -> Option<Result<Self, Unreadable>> {
        let fields = selector.as_object()?;
        let equal = fields.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let mut demands: Vec<_> = equal
            .map(|(k, v)| {
                (k.clone(), Demand::In(BTreeSet::from([v.as_str().unwrap_or_default().to_owned()])))
            })
            .collect();
        for e in selector.items("matchExpressions") {
            let values = || {
                e.items("values")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect::<BTreeSet<_>>()
            };
            let demand = match e.text("operator") {
                "In" if !e.items("values").is_empty() => Demand::In(values()),
                "NotIn" if !e.items("values").is_empty() => Demand::NotIn(values()),
                "Exists" => Demand::Exists,
                "DoesNotExist" => Demand::Missing,
                other => return Some(Err(unreadable(other))),
            };
            demands.push((e.text("key").to_owned(), demand));
        }
        Some(Ok(Self(demands)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, demand)| {
            let value = labels.get(key);
            let number = || value.and_then(|v| v.parse::<i64>().ok());
            match demand {
                Demand::In(set) => value.is_some_and(|v| set.contains(v)),
                Demand::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
                Demand::Exists => value.is_some(),
                Demand::Missing => value.is_none(),
                Demand::Greater(n) => number().is_some_and(|v| v > *n),
                Demand::Less(n) => number().is_some_and(|v| v < *n),
            }
        })
    }
}

fn unreadable(part: &str) -> Unreadable {
    Unreadable(format!("unable to parse requirement: {part:?}"))
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}

fn demand(part: &str) -> Option<(String, Demand)> {
    let set = |list: &str| -> Option<BTreeSet<String>> {
        Some(
            list.trim()
                .strip_prefix('(')?
                .strip_suffix(')')?
                .split(',')
                .map(|v| v.trim().to_owned())
                .collect(),
        )
    };
    let one = |v: &str| BTreeSet::from([v.trim().to_owned()]);
    let (key, demand) = if let Some((key, list)) = part.split_once(" notin ") {
        (key, Demand::NotIn(set(list)?))
    } else if let Some((key, list)) = part.split_once(" in ") {
        (key, Demand::In(set(list)?))
    } else if let Some((key, value)) = part.split_once("!=") {
        (key, Demand::NotIn(one(value)))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, Demand::In(one(value)))
    } else if let Some((key, value)) = part.split_once('>') {
        (key, Demand::Greater(value.trim().parse().ok()?))
    } else if let Some((key, value)) = part.split_once('<') {
        (key, Demand::Less(value.trim().parse().ok()?))
    } else if let Some(key) = part.strip_prefix('!') {
        (key, Demand::Missing)
    } else {
        (part, Demand::Exists)
    };
    let key = key.trim();
    let values = match &demand {
        Demand::In(set) | Demand::NotIn(set) => Some(set),
        Demand::Exists | Demand::Missing | Demand::Greater(_) | Demand::Less(_) => None,
    };
    let good =
        is_qualified_name(key) && values.is_none_or(|set| set.iter().all(|v| is_label_value(v)));
    good.then(|| (key.to_owned(), demand))
}

/// Demands on fields: equal or not equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, bool, String)>);

impl Fields {
    /// The text of a query parameter: `spec.nodeName=a,status.phase!=Failed`. A field that the
    /// resource does not select by is refused.
    pub(super) fn parse(text: &str, plural: &str) -> Result<Self, Unreadable> {
        let mut all = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, equal, value) = if let Some((k, v)) = part.split_once("!=") {
                (k, false, v)
            } else if let Some((k, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (k, true, v)
            } else {
                return Err(Unreadable(format!(
                    "invalid selector: '{part}'; can't understand '{part}'"
                )));
            };
            if !known_field(plural, key) {
                return Err(Unreadable(format!("field label not supported: {key}")));
            }
            all.push((key.to_owned(), equal, value.to_owned()));
        }
        Ok(Self(all))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that a field must have.
    pub(super) fn exactly(&self, field: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, equal, _)| *equal && key == field)
            .map(|(_, _, value)| value.as_str())
    }

    pub(super) fn matches(&self, fields: &BTreeMap<&'static str, String>) -> bool {
        self.0.iter().all(|(key, equal, value)| {
            (fields.get(key.as_str()).map_or("", String::as_str) == value) == *equal
        })
    }
}

/// The fields that objects can be selected by, beside name and namespace.
pub(super) fn selectable(plural: &str) -> &'static [&'static str] {
    match plural {
        "pods" => &[
            "spec.nodeName",
            "status.phase",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.podIP",
        ],
        "nodes" => &["spec.unschedulable"],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "reason",
            "type",
            "reportingComponent",
        ],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        _ => &[],
    }
}

fn known_field(plural: &str, key: &str) -> bool {
    matches!(key, "metadata.name" | "metadata.namespace") || selectable(plural).contains(&key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',')
            .filter_map(|p| p.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    #[test]
    fn every_operator_of_a_label_selector() {
        for (selector, object, expected) in [
            ("a=b", "a=b", true),
            ("a==b", "a=c", false),
            ("a!=b", "", true),
            ("a!=b", "a=b", false),
            ("a in (b, c)", "a=c", true),
            ("a notin (b,c),d", "a=x,d=1", true),
            ("a notin (b,c),d", "a=x", false),
            ("!a", "", true),
            (
                "!karpenter.sh/nodepool,eks.amazonaws.com/compute-type!=auto",
                "karpenter.sh/nodepool=x",
                false,
            ),
            ("a>5", "a=6", true),
            ("a<5", "a=6", false),
            ("", "a=6", true),
        ] {
            assert_eq!(
                Labels::parse(selector).unwrap().matches(&labels(object)),
                expected,
                "{selector} on {object}"
            );
        }
        assert!(Labels::parse("a in b").is_err());
        assert!(Labels::parse("a b").is_err());
    }

    #[test]
    fn an_empty_label_selector_matches_all_and_none_matches_none() {
        assert!(Labels::from_json(&Value::Null).is_none());
        assert!(Labels::from_json(&json!({})).unwrap().unwrap().matches(&labels("")));
        assert!(
            Labels::from_json(&json!({ "matchExpressions": [{ "key": "a", "operator": "Bad" }] }))
                .unwrap()
                .is_err()
        );
    }

    #[test]
    fn only_known_fields_are_selected_by() {
        let fields = Fields::parse("spec.nodeName=a,status.phase!=Failed", "pods").unwrap();
        assert_eq!(fields.exactly("spec.nodeName"), Some("a"));
        assert!(fields.matches(&BTreeMap::from([
            ("spec.nodeName", "a".to_owned()),
            ("status.phase", "Running".to_owned())
        ])));
        assert!(Fields::parse("spec.nodeName=a", "nodes").is_err());
    }
}
