//! Disruption budgets, kept by one watch.

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
    /// It is there, new or changed.
    Changed(Arc<Budget>),
    /// It is gone.
    Gone(BudgetKey),
}

/// Every disruption budget of the cluster, kept by one watch. Clones share it; it is kept until the
/// last one is dropped.
#[derive(Clone)]
pub struct BudgetWatch(Arc<Inner>);

struct Inner {
    store: Arc<Store<Budget>>,
    restart: store::Restart,
    _watch: AbortOnDropHandle<()>,
}

struct Budgets;

const WORDS: store::Words = store::Words {
    fails: "the watch of disruption budgets fails",
    is_well_again: "the watch of disruption budgets is well again",
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
        // Which budget of that name it is changes nothing.
        true
    }

    fn is_unchanged(&self, other: &Self) -> bool {
        self == other
    }

    fn is_older(&self, _: &Self) -> bool {
        // Nothing is learnt of budgets but by the watch, which tells in order.
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

/// The changes of budgets, none of them lost; several of one budget that were not taken yet come as
/// one.
pub struct BudgetChanges(store::Changes<Budget>);

impl BudgetChanges {
    /// The next change; waits for one. `None` when there is no watch any more. May be dropped at
    /// any await: nothing is lost.
    pub async fn next(&mut self) -> Option<BudgetEvent> {
        self.0.next().await.map(BudgetEvent::from)
    }

    /// The next change, if there is one now.
    pub fn try_next(&mut self) -> Option<BudgetEvent> {
        self.0.try_next().map(BudgetEvent::from)
    }
}

impl From<Change<Budget>> for BudgetEvent {
    fn from(change: Change<Budget>) -> Self {
        match change {
            Change::Applied { now, .. } => Self::Changed(now),
            Change::Deleted(gone) => Self::Gone(gone.key.clone()),
        }
    }
}

impl fmt::Debug for BudgetWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetWatch").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl BudgetWatch {
    /// Begins to watch. Never errs: an API server that is away is tried again for ever.
    #[must_use]
    pub fn start(cluster: &Cluster) -> Self {
        let (store, restart) = (Arc::new(Store::default()), store::Restart::default());
        let keep = store::keep(
            cluster.clone(),
            collection(),
            Budgets,
            store.clone(),
            WORDS,
            restart.clone(),
        );
        let watch = cluster.spawner().spawn_scoped(keep);
        Self(Arc::new(Inner { store, restart, _watch: watch }))
    }

    /// Opens the watch anew, from where it is.
    pub fn restart_watch(&self) {
        self.0.restart.restart();
    }

    /// Whether it can be believed.
    #[must_use]
    pub fn state(&self) -> Health {
        self.0.store.health()
    }

    /// Waits until a complete list was read.
    pub async fn synced(&self) {
        self.0.store.synced().await;
    }

    /// All budgets, by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Budget>> {
        self.0.store.all()
    }

    /// Follows it: every budget that is there comes first, then every change.
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
