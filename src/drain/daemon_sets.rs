//! Which DaemonSets that own pods of one node exist. Each is looked up once; one that did not exist
//! is looked up again for each new pod, because it may have been created since.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{DaemonSetState, PodUid};

/// Namespace and name of a DaemonSet.
pub(super) type DaemonSetKey = (String, String);

#[derive(Debug)]
enum Answer {
    /// The look-up has no answer yet; these pods wait for it.
    Pending(BTreeSet<PodUid>),
    /// The answer of the look-up.
    Known(DaemonSetState),
}

/// The result of [`DaemonSets::look_up`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Not looked up yet: the caller must do so now.
    Ask,
    /// Being looked up: wait for the answer.
    Wait,
    /// The answer of the look-up.
    Known(DaemonSetState),
}

/// The DaemonSets that were looked up, or are being looked up.
#[derive(Debug, Default)]
pub(super) struct DaemonSets(BTreeMap<DaemonSetKey, Answer>);

impl DaemonSets {
    /// Looks up a DaemonSet for a pod that was not looked up before. Unless it is known, the pod
    /// waits for the answer.
    pub(super) fn look_up(&mut self, key: &DaemonSetKey, uid: &PodUid) -> Lookup {
        match self.0.get_mut(key) {
            Some(Answer::Known(state)) if *state != DaemonSetState::Gone => Lookup::Known(*state),
            Some(Answer::Pending(waiting)) => {
                waiting.insert(uid.clone());
                Lookup::Wait
            }
            Some(Answer::Known(_)) | None => {
                self.0.insert(key.clone(), Answer::Pending(BTreeSet::from([uid.clone()])));
                Lookup::Ask
            }
        }
    }

    /// Records an answer. Returns the pods that waited for it. The caller must apply the answer to
    /// each of them as it is, because [`Self::look_up`] may ask again.
    pub(super) fn answer(&mut self, key: DaemonSetKey, state: DaemonSetState) -> BTreeSet<PodUid> {
        match self.0.insert(key, Answer::Known(state)) {
            Some(Answer::Pending(waiting)) => waiting,
            _ => BTreeSet::new(),
        }
    }
}
