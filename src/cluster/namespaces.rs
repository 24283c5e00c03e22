//! Reads the labels of namespaces.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Cluster, ClusterError, Problem, Target,
    slim::{self, LabeledNamespace},
    watch::{Collection, Decode, Decoded, Reader},
};
use crate::domain::{NamespaceLabels, seconds};

/// How many Namespaces one page of the LIST has: each is about 1 KiB of JSON.
const PAGE: u32 = 500;
/// How many Namespaces are kept at most. Those after them, by name, are not known.
const MOST: usize = 20_000;
/// How long the LIST may take, with all its pages.
const LISTED_WITHIN: Duration = seconds(10);

/// The labels of all namespaces, of which only those with these keys are kept. Returns within 10 s.
pub async fn list_namespaces(
    cluster: &Cluster,
    keys: &BTreeSet<String>,
) -> Result<NamespaceLabels, ClusterError> {
    let collection = Collection {
        path: "/api/v1/namespaces",
        fields: None,
        listed: true,
        list: Target::ListNamespaces,
        watch: Target::ListNamespaces,
        object: String::new(),
    };
    let mut reader = Reader::new(cluster, Namespaces(keys)).with_page(PAGE);
    let listed = match tokio::time::timeout(LISTED_WITHIN, reader.list(&collection)).await {
        Ok(listed) => listed?,
        Err(_) => {
            return Err(ClusterError::without_answer(
                Target::ListNamespaces.action(),
                "",
                Problem::Unreachable,
                format!("the LIST did not end within {} s", LISTED_WITHIN.as_secs()),
            ));
        }
    };
    if listed.objects.len() > MOST {
        tracing::warn!(
            namespaces = listed.objects.len(),
            most = MOST,
            "There are too many namespaces: the labels of the last ones, by name, are not known."
        );
    }
    let kept = listed.objects.into_iter().take(MOST);
    Ok(kept.map(|namespace| (namespace.name, namespace.labels)).collect())
}

struct Namespaces<'a>(&'a BTreeSet<String>);

impl Decode for Namespaces<'_> {
    type Object = LabeledNamespace;

    fn decode(&self, json: &str) -> Result<Decoded<LabeledNamespace>, serde_json::Error> {
        slim::namespace(json, self.0).map(Decoded::Whole)
    }
}
