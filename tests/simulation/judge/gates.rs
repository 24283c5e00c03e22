//! Gates on a Node hold what they are for as long as they may, and nobody but a person orders to
//! force a drain.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, Transition},
        kube::{Entry, Fact},
    },
};

use super::{
    Judge, SLACK, is_us,
    promises::Promise,
    story::{Deadline, Page},
};

/// After an annotation changes, the value before it may still apply for this long.
const KNOWN: Duration = Duration::from_secs(3);
/// A drain with no more time than this from its event on waits for no gate. A little more than five
/// minutes, because the judge does not know to the second when the drain ends.
const SHORT: Duration = Duration::from_secs(310);

pub(super) const PRE_DRAIN: &str = "pre-drain.sundown.dev/";
pub(super) const PRE_RELEASE: &str = "pre-release.sundown.dev/";

/// The annotation is the key of a gate.
pub(super) fn is_gate(key: &str) -> bool {
    key.starts_with(PRE_DRAIN) || key.starts_with(PRE_RELEASE)
}

fn has_gate(page: &Page, prefix: &str) -> bool {
    page.gates.iter().any(|key| key.starts_with(prefix))
}

fn is_forced(page: &Page) -> bool {
    page.settings.get("force").is_some_and(|value| value == "true")
}

impl Judge<'_> {
    /// Says how many pods and completions it looked at while a gate was there, so that a test can
    /// see that it looks.
    pub(super) fn gates(&mut self) -> usize {
        let mut seen = 0;
        for Entry { at, fact, by } in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. }) = fact else { continue };
            let sent = self.sent(*at, by, pod, matches!(fact, Fact::Deleted { .. }));
            if !self.holds(&pod.node, PRE_DRAIN, sent) {
                continue;
            }
            seen += 1;
            let until = self.evictions_held_until(&pod.node, sent);
            if until.is_some() {
                self.count(Promise::GateKept, false);
            }
            if until.is_some_and(|until| sent + SLACK < until) {
                let what = format!("although a gate of {} holds its evictions", pod.node);
                self.broken(*at, format!("{by} asked {} to go {what}", pod.name));
            }
        }
        let terminating = |a: &&ActionReport| a.transition == Transition::Terminating;
        for action in self.evidence.actions.iter().filter(terminating) {
            let Some(end) = action.end.as_ref().filter(|end| is_us(&end.by)) else { continue };
            let Some(node) = self.evidence.nodes.get(&action.instance) else { continue };
            if !self.holds(node, PRE_RELEASE, end.at) {
                continue;
            }
            seen += 1;
            self.count(Promise::GateKept, false);
            let mut deadlines = self.story.deadlines(&action.instance, end.at).into_iter();
            let is_over = self.is_ended_otherwise(node, action, end.at)
                || self.drain_keeps_pods(node, end.at, end.at)
                // A gate holds an empty node until its deadline, also in a pause.
                || deadlines.any(|d| end.at + SLACK >= d.end);
            if !is_over {
                let name = format!("{}/{} of {}", action.group, action.hook, action.instance);
                self.broken(end.at, format!("{name} was completed although a gate holds it"));
            }
        }
        seen
    }

    /// There has been such a gate on the Node for some seconds, and no order to force its drain.
    fn holds(&self, node: &str, prefix: &str, at: Moment) -> bool {
        let mut pages = self.story.pages_between(node, at - KNOWN, at).peekable();
        pages.peek().is_some() && pages.all(|(page, _)| has_gate(page, prefix) && !is_forced(page))
    }

    /// Half of the time of a drain that only terminate hooks ask for. `None`: it is another one, or
    /// a short one.
    fn evictions_held_until(&self, node: &str, at: Moment) -> Option<Moment> {
        let instance = self.instance_of(node)?;
        let recorded = self.story.recorded(instance, at);
        if recorded.iter().any(|one| one.kind != "terminate-hook" || one.is_made_up) {
            return None;
        }
        let accepted = recorded.iter().map(|one| one.accepted).min()?;
        let event = recorded.iter().map(|one| one.time.min(one.accepted)).min()?;
        let end = self.story.deadlines(instance, at).into_iter().map(|d| d.end).min()?;
        let time = Duration::try_from(end.duration_since(accepted)).ok()?;
        (end > event + SHORT).then(|| accepted + time / 2)
    }

    /// The last moment from `empty` to `at` at which a gate of the release was on the Node.
    pub(super) fn release_held_until(
        &self,
        node: &str,
        empty: Moment,
        at: Moment,
    ) -> Option<Moment> {
        let pages = self.story.pages_between(node, empty, at);
        let held = pages.filter(|(page, _)| has_gate(page, PRE_RELEASE));
        held.map(|(_, until)| until.min(at)).max()
    }

    /// The process that completed an action saw its node empty, and since then a gate held the
    /// release until just before. What a controller puts there meanwhile is not waited for.
    pub(super) fn was_empty_and_gated(
        &self,
        node: &str,
        action: &ActionReport,
        at: Moment,
    ) -> bool {
        let Some(by) = action.end.as_ref().map(|end| &end.by) else { return false };
        let is_held = |empty: Moment| {
            let mut pages = self.story.pages_between(node, empty, at - KNOWN).peekable();
            pages.peek().is_some() && pages.all(|(page, _)| has_gate(page, PRE_RELEASE))
        };
        self.emptied(node, by, at).any(is_held)
    }

    /// A person ordered to force the drain of the node, at the latest then.
    pub(super) fn is_forced_by_hand(&self, node: &str, at: Moment) -> bool {
        self.story.pages_between(node, at - KNOWN, at).any(|(page, _)| is_forced(page))
    }

    /// A person has ordered to force the drain, and no deadline forces it: each was over when the
    /// drain was taken up, or only ends the drain.
    pub(super) fn is_forced_by_hand_alone(
        &self,
        (instance, node): (&str, &str),
        by: &str,
        at: Moment,
        deadlines: &[Deadline],
    ) -> bool {
        let recorded = self.story.recorded(instance, at);
        let resumed = self.story.pauses(node).into_iter().map(|(_, to)| to);
        let mut taken_up: Vec<Moment> = resumed.filter(|to| *to <= at).collect();
        taken_up.extend(self.leaders.leads_since(by, at));
        let was_over =
            |d: &Deadline| taken_up.iter().chain([&d.accepted]).any(|up| d.at <= *up + SLACK);
        // `--drain-timeout` forces pods on account of hooks only.
        let only_ends = |d: &Deadline| {
            recorded.iter().filter(|one| one.hook.is_none()).any(|one| {
                let end = one.accepted + self.story.drain_timeout(instance, one, at);
                let margin = self.evidence.terms.margin("");
                d.at == Deadline::of(one.accepted, end, margin, one.accepted).at
            })
        };
        let is_void = |d: &Deadline| was_over(d) || only_ends(d);
        self.is_forced_by_hand(node, at) && deadlines.iter().all(is_void)
    }

    /// At some time by then there was a gate on the Node.
    pub(super) fn was_gated(&self, node: &str, at: Moment) -> bool {
        let begun = self.evidence.begun;
        self.story.pages_between(node, begun, at).any(|(page, _)| !page.gates.is_empty())
    }

    /// At some time by then a person ordered to force the drain of the node.
    pub(super) fn was_forced_by_hand(&self, node: &str, at: Moment) -> bool {
        self.story.pages_between(node, self.evidence.begun, at).any(|(page, _)| is_forced(page))
    }
}
