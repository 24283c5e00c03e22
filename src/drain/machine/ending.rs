//! When a drain ends, and how certain that the node is empty the drain must be.

use super::{Drain, EvictionHold};
use crate::{
    domain::{LimitSource, Limits, Moment, PodKey, Response},
    drain::{DispatchInput, Effect, NodeCondition, Outcome, silence::KubeletSilence},
};

impl Drain {
    pub(super) fn set_limits(&mut self, now: Moment, limits: Limits) {
        if limits != self.limits {
            self.limits = limits;
            self.note_hold(now);
            self.evaluate_all(now);
        }
    }

    pub(super) fn set_condition(&mut self, now: Moment, condition: NodeCondition) {
        match condition {
            NodeCondition::Fine => self.silence = KubeletSilence::Reporting,
            NodeCondition::Unreachable => self.silence.begin(now),
            // A drain whose evictions wait does not end. The question is asked again after that.
            NodeCondition::StillUnreachable
                if matches!(self.silence, KubeletSilence::ReadingNode(_))
                    && self.hold != EvictionHold::Holds =>
            {
                self.end(Outcome::Unreachable { left: self.left() });
            }
            NodeCondition::StillUnreachable => {}
            NodeCondition::Deleted => self.end(Outcome::NodeGone),
            NodeCondition::InstanceOver => self.end(Outcome::InstanceOver),
        }
    }

    pub(super) fn unreachable_until(&self) -> Option<Moment> {
        self.silence.since().map(|at| at.plus(self.settings.unreachable_wait))
    }

    /// `true`: the drain ends when the node is empty. `false`: it ends at a fixed time, because no
    /// pod is evicted, or because the drain is only for a recommendation.
    const fn ends_when_empty(&self) -> bool {
        matches!(self.limits.response, Response::Drain) && self.limits.expires_at.is_none()
    }

    /// When a drain that does not wait for all pods ends. If it may no longer evict pods, those that
    /// it has asked to go keep their grace periods: the machine must not go in the middle of one.
    fn ends_by_time_at(&self) -> Option<Moment> {
        if self.ends_when_empty() {
            None
        } else {
            // Without `end_at`, every interruption lacks a proof: AWS is still asked.
            let may_end = self.limits.verification.may_end();
            let from = || self.may_end_empty_from().max(self.graces_end_at());
            let ends = |end: Moment| if may_end { from().min(end) } else { end };
            self.limits.expires_at.or_else(|| self.limits.end_at.map(ends))
        }
    }

    /// When the grace periods of the pods that this drain has asked to go are over.
    /// [`Moment::UNIX_EPOCH`]: there are none.
    fn graces_end_at(&self) -> Moment {
        let ends = self.pods.values().filter_map(|entry| entry.grace_ends_at(&self.settings));
        ends.max().unwrap_or(Moment::UNIX_EPOCH)
    }

    /// When the drain stops waiting for the pods of a node with a silent kubelet, unless the Node
    /// shows then that the kubelet reports again. `None`: the kubelet is not known to be silent, or
    /// the Node is being read already, or the evictions wait: no pod had its time yet.
    pub(super) fn gives_up_at(&self) -> Option<Moment> {
        self.unreachable_until().filter(|_| {
            matches!(self.silence, KubeletSilence::Waiting(_))
                && self.ends_when_empty()
                && self.hold != EvictionHold::Holds
        })
    }

    /// When Sundown cordoned or tainted the node for what it does with it now.
    pub(super) fn tainted_at(&self) -> Moment {
        self.cordoned_at.max(self.limits.tainted_at)
    }

    /// From when on the drain of an empty node may end: pods that were being bound at the cordon
    /// have arrived by then. The end of the drain (`end_at`) does not wait for that. `force_at`
    /// does: the margin after it leaves time for that.
    fn may_end_empty_from(&self) -> Moment {
        let settled = self.tainted_at().plus(self.settings.min_drain);
        self.limits.end_at.map_or(settled, |end| settled.min(end))
    }

    /// Whether no pod that counts is left, as far as is known.
    #[must_use]
    pub const fn looks_empty(&self) -> bool {
        self.view.listed_at.is_some() && self.tally.left == 0
    }

    /// Whether the node is certainly empty: no pod that counts is left, and that was known at a
    /// moment when no pod was on its way to the node any longer. A watch that was opened again
    /// delivers what it has missed bit by bit: the end of a pod may come before its successor.
    fn is_empty(&self, now: Moment) -> bool {
        self.looks_empty()
            && self.tally.gone == 0
            && self.view.catches_up_at().is_none_or(|at| at <= now)
            && self.may_end_empty_from() <= self.view.known_until(now)
    }

    /// When to list the pods again; `None`: the watch can be relied on, or a LIST is already
    /// requested.
    ///
    /// A 404 means that a pod is gone and that the watch has not reported it. Only a LIST shows
    /// what else the watch has not reported. So the drain requests one before it ends, and if the
    /// watch still has not reported the end of the pod after a while. It does the same while the
    /// watch is not open.
    fn relist_from(&self) -> Option<Moment> {
        let listed = self.view.listed_at.filter(|_| !self.view.relisting)?;
        let (is_404_unconfirmed, blind) = (self.tally.gone > 0, self.view.is_blind());
        let wanted = match self.looks_empty() {
            _ if is_404_unconfirmed && self.view.missed => listed,
            true if is_404_unconfirmed || blind => self.may_end_empty_from(),
            false if blind => listed.plus(self.settings.blind_relist_after),
            _ => return None,
        };
        Some(wanted.max(listed.plus(self.settings.relist_after)))
    }

    /// When the drain has something to do that does not concern a single pod, if no input comes.
    pub(super) fn next_check(&self) -> Option<Moment> {
        if !self.ends_when_empty() {
            let end = self.ends_by_time_at().filter(|_| !self.paused);
            return [end, self.view.catches_up_at(), self.relist_from()]
                .into_iter()
                .flatten()
                .min();
        }
        // While the watch is not open or has not confirmed a 404, time alone cannot show that the
        // node is empty.
        let may_end = self.looks_empty() && self.limits.verification.may_end();
        let empty = (may_end && self.tally.gone == 0 && !self.view.is_blind())
            .then(|| self.volumes.gives_up_at().unwrap_or_else(|| self.may_end_empty_from()));
        let empty = empty.max(empty.and_then(|_| self.view.catches_up_at()));
        let unreachable = self.gives_up_at();
        let (unreachable, end) =
            if self.paused { (None, None) } else { (unreachable, self.limits.end_at) };
        [empty, self.view.catches_up_at(), self.relist_from(), unreachable, end]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn end_if_over(&mut self, now: Moment) {
        if self.over {
            return;
        }
        if self.relist_from().is_some_and(|at| at <= now) {
            self.view.relist();
            self.effects.push(Effect::Relist);
        }
        let is_empty =
            self.ends_when_empty() && self.is_empty(now) && self.limits.verification.may_end();
        if !is_empty {
            self.stop_waiting_for_volumes();
        }
        if !self.ends_when_empty() {
            // A paused drain goes on until the pause is over.
            if !self.paused && self.ends_by_time_at().is_some_and(|at| at <= now) {
                let left = self.left();
                self.end(if self.limits.expires_at.is_some() {
                    Outcome::Expired { left }
                } else if self.evicted_at.is_some() && self.is_empty(now) {
                    Outcome::Empty
                } else {
                    Outcome::NotEvicted { left }
                });
            }
        } else if is_empty && self.are_volumes_settled(now) {
            self.end(Outcome::Empty);
        } else if self.paused {
            // The deadline is kept and shown, but does not end a paused drain.
        } else if is_empty && self.limits.end_at.is_some_and(|at| at <= now) {
            self.give_up_volumes_at_deadline(now);
            self.end(Outcome::Empty);
        } else if self.limits.end_at.is_some_and(|at| at <= now) {
            let left = self.left();
            let is_deadline =
                self.limits.force_at.is_some() || self.limits.end_source == LimitSource::Request;
            self.end(if is_deadline {
                Outcome::DeadlineReached { left }
            } else {
                Outcome::TimedOut { left }
            });
        } else if let KubeletSilence::Waiting(since) = self.silence
            && self.gives_up_at().is_some_and(|at| at <= now)
        {
            self.silence = KubeletSilence::ReadingNode(since);
            self.effects.push(Effect::AskNode);
        }
    }

    /// The pods that count and have not finished. A drain may still wait for the object of a
    /// finished pod, but nothing of that pod runs.
    pub(super) fn left(&self) -> Vec<PodKey> {
        let entries = self.pods.values().filter(|e| e.tally().left > 0);
        let running = entries.filter(|e| !e.pod.phase.is_finished());
        let mut left: Vec<_> = running.map(|e| e.pod.key.clone()).collect();
        left.sort();
        left
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        self.over = true;
        self.report_unanswered(true);
        // Requests of this step are no longer needed, but reports are.
        self.effects.retain(|e| matches!(e, Effect::Note(_)));
        self.effects.push(Effect::Dispatch(DispatchInput::Closed { node: self.node.clone() }));
        self.effects.push(Effect::Ended(outcome));
    }
}
