//! The table itself. Read it from [`triage`] downwards: in each function the first row that applies
//! decides.

use std::{sync::Arc, time::Duration};

use super::{
    Accept, Certainty, HookClaim, HooksAnswer, Knowledge, Policy, Question, Reason, Verdict, Wait,
    claims::{self, Claims},
    owner::{self, Owner},
    proof,
};
use crate::domain::{
    HookAction, InstanceState, Interruption, LifecycleAction, Moment, Node, PoolEnd, Transition,
    What, seconds,
};

/// How old what EC2 said of an instance may be when it only tells whose it is: a queue full of
/// foreign events asks once.
const OWNER_MEMORY: Duration = seconds(300);
/// How often an instance that has not become a Node yet is looked at again.
const LOOK_AGAIN: Duration = seconds(60);
/// If the index is still not trusted after this long, Sundown asks AWS whether a hook is ours, so
/// that it can send heartbeats.
const PATIENCE_WITH_INDEX: Duration = seconds(10);
/// For how long EC2 is asked which of several Nodes is the instance's. A spot notice leaves 120 s.
const PATIENCE_WITH_CLAIMS: Duration = seconds(5);

/// A node that the cluster knows waits this long, from the first question, for the description of
/// its group's hooks. Then its drain begins without it.
const PATIENCE_WITH_HOOKS: Duration = seconds(1);

/// What to do with an interruption, given what is known of it.
#[must_use]
pub fn triage(
    interruption: &Interruption,
    known: &Knowledge,
    policy: &Policy,
    now: Moment,
) -> Verdict {
    let case = Case { interruption, known, policy, now };
    let verdict = match &interruption.what {
        What::Terminate(_) | What::Launch(_) if case.hook_claim() == HookClaim::Foreign => {
            policy.dispose(Reason::ForeignHook)
        }
        What::Launch(action) => case.launch_hook(action),
        // The index may have the Node in a moment, and its record may have to be put back.
        What::LaunchSuccessful { .. } if !known.index_trusted && case.node().is_none() => {
            wait(Vec::new(), None)
        }
        What::Rebalance | What::Health(_) | What::LaunchSuccessful { .. } => {
            case.not_acted_on_yet()
        }
        What::StateChange(state) if !state.is_ending() => policy.dispose(Reason::Irrelevant),
        What::Terminate(_) | What::Spot(_) | What::Capacity { .. } | What::StateChange(_) => {
            match case.node() {
                Some(node) => case.of_node(node),
                None if case.may_be_called() => wait(case.questions_of_name(), None),
                None if !known.index_trusted => case.while_the_index_is_away(),
                None => case.without_node(),
            }
        }
    };
    case.once_claimed(verdict)
}

/// Whether the terminate hook in this interruption is ours or may be ours, so that Sundown sends
/// heartbeats for it (unless [`heartbeats_wait`] delays them). Its Node must be in the index and be
/// ours; without a Node, the tags decide.
#[must_use]
pub fn heartbeats(interruption: &Interruption, known: &Knowledge, policy: &Policy) -> bool {
    let case = Case { interruption, known, policy, now: known.received };
    if !matches!(interruption.what, What::Terminate(_)) {
        return false;
    }
    let ours = match case.node() {
        Some(node) => case.is_for_us(&node),
        None => case.is_tagged_ours(),
    };
    case.hook_claim() != HookClaim::Foreign && ours && case.has_managed_tag() == Some(true)
}

/// No heartbeat is sent yet: it can turn out in a moment that the hook, or the Node, is another
/// party's.
#[must_use]
pub fn heartbeats_wait(
    interruption: &Interruption,
    known: &Knowledge,
    policy: &Policy,
    now: Moment,
) -> bool {
    let case = Case { interruption, known, policy, now };
    case.waits_for_hooks() || case.may_be_for_others()
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
    /// Whether the hook is ours, by all that is known; [`HookClaim::Ours`] where the interruption
    /// has none.
    fn hook_claim(&self) -> HookClaim {
        self.claim_by(self.known.hooks.as_ref())
    }

    fn claim_by(&self, group: Option<&HooksAnswer>) -> HookClaim {
        let transition = match &self.interruption.what {
            What::Launch(_) => Transition::Launching,
            _ => Transition::Terminating,
        };
        let before = self.known.hooks_before.as_ref();
        let claim = |action: &HookAction| {
            self.policy.hooks.claim_after(&action.hook, transition, group, before)
        };
        self.interruption.hook().map_or(HookClaim::Ours, claim)
    }

    /// It is not known yet whether the hook is ours: it gets no drain and no heartbeat.
    fn waits_for_hooks(&self) -> bool {
        self.hook_claim() == HookClaim::Undecided
            && self.drains_from().is_none_or(|from| self.now < from)
    }

    /// From when on the drain goes on without the description of the group's hooks. `None`: only
    /// with it, because the hook was another party's when AWS described them last.
    fn drains_from(&self) -> Option<Moment> {
        let was_foreign = self.claim_by(self.known.hooks_before.as_ref()) == HookClaim::Foreign;
        (!was_foreign).then(|| self.known.hooks_asked.unwrap_or(self.now).plus(PATIENCE_WITH_HOOKS))
    }

    // Whether the hook is ours must be known before it is completed. A drain waits for that only
    // for a while: pods need the time, and the completion comes later.
    fn once_claimed(&self, verdict: Verdict) -> Verdict {
        let Some(action) =
            self.interruption.hook().filter(|_| self.hook_claim() == HookClaim::Undecided)
        else {
            return verdict;
        };
        let until = match verdict {
            Verdict::Accept(_) if !self.waits_for_hooks() => return verdict,
            Verdict::Accept(_) => self.drains_from(),
            Verdict::Complete(_) | Verdict::AnswerLaunch(_) => None,
            // Asked beside what is waited for, which may take longer than a drain waits for this
            // answer. An instance of ours without a Node gets heartbeats while it waits, too.
            Verdict::Wait(mut waits)
                if self.node().is_some() || self.is_tagged_ours() || asks_for_heartbeat(&waits) =>
            {
                waits.ask.push(Question::Hooks(action.group.clone()));
                if self.waits_for_hooks() && asks_for_heartbeat(&waits) {
                    // A heartbeat that proves an action also keeps it open, which another party's
                    // hook must not be.
                    waits.ask.retain(|question| !matches!(question, Question::Heartbeat(_)));
                    waits.until = waits.until.into_iter().chain(self.drains_from()).min();
                    waits.proof = false;
                }
                return Verdict::Wait(waits);
            }
            Verdict::Wait(_) | Verdict::Delete(_) | Verdict::Leave(_) => return verdict,
        };
        wait(vec![Question::Hooks(action.group.clone())], until)
    }

    // Sundown answers launch hooks at once until it acts on them: with the default result ABANDON,
    // an unanswered hook ends every new instance.
    fn launch_hook(&self, action: &HookAction) -> Verdict {
        let Some(open_action) = self.lifecycle_action() else { return self.not_acted_on_yet() };
        if self.node().is_some_and(|node| !self.is_for_us(&node)) {
            return self.policy.dispose(Reason::NotManaged);
        }
        if let Some(verdict) = self.without_managed_tag() {
            return verdict;
        }
        if self.policy.hooks.names(&action.hook) {
            return Verdict::AnswerLaunch(open_action);
        }
        let Some(cluster) = &self.policy.cluster_name else { return self.not_acted_on_yet() };
        match owner::group_is_ours(self.known, cluster) {
            Some(true) => Verdict::AnswerLaunch(open_action),
            Some(false) => self.policy.dispose(Reason::Foreign),
            None => wait(self.question_of_group(), None),
        }
    }

    // The one place for what is understood and not acted on yet: rebalance recommendations, AWS
    // Health, instances that come out of a warm pool, and launch hooks of which nobody says that
    // they are ours.
    fn not_acted_on_yet(&self) -> Verdict {
        let others_may_act = self.policy.shared_queue && self.node().is_none();
        if others_may_act {
            Verdict::Leave(Reason::NotActedOnYet)
        } else {
            Verdict::Delete(Reason::NotActedOnYet)
        }
    }

    // The managed tag is asked for, and is not there, or not known yet: nothing may be touched.
    fn without_managed_tag(&self) -> Option<Verdict> {
        match self.has_managed_tag() {
            Some(true) => None,
            Some(false) => Some(self.policy.dispose(Reason::NotManaged)),
            None => Some(wait(self.questions_of_managed_tag(), None)),
        }
    }

    // The Node is known.
    fn of_node(&self, node: Arc<Node>) -> Verdict {
        if let Some(verdict) = self.ask_which_node() {
            return verdict;
        }
        if !self.is_for_us(&node) {
            return self.policy.dispose(Reason::NotManaged);
        }
        if let Some(verdict) = self.without_managed_tag() {
            return verdict;
        }
        if !proof::is_stale(self.interruption, self.known, &self.policy.staleness, self.now) {
            return self.accept(node, Certainty::Timely);
        }
        match proof::disproof(self.interruption, self.known) {
            Some(true) => self.policy.dispose(Reason::Stale),
            Some(false) => self.accept(node, Certainty::Proved),
            None => self.unproved(node),
        }
    }

    // Stale, and neither proved nor disproved.
    fn unproved(&self, node: Arc<Node>) -> Verdict {
        let given_up = self.known.asked.unwrap_or(self.now).plus(self.policy.staleness.cannot_ask);
        if self.now >= given_up {
            return self.accept(node, Certainty::Unproved);
        }
        Verdict::Wait(Wait {
            ask: proof::questions(self.interruption, self.known),
            until: Some(given_up),
            proof: true,
        })
    }

    // The index is not trusted, so a missing Node proves nothing. A hook that is ours needs
    // heartbeats meanwhile.
    fn while_the_index_is_away(&self) -> Verdict {
        let mut ask = self.question_of_group();
        if self.has_managed_tag().is_none() {
            ask.extend(
                self.questions_of_managed_tag()
                    .into_iter()
                    .filter(|q| matches!(q, Question::Instance { .. })),
            );
        }
        let patient_until = self.known.received.plus(PATIENCE_WITH_INDEX);
        if self.policy.cluster_name.is_none() || self.lifecycle_action().is_none() || ask.is_empty()
        {
            wait(Vec::new(), None)
        } else if self.now < patient_until {
            wait(Vec::new(), Some(patient_until))
        } else {
            wait(ask, None)
        }
    }

    // The cluster has no Node for it.
    fn without_node(&self) -> Verdict {
        let Some(_) = self.known.instance else { return wait(self.questions_of_owner(), None) };
        match owner::owner(self.interruption, self.known, self.policy) {
            Owner::Ours => self.ours_without_node(),
            Owner::Foreign => self.policy.dispose(Reason::Foreign),
            Owner::NotReadYet => wait(self.questions_of_owner(), None),
            Owner::Nobody => self.unknown(),
        }
    }

    // Nobody can say whose it is: it is neither completed nor beaten.
    fn unknown(&self) -> Verdict {
        let exists = self.known.instance.as_ref().is_some_and(|answer| answer.facts.is_some());
        if !exists && self.lifecycle_action().is_none() {
            return self.policy.dispose(Reason::Foreign);
        }
        // On a shared queue, waiting would keep it from those whose it is.
        if self.policy.shared_queue || self.now >= self.joins_until() {
            return self.policy.dispose(Reason::Unknown);
        }
        wait(Vec::new(), Some(self.joins_until()))
    }

    // Ours, but the cluster has no Node for it.
    fn ours_without_node(&self) -> Verdict {
        if let Some(verdict) = self.without_managed_tag() {
            return verdict;
        }
        // What says whose it is may be older than the message; what says how it is may not.
        let Some(answer) =
            self.known.instance.as_ref().filter(|answer| answer.at >= self.known.received)
        else {
            return wait(vec![self.question_of_instance(self.known.received)], None);
        };
        let never_joins = proof::now_state(answer).is_ending() || self.leaves_warm_pool();
        let due = if never_joins { self.known.received } else { self.joins_until() };
        if self.now < due {
            let look_again = answer.at.plus(LOOK_AGAIN);
            let ask = if self.now < look_again {
                Vec::new()
            } else {
                vec![self.question_of_instance(look_again)]
            };
            return wait(ask, Some(if self.now < look_again { due.min(look_again) } else { due }));
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

    /// The Node of the instance; of several the one that [`claims`] puts first.
    fn node(&self) -> Option<Arc<Node>> {
        self.claims().map(|claims| claims.node)
    }

    /// The Nodes of the instance. A Node whose providerID names another instance never is one,
    /// whatever it is called; one without providerID goes by its name, where that is this
    /// instance's and nobody else's.
    fn claims(&self) -> Option<Claims> {
        let by_name = self.is_meant_by_its_name();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for node in self
            .candidates()
            .filter(|node| node.instance.is_some() || by_name || self.goes_by_id(node))
        {
            if !nodes.iter().any(|known| known.uid == node.uid) {
                nodes.push(Arc::clone(node));
            }
        }
        let facts = self.known.instance.as_ref().and_then(|answer| answer.facts.as_ref());
        claims::decide(nodes, facts, |node| self.is_for_us(node))
    }

    // Several Nodes claim the instance: EC2 may know which of them is its Node.
    fn ask_which_node(&self) -> Option<Verdict> {
        let given_up = self.known.received.plus(PATIENCE_WITH_CLAIMS);
        let is_asked = self.known.instance.is_some() || self.now >= given_up;
        let ask = || vec![self.question_of_instance(self.known.received.minus(OWNER_MEMORY))];
        (!is_asked && self.claims()?.are_disputed).then(|| wait(ask(), Some(given_up)))
    }

    // Of the Nodes that claim the instance, one is not for us, and EC2 may say in a moment that it
    // is the right one.
    fn may_be_for_others(&self) -> bool {
        self.ask_which_node().is_some() && self.candidates().any(|node| !self.is_for_us(node))
    }

    /// The Nodes that have the instance's id, or no id and its name.
    fn candidates(&self) -> impl Iterator<Item = &Arc<Node>> {
        let facts = self.known.instance.as_ref().and_then(|answer| answer.facts.as_ref());
        let facts = facts.filter(|facts| {
            facts.id == self.interruption.instance && !owner::names_others(&facts.tags, self.policy)
        });
        let listed = self.known.listed.iter().flat_map(|(_, nodes)| nodes);
        self.known.nodes.iter().chain(listed).filter(move |node| match &node.instance {
            Some(instance) => *instance == self.interruption.instance,
            None => facts.is_some_and(|facts| Knowledge::is_called(node, facts)),
        })
    }

    fn goes_by_id(&self, node: &Node) -> bool {
        node.name.as_str() == self.interruption.instance.as_str()
    }

    /// Whether the private DNS name identifies this instance: two networks may use the same name.
    /// It does if the tags of the instance or of its group are ours, or if no other living instance
    /// has the name.
    fn is_meant_by_its_name(&self) -> bool {
        let is_tagged = self
            .known
            .instance
            .as_ref()
            .and_then(|a| a.facts.as_ref())
            .is_some_and(|f| owner::names_us(&f.tags, self.policy));
        let of_group = || {
            self.policy
                .cluster_name
                .as_deref()
                .and_then(|cluster| owner::group_is_ours(self.known, cluster))
                == Some(true)
        };
        let alone = || {
            let meant =
                self.known.namesakes.as_deref().and_then(|all| owner::called(all, self.policy));
            meant.is_some_and(|facts| facts.id == self.interruption.instance)
        };
        is_tagged || of_group() || alone()
    }

    /// Whether a Node without providerID has this instance's private DNS name, while a question
    /// that decides if it is that instance is open.
    fn may_be_called(&self) -> bool {
        !self.questions_of_name().is_empty() && self.candidates().next().is_some()
    }

    fn questions_of_name(&self) -> Vec<Question> {
        let name = self
            .known
            .instance
            .as_ref()
            .and_then(|a| a.facts.as_ref())
            .and_then(|f| f.private_dns.clone());
        let name = name.filter(|_| self.known.namesakes.is_none()).map(Question::Name);
        let group =
            if self.policy.cluster_name.is_some() { self.question_of_group() } else { Vec::new() };
        name.into_iter().chain(group).collect()
    }

    fn is_for_us(&self, node: &Node) -> bool {
        !node.ignored() && self.policy.nodes.matches(&node.labels)
    }

    fn is_tagged_ours(&self) -> bool {
        owner::owner(self.interruption, self.known, self.policy) == Owner::Ours
    }

    fn has_managed_tag(&self) -> Option<bool> {
        owner::has_managed_tag(self.known, self.policy, self.interruption.hook().is_some())
    }

    /// It went from the warm pool to EC2: whether it was ever a Node or not, it will not be one.
    fn leaves_warm_pool(&self) -> bool {
        matches!(
            &self.interruption.what,
            What::Terminate(action) if action.origin == Some(PoolEnd::WarmPool)
        )
    }

    /// Until when an instance that runs may still become a Node.
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
        let state: Option<InstanceState> = proof::state(self.known);
        let others = self.claims().map(|claims| claims.others).unwrap_or_default();
        Verdict::Accept(Accept {
            node,
            instance: self.interruption.instance.clone(),
            certainty,
            claim: self.hook_claim(),
            state,
            others,
        })
    }

    fn question_of_instance(&self, not_before: Moment) -> Question {
        Question::Instance { instance: self.interruption.instance.clone(), not_before }
    }

    fn question_of_group(&self) -> Vec<Question> {
        let unread = self.interruption.hook().filter(|_| self.known.group.is_none());
        unread.map(|action| Question::Group(action.group.clone())).into_iter().collect()
    }

    // Both at once, so that the second does not wait for the first.
    fn questions_of_owner(&self) -> Vec<Question> {
        let instance = self
            .known
            .instance
            .is_none()
            .then(|| self.question_of_instance(self.known.received.minus(OWNER_MEMORY)));
        let group =
            if self.policy.cluster_name.is_some() { self.question_of_group() } else { Vec::new() };
        instance.into_iter().chain(group).collect()
    }

    fn questions_of_managed_tag(&self) -> Vec<Question> {
        let instance = self
            .known
            .instance
            .is_none()
            .then(|| self.question_of_instance(self.known.received.minus(OWNER_MEMORY)));
        if let Some(instance) = instance { vec![instance] } else { self.question_of_group() }
    }
}

fn wait(ask: Vec<Question>, until: Option<Moment>) -> Verdict {
    Verdict::Wait(Wait { ask, until, proof: false })
}
