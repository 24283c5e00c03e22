//! Asks Auto Scaling which instances wait in a hook or are retained: first for the groups of the
//! cluster, then for the warm pools of those that have one.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use tracing::{debug, warn};

use super::is_acted_on;
use crate::{
    aws::{AwsError, GroupFilter, WaitingMembers, WarmPool},
    cluster::{About, EventNote, EventReason, Severity},
    controller::{context::Term, rounds},
    domain::{GroupName, InstanceId, is_retained},
    observe::SweepResult,
    triage::{
        Retained, RoundFailure,
        sweep::{MAX_WAITING, WaitState, WaitingInstance},
    },
};

/// How many newly retained instances of one round are reported one by one.
const MOST_REPORTED: usize = 20;
/// How many warm pools a round asks for at most, in the order of the names of their groups.
const MAX_WARM_POOLS: usize = 200;
/// How many of them it asks for at once.
const CONCURRENT_WARM_POOLS: usize = 4;

/// What a round has found so far.
#[derive(Default)]
struct Found {
    waiting: BTreeMap<InstanceId, WaitingInstance>,
    retained: BTreeMap<InstanceId, GroupName>,
}

impl Found {
    fn add(&mut self, group: &GroupName, instance: &str, state: &str) {
        let Ok(instance) = instance.parse::<InstanceId>() else { return };
        if is_retained(state) {
            self.retained.insert(instance, group.clone());
        } else if let Some(state) = WaitState::of(state) {
            let waiting =
                WaitingInstance { instance: instance.clone(), group: group.clone(), state };
            self.waiting.insert(instance, waiting);
        }
    }
}

/// What a round has found.
pub(super) struct Answered {
    pub(super) waiting: Vec<WaitingInstance>,
    /// Why a warm pool was not answered; `None`: all were, or AWS denies the calls.
    pub(super) failure: Option<RoundFailure>,
}

/// Asks for the groups of this cluster: by each of the two tags that name it, 100 groups a call.
/// Then asks for their warm pools, one call each. Each call has a time limit.
pub(super) async fn ask(
    term: &Term,
    cluster: &str,
    retained: &mut Retained,
) -> Result<Answered, RoundFailure> {
    let filters = [
        GroupFilter::TagKey(format!("kubernetes.io/cluster/{cluster}")),
        GroupFilter::Tag("eks:cluster-name".to_owned(), cluster.to_owned()),
    ];
    let metrics = &term.shared.metrics;
    // Most groups have both tags.
    let (mut found, mut pools) = (Found::default(), BTreeSet::new());
    for filter in filters {
        let autoscaling = term.shared.aws.autoscaling();
        let WaitingMembers { members, retained, with_warm_pool, calls, result } =
            autoscaling.waiting_members(&filter, MAX_WAITING + 1, |state| waits(term, state)).await;
        metrics.sweep_calls(calls);
        if let Err(error) = result {
            return Err(failed(term, &error));
        }
        found
            .retained
            .extend(retained.into_iter().filter_map(|(group, id)| Some((id.parse().ok()?, group))));
        for (group, instance, state) in members {
            found.add(&group, &instance, &state);
        }
        pools.extend(with_warm_pool);
    }
    let (unknown, failure) = ask_warm_pools(term, pools, &mut found).await;
    // Without the right, the round is answered as far as it can be.
    let failure = failure.filter(|failure| *failure != RoundFailure::Denied);
    metrics.sweep(failure.map_or(SweepResult::Answered, rounds::label));
    report_retained(term, &retained.round_answered(found.retained, &unknown));
    metrics.set_retained_instances(retained.count());
    Ok(Answered { waiting: found.waiting.into_values().collect(), failure })
}

fn waits(term: &Term, state: &str) -> bool {
    WaitState::of(state).is_some_and(|state| is_acted_on(term, state))
}

/// Asks for these warm pools, until a call fails: the hooks of instances outside of warm pools are
/// found all the same, and the next round asks again. Returns the groups whose pools are not known,
/// and why.
async fn ask_warm_pools(
    term: &Term,
    pools: BTreeSet<GroupName>,
    found: &mut Found,
) -> (BTreeSet<GroupName>, Option<RoundFailure>) {
    if pools.len() > MAX_WARM_POOLS && term.is_first_report("the sweep has too many warm pools") {
        warn!(
            left_out = pools.len() - MAX_WARM_POOLS,
            "The cluster has more warm pools than a round of the sweep asks for. It finds no lost \
             events of the others."
        );
    }
    let autoscaling = term.shared.aws.autoscaling();
    let is_wanted = |state: &str| is_retained(state) || waits(term, state);
    let mut unknown = pools.clone();
    let mut answers = stream::iter(pools.into_iter().take(MAX_WARM_POOLS))
        .map(|group| async move {
            let pool = autoscaling.warm_pool(&group, MAX_WAITING + 1, is_wanted).await;
            (group, pool)
        })
        .buffer_unordered(CONCURRENT_WARM_POOLS);
    while let Some((group, WarmPool { members, calls, result })) = answers.next().await {
        term.shared.metrics.sweep_calls(calls);
        if let Err(error) = result {
            let failure = rounds::failure(&error);
            pool_failed(term, &error, failure);
            return (unknown, Some(failure));
        }
        unknown.remove(&group);
        for (instance, state) in members {
            found.add(&group, &instance, &state);
        }
    }
    (unknown, None)
}

fn pool_failed(term: &Term, error: &AwsError, failure: RoundFailure) {
    if failure == RoundFailure::Denied
        && term.is_first_report("the sweep may not ask for warm pools")
    {
        warn!(
            %error,
            "The sweep may not call DescribeWarmPool: if the event of an instance on its way into or \
             out of a warm pool is lost, its lifecycle hook times out. Allow \
             autoscaling:DescribeWarmPool in the role's policy."
        );
    } else {
        debug!(%error, "The sweep asks for the other warm pools in its next round.");
    }
}

/// Reports instances that their groups have begun to retain, or that a new leader sees first.
fn report_retained(term: &Term, new: &[(InstanceId, GroupName)]) {
    for (instance, group) in new.iter().take(MOST_REPORTED) {
        warn!(
            %instance, %group,
            "The group retains an instance, because a terminate hook of it was abandoned. It costs \
             money until somebody terminates it (TerminateInstanceInAutoScalingGroup)."
        );
        for node in term.shared.nodes.by_instance(instance) {
            term.note(EventNote {
                about: About::Node(node.name.clone()),
                severity: Severity::Warning,
                reason: EventReason::InstanceRetained,
                message: format!(
                    "Group {group} retains {instance}, because a terminate hook of it was \
                     abandoned. It costs money until somebody terminates it."
                ),
            });
        }
    }
    let others = new.len().saturating_sub(MOST_REPORTED);
    if others > 0 {
        warn!(others, "Groups retain more instances. The metric counts all of them.");
    }
}

fn failed(term: &Term, error: &AwsError) -> RoundFailure {
    let failure = rounds::failure(error);
    term.shared.metrics.sweep(rounds::label(failure));
    if failure == RoundFailure::Denied && term.is_first_report("the sweep is denied") {
        warn!(
            %error,
            "The sweep may not call DescribeAutoScalingGroups: if an event is lost, its lifecycle \
             hook times out. Allow autoscaling:DescribeAutoScalingGroups in the role's policy, or \
             set --sweep-interval 0s."
        );
    } else {
        debug!(%error, "A round of the sweep failed.");
    }
    failure
}
