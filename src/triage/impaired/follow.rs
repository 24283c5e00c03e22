//! What follows for nodes that were taken on as impaired.

use super::{AwsView, ScannedNode, Scene, Sightings, looks_sick};
use crate::domain::ImpairedStatus;

/// What follows for a node that was taken on as impaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is healthy again: its drain ends, and it is put back as it was.
    PutBack,
    /// Its drain has ended, and it is still sick: Auto Scaling is asked to replace it.
    SetUnhealthy,
}

/// The step that this node needs if its group still has it in service. `may_replace`: nothing holds
/// drains back ([`super::hold`]), and `--then impaired=unhealthy` is set.
fn wanted(
    scene: &Scene<'_>,
    scanned: &ScannedNode,
    sightings: &Sightings,
    may_replace: bool,
) -> Option<Step> {
    let (is_open, has_ended) =
        (scanned.status == ImpairedStatus::Draining, scanned.status == ImpairedStatus::Drained);
    if !scanned.is_managed || !(is_open || has_ended) {
        return None;
    }
    if sightings.is_healthy(&scanned.node, scene.now) {
        return Some(Step::PutBack);
    }
    (has_ended && may_replace && looks_sick(scene, scanned)).then_some(Step::SetUnhealthy)
}

/// The nodes that were taken on before and may need a step, with that step.
#[must_use]
pub fn followed<'a>(
    scene: &Scene<'a>,
    sightings: &Sightings,
    may_replace: bool,
) -> Vec<(&'a ScannedNode, Step)> {
    let step =
        |scanned: &'a ScannedNode| Some((scanned, wanted(scene, scanned, sightings, may_replace)?));
    scene.nodes.iter().filter_map(step).collect()
}

/// Whether the step is taken, by what AWS answers about the instance. A node whose group replaces it
/// is never put back, and Auto Scaling is told only once. A node outside of any group is put back.
#[must_use]
pub const fn next_step(wanted: Step, view: &AwsView) -> Option<Step> {
    match (wanted, view) {
        (_, AwsView::Answered(member)) if member.is_serving => Some(wanted),
        (Step::PutBack, AwsView::NotOurs) => Some(Step::PutBack),
        _ => None,
    }
}
