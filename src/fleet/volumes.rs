//! Lets drains wait until the volumes of their pods are detached (`--wait-for-volumes`). The API
//! server lists the volumes of all nodes at once, so one question is about all nodes that wait.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Effect, Fleet, Question, VolumesOf};
use crate::{
    domain::{Moment, NodeName, VolumesSeen, WaitForVolumes, seconds},
    drain::Input,
};

/// The shortest pause after an answer.
const SHORTEST: Duration = seconds(2);
/// The longest pause that follows from a slow answer.
const LONGEST: Duration = seconds(30);

/// The pause after a question that took this long. The API server reads all VolumeAttachments for
/// it, so a slow one is given twice that time for other requests.
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(2).clamp(SHORTEST, LONGEST)
}

/// How long after a question the next one follows about a node that has waited for this long.
const fn pause(waited: Duration) -> Duration {
    match waited.as_secs() {
        0..30 => seconds(2),
        30..120 => seconds(5),
        _ => seconds(15),
    }
}

/// The nodes whose drains wait for volumes.
#[derive(Debug, Default)]
pub(super) struct VolumeWaits {
    /// Since when each of them waits.
    waiting: BTreeMap<NodeName, Moment>,
    /// When the next question is due; `None`: no node waits.
    due: Option<Moment>,
    /// The nodes of the question that has no answer yet. `None`: there is no such question.
    asked: Option<BTreeSet<NodeName>>,
    /// When the last question was sent; `None`: there was none.
    asked_at: Option<Moment>,
    /// No question is sent before; `None`: none was answered yet.
    not_before: Option<Moment>,
}

impl VolumeWaits {
    fn begin(&mut self, node: &NodeName, now: Moment) {
        self.waiting.insert(node.clone(), now);
        self.due = Some(now);
    }

    /// The drain of this node no longer waits. An answer about it that is on its way does not count.
    pub(super) fn end(&mut self, node: &NodeName) {
        self.waiting.remove(node);
        if self.waiting.is_empty() {
            self.due = None;
        }
        if let Some(asked) = &mut self.asked {
            asked.remove(node);
        }
    }

    /// When the next question is due; [`Moment::MAX`] if none is.
    pub(super) fn next_wake(&self) -> Moment {
        let Some(due) = self.due.filter(|_| self.asked.is_none()) else { return Moment::MAX };
        self.not_before.map_or(due, |at| due.max(at))
    }

    /// The nodes that the question is about, if it is due: all that wait.
    fn ask(&mut self, now: Moment) -> Option<Vec<NodeName>> {
        if self.next_wake() > now {
            return None;
        }
        let pauses = self.waiting.values().map(|since| pause(now.since_or_zero(*since)));
        self.due = pauses.min().map(|pause| now.plus(pause));
        let nodes: Vec<NodeName> = self.waiting.keys().cloned().collect();
        self.asked = Some(nodes.iter().cloned().collect());
        self.asked_at = Some(now);
        Some(nodes)
    }

    /// The question is answered. Returns the nodes to which the answer applies.
    fn answered(&mut self, now: Moment) -> BTreeSet<NodeName> {
        let took = self.asked_at.map_or(Duration::ZERO, |at| now.since_or_zero(at));
        self.not_before = Some(now.plus(pause_after(took)));
        self.asked.take().unwrap_or_default()
    }
}

impl Fleet {
    /// A drain without pods asks for its volumes. It need not wait for them if Sundown completes
    /// nothing after it.
    pub(super) fn ask_volumes(&mut self, name: &NodeName) {
        if self.completes_after(name) {
            self.volumes.begin(name, self.now);
            self.look_at_volumes();
        } else {
            self.feed(name, Input::NoVolumes);
        }
    }

    /// A lifecycle action of this drain is to be completed after it.
    fn completes_after(&self, name: &NodeName) -> bool {
        self.settings.wait_for_volumes == WaitForVolumes::Hooks
            && self.drains.get(name).is_some_and(|state| self.has_open_actions(state))
    }

    /// Asks for the volumes of all nodes that wait, if that is due.
    pub(super) fn look_at_volumes(&mut self) {
        let Some(nodes) = self.volumes.ask(self.now) else { return };
        let of_node = |name: NodeName| {
            let state = self.drains.get(&name)?;
            let staying = state.drain()?.staying_pods_with_claims().into_iter().collect();
            Some((name, VolumesOf { uid: state.node.uid.clone(), staying }))
        };
        let nodes = nodes.into_iter().filter_map(of_node).collect();
        self.out.push(Effect::Ask(Question::Volumes(nodes)));
    }

    /// The answer to [`Question::Volumes`].
    pub(super) fn volumes_read(&mut self, mut seen: BTreeMap<NodeName, (String, VolumesSeen)>) {
        for name in self.volumes.answered(self.now) {
            if !self.completes_after(&name) {
                // Its actions are over, so nothing is completed when the volumes are detached.
                self.volumes.end(&name);
                self.feed(&name, Input::NoVolumes);
            } else if let Some((uid, seen)) = seen.remove(&name)
                && self.drains.get(&name).is_some_and(|state| state.node.uid == uid)
            {
                self.feed(&name, Input::Volumes(seen));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_is_about_all_nodes_that_wait_and_no_second_one_is_sent_meanwhile() {
        let at = |s: u64| Moment::UNIX_EPOCH.plus(seconds(s));
        let names = |names: &[&str]| names.iter().map(|n| NodeName::from(*n)).collect::<Vec<_>>();
        let mut waits = VolumeWaits::default();
        assert_eq!(waits.next_wake(), Moment::MAX);
        waits.begin(&"a".into(), at(0));
        assert_eq!(waits.ask(at(0)), Some(names(&["a"])));
        waits.begin(&"b".into(), at(0));
        assert_eq!((waits.next_wake(), waits.ask(at(1))), (Moment::MAX, None), "it is under way");
        assert_eq!(waits.answered(at(1)), BTreeSet::from(["a".into()]), "b was not asked for");
        assert_eq!((waits.next_wake(), waits.ask(at(2))), (at(3), None));
        assert_eq!(waits.ask(at(3)), Some(names(&["a", "b"])));
        waits.end(&"b".into());
        assert_eq!(waits.answered(at(3)), BTreeSet::from(["a".into()]), "b no longer waits");
        assert_eq!(waits.next_wake(), at(5));
        waits.end(&"a".into());
        assert_eq!(waits.next_wake(), Moment::MAX);
    }

    #[test]
    fn questions_become_rarer() {
        let at = |s: u64| Moment::UNIX_EPOCH.plus(seconds(s));
        let mut waits = VolumeWaits::default();
        waits.begin(&"a".into(), at(0));
        let mut asked = Vec::new();
        for now in 0..=160 {
            if waits.ask(at(now)).is_some() {
                waits.answered(at(now));
                asked.push(now);
            }
        }
        assert_eq!(asked.len(), 15 + 18 + 3, "{asked:?}");
    }

    #[test]
    fn a_slow_answer_is_followed_by_a_pause_of_twice_its_time() {
        let at = |s: u64| Moment::UNIX_EPOCH.plus(seconds(s));
        for (took, pause) in [(0, 2), (1, 2), (3, 6), (10, 20), (15, 30), (25, 30)] {
            let mut waits = VolumeWaits::default();
            waits.begin(&"a".into(), at(0));
            assert!(waits.ask(at(0)).is_some());
            waits.answered(at(took));
            waits.begin(&"b".into(), at(took));
            assert_eq!(waits.next_wake(), at(took + pause), "{took}");
        }
    }

    #[test]
    fn nodes_that_begin_to_wait_all_the_time_cause_no_question_after_question() {
        let at = |s: u64| Moment::UNIX_EPOCH.plus(seconds(s));
        let mut waits = VolumeWaits::default();
        let (mut asked, mut answered) = (0, None);
        for now in 0..300 {
            waits.begin(&NodeName::from(format!("n{now}").as_str()), at(now));
            if answered == Some(now) {
                waits.answered(at(now));
            }
            if waits.ask(at(now)).is_some() {
                (asked, answered) = (asked + 1, Some(now + 10));
            }
        }
        assert_eq!(asked, 10, "each took 10 s, and 20 s passed without one");
    }
}
