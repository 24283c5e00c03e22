//! What the drain does with each of its pods, and why, for `sundown explain`.

use super::Drain;
use crate::{
    domain::Moment,
    drain::{PodExplanation, pod::Rules},
};

impl Drain {
    /// Explains all pods on the node that have not been reported gone, in the order of namespace and
    /// name.
    #[must_use]
    pub fn explain_pods(&self, now: Moment) -> Vec<PodExplanation> {
        let rules = Rules { is_inactive: false, ..self.rules(now) };
        let present = self.pods.values().filter(|entry| entry.gone.is_none());
        let mut all: Vec<_> = present.map(|entry| entry.explain(&rules, now)).collect();
        all.sort_by(|one, other| one.pod.cmp(&other.pod));
        all
    }
}
