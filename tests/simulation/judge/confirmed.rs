//! Pods of a drain that nothing but lifecycle actions asks for stay until AWS has answered a
//! heartbeat, for 5 s at most, and not once two thirds of the time to the deadline have passed.

use std::{rc::Rc, slice, time::Duration};

use sundown::{
    domain::Moment,
    sim::{Disturbance, aws::Call, kube::PodRef},
};

use super::{
    Judge, SLACK,
    story::{Deadline, RecordedInterruption, is_open},
    windows::LEAST_CALL,
};

/// How long an eviction waits for an answer.
const WAIT: Duration = Duration::from_secs(5);
const BEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";

impl Judge<'_> {
    /// A request about this pod was sent at `sent`.
    pub(super) fn not_unconfirmed(&mut self, at: Moment, sent: Moment, by: &str, pod: &PodRef) {
        let Some(page) = self.story.page(&pod.node, sent).filter(|page| is_open(page)) else {
            return;
        };
        let is_action = |kind: &str| ["terminate-hook", "root-volume"].contains(&kind);
        let is_of_actions = page.recorded.iter().all(|r| is_action(&r.kind))
            && page.recorded.iter().any(|r| !r.is_stale);
        // No heartbeat is sent for a hook that `--lifecycle-hook` does not allow. A person can write
        // one into a record.
        let is_covered =
            page.recorded.iter().any(|r| r.hook.as_ref().is_none_or(|(_, h)| self.is_covered(h)));
        let instance = page.instance.clone();
        let is_pressing = |r: &Rc<RecordedInterruption>| self.is_pressing(&instance, r, by, sent);
        if !is_of_actions || !is_covered || page.recorded.iter().any(is_pressing) {
            return;
        }
        let recorded = self.story.recorded(&instance, sent);
        let accepted = recorded.iter().map(|r| r.accepted).min();
        let took_up = accepted.max(self.leaders.leads_since(by, sent));
        let had_waited = took_up.is_none_or(|since| since + WAIT <= sent + SLACK);
        // "No active Lifecycle Action" is an answer, too: EC2 or the group has then shown that the
        // instance goes.
        let is_answer = |c: &&Call| {
            c.api == BEAT && c.by == by && c.at <= sent && c.object.ends_with(&instance)
        };
        if !had_waited && !self.evidence.calls.iter().any(|c| is_answer(&c)) {
            self.broken(
                at,
                format!(
                    "{} was touched on {}, and AWS had answered no heartbeat for {instance}",
                    pod.name, pod.node
                ),
            );
        }
    }

    /// Two thirds of the time to its deadline have passed: if the action is real, its instance ends
    /// soon. The end of a heartbeat window counts only if this process had given up a heartbeat for
    /// the instance, and if the window was not over when the process took the drain up.
    fn is_pressing(
        &self,
        instance: &str,
        of: &Rc<RecordedInterruption>,
        by: &str,
        at: Moment,
    ) -> bool {
        let end = of.accepted + self.story.drain_timeout(instance, of, at);
        let margin = self.evidence.terms.margin("");
        let patience = Deadline::of(of.accepted, end, margin, of.accepted);
        let is_given_up = |d: &Disturbance| {
            d.what == BEAT
                && d.by == by
                && d.object.ends_with(instance)
                && d.at >= of.time
                && d.at + LEAST_CALL <= at
        };
        let with_windows = if self.evidence.disturbances.iter().any(is_given_up) {
            self.story.deadlines_of(instance, slice::from_ref(of), at)
        } else {
            Vec::new()
        };
        let took_up = Some(of.accepted).max(self.leaders.leads_since(by, at));
        let ahead = with_windows.into_iter().filter(|d| Some(d.at + SLACK) > took_up);
        let two_thirds = |d: Deadline| d.accepted + d.at.since_or_zero(d.accepted) * 2 / 3;
        ahead.chain([patience]).any(|deadline| two_thirds(deadline) <= at + SLACK)
    }
}
