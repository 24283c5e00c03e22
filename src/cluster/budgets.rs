//! Disruption budgets, kept by one watch.

use std::sync::Arc;

use super::{Cluster, Health};
use crate::domain::{Budget, BudgetKey};

/// A change of a disruption budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetEvent {
    /// It is there, new or changed.
    Changed(Arc<Budget>),
    /// It is gone.
    Gone(BudgetKey),
}

/// Every disruption budget of the cluster, kept by one watch. Clones share it; it is kept until the last one is dropped.
#[derive(Clone)]
pub struct BudgetWatch {
    _todo: Cluster,
}

/// The changes of budgets, none of them lost; several of one budget that were not taken yet come as one.
pub struct BudgetChanges {
    _todo: (),
}

impl BudgetChanges {
    /// The next change; waits for one. `None` when there is no watch any more. May be dropped at any await: nothing is lost.
    pub async fn next(&mut self) -> Option<BudgetEvent> {
        todo!()
    }

    /// The next change, if there is one now.
    pub fn try_next(&mut self) -> Option<BudgetEvent> {
        todo!()
    }
}

impl BudgetWatch {
    /// Begins to watch. Never errs: an API server that is away is tried again for ever.
    #[must_use]
    pub fn start(cluster: &Cluster) -> Self {
        Self { _todo: cluster.clone() }
    }

    /// Whether it can be believed.
    #[must_use]
    pub fn state(&self) -> Health {
        todo!()
    }

    /// Waits until a complete list was read.
    pub async fn synced(&self) {
        todo!()
    }

    /// All budgets, by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Budget>> {
        todo!()
    }

    /// Follows it: every budget that is there comes first, then every change.
    #[must_use]
    pub fn subscribe(&self) -> BudgetChanges {
        todo!()
    }
}
