//! Which suspects begin to be drained.

use std::collections::{BTreeMap, BTreeSet};

use super::{AwsView, MAX_ASKED, Scene, Suspect, WaitReason, sort_longest_sick_first};
use crate::{
    domain::{GroupName, InstanceId, LastSickness, Moment, seconds},
    triage::RoundRobin,
};

/// The time in which at most `--max-impaired` drains begin.
const AN_HOUR: std::time::Duration = seconds(3600);
/// The most begun drains that are remembered: more than any `--max-impaired`.
const MAX_REMEMBERED: usize = 1_000;

/// The annotation has the time of the accept, and [`LastHour::note`] gets the time at its end. Two
/// times that differ by this or less are of one drain.
const SAME_DRAIN_WITHIN: std::time::Duration = seconds(60);

/// What this leader has done within an hour, by instance and time. One value holds the drains that
/// it has begun, another one the instances that it has reported to Auto Scaling. The annotation on
/// the Node is not enough, because the Node may have been deleted since.
#[derive(Debug, Default)]
pub struct LastHour(Vec<(InstanceId, Moment)>);

impl LastHour {
    /// A drain has begun at `now`, or an instance was reported to Auto Scaling.
    pub fn note(&mut self, now: Moment, instance: InstanceId) {
        self.0.retain(|(_, at)| now < at.plus(AN_HOUR));
        if self.0.len() < MAX_REMEMBERED {
            self.0.push((instance, now));
        }
    }

    /// How many drains or reports this leader has noted within an hour.
    #[must_use]
    pub fn count_of_this_leader(&self, now: Moment) -> usize {
        self.0.iter().filter(|(_, at)| now < at.plus(AN_HOUR)).count()
    }

    /// How many drains have begun within the last hour: those that this leader noted, and those of
    /// earlier leaders, from the annotations of Nodes. An instance that is drained twice counts
    /// twice.
    #[must_use]
    pub fn count_of_all_leaders(&self, scene: &Scene<'_>) -> usize {
        let is_within_hour = |at: Moment| scene.now < at.plus(AN_HOUR);
        let is_noted = |last_sickness: &LastSickness| {
            let is_it = |at: Moment| {
                at <= last_sickness.at.plus(SAME_DRAIN_WITHIN)
                    && last_sickness.at <= at.plus(SAME_DRAIN_WITHIN)
            };
            self.0.iter().any(|(instance, at)| *instance == last_sickness.instance && is_it(*at))
        };
        let recorded = scene.nodes.iter().filter_map(|scanned| scanned.last_sickness.as_ref());
        let of_others = recorded
            .filter(|last_sickness| is_within_hour(last_sickness.at) && !is_noted(last_sickness))
            .count();
        self.count_of_this_leader(scene.now) + of_others
    }
}

/// How long Sundown does not ask again about an instance that it must not drain.
const NOT_OURS_FOR: std::time::Duration = seconds(600);

/// Selects the suspects about which Sundown asks AWS in a round. If AWS has shown in the last
/// 10 minutes that an instance is not Sundown's to drain, it is left out, so that it does not use
/// up a question in each round.
#[derive(Debug, Default)]
pub struct SuspectsToAsk {
    not_ours: BTreeMap<InstanceId, Moment>,
    order: RoundRobin<InstanceId>,
}

impl SuspectsToAsk {
    /// AWS showed at `now` that this instance is not ours to drain.
    pub fn note_not_ours(&mut self, now: Moment, instance: InstanceId) {
        self.not_ours.insert(instance, now);
    }

    /// The suspects about which AWS is asked in this round, the longest sick first, and those that
    /// wait for a later one.
    #[must_use]
    pub fn select(&mut self, now: Moment, mut found: Vec<Suspect>) -> (Vec<Suspect>, Vec<Suspect>) {
        self.not_ours.retain(|_, at| now < at.plus(NOT_OURS_FOR));
        found.retain(|suspect| !self.not_ours.contains_key(&suspect.instance));
        let (mut asked, later) =
            self.order.next(found, MAX_ASKED, |suspect| suspect.instance.clone());
        sort_longest_sick_first(&mut asked);
        (asked, later)
    }
}

/// What happens to a suspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Its drain begins. It belongs to this group.
    Begin(GroupName),
    /// It waits.
    Wait(WaitReason),
    /// Sundown leaves it alone, because AWS shows that it does not run, is in no group, lacks the
    /// tag of `--managed-tag`, or is not `InService` and healthy in its group.
    LeaveAlone,
}

/// A suspect and what happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The sick instance and its Node.
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
    begun: &LastHour,
    max_an_hour: usize,
) -> Vec<Choice> {
    let mut room = max_an_hour.saturating_sub(begun.count_of_all_leaders(scene));
    let mut busy = busy_groups(scene);
    let decide = |(suspect, view): (Suspect, AwsView)| {
        let decision = match view {
            AwsView::Unanswered => Decision::Wait(WaitReason::Unanswered),
            AwsView::NotOurs => Decision::LeaveAlone,
            AwsView::Answered(member) => {
                if !member.is_serving {
                    Decision::LeaveAlone
                } else if suspect.node.unschedulable {
                    // Suspects have no record that cordons, so somebody else set this cordon.
                    Decision::Wait(WaitReason::CordonedByOthers)
                } else if busy.contains(&member.group) {
                    Decision::Wait(WaitReason::GroupBusy)
                } else if !member.is_group_complete {
                    Decision::Wait(WaitReason::GroupIncomplete)
                } else if room == 0 {
                    Decision::Wait(WaitReason::MaxPerHour)
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

/// The groups with an unfinished impaired node ([`super::ScannedNode::is_unfinished`]).
#[must_use]
pub fn busy_groups(scene: &Scene<'_>) -> BTreeSet<GroupName> {
    let unfinished = scene.nodes.iter().filter(|scanned| scanned.is_unfinished());
    unfinished.filter_map(|scanned| Some(scanned.last_sickness.as_ref()?.group.clone())).collect()
}
