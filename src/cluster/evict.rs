//! Evicting and deleting pods.

use super::Cluster;
use crate::domain::{ApiAnswer, PodKey, PodUid};

impl Cluster {
    /// Asks for the eviction of this very pod. `grace` in seconds; `None`: its own.
    pub async fn evict(&self, _pod: &PodKey, _uid: &PodUid, _grace: Option<u32>) -> ApiAnswer {
        todo!()
    }

    /// Deletes this very pod, past any disruption budget. `grace` in seconds; `None`: its own.
    pub async fn delete_pod(&self, _pod: &PodKey, _uid: &PodUid, _grace: Option<u32>) -> ApiAnswer {
        todo!()
    }
}
