//! What follows for nodes that were taken on as impaired.

use std::{collections::BTreeMap, time::Duration};

use super::{AwsView, ScannedNode, Scene, Sightings, Waits, hold, looks_sick, sick_since};
use crate::domain::{ImpairedStatus, InstanceId, Moment, seconds};

/// How long a group may take to replace an instance that was reported as unhealthy.
const REPLACED_WITHIN: Duration = seconds(3600);

/// What follows for a node that was taken on as impaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is healthy again: its drain ends, and it is put back as it was.
    PutBack,
    /// Its drain has ended, and it is still sick: Auto Scaling is asked to replace it.
    SetUnhealthy,
    /// Its drain has ended, and Auto Scaling is not asked, or does not replace it.
    Wait(Waits),
}

/// What the steps depend on, apart from the Nodes.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// `--then impaired=unhealthy` is set.
    pub then_unhealthy: bool,
    /// `--impaired-after`.
    pub after: Duration,
    /// When Sundown reported an instance to Auto Scaling as unhealthy, or first saw Auto Scaling
    /// count it as unhealthy.
    pub told: &'a BTreeMap<InstanceId, Moment>,
}

/// The step that this node needs if its group still has it in service.
fn wanted(
    scene: &Scene<'_>,
    scanned: &ScannedNode,
    sightings: &Sightings,
    rules: &Rules<'_>,
) -> Option<Step> {
    use ImpairedStatus::{Drained, Draining, Held, PodsLeft};
    let status = scanned.status;
    let is_ours = matches!(status, Draining | Drained | PodsLeft) && scanned.is_managed;
    // Only an answer of EC2 shows that no check fails.
    if is_ours && scene.failing.is_some() && sightings.is_healthy(&scanned.node, scene.now) {
        return Some(Step::PutBack);
    }
    let has_ended = matches!(status, Drained | PodsLeft | Held);
    if !has_ended || !rules.then_unhealthy || !looks_sick(scene, scanned) {
        return None;
    }
    let node = &scanned.node;
    if let Some(at) = node.instance.as_ref().and_then(|instance| rules.told.get(instance)) {
        let is_late = at.plus(REPLACED_WITHIN) <= scene.now;
        return is_late.then_some(Step::Wait(Waits::ReplacementLate));
    }
    if status == Held || node.keeps_cordon() || node.paused() || node.ignored() {
        return Some(Step::Wait(Waits::KeptByPerson));
    }
    if !scanned.is_managed {
        return None;
    }
    if status == PodsLeft {
        return Some(Step::Wait(Waits::PodsLeft));
    }
    is_still_sick(scene, scanned, sightings, rules.after).then_some(Step::SetUnhealthy)
}

/// The sickness has lasted since the Node was taken on, or for `after`: one bad round is not enough.
fn is_still_sick(
    scene: &Scene<'_>,
    scanned: &ScannedNode,
    sightings: &Sightings,
    after: Duration,
) -> bool {
    // A Node that was taken on was Ready before.
    let since = sick_since(scene, scanned, sightings, true).map(|(_, since)| since);
    let is_since_mark = |since: Moment| scanned.mark.as_ref().is_some_and(|mark| since <= mark.at);
    since.is_some_and(|since| is_since_mark(since) || since.plus(after) <= scene.now)
}

/// The nodes whose sick instance was accepted before and that may need a step, with that step.
/// While `is_held` (see [`hold`]), no step is [`Step::SetUnhealthy`].
#[must_use]
pub fn followed<'a>(
    scene: &Scene<'a>,
    sightings: &Sightings,
    rules: &Rules<'_>,
    is_held: bool,
) -> Vec<(&'a ScannedNode, Step)> {
    let step =
        |scanned: &'a ScannedNode| Some((scanned, wanted(scene, scanned, sightings, rules)?));
    let all = scene.nodes.iter().filter_map(step);
    all.filter(|(_, step)| !is_held || *step != Step::SetUnhealthy).collect()
}

/// Whether the Node with this UID may be handed over right now. `scene` has the Node as the API
/// server has just returned it.
///
/// # Errors
/// It must not be handed over; with the reason if it is one to report.
pub fn confirmed(
    scene: &Scene<'_>,
    uid: &str,
    sightings: &Sightings,
    rules: &Rules<'_>,
) -> Result<(), Option<Waits>> {
    if let Some(why) = hold(scene) {
        return Err(Some(why));
    }
    let node = scene.nodes.iter().find(|scanned| scanned.node.uid == uid).ok_or(None)?;
    match wanted(scene, node, sightings, rules) {
        Some(Step::SetUnhealthy) => Ok(()),
        Some(Step::Wait(why)) => Err(Some(why)),
        Some(Step::PutBack) | None => Err(None),
    }
}

/// The step to take, given what AWS answers about the instance. Never restores a node whose group
/// already replaces it, and reports an instance to Auto Scaling only once. Restores a node whose
/// instance is in no group.
#[must_use]
pub const fn next_step(wanted: Step, view: &AwsView) -> Option<Step> {
    match (wanted, view) {
        (Step::Wait(Waits::ReplacementLate), AwsView::Answered(member)) if member.is_unhealthy => {
            Some(wanted)
        }
        (Step::Wait(Waits::ReplacementLate), _) => None,
        (Step::SetUnhealthy, AwsView::Answered(member))
            if member.is_serving && !member.is_replacing =>
        {
            Some(Step::Wait(Waits::ReplacementSuspended))
        }
        (_, AwsView::Answered(member)) if member.is_serving => Some(wanted),
        (Step::PutBack, AwsView::NotOurs) => Some(Step::PutBack),
        _ => None,
    }
}
