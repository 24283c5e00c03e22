//! Launch hooks: whose they are, and when they are completed.

use super::{
    super::{
        launch::{Launch, LaunchEnd, LaunchStep, Missing},
        owner, proof,
        verdict::{LaunchAnswer, Reason, Verdict, Wait},
    },
    Case, RECHECK_INTERVAL, wait,
};
use crate::domain::{HookAction, HookResult, InstanceState, LifecycleAction};

impl Case<'_> {
    /// With the default result ABANDON, a launch hook that nobody answers terminates every new
    /// instance.
    pub(super) fn launch_hook(&self, action: &HookAction) -> Verdict {
        let Some(open_action) = self.lifecycle_action() else {
            return self.not_acted_on(Reason::NothingToDo);
        };
        if self.node().is_some_and(|node| node.ignored()) {
            return self.policy.dispose(Reason::NotManaged);
        }
        if let Some(verdict) = self.without_managed_tag() {
            return verdict;
        }
        match self.is_launch_ours(action) {
            Some(true) => match self.unproved_by_sweep() {
                Some(verdict) => verdict,
                None => self.launch_of_ours(open_action),
            },
            Some(false) if self.policy.cluster_name.is_none() => {
                self.not_acted_on(Reason::NothingToDo)
            }
            Some(false) => self.policy.dispose(Reason::Foreign),
            None => wait(self.question_of_group(), None),
        }
    }

    /// Sundown answers this launch hook: an explicit glob names it, or the tags of its group name
    /// this cluster. `None`: these tags are not known yet.
    pub(super) fn is_launch_ours(&self, action: &HookAction) -> Option<bool> {
        if self.policy.hooks.names(&action.hook) {
            return Some(true);
        }
        let Some(cluster) = &self.policy.cluster_name else { return Some(false) };
        owner::group_is_ours(self.known, cluster)
    }

    /// A launch hook of ours waits until its Node is ready.
    pub(super) fn launch_of_ours(&self, action: LifecycleAction) -> Verdict {
        if let Some(verdict) = self.ask_which_node() {
            return verdict;
        }
        // An instance that starts again out of a warm pool may still be shown as stopped.
        let state = proof::state(self.known);
        let is_over =
            matches!(state, Some(InstanceState::ShuttingDown | InstanceState::Terminated));
        let node = self.node();
        let cluster = self.policy.cluster_name.as_deref();
        let is_group_ours =
            cluster.and_then(|cluster| owner::group_is_ours(self.known, cluster)) == Some(true);
        let are_disputed = self.claims().is_some_and(|claims| claims.are_disputed);
        let is_into_pool = self.interruption.goes_into_warm_pool();
        let launch = Launch {
            node: node.as_deref(),
            known: self.known,
            policy: &self.policy.launch,
            now: self.now,
            into_pool: Some(&action).filter(|_| is_into_pool),
            is_over,
            may_abandon: is_group_ours && !are_disputed,
            is_selected: node.as_deref().is_none_or(|node| self.is_managed(node)),
        };
        match launch.next_step() {
            LaunchStep::Complete(LaunchEnd::TimedOut(Missing::Selection), _) => {
                self.policy.dispose(Reason::NotManaged)
            }
            LaunchStep::Complete(end, result) => {
                let is_confirmed = self.known.heartbeat.is_some_and(|answer| answer.accepted);
                let is_cordoned =
                    is_into_pool && is_confirmed && end != LaunchEnd::Over && !are_disputed;
                let cordon = node.filter(|_| is_cordoned);
                Verdict::AnswerLaunch(LaunchAnswer { action, end, result, cordon })
            }
            LaunchStep::Wait { waits, mut ask, until } => {
                if self.policy.launch.on_timeout == HookResult::Abandon {
                    ask.extend(self.question_of_group());
                }
                // EC2 knows by which name a Node without providerID joins, and whether the instance
                // ends.
                let asked_at = self.known.instance.as_ref().map(|answer| answer.at);
                let ask_at = asked_at
                    .map_or(self.now, |at| at.plus(RECHECK_INTERVAL))
                    .max(self.known.received);
                let until = if node.is_some() {
                    until
                } else if ask_at <= self.now {
                    ask.push(self.question_of_instance(ask_at));
                    until
                } else {
                    until.min(ask_at)
                };
                if node.is_none() && self.may_be_named_after() {
                    ask.extend(self.questions_of_name());
                }
                Verdict::Wait(Wait { ask, until: Some(until), proof: false, launch: Some(waits) })
            }
        }
    }
}
