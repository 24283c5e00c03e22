//! When a drain ends, and how sure it must be of that.

use super::Drain;
use crate::{
    domain::{Limits, Moment, PodKey},
    drain::{DispatchInput, Effect, NodeCondition, Outcome, silence::Silence},
};

impl Drain {
    pub(super) fn limit(&mut self, now: Moment, limits: Limits) {
        if limits != self.limits {
            self.limits = limits;
            self.look_at_all(now);
        }
    }

    pub(super) fn condition(&mut self, now: Moment, condition: NodeCondition) {
        match condition {
            NodeCondition::Fine => self.silence = Silence::Heard,
            NodeCondition::Unreachable => self.silence.began(now),
            // A pause ends no drain: what was asked before it is asked again after it.
            NodeCondition::StillUnreachable
                if matches!(self.silence, Silence::Asked(_)) && !self.paused =>
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

    /// When the pods of a node whose kubelet is silent are given up, unless its Node says otherwise
    /// then. `None`: nothing is known to be silent, or the Node is being read already.
    pub(super) fn gives_up_at(&self) -> Option<Moment> {
        self.unreachable_until().filter(|_| matches!(self.silence, Silence::Waiting(_)))
    }

    /// From when on an empty node is drained: pods that were being bound at the cordon have arrived
    /// by then. The end of the drain does not wait for that. The time towards which pods are forced
    /// does: the margin after it is there to wait.
    fn empty_from(&self) -> Moment {
        let settled = self.cordoned_at.plus(self.settings.min_drain);
        self.limits.end_at.map_or(settled, |end| settled.min(end))
    }

    /// No pod that counts is left, as far as is known.
    pub(super) const fn looks_empty(&self) -> bool {
        self.view.listed_at.is_some() && self.tally.left == 0
    }

    /// It is empty, and that can be relied on as of a moment at which nothing was on its way to it
    /// any more.
    fn is_empty(&self, now: Moment) -> bool {
        self.looks_empty()
            && self.tally.gone == 0
            && self.empty_from() <= self.view.known_until(now)
    }

    /// When the pods are to be listed anew; `None` while the watch can be relied on, or a LIST is
    /// awaited.
    ///
    /// A 404 says that a pod is gone, and that the watch has not said so: what else it has not told
    /// only a LIST shows. So one is asked for before the drain ends, and where the watch still has
    /// not told after a while. The same while the watch is not open.
    fn relist_from(&self) -> Option<Moment> {
        let listed = self.view.listed_at.filter(|_| !self.view.relisting)?;
        let (doubted, blind) = (self.tally.gone > 0, self.view.is_blind());
        let wanted = match self.looks_empty() {
            _ if doubted && self.view.missed => listed,
            true if doubted || blind => self.empty_from(),
            false if blind => listed.plus(self.settings.blind_relist_after),
            _ => return None,
        };
        Some(wanted.max(listed.plus(self.settings.relist_after)))
    }

    /// When the drain, as it is now, has something to do by time alone that is not about one pod.
    pub(super) fn next_end(&self) -> Option<Moment> {
        // While nothing new can be known, or a LIST is awaited, only that tells more.
        let empty = (self.looks_empty() && self.tally.gone == 0 && !self.view.is_blind())
            .then(|| self.empty_from());
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
            self.out.push(Effect::Relist);
        }
        if self.is_empty(now) {
            self.end(Outcome::Empty);
        } else if self.paused {
            // The deadline stands and is shown, but ends nothing.
        } else if self.limits.end_at.is_some_and(|at| at <= now) {
            let left = self.left();
            self.end(if self.limits.force_at.is_some() {
                Outcome::DeadlineReached { left }
            } else {
                Outcome::TimedOut { left }
            });
        } else if let Silence::Waiting(since) = self.silence
            && self.unreachable_until().is_some_and(|at| at <= now)
        {
            self.silence = Silence::Asked(since);
            self.out.push(Effect::AskNode);
        }
    }

    pub(super) fn left(&self) -> Vec<PodKey> {
        let mut left: Vec<_> =
            self.pods.values().filter(|e| e.tally().left > 0).map(|e| e.pod.key.clone()).collect();
        left.sort();
        left
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        self.over = true;
        self.tell_unanswered(true);
        // Nothing of this step is wanted any more, except to be heard.
        self.out.retain(|e| matches!(e, Effect::Note(_)));
        self.out.push(Effect::Dispatch(DispatchInput::Closed { node: self.node.clone() }));
        self.out.push(Effect::Ended(outcome));
    }
}
