//! Orders: evictions and deletes, and their answers.

use std::time::Duration;

use super::{DrainEvent, Effect, Fleet};
use crate::{
    domain::{ApiAnswer, NodeName, PodUid},
    drain::{DispatchInput, Input, Order, classify},
};

impl Fleet {
    /// The dispatcher has a slot for this pod: its order is made now.
    pub(super) fn go(&mut self, node: &NodeName, uid: &PodUid, evict: bool) {
        let now = self.now;
        let order = self
            .drains
            .get_mut(node)
            .and_then(|c| c.drain.as_mut())
            .and_then(|d| d.order(uid, now, evict));
        let Some(order) = order else {
            self.dispatch(DispatchInput::Withdrawn { uid: uid.clone() });
            return;
        };
        let drain = self.drains.get(node).and_then(|c| c.drain.as_ref());
        let until = drain.and_then(|d| d.evict_until(uid, now));
        let note = drain.and_then(|d| d.note_if_accepted(&order));
        let patience = until.map_or(Duration::MAX, |at| at.since_or_zero(now));
        self.unreported_deletes.extend(note.map(|note| (uid.clone(), note)));
        self.out.push(Effect::Send { node: node.clone(), order, patience });
    }

    pub(super) fn answered(&mut self, node: &NodeName, order: Order, answer: ApiAnswer) {
        let class = classify(&answer);
        self.out.report(
            node,
            DrainEvent::Answered { order: order.clone(), class, message: answer.message.clone() },
        );
        let (uid, is_success) = (order.uid().clone(), answer.is_success());
        if !is_success {
            self.unreported_deletes.remove(&uid);
        }
        // The dispatcher first: it must know that the slot is free before the drain wants the next
        // order.
        self.dispatch(DispatchInput::Answer { uid: uid.clone(), class });
        self.feed(node, Input::Answer { order, answer });
        // The drain has ended, or the pod was gone before the answer came.
        if is_success && let Some(note) = self.unreported_deletes.remove(&uid) {
            self.report_note(node, note);
        }
    }
}
