//! The sweep: finds instances that wait in a lifecycle hook although no event of it has arrived.
//!
//! [`Sweep`] decides when to call DescribeAutoScalingGroups and, for groups that have a warm pool,
//! DescribeWarmPool, and which waiting instances to check.
//! The first check comes [`FIRST_CHECK_AFTER`] after the instance was first seen, because its event may still
//! arrive. The pauses between the checks grow, because the instance may wait only in a hook that
//! Sundown does not answer. If AWS does not answer a check, the next one comes soon, and the pauses
//! do not grow. A hook whose action was known at the last check, and is not any more, is checked
//! soon, too: AWS may have shown meanwhile that the known action is over.
//! [`Rounds`] has the pauses between the calls.

mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use self::waiting::{Candidate, WaitState, WaitingInstance};
use super::{LONGEST_PAUSE, RoundFailure, Rounds};
use crate::domain::{GroupName, HookName, InstanceId, Moment, seconds};

/// How long after it was first seen an instance is checked: an event takes some seconds.
pub const FIRST_CHECK_AFTER: Duration = seconds(10);
/// The pause before an instance is checked again. It doubles each time, up to
/// [`LONGEST_PAUSE`].
const CHECK_AGAIN: Duration = seconds(60);
/// The pause before Sundown looks again whether the actions in which the instance may wait are
/// known. That costs no call. AWS may show meanwhile that a known action is over.
const LOOK_AGAIN: Duration = seconds(15);
/// The pause before an instance is checked again if AWS gave no answer.
const RETRY_UNANSWERED: Duration = seconds(45);
/// How many waiting instances are remembered. Each takes less than 1 KB: an instance ID and the
/// name of a group, which has at most 255 characters.
pub const MAX_WAITING: usize = 5_000;

/// AWS ends a lifecycle action after 48 h. No instance waits longer.
const LONGEST_ACTION: Duration = seconds(48 * 3600);

/// When to ask Auto Scaling for the instances that wait, and which instances to check.
#[derive(Debug)]
pub struct Sweep {
    rounds: Rounds,
    /// When the round began that is under way.
    began: Option<Moment>,
    /// When the last round began that was answered.
    last_answered: Option<Moment>,
    /// For each group whose warm pool was not asked or did not answer in the last round: when the
    /// last round began in which it answered, or the group had no pool. `None`: there was no such
    /// round. It replaces `last_answered` for instances in that pool.
    pools_answered: BTreeMap<GroupName, Option<Moment>>,
    waiting: BTreeMap<InstanceId, Watched>,
    /// Instances that waited in a round, and that Auto Scaling has shown in service since: their
    /// group, and when it was asked.
    in_service: BTreeMap<InstanceId, (GroupName, Moment)>,
}

/// What a round has shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// The instances that wait.
    pub waiting: Vec<WaitingInstance>,
    /// The groups whose warm pools were not asked or did not answer: instances in them may wait
    /// nevertheless.
    pub unknown: BTreeSet<GroupName>,
    /// Why a warm pool did not answer. `None`: all that were asked have answered, or AWS denies the
    /// calls.
    pub failure: Option<RoundFailure>,
}

/// What is to be reported about a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundEnd {
    /// For how many waiting instances there was no room. A later round finds them.
    pub left_out: usize,
    /// It is the third round in a row that failed or was throttled.
    pub fails_too_often: bool,
}

/// What there is to do about the instances that wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Due {
    /// Check these now.
    pub to_check: Vec<Candidate>,
    /// For how many more it is time, but there was no room.
    pub left_out: usize,
}

#[derive(Debug, Clone)]
struct Watched {
    candidate: Candidate,
    /// From when on it is checked, if an action in which it may wait is not known.
    check_at: Moment,
    /// When to look next which of these actions are known. Never later than `check_at`, unless that
    /// has passed.
    look_at: Moment,
    checked: Checked,
}

/// The hooks that the checks of an instance were about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Checked {
    /// These.
    Hooks(BTreeSet<HookName>),
    /// All that were not known. Which ones, AWS had not described yet.
    All,
}

impl Watched {
    fn new(candidate: Candidate, check_at: Moment) -> Self {
        let checked = Checked::Hooks(BTreeSet::new());
        Self { candidate, check_at, look_at: check_at, checked }
    }

    /// Whether it is to be checked now. `unknown`: the hooks whose actions are not known.
    fn needs_check(&mut self, now: Moment, unknown: Option<&BTreeSet<HookName>>) -> bool {
        if self.check_at <= now {
            return unknown.is_none_or(|unknown| !unknown.is_empty());
        }
        match (&self.checked, unknown) {
            (_, None) => false,
            (Checked::Hooks(checked), Some(unknown)) => !unknown.is_subset(checked),
            (Checked::All, Some(unknown)) => {
                self.checked = Checked::Hooks(unknown.clone());
                false
            }
        }
    }

    /// It is checked now.
    fn note_check(&mut self, now: Moment, unknown: Option<BTreeSet<HookName>>) {
        let before = std::mem::replace(&mut self.checked, Checked::All);
        self.checked = match (before, unknown) {
            (_, None) => Checked::All,
            (Checked::All, Some(unknown)) => Checked::Hooks(unknown),
            (Checked::Hooks(before), Some(unknown)) => {
                Checked::Hooks(before.into_iter().chain(unknown).collect())
            }
        };
        let doubled = CHECK_AGAIN * (1 << self.candidate.checks.min(8));
        self.candidate.checks = self.candidate.checks.saturating_add(1);
        self.check_at = now.plus(doubled.min(LONGEST_PAUSE));
        self.look_again(now);
    }

    fn look_again(&mut self, now: Moment) {
        let look_at = now.plus(LOOK_AGAIN);
        self.look_at = if self.check_at > now { look_at.min(self.check_at) } else { look_at };
    }
}

impl Sweep {
    /// The first round comes one pause after `now`. `fraction` (0 to 1, random) shortens it.
    #[must_use]
    pub fn new(now: Moment, interval: Duration, fraction: f64) -> Self {
        Self {
            rounds: Rounds::new(now, interval, fraction),
            began: None,
            last_answered: None,
            pools_answered: BTreeMap::new(),
            waiting: BTreeMap::new(),
            in_service: BTreeMap::new(),
        }
    }

    /// A round is due.
    #[must_use]
    pub fn is_round_due(&self, now: Moment) -> bool {
        now >= self.rounds.next()
    }

    /// When there is something to do next.
    #[must_use]
    pub fn next_at(&self) -> Moment {
        let looks = self.waiting.values().map(|watched| watched.look_at);
        looks.fold(self.rounds.next(), Moment::min)
    }

    /// A round begins at `now`. Its answer may still show an action as waiting that ends after `now`.
    pub const fn round_begins(&mut self, now: Moment) {
        self.began = Some(now);
    }

    /// Takes in how a round ended: what AWS showed, or why it did not answer.
    pub fn round_ended(
        &mut self,
        now: Moment,
        round: Result<Shown, RoundFailure>,
        fraction: f64,
    ) -> RoundEnd {
        let result = round.as_ref().map_err(|why| *why);
        let result = result.and_then(|shown| shown.failure.map_or(Ok(()), Err));
        let fails_too_often = self.rounds.ended(now, result, fraction);
        let began = self.began.take().unwrap_or(now);
        let left_out = round.map_or(0, |shown| self.shown(now, began, shown));
        RoundEnd { left_out, fails_too_often }
    }

    /// Auto Scaling was asked about this instance at `asked`, outside of the rounds, and showed it in
    /// service. If a later round shows it waiting, that is another wait, even in the same state. Does
    /// nothing if a round that began after `asked` has shown the instance.
    pub fn seen_in_service(&mut self, instance: &InstanceId, asked: Moment) {
        let is_newest = self.last_answered.is_none_or(|began| began <= asked);
        let had_waited =
            self.waiting.get(instance).is_some_and(|watched| watched.candidate.first_seen <= asked);
        if !is_newest || !had_waited || self.in_service.len() >= MAX_WAITING {
            return;
        }
        if let Some(watched) = self.waiting.remove(instance) {
            let group = watched.candidate.waiting.group;
            self.in_service.insert(instance.clone(), (group, asked));
        }
    }

    /// Remembers what a round has shown, and of the groups whose warm pools are unknown, what earlier
    /// rounds have. Returns for how many waiting instances there was no room.
    fn shown(&mut self, now: Moment, began: Moment, shown: Shown) -> usize {
        let Shown { waiting, unknown, .. } = shown;
        let mut before = std::mem::take(&mut self.waiting);
        let mut new = Vec::new();
        for waiting in waiting {
            match before.remove(&waiting.instance) {
                Some(watched) if watched.candidate.waiting == waiting => {
                    self.waiting.insert(waiting.instance, watched);
                }
                // Its state changed. An action that ended before this round belongs to the old one.
                Some(_) => new.push((waiting, Some(began))),
                None => {
                    let in_service = self.in_service.get(&waiting.instance).map(|(_, at)| *at);
                    let absent_at = self.absent_at(&waiting).max(in_service);
                    new.push((waiting, absent_at));
                }
            }
        }
        // In a warm pool that is unknown, the instance may wait already.
        self.in_service.retain(|_, (group, _)| unknown.contains(group));
        // Only after `absent_at`, which needs what earlier rounds have shown.
        self.note_answers(began, &unknown);
        let left_out = self.watch(now, new);
        // This round shows all others that still wait.
        let may_still_wait = |watched: &Watched| {
            let WaitingInstance { group, state, .. } = &watched.candidate.waiting;
            unknown.contains(group)
                && state.is_in_pool()
                && now < watched.candidate.first_seen.plus(LONGEST_ACTION)
        };
        for (instance, watched) in before.into_iter().filter(|(_, w)| may_still_wait(w)) {
            if self.waiting.len() < MAX_WAITING {
                self.waiting.insert(instance, watched);
            }
        }
        left_out
    }

    /// When the last round began in which AWS answered about the group of this instance (in a warm
    /// pool: about the pool) and did not show it waiting. `None`: there was no such round.
    fn absent_at(&self, waiting: &WaitingInstance) -> Option<Moment> {
        let of_pool = self.pools_answered.get(&waiting.group).copied();
        of_pool.filter(|_| waiting.state.is_in_pool()).unwrap_or(self.last_answered)
    }

    fn note_answers(&mut self, began: Moment, unknown: &BTreeSet<GroupName>) {
        let answered = self.last_answered.replace(began);
        self.pools_answered.retain(|group, _| unknown.contains(group));
        for group in unknown {
            self.pools_answered.entry(group.clone()).or_insert(answered);
        }
    }

    /// Watches instances that wait since this round. Returns for how many of them there is no room.
    fn watch(&mut self, now: Moment, new: Vec<(WaitingInstance, Option<Moment>)>) -> usize {
        let room = MAX_WAITING.saturating_sub(self.waiting.len());
        let left_out = new.len().saturating_sub(room);
        for (waiting, absent_at) in new.into_iter().take(room) {
            let instance = waiting.instance.clone();
            let candidate = Candidate { waiting, first_seen: now, absent_at, checks: 0 };
            self.waiting.insert(instance, Watched::new(candidate, now.plus(FIRST_CHECK_AFTER)));
        }
        left_out
    }

    /// The instances to check now, `room` at most, the first seen first. `unknown`: the hooks in
    /// which the instance may wait and whose action Sundown does not handle yet; `None`: AWS has not
    /// described the hooks of its group. It costs no call to find that out, so the pause before the
    /// next check does not grow if there are none.
    pub fn due(
        &mut self,
        now: Moment,
        room: usize,
        unknown: impl Fn(&Candidate) -> Option<BTreeSet<HookName>>,
    ) -> Due {
        let mut due: Vec<&mut Watched> =
            self.waiting.values_mut().filter(|watched| watched.look_at <= now).collect();
        due.sort_by_key(|watched| watched.candidate.first_seen);
        let (mut to_check, mut left_out) = (Vec::new(), 0);
        for watched in due {
            let unknown = unknown(&watched.candidate);
            if !watched.needs_check(now, unknown.as_ref()) {
                watched.look_again(now);
            } else if to_check.len() < room {
                to_check.push(watched.candidate.clone());
                watched.note_check(now, unknown);
            } else {
                left_out += 1;
                watched.look_at = now.plus(seconds(1));
            }
        }
        Due { to_check, left_out }
    }

    /// AWS gave no answer while this instance was checked: that check does not count.
    pub fn unanswered(&mut self, now: Moment, candidate: &Candidate) {
        let Some(watched) = self.waiting.get_mut(&candidate.waiting.instance) else { return };
        let Candidate { waiting, first_seen, .. } = &watched.candidate;
        if *waiting == candidate.waiting && *first_seen == candidate.first_seen {
            watched.candidate.checks = candidate.checks;
            watched.check_at = now.plus(RETRY_UNANSWERED);
        }
    }
}

#[cfg(test)]
mod tests;
