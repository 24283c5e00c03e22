//! Reads disruption budgets.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::or_default;
use crate::domain::{Budget, BudgetKey, Selector};

#[derive(Deserialize)]
struct SlimBudget {
    metadata: BudgetMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: BudgetSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: BudgetStatus,
}

#[derive(Deserialize)]
struct BudgetMeta {
    namespace: String,
    name: String,
    #[serde(default)]
    generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BudgetSpec {
    selector: Option<LabelSelector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LabelSelector {
    #[serde(default, deserialize_with = "or_default")]
    match_labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    match_expressions: Vec<Expression>,
}

#[derive(Deserialize)]
struct Expression {
    key: String,
    operator: String,
    #[serde(default, deserialize_with = "or_default")]
    values: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BudgetStatus {
    disruptions_allowed: i64,
    current_healthy: i64,
    desired_healthy: i64,
    observed_generation: i64,
}

/// Reads a PodDisruptionBudget.
pub(in crate::cluster) fn budget(json: &str) -> Result<Budget, serde_json::Error> {
    let SlimBudget { metadata, spec, status } = serde_json::from_str(json)?;
    let selector = spec.selector.and_then(|s| {
        let expressions = s.match_expressions.into_iter().map(|e| (e.key, e.operator, e.values));
        Selector::from_parts(s.match_labels, expressions)
    });
    Ok(Budget {
        key: BudgetKey { namespace: metadata.namespace, name: metadata.name },
        selector,
        allowed: status.disruptions_allowed,
        healthy: status.current_healthy,
        desired: status.desired_healthy,
        generation: metadata.generation,
        observed: status.observed_generation,
    })
}
