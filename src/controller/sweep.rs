//! The sweep of a term: asks Auto Scaling for instances that wait in a lifecycle hook although no
//! event of it has arrived, and decides about each as if its event had come.
//! [`crate::triage::sweep`] decides when to ask and which instances to look into.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, info, warn};

use super::{context::Term, decision::Decision, hook_claims};
use crate::{
    aws::{AwsError, GroupFilter, Outcome, WaitingMembers},
    domain::{HookKey, HookName, InstanceId, Interruption, Transition},
    observe::SweepResult,
    record,
    triage::{
        GroupHooks, HooksAnswer,
        sweep::{MOST, Round, Sighting, Sweep, WaitState, WaitingInstance},
    },
};

/// How many instances are looked into at once. Each takes some KB until it is decided.
const AT_ONCE: usize = 64;

/// Runs until the end of the term. A dry run does not start it: a heartbeat is a write.
pub(super) async fn run(term: Arc<Term>) {
    let Some(interval) = term.shared.config.ours.sweep_interval else { return };
    let Some(cluster) = term.shared.config.ours.cluster_name.clone() else {
        info!(
            "Without --cluster-name, Sundown does not know which groups are ours: there is no \
             sweep for lifecycle hooks whose event was lost."
        );
        return;
    };
    // Without the Nodes, every record would be missing.
    term.shared.nodes.synced().await;
    let (clock, random) = (term.shared.clock, term.shared.random.clone());
    let looks = Looks::new(Arc::clone(&term));
    let mut sweep = Sweep::new(clock.now(), interval, random.fraction());
    loop {
        clock.sleep_until(sweep.next_at()).await;
        if sweep.is_round_due(clock.now()) {
            let round = ask(&term, &cluster).await;
            let left_out = sweep.round_ended(clock.now(), round, random.fraction());
            if left_out > 0 {
                warn!(
                    left_out,
                    "More instances wait in lifecycle hooks than the sweep remembers. A later \
                     round finds the others."
                );
            }
        }
        let room = looks.room();
        for sighting in sweep.due(clock.now(), room, |sighting| looks.are_all_known(sighting)) {
            looks.start(sighting);
        }
    }
}

/// Asks for the groups of this cluster: by each of the two tags that name it, 100 groups a call.
/// Each call has a time limit.
async fn ask(term: &Term, cluster: &str) -> Round {
    let filters = [
        GroupFilter::TagKey(format!("kubernetes.io/cluster/{cluster}")),
        GroupFilter::Tag("eks:cluster-name".to_owned(), cluster.to_owned()),
    ];
    let metrics = &term.shared.metrics;
    let mut found = BTreeMap::new();
    for filter in filters {
        let waits = |state: &str| WaitState::of(state).is_some();
        let WaitingMembers { members, calls, result } =
            term.shared.aws.autoscaling().waiting_members(&filter, MOST + 1, waits).await;
        metrics.sweep_calls(calls);
        if let Err(error) = result {
            return failed(term, &error);
        }
        // Most groups have both tags.
        let waiting = members.into_iter().filter_map(|(group, instance, state)| {
            let (instance, state): (InstanceId, _) =
                (instance.parse().ok()?, WaitState::of(&state)?);
            Some((instance.clone(), WaitingInstance { instance, group, state }))
        });
        found.extend(waiting);
    }
    metrics.sweep(SweepResult::Answered);
    Round::Answered(found.into_values().collect())
}

fn failed(term: &Term, error: &AwsError) -> Round {
    let (round, result) = match error.outcome() {
        Outcome::Throttled => (Round::Throttled, SweepResult::Throttled),
        Outcome::Denied => (Round::Denied, SweepResult::Denied),
        _ => (Round::Failed, SweepResult::Failed),
    };
    term.shared.metrics.sweep(result);
    if round == Round::Denied && term.is_first_report("the sweep is denied") {
        warn!(
            %error,
            "The sweep may not call DescribeAutoScalingGroups: if an event is lost, its lifecycle \
             hook times out. Allow autoscaling:DescribeAutoScalingGroups in the role's policy, or \
             set --sweep-interval 0s."
        );
    } else {
        debug!(%error, "A round of the sweep failed.");
    }
    round
}

/// The instances that are being looked into.
#[derive(Clone)]
struct Looks {
    term: Arc<Term>,
    slots: Arc<Semaphore>,
    under_way: Arc<Mutex<BTreeSet<HookKey>>>,
}

impl Looks {
    fn new(term: Arc<Term>) -> Self {
        Self { term, slots: Arc::new(Semaphore::new(AT_ONCE)), under_way: Arc::default() }
    }

    /// How many more instances may be looked into now.
    fn room(&self) -> usize {
        self.slots.available_permits()
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeSet<HookKey>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether each action of our hooks in which the instance may wait is known, as far as that
    /// shows without a call: a record holds it, its message is in hand, or it is being looked into.
    fn are_all_known(&self, sighting: &Sighting) -> bool {
        let group = &sighting.waiting.group;
        let Some(hooks) = self.term.shared.lookups.hooks.before(group) else { return false };
        self.ours(&hooks).into_iter().all(|hook| self.is_known(sighting, hook))
    }

    /// The hooks of ours in these of a group.
    fn ours(&self, hooks: &GroupHooks) -> Vec<HookName> {
        self.term.shared.policy.hooks.completed(hooks, Transition::Terminating)
    }

    fn is_known(&self, sighting: &Sighting, hook: HookName) -> bool {
        let key = HookKey {
            instance: sighting.waiting.instance.clone(),
            group: sighting.waiting.group.clone(),
            hook: hook.clone(),
        };
        if self.under_way().contains(&key) || self.term.actions.knows(&key, sighting.first_seen) {
            return true;
        }
        let interruption = self.interruption(sighting, hook);
        let nodes = self.term.shared.nodes.by_instance(&key.instance);
        !nodes.is_empty() && nodes.iter().all(|node| record::recognize(node, &interruption))
    }

    fn interruption(&self, sighting: &Sighting, hook: HookName) -> Interruption {
        sighting.interruption(hook, self.term.skew().to_aws(sighting.first_seen))
    }

    /// Looks into an instance, in a task of its own that ends with the term.
    fn start(&self, sighting: Sighting) {
        // The sweep is the only caller, so there is a slot.
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else { return };
        self.term.spawn(self.clone().look(sighting, slot));
    }

    /// Asks for the hooks of its group, and decides about each of ours that is not known. AWS shows
    /// only by its answer to a heartbeat whether the instance waits in it.
    async fn look(self, sighting: Sighting, _slot: OwnedSemaphorePermit) {
        let WaitingInstance { instance, group, state } = &sighting.waiting;
        // The lookup limits how long its calls take. Without an answer, a later look asks again.
        let hooks = match hook_claims::ask(&self.term, group).await {
            Some(HooksAnswer::Described(hooks)) => hooks,
            Some(HooksAnswer::Denied) => {
                if self.term.is_first_report("the sweep cannot see hooks") {
                    warn!(
                        %group,
                        "DescribeLifecycleHooks is denied: the sweep does not know in which hooks \
                         of ours an instance may wait. Allow autoscaling:DescribeLifecycleHooks in \
                         the role's policy."
                    );
                }
                return;
            }
            None => return,
        };
        for hook in self.ours(&hooks) {
            if self.is_known(&sighting, hook.clone()) {
                continue;
            }
            let key =
                HookKey { instance: instance.clone(), group: group.clone(), hook: hook.clone() };
            let _under_way = UnderWay::new(&self, key);
            if sighting.looked == 0 {
                self.term.shared.metrics.sweep_found();
                info!(
                    %instance, %group, %hook, state = state.as_str(),
                    first_seen = %format_args!("{:.0}", sighting.first_seen),
                    "The sweep found an instance that waits, and no event of it has arrived. A \
                     heartbeat shows whether it waits in this hook."
                );
            }
            let interruption = self.interruption(&sighting, hook);
            let term = Arc::clone(&self.term);
            Decision::found_by_sweep(term, interruption, sighting.first_seen).decide().await;
        }
    }
}

/// An action that is being looked into.
struct UnderWay<'a> {
    looks: &'a Looks,
    key: HookKey,
}

impl<'a> UnderWay<'a> {
    fn new(looks: &'a Looks, key: HookKey) -> Self {
        looks.under_way().insert(key.clone());
        Self { looks, key }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.looks.under_way().remove(&self.key);
    }
}
