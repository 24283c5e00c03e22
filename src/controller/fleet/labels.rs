//! The label that takes a node out of load balancers, where it did not go into the accept.

use std::time::Duration;

use tracing::warn;

use super::{Fleet, FleetInput, NodeState};
use crate::{
    cluster::Problem,
    config::Exclusion,
    controller::context::Term,
    domain::{EXCLUDE_FROM_LOAD_BALANCERS, Node, NodeName, Taken, seconds},
    record,
};

impl Fleet {
    /// Labels those of these nodes for which it is time, as far as there is room.
    pub(super) fn label_due<'a>(&mut self, names: impl Iterator<Item = &'a NodeName>) {
        if self.term.config.drain.exclude == Some(Exclusion::Never) {
            return;
        }
        for name in names {
            let open = |c: &NodeState| c.drain.is_some() && !c.labelling && !c.node.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS);
            if self.drains.get(name).is_some_and(|c| open(c)) && self.label_is_due(name) {
                self.label(name);
            }
        }
    }

    /// Early: from the accept on. Late: when the last pod that counts is terminating, or a minute before the deadline.
    fn label_is_due(&self, name: &NodeName) -> bool {
        let Some(state) = self.drains.get(name) else { return false };
        let early = match self.term.config.drain.exclude {
            Some(Exclusion::Early) => true,
            Some(Exclusion::Late | Exclusion::Never) => false,
            None => state.taken.iter().any(Taken::is_urgent),
        };
        let near = state.limits.end_at.is_some_and(|at| self.term.clock.now() >= at.minus(seconds(60)));
        early || near || state.drain.as_ref().is_some_and(crate::drain::Drain::is_last_pod_terminating)
    }

    fn label(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        if !self.term.with_room(|room| room.take(name)) {
            return;
        }
        state.labelling = true;
        let (term, node) = (self.term.clone(), state.node.clone());
        self.term.spawn(async move {
            let seen = write(&term, &node).await;
            term.with_room(|room| room.settled(&node.name, seen.as_ref()));
            term.send(FleetInput::Labelled(node.name.clone(), seen.map(std::sync::Arc::new)));
        });
    }
}

/// Labels the Node as the index shows it. The Node as it is then; after a failure that may be without the label, and a while later.
async fn write(term: &Term, node: &Node) -> Option<Node> {
    let result = {
        let _gate = term.gate(&node.name).await;
        // The index may not have the Node yet, when it was accepted past it.
        let known = term.nodes.get(&node.name).filter(|n| n.uid == node.uid);
        let known = known.as_deref().unwrap_or(node);
        let Some(body) = record::exclude(known) else { return Some(known.clone()) };
        term.nodes.patch(&node.name, &body).await
    };
    let Err(error) = result else { return result.ok() };
    if error.problem == Problem::Conflict {
        tokio::time::sleep(Duration::from_millis(250)).await;
    } else {
        warn!(node = %node.name, %error, "Cannot take the node out of load balancers yet; trying again.");
        tokio::time::sleep(seconds(2)).await;
    }
    // The index may be behind for minutes: without a look past it the same patch would be refused again and again.
    term.nodes.fetch(&node.name).await.ok().flatten().filter(|n| n.uid == node.uid)
}
