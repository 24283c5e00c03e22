//! With `--drain-conditions`, the conditions of a Node show its drain, and are gone when the Node is
//! restored.

use std::time::Duration;

use sundown::{domain::Moment, sim::kube::NodeState};

use super::{
    Judge, Response,
    drain_conditions::is_ours,
    excuses::{LEASE, SEE_NODES, Scope, WRITE_CONDITIONS},
    nodes::{RECORD, TAINT, is_claimed_twice},
    promises::Promise,
    story::{Page, is_open},
};

/// After this time of one phase the conditions show it. Two writes have half a minute between them.
const SHOWN: Duration = Duration::from_secs(75);
/// A write that failed is tried again after five minutes at most.
const TRIED_AGAIN: Duration = Duration::from_secs(320);

/// What the record of a Node shows of its drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It goes on.
    Open,
    /// It is over, and the Node is not restored.
    Ended,
    /// The Node is only cordoned or tainted, or has no record.
    Nothing,
    /// A person made up what the record holds.
    MadeUp,
}

impl Judge<'_> {
    /// Says how many times it looked.
    pub(super) fn conditions_shown(&mut self) -> usize {
        if !self.evidence.terms.is_set("--drain-conditions") {
            return 0;
        }
        let mut seen = 0;
        for (instance, node) in &self.evidence.nodes {
            for (phase, from, to) in self.phases(node) {
                if phase == Phase::MadeUp || from + SHOWN > to || self.story.node_gone(node, to) {
                    continue;
                }
                let at = to - Duration::from_millis(1);
                let shown = [LEASE, SEE_NODES, WRITE_CONDITIONS];
                let needs = &shown;
                let scope = Scope::of_leader(needs).about(instance, node);
                let writes = Scope { needs: &[WRITE_CONDITIONS], without_leader: None, ..scope };
                let excused = self.is_excused(scope, to - SHOWN, to)
                    || self.is_excused(writes, to - TRIED_AGAIN, to)
                    || is_claimed_twice(&self.writes, node, self.evidence.begun, to)
                    || self.story.machine_gone(node, to);
                self.count(Promise::ConditionsShown, excused);
                seen += 1;
                let Some(state) = self.node_state(node, at).filter(|_| !excused) else { continue };
                let is_completing = self.has_open_action(instance, to - SHOWN);
                // Without Sundown's taint the Node is restored, although the record may be there.
                let has_taint = state.taints.iter().any(|(key, ..)| key == TAINT);
                let has_record = state.annotations.contains_key(RECORD);
                let phase = match phase {
                    // Its record is lost: nobody knows what the taint is for.
                    Phase::Nothing if has_taint && !has_record => continue,
                    phase if has_taint => phase,
                    _ => Phase::Nothing,
                };
                if let Some(wrong) = wrong(phase, state, is_completing) {
                    let what = format!("{node} has been {phase:?} since {from}, and {wrong}");
                    self.broken(at, what);
                }
            }
        }
        seen
    }

    /// From when to when the Node was in which phase.
    fn phases(&self, node: &str) -> Vec<(Phase, Moment, Moment)> {
        let pages = self.story.pages_between(node, self.evidence.begun, self.evidence.ended);
        let mut all: Vec<(Phase, Moment, Moment)> = Vec::new();
        for (page, until) in pages {
            let phase = self.phase_of(page);
            match all.last_mut() {
                Some((last, _, to)) if *last == phase => *to = until,
                _ => all.push((phase, page.at, until)),
            }
        }
        all
    }

    fn phase_of(&self, page: &Page) -> Phase {
        let Some(record) = &page.record else { return Phase::Nothing };
        let all = record["interruptions"].as_array().cloned().unwrap_or_default();
        if page.recorded.iter().any(|one| one.is_made_up) {
            return Phase::MadeUp;
        }
        // No pod was to leave.
        let outcome = record["released"]["outcome"].as_str().unwrap_or_default();
        let is_without_drain =
            ["not_evicted", "expired", "into_warm_pool", "node_gone"].contains(&outcome);
        if all.is_empty()
            || is_without_drain
            || self.evidence.terms.strongest(&all) < Response::Drain
            || record["instance"] != page.instance
        {
            Phase::Nothing
        } else if is_open(page) {
            Phase::Open
        } else {
            Phase::Ended
        }
    }

    /// A lifecycle action of the instance was open at some time from then on.
    fn has_open_action(&self, instance: &str, from: Moment) -> bool {
        self.evidence.actions.iter().any(|action| {
            action.instance == instance && action.end.as_ref().is_none_or(|end| end.at >= from)
        })
    }
}

/// What the conditions show although it is not true. `None`: they are right.
fn wrong(phase: Phase, state: &NodeState, is_completing: bool) -> Option<String> {
    let own = |n: usize| state.drain[n].as_ref().filter(|condition| is_ours(condition));
    let status = |n: usize| own(n).map(|condition| condition.status.as_str());
    let shown = (status(0), status(1));
    let is_right = match phase {
        Phase::Open => shown == (Some("True"), Some("False")),
        Phase::Ended => {
            shown.0 == Some("False") || (is_completing && shown == (Some("True"), Some("False")))
        }
        Phase::Nothing => shown == (None, None),
        Phase::MadeUp => true,
    };
    (!is_right).then(|| format!("its conditions DrainInProgress and Drained are {shown:?}"))
}
