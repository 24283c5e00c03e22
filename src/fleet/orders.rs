//! Orders: evictions and deletes, and their answers.

use std::time::Duration;

use super::{DrainEvent, Effect, Fleet};
use crate::{
    domain::{ApiAnswer, NodeName, PodUid},
    drain::{DispatchInput, Input, Order, classify},
};

impl Fleet {
    /// The dispatcher has a slot for this pod: makes its order and sends it.
    pub(super) fn send_order(&mut self, node: &NodeName, uid: &PodUid, evict: bool) {
        let now = self.now;
        let order = self
            .drains
            .get_mut(node)
            .and_then(|state| state.drain_mut())
            .and_then(|drain| drain.order(uid, now, evict));
        let Some(order) = order else {
            self.dispatch(DispatchInput::Withdrawn { uid: uid.clone() });
            return;
        };
        let drain = self.drains.get(node).and_then(|state| state.drain());
        let until = drain.and_then(|drain| drain.evict_until(uid, now));
        let note = drain.and_then(|drain| drain.note_if_accepted(&order));
        let give_up_after = until.map_or(Duration::MAX, |at| at.since_or_zero(now));
        self.unreported_deletes.extend(note.map(|note| (uid.clone(), note)));
        self.out.push(Effect::Send { node: node.clone(), order, give_up_after });
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
        // The dispatcher goes first: it must free the slot before the drain asks for the next one.
        self.dispatch(DispatchInput::Answer { uid: uid.clone(), class });
        self.feed(node, Input::Answer { order, answer });
        // The drain did not report this delete: it has ended, or the pod was deleted before the
        // answer came.
        if is_success && let Some(note) = self.unreported_deletes.remove(&uid) {
            self.report_note(node, note);
        }
    }
}
