//! What the reports about a drain remember from one to the next.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::Span;

use crate::{
    domain::{InstanceId, NodeName},
    observe::{Place, traces::DrainTrace},
};

/// What later reports about each drain need, by node. Clones share it.
#[derive(Debug, Clone, Default)]
pub(in crate::controller) struct Reported(Arc<Mutex<BTreeMap<NodeName, Box<ReportedDrain>>>>);

#[derive(Debug)]
pub(super) struct ReportedDrain {
    /// The kind of its first interruption.
    pub(super) kind: &'static str,
    /// The place of the node when the drain began, so that all metrics of a drain count for one
    /// place.
    pub(super) place: Place,
    /// `None` if traces are off.
    pub(super) trace: Option<Box<DrainTrace>>,
    pub(super) instance: InstanceId,
}

/// A span for the next log lines about a drain. Kept from report to report, the spans of thousands
/// of drains would take twice the memory of their reports.
pub(super) fn drain_span(node: &NodeName, instance: &InstanceId, kind: &'static str) -> Span {
    tracing::info_span!(parent: None, "drain", node = %node, instance = %instance, kind)
}

impl Reported {
    pub(super) fn with<T>(
        &self,
        node: &NodeName,
        use_it: impl FnOnce(&mut ReportedDrain) -> T,
    ) -> Option<T> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(node)
            .map(|drain| use_it(drain))
    }

    pub(super) fn insert(&self, node: &NodeName, drain: ReportedDrain) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(node.clone(), Box::new(drain));
    }

    pub(super) fn remove(&self, node: &NodeName) -> Option<Box<ReportedDrain>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(node)
    }

    /// The span of the node's drain. [`Span::none`] if there is no drain.
    pub(super) fn span(&self, node: &NodeName) -> Span {
        let drain = self.with(node, |drain| (drain.instance.clone(), drain.kind));
        drain.map_or_else(Span::none, |(instance, kind)| drain_span(node, &instance, kind))
    }

    pub(super) fn trace(&self, node: &NodeName, add: impl FnOnce(&mut DrainTrace)) {
        self.with(node, |drain| drain.trace.as_deref_mut().map(add));
    }
}
