//! The label that takes a node out of load balancers, where the accept has not set it.

use std::sync::Arc;

use super::{Effect, Fleet, LabelWrite, node_state::NodeState};
use crate::{
    domain::{
        EXCLUDE_FROM_LOAD_BALANCERS, Exclusion, InterruptionFacts, LimitSource, NodeName, seconds,
    },
    drain::Drain,
};

impl Fleet {
    /// Orders the label for those of these nodes that are due.
    pub(super) fn label_due<'a>(&mut self, names: impl Iterator<Item = &'a NodeName>) {
        if self.settings.exclude == Some(Exclusion::Never) {
            return;
        }
        for name in names {
            let may_label = |state: &NodeState| {
                state.is_draining()
                    && !state.is_labeling
                    // Only the record shows that the label is Sundown's. If a person deleted it, it
                    // is written back first.
                    && state.node.record().is_some()
                    && !state.node.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS)
            };
            if self.drains.get(name).is_some_and(|state| may_label(state))
                && self.label_is_due(name)
            {
                self.label(name);
            }
        }
    }

    /// Early labels are due from the accept on. Late ones are due when the last pod that counts is
    /// terminating, or a minute before the deadline, but not while evictions wait for AWS's answer.
    fn label_is_due(&self, name: &NodeName) -> bool {
        let Some(state) = self.drains.get(name) else { return false };
        if !state.limits.response.cordons() {
            return false;
        }
        let early = match self.settings.exclude {
            Some(Exclusion::Early) => true,
            Some(Exclusion::Late | Exclusion::Never) => false,
            None => state.interruptions.iter().any(InterruptionFacts::is_urgent),
        };
        // The pods that are left at the deadline of a request stay on the node.
        let is_request = state.limits.end_source == LimitSource::Request;
        let end = state.limits.end_at.filter(|_| !is_request);
        let near = end.is_some_and(|at| self.now >= at.minus(seconds(60)));
        let is_last = |drain: &Drain| drain.is_last_pod_terminating();
        let late = near || state.drain().is_some_and(is_last);
        early || late && state.limits.verification.may_evict()
    }

    fn label(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        state.is_labeling = true;
        self.out.push(Effect::Exclude(Arc::clone(&state.node)));
    }

    /// The write of the label has ended.
    pub(super) fn label_written(&mut self, node: NodeName, write: LabelWrite) {
        let Some(state) = self.drains.get_mut(&node) else { return };
        state.is_labeling = false;
        match write {
            LabelWrite::Seen(labelled) if labelled.uid == state.node.uid => state.node = labelled,
            LabelWrite::Seen(_) | LabelWrite::Failed => {}
            // `every_second` tries again.
            LabelWrite::NoRoom => return,
        }
        self.changed_drains.insert(node);
    }
}
