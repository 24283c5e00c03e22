//! The label that takes a node out of load balancers, where it did not go into the accept.

use std::sync::Arc;

use super::{Effect, Fleet, LabelWrite, node_state::NodeState};
use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, Exclusion, NodeName, Taken, seconds};

impl Fleet {
    /// Labels those of these nodes for which it is time, as far as there is room.
    pub(super) fn label_due<'a>(&mut self, names: impl Iterator<Item = &'a NodeName>) {
        if self.settings.exclude == Some(Exclusion::Never) {
            return;
        }
        for name in names {
            let open = |c: &NodeState| {
                c.drain.is_some()
                    && !c.labelling
                    && !c.node.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS)
            };
            if self.drains.get(name).is_some_and(|c| open(c)) && self.label_is_due(name) {
                self.label(name);
            }
        }
    }

    /// Early: from the accept on. Late: when the last pod that counts is terminating, or a minute
    /// before the deadline.
    fn label_is_due(&self, name: &NodeName) -> bool {
        let Some(state) = self.drains.get(name) else { return false };
        let early = match self.settings.exclude {
            Some(Exclusion::Early) => true,
            Some(Exclusion::Late | Exclusion::Never) => false,
            None => state.taken.iter().any(Taken::is_urgent),
        };
        let near = state.limits.end_at.is_some_and(|at| self.now >= at.minus(seconds(60)));
        early
            || near
            || state.drain.as_ref().is_some_and(crate::drain::Drain::is_last_pod_terminating)
    }

    fn label(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        state.labelling = true;
        self.out.push(Effect::Exclude(Arc::clone(&state.node)));
    }

    /// The write of the label has ended.
    pub(super) fn labelled(&mut self, node: NodeName, write: LabelWrite) {
        let Some(state) = self.drains.get_mut(&node) else { return };
        state.labelling = false;
        match write {
            LabelWrite::Seen(labelled) if labelled.uid == state.node.uid => state.node = labelled,
            LabelWrite::Seen(_) | LabelWrite::Failed => {}
            // The next look, within a second, asks again.
            LabelWrite::NoRoom => return,
        }
        self.dirty.insert(node);
    }
}
