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
        Retained, RetainedBy, RoundFailure, RoundRobin,
        sweep::{MAX_WAITING, Shown, WaitState, WaitingInstance},
    },
};

/// How many newly retained instances of one round are reported one by one.
const MOST_REPORTED: usize = 20;
/// How many warm pools a round asks for at most.
const MAX_WARM_POOLS: usize = 200;
/// How many of them it asks for at once.
const CONCURRENT_WARM_POOLS: usize = 4;

/// After how many warm pools that fail the round asks for no others.
const MAX_FAILED_POOLS: usize = 3;

/// What a round has found so far.
#[derive(Default)]
struct Found {
    waiting: BTreeMap<InstanceId, WaitingInstance>,
    retained: BTreeMap<InstanceId, RetainedBy>,
}

impl Found {
    fn add(&mut self, group: &GroupName, instance: &str, state: &str, is_in_warm_pool: bool) {
        let (Ok(instance), group) = (instance.parse::<InstanceId>(), group.clone()) else { return };
        if is_retained(state) {
            self.retained.insert(instance, RetainedBy { group, is_in_warm_pool });
        } else if let Some(state) = WaitState::of(state) {
            let waiting = WaitingInstance { instance: instance.clone(), group, state };
            self.waiting.insert(instance, waiting);
        }
    }
}

/// The questions of the rounds, and what one round leaves for the next one.
#[derive(Debug, Default)]
pub(super) struct SweepCalls {
    retained: Retained,
    pool_order: RoundRobin<GroupName>,
}

impl SweepCalls {
    /// Asks for the groups of this cluster: by each of the two tags that name it, 100 groups a call.
    /// Then asks for their warm pools, one call each. Each call has a time limit.
    pub(super) async fn ask(&mut self, term: &Term, cluster: &str) -> Result<Shown, RoundFailure> {
        let (mut found, pools) = ask_groups(term, cluster).await?;
        let (unknown, failure) = self.ask_warm_pools(term, pools, &mut found).await;
        // Without the permission, the answers about the groups are all there is: no failure.
        let failure = failure.filter(|failure| *failure != RoundFailure::Denied);
        let metrics = &term.shared.metrics;
        metrics.sweep(failure.map_or(SweepResult::Answered, rounds::label));
        report_retained(
            term,
            &self.retained.round_answered(term.shared.clock.now(), found.retained, &unknown),
        );
        metrics.set_retained_instances(self.retained.count());
        Ok(Shown { waiting: found.waiting.into_values().collect(), unknown, failure })
    }

    /// Asks AWS for the instances in these warm pools, and adds them to `found`. If AWS throttles
    /// or denies a call, or [`MAX_FAILED_POOLS`] fail, it asks for no others, and the next round
    /// begins with the pool of that call. What was found outside of warm pools still counts.
    /// Returns the groups whose pools are not known, and the last failure.
    async fn ask_warm_pools(
        &mut self,
        term: &Term,
        pools: BTreeSet<GroupName>,
        found: &mut Found,
    ) -> (BTreeSet<GroupName>, Option<RoundFailure>) {
        let autoscaling = term.shared.aws.autoscaling();
        let is_wanted = |state: &str| is_retained(state) || waits(term, state);
        let mut unknown = pools.clone();
        let all = pools.into_iter().collect();
        let (now, later) = self.pool_order.next(all, MAX_WARM_POOLS, GroupName::clone);
        if !later.is_empty() && term.is_first_report("the sweep has too many warm pools") {
            warn!(
                at_once = now.len(),
                later = later.len(),
                "The cluster has more warm pools than a round of the sweep asks for. It asks for the \
                 others in the next rounds."
            );
        }
        // In their order, so that it is known where the next round goes on.
        let mut answers = stream::iter(now)
            .map(|group| async move {
                let pool = autoscaling.warm_pool(&group, MAX_WAITING + 1, is_wanted).await;
                (group, pool)
            })
            .buffered(CONCURRENT_WARM_POOLS);
        let (mut last, mut failed) = (None, Vec::new());
        while let Some((group, WarmPool { members, calls, result })) = answers.next().await {
            term.shared.metrics.sweep_calls(calls);
            if let Err(error) = result {
                let failure = rounds::failure(&error);
                pool_failed(term, &error, failure);
                failed.push(failure);
                if failure != RoundFailure::Failed || failed.len() >= MAX_FAILED_POOLS {
                    self.pool_order.ended_after(last);
                    break;
                }
            } else {
                unknown.remove(&group);
                for (instance, state) in members {
                    found.add(&group, &instance, &state, true);
                }
            }
            last = Some(group);
        }
        (unknown, failed.pop())
    }
}

/// Asks for the groups of this cluster. Also returns the groups that have a warm pool.
async fn ask_groups(
    term: &Term,
    cluster: &str,
) -> Result<(Found, BTreeSet<GroupName>), RoundFailure> {
    let (mut found, mut pools) = (Found::default(), BTreeSet::new());
    for filter in GroupFilter::of_cluster(cluster) {
        let autoscaling = term.shared.aws.autoscaling();
        let WaitingMembers { members, retained, with_warm_pool, calls, result } =
            autoscaling.waiting_members(&filter, MAX_WAITING + 1, |state| waits(term, state)).await;
        term.shared.metrics.sweep_calls(calls);
        if let Err(error) = result {
            return Err(failed(term, &error));
        }
        for (group, instance) in retained {
            let by = RetainedBy { group, is_in_warm_pool: false };
            found.retained.extend(instance.parse().ok().map(|instance| (instance, by)));
        }
        for (group, instance, state) in members {
            found.add(&group, &instance, &state, false);
        }
        pools.extend(with_warm_pool);
    }
    Ok((found, pools))
}

fn waits(term: &Term, state: &str) -> bool {
    WaitState::of(state).is_some_and(|state| is_acted_on(term, state))
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
