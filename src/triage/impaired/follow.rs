//! What Sundown does about nodes whose instance it has accepted as sick: restore the node, report
//! the instance to Auto Scaling, or wait.

use std::{collections::BTreeMap, time::Duration};

use super::{
    AwsView, LastHour, NodeHistory, ScannedNode, Scene, WaitReason, block_reason,
    is_only_node_of_its_instance, looks_sick, sick_since,
};
use crate::domain::{ImpairedStatus, InstanceId, Moment, Ready, seconds};

/// How long a group may take to replace an instance that was reported as unhealthy.
const REPLACED_WITHIN: Duration = seconds(3600);

/// What Sundown does about a node whose instance it has accepted as sick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is healthy again: its drain ends, and its node is restored.
    Restore,
    /// Its drain has ended, and it is still sick: Auto Scaling is asked to replace it.
    SetUnhealthy,
    /// Its drain has ended, and Auto Scaling is not asked, or does not replace it.
    Wait(WaitReason),
}

/// What the steps depend on, apart from the Nodes.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// `--impaired-after`, if `--then impaired=unhealthy` is set. `None`: no instance is reported to
    /// Auto Scaling.
    pub set_unhealthy_after: Option<Duration>,
    /// `--max-impaired`.
    pub max_an_hour: usize,
    /// When Sundown reported an instance to Auto Scaling as unhealthy, or first saw Auto Scaling
    /// count it as unhealthy.
    pub reported_unhealthy: &'a BTreeMap<InstanceId, Moment>,
}

/// Whether a drain of a sick instance goes on or has ended, so that its node may have to be put
/// back: also if `--on impaired` was switched off since.
#[must_use]
pub fn needs_follow_up(scanned: &ScannedNode) -> bool {
    use ImpairedStatus::{Drained, Draining, PodsLeft};
    scanned.is_managed && matches!(scanned.status, Draining | Drained | PodsLeft)
}

/// The step that this node needs if its group still has it in service.
fn due_step(
    scene: &Scene<'_>,
    scanned: &ScannedNode,
    history: &NodeHistory,
    rules: &Rules<'_>,
) -> Option<Step> {
    use ImpairedStatus::{Drained, KeptCordoned, PodsLeft};
    let (node, status) = (&scanned.node, scanned.status);
    let has_ended = matches!(status, Drained | PodsLeft | KeptCordoned);
    let reported_at = node.instance.as_ref().and_then(|id| rules.reported_unhealthy.get(id));
    let is_late = reported_at.is_some_and(|at| at.plus(REPLACED_WITHIN) <= scene.now);
    if needs_follow_up(scanned) {
        // Only an answer of EC2 shows that no check fails.
        if scene.failing.is_some() && history.is_healthy(node, scene.now) {
            let late = Step::Wait(WaitReason::ReplacementLate);
            return Some(if is_late { late } else { Step::Restore });
        }
        if scene.failing.is_none() && has_ended && node.ready == Ready::True {
            return Some(Step::Wait(WaitReason::StatusesUnknown));
        }
    }
    let after = rules.set_unhealthy_after.filter(|_| has_ended && looks_sick(scene, scanned))?;
    if reported_at.is_some() {
        return is_late.then_some(Step::Wait(WaitReason::ReplacementLate));
    }
    if status == KeptCordoned || node.keeps_cordon() || node.paused() || node.ignored() {
        return Some(Step::Wait(WaitReason::KeptByPerson));
    }
    if !scanned.is_managed {
        return None;
    }
    if status == PodsLeft {
        return Some(Step::Wait(WaitReason::PodsLeft));
    }
    if !is_only_node_of_its_instance(scene, scanned) {
        return Some(Step::Wait(WaitReason::SeveralNodes));
    }
    // One round that shows the instance sick is not enough: it must be sick for `after`. `true`: no
    // Node that Sundown has accepted as sick counts as a failed launch.
    let (_, since) = sick_since(scene, scanned, history, true)?;
    (since.plus(after) <= scene.now).then_some(Step::SetUnhealthy)
}

/// The nodes whose sick instance was accepted before and that may need a step, with that step.
/// `blocked`: see [`block_reason`]; nothing is reported to Auto Scaling meanwhile.
#[must_use]
pub fn due_steps<'a>(
    scene: &Scene<'a>,
    history: &NodeHistory,
    rules: &Rules<'_>,
    blocked: Option<WaitReason>,
) -> Vec<(&'a ScannedNode, Step)> {
    let step = |scanned: &'a ScannedNode| {
        let step = match (due_step(scene, scanned, history, rules)?, blocked) {
            (Step::SetUnhealthy, Some(why)) => Step::Wait(why),
            (step, _) => step,
        };
        Some((scanned, step))
    };
    scene.nodes.iter().filter_map(step).collect()
}

/// Whether Sundown may report the instance of the Node with this UID to Auto Scaling right now.
/// `scene` has the Node as the API server has just returned it. `reported`: what was reported to
/// Auto Scaling within an hour.
///
/// # Errors
/// If it may not: `Some` is why the node waits. `None`: no step is due, so the node does not wait.
pub fn confirm_set_unhealthy(
    scene: &Scene<'_>,
    uid: &str,
    history: &NodeHistory,
    rules: &Rules<'_>,
    reported: &LastHour,
) -> Result<(), Option<WaitReason>> {
    if let Some(why) = block_reason(scene) {
        return Err(Some(why));
    }
    let node = scene.nodes.iter().find(|scanned| scanned.node.uid == uid).ok_or(None)?;
    match due_step(scene, node, history, rules) {
        Some(Step::SetUnhealthy)
            if reported.count_of_this_leader(scene.now) >= rules.max_an_hour =>
        {
            Err(Some(WaitReason::MaxPerHour))
        }
        Some(Step::SetUnhealthy) => Ok(()),
        Some(Step::Wait(why)) => Err(Some(why)),
        Some(Step::Restore) | None => Err(None),
    }
}

/// The step to take, given what AWS answers about the instance. Sundown does not restore a node
/// whose group already replaces its instance. It does restore a node whose instance is in no group.
/// It does not report an instance again that Auto Scaling already counts as unhealthy. `None`:
/// nothing is left to do, and the node does not wait.
#[must_use]
pub const fn next_step(due: Step, view: &AwsView) -> Option<Step> {
    match (due, view) {
        (Step::Wait(_), AwsView::Unanswered) => Some(due),
        (_, AwsView::Unanswered) => Some(Step::Wait(WaitReason::Unanswered)),
        (Step::Restore, AwsView::NotOurs) => Some(Step::Restore),
        (_, AwsView::NotOurs) => None,
        // It would wait for ever for a replacement that does not come.
        (_, AwsView::Answered(member))
            if member.is_unhealthy && !member.group_replaces_unhealthy =>
        {
            Some(Step::Wait(WaitReason::ReplacementSuspended))
        }
        (Step::Wait(WaitReason::ReplacementLate), AwsView::Answered(member)) => {
            if member.is_unhealthy { Some(due) } else { None }
        }
        (Step::SetUnhealthy, AwsView::Answered(member))
            if member.is_serving && !member.group_replaces_unhealthy =>
        {
            Some(Step::Wait(WaitReason::ReplacementSuspended))
        }
        (_, AwsView::Answered(member)) => {
            if member.is_serving {
                Some(due)
            } else {
                None
            }
        }
    }
}
