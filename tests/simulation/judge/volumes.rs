//! No lifecycle action is completed while a volume of a pod that left the node is attached to it.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::aws::{ActionReport, Transition},
};

use super::{
    Judge, SLACK,
    excuses::{SEE_VOLUMES, Scope},
    is_us,
    promises::Promise,
    story::counts,
};

/// The service gives up after this without an answer.
const UNANSWERED: Duration = Duration::from_secs(150);
/// The longest pause between two looks at the volumes, and the time of a look.
pub(super) const LOOKS: Duration = Duration::from_secs(48);

impl Judge<'_> {
    /// Says how many completions it looked at of nodes with volumes that were detached after their
    /// pods.
    pub(super) fn volumes(&mut self) -> usize {
        let mut seen = 0;
        if self.evidence.terms.each("--wait-for-volumes").contains("never") {
            return seen;
        }
        let terminating = |a: &&ActionReport| a.transition == Transition::Terminating;
        for action in self.evidence.actions.iter().filter(terminating) {
            let Some(end) = action.end.as_ref().filter(|end| is_us(&end.by)) else { continue };
            let Some(node) = self.evidence.nodes.get(&action.instance) else { continue };
            let (attached, detached) = self.attached(node, action, end.at);
            let is_over = self.is_ended_otherwise(node, action, end.at)
                || self.drain_keeps_pods(node, end.at, end.at)
                || !self.due(node, action, end.at).is_empty();
            if is_over || (attached.is_empty() && !detached) {
                continue;
            }
            seen += 1;
            // A new leader asks, too.
            let scope = Scope {
                needs: &[SEE_VOLUMES],
                of: Some((&action.instance, node)),
                process: Some(&end.by),
                without_leader: None,
            };
            let excused =
                !attached.is_empty() && self.is_excused(scope, end.at - UNANSWERED, end.at);
            self.count(Promise::VolumesAwaited, excused);
            if !attached.is_empty() && !excused {
                let name = format!("{}/{} of {}", action.group, action.hook, action.instance);
                let what = "was completed while the volumes of";
                self.broken(end.at, format!("{name} {what} {attached:?} were attached"));
            }
        }
        seen
    }

    /// The pods that left the node in this drain, and whose volumes were still attached; and whether
    /// a volume was detached after its pod had left. A drain that ended before the action was
    /// accepted waits for none.
    fn attached(&self, node: &str, action: &ActionReport, at: Moment) -> (Vec<String>, bool) {
        let recorded = self.story.recorded(&action.instance, at);
        let of_it = recorded.iter().filter(|one| one.is_of(action)).map(|one| one.accepted);
        let Some(accepted) = of_it.min() else { return (Vec::new(), false) };
        let all = self.evidence.volumes.iter().filter(|volume| volume.node == node);
        let left = all.filter(|volume| {
            self.story.pods.values().any(|life| {
                let over = life.gone.into_iter().chain(life.finished).min();
                life.pod.namespace == "extra"
                    && life.pod.name == volume.pod
                    && life.pod.node == node
                    && counts(&life.pod)
                    && over.is_some_and(|over| {
                        let is_later = volume.detached.is_none_or(|detached| detached > over);
                        over > accepted && over <= at && is_later
                    })
            })
        });
        let (attached, detached): (Vec<_>, Vec<_>) =
            left.partition(|volume| volume.detached.is_none_or(|detached| detached > at + SLACK));
        let names = attached.into_iter().map(|volume| volume.pod.clone()).collect();
        (names, !detached.is_empty())
    }

    /// When the last volume of a pod of this node was detached that a drain waits for. `None`: it
    /// waits for none.
    pub(super) fn volumes_held_until(&self, node: &str, at: Moment) -> Option<Moment> {
        if self.evidence.terms.each("--wait-for-volumes").contains("never") {
            return None;
        }
        let of_node = self.evidence.volumes.iter().filter(|volume| volume.node == node);
        let detached = of_node.map(|volume| volume.detached.unwrap_or(at).min(at));
        detached.max().map(|detached| detached + LOOKS)
    }
}
