//! One pod of a drain: whether it counts, and what is wanted for it.

use std::sync::Arc;

use super::{BlockReason, By, Class, DeleteWhy, Note, Order, Settings, force};
use crate::domain::{Limits, Moment, Pod, PodKey};

/// Whether a pod counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Belongs {
    /// It is evicted and waited for.
    Counts,
    /// Its DaemonSet was not looked at yet: not touched, but the drain does not end without
    /// knowing.
    Unknown,
    /// Neither touched nor waited for.
    Untouched,
}

impl Belongs {
    /// What can be said without asking anybody; `Unknown` for a DaemonSet's pod.
    ///
    /// Finished pods stay: their logs and status are of use, and they hold nothing. One that is
    /// being deleted still holds its volumes, until the kubelet has taken its object away.
    fn at_first_sight(pod: &Pod) -> Self {
        if pod.phase.is_finished() && pod.deletion.is_none() {
            Self::Untouched
        } else {
            Self::by_kind(pod)
        }
    }

    /// The same, whatever its phase is.
    ///
    /// Mirror pods belong to the kubelet. A toleration that names our taint says that the pod wants
    /// to stay to the end.
    fn by_kind(pod: &Pod) -> Self {
        if pod.mirror || pod.tolerates_us {
            Self::Untouched
        } else if pod.owner.as_ref().is_some_and(|o| o.is_daemon_set()) {
            Self::Unknown
        } else {
            Self::Counts
        }
    }
}

/// What is wanted for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Evict,
    /// It may be deleted, and no eviction of it was ever answered: it is evicted if that can be
    /// done at once, else deleted.
    EvictOrDelete,
    Delete(DeleteWhy),
}

impl Wish {
    /// In the words of the dispatcher; `None`: nothing.
    pub(super) const fn by(self) -> Option<By> {
        match self {
            Self::Nothing => None,
            Self::Evict => Some(By::Eviction),
            Self::EvictOrDelete => Some(By::EvictionOrDelete),
            Self::Delete(_) => Some(By::Delete),
        }
    }
}

/// Why a pod does not go.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) reason: BlockReason,
    pub(super) message: String,
    pub(super) since: Moment,
    pub(super) told: bool,
}

/// How many pods are in which state: the sum over all entries, kept up to date at each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Those that count or may count, and are there.
    pub(super) left: usize,
    /// Those of `left` whose DaemonSet is not known yet.
    pub(super) unknown: usize,
    /// Those of `left` that are terminating.
    pub(super) terminating: usize,
    /// Those of `left` that are not our own pod.
    pub(super) others: usize,
    /// Those of which the server says that they are gone, and the watch does not yet.
    pub(super) gone: usize,
}

impl Tally {
    pub(super) const fn replace(&mut self, before: Self, after: Self) {
        self.left = self.left.saturating_sub(before.left) + after.left;
        self.unknown = self.unknown.saturating_sub(before.unknown) + after.unknown;
        self.terminating = self.terminating.saturating_sub(before.terminating) + after.terminating;
        self.others = self.others.saturating_sub(before.others) + after.others;
        self.gone = self.gone.saturating_sub(before.gone) + after.gone;
    }
}

/// What holds for all pods of the drain at this moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) limits: Limits,
    pub(super) settings: Settings,
    /// The drain is paused or over.
    pub(super) still: bool,
    /// Nothing that counts is left but our own pod.
    pub(super) own_may_go: bool,
    /// Whatever had happened to pods by then is known.
    pub(super) known_until: Moment,
    /// Nothing will be known of what happens to pods.
    pub(super) blind: bool,
}

/// One pod of a drain.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pod: Arc<Pod>,
    pub(super) belongs: Belongs,
    /// It is our own.
    pub(super) own: bool,
    /// What the dispatcher believes to be wanted.
    pub(super) told: Wish,
    /// Since when an order for it is wanted without a break (a pause is one); `None`: none is
    /// wanted.
    wanted_since: Option<Moment>,
    /// An eviction of it was refused, had no answer, or had no effect: from here on it may be
    /// deleted.
    pub(super) refused: Option<BlockReason>,
    /// When an order was last accepted, as long as no deletion time is seen.
    pub(super) accepted_at: Option<Moment>,
    /// Since when the server says that it is gone; the watch will follow.
    pub(super) gone: Option<Moment>,
    /// A LIST has shown it after the server had said so: it is not believed again.
    pub(super) is_there: bool,
    pub(super) block: Option<Box<Block>>,
    /// Towards which deadline it was shortened.
    pub(super) shortened_for: Option<Moment>,
    /// It came to the node after the cordon.
    pub(super) new: bool,
    /// It came back too often: neither touched nor waited for.
    left_alone: bool,
    /// Nothing is done with it before this.
    pub(super) not_before: Option<Moment>,
    /// It was deleted by force; told aloud.
    pub(super) forced: bool,
    /// The answer to an eviction of it was lost, so the eviction may have had its effect.
    pub(super) eviction_lost: bool,
    /// A malformed order for it was told aloud.
    pub(super) malformed: bool,
    /// Its entry among the timers.
    pub(super) wake: Option<Moment>,
}

impl Entry {
    pub(super) fn new(pod: Pod, own_pod: Option<&PodKey>) -> Self {
        Self {
            own: own_pod == Some(&pod.key),
            belongs: Belongs::at_first_sight(&pod),
            pod: Arc::new(pod),
            told: Wish::Nothing,
            wanted_since: None,
            refused: None,
            accepted_at: None,
            gone: None,
            is_there: false,
            block: None,
            shortened_for: None,
            new: false,
            left_alone: false,
            not_before: None,
            forced: false,
            eviction_lost: false,
            malformed: false,
            wake: None,
        }
    }

    /// It is there and counts.
    pub(super) fn counts(&self) -> bool {
        self.belongs == Belongs::Counts && self.gone.is_none()
    }

    /// It came back too often. One that goes already is waited for all the same. Whether it is left
    /// alone now.
    pub(super) fn leave_alone(&mut self) -> bool {
        let goes = self.pod.deletion.is_some() || self.accepted_at.is_some();
        if self.new && !goes {
            self.left_alone = true;
            self.belongs = Belongs::Untouched;
        }
        self.left_alone
    }

    /// Its part of the tally.
    pub(super) fn tally(&self) -> Tally {
        let one = |yes: bool| usize::from(yes);
        let left = self.belongs != Belongs::Untouched && self.gone.is_none();
        Tally {
            left: one(left),
            unknown: one(left && self.belongs == Belongs::Unknown),
            terminating: one(left && self.pod.deletion.is_some()),
            others: one(left && !self.own),
            gone: one(self.gone.is_some()),
        }
    }

    /// What is wanted for it now, and notes since when.
    pub(super) fn look(&mut self, rules: &Rules, now: Moment) -> Wish {
        match self.wish(rules, now) {
            Wish::Nothing => {
                self.wanted_since = None;
                Wish::Nothing
            }
            wish if self.wanted_since.is_some() => wish,
            _ => {
                self.wanted_since = Some(now);
                self.wish(rules, now)
            }
        }
    }

    /// What is wanted for it now.
    fn wish(&self, rules: &Rules, now: Moment) -> Wish {
        // A DELETE of a finished pod takes its object away at once, before the kubelet is done with
        // it.
        if rules.still || !self.counts() || self.pod.phase.is_finished() {
            return Wish::Nothing;
        }
        if self.pod.deletion.is_some() {
            return if self.outlives_the_deadline(rules, now) {
                Wish::Delete(DeleteWhy::Shortened)
            } else {
                Wish::Nothing
            };
        }
        if self.own && !rules.own_may_go || self.not_before.is_some_and(|at| now < at) {
            return Wish::Nothing;
        }
        let forced = self.delete_from(rules).is_some_and(|at| at <= now);
        match self.accepted_at {
            _ if forced => Wish::Delete(DeleteWhy::Forced),
            _ if self.delete_untried_from(rules).is_some_and(|at| at <= now) => Wish::EvictOrDelete,
            Some(at) if rules.known_until < at.plus(rules.settings.ask_again) => Wish::Nothing,
            _ => Wish::Evict,
        }
    }

    /// It is terminating, but will not have ended by the deadline (or a second from now, where that
    /// is later); and was not yet shortened towards it.
    fn outlives_the_deadline(&self, rules: &Rules, now: Moment) -> bool {
        let late =
            |end: Moment, force_at: Moment| end > force_at.plus(rules.settings.shorten_slack);
        let Some((deletion, force_at)) = self.pod.deletion.zip(rules.limits.force_at) else {
            return false;
        };
        late(deletion, force_at.max(now.plus(force::SHORTEST)))
            && self.shortened_for.is_none_or(|before| late(before, force_at))
    }

    /// From when on it may be deleted by force: only once its eviction was refused or had no
    /// answer, or was accepted without effect.
    fn delete_from(&self, rules: &Rules) -> Option<Moment> {
        let from = force::delete_from(rules.settings.force, &rules.limits, self.pod.grace)?;
        match self.accepted_at {
            // Just accepted, or not seen since: its deletion time is on its way to us, unless the
            // deadline cannot wait for it.
            Some(at) => {
                let last = rules.limits.force_at?.minus(force::SHORTEST);
                let intercepted = at.plus(rules.settings.intercepted_after);
                let unseen = rules.blind && rules.known_until < intercepted;
                // Whatever was accepted is given a second to show: else it would be sent as fast as
                // it is answered.
                let shown = at.plus(force::SHORTEST);
                Some(if unseen { last } else { intercepted.min(last) }.max(from).max(shown))
            }
            None => self.refused.map(|_| from),
        }
    }

    /// From when on it may be deleted although no eviction of it was ever answered: a moment after
    /// it could be deleted, or after an order for it was first wanted (after a take-over nothing
    /// was tried yet). By then it has had a slot, if there was one.
    fn delete_untried_from(&self, rules: &Rules) -> Option<Moment> {
        if self.refused.is_some() || self.accepted_at.is_some() {
            return None;
        }
        let from = force::delete_from(rules.settings.force, &rules.limits, self.pod.grace)?;
        let last = rules.limits.force_at?.minus(force::SHORTEST);
        Some(from.max(self.wanted_since?).plus(force::LEAST).min(last))
    }

    /// Until when the answer to an eviction that is sent now is waited for; `None`: as long as for
    /// any call.
    pub(super) fn evict_until(&self, rules: &Rules, now: Moment) -> Option<Moment> {
        force::evict_until(rules.settings.force, &rules.limits, self.pod.grace, now)
    }

    /// The next moment after `now` at which the wish or something that is told of it may change by
    /// time alone.
    pub(super) fn next_change(&self, rules: &Rules, now: Moment) -> Option<Moment> {
        if let Some(gone) = self.gone {
            return Some(gone.plus(rules.settings.relist_after)).filter(|at| *at > now);
        }
        if !self.counts() {
            return None;
        }
        let settings = &rules.settings;
        let stuck = self
            .pod
            .deletion
            .filter(|_| self.block.is_none())
            .map(|at| at.plus(settings.stuck_after));
        let tell = self
            .block
            .as_ref()
            .filter(|b| !b.told)
            .map(|b| b.since.plus(settings.tell_blocked_after));
        let alive = self.pod.deletion.is_none();
        let accepted = self.accepted_at.filter(|_| alive);
        let intercepted = accepted.map(|at| at.plus(settings.intercepted_after));
        let again = accepted.map(|at| at.plus(settings.ask_again));
        let delete = if alive && !rules.still {
            self.delete_from(rules).or_else(|| self.delete_untried_from(rules))
        } else {
            None
        };
        let first = self.not_before;
        [stuck, tell, intercepted, again, delete, first]
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
            .min()
    }

    /// What time alone has made of it: stuck in its termination, or intercepted.
    pub(super) fn age(&mut self, rules: &Rules) {
        if !self.counts() {
            return;
        }
        let (settings, known_until) = (&rules.settings, rules.known_until);
        if let Some(deletion) = self.pod.deletion {
            if deletion.plus(settings.stuck_after) > known_until {
                return;
            }
            if self.block.is_none() {
                let reason = if self.pod.finalizers {
                    BlockReason::Finalizer
                } else {
                    BlockReason::TerminatingStuck
                };
                self.block = Some(Box::new(Block {
                    reason,
                    message: String::new(),
                    since: deletion,
                    told: false,
                }));
            }
            // Nothing of it runs, and what still holds its object is not the kubelet.
            if self.pod.finalizers && self.pod.phase.is_finished() {
                self.belongs = Belongs::Untouched;
            }
        } else if let Some(at) = self.accepted_at
            && at.plus(settings.intercepted_after) <= known_until
        {
            self.refused = Some(BlockReason::Intercepted);
            self.blocked_by(BlockReason::Intercepted, String::new(), at);
        }
    }

    /// It is refused for this reason; since when, if it was already, stays as it was.
    pub(super) fn blocked_by(&mut self, reason: BlockReason, message: String, now: Moment) {
        let before = self.block.take();
        let (since, told) = before.map_or((now, false), |b| (b.since, b.told));
        self.block = Some(Box::new(Block { reason, message, since, told }));
    }

    /// Takes what the watch says of it. Whether the dispatcher should hear of it too: anything
    /// changed. (It decides what that means, and both keep the same pod, not two versions of it.)
    pub(super) fn update(&mut self, pod: Pod) -> bool {
        if *self.pod == pod {
            return false;
        }
        let (before, kind) = (Belongs::by_kind(&self.pod), Belongs::by_kind(&pod));
        let finished_before = self.pod.phase.is_finished() && self.belongs == Belongs::Untouched;
        if pod.phase.is_finished() && (finished_before || pod.deletion.is_none()) {
            self.belongs = Belongs::Untouched;
        } else if kind != Belongs::Unknown
            || before != Belongs::Unknown
            || pod.owner != self.pod.owner
        {
            // What became known of its DaemonSet still holds, unless it has another owner by now.
            self.belongs = kind;
        }
        if self.left_alone {
            self.belongs = Belongs::Untouched;
        }
        if pod.deletion.is_some() && self.pod.deletion.is_none() {
            self.block = None;
        }
        self.pod = Arc::new(pod);
        true
    }

    /// A LIST shows it. Where the server had said that it is gone that was no word on the pod (some
    /// webhook passed on a 404 of its own), or an old one: as good as a refusal.
    pub(super) fn found(&mut self, now: Moment) {
        if self.gone.take().is_none() {
            return;
        }
        self.is_there = true;
        self.refused = Some(BlockReason::Error);
        self.accepted_at = None;
        if self.pod.deletion.is_none() {
            self.blocked_by(
                BlockReason::Error,
                "The API server answers that the pod is not found, and lists it.".to_owned(),
                now,
            );
        }
    }

    /// The order that fulfils the wish. `evict`: an eviction can be sent.
    pub(super) fn order(&self, rules: &Rules, now: Moment, evict: bool) -> Option<Order> {
        let (pod, uid) = (self.pod.key.clone(), self.pod.uid.clone());
        let grace = rules.limits.force_at.map(|at| force::grace_towards(at, self.pod.grace, now));
        match self.wish(rules, now) {
            Wish::Nothing => None,
            Wish::Evict => Some(Order::Evict { pod, uid, grace }),
            Wish::EvictOrDelete if evict => Some(Order::Evict { pod, uid, grace }),
            Wish::EvictOrDelete => {
                Some(Order::Delete { pod, uid, grace: grace?, why: DeleteWhy::Forced })
            }
            Wish::Delete(why) => Some(Order::Delete { pod, uid, grace: grace?, why }),
        }
    }

    /// What people should hear if this order is accepted and it deletes the pod by force for the
    /// first time.
    pub(super) fn note_of(&self, order: &Order) -> Option<Note> {
        let Order::Delete { pod, uid, grace, why: DeleteWhy::Forced } = order else { return None };
        let without_effect = self.accepted_at.map(|_| BlockReason::Intercepted);
        let reason = self.refused.or(without_effect).unwrap_or(BlockReason::NoSlot);
        (!self.forced).then(|| Note::Forced {
            pod: pod.clone(),
            uid: uid.clone(),
            grace: *grace,
            reason,
        })
    }

    /// An order for it was accepted. What people should hear of that.
    pub(super) fn accepted(
        &mut self,
        now: Moment,
        order: &Order,
        force_at: Option<Moment>,
    ) -> Option<Note> {
        let (pod, uid, own) = (self.pod.key.clone(), self.pod.uid.clone(), self.pod.grace);
        let forced = self.note_of(order);
        if self.pod.deletion.is_none() {
            self.accepted_at = Some(now);
        }
        match order {
            Order::Delete { why: DeleteWhy::Shortened, grace, .. } => {
                self.shortened_for = force_at;
                Some(Note::ShortenedGrace { pod, uid, grace: *grace, own })
            }
            Order::Delete { .. } => {
                self.forced = true;
                forced
            }
            Order::Evict { grace, .. } => {
                if self.block.as_ref().is_some_and(|b| b.reason != BlockReason::Intercepted) {
                    self.block = None;
                }
                grace.filter(|g| u64::from(*g) < own.as_secs()).map(|grace| Note::ShortenedGrace {
                    pod,
                    uid,
                    grace,
                    own,
                })
            }
        }
    }

    /// An order for it was refused or had no answer. A terminating pod is not blocked by that.
    pub(super) fn refuse(&mut self, now: Moment, class: Class, order: &Order, message: String) {
        // It was found after a 404: another one is a failure like any other.
        let reason = class.blocks().unwrap_or(BlockReason::Error);
        if matches!(order, Order::Evict { .. }) {
            self.refused = Some(reason);
        }
        if self.pod.deletion.is_none() {
            self.accepted_at = None;
            self.blocked_by(reason, message, now);
        }
    }
}
