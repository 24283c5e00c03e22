//! Looks up whether DaemonSets exist.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex as Short, PoisonError},
    time::Duration,
};

use kube::core::{Request, params::GetParams};
use tokio::{sync::Mutex, time::Instant};

use super::{Cluster, Priority, Problem, Target};
use crate::domain::DaemonSetState;

/// How long the answer that a DaemonSet exists is cached.
const KNOWN: Duration = Duration::from_mins(10);
/// How long any other answer is cached, so that simultaneous callers share it. It is short, because
/// a missing DaemonSet may be created at any time, and a failed lookup may soon succeed.
const BRIEFLY: Duration = Duration::from_secs(10);
/// How many answers are cached at most.
const MOST: usize = 1000;

type Key = (String, String);
type Slot = Arc<Mutex<Option<(Instant, DaemonSetState)>>>;

/// Looks DaemonSets up: one GET in ten minutes for each that exists, for any number of callers.
#[derive(Clone)]
pub struct DaemonSets {
    cluster: Cluster,
    slots: Arc<Short<BTreeMap<Key, Slot>>>,
}

impl fmt::Debug for DaemonSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonSets").finish_non_exhaustive()
    }
}

impl DaemonSets {
    /// Looks DaemonSets up by `cluster`; the cache is empty.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), slots: Arc::default() }
    }

    /// Whether the DaemonSet exists. Returns within twice the deadline of a request.
    pub async fn state(&self, namespace: &str, name: &str) -> DaemonSetState {
        let slot = self.slot(namespace, name);
        let limit = self.cluster.settings().deadline * 2;
        let looked_up = async {
            let mut known = slot.lock().await;
            match *known {
                Some((until, state)) if Instant::now() < until => state,
                _ => {
                    let state = self.ask(namespace, name).await;
                    let keep = if state == DaemonSetState::Exists { KNOWN } else { BRIEFLY };
                    *known = Some((Instant::now() + keep, state));
                    state
                }
            }
        };
        tokio::time::timeout(limit, looked_up).await.unwrap_or(DaemonSetState::Unreadable)
    }

    fn slot(&self, namespace: &str, name: &str) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.to_owned());
        if slots.len() >= MOST && !slots.contains_key(&key) {
            slots.clear();
        }
        slots.entry(key).or_default().clone()
    }

    async fn ask(&self, namespace: &str, name: &str) -> DaemonSetState {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets");
        let Ok(request) = Request::new(path).get(name, &GetParams::default()) else {
            return DaemonSetState::Unreadable;
        };
        match self
            .cluster
            .call(Target::GetDaemonSet, Priority::Ordinary, &format!("{namespace}/{name}"), request)
            .await
        {
            Ok(_) => DaemonSetState::Exists,
            Err(error) if error.problem == Problem::NotFound => DaemonSetState::Gone,
            Err(error) => {
                tracing::warn!(%error, "cannot tell whether a DaemonSet exists; its pods are left \
                    alone");
                DaemonSetState::Unreadable
            }
        }
    }
}
