//! Lifecycle actions whose messages were lost: with a queue, or because EventBridge delivered nothing.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::aws::{ActionReport, Transition},
};

use super::{
    Judge, SLACK,
    excuses::{DESCRIBES, HEARTBEATS, SEE_NODES, Scope},
    in_time::WELL_AGAIN,
    sent::Notice,
};
use crate::harness::NO_CLUSTER_NAME;

/// From the first sight of an instance that waits to the answer to a heartbeat: ten seconds for an
/// event that is on its way, and as many for the calls.
const LOOKED_INTO: Duration = Duration::from_secs(20);

/// The calls of a round of the sweep: while AWS throttles or denies one, rounds become rarer.
const SWEEPS: [&str; 2] = ["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeWarmPool"];

impl Judge<'_> {
    /// Nobody wrote this action down, and each of its messages was lost with a queue, or never got
    /// into one, before anybody had to know it.
    pub(super) fn is_message_lost(
        &self,
        action: &ActionReport,
        accept: Scope<'_>,
        end: Moment,
    ) -> bool {
        let is_of_it = |n: &&Notice| {
            n.event.instance == action.instance
                && n.event.token.as_ref() == Some(&action.token)
                && n.sent < end
        };
        let too_soon = |n: &Notice| {
            let lost = self.lost_with_queue(n).filter(|lost| *lost < end);
            lost.is_some_and(|lost| {
                lost <= n.sent + SLACK || self.longest_clear(accept, n.sent, lost) <= WELL_AGAIN
            })
        };
        let was_away =
            self.evidence.queue_away.iter().any(|(from, to)| *from <= end && *to >= action.started);
        let is_recorded = self
            .story
            .recorded(&action.instance, end)
            .iter()
            .any(|recorded| recorded.is_of(action));
        was_away && !is_recorded && self.story.notices.iter().filter(is_of_it).all(too_soon)
    }

    /// Its event never got into a queue, and the sweep could not find it: a leader sweeps only if
    /// the cluster has a name, and not for launch hooks. Or no leader had the time that its sweep needs: two rounds, because
    /// the next leader begins anew, and ten seconds for an event that is on its way. If AWS
    /// throttled or denied the calls, rounds are ten minutes apart.
    pub(super) fn was_hard_to_find(&self, action: &ActionReport, end: Moment) -> bool {
        if !self.is_event_lost(action) || !action.heartbeats.is_empty() {
            return false;
        }
        let is_launch = action.transition == Transition::Launching;
        if is_launch || self.evidence.terms.is_set(NO_CLUSTER_NAME) {
            return true;
        }
        let is_rare = self
            .evidence
            .disturbances
            .iter()
            .any(|d| SWEEPS.contains(&d.what.as_str()) && d.at <= end);
        let interval = self.evidence.terms.longest("--sweep-interval", Duration::ZERO);
        let interval = if is_rare { interval.max(Duration::from_secs(600)) } else { interval };
        let node = self.evidence.nodes.get(&action.instance).map_or("", String::as_str);
        let needs = &[HEARTBEATS, DESCRIBES, SEE_NODES];
        let scope = Scope::of_leader(needs).about(&action.instance, node);
        self.longest_clear(scope, action.started, end) <= interval * 2 + LOOKED_INTO
    }

    /// Its event never got into a queue, because EventBridge lost all events when it began.
    pub(super) fn is_event_lost(&self, action: &ActionReport) -> bool {
        let is_sent = self.evidence.messages.iter().any(|m| m.body.contains(&action.token));
        let is_lost = self.evidence.acts.iter().any(|(at, act)| {
            let seconds = act.strip_prefix("LoseEvents { seconds: ");
            let seconds = seconds.and_then(|rest| rest.strip_suffix(" }")?.parse().ok());
            let until = seconds.map(|seconds| *at + Duration::from_secs(seconds));
            *at <= action.started && until.is_some_and(|until| action.started <= until)
        });
        !is_sent && is_lost
    }
}
