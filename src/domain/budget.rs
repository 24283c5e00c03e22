//! PodDisruptionBudgets.

use super::{Pod, Selector};

/// Namespace and name of a PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetKey {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl std::fmt::Display for BudgetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The fields of a PodDisruptionBudget (`policy/v1`) that Sundown uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Namespace and name.
    pub key: BudgetKey,
    /// `spec.selector`; `None` selects no pod, an empty one every pod in the namespace.
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`.
    pub allowed: i64,
    /// `status.currentHealthy`.
    pub healthy: i64,
    /// `status.desiredHealthy`.
    pub desired: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`: while it is below `generation`, the API server refuses every
    /// eviction.
    pub observed: i64,
}

impl Budget {
    /// Whether this budget covers the pod.
    #[must_use]
    pub fn selects(&self, pod: &Pod) -> bool {
        *self.key.namespace == *pod.key.namespace
            && self.selector.as_ref().is_some_and(|s| s.selects(&pod.labels))
    }
}
