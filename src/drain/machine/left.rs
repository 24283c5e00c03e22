//! The pods that are left on the node, for `sundown status` and Events.

use super::Drain;
use crate::{
    domain::{Moment, Pod},
    drain::{force, pod::Disposition},
};

impl Drain {
    /// The pods that count and still exist. A pod whose DaemonSet was not looked up yet is not
    /// among them.
    pub fn pods_left(&self) -> impl Iterator<Item = &Pod> {
        self.pods
            .values()
            .filter(|entry| entry.disposition == Disposition::Counts && entry.gone.is_none())
            .map(|entry| &*entry.pod)
    }

    /// From when on Sundown deletes this pod if its eviction is refused. `None`: never, because the
    /// drain has no deadline, or AWS has not confirmed it, forced deletes are switched off, or the
    /// pod is already terminating.
    #[must_use]
    pub fn forced_from(&self, pod: &Pod) -> Option<Moment> {
        if pod.deletion.is_some() {
            return None;
        }
        let limits = self.confirmed_limits();
        let entry = self.pods.get(&pod.uid);
        let limits = entry.map_or(limits, |entry| entry.limits_of(&limits, &self.settings));
        force::delete_from(self.settings.force, &limits, pod.grace)
    }
}
