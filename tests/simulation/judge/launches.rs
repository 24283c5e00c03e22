//! Launch hooks: none is completed before its instance has a Node, or its time is over.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, HookResult, Transition, Verdict},
        kube::Fact,
    },
};

use super::{Judge, is_us, nodes::instance};

/// `--launch-timeout`.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(300);
/// How long an instance boots before its launch hook begins.
const BOOT: Duration = Duration::from_secs(30);
/// How much earlier the time may be over by the clock of a process.
const CLOCKS: Duration = Duration::from_secs(3);

impl Judge<'_> {
    /// When the launch of an action began at the earliest: at its event, or when EC2 launched the
    /// instance, if no process received the event.
    fn launched(&self, action: &ActionReport) -> Moment {
        let evidence = self.evidence;
        let is_received = evidence
            .messages
            .iter()
            .any(|m| m.body.contains(&action.token) && m.deliveries.iter().any(|d| is_us(&d.by)));
        if is_received { action.started } else { action.started - BOOT }
    }

    /// A process completes a launch hook only if the Node of its instance has registered, or
    /// `--launch-timeout` is over. It says ABANDON only then, and only if a flag says so.
    pub(super) fn launches(&mut self) {
        let evidence = self.evidence;
        let timeout = evidence.terms.shortest("--launch-timeout", LAUNCH_TIMEOUT);
        for action in evidence.actions.iter().filter(|a| a.transition == Transition::Launching) {
            let Some(end) = action.end.as_ref().filter(|end| is_us(&end.by)) else { continue };
            let is_over = end.at + CLOCKS >= self.launched(action) + timeout;
            let node = evidence.nodes.get(&action.instance);
            // A Node that joins at the end of the run has no entry among the nodes.
            let registers = |fact: &Fact| match fact {
                Fact::NodeAdded(name) => Some(name) == node,
                Fact::NodeChanged(state) => node.is_none() && instance(state) == action.instance,
                _ => false,
            };
            let has_node = evidence.entries.iter().any(|e| e.at <= end.at && registers(&e.fact));
            let name = format!("{}/{} of {}", action.group, action.hook, action.instance);
            if !has_node && !is_over && !self.story.is_terminated(&action.instance, end.at) {
                self.broken(
                    end.at,
                    format!("launch hook {name} was completed before it had a Node"),
                );
            }
            let abandons = end.verdict == Verdict::Completed(HookResult::Abandon);
            if abandons
                && !(is_over && evidence.terms.each("--launch-on-timeout").contains("abandon"))
            {
                self.broken(end.at, format!("launch hook {name} was abandoned"));
            }
        }
    }
}
