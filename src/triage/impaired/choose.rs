//! Which suspects begin to be drained.

use std::collections::{BTreeMap, BTreeSet};

use super::{AwsView, Scene, Suspect, Waits};
use crate::domain::{GroupName, InstanceId, Moment, seconds};

/// The time in which at most `--max-impaired` drains begin.
const AN_HOUR: std::time::Duration = seconds(3600);
/// The most begun drains that are remembered: more than any `--max-impaired`.
const MAX_REMEMBERED: usize = 1_000;

/// The drains that this leader has begun within an hour. The Node may be gone since, and its
/// annotation with it.
#[derive(Debug, Default)]
pub struct Begun(BTreeMap<InstanceId, Moment>);

impl Begun {
    /// A drain has begun at `now`.
    pub fn note(&mut self, now: Moment, instance: InstanceId) {
        self.0.retain(|_, at| now < at.plus(AN_HOUR));
        if self.0.len() < MAX_REMEMBERED {
            self.0.insert(instance, now);
        }
    }

    /// How many instances were taken on within an hour, by this leader or by the annotations of
    /// Nodes.
    #[must_use]
    pub fn count(&self, scene: &Scene<'_>) -> usize {
        let is_late = |at: Moment| scene.now < at.plus(AN_HOUR);
        let marks = scene.nodes.iter().filter_map(|scanned| scanned.mark.as_ref());
        let marked = marks.filter(|mark| is_late(mark.at)).map(|mark| &mark.instance);
        let noted = self.0.iter().filter(|(_, at)| is_late(**at)).map(|(instance, _)| instance);
        marked.chain(noted).collect::<BTreeSet<_>>().len()
    }
}

/// What happens to a suspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Its drain begins. It belongs to this group.
    Begin(GroupName),
    /// It waits.
    Wait(Waits),
    /// AWS shows that it is not Sundown's to drain: it does not run, is in no group, or its group
    /// is about to end it, keeps it aside or replaces it.
    NotOurs,
}

/// A suspect and what happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The suspect.
    pub suspect: Suspect,
    /// What happens to it.
    pub decision: Decision,
}

/// Decides which suspects begin to be drained. `suspects`: the longest sick first, each with what
/// AWS answers about it. `max_an_hour`: `--max-impaired`.
#[must_use]
pub fn choose(
    scene: &Scene<'_>,
    suspects: Vec<(Suspect, AwsView)>,
    begun: &Begun,
    max_an_hour: usize,
) -> Vec<Choice> {
    let mut room = max_an_hour.saturating_sub(begun.count(scene));
    let mut busy = busy_groups(scene);
    let decide = |(suspect, view): (Suspect, AwsView)| {
        let decision = match view {
            AwsView::Unanswered => Decision::Wait(Waits::Unanswered),
            AwsView::NotOurs => Decision::NotOurs,
            AwsView::Answered(member) => {
                if !member.is_serving {
                    Decision::NotOurs
                } else if busy.contains(&member.group) {
                    Decision::Wait(Waits::GroupBusy)
                } else if !member.is_group_complete {
                    Decision::Wait(Waits::GroupIncomplete)
                } else if room == 0 {
                    Decision::Wait(Waits::MaxPerHour)
                } else {
                    room -= 1;
                    busy.insert(member.group.clone());
                    Decision::Begin(member.group)
                }
            }
        };
        Choice { suspect, decision }
    };
    suspects.into_iter().map(decide).collect()
}

/// The groups with a node that was taken on as impaired and is not finished: it is drained, it waits
/// for its replacement, or it goes away.
fn busy_groups(scene: &Scene<'_>) -> BTreeSet<GroupName> {
    let unfinished = scene.nodes.iter().filter(|scanned| scanned.is_unfinished());
    unfinished.filter_map(|scanned| Some(scanned.mark.as_ref()?.group.clone())).collect()
}
