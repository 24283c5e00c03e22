//! Lifecycle actions: each of ours ends by our completion, in time, not too early, and is left alone afterwards.

use std::time::Duration;

use jiff::Timestamp;
use sundown::sim::aws::{ActionReport, Outcome, State, Transition, Verdict};

use super::{Judge, SLACK, is_us};

const SIGNS: [&str; 2] = ["autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"];

impl Judge<'_> {
    /// Every hook of ours ends by our completion, in time, and not before its node is empty.
    pub(super) fn actions(&mut self) {
        for action in self.evidence.actions.clone() {
            if !self.is_ours(&action.group, &action.hook) {
                let end = action.end.as_ref().filter(|e| !e.by.is_empty());
                if end.is_some_and(|e| !self.looks_like_ours(&action.group, &action.instance, e.at)) {
                    self.broken(action.started, format!("{}/{} of {} was completed and is not ours", action.group, action.hook, action.instance));
                }
                continue;
            }
            let name = format!("{}/{} of {}", action.group, action.hook, action.instance);
            let Some(end) = &action.end else {
                self.broken(self.evidence.ended, format!("{name} is open"));
                continue;
            };
            match end.verdict {
                Verdict::Completed(_) if action.transition == Transition::Terminating => self.not_too_early(&name, &action, end.at),
                Verdict::Completed(_) | Verdict::Stopped | Verdict::Removed => {}
                Verdict::TimedOut(_) => self.excused(&name, &action, end.at),
                Verdict::GlobalTimeout(_) => self.broken(end.at, format!("{name} ran into its global timeout")),
            }
        }
    }

    /// It timed out: something must have kept every leader from beating.
    fn excused(&mut self, name: &str, action: &ActionReport, end: Timestamp) {
        let last = action.beats.last().copied().unwrap_or(action.started);
        let timeout = action.heartbeat_timeout;
        let interval = if timeout < Duration::from_secs(60) { timeout / 3 } else { timeout / 2 };
        // Retries, and what a dead replica had received, which is hidden for a minute.
        let due = last + interval + Duration::from_secs(3);
        let calm = self.story.longest_calm(due, end);
        // The Node is the record: one that is deleted takes what it owes with it, unless a process saw it go and lives on.
        if self.evidence.nodes.get(&action.instance).is_some_and(|n| self.story.gone_unwitnessed(n, end)) {
            return;
        }
        let unseen = action.beats.is_empty() && self.story.longest_calm(action.started, end) < timeout.min(Duration::from_secs(100));
        if calm >= (timeout / 3).min(Duration::from_secs(20)) && !unseen {
            self.broken(end, format!("{name} timed out ({timeout:?}), last beaten {last}, although all was well for {calm:?} after {due}"));
        }
    }

    fn not_too_early(&mut self, name: &str, action: &ActionReport, at: Timestamp) {
        let Some(node) = self.evidence.nodes.get(&action.instance) else { return };
        let left: Vec<String> = self.story.left(node, at).iter().map(|l| l.pod.name.clone()).collect();
        let over = |s: State| matches!(s, State::Stopped | State::Terminated);
        let is_over = self.evidence.changes.iter().any(|c| c.id == action.instance && over(c.state) && c.at <= at);
        let excused = left.is_empty()
            || is_over
            || self.story.node_gone(node, at)
            || self.story.machine_gone(node, at)
            || self.story.released_by_hand(node, at)
            || self.story.hand(node, "lost", at - Duration::from_secs(60))
            || self.story.deadlines(&action.instance, at).iter().any(|d| at + SLACK >= d.at);
        if !excused {
            let deadlines = self.story.deadlines(&action.instance, at);
            self.broken(at, format!("{name} was completed before {node} was empty: {left:?} are left; {deadlines:?}"));
        }
    }
    /// The same of what was completed by a replica, in whatever world.
    pub(super) fn none_too_early(&mut self) {
        for action in self.evidence.actions.clone() {
            let Some(end) = action.end.as_ref().filter(|e| is_us(&e.by) && action.transition == Transition::Terminating) else { continue };
            self.not_too_early(&format!("{}/{} of {}", action.group, action.hook, action.instance), &action, end.at);
        }
    }

    /// Nobody calls for an action that we completed: AWS refuses that, and it says that somebody lost count. Where an answer was lost, or
    /// another process took over, one call more has to find out; and where AWS ended the action by itself, one that was on its way.
    pub(super) fn late_calls(&mut self) {
        let evidence = self.evidence;
        for action in &evidence.actions {
            let Some(end) = &action.end else { continue };
            let object = format!("{}/{}/{}", action.group, action.hook, action.instance);
            let lost = evidence.calls.iter().filter(|c| SIGNS.contains(&c.api.as_str()) && c.object == object && c.outcome == Outcome::LostAfter);
            let successors = if evidence.terms.calm { 0 } else { evidence.lives.len().saturating_sub(1) + evidence.thefts };
            let untold = usize::from(end.by.is_empty() || !is_us(&end.by));
            let allowed = lost.count() + successors + untold;
            if action.late_calls.len() > allowed {
                let late: Vec<f64> = action.late_calls.iter().map(|at| at.duration_since(end.at).as_secs_f64()).collect();
                let what = format!("{object} was called for {late:?} s after its end ({:?}), and {allowed} times could be explained", end.verdict);
                self.broken(end.at, what);
            }
        }
    }
}
