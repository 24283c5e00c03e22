//! One pod of a drain: whether it counts, and what is to be done with it.

use std::{sync::Arc, time::Duration};

use super::{BlockReason, Class, DeleteWhy, Method, Note, Order, Settings, force, order, wish};
use crate::domain::{
    DaemonSetName, Limits, MAX_POD_GROUPS, Moment, Pod, PodBehavior, PodKey, PodRule, RuleMatch,
    Wish, WishSource, seconds,
};

/// Whether a pod counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    /// Sundown evicts it and waits for it.
    Counts,
    /// It belongs to a DaemonSet that was not looked up yet. Sundown does not touch it, but the
    /// drain cannot end as empty before the look-up.
    Unknown,
    /// Sundown neither touches it nor waits for it.
    Untouched,
}

impl Disposition {
    /// The disposition of a pod before any look-up; `Unknown` for a pod of a DaemonSet.
    ///
    /// Finished pods stay: their logs and status are useful, and they hold no resources. A finished
    /// pod with a deletion time still holds its volumes until the kubelet has removed its object.
    /// The machine must not go in the middle of a grace period that an earlier leader has begun, so
    /// a terminating pod counts although it is to be left alone now.
    fn initial(pod: &Pod, settings: &Settings) -> Self {
        let is_terminating = pod.deletion.is_some();
        if pod.phase.is_finished() && !is_terminating {
            return Self::Untouched;
        }
        match Self::by_kind(pod, settings) {
            Self::Untouched if is_terminating && !stays_by_kind(pod, settings) => Self::Counts,
            kind => kind,
        }
    }

    /// The disposition without regard to the pod's phase.
    ///
    /// Mirror pods belong to the kubelet. A pod with a toleration that names Sundown's taint wants
    /// to stay to the end, and so does one that asks for it. Rules may leave pods alone, too.
    fn by_kind(pod: &Pod, settings: &Settings) -> Self {
        if pod.mirror || pod.tolerates_us || is_skipped(pod, settings) {
            Self::Untouched
        } else if pod.owner.as_ref().is_some_and(|o| o.is_daemon_set())
            && !is_of_drained_daemon_set(pod, settings)
        {
            Self::Unknown
        } else {
            Self::Counts
        }
    }
}

/// Whether it stays whatever it asks for and whatever the rules say: as a mirror pod, by its
/// toleration, or as the pod of a DaemonSet.
fn stays_by_kind(pod: &Pod, settings: &Settings) -> bool {
    let is_daemon = pod.owner.as_ref().is_some_and(|owner| owner.is_daemon_set());
    pod.mirror || pod.tolerates_us || is_daemon && !is_of_drained_daemon_set(pod, settings)
}

/// Its DaemonSet is one of those whose pods are evicted (`--drain-daemonset`).
pub(super) fn is_of_drained_daemon_set(pod: &Pod, settings: &Settings) -> bool {
    if settings.drained_daemon_sets.is_empty() {
        return false;
    }
    let owner = pod.owner.as_ref().filter(|owner| owner.is_daemon_set());
    owner.is_some_and(|owner| {
        let (namespace, name) = (pod.key.namespace.to_string(), owner.name.clone());
        settings.drained_daemon_sets.contains(&DaemonSetName { namespace, name })
    })
}

/// What it asks for instead of what its rule says, as far as that is honored. A pod that asks to
/// reach an age asks for nothing but a delay.
fn wish_of(pod: &Pod, settings: &Settings) -> Option<Wish> {
    let wish = pod.wishes.honored(&settings.honored).map(|(_, wish)| wish);
    wish.filter(|wish| !matches!(wish, Wish::WaitUntilAge(_)))
}

/// The rule that counts for it, as far as that is known.
fn rule_of<'a>(pod: &Pod, settings: &'a Settings) -> Option<&'a PodRule> {
    match settings.rules.find(pod, &settings.namespaces) {
        RuleMatch::Rule(position) => settings.rules.get(position),
        RuleMatch::None | RuleMatch::Unknown => None,
    }
}

/// Whether it asks to be left alone, or a rule leaves it alone. What the pod asks for comes first.
fn is_skipped(pod: &Pod, settings: &Settings) -> bool {
    match wish_of(pod, settings) {
        Some(wish) => wish == Wish::Skip,
        None => rule_of(pod, settings).is_some_and(|rule| rule.behavior == PodBehavior::Skip),
    }
}

/// Its group in the order of the pods. Those that ask to go last are a group after all others. A
/// pod may turn out to be of the first group until the labels of its namespace are known.
fn group_of(pod: &Pod, settings: &Settings, namespace: NamespaceWait) -> usize {
    let wish = wish_of(pod, settings);
    let find = || settings.rules.find(pod, &settings.namespaces);
    if wish == Some(Wish::Last) {
        settings.groups()
    } else if settings.rules.groups().is_some() {
        match namespace {
            NamespaceWait::NotNeeded | NamespaceWait::Until(_)
                if wish.is_none() && find() == RuleMatch::Unknown =>
            {
                0
            }
            _ => settings.rules.group(rule_of(pod, settings).filter(|_| wish.is_none())),
        }
    } else {
        settings.order.group(pod.priority, is_of_drained_daemon_set(pod, settings))
    }
}

/// What is to be done with a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Desired {
    Nothing,
    Evict,
    /// The pod may be deleted, and no eviction of it was ever answered: evict it if that can be
    /// done at once, otherwise delete it.
    EvictOrDelete,
    Delete(DeleteWhy),
}

impl Desired {
    /// The request to the dispatcher; `None`: none.
    pub(super) const fn method(self) -> Option<Method> {
        match self {
            Self::Nothing => None,
            Self::Evict => Some(Method::Eviction),
            Self::EvictOrDelete => Some(Method::EvictionOrDelete),
            Self::Delete(_) => Some(Method::Delete),
        }
    }
}

/// Why a pod is blocked.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) reason: BlockReason,
    pub(super) message: String,
    pub(super) since: Moment,
    pub(super) reported: bool,
}

/// The most groups: those of the order, and the pods that ask to go last.
const GROUPS: usize = MAX_POD_GROUPS + 1;

/// Pods by state: the sum over all entries, kept up to date at each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Pods that count or may count, and still exist.
    pub(super) left: usize,
    /// Pods in `left` whose DaemonSet was not looked up yet.
    pub(super) unknown: usize,
    /// Pods in `left` that are terminating.
    pub(super) terminating: usize,
    /// Pods in `left` other than Sundown's own pod.
    pub(super) others: usize,
    /// Pods that the API server reported gone (404, or 409 because of the UID), which the watch has
    /// not confirmed yet.
    pub(super) gone: usize,
    /// Pods for which later groups wait (`--pod-order`), by group; the last group has the pods that
    /// ask to go last.
    pub(super) holding: [u16; GROUPS],
}

impl Tally {
    pub(super) fn replace(&mut self, before: Self, after: Self) {
        self.left = self.left.saturating_sub(before.left) + after.left;
        self.unknown = self.unknown.saturating_sub(before.unknown) + after.unknown;
        self.terminating = self.terminating.saturating_sub(before.terminating) + after.terminating;
        self.others = self.others.saturating_sub(before.others) + after.others;
        self.gone = self.gone.saturating_sub(before.gone) + after.gone;
        let changes = before.holding.into_iter().zip(after.holding);
        for (held, (before, after)) in self.holding.iter_mut().zip(changes) {
            *held = held.saturating_sub(before).saturating_add(after);
        }
    }
}

/// The state of the drain on which the decision about each pod depends. The administrator's rules
/// about pods are in `settings`.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) limits: Limits,
    pub(super) settings: Arc<Settings>,
    /// `force_at` of the limits, also before AWS has confirmed the drain.
    pub(super) planned_force_at: Option<Moment>,
    /// From when on the groups of the order share the time.
    pub(super) order_from: Moment,
    /// The first group with pods for which later groups wait; `None`: no pod waits for others.
    pub(super) first_group: Option<usize>,
    /// The drain is paused or over, or its evictions wait.
    pub(super) is_inactive: bool,
    /// Of the pods that count only Sundown's own is left.
    pub(super) own_may_go: bool,
    /// The drain knows all changes of pods up to this moment.
    pub(super) known_until: Moment,
    /// The watch is not open: no changes of pods arrive.
    pub(super) blind: bool,
}

/// Whether a pod waits for the labels of its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamespaceWait {
    /// No rule needs them, or they are known.
    NotNeeded,
    /// Until this moment at the latest.
    Until(Moment),
    /// They did not become known in time.
    Over,
}

impl NamespaceWait {
    const fn until(self) -> Option<Moment> {
        match self {
            Self::Until(at) => Some(at),
            Self::NotNeeded | Self::Over => None,
        }
    }
}

/// A change of the wait for the labels of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamespaceStep {
    Begins,
    EndsInVain,
}

/// One pod of a drain.
#[allow(clippy::struct_excessive_bools, reason = "facts of a pod that do not exclude each other")]
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pod: Arc<Pod>,
    pub(super) disposition: Disposition,
    /// It is Sundown's own pod.
    pub(super) own: bool,
    /// Its group in the order of the pods.
    pub(super) group: usize,
    /// The rule that counts for it.
    rule: RuleMatch,
    namespace: NamespaceWait,
    /// What the dispatcher was last asked to do with it.
    pub(super) requested: Desired,
    /// Since when it is to be removed. A pause starts this anew. `None`: it is not to be removed.
    wanted_since: Option<Moment>,
    /// An eviction of it was refused, had no answer, or had no effect: from then on it may be
    /// deleted.
    pub(super) refused: Option<BlockReason>,
    /// When the API server last accepted an eviction or delete of it while it had no deletion time.
    /// `None`: never, or a later one was refused.
    pub(super) accepted_at: Option<Moment>,
    /// An order for it was sent, and its answer has not come yet.
    pub(super) is_unanswered: bool,
    /// When the API server reported it gone (404, or 409 because of the UID); the watch has not
    /// confirmed that yet.
    pub(super) gone: Option<Moment>,
    /// When the API server last denied Sundown the right to delete it.
    delete_denied_at: Option<Moment>,
    /// A LIST has shown it after such an answer: further such answers count as failures.
    pub(super) listed_after_404: bool,
    pub(super) block: Option<Box<Block>>,
    /// The `force_at` for which its grace period was shortened while it was terminating.
    pub(super) shortened_for: Option<Moment>,
    /// It came to the node after the cordon.
    pub(super) new: bool,
    /// Its owner's pods came back too often: Sundown neither touches it nor waits for it.
    left_alone: bool,
    /// It is not evicted before this time.
    pub(super) not_before: Option<Moment>,
    /// It was deleted by force, which was reported.
    pub(super) forced: bool,
    /// The answer to an eviction of it was lost, so the eviction may have had its effect.
    pub(super) eviction_lost: bool,
    /// A request for it was malformed, which was reported.
    pub(super) malformed_reported: bool,
    /// What it asks for was reported.
    pub(super) wish_reported: bool,
    /// When its timer ends; `None`: it has no timer.
    pub(super) wake: Option<Moment>,
}

impl Entry {
    pub(super) fn new(pod: Pod, own_pod: Option<&PodKey>, settings: &Settings) -> Self {
        Self {
            own: own_pod == Some(&pod.key),
            group: group_of(&pod, settings, NamespaceWait::NotNeeded),
            rule: settings.rules.find(&pod, &settings.namespaces),
            namespace: NamespaceWait::NotNeeded,
            disposition: Disposition::initial(&pod, settings),
            pod: Arc::new(pod),
            requested: Desired::Nothing,
            wanted_since: None,
            refused: None,
            accepted_at: None,
            is_unanswered: false,
            gone: None,
            delete_denied_at: None,
            listed_after_404: false,
            block: None,
            shortened_for: None,
            new: false,
            left_alone: false,
            not_before: None,
            forced: false,
            eviction_lost: false,
            malformed_reported: false,
            wish_reported: false,
            wake: None,
        }
    }

    /// Whether it counts and still exists.
    pub(super) fn counts(&self) -> bool {
        self.disposition == Disposition::Counts && self.gone.is_none()
    }

    /// Leaves it alone, because its owner's pods came back too often; a pod that is leaving anyway
    /// still counts. Returns whether it is left alone now.
    pub(super) fn leave_alone(&mut self) -> bool {
        let goes = self.pod.deletion.is_some() || self.accepted_at.is_some();
        if self.new && !goes {
            self.left_alone = true;
            self.disposition = Disposition::Untouched;
        }
        self.left_alone
    }

    /// What this pod adds to the tally of the drain.
    pub(super) fn tally(&self) -> Tally {
        let one = |yes: bool| usize::from(yes);
        let left = self.disposition != Disposition::Untouched && self.gone.is_none();
        let mut holding = [0; GROUPS];
        if self.holds_later_groups()
            && let Some(own_group) = holding.get_mut(self.group)
        {
            *own_group = 1;
        }
        Tally {
            left: one(left),
            unknown: one(left && self.disposition == Disposition::Unknown),
            terminating: one(left && self.pod.deletion.is_some()),
            others: one(left && !self.own),
            gone: one(self.gone.is_some()),
            holding,
        }
    }

    /// When its grace period is over. `None`: no order of this drain to remove it was accepted, or
    /// nothing of it runs. An eviction without effect counts until that can be seen.
    pub(super) fn grace_ends_at(&self, settings: &Settings) -> Option<Moment> {
        let accepted = self.accepted_at?;
        let runs = self.counts() && !self.pod.phase.is_finished();
        let ends = self.pod.deletion.unwrap_or_else(|| accepted.plus(settings.intercepted_after));
        runs.then_some(ends)
    }

    /// Whether pods of later groups wait for it: until it is gone, or stuck in its termination.
    fn holds_later_groups(&self) -> bool {
        let stuck = [BlockReason::TerminatingStuck, BlockReason::Finalizer];
        let is_stuck = self.block.as_ref().is_some_and(|block| stuck.contains(&block.reason));
        self.counts() && !self.own && !is_stuck
    }

    /// Until when it waits for pods of earlier groups. `None`: it does not wait for them.
    /// [`Moment::MAX`]: until they are gone.
    pub(super) fn waits_for_earlier_groups_until(&self, rules: &Rules) -> Option<Moment> {
        if self.accepted_at.is_some() || self.pod.deletion.is_some() || !self.counts() {
            return None;
        }
        rules.first_group.filter(|first| *first < self.group)?;
        let (groups, limits) = (rules.settings.groups(), self.limits(rules));
        let (force_at, from, own) = (rules.planned_force_at, rules.order_from, self.pod.grace);
        let latest = order::latest_start(groups, self.group, &limits, force_at, from, own);
        Some(latest.unwrap_or(Moment::MAX))
    }

    /// What it asks for, as far as that is honored, or else what its rule says. If it asks to reach
    /// an age only, the rule comes first.
    pub(super) fn wish(&self, settings: &Settings) -> Option<(WishSource, Wish)> {
        let own = self.pod.wishes.honored(&settings.honored);
        if wish_of(&self.pod, settings).is_some() {
            return own;
        }
        let of_rule = match self.rule(settings).map(|rule| rule.behavior) {
            Some(PodBehavior::Skip) => Some(Wish::Skip),
            Some(PodBehavior::WaitCompleted) => Some(Wish::Wait),
            Some(PodBehavior::Evict(_)) | None => None,
        };
        of_rule.map(|wish| (WishSource::Rule, wish)).or(own)
    }

    /// The rule that counts for it.
    pub(super) fn rule<'a>(&self, settings: &'a Settings) -> Option<&'a PodRule> {
        match self.rule {
            RuleMatch::Rule(position) => settings.rules.get(position),
            RuleMatch::None | RuleMatch::Unknown => None,
        }
    }

    /// Begins or ends its wait for the labels of its namespace, which may change its group. `None`:
    /// neither.
    pub(super) fn follow_namespace(
        &mut self,
        now: Moment,
        settings: &Settings,
    ) -> Option<NamespaceStep> {
        let is_unknown = self.rule == RuleMatch::Unknown && self.counts();
        match self.namespace {
            _ if !is_unknown => {
                self.namespace = NamespaceWait::NotNeeded;
                None
            }
            NamespaceWait::NotNeeded => {
                self.namespace = NamespaceWait::Until(now.plus(settings.namespace_wait));
                Some(NamespaceStep::Begins)
            }
            NamespaceWait::Until(at) if at <= now => {
                self.namespace = NamespaceWait::Over;
                self.group = group_of(&self.pod, settings, self.namespace);
                Some(NamespaceStep::EndsInVain)
            }
            NamespaceWait::Until(_) | NamespaceWait::Over => None,
        }
    }

    /// The limits of the drain for this pod.
    pub(super) fn limits_of(&self, limits: &Limits, settings: &Settings) -> Limits {
        self.rule(settings).map_or(*limits, |rule| rule.apply(*limits))
    }

    fn limits(&self, rules: &Rules) -> Limits {
        self.limits_of(&rules.limits, &rules.settings)
    }

    /// Until when it waits because it asks for that, and by which key. `None`: it does not.
    /// [`Moment::MAX`]: until it has finished. Sundown's own pod never waits: it would not finish.
    pub(super) fn asks_to_wait_until(&self, rules: &Rules) -> Option<(WishSource, Moment)> {
        let goes = self.accepted_at.is_some() || self.pod.deletion.is_some();
        if self.own || goes || !self.counts() {
            return None;
        }
        let (key, wish) = self.wish(&rules.settings)?;
        let wished = wish::wished_until(wish, self.pod.created, &rules.limits)?;
        let (limits, force_at) = (self.limits(rules), rules.planned_force_at);
        let honored = wish::honored_until(&limits, force_at, self.pod.grace)?;
        Some((key, wished.min(honored)))
    }

    /// What is to be done with it now; also records since when it is to be removed.
    pub(super) fn update_desired(&mut self, rules: &Rules, now: Moment) -> Desired {
        match self.desired(rules, now) {
            Desired::Nothing => {
                self.wanted_since = None;
                Desired::Nothing
            }
            desired if self.wanted_since.is_some() => desired,
            _ => {
                self.wanted_since = Some(now);
                self.desired(rules, now)
            }
        }
    }

    /// What is to be done with it now.
    fn desired(&self, rules: &Rules, now: Moment) -> Desired {
        // A DELETE of a finished pod removes its object at once, before the kubelet has finished
        // with it.
        if rules.is_inactive || !self.counts() || self.pod.phase.is_finished() {
            return Desired::Nothing;
        }
        if self.pod.deletion.is_some() {
            return if self.outlives_the_deadline(rules, now) {
                Desired::Delete(DeleteWhy::Shortened)
            } else {
                Desired::Nothing
            };
        }
        if self.own && !rules.own_may_go
            || self.not_before.is_some_and(|at| now < at)
            || self.namespace.until().is_some_and(|at| now < at)
            || self.asks_to_wait_until(rules).is_some_and(|(_, at)| now < at)
            || self.waits_for_earlier_groups_until(rules).is_some_and(|at| now < at)
        {
            return Desired::Nothing;
        }
        let forced = self.delete_from(rules).is_some_and(|at| at <= now)
            && self.delete_again_from(rules).is_none_or(|at| at <= now);
        match self.accepted_at {
            _ if forced => Desired::Delete(DeleteWhy::Forced),
            _ if self.delete_untried_from(rules).is_some_and(|at| at <= now) => {
                Desired::EvictOrDelete
            }
            Some(at) if rules.known_until < at.plus(rules.settings.evict_again_after) => {
                Desired::Nothing
            }
            _ => Desired::Evict,
        }
    }

    /// Whether it is terminating and will not have ended by the deadline (or a second from now, if
    /// that is later), and was not yet shortened towards that deadline.
    fn outlives_the_deadline(&self, rules: &Rules, now: Moment) -> bool {
        let late =
            |end: Moment, force_at: Moment| end > force_at.plus(rules.settings.shorten_slack);
        let Some((deletion, force_at)) = self.pod.deletion.zip(rules.limits.force_at) else {
            return false;
        };
        late(deletion, force_at.max(now.plus(force::MIN_GRACE)))
            && self.shortened_for.is_none_or(|before| late(before, force_at))
    }

    /// From when on it may be deleted by force: only after its eviction was refused, had no answer,
    /// or was accepted without effect.
    fn delete_from(&self, rules: &Rules) -> Option<Moment> {
        let from = force::delete_from(rules.settings.force, &self.limits(rules), self.pod.grace)?;
        match self.accepted_at {
            // Just accepted, or the watch has not shown it since: its deletion time should arrive
            // soon. Wait for it, unless the deadline is too near.
            Some(at) => {
                let last = last_moment(&rules.limits);
                let intercepted = at.plus(rules.settings.intercepted_after);
                let unseen = rules.blind && rules.known_until < intercepted;
                // Give an accepted order a second to show its effect. Otherwise the order would be
                // sent again as fast as it is answered.
                let shown = at.plus(force::MIN_GRACE);
                Some(if unseen { last } else { intercepted.min(last) }.max(from).max(shown))
            }
            None => self.refused.map(|_| from),
        }
    }

    /// From when on its delete is tried again after Kubernetes has denied it. Until then Sundown
    /// evicts it, because its budget may allow that. `None`: no delete of it was denied.
    fn delete_again_from(&self, rules: &Rules) -> Option<Moment> {
        Some(self.delete_denied_at?.plus(DELETE_DENIED_FOR).min(last_moment(&rules.limits)))
    }

    /// From when on it may be deleted although no eviction of it was ever answered:
    /// [`force::MIN_TIMEOUT`] after both the moment from which it may be deleted and the moment
    /// since which it is to be removed (a new leader has tried nothing yet). By then it has had a
    /// slot, if one was free.
    fn delete_untried_from(&self, rules: &Rules) -> Option<Moment> {
        if self.refused.is_some() || self.accepted_at.is_some() {
            return None;
        }
        let from = force::delete_from(rules.settings.force, &self.limits(rules), self.pod.grace)?;
        let last = last_moment(&rules.limits);
        Some(from.max(self.wanted_since?).plus(force::MIN_TIMEOUT).min(last))
    }

    /// Until when to wait for the answer to an eviction that is sent now; `None`: as long as for
    /// any call.
    pub(super) fn evict_until(&self, rules: &Rules, now: Moment) -> Option<Moment> {
        force::evict_until(rules.settings.force, &self.limits(rules), self.pod.grace, now)
    }

    /// The next moment after `now` at which what is to be done with it, or a report about it, may
    /// change without any input.
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
        let report = self
            .block
            .as_ref()
            .filter(|b| !b.reported)
            .map(|b| b.since.plus(settings.report_blocked_after));
        let alive = self.pod.deletion.is_none();
        let accepted = self.accepted_at.filter(|_| alive);
        let intercepted = accepted.map(|at| at.plus(settings.intercepted_after));
        let again = accepted.map(|at| at.plus(settings.evict_again_after));
        let delete = if alive && !rules.is_inactive {
            self.delete_from(rules).or_else(|| self.delete_untried_from(rules))
        } else {
            None
        };
        let delete = delete.max(self.delete_again_from(rules));
        let first = self.not_before;
        let in_order = self.waits_for_earlier_groups_until(rules);
        let asked = self.asks_to_wait_until(rules).map(|(_, at)| at);
        let namespace = self.namespace.until();
        [stuck, report, intercepted, again, delete, first, namespace, in_order, asked]
            .into_iter()
            .flatten()
            .filter(|at| *at > now && *at < Moment::MAX)
            .min()
    }

    /// Marks it as blocked if it is stuck in its termination or its eviction was intercepted.
    pub(super) fn apply_time(&mut self, rules: &Rules) {
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
                    reported: false,
                }));
            }
            // None of its containers runs, and something other than the kubelet still holds its
            // object.
            if self.pod.finalizers && self.pod.phase.is_finished() {
                self.disposition = Disposition::Untouched;
            }
        } else if let Some(at) = self.accepted_at
            && at.plus(settings.intercepted_after) <= known_until
        {
            self.refused = Some(BlockReason::Intercepted);
            self.blocked_by(BlockReason::Intercepted, String::new(), at);
            // It counted only because it seemed to leave.
            if Disposition::by_kind(&self.pod, settings) == Disposition::Untouched {
                self.disposition = Disposition::Untouched;
            }
        }
    }

    /// Records why it is blocked. If it was already blocked, the time since when stays.
    pub(super) fn blocked_by(&mut self, reason: BlockReason, message: String, now: Moment) {
        let before = self.block.take();
        let (since, reported) = before.map_or((now, false), |b| (b.since, b.reported));
        self.block = Some(Box::new(Block { reason, message, since, reported }));
    }

    /// Applies a new version of the pod. Returns whether anything changed, so that the dispatcher
    /// needs it too. (The dispatcher decides what the change means, and both keep one copy of the
    /// pod instead of two versions.)
    pub(super) fn update(&mut self, pod: Pod, settings: &Settings) -> bool {
        if *self.pod == pod {
            return false;
        }
        let before = Disposition::by_kind(&self.pod, settings);
        self.apply(Arc::new(pod), before, settings);
        true
    }

    /// Applies new settings.
    pub(super) fn settings_changed(&mut self, old: &Settings, new: &Settings) {
        let before = Disposition::by_kind(&self.pod, old);
        self.apply(Arc::clone(&self.pod), before, new);
    }

    /// `before`: what `Disposition::by_kind` gave for it until now.
    fn apply(&mut self, pod: Arc<Pod>, before: Disposition, settings: &Settings) {
        let kind = match Disposition::by_kind(&pod, settings) {
            // The machine must not go in the middle of its grace period.
            Disposition::Untouched if self.counts() && self.is_leaving(&pod) && !pod.mirror => {
                Disposition::Counts
            }
            kind => kind,
        };
        let finished_before =
            self.pod.phase.is_finished() && self.disposition == Disposition::Untouched;
        if pod.phase.is_finished() && (finished_before || pod.deletion.is_none()) {
            self.disposition = Disposition::Untouched;
        } else if kind != Disposition::Unknown
            || before != Disposition::Unknown
            || pod.owner != self.pod.owner
        {
            // The look-up of its DaemonSet is still valid, unless the pod has another owner now.
            self.disposition = kind;
        }
        if self.left_alone {
            self.disposition = Disposition::Untouched;
        }
        if pod.deletion.is_some() && self.pod.deletion.is_none() {
            self.block = None;
        }
        self.group = group_of(&pod, settings, self.namespace);
        self.rule = settings.rules.find(&pod, &settings.namespaces);
        self.pod = pod;
    }

    /// It ends, as far as is known: it is terminating, or an eviction was accepted and not yet
    /// without effect. `pod`: its new version.
    fn is_leaving(&self, pod: &Pod) -> bool {
        let block = self.block.as_ref().map(|block| block.reason);
        pod.deletion.is_some()
            || self.accepted_at.is_some() && block != Some(BlockReason::Intercepted)
    }

    /// Whether this drain may be ending it now: it counts and ends, or an order for it has no answer
    /// yet.
    pub(super) fn is_disrupted(&self) -> bool {
        self.is_unanswered || self.counts() && self.is_leaving(&self.pod)
    }

    /// A LIST shows the pod. If the API server had reported it gone (404), that answer was not
    /// about the pod (a webhook passed on a 404 of its own) or outdated, so it counts as a refusal.
    pub(super) fn listed(&mut self, now: Moment) {
        if self.gone.take().is_none() {
            return;
        }
        self.listed_after_404 = true;
        self.refused = Some(BlockReason::Error);
        self.accepted_at = None;
        if self.pod.deletion.is_none() {
            self.blocked_by(
                BlockReason::Error,
                "The API server answered that the pod does not exist, but lists it.".to_owned(),
                now,
            );
        }
    }

    /// The order to send now. `evict`: an eviction may be sent.
    pub(super) fn order(&self, rules: &Rules, now: Moment, evict: bool) -> Option<Order> {
        let (pod, uid) = (self.pod.key.clone(), self.pod.uid.clone());
        let limits = self.limits(rules);
        let grace = force::grace_to_send(&limits, self.pod.grace, now);
        let to_delete = || force::grace_to_delete(&limits, self.pod.grace, now);
        match self.desired(rules, now) {
            Desired::Nothing => None,
            Desired::Evict => Some(Order::Evict { pod, uid, grace }),
            Desired::EvictOrDelete if evict => Some(Order::Evict { pod, uid, grace }),
            Desired::EvictOrDelete => {
                Some(Order::Delete { pod, uid, grace: to_delete()?, why: DeleteWhy::Forced })
            }
            Desired::Delete(why) => Some(Order::Delete { pod, uid, grace: to_delete()?, why }),
        }
    }

    /// What to report if this order is accepted: that it deletes the pod by force, if that was not
    /// reported yet.
    pub(super) fn forced_note(&self, order: &Order) -> Option<Note> {
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

    /// Whether an eviction that was sent may still end the pod: its answer was lost, or it was
    /// accepted and the watch has not shown yet that it had no effect.
    pub(super) fn may_be_evicted(&self, rules: &Rules) -> bool {
        let has_no_effect = |at: Moment| {
            let intercepted = at.plus(rules.settings.intercepted_after);
            self.pod.deletion.is_none() && intercepted <= rules.known_until
        };
        self.eviction_lost || self.accepted_at.is_some_and(|at| !has_no_effect(at))
    }

    /// Records that an order was accepted. Returns what to report.
    pub(super) fn accepted(&mut self, now: Moment, order: &Order, limits: &Limits) -> Option<Note> {
        let (pod, uid) = (self.pod.key.clone(), self.pod.uid.clone());
        let own = force::own_grace(limits, self.pod.grace);
        let forced = self.forced_note(order);
        if self.pod.deletion.is_none() {
            self.accepted_at = Some(now);
        }
        // It was to stay from a moment on at which the order was on its way.
        if self.disposition == Disposition::Untouched
            && !self.left_alone
            && !self.pod.phase.is_finished()
        {
            self.disposition = Disposition::Counts;
        }
        match order {
            Order::Delete { why: DeleteWhy::Shortened, grace, .. } => {
                self.shortened_for = limits.force_at;
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

    /// Records that an order was refused or had no answer. A terminating pod is not blocked by
    /// that.
    pub(super) fn refuse(&mut self, now: Moment, class: Class, order: &Order, message: String) {
        // A LIST has shown the pod after a 404, so this 404 is a failure like any other.
        let reason = class.blocks().unwrap_or(BlockReason::Error);
        if matches!(order, Order::Evict { .. }) {
            self.refused = Some(reason);
        } else if class == Class::Forbidden {
            self.delete_denied_at = Some(now);
        }
        if self.pod.deletion.is_none() {
            self.accepted_at = None;
            self.blocked_by(reason, message, now);
        }
    }
}

/// How long a pod whose delete was denied is evicted again, before the next delete is tried.
const DELETE_DENIED_FOR: Duration = seconds(10);

/// The last moment at which a delete still leaves a pod the shortest grace period before the
/// deadline. Without a deadline, no moment is the last one.
fn last_moment(limits: &Limits) -> Moment {
    limits.force_at.map_or(Moment::MAX, |at| at.minus(force::MIN_GRACE))
}
