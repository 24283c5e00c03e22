//! The questions whose answers prove or contradict an interruption, or show that its instance is
//! replaced.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tracing::{debug, warn};

use crate::{
    controller::{
        context::Term,
        hooks::{NamedBy, Proof},
    },
    domain::{
        Cause, GroupName, HookAction, HookKey, HookPurpose, InstanceFacts, InstanceId,
        InstanceState, Interruption, InterruptionFacts, Kind, Moment, NodeName, SpotAction,
        seconds,
    },
    fleet::Input,
    lifecycle::{StayAnswer, StayCheck, is_replaced},
    triage::{self, HeartbeatAnswer, HookAnswer, InstanceAnswer, Knowledge},
};

/// The tag with which Auto Scaling names the group of an instance.
pub(in crate::controller) const GROUP_TAG: &str = "aws:autoscaling:groupName";

/// The answer to one of the questions about a stale interruption.
enum Evidence {
    Heartbeat(HeartbeatAnswer),
    /// `None`: EC2 could not be asked.
    Instance(Option<InstanceAnswer>),
    /// `None`: Auto Scaling could not be asked.
    Hook(Option<HookAnswer>),
}

/// The pause before the same question is asked again.
const ASK_AGAIN: std::time::Duration = seconds(5);
/// How long to wait for one answer to the question whether an instance stays.
const ANSWERED_WITHIN: std::time::Duration = seconds(10);
/// The pause between two questions for a replacement. Auto Scaling answers for many nodes at once.
const REPLACEMENT_AGAIN: std::time::Duration = seconds(10);

/// Asks until the interruption is proved or disproved, and sends [`Input::Proof`]. The task is
/// aborted when the drain ends ([`Effect::StopVerifying`](crate::fleet::Effect::StopVerifying)). A
/// heartbeat, EC2 and the hook's description are asked for at the same time, because one answer can
/// be enough.
pub(super) async fn verify(
    term: &Term,
    name: NodeName,
    instance: &InstanceId,
    facts: &InterruptionFacts,
) {
    let Some(interruption) = interruption(instance, facts) else { return };
    let mut known = Knowledge::new(facts.accepted, facts.time);
    let mut asking: FuturesUnordered<BoxFuture<'_, Evidence>> = FuturesUnordered::new();
    asking.push(Box::pin(ask_instance(term, instance, Duration::ZERO)));
    if let Some(action) = &facts.hook {
        asking.push(Box::pin(async move {
            // `prove` returns `None` if the task of the action has just ended: the action is over, or
            // not ours. (At the end of the term, this lookup is aborted before that.)
            let accepted =
                term.actions.prove(action, facts.time, NamedBy::Record).await == Some(Proof::Open);
            Evidence::Heartbeat(HeartbeatAnswer { at: term.shared.clock.now(), accepted })
        }));
        asking.push(Box::pin(ask_hook(term, &action.key, Duration::ZERO)));
    }
    while let Some(evidence) = asking.next().await {
        match evidence {
            Evidence::Heartbeat(answer) => known.heartbeat = Some(answer),
            Evidence::Instance(answer) => {
                known.instance = answer.or(known.instance);
                asking.push(Box::pin(ask_instance(term, instance, ASK_AGAIN)));
            }
            Evidence::Hook(Some(answer)) => known.hook = Some(answer),
            Evidence::Hook(None) => asking.extend(
                facts.hook.as_ref().map(|action| ask_hook(term, &action.key, ASK_AGAIN).boxed()),
            ),
        }
        if let Some(holds) = triage::holds(&interruption, &known) {
            term.send(Input::Proof { node: name, event: facts.event_id.clone(), holds });
            return;
        }
    }
}

/// Asks EC2 and the Auto Scaling groups whether the instance stays, as often as
/// [`StayCheck`] asks for it, and sends [`Input::Contradiction`] for each new finding.
pub(super) async fn contradiction(
    term: &Term,
    node: NodeName,
    uid: String,
    instance: &InstanceId,
    groups: &BTreeSet<GroupName>,
) {
    let (clock, lookups) = (term.shared.clock, &term.shared.lookups);
    let (mut check, mut found_before) = (StayCheck::default(), None);
    loop {
        let (asked, since) = (clock.now(), tokio::time::Instant::now());
        let in_groups = groups.iter().map(|group| async move {
            let state = lookups.members.state_since(group, instance, since);
            tokio::time::timeout(ANSWERED_WITHIN, state).await.ok()?.ok()
        });
        let (in_ec2, in_groups) = tokio::join!(
            tokio::time::timeout(ANSWERED_WITHIN, lookups.instances.get_fresh(instance)),
            futures::future::join_all(in_groups)
        );
        let in_ec2 = in_ec2.ok().and_then(Result::ok);
        let state =
            in_ec2.map(|facts| facts.map_or(InstanceState::Terminated, |facts| facts.state));
        let in_groups: Vec<_> =
            in_groups.iter().map(|s| s.as_ref().map(Option::as_deref)).collect();
        debug!(%node, %instance, ?state, ?in_groups, "Asked whether the instance stays.");
        let (found, again) =
            check.record_answer(StayAnswer::of(state, &in_groups), asked, clock.now());
        if let Some(finding) = found.filter(|_| found != found_before) {
            let (node, uid) = (node.clone(), uid.clone());
            term.send(Input::Contradiction { node, uid, finding });
            found_before = found;
        }
        match again {
            Some(again) => clock.sleep_until(again).await,
            None => return,
        }
    }
}

/// Returns when the group of the instance has a node that can take over its pods. Asks until then:
/// the caller aborts this when the drain ends.
pub(super) async fn replacement(
    term: &Term,
    instance: &InstanceId,
    group: Option<GroupName>,
    since: Moment,
) {
    let lookups = &term.shared.lookups;
    let mut group = group;
    loop {
        if group.is_none() {
            let asked = tokio::time::timeout(ANSWERED_WITHIN, lookups.instances.get(instance));
            match asked.await {
                Ok(Ok(Some(facts))) => {
                    group = facts.tags.get(GROUP_TAG).map(|name| name.as_str().into());
                    if group.is_none() {
                        no_replacement(term, instance, "it is in no Auto Scaling group");
                    }
                }
                Ok(Err(error)) if error.is_denied() => no_replacement(
                    term,
                    instance,
                    "ec2:DescribeInstances is denied: allow it in the role's policy",
                ),
                other => debug!(%instance, ?other, "Cannot ask for the group of an instance."),
            }
        }
        if let Some(group) = &group {
            let asked = tokio::time::timeout(ANSWERED_WITHIN, lookups.members.of_group(group));
            match asked.await {
                Ok(Ok(Some(members))) => {
                    let ids = members.states.keys().filter_map(|id| id.parse().ok());
                    let nodes: Vec<_> =
                        ids.flat_map(|id: InstanceId| term.shared.nodes.by_instance(&id)).collect();
                    if is_replaced(instance, since, &members.capacity, &members.states, &nodes) {
                        return;
                    }
                }
                Ok(Ok(None)) => {
                    no_replacement(term, instance, &format!("AWS has no group {group}"));
                }
                Ok(Err(error)) if error.is_denied() => {
                    no_replacement(
                        term,
                        instance,
                        "autoscaling:DescribeAutoScalingGroups is denied: allow it in the role's \
                         policy",
                    );
                }
                other => debug!(%instance, %group, ?other, "Cannot ask for a replacement."),
            }
        }
        tokio::time::sleep(REPLACEMENT_AGAIN).await;
    }
}

/// The group that the tags of an instance name; `None`: it is in none, or may not be asked for. Asks
/// until EC2 answers: the caller aborts this when the drain ends.
pub(super) async fn group(term: &Term, instance: &InstanceId) -> Option<GroupName> {
    loop {
        let lookups = &term.shared.lookups;
        let asked = tokio::time::timeout(ANSWERED_WITHIN, lookups.instances.get(instance));
        match asked.await {
            Ok(Ok(Some(facts))) => {
                return facts.tags.get(GROUP_TAG).map(|name| name.as_str().into());
            }
            Ok(Ok(None)) => return None,
            Ok(Err(error)) if error.is_denied() => {
                if term.is_first_report("groups of instances are not shown") {
                    warn!(
                        %instance,
                        "ec2:DescribeInstances is denied: allow it in the role's policy. Until \
                         then, --max-drains-per-group counts only nodes whose lifecycle hook names \
                         their group."
                    );
                }
                return None;
            }
            other => debug!(%instance, ?other, "Cannot ask for the group of an instance."),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Warns once about each instance that AWS will not show a replacement for it.
fn no_replacement(term: &Term, instance: &InstanceId, why: &str) {
    if term.is_first_report(&format!("{instance} gets no replacement: {why}")) {
        warn!(
            %instance, why,
            "Sundown cannot find out whether the node has a replacement. Its evictions begin after \
             half of the time."
        );
    }
}

async fn ask_instance(term: &Term, instance: &InstanceId, pause: Duration) -> Evidence {
    tokio::time::sleep(pause).await;
    let at = term.shared.clock.now();
    let facts = term.shared.lookups.instances.get_fresh(instance).await.ok();
    let on_our_clock = |facts: Arc<InstanceFacts>| InstanceFacts {
        launched: facts.launched.map(|at| term.skew().to_ours(at)),
        ..(*facts).clone()
    };
    Evidence::Instance(facts.map(|facts| InstanceAnswer { at, facts: facts.map(on_our_clock) }))
}

async fn ask_hook(term: &Term, key: &HookKey, pause: Duration) -> Evidence {
    tokio::time::sleep(pause).await;
    let described = term.shared.lookups.hooks.get(&key.group, &key.hook).await.ok();
    Evidence::Hook(described.map(|d| d.map_or(HookAnswer::NoSuchHook, HookAnswer::Described)))
}

/// Rebuilds an interruption from the facts in a record, with the fields that a proof needs. `None`:
/// its kind needs no proof, or the record lacks such a field.
fn interruption(instance: &InstanceId, facts: &InterruptionFacts) -> Option<Interruption> {
    let kind = facts.kind?;
    let cause = match kind {
        Kind::Spot => Cause::Spot(SpotAction::Terminate),
        Kind::SpotStop => Cause::Spot(SpotAction::Stop),
        Kind::SpotHibernate => Cause::Spot(SpotAction::Hibernate),
        Kind::CapacityReservation => Cause::CapacityReservation { ends: facts.ends },
        Kind::CapacityBlock => Cause::CapacityBlock { ends: facts.ends },
        Kind::StateChange => Cause::StateChange(facts.state?),
        Kind::TerminateHook | Kind::RootVolume => {
            let action = facts.hook.as_ref()?;
            Cause::Terminate(HookAction {
                group: action.key.group.clone(),
                hook: action.key.hook.clone(),
                token: action.token.clone(),
                origin: None,
                destination: None,
                purpose: if kind == Kind::RootVolume {
                    HookPurpose::ReplaceRootVolume
                } else {
                    HookPurpose::Ordinary
                },
                metadata: None,
            })
        }
        Kind::LaunchHook
        | Kind::LaunchSuccessful
        | Kind::Rebalance
        | Kind::ScheduledChange
        | Kind::Impaired
        | Kind::Request => return None,
    };
    Some(Interruption {
        instance: instance.clone(),
        event_id: facts.event_id.clone(),
        time: Some(facts.time),
        cause,
    })
}
