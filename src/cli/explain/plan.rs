//! Makes the answer from the facts, with the code that the service runs. No I/O.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::bail;

use super::{
    model::{Answer, DrainKind, Plan, PodAnswer, Rule},
    read::Read,
    words,
};
use crate::{
    cli::status::{
        model::{BlockedPod, State},
        report::{
            Reader, default_settings,
            pods::{FOLLOWS_RULES, begun},
        },
    },
    config::DrainConfig,
    controller::{drain_settings, limit_settings},
    domain::{DrainSettings, InterruptionFacts, Kind, Limits, Moment, Node, Pod, PodKey, Response},
    drain::{self, Drain, PodExplanation, PodPlan, Start},
    lifecycle::{LimitSettings, eviction_start},
    record::{self, RecordStatus},
};

/// Explains what a drain does with the pods of the node. `assumed`: the kind of interruption to
/// assume if the node is not being drained. Errs if its pods cannot be listed, or if the pod that
/// was asked for is no longer on it.
pub(super) fn explain(read: &Read, assumed: Kind) -> anyhow::Result<Answer> {
    let facts = &read.facts;
    let reader = Reader::new(facts);
    let (Some(node), Some(config)) =
        (facts.nodes.iter().find(|node| node.name == read.node), &reader.settings)
    else {
        bail!("there is no node {}", read.node);
    };
    let pods = match facts.pods.get(&read.node) {
        Some(Ok(pods)) => pods,
        Some(Err(why)) => bail!("the pods of {} cannot be listed: {why}", read.node),
        None => bail!("the pods of {} were not listed", read.node),
    };
    let status = reader.node(node, true);
    let (of_node, _) = limit_settings(config).of_node(node);
    let settings = LimitSettings { node: of_node, ..limit_settings(config) };
    let (kind, interruptions) = match open_drain(node) {
        Some(interruptions) => (DrainKind::Open, interruptions),
        None => (DrainKind::Assumed, vec![assumed_interruption(assumed, facts.now)]),
    };
    let accepted = interruptions.iter().map(|facts| facts.accepted).min().unwrap_or(facts.now);
    let limits = reader.limits(node, &settings, &interruptions, accepted);
    let was_to_start =
        eviction_start(&limits, &interruptions, &settings.evict_after, false, accepted);
    let hold_ended = match kind {
        DrainKind::Open => reader.hold_ended(node, accepted, was_to_start),
        DrainKind::Assumed => None,
    };
    let drain = drain_of(read, &reader, node, config, (limits, hold_ended), pods);
    let mut notes = facts.trouble.clone();
    notes.extend(default_settings(facts.lease.as_ref()));
    notes.extend(read.rules.trouble.clone());
    if let Some(status) = status.filter(|status| status.state != State::NotDraining) {
        notes.extend(status.remarks.into_iter().filter(|remark| remark != FOLLOWS_RULES));
    } else if node.ignored() {
        notes.push("It carries sundown.dev/ignore: Sundown does not drain it.".to_owned());
    }
    let blocked = blocked(&drain, &reader, accepted);
    let explained = drain.explain_pods(facts.now);
    let wanted = |one: &&PodExplanation| read.pod.as_ref().is_none_or(|pod| one.pod == *pod);
    let by_key: BTreeMap<&PodKey, &Pod> = pods.iter().map(|pod| (&pod.key, pod)).collect();
    let answer = |one: &PodExplanation| {
        let pod = by_key.get(&one.pod)?;
        Some(pod_answer(one, pod, config, &limits, blocked.get(&one.pod)))
    };
    let answers: Vec<PodAnswer> = explained.iter().filter(wanted).filter_map(answer).collect();
    if let Some(pod) = &read.pod
        && answers.is_empty()
    {
        bail!("the pod {pod} is no longer on {}", read.node);
    }
    Ok(Answer {
        time: facts.now,
        node: node.name.clone(),
        drain: kind,
        kinds: interruptions
            .iter()
            .map(|facts| facts.kind.map_or("unknown", Kind::as_str))
            .collect(),
        deadline: limits.end_at,
        rules: read.rules.source.clone(),
        notes,
        pods: answers,
        is_one_pod: read.pod.is_some(),
    })
}

/// The interruptions of the open drain of this node. `None`: it has no open drain, or one that
/// evicts no pods.
fn open_drain(node: &Node) -> Option<Vec<InterruptionFacts>> {
    let record = match record::status(node, None) {
        RecordStatus::Open(record) => record,
        RecordStatus::Doubtful { record, .. } if record.released().is_none() => record,
        _ => return None,
    };
    let instance = node.instance.as_ref().unwrap_or_else(|| record.instance());
    Some(record.interruptions(instance)).filter(|_| record.response().evicts())
}

fn assumed_interruption(kind: Kind, now: Moment) -> InterruptionFacts {
    InterruptionFacts {
        kind: Some(kind),
        event_id: String::new(),
        time: now,
        accepted: now,
        hook: None,
        ends: None,
        state: None,
        stale: false,
        response: Response::Drain,
        settings: DrainSettings::NONE,
        reason: None,
    }
}

/// The drain of the node, as the leader sees it. `hold_ended`: when its evictions last began after
/// a hold.
fn drain_of(
    read: &Read,
    reader: &Reader<'_>,
    node: &Node,
    config: &DrainConfig,
    (limits, hold_ended): (Limits, Option<Moment>),
    pods: &[Pod],
) -> Drain {
    let rules = &read.rules.rules;
    let rules = Arc::new(rules.only(rules.on_node(&node.labels)));
    let namespaces = Arc::new(read.namespaces.clone());
    let settings = drain::Settings { rules, namespaces, ..drain_settings(config) };
    // The holder of the Lease is named after its pod.
    let own_pod = read.facts.lease.as_ref().and_then(|lease| {
        let name = lease.holder.as_deref()?;
        Some(PodKey { namespace: lease.namespace.as_str().into(), name: name.into() })
    });
    let start = Start { node: node.name.clone(), cordoned_at: limits.accepted, limits, own_pod };
    let mut drain = begun(start, Arc::new(settings), hold_ended);
    reader.list_pods(&mut drain, pods);
    drain
}

fn blocked(drain: &Drain, reader: &Reader<'_>, accepted: Moment) -> BTreeMap<PodKey, BlockedPod> {
    let explanation =
        drain.explain(reader.now(), |_| reader.budgets(), |pod| reader.known_block(pod, accepted));
    let blocked = explanation.blocked.iter();
    blocked.map(|pod| (pod.pod.clone(), BlockedPod::of(pod))).collect()
}

fn pod_answer(
    explained: &PodExplanation,
    pod: &Pod,
    config: &DrainConfig,
    limits: &Limits,
    blocked: Option<&BlockedPod>,
) -> PodAnswer {
    let (plan, until) = match explained.plan {
        PodPlan::Stays => (Plan::Stay, None),
        PodPlan::LooksUpDaemonSet => (Plan::Unknown, None),
        PodPlan::Terminates(at) => (Plan::Terminating, Some(at)),
        PodPlan::WaitsToFinish(until) => (Plan::WaitUntilFinished, Some(until)),
        PodPlan::WaitsForGroups { until, .. } => (Plan::WaitForGroups, Some(until)),
        PodPlan::WaitsForOthers => (Plan::Last, None),
        PodPlan::Evicts => (Plan::Evict, None),
    };
    PodAnswer {
        pod: explained.pod.to_string(),
        plan,
        what: words::what(explained),
        until: until.filter(|until| *until != Moment::MAX),
        why: words::why(explained, config),
        rule: explained.rule.map(|rule| Rule { number: rule.place.number, line: rule.place.line }),
        grace_period: words::grace(explained, pod.grace),
        force_from: explained.forced_from,
        force: words::force(explained, config, &limits.settings, limits.force_at.is_some()),
        blocked: blocked.filter(|_| plan != Plan::Terminating).cloned(),
        notes: words::notes(explained, pod, config),
    }
}
