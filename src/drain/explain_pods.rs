//! What a drain does with each pod, and what decides that: the annotation or label of the pod, a
//! rule of the administrator, a flag, or a default. For `sundown explain`.

use std::time::Duration;

use super::{
    force,
    pod::{Disposition, Entry, Rules, is_of_drained_daemon_set},
};
use crate::domain::{Moment, PodBehavior, PodKey, RulePlace, Wish, WishSource};

/// What a drain does with one pod at one moment, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodExplanation {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// What the drain does with it as soon as evictions may begin: it does not show a pause, a gate
    /// or anything else that holds all evictions of the node.
    pub plan: PodPlan,
    /// What decides that.
    pub decided_by: DecidedBy,
    /// The rule that matches it. The rule's `maxGracePeriod` and `forceAfter` count even if
    /// something else decides about the plan. `None`: no rule matches.
    pub rule: Option<MatchingRule>,
    /// The grace period that it gets if there is time for it.
    pub grace: Duration,
    /// From when on it is deleted if its eviction is refused. `None`: never, or it is not evicted.
    pub forced_from: Option<Moment>,
}

/// What a drain does with a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPlan {
    /// The drain leaves the pod alone.
    Stays,
    /// The drain finds out first whether the DaemonSet of the pod still exists.
    LooksUpDaemonSet,
    /// The pod is terminating; its grace period ends at this moment.
    Terminates(Moment),
    /// The drain waits for the pod to finish, until this moment at the latest; [`Moment::MAX`]:
    /// without a limit.
    WaitsToFinish(Moment),
    /// The drain evicts the pod after those of earlier groups.
    WaitsForGroups {
        /// The group of the pod, from 1 (evicted first).
        group: usize,
        /// How many groups there are, without the pods that ask to go last.
        groups: usize,
        /// When it is evicted even if pods of earlier groups are left; [`Moment::MAX`]: never.
        until: Moment,
    },
    /// The pod is Sundown's own: it is evicted when no other pod is left.
    WaitsForOthers,
    /// The drain evicts the pod now.
    Evicts,
}

/// What decides about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedBy {
    /// The pod has finished.
    Finished,
    /// The pod is a static pod.
    StaticPod,
    /// The pod's toleration of Sundown's taint.
    Toleration,
    /// Its DaemonSet, whose pods stay.
    DaemonSet,
    /// Its DaemonSet, which does not exist any longer.
    DeletedDaemonSet,
    /// `--drain-daemonset`, which names its DaemonSet.
    DrainedDaemonSet,
    /// Its deletion: it has been evicted or deleted already.
    Deletion,
    /// What it asks for by an annotation or a label.
    Asked(WishSource, Wish),
    /// The rule that matches it.
    Rule(PodBehavior),
    /// `--pod-order`.
    PodOrder,
    /// Sundown's own pod goes last.
    OwnPod,
    /// None of these: a drain evicts pods by default.
    Default,
}

/// A rule that matches a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchingRule {
    /// Where it is in its file.
    pub place: RulePlace,
    /// Its `behavior`, with its `order`.
    pub behavior: PodBehavior,
    /// The rule's `maxGracePeriod` shortens the grace period of the pod.
    pub limits_grace: bool,
    /// It has a `forceAfter`.
    pub sets_force: bool,
}

impl Entry {
    /// What the drain does with it, and why.
    pub(super) fn explain(&self, rules: &Rules, now: Moment) -> PodExplanation {
        let (plan, decided_by) = self.plan(rules, now);
        let limits = self.limits_of(&rules.limits, &rules.settings);
        let grace = force::own_grace(&limits, self.pod.grace);
        let goes = !matches!(plan, PodPlan::Stays | PodPlan::Terminates(_));
        let forced_from = force::delete_from(rules.settings.force, &limits, self.pod.grace);
        PodExplanation {
            pod: self.pod.key.clone(),
            plan,
            decided_by,
            rule: self.rule(&rules.settings).map(|rule| MatchingRule {
                place: rule.place,
                behavior: rule.behavior,
                limits_grace: rule.max_grace_period == Some(grace) && grace < self.pod.grace,
                sets_force: rule.force_after.is_some(),
            }),
            grace,
            forced_from: forced_from.filter(|_| goes),
        }
    }

    fn plan(&self, rules: &Rules, now: Moment) -> (PodPlan, DecidedBy) {
        let (pod, settings) = (&self.pod, &rules.settings);
        if pod.phase.is_finished() && pod.deletion.is_none() {
            return (PodPlan::Stays, DecidedBy::Finished);
        }
        if pod.mirror {
            return (PodPlan::Stays, DecidedBy::StaticPod);
        }
        if pod.tolerates_us {
            return (PodPlan::Stays, DecidedBy::Toleration);
        }
        let (wish, by_wish) = match self.wish(settings) {
            Some((WishSource::Rule, wish)) => {
                let behavior = self.rule(settings).map(|rule| rule.behavior);
                (Some(wish), behavior.map(DecidedBy::Rule))
            }
            Some((source, wish)) => (Some(wish), Some(DecidedBy::Asked(source, wish))),
            None => (None, None),
        };
        if let (Some(Wish::Skip), Some(by)) = (wish, by_wish) {
            return (PodPlan::Stays, by);
        }
        let is_daemon = pod.owner.as_ref().is_some_and(|owner| owner.is_daemon_set());
        let is_drained_daemon = is_of_drained_daemon_set(pod, settings);
        match self.disposition {
            Disposition::Unknown => return (PodPlan::LooksUpDaemonSet, DecidedBy::DaemonSet),
            Disposition::Untouched if is_daemon => return (PodPlan::Stays, DecidedBy::DaemonSet),
            Disposition::Untouched | Disposition::Counts => {}
        }
        if let Some(at) = pod.deletion {
            return (PodPlan::Terminates(at), DecidedBy::Deletion);
        }
        let of_rule = self.rule(settings).map(|rule| DecidedBy::Rule(rule.behavior));
        if let Some(until) = self.asks_to_wait_until(rules).map(|(_, until)| until)
            && now < until
        {
            return (PodPlan::WaitsToFinish(until), by_wish.unwrap_or(DecidedBy::Default));
        }
        if let Some(until) = self.waits_for_earlier_groups_until(rules)
            && now < until
        {
            let (group, groups) = (self.group + 1, settings.groups());
            let by = match by_wish {
                Some(by) if wish == Some(Wish::Last) => by,
                _ if settings.rules.groups().is_some() => of_rule.unwrap_or(DecidedBy::Default),
                _ => DecidedBy::PodOrder,
            };
            return (PodPlan::WaitsForGroups { group, groups, until }, by);
        }
        if self.own && !rules.own_may_go {
            return (PodPlan::WaitsForOthers, DecidedBy::OwnPod);
        }
        let by_daemon_set = match (is_daemon, is_drained_daemon) {
            (true, true) => Some(DecidedBy::DrainedDaemonSet),
            (true, false) => Some(DecidedBy::DeletedDaemonSet),
            (false, _) => None,
        };
        let by = by_wish.or(by_daemon_set).or(of_rule);
        (PodPlan::Evicts, by.unwrap_or(DecidedBy::Default))
    }
}
