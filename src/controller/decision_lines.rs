//! The log lines about the decision of one interruption.

use tracing::{info, warn};

use super::context::Term;
use crate::{
    domain::{HookKey, Interruption, LifecycleAction, Moment},
    observe::MessageOutcome,
    triage::{Knowledge, LaunchAnswer, LaunchEnd, LaunchWait},
};

/// What the lines are about.
pub(super) struct DecisionLines<'a> {
    pub(super) term: &'a Term,
    pub(super) interruption: &'a Interruption,
    pub(super) known: &'a Knowledge,
}

impl DecisionLines<'_> {
    /// AWS has accepted the heartbeat for what the sweep found: an event was lost, or is late.
    /// Logged and counted once.
    pub(super) fn found_by_sweep(&self) {
        let Some(action) = self.interruption.hook() else { return };
        let (instance, event) = (&self.interruption.instance, &self.interruption.event_id);
        if self.term.is_first_report(&format!("{instance} {event} is found")) {
            self.term.shared.metrics.sweep_found();
            info!(
                %instance, group = %action.group, hook = %action.hook,
                kind = self.interruption.kind().as_str(),
                first_seen = %format_args!("{:.0}", self.known.happened),
                "The sweep found an instance that waits in a lifecycle hook, and no event of it has \
                 arrived."
            );
        }
    }

    /// Warns once if the Node's name does not show which of several instances it belongs to.
    pub(super) fn namesakes(&self, reason: &str) {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind().as_str());
        if let (Some(node), Some(all)) = (self.known.nodes.first(), &self.known.namesakes)
            && all.len() > 1
            && self.term.is_first_report(&format!("{instance} is called {}", node.name))
        {
            warn!(
                instance = %instance, kind, reason, node = %node.name, namesakes = all.len(),
                "Not acted on: a node without providerID has this instance's private DNS name, \
                 and so have other instances. Let the kubelet set the providerID, or tag our \
                 instances kubernetes.io/cluster/<--cluster-name>."
            );
        }
    }

    /// Logs once that an interruption waits because its instance has no Node.
    pub(super) fn waiting(&self, until: Option<Moment>, is_kept_alive: bool) {
        let (instance, kind) = (&self.interruption.instance, self.interruption.kind().as_str());
        let event = &self.interruption.event_id;
        if let Some(until) = until
            && !self.known.is_found_by_sweep
            && self.known.nodes.is_empty()
            && self.term.is_first_report(&format!("{instance} {kind} {event} waits"))
        {
            info!(
                instance = %instance, kind, until = %format_args!("{until:.0}"),
                kept_alive = is_kept_alive,
                "The instance has no Node: its message is kept for now."
            );
        }
    }

    /// The instance has no Node and will not get one.
    pub(super) fn no_node(action: &LifecycleAction) {
        let HookKey { group, hook, instance } = &action.key;
        info!(
            %instance, %group, %hook,
            "The instance has no Node; Sundown completes its lifecycle action."
        );
    }

    /// Logs what a launch hook waits for, once for each thing that is missing.
    pub(super) fn launch_waits(&self, LaunchWait { missing, ends }: &LaunchWait) {
        let Some(action) = self.interruption.hook() else { return };
        let (instance, event) = (&self.interruption.instance, &self.interruption.event_id);
        if self.term.is_first_report(&format!("{instance} {event} lacks {missing}")) {
            info!(
                %instance, group = %action.group, hook = %action.hook, %missing,
                until = %format_args!("{ends:.0}"),
                "An instance waits in its launch hook until its node is ready."
            );
        }
    }

    /// Logs why a launch hook is completed. Returns as what its message counts.
    pub(super) fn launch_ends(&self, answer: &LaunchAnswer) -> MessageOutcome {
        let HookKey { group, hook, instance } = &answer.action.key;
        match &answer.end {
            LaunchEnd::Ready => {
                info!(
                    %instance, %group, %hook,
                    "The node of a launching instance is ready; Sundown completes its launch hook."
                );
                MessageOutcome::LaunchAnswered
            }
            LaunchEnd::TimedOut(missing) => {
                let waited = self.term.shared.clock.now().since_or_zero(self.known.happened);
                let waited = format_args!("{}s", waited.as_secs());
                warn!(
                    %instance, %group, %hook, %missing, %waited, result = answer.result.as_str(),
                    "A launch hook has waited for its timeout, and its node is not ready: \
                     Sundown completes it all the same. Find out why the node does not become \
                     ready, or raise --launch-timeout."
                );
                MessageOutcome::LaunchTimedOut
            }
            LaunchEnd::IntoWarmPool => {
                info!(
                    %instance, %group, %hook,
                    "An instance is launched into a warm pool; Sundown completes its launch hook."
                );
                MessageOutcome::LaunchAnswered
            }
            LaunchEnd::Over => {
                info!(
                    %instance, %group, %hook,
                    "The instance of a launch hook ends, or AWS has closed the hook, before its \
                     node was ready."
                );
                MessageOutcome::LaunchOver
            }
        }
    }
}
