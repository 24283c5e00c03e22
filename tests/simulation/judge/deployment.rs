//! What is promised under flags that say where Sundown runs: a dry run, a shared queue, and no name
//! of the cluster.

use super::{Belongs, Judge, is_us, sent::events};
use crate::harness::NO_CLUSTER_NAME;
use sundown::domain::Moment;

/// Calls that change something.
const WRITES: [&str; 4] = [
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "autoscaling:RecordLifecycleActionHeartbeat",
    "autoscaling:CompleteLifecycleAction",
];

impl Judge<'_> {
    /// A dry run writes nothing at all: no Lease, no Event, and no message is deleted.
    pub(super) fn dry_run(&mut self) {
        let evidence = self.evidence;
        for request in evidence.requests.iter().filter(|r| is_us(&r.client) && r.is_write()) {
            self.broken(
                request.at,
                format!("a dry run sent {} {} {}", request.verb, request.resource, request.name),
            );
        }
        for call in evidence
            .calls
            .iter()
            .filter(|c| is_us(&c.by) && WRITES.iter().any(|write| c.api.starts_with(write)))
        {
            self.broken(call.at, format!("a dry run called {} for {}", call.api, call.object));
        }
    }

    /// On a shared queue no message is deleted that may be for another cluster: about an instance
    /// that is not one of this cluster.
    pub(super) fn of_others(&mut self) {
        if !self.evidence.terms.is_set("--shared-queue") {
            return;
        }
        for message in &self.evidence.messages {
            let Some(at) = message.deletion_lost.or(message.deleted) else { continue };
            let is_here = |instance: &str| {
                let group =
                    self.evidence.groups.get(instance).and_then(|group| self.belongs(group));
                group.is_some_and(|belongs| belongs != Belongs::OtherCluster)
            };
            let blocks = &self.evidence.blocks;
            let mut about = events(&message.body).into_iter().flat_map(|e| e.of_each(blocks));
            if !about.any(|event| is_here(&event.instance)) {
                self.broken(
                    at,
                    format!(
                        "a message on a shared queue was deleted and may be for another cluster: \
                         {}",
                        message.body
                    ),
                );
            }
        }
    }

    /// Without a name of the cluster, nothing is completed or kept alive for an instance that has
    /// no Node, unless its drain had begun.
    pub(super) fn without_node(&mut self) {
        if !self.evidence.terms.is_set(NO_CLUSTER_NAME) {
            return;
        }
        for call in self.evidence.calls.iter().filter(|c| {
            is_us(&c.by) && c.api.starts_with("autoscaling:") && !c.api.contains("Describe")
        }) {
            let instance = call.object.rsplit('/').next().unwrap_or_default();
            let had_node = self.story.registered(instance).is_some_and(|at| at <= call.at);
            if !had_node {
                self.broken(
                    call.at,
                    format!(
                        "{} for {}, which has no Node, and the cluster has no name",
                        call.api, call.object
                    ),
                );
            }
        }
    }

    /// Nobody may know whose this instance is: it has no Node, and the cluster has no name.
    pub(super) fn is_nobodys(&self, instance: &str, at: Moment) -> bool {
        let node = self
            .evidence
            .nodes
            .get(instance)
            .filter(|_| self.story.registered(instance).is_some_and(|since| since <= at));
        self.evidence.terms.is_set(NO_CLUSTER_NAME)
            && node.is_none_or(|node| self.node_away(node, instance, at))
    }
}
