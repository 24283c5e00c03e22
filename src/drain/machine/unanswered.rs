//! Forced deletes whose answer is missing. Such a delete may still have deleted its pod, so it must
//! be reported as forced.

use std::time::Duration;

use super::Drain;
use crate::{
    domain::{ApiAnswer, Moment, Pod, PodUid, seconds},
    drain::{Class, DeleteWhy, Effect, Note, Order, answer::may_have_taken_effect},
};

/// The API server's times are in whole seconds, and a difference between its clock and ours is
/// corrected only if it is 2 s or more.
const CLOCK_ERROR: Duration = seconds(3);

/// A forced delete without an answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    note: Note,
    /// When the pod's grace period ends if this delete was the first request to have an effect.
    ends: Moment,
    /// Its answer was lost. Otherwise the answer may still come.
    is_lost: bool,
}

impl Unanswered {
    /// Whether this delete can be the reason why the pod terminates. An earlier eviction would have
    /// ended the pod sooner.
    fn can_explain(&self, pod: &Pod) -> bool {
        pod.deletion.is_none_or(|deletion| deletion.plus(CLOCK_ERROR) >= self.ends)
    }
}

impl Drain {
    /// Records that an order is sent now.
    pub(super) fn sent(&mut self, order: &Order, now: Moment) {
        let Order::Delete { uid, grace, why: DeleteWhy::Forced, .. } = order else { return };
        // If an eviction may end the pod, nobody can know whether the eviction or the delete did.
        let rules = self.rules(now);
        let entry = self.pods.get(uid).filter(|entry| !entry.may_be_evicted(&rules));
        let Some(note) = entry.and_then(|entry| entry.forced_note(order)) else { return };
        let ends = now.plus(seconds(u64::from(*grace)));
        let before = self.unanswered.remove(uid);
        let (ends, is_lost) =
            before.map_or((ends, false), |before| (before.ends.min(ends), before.is_lost));
        self.unanswered.insert(uid.clone(), Unanswered { note, ends, is_lost });
    }

    /// Records that an order was answered, or that its answer was lost.
    pub(super) fn was_answered(&mut self, order: &Order, answer: &ApiAnswer, class: Class) {
        let may_have_taken_effect = may_have_taken_effect(answer);
        // The API server checks no budget for a terminating pod. So a refusal by a budget proves
        // that no earlier eviction had an effect.
        let is_refused_by_budget = matches!(
            class,
            Class::Budget | Class::BudgetLagging { .. } | Class::BudgetBroken | Class::TwoBudgets
        );
        if let Order::Evict { uid, .. } = order
            && (may_have_taken_effect || is_refused_by_budget)
            && let Some(entry) = self.pods.get_mut(uid)
        {
            entry.eviction_lost = may_have_taken_effect;
        }
        let Some(unanswered) = self.unanswered.get_mut(order.uid()) else { return };
        if may_have_taken_effect {
            unanswered.is_lost = true;
        } else if class == Class::Accepted || !unanswered.is_lost {
            // An accepted delete is reported where its answer is handled. A refusal proves nothing
            // about an earlier delete whose answer was lost.
            self.unanswered.remove(order.uid());
        }
    }

    /// Records that a pod is gone from the node.
    pub(super) fn was_removed(&mut self, pod: &Pod) {
        if self.unanswered.get(&pod.uid).is_some_and(|unanswered| !unanswered.can_explain(pod)) {
            self.unanswered.remove(&pod.uid);
        }
    }

    /// Reports each forced delete without an answer whose pod terminates or is gone. `is_last`:
    /// also those whose answer may still come, because the drain ends now.
    pub(super) fn report_unanswered(&mut self, is_last: bool) {
        if self.unanswered.is_empty() {
            return;
        }
        let is_leaving = |uid: &PodUid, unanswered: &Unanswered| {
            self.pods.get(uid).is_none_or(|e| {
                e.gone.is_some() || e.pod.deletion.is_some() && unanswered.can_explain(&e.pod)
            })
        };
        let reportable = self.unanswered.iter().filter(|(uid, unanswered)| {
            (is_last || unanswered.is_lost) && is_leaving(uid, unanswered)
        });
        let uids: Vec<PodUid> = reportable.map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            let Some(Unanswered { note, .. }) = self.unanswered.remove(&uid) else { continue };
            if let Some(entry) = self.pods.get_mut(&uid) {
                entry.forced = true;
            }
            if let Note::Forced { pod, .. } = &note {
                self.forced.push(pod.clone());
            }
            self.effects.push(Effect::Note(note));
        }
    }
}
