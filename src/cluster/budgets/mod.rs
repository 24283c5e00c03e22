//! A store of the disruption budgets, kept up to date by one watch.

#[cfg(test)]
mod tests;

use std::{convert::Infallible, fmt, sync::Arc};

use tokio_util::task::AbortOnDropHandle;

use super::{
    Change, Cluster, ClusterError, Health, Target, slim,
    store::{self, Store},
    watch::{Collection, Decode, Decoded, Reader},
};
use crate::domain::{Budget, BudgetKey};

/// A change of a disruption budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetEvent {
    /// The budget is new or has changed.
    Changed(Arc<Budget>),
    /// The budget was deleted.
    Gone(BudgetKey),
}

/// All disruption budgets of the cluster, kept up to date by one watch. Clones share the watch; it
/// ends when the last one is dropped.
#[derive(Clone)]
pub struct BudgetWatch(Arc<Inner>);

struct Inner {
    store: Arc<Store<Budget>>,
    restart: store::Restart,
    _watch: AbortOnDropHandle<()>,
}

struct Budgets;

const LOG_LINES: store::LogLines = store::LogLines {
    fails: "the watch of disruption budgets fails",
    recovered: "the watch of disruption budgets works again",
};

impl Decode for Budgets {
    type Object = Budget;

    fn decode(&self, json: &str) -> Result<Decoded<Budget>, serde_json::Error> {
        slim::budget(json).map(Decoded::Whole)
    }
}

impl store::Object for Budget {
    type Key = BudgetKey;
    type Index = Infallible;

    fn key(&self) -> BudgetKey {
        self.key.clone()
    }

    fn index(&self) -> Option<Infallible> {
        None
    }

    fn is_same(&self, _: &Self) -> bool {
        // A budget that was deleted and created again is treated as changed.
        true
    }

    fn is_unchanged(&self, other: &Self) -> bool {
        self == other
    }

    fn is_older(&self, _: &Self) -> bool {
        // Budgets are only read by the watch, which delivers changes in order.
        false
    }
}

impl store::Watched for Budget {
    fn key_of(meta: &slim::Meta) -> BudgetKey {
        BudgetKey { namespace: meta.namespace.clone(), name: meta.name.clone() }
    }

    fn is_meant(&self, _: &slim::Meta) -> bool {
        true
    }
}

/// The changes of budgets, none of them lost. Several pending changes of one budget come as one.
pub struct BudgetChanges(store::Changes<Budget>);

impl BudgetChanges {
    /// Waits for the next change. `None`: the watch has ended. May be dropped at any await: no
    /// change is lost.
    pub async fn next(&mut self) -> Option<BudgetEvent> {
        self.0.next().await.map(BudgetEvent::from)
    }

    /// The next change, if one is pending.
    pub fn try_next(&mut self) -> Option<BudgetEvent> {
        self.0.try_next().map(BudgetEvent::from)
    }
}

impl From<Change<Budget>> for BudgetEvent {
    fn from(change: Change<Budget>) -> Self {
        match change {
            Change::Applied { now, .. } => Self::Changed(now),
            Change::Deleted { last, .. } => Self::Gone(last.key.clone()),
        }
    }
}

impl fmt::Debug for BudgetWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetWatch").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl BudgetWatch {
    /// Begins to watch. Never errs: if the API server does not answer, the watch keeps trying.
    #[must_use]
    pub fn start(cluster: &Cluster) -> Self {
        let (store, restart) = (Arc::new(Store::default()), store::Restart::default());
        let keep = store::keep(
            cluster.clone(),
            collection(),
            Budgets,
            store.clone(),
            LOG_LINES,
            restart.clone(),
        );
        let watch = cluster.spawner().spawn_scoped(keep);
        Self(Arc::new(Inner { store, restart, _watch: watch }))
    }

    /// Reopens the watch from the last version that it has shown.
    pub fn restart_watch(&self) {
        self.0.restart.restart();
    }

    /// Whether the store is complete and up to date.
    #[must_use]
    pub fn state(&self) -> Health {
        self.0.store.health()
    }

    /// Waits until a complete LIST was read.
    pub async fn synced(&self) {
        self.0.store.synced().await;
    }

    /// All budgets, by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Budget>> {
        self.0.store.all()
    }

    /// Follows the store: all budgets come first, as changed, then every change.
    #[must_use]
    pub fn subscribe(&self) -> BudgetChanges {
        BudgetChanges(self.0.store.follow())
    }
}

/// Lists all disruption budgets, for a command that watches nothing.
pub async fn list_budgets(cluster: &Cluster) -> Result<Vec<Budget>, ClusterError> {
    Ok(Reader::new(cluster, Budgets).list(&collection()).await?.objects)
}

fn collection() -> Collection {
    Collection {
        path: "/apis/policy/v1/poddisruptionbudgets",
        fields: None,
        listed: true,
        list: Target::ListBudgets,
        watch: Target::WatchBudgets,
        object: String::new(),
    }
}
