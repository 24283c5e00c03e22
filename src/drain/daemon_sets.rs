//! What is known of the DaemonSets that own pods of one node: each is asked for once; one that was
//! gone again, as it may be back.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{DaemonSetState, PodUid};

/// Namespace and name of a DaemonSet.
pub(super) type DaemonSetKey = (String, String);

#[derive(Debug)]
enum Asked {
    /// Asked; these pods wait for the answer.
    Open(BTreeSet<PodUid>),
    /// Answered.
    Known(DaemonSetState),
}

/// What a look-up says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Nobody has asked yet: ask now.
    Ask,
    /// Asked, not answered.
    Wait,
    /// Answered.
    Known(DaemonSetState),
}

/// What is known of DaemonSets.
#[derive(Debug, Default)]
pub(super) struct DaemonSets(BTreeMap<DaemonSetKey, Asked>);

impl DaemonSets {
    /// What is known of this one for a pod that was not looked up before; if nothing, the pod waits
    /// for the answer.
    pub(super) fn look_up(&mut self, key: &DaemonSetKey, uid: &PodUid) -> Lookup {
        match self.0.get_mut(key) {
            Some(Asked::Known(state)) if *state != DaemonSetState::Gone => Lookup::Known(*state),
            Some(Asked::Open(waiting)) => {
                waiting.insert(uid.clone());
                Lookup::Wait
            }
            Some(Asked::Known(_)) | None => {
                self.0.insert(key.clone(), Asked::Open(BTreeSet::from([uid.clone()])));
                Lookup::Ask
            }
        }
    }

    /// Takes an answer. The pods that waited for it, to each of which it is to be applied as it is.
    pub(super) fn answer(&mut self, key: DaemonSetKey, state: DaemonSetState) -> BTreeSet<PodUid> {
        match self.0.insert(key, Asked::Known(state)) {
            Some(Asked::Open(waiting)) => waiting,
            _ => BTreeSet::new(),
        }
    }
}
