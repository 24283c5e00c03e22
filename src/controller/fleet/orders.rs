//! Orders: sends evictions and deletes, and takes in their answers.

use std::time::Duration;

use tracing::{debug, warn};

use super::{Fleet, FleetInput};
use crate::{
    cluster::Problem,
    controller::{context::Term, report::DrainEvent},
    domain::{ApiAnswer, ForceAfter, NodeName, PodKey, PodUid},
    drain::{DeleteWhy, DispatchInput, Input, Order, classify},
};

impl Fleet {
    /// The dispatcher has a slot for this pod: its order is made now and sent.
    pub(super) fn go(&mut self, node: &NodeName, uid: &PodUid, evict: bool) {
        let now = self.term.clock.now();
        let order = self.drains.get_mut(node).and_then(|c| c.drain.as_mut()).and_then(|d| d.order(uid, now, evict));
        let Some(order) = order else {
            self.dispatch(DispatchInput::Withdrawn { uid: uid.clone() });
            return;
        };
        let drain = self.drains.get(node).and_then(|c| c.drain.as_ref());
        let until = drain.and_then(|d| d.evict_until(uid, now));
        let note = drain.and_then(|d| d.note_if_accepted(&order));
        let patience = until.map_or(Duration::MAX, |at| at.since_or_zero(now));
        self.unreported_deletes.extend(note.map(|note| (uid.clone(), note)));
        let (term, node) = (self.term.clone(), node.clone());
        self.term.spawn(async move {
            let answer = match &order {
                // An eviction without an answer times out before its pod must be deleted, at the server too.
                Order::Evict { pod, uid, grace } => term.cluster.evict(patience, pod, uid, *grace).await,
                Order::Delete { pod, uid, grace, why } => match why {
                    DeleteWhy::Forced => {
                        set_disruption_target(&term, pod, uid).await;
                        term.cluster.delete_pod(pod, uid, Some(*grace)).await
                    }
                    // The Eviction API asks no budget about a pod that is terminating, and needs no right to delete pods.
                    DeleteWhy::Shortened if term.config.drain.force_after == ForceAfter::Never => {
                        term.cluster.evict(patience, pod, uid, Some(*grace)).await
                    }
                    DeleteWhy::Shortened => term.cluster.delete_pod(pod, uid, Some(*grace)).await,
                },
            };
            term.send(FleetInput::Answer { node, order, answer });
        });
    }

    pub(super) fn answered(&mut self, node: &NodeName, order: Order, answer: ApiAnswer) {
        let class = classify(&answer);
        self.term.report(node, DrainEvent::Answered { order: order.clone(), class, message: answer.message.clone() });
        let (uid, is_success) = (order.uid().clone(), answer.is_success());
        if !is_success {
            self.unreported_deletes.remove(&uid);
        }
        // The dispatcher first: it must know that the slot is free before the drain wants the next order.
        self.dispatch(DispatchInput::Answer { uid: uid.clone(), class });
        self.step(node, Input::Answer { order, answer });
        // The drain has ended, or the pod was gone before the answer came.
        if is_success && let Some(note) = self.unreported_deletes.remove(&uid) {
            self.report_note(node, note);
        }
    }

    pub(super) fn ask_daemon_set(&self, node: &NodeName, namespace: String, name: String) {
        let (term, node) = (self.term.clone(), node.clone());
        self.term.spawn(async move {
            let state = term.daemon_sets.state(&namespace, &name).await;
            term.send(FleetInput::DaemonSet { node, namespace, name, state });
        });
    }
}

/// With `--disruption-target`: sets the condition of a pod that is about to be deleted. A failure is logged and changes nothing else.
async fn set_disruption_target(term: &Term, pod: &PodKey, uid: &PodUid) {
    if !term.config.drain.disruption_target {
        return;
    }
    match term.cluster.set_disruption_target(pod, uid).await {
        // Another pod, or none: the DELETE is answered likewise.
        Err(error) if matches!(error.problem, Problem::NotFound | Problem::Conflict | Problem::HeldBack) => {
            debug!(%pod, %error, "No condition is set.");
        }
        Err(error) => warn!(
            %pod, %error,
            "Cannot set the condition DisruptionTarget. The pod is deleted without it: the pod failure policy of a Job may count a failure."
        ),
        Ok(()) => {}
    }
}
