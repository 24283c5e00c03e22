//! What a drain does with a pod, why, with which grace period, and when by force: in sentences.

use std::time::Duration;

use crate::{
    config::{DrainConfig, duration_text},
    domain::{DrainSettings, Moment, Pod, PodBehavior, RulePlace, Wish, WishSource},
    drain::{DecidedBy, PodExplanation, PodPlan},
};

/// The number and the line of a rule.
fn place(place: RulePlace) -> String {
    format!("{} (line {})", place.number, place.line)
}

fn behavior(behavior: PodBehavior) -> String {
    match behavior {
        PodBehavior::Evict(None) => "Evict".to_owned(),
        PodBehavior::Evict(Some(order)) => format!("Evict with order {order}"),
        PodBehavior::Skip => "Skip".to_owned(),
        PodBehavior::WaitCompleted => "WaitCompleted".to_owned(),
    }
}

/// `, at TIME at the latest`; nothing if the wait has no limit.
fn at_the_latest(until: Moment) -> String {
    if until == Moment::MAX { String::new() } else { format!(", at {until:.0} at the latest") }
}

/// What the drain does with the pod.
pub(super) fn what(explained: &PodExplanation) -> String {
    match explained.plan {
        PodPlan::Stays => "Sundown leaves it alone and does not wait for it.".to_owned(),
        PodPlan::LooksUpDaemonSet => {
            "Sundown finds out first whether its DaemonSet still exists.".to_owned()
        }
        PodPlan::Terminates(at) => {
            format!("It is terminating. Its grace period ends at {at:.0}.")
        }
        PodPlan::WaitsToFinish(Moment::MAX) => "Sundown waits until it has finished.".to_owned(),
        PodPlan::WaitsToFinish(until) => format!(
            "Sundown waits until it has finished, until {until:.0} at the latest. Then it evicts \
             the pod."
        ),
        PodPlan::WaitsForGroups { until, .. }
            if matches!(explained.decided_by, DecidedBy::Asked(_, Wish::Last)) =>
        {
            format!(
                "Sundown evicts it when the pods of all groups are gone{}.",
                at_the_latest(until)
            )
        }
        PodPlan::WaitsForGroups { group, groups, until } => format!(
            "It is in group {group} of {groups}. Sundown evicts it when the pods of earlier groups \
             are gone{}.",
            at_the_latest(until)
        ),
        PodPlan::WaitsForOthers => "Sundown evicts it when no other pod is left.".to_owned(),
        PodPlan::Evicts => "Sundown evicts it at once.".to_owned(),
    }
}

/// In words, which rule, annotation, label, flag or default decides what a drain does with the pod.
pub(super) fn why(explained: &PodExplanation, config: &DrainConfig) -> String {
    let why = match explained.decided_by {
        DecidedBy::Finished => "It has finished and holds no resources.".to_owned(),
        DecidedBy::StaticPod => "It is a static pod: the kubelet would start it again.".to_owned(),
        DecidedBy::Toleration => "It tolerates the taint sundown.dev/interruption.".to_owned(),
        DecidedBy::DaemonSet => {
            "It belongs to a DaemonSet, which --drain-daemonset does not name.".to_owned()
        }
        DecidedBy::DeletedDaemonSet => "Its DaemonSet does not exist any longer.".to_owned(),
        DecidedBy::DrainedDaemonSet => "--drain-daemonset names its DaemonSet.".to_owned(),
        DecidedBy::Deletion => "It has been evicted or deleted already.".to_owned(),
        DecidedBy::Asked(key, wish) => {
            format!("Its {} {key} asks {}.", object(key), asked(wish))
        }
        DecidedBy::Rule(does) => match &explained.rule {
            Some(rule) => format!("Rule {}: {}.", place(rule.place), behavior(does)),
            None => behavior(does),
        },
        DecidedBy::PodOrder => format!("--pod-order={} puts it there.", config.pod_order),
        DecidedBy::OwnPod => "It is the leader's own pod.".to_owned(),
        DecidedBy::Default if matches!(explained.plan, PodPlan::WaitsForGroups { .. }) => {
            "No rule gives it an order, so its order is 0.".to_owned()
        }
        DecidedBy::Default => {
            "By default: no rule, annotation, label or flag is about it.".to_owned()
        }
    };
    let asks_to_wait = matches!(
        explained.decided_by,
        DecidedBy::Asked(_, Wish::Wait | Wish::WaitUntilAge(_))
            | DecidedBy::Rule(PodBehavior::WaitCompleted)
    );
    if explained.plan == PodPlan::Evicts && asks_to_wait {
        return format!(
            "{why} It waits no longer: the time for that is over, or the drain is too short."
        );
    }
    why
}

const fn object(key: WishSource) -> &'static str {
    match key {
        WishSource::ClusterApi => "label",
        WishSource::Sundown | WishSource::Karpenter | WishSource::Autoscaler | WishSource::Rule => {
            "annotation"
        }
    }
}

fn asked(wish: Wish) -> String {
    match wish {
        Wish::Wait => "to wait until it has finished".to_owned(),
        Wish::WaitUntilAge(age) => format!("to wait until it is {} old", duration_text(age)),
        Wish::Last => "to go last".to_owned(),
        Wish::Skip => "to be left alone".to_owned(),
    }
}

/// Whether the drain evicts the pod, now or later.
const fn is_evicted(plan: PodPlan) -> bool {
    !matches!(plan, PodPlan::Stays | PodPlan::Terminates(_) | PodPlan::LooksUpDaemonSet)
}

/// Its grace period, and where that comes from. `None`: it is not evicted.
pub(super) fn grace(explained: &PodExplanation, own: Duration) -> Option<String> {
    if !is_evicted(explained.plan) {
        return None;
    }
    let by = match &explained.rule {
        _ if explained.grace == own => "its own".to_owned(),
        Some(rule) if rule.limits_grace => format!("by rule {}", place(rule.place)),
        _ => "by the setting max-grace-period of the node or its hook".to_owned(),
    };
    Some(format!("{}, {by}", duration_text(explained.grace)))
}

/// When it is forced, and what decides that. `None`: it is not evicted.
pub(super) fn force(
    explained: &PodExplanation,
    config: &DrainConfig,
    settings: &DrainSettings,
    has_deadline: bool,
) -> Option<String> {
    if !is_evicted(explained.plan) {
        return None;
    }
    let by = match (&explained.rule, settings.force_after) {
        (Some(rule), _) if rule.sets_force => format!("forceAfter of rule {}", place(rule.place)),
        (_, Some(force)) => format!("the setting force-after={force} of the node or its hook"),
        _ => format!("--force-after={}", config.force_after),
    };
    Some(match explained.forced_from {
        Some(at) => format!("from {at:.0} on, if its eviction is refused ({by})"),
        None if has_deadline => format!("never ({by})"),
        None => "never: the drain has no deadline".to_owned(),
    })
}

/// What may surprise the owner of the pod, in sentences.
pub(super) fn notes(explained: &PodExplanation, pod: &Pod, config: &DrainConfig) -> Vec<String> {
    let honored = config.honored.iter().copied().collect();
    let unknown = pod.wishes.unknown(&honored).map(|(key, value)| {
        format!("Its {} {key} has the value `{value}`, which has no meaning.", object(key))
    });
    let not_honored = pod
        .wishes
        .not_honored(&honored)
        .map(|key| format!("Its {} {key} has no effect: --honor does not name it.", object(key)));
    let overridden = match (&explained.rule, explained.decided_by) {
        (Some(rule), DecidedBy::Asked(..)) => Some(format!(
            "Rule {} ({}) matches it, too. What the pod asks for counts more.",
            place(rule.place),
            behavior(rule.behavior)
        )),
        _ => None,
    };
    unknown.chain(not_honored).chain(overridden).collect()
}
