//! Reads Namespaces.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Text, or_default};
use crate::domain::Labels;

/// A Namespace with some of its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster) struct LabeledNamespace {
    /// `metadata.name`.
    pub(in crate::cluster) name: String,
    /// Those of its labels that are kept.
    pub(in crate::cluster) labels: Labels,
}

#[derive(Deserialize)]
struct SlimNamespace<'a> {
    #[serde(borrow)]
    metadata: NamespaceMeta<'a>,
}

#[derive(Deserialize)]
struct NamespaceMeta<'a> {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(default, borrow)]
    labels: Option<BTreeMap<Text<'a>, Text<'a>>>,
}

/// Reads a Namespace. Its labels with other keys are dropped.
pub(in crate::cluster) fn namespace(
    json: &str,
    keys: &BTreeSet<String>,
) -> Result<LabeledNamespace, serde_json::Error> {
    let SlimNamespace { metadata } = serde_json::from_str(json)?;
    let labels = metadata.labels.unwrap_or_default();
    let kept = labels.into_iter().filter(|(Text(key), _)| keys.contains(&**key));
    Ok(LabeledNamespace {
        name: metadata.name,
        labels: kept.map(|(Text(key), Text(value))| (key, value)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_with_the_wanted_keys_are_kept() {
        let keys = ["team".to_owned()].into();
        let read = |json: &str| namespace(json, &keys);
        let shop = read(
            r#"{"metadata":{"name":"shop","labels":{"team":"web","x":"y"}},"status":{"phase":"Active"}}"#,
        );
        let labels = [("team".to_owned(), "web".to_owned())].into();
        assert_eq!(shop.unwrap(), LabeledNamespace { name: "shop".to_owned(), labels });
        for json in [r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"a","labels":null}}"#] {
            assert!(read(json).unwrap().labels.is_empty(), "{json}");
        }
        assert!(read("{}").is_err());
    }
}
