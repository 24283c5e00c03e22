//! The sweep of a term: asks Auto Scaling for instances that wait in a lifecycle hook although no
//! event of it has arrived, and decides about each as if its event had come.
//! [`crate::triage::sweep`] decides when to ask and which instances to check.

mod ask;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::future::join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::ask::SweepCalls;
use super::{context::Term, decision::Decision, hook_claims};
use crate::{
    domain::{HookKey, HookName, InstanceId, Interruption, Moment, Transition, seconds},
    triage::{
        GroupHooks, HooksAnswer,
        sweep::{Candidate, Due, RoundEnd, Sweep, WaitState, WaitingInstance},
    },
};

/// How many instances are checked at once. Each takes some KB until it is decided.
const MAX_CONCURRENT_CHECKS: usize = 64;
/// How long a check lasts at most. What AWS has proved by then is decided without this limit, and
/// without a place among the [`MAX_CONCURRENT_CHECKS`].
const CHECK_TIMEOUT: std::time::Duration = seconds(60);
/// How long Auto Scaling may take to show the present state of an instance. Without an answer, the
/// state of the round counts.
const STATE_TIMEOUT: std::time::Duration = seconds(5);

/// Runs until the end of the term. A dry run does not start it: a heartbeat is a write.
/// `in_service`: instances that [`super::return_sweep`] has seen in service, and when it asked.
pub(super) async fn run(
    term: Arc<Term>,
    mut in_service: mpsc::UnboundedReceiver<(InstanceId, Moment)>,
) {
    let Some(interval) = term.shared.config.ours.sweep_interval else { return };
    let Some(cluster) = term.shared.config.ours.cluster_name.clone() else {
        info!(
            "Without --cluster-name, Sundown does not know which groups are ours: there is no \
             sweep for lifecycle hooks whose event was lost."
        );
        return;
    };
    if !WaitState::ALL.iter().any(|state| is_acted_on(&term, *state)) {
        return;
    }
    // Without the Nodes, every record would be missing.
    term.shared.nodes.synced().await;
    let (clock, random) = (term.shared.clock, term.shared.random.clone());
    let (unanswered, mut received) = mpsc::unbounded_channel();
    let checks = Checks::new(Arc::clone(&term), unanswered);
    let mut sweep = Sweep::new(clock.now(), interval, random.fraction());
    let mut asking = SweepCalls::default();
    loop {
        tokio::select! {
            Some(candidate) = received.recv() => {
                sweep.unanswered(clock.now(), &candidate);
                continue;
            }
            Some((instance, asked)) = in_service.recv() => {
                sweep.seen_in_service(&instance, asked);
                continue;
            }
            () = clock.sleep_until(sweep.next_at()) => {}
        }
        if sweep.is_round_due(clock.now()) {
            round(&term, &cluster, &mut sweep, &mut asking).await;
        }
        let Due { to_check: due, left_out } =
            sweep.due(clock.now(), checks.room(), |candidate| checks.unknown(candidate));
        for candidate in due {
            checks.start(candidate);
        }
        if left_out > 0 && term.is_first_report("the sweep has no room to check") {
            warn!(
                left_out,
                "More instances wait in lifecycle hooks than the sweep checks at once. It checks the \
                 others within minutes."
            );
        }
    }
}

/// Whether an instance in this state may wait in a hook whose kind `--on` does not ignore.
fn is_acted_on(term: &Term, state: WaitState) -> bool {
    state.transitions().iter().any(|transition| is_swept(term, state, *transition))
}

fn is_swept(term: &Term, state: WaitState, transition: Transition) -> bool {
    term.shared.policy.ignores(state.kind(transition)).is_none()
}

/// Asks Auto Scaling once which instances wait, and takes in the answer.
async fn round(term: &Term, cluster: &str, sweep: &mut Sweep, asking: &mut SweepCalls) {
    let (clock, random) = (term.shared.clock, &term.shared.random);
    let began = clock.now();
    sweep.round_begins(began);
    let round = asking.ask(term, cluster).await;
    if let Ok(shown) = &round {
        term.actions.note_round(began, shown);
    }
    let only_pools_failed = round.is_ok();
    let RoundEnd { left_out, fails_too_often } =
        sweep.round_ended(clock.now(), round, random.fraction());
    if left_out > 0 {
        warn!(
            left_out,
            "More instances wait in lifecycle hooks than the sweep remembers. A later round finds \
             the others."
        );
    }
    if fails_too_often && only_pools_failed {
        warn!(
            "In several rounds of the sweep in a row, a warm pool was not answered: while that \
             lasts, nothing finds lost events of instances in some warm pools. The log says why at \
             level debug."
        );
    } else if fails_too_often {
        warn!(
            "Several rounds of the sweep in a row have failed or were throttled: while that lasts, \
             nothing finds lifecycle hooks whose event is lost. The log says why at level debug."
        );
    }
}

/// The instances that are being checked.
#[derive(Clone)]
struct Checks {
    term: Arc<Term>,
    slots: Arc<Semaphore>,
    under_way: Arc<Mutex<BTreeSet<HookKey>>>,
    /// Takes the candidates about which AWS gave no answer. Each check sends one at most.
    unanswered: mpsc::UnboundedSender<Candidate>,
}

impl Checks {
    fn new(term: Arc<Term>, unanswered: mpsc::UnboundedSender<Candidate>) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_CHECKS));
        Self { term, slots, under_way: Arc::default(), unanswered }
    }

    /// How many more instances may be checked now.
    fn room(&self) -> usize {
        self.slots.available_permits()
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeSet<HookKey>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of our hooks in which the instance may wait whose action Sundown does not handle yet:
    /// no record names it (or one that may be it), it has no task, it was not completed during this
    /// wait, and no check of it runs. Makes no call: `None` if the hooks of the group are not known
    /// yet.
    fn unknown(&self, candidate: &Candidate) -> Option<BTreeSet<HookName>> {
        let hooks = self.term.shared.lookups.hooks.before(&candidate.waiting.group)?;
        let mut ours = self.ours(&hooks, candidate.waiting.state);
        ours.retain(|(hook, transition)| !self.is_known(candidate, hook.clone(), *transition));
        Some(ours.into_iter().map(|(hook, _)| hook).collect())
    }

    /// The hooks of this group that Sundown answers, and in which an instance in this state may wait.
    fn ours(&self, hooks: &GroupHooks, state: WaitState) -> Vec<(HookName, Transition)> {
        let of = |transition: &Transition| {
            let is_swept = is_swept(&self.term, state, *transition);
            let swept = self.term.shared.policy.hooks.swept(hooks, *transition);
            let transition = *transition;
            swept.into_iter().filter(move |_| is_swept).map(move |hook| (hook, transition))
        };
        state.transitions().iter().flat_map(of).collect()
    }

    fn is_known(&self, candidate: &Candidate, hook: HookName, transition: Transition) -> bool {
        let key = HookKey {
            instance: candidate.waiting.instance.clone(),
            group: candidate.waiting.group.clone(),
            hook: hook.clone(),
        };
        if self.under_way().contains(&key) || self.term.actions.knows(&key, candidate) {
            return true;
        }
        if transition == Transition::Launching {
            // No record shows that a launch hook is completed.
            return false;
        }
        let interruption = self.interruption(candidate, hook, transition);
        let nodes = self.term.shared.nodes.by_instance(&key.instance);
        !nodes.is_empty() && nodes.iter().all(|node| self.term.is_recorded(node, &interruption))
    }

    fn interruption(
        &self,
        candidate: &Candidate,
        hook: HookName,
        transition: Transition,
    ) -> Interruption {
        let hooks = &self.term.shared.lookups.hooks;
        let metadata = hooks.settings_before(&candidate.waiting.group, &hook);
        let at = self.term.skew().to_aws(candidate.first_seen);
        candidate.interruption(hook, transition, at, metadata)
    }

    /// Checks an instance, in a task of its own that ends with the term.
    fn start(&self, candidate: Candidate) {
        // The sweep is the only caller, so there is a slot.
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else { return };
        let checks = self.clone();
        self.term.spawn(async move {
            if !checks.check(&candidate, slot).await {
                checks.unanswered.send(candidate).ok();
            }
        });
    }

    /// Asks for the hooks of its group, and decides about each of ours that is not known, about all
    /// at the same time. AWS shows only by its answer to a heartbeat whether the instance waits in
    /// it. Returns whether AWS answered.
    async fn check(&self, candidate: &Candidate, slot: OwnedSemaphorePermit) -> bool {
        let group = &candidate.waiting.group;
        let asking = hook_claims::ask(&self.term, group);
        let hooks = match tokio::time::timeout(CHECK_TIMEOUT, asking).await {
            Ok(Some(HooksAnswer::Described(hooks))) => hooks,
            Ok(Some(HooksAnswer::Denied)) => {
                if self.term.is_first_report("the sweep cannot see hooks") {
                    warn!(
                        %group,
                        "DescribeLifecycleHooks is denied: the sweep does not know in which hooks \
                         of ours an instance may wait. Allow autoscaling:DescribeLifecycleHooks in \
                         the role's policy."
                    );
                }
                return true;
            }
            Ok(None) | Err(_) => return false,
        };
        // If it does not wait now, a later round finds its next wait.
        let Some(candidate) = self.as_shown_now(candidate).await else { return true };
        let mut unknown = self.ours(&hooks, candidate.waiting.state);
        unknown.retain(|(hook, of)| !self.is_known(&candidate, hook.clone(), *of));
        let give_up = CancellationToken::new();
        let of_each = unknown.into_iter().map(|of| self.decide(&candidate, of, &give_up));
        let deciding = join_all(of_each);
        tokio::pin!(deciding);
        let answered = tokio::select! {
            answered = &mut deciding => answered,
            () = tokio::time::sleep(CHECK_TIMEOUT) => {
                give_up.cancel();
                drop(slot);
                deciding.await
            }
        };
        answered.into_iter().all(|is_answered| is_answered)
    }

    /// The candidate in the state that its group shows now. `None`: it does not wait any longer.
    async fn as_shown_now(&self, candidate: &Candidate) -> Option<Candidate> {
        let WaitingInstance { instance, group, .. } = &candidate.waiting;
        let members = &self.term.shared.lookups.members;
        let asking = members.state_since(group, instance, tokio::time::Instant::now());
        match tokio::time::timeout(STATE_TIMEOUT, asking).await {
            Ok(Ok(state)) => candidate.in_state(state.as_deref(), self.term.shared.clock.now()),
            Ok(Err(_)) | Err(_) => Some(candidate.clone()),
        }
    }

    /// Decides about a hook in which the instance may wait. Returns whether AWS answered.
    async fn decide(
        &self,
        candidate: &Candidate,
        (hook, transition): (HookName, Transition),
        give_up: &CancellationToken,
    ) -> bool {
        let WaitingInstance { instance, group, .. } = &candidate.waiting;
        let key = HookKey { instance: instance.clone(), group: group.clone(), hook: hook.clone() };
        let _under_way = CheckInFlight::new(self, key);
        let interruption = self.interruption(candidate, hook, transition);
        let term = Arc::clone(&self.term);
        let mut decision = Decision::found_by_sweep(term, interruption, candidate, give_up.clone());
        Box::pin(decision.decide()).await;
        decision.is_answered()
    }
}

/// An action that is being checked.
struct CheckInFlight<'a> {
    checks: &'a Checks,
    key: HookKey,
}

impl<'a> CheckInFlight<'a> {
    fn new(checks: &'a Checks, key: HookKey) -> Self {
        checks.under_way().insert(key.clone());
        Self { checks, key }
    }
}

impl Drop for CheckInFlight<'_> {
    fn drop(&mut self) {
        self.checks.under_way().remove(&self.key);
    }
}
