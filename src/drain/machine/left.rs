//! What is left on the node, for people.

use super::Drain;
use crate::{
    domain::{Moment, Pod},
    drain::{force, pod::Belongs},
};

impl Drain {
    /// The pods that count and are still there. A pod whose DaemonSet was not looked up yet is not
    /// among them.
    pub fn pods_left(&self) -> impl Iterator<Item = &Pod> {
        self.pods
            .values()
            .filter(|entry| entry.belongs == Belongs::Counts && entry.gone.is_none())
            .map(|entry| &*entry.pod)
    }

    /// From when on this pod is deleted by force where its eviction is refused. `None`: never,
    /// because no deadline rules, forced deletes are switched off, or the pod is terminating
    /// already.
    #[must_use]
    pub fn forced_from(&self, pod: &Pod) -> Option<Moment> {
        if pod.deletion.is_some() {
            return None;
        }
        force::delete_from(self.settings.force, &self.limits, pod.grace)
    }
}
