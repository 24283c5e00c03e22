//! Objects as far as Sundown looks at them, read from JSON.

use std::{collections::BTreeSet, sync::Arc};

use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, Selector};

/// The label keys of Nodes that are kept; all others are dropped as they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepLabels(pub(super) Arc<BTreeSet<String>>);

impl KeepLabels {
    /// What a node selector looks at, and the label that takes a node out of load balancers.
    #[must_use]
    pub fn of(selector: &Selector) -> Self {
        Self::keys(selector.keys())
    }

    /// These, and the label that takes a node out of load balancers.
    #[must_use]
    pub fn keys<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self(Arc::new(keys.into_iter().chain([EXCLUDE_FROM_LOAD_BALANCERS]).map(str::to_owned).collect()))
    }
}
