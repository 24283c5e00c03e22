//! What was going on in a life, and from when to when.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::kube::{Fact, PodRef},
};

use crate::judge::Evidence;

/// What was going on at a moment of a life. A world has many nodes and messages: several phases can
/// hold at once, but for the first and the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No message has been sent, and nothing is being drained.
    Nothing,
    /// A message is in the queue or in flight.
    Message,
    /// A node with an open record still has pods that the drain asks to go.
    Draining,
    /// A node with an open record is drained, and its hooks or its instance are not done.
    Completing,
    /// A node whose drain has ended is still there.
    Ended,
    /// Every message is deleted, and every drain has ended.
    Over,
}

impl Phase {
    pub const ALL: [Self; 6] =
        [Self::Nothing, Self::Message, Self::Draining, Self::Completing, Self::Ended, Self::Over];

    pub fn title(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Message => "message",
            Self::Draining => "draining",
            Self::Completing => "completing",
            Self::Ended => "ended",
            Self::Over => "over",
        }
    }
}

/// From when to when each phase held, its end excluded.
#[derive(Debug, Default)]
pub struct Phases(Vec<(Phase, Moment, Moment)>);

/// What the annotation on a Node says about its drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    Open,
    Released,
}

impl Record {
    fn of(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let record: Value = serde_json::from_str(annotations.get("sundown.dev/record")?).ok()?;
        Some(if record["released"].is_null() { Self::Open } else { Self::Released })
    }
}

/// The drain of a node, as it goes on.
#[derive(Debug)]
struct Drain {
    record: Record,
    since: Moment,
    /// Pods that were asked to go and have not gone.
    leaving: BTreeSet<String>,
    /// When the last of them went.
    emptied: Moment,
}

impl Drain {
    fn new(record: Record, since: Moment) -> Self {
        Self { record, since, leaving: BTreeSet::new(), emptied: since }
    }
}

impl Phases {
    pub fn of(evidence: &Evidence) -> Self {
        let mut phases = Self::default();
        for message in &evidence.deletions {
            phases.add(Phase::Message, message.sent, message.at);
        }
        let mut drains: BTreeMap<&str, Drain> = BTreeMap::new();
        for entry in &evidence.entries {
            match &entry.fact {
                Fact::Annotated { node, annotations, .. } => {
                    let record = Record::of(annotations);
                    if drains.get(node.as_str()).map(|drain| drain.record) != record {
                        phases.end(drains.remove(node.as_str()), entry.at);
                        drains.extend(record.map(|r| (node.as_str(), Drain::new(r, entry.at))));
                    }
                }
                Fact::NodeGone(node) => phases.end(drains.remove(node.as_str()), entry.at),
                Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. } => {
                    if let Some(drain) = drains.get_mut(pod.node.as_str()) {
                        drain.leaving.insert(pod.uid.clone());
                    }
                }
                Fact::PodGone(PodRef { node, uid, .. }) => {
                    if let Some(drain) = drains.get_mut(node.as_str())
                        && drain.leaving.remove(uid)
                    {
                        drain.emptied = entry.at;
                    }
                }
                _ => {}
            }
        }
        for drain in drains.into_values() {
            phases.end(Some(drain), evidence.ended);
        }
        phases
    }

    fn add(&mut self, phase: Phase, from: Moment, to: Moment) {
        self.0.push((phase, from, to));
    }

    fn end(&mut self, drain: Option<Drain>, at: Moment) {
        let Some(Drain { record, since, leaving, emptied }) = drain else { return };
        if record == Record::Released {
            return self.add(Phase::Ended, since, at);
        }
        let emptied = if leaving.is_empty() { emptied } else { at };
        self.add(Phase::Draining, since, emptied);
        self.add(Phase::Completing, emptied, at);
    }

    /// The phases that held at this moment, without the message that something sends just then.
    pub fn at(&self, at: Moment) -> BTreeSet<Phase> {
        let begun =
            |phase: Phase, from: Moment| from < at || (from == at && phase != Phase::Message);
        let held = self.0.iter().filter(|(phase, from, to)| begun(*phase, *from) && at < *to);
        let mut all: BTreeSet<Phase> = held.map(|(phase, ..)| *phase).collect();
        if all.iter().all(|phase| *phase == Phase::Ended) {
            let any = self.0.iter().any(|(phase, from, _)| begun(*phase, *from));
            all.insert(if any { Phase::Over } else { Phase::Nothing });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase::*, *};
    use crate::seeds::play_seed;

    #[test]
    fn a_life_is_in_the_first_or_the_last_phase_only_where_nothing_goes_on() {
        let at = |second| Moment::from_second(second).unwrap();
        let interval = |phase, from, to| (phase, at(from), at(to));
        let phases = Phases(vec![
            interval(Message, 10, 20),
            interval(Draining, 15, 30),
            interval(Completing, 30, 40),
            interval(Ended, 40, 60),
            interval(Message, 50, 55),
        ]);
        for (second, expected) in [
            (9, vec![Nothing]),
            (10, vec![Nothing]),
            (11, vec![Message]),
            (15, vec![Message, Draining]),
            (20, vec![Draining]),
            (30, vec![Completing]),
            (40, vec![Ended, Over]),
            (50, vec![Ended, Over]),
            (51, vec![Message, Ended]),
            (60, vec![Over]),
        ] {
            assert_eq!(phases.at(at(second)).into_iter().collect::<Vec<_>>(), expected, "{second}");
        }
    }

    #[test]
    fn a_played_life_begins_with_nothing_and_drains_before_it_completes() {
        let drained = |seed| {
            let evidence = play_seed(seed);
            let phases = Phases::of(&evidence);
            let moved = |(phase, from, to): &&(Phase, _, _)| *phase == Draining && from < to;
            let last = phases.0.iter().filter(moved).max_by_key(|(_, _, to)| *to).copied();
            last.map(|last| (evidence.begun, phases, last))
        };
        let (begun, phases, (_, from, to)) = (1..20).find_map(drained).expect("a drain with pods");
        assert_eq!(phases.at(begun), BTreeSet::from([Nothing]));
        assert!(phases.at(from).contains(&Draining));
        assert!(!phases.at(to).contains(&Draining));
    }
}
