//! The table. Read it from [`triage`] downwards: in each function, the first row that applies
//! decides.

mod launch_hook;
mod which_node;

use std::{sync::Arc, time::Duration};

use super::{
    Accept, ActionEndSeen, Certainty, HookClaim, HooksAnswer, Knowledge, Policy, Question, Reason,
    Verdict, Wait,
    owner::{self, Owner},
    proof,
};
use crate::domain::{
    Cause, ChangeAction, HookAction, Impairment, InstanceState, Interruption, LifecycleAction,
    Moment, Node, PoolEnd, Ready, Response, Symptom, Transition, seconds,
};

/// How old EC2's answer about an instance may be if only its cluster is of interest. A queue full
/// of events of another cluster causes one call.
const MAX_OWNER_AGE: Duration = seconds(300);
/// The interval at which EC2 is asked about an instance that has no Node yet.
const RECHECK_INTERVAL: Duration = seconds(60);
/// If the index is still not trusted after this long, Sundown asks AWS whether a hook is ours, so
/// that it can send heartbeats.
const INDEX_WAIT: Duration = seconds(10);
/// How long EC2 is asked which of several Nodes belongs to the instance. A spot notice leaves 120
/// s.
const CLAIMS_WAIT: Duration = seconds(5);

/// How long after the first question the drain of a node waits for the description of its group's
/// hooks. Then it begins without.
const HOOKS_WAIT: Duration = seconds(1);

/// Decides what to do with an interruption, from what is known about it.
#[must_use]
pub fn triage(
    interruption: &Interruption,
    known: &Knowledge,
    policy: &Policy,
    now: Moment,
) -> Verdict {
    let case = Case { interruption, known, policy, now };
    let verdict = match &interruption.cause {
        Cause::Terminate(_) | Cause::Launch(_) if case.hook_claim() == HookClaim::Foreign => {
            policy.dispose(Reason::ForeignHook)
        }
        _ if case.response() == Response::Ignore => case.not_acted_on(Reason::Ignored),
        Cause::Terminate(_) if known.action_end == ActionEndSeen::Completed => {
            policy.dispose(Reason::Stale)
        }
        Cause::ScheduledChange(notice) if policy.is_elsewhere(notice.region.as_deref()) => {
            policy.dispose(Reason::Foreign)
        }
        Cause::ScheduledChange(notice) if notice.action() == ChangeAction::Report => {
            case.not_acted_on(Reason::Reported)
        }
        // In another cluster a recommendation may count for longer.
        Cause::Rebalance if known.age(now) > policy.rebalance_ttl => {
            case.not_acted_on(Reason::Stale)
        }
        Cause::Launch(action) => case.launch_hook(action),
        // The index may show the Node soon, and the Node may have to be restored.
        Cause::LaunchSuccessful { .. } if !known.index_trusted && case.node().is_none() => {
            wait(Vec::new(), None)
        }
        Cause::LaunchSuccessful { .. } => case.not_acted_on(Reason::NothingToDo),
        Cause::StateChange(state) if !state.is_ending() => policy.dispose(Reason::Irrelevant),
        Cause::Impaired(sick) if case.is_recovered(sick) => policy.dispose(Reason::Stale),
        Cause::Terminate(_)
        | Cause::Spot(_)
        | Cause::CapacityReservation { .. }
        | Cause::CapacityBlock { .. }
        | Cause::Rebalance
        | Cause::ScheduledChange(_)
        | Cause::Impaired(_)
        | Cause::Request(_)
        | Cause::StateChange(_) => match case.node() {
            Some(node) => case.with_node(node),
            None if case.may_be_named_after() => wait(case.questions_of_name(), None),
            None if !known.index_trusted => case.while_index_is_not_trusted(),
            None => case.without_node(),
        },
    };
    case.wait_for_hook_claim(verdict)
}

/// Sundown sends heartbeats for the lifecycle action of this interruption, because it answers the
/// hook or may answer it (unless [`heartbeats_wait`] delays them). Sundown must manage the Node.
/// Without a Node, the tags decide.
#[must_use]
pub fn heartbeats(interruption: &Interruption, known: &Knowledge, policy: &Policy) -> bool {
    let case = Case { interruption, known, policy, now: known.received };
    if case.response() == Response::Ignore {
        return false;
    }
    let is_managed = |node: Arc<Node>| case.is_managed(&node);
    let ours = match (&interruption.cause, case.node()) {
        (Cause::Launch(action), node) => {
            node.is_none_or(|node| !node.ignored()) && case.is_launch_ours(action) == Some(true)
        }
        (Cause::Terminate(_), Some(node)) => is_managed(node),
        (Cause::Terminate(_), None) => case.is_tagged_ours(),
        _ => return false,
    };
    case.hook_claim() != HookClaim::Foreign && ours && case.has_managed_tag() == Some(true)
}

/// Heartbeats must wait: an answer that is expected soon may show that the hook or the Node is
/// another party's.
#[must_use]
pub fn heartbeats_wait(
    interruption: &Interruption,
    known: &Knowledge,
    policy: &Policy,
    now: Moment,
) -> bool {
    let case = Case { interruption, known, policy, now };
    case.waits_for_hooks() || case.may_be_unmanaged()
}

/// The Node does not show that its instance is healthy again.
#[must_use]
pub fn is_sick(sick: &Impairment, node: &Node) -> bool {
    sick.symptom != Symptom::NotReady || node.ready != Ready::True
}

fn asks_for_heartbeat(wait: &Wait) -> bool {
    wait.ask.iter().any(|question| matches!(question, Question::Heartbeat(_)))
}

struct Case<'a> {
    interruption: &'a Interruption,
    known: &'a Knowledge,
    policy: &'a Policy,
    now: Moment,
}

impl Case<'_> {
    /// Whether Sundown answers the hook; [`HookClaim::Ours`] if the interruption has none.
    fn hook_claim(&self) -> HookClaim {
        self.claim_by(self.known.hooks.as_ref())
    }

    fn claim_by(&self, group: Option<&HooksAnswer>) -> HookClaim {
        let transition = match &self.interruption.cause {
            Cause::Launch(_) => Transition::Launching,
            _ => Transition::Terminating,
        };
        let before = self.known.hooks_before.as_ref();
        let claim = |action: &HookAction| {
            self.policy.hooks.claim_after(&action.hook, transition, group, before)
        };
        self.interruption.hook().map_or(HookClaim::Ours, claim)
    }

    /// It is not decided yet whether Sundown answers the hook, so it gets no drain and no
    /// heartbeat.
    fn waits_for_hooks(&self) -> bool {
        self.hook_claim() == HookClaim::Undecided
            && self.drains_from().is_none_or(|from| self.now < from)
    }

    /// When the drain begins without a description of the group's hooks. `None`: it must wait for
    /// one, because the hook was another party's by the last description.
    fn drains_from(&self) -> Option<Moment> {
        let was_foreign = self.claim_by(self.known.hooks_before.as_ref()) == HookClaim::Foreign;
        (!was_foreign).then(|| self.known.hooks_asked_at.unwrap_or(self.now).plus(HOOKS_WAIT))
    }

    // It must be decided whether Sundown answers the hook before the hook is completed. A drain
    // waits for that only a short time, because pods need the time and completion comes later.
    fn wait_for_hook_claim(&self, verdict: Verdict) -> Verdict {
        let Some(action) =
            self.interruption.hook().filter(|_| self.hook_claim() == HookClaim::Undecided)
        else {
            return verdict;
        };
        let until = match verdict {
            Verdict::Accept(_) if !self.waits_for_hooks() => return verdict,
            Verdict::Accept(_) => self.drains_from(),
            Verdict::Complete(_) | Verdict::AnswerLaunch(_) => None,
            // The hooks are asked for at the same time as the other questions, which may take
            // longer. An instance of this cluster without a Node gets heartbeats meanwhile, too.
            Verdict::Wait(mut waits)
                if self.node().is_some() || self.is_tagged_ours() || asks_for_heartbeat(&waits) =>
            {
                waits.ask.push(Question::Hooks(action.group.clone()));
                if self.waits_for_hooks() && asks_for_heartbeat(&waits) {
                    // A heartbeat that proves an action also keeps it open, but Sundown must not
                    // keep another party's hook open.
                    waits.ask.retain(|question| !matches!(question, Question::Heartbeat(_)));
                    waits.until = waits.until.into_iter().chain(self.drains_from()).min();
                    waits.proof = false;
                }
                return Verdict::Wait(waits);
            }
            Verdict::Wait(_) | Verdict::Plan(_) | Verdict::Delete(_) | Verdict::GiveBack(_) => {
                return verdict;
            }
        };
        wait(vec![Question::Hooks(action.group.clone())], until)
    }

    /// Nothing shows any longer that the instance is sick: its Node is Ready again or gone, or the
    /// index cannot be trusted. The sweep finds it again if it is sick.
    fn is_recovered(&self, sick: &Impairment) -> bool {
        !self.known.index_trusted || self.node().is_none_or(|node| !is_sick(sick, &node))
    }

    /// What Sundown does about this kind of interruption.
    fn response(&self) -> Response {
        self.policy.responses.of(self.interruption.kind())
    }

    // Interruptions that `--on` ignores, and those on which Sundown does not act: scheduled changes
    // that are only reported, recommendations that are too old, instances that leave a warm pool, and
    // launch hooks that nothing shows to be Sundown's.
    fn not_acted_on(&self, reason: Reason) -> Verdict {
        let others_may_act = self.policy.shared_queue && self.node().is_none();
        if others_may_act { Verdict::GiveBack(reason) } else { Verdict::Delete(reason) }
    }

    // A managed tag is required, and the instance lacks it, or its tags are not known yet.
    fn without_managed_tag(&self) -> Option<Verdict> {
        match self.has_managed_tag() {
            Some(true) => None,
            Some(false) => Some(self.policy.dispose(Reason::NotManaged)),
            None => Some(wait(self.questions_of_managed_tag(), None)),
        }
    }

    // The instance has a Node.
    fn with_node(&self, node: Arc<Node>) -> Verdict {
        if let Some(verdict) = self.ask_which_node() {
            return verdict;
        }
        if !self.is_managed(&node) {
            return self.policy.dispose(Reason::NotManaged);
        }
        if let Some(verdict) = self.without_managed_tag() {
            return verdict;
        }
        if !proof::is_stale(self.interruption, self.known, &self.policy.staleness, self.now) {
            return self.accept(node, Certainty::Timely);
        }
        match proof::holds_at(self.interruption, self.known, self.now) {
            Some(true) => self.accept(node, Certainty::Proved),
            Some(false) => self.policy.dispose(Reason::Stale),
            None => self.unproved(node),
        }
    }

    // The interruption is stale, and neither proved nor disproved.
    fn unproved(&self, node: Arc<Node>) -> Verdict {
        let given_up = self
            .known
            .proof_asked_since(self.now)
            .unwrap_or(self.now)
            .plus(self.policy.staleness.cannot_ask);
        if self.now < given_up {
            return self.wait_for_proof(given_up);
        }
        if self.known.is_found_by_sweep {
            // A later round finds it again.
            return self.policy.dispose(Reason::Stale);
        }
        self.accept(node, Certainty::Unproved)
    }

    fn wait_for_proof(&self, until: Moment) -> Verdict {
        Verdict::Wait(Wait {
            ask: proof::questions(self.interruption, self.known, self.now),
            until: Some(until),
            proof: true,
            launch: None,
        })
    }

    // The sweep found it, no record shows whether it is true, and AWS has not proved it.
    fn unproved_by_sweep(&self) -> Option<Verdict> {
        if !self.known.is_found_by_sweep {
            return None;
        }
        match proof::holds_at(self.interruption, self.known, self.now) {
            Some(true) => None,
            Some(false) => Some(self.policy.dispose(Reason::Stale)),
            None => {
                let asked_at = self.known.proof_asked_since(self.now).unwrap_or(self.now);
                let given_up = asked_at.plus(self.policy.staleness.cannot_ask);
                Some(if self.now < given_up {
                    self.wait_for_proof(given_up)
                } else {
                    self.policy.dispose(Reason::Stale)
                })
            }
        }
    }

    // The index is not trusted, so a missing Node proves nothing. Meanwhile, Sundown finds out
    // whether the hook needs heartbeats.
    fn while_index_is_not_trusted(&self) -> Verdict {
        let mut ask = self.question_of_group();
        if self.has_managed_tag().is_none() {
            ask.extend(
                self.questions_of_managed_tag()
                    .into_iter()
                    .filter(|q| matches!(q, Question::Instance { .. })),
            );
        }
        let waits_until = self.known.received.plus(INDEX_WAIT);
        if self.policy.cluster_name.is_none() || self.lifecycle_action().is_none() || ask.is_empty()
        {
            wait(Vec::new(), None)
        } else if self.now < waits_until {
            wait(Vec::new(), Some(waits_until))
        } else {
            wait(ask, None)
        }
    }

    // The instance has no Node.
    fn without_node(&self) -> Verdict {
        let Some(_) = self.known.instance else { return wait(self.questions_of_owner(), None) };
        match owner::owner(self.interruption, self.known, self.policy) {
            Owner::Ours => self.ours_without_node(),
            Owner::Foreign => self.policy.dispose(Reason::Foreign),
            Owner::NotReadYet => wait(self.questions_of_owner(), None),
            Owner::Unknown => self.without_owner(),
        }
    }

    // It cannot be found out to which cluster the instance belongs, so its hook is not completed
    // and gets no heartbeats.
    fn without_owner(&self) -> Verdict {
        let exists = self.known.instance.as_ref().is_some_and(|answer| answer.facts.is_some());
        if !exists && self.lifecycle_action().is_none() {
            return self.policy.dispose(Reason::Foreign);
        }
        // On a shared queue, waiting would keep the message from the cluster to which it belongs.
        if self.policy.shared_queue || self.now >= self.joins_until() {
            return self.policy.dispose(Reason::Unknown);
        }
        wait(Vec::new(), Some(self.joins_until()))
    }

    // The instance belongs to this cluster and has no Node.
    fn ours_without_node(&self) -> Verdict {
        if let Some(verdict) = self.without_managed_tag().or_else(|| self.unproved_by_sweep()) {
            return verdict;
        }
        // An answer that is older than the message shows the cluster of the instance, but not its
        // current state.
        let Some(answer) =
            self.known.instance.as_ref().filter(|answer| answer.at >= self.known.received)
        else {
            return wait(vec![self.question_of_instance(self.known.received)], None);
        };
        let never_joins = proof::state_in(answer).is_ending() || self.leaves_warm_pool();
        let due = if never_joins { self.known.received } else { self.joins_until() };
        if self.now < due {
            let recheck_at = answer.at.plus(RECHECK_INTERVAL);
            let ask = if self.now < recheck_at {
                Vec::new()
            } else {
                vec![self.question_of_instance(recheck_at)]
            };
            return wait(ask, Some(if self.now < recheck_at { due.min(recheck_at) } else { due }));
        }
        let Some(open_action) = self.lifecycle_action() else {
            return self.policy.dispose(Reason::NoNode);
        };
        let not_before = due.max(answer.at);
        match &self.known.listed {
            Some((at, _)) if *at >= not_before => Verdict::Complete(open_action),
            _ => wait(vec![Question::List { not_before }], None),
        }
    }

    fn is_managed(&self, node: &Node) -> bool {
        !node.ignored() && self.policy.nodes.matches(&node.labels)
    }

    fn is_tagged_ours(&self) -> bool {
        owner::owner(self.interruption, self.known, self.policy) == Owner::Ours
    }

    fn has_managed_tag(&self) -> Option<bool> {
        owner::has_managed_tag(self.known, self.policy, self.interruption.hook().is_some())
    }

    /// The instance is terminated out of the warm pool. It will not become a Node, whether it ever
    /// was one or not.
    fn leaves_warm_pool(&self) -> bool {
        matches!(
            &self.interruption.cause,
            Cause::Terminate(action) if action.origin == Some(PoolEnd::WarmPool)
        )
    }

    /// Until when a running instance may still become a Node.
    fn joins_until(&self) -> Moment {
        let launched = self
            .known
            .instance
            .as_ref()
            .and_then(|answer| answer.facts.as_ref())
            .and_then(|facts| facts.launched);
        launched.unwrap_or(self.known.received).plus(self.policy.join_timeout)
    }

    fn lifecycle_action(&self) -> Option<LifecycleAction> {
        self.interruption.lifecycle_action(&self.interruption.instance)
    }

    fn accept(&self, node: Arc<Node>, certainty: Certainty) -> Verdict {
        let is_old_stop = proof::is_old_stop(self.known, self.now);
        let state: Option<InstanceState> = proof::state(self.known).filter(|_| !is_old_stop);
        let others = self.claims().map(|claims| claims.others).unwrap_or_default();
        let accept = Accept {
            node,
            instance: self.interruption.instance.clone(),
            response: self.response(),
            certainty,
            claim: self.hook_claim(),
            state,
            others,
        };
        match self.interruption.cause {
            Cause::ScheduledChange(_) => Verdict::Plan(accept),
            _ => Verdict::Accept(accept),
        }
    }

    fn question_of_instance(&self, not_before: Moment) -> Question {
        Question::Instance { instance: self.interruption.instance.clone(), not_before }
    }

    fn question_of_group(&self) -> Vec<Question> {
        let unread = self.interruption.hook().filter(|_| self.known.group.is_none());
        unread.map(|action| Question::Group(action.group.clone())).into_iter().collect()
    }

    // Both questions are asked at once, so that the second does not wait for the first.
    fn questions_of_owner(&self) -> Vec<Question> {
        let instance = self
            .known
            .instance
            .is_none()
            .then(|| self.question_of_instance(self.known.received.minus(MAX_OWNER_AGE)));
        let group =
            if self.policy.cluster_name.is_some() { self.question_of_group() } else { Vec::new() };
        instance.into_iter().chain(group).collect()
    }

    fn questions_of_managed_tag(&self) -> Vec<Question> {
        let instance = self
            .known
            .instance
            .is_none()
            .then(|| self.question_of_instance(self.known.received.minus(MAX_OWNER_AGE)));
        if let Some(instance) = instance { vec![instance] } else { self.question_of_group() }
    }
}

fn wait(ask: Vec<Question>, until: Option<Moment>) -> Verdict {
    Verdict::Wait(Wait { ask, until, proof: false, launch: None })
}
