//! Sick instances (`--on impaired`): which are drained, what each of the others waits for, which are
//! healthy again, and which are handed to Auto Scaling.
//!
//! Each round of the sweep is decided in this order. Nothing here makes a call.
//!
//! 1. [`NodeHistory::note`] remembers which Nodes were Ready, and since when they are healthy.
//! 2. [`suspects`] finds the instances that have been sick for `--impaired-after`.
//! 3. [`block_reason`] decides whether any drain may begin, for example by how many Nodes look sick: a
//!    fault of the network, of DNS or of the API server makes many Nodes look sick.
//! 4. The sweep asks AWS about each suspect, and [`choose`] decides which drains begin.
//! 5. [`due_steps`] lists the nodes whose sick instance was accepted before and that may need a
//!    step. The sweep asks AWS about each, and [`next_step`] decides. Right before an instance is
//!    reported to Auto Scaling, [`confirm_set_unhealthy`] checks its Node once more.
//!
//! To add a reason to wait: a variant of [`WaitReason`]; `block_reason` if it stops every drain,
//! `choose` if it is about one instance before its drain, `due_steps` or `next_step` if after; the
//! two tables in `docs/interruptions.md`.

mod census;
mod choose;
mod follow;
mod history;
#[cfg(test)]
mod tests;
mod wait_reason;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub use census::{Census, census};
pub use choose::{Choice, Decision, LastHour, SuspectsToAsk, busy_groups, choose};
pub use follow::{Rules, Step, confirm_set_unhealthy, due_steps, needs_follow_up, next_step};
pub use history::{FailingChecks, NodeHistory};
pub use wait_reason::{Phase, WaitReason};

use self::census::shows_fault_elsewhere;
use crate::domain::{
    GroupCapacity, GroupName, ImpairedStatus, InstanceId, InstanceState, LastSickness, Moment,
    Node, Ready, Response, Symptom, seconds,
};

/// How long after an outage of the API server nothing begins: kubelets could not report to it.
pub const AFTER_OUTAGE: Duration = seconds(300);
/// How long a node must be healthy before it is restored.
pub const HEALTHY_FOR: Duration = seconds(300);
/// Sundown asks AWS about at most this many suspects in one round, and about at most this many
/// nodes whose drain has ended. The others wait for a later round.
pub const MAX_ASKED: usize = 20;

/// A Node, with what its annotations mean for a sick instance.
#[derive(Debug, Clone)]
pub struct ScannedNode {
    /// The Node, as the index or a LIST has it.
    pub node: Arc<Node>,
    /// What its record means.
    pub status: ImpairedStatus,
    /// When Sundown last accepted the instance of the Node as sick, by our clock. `None`: never.
    pub last_sickness: Option<LastSickness>,
    /// `--node-selector` matches it, and it has no annotation `sundown.dev/ignore`.
    pub is_managed: bool,
}

impl ScannedNode {
    /// Whether Sundown accepted the instance as sick and something still follows: the Node is being
    /// drained, waits for its replacement, or its instance ends.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        let is_held = !matches!(self.status, ImpairedStatus::Free | ImpairedStatus::OnlyTainted);
        self.last_sickness.is_some() && is_held
    }
}

/// What one round sees.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Now, by our clock.
    pub now: Moment,
    /// All Nodes of the cluster.
    pub nodes: &'a [ScannedNode],
    /// Since when a status check of an instance has been failing, by our clock. `None`: EC2 did not
    /// answer in this round.
    pub failing: Option<&'a BTreeMap<InstanceId, Moment>>,
    /// The index of Nodes is complete, and its watch works.
    pub is_index_sound: bool,
    /// When the watch of Nodes last failed; `None`: never.
    pub watch_failed_at: Option<Moment>,
    /// All drains are paused.
    pub is_paused: bool,
    /// What Sundown does about a sick instance (`--on impaired`).
    pub response: Response,
}

/// An instance that has been sick for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// The only Node that claims the instance.
    pub node: Arc<Node>,
    /// The instance in the Node's providerID.
    pub instance: InstanceId,
    /// What shows that it is sick.
    pub symptom: Symptom,
    /// Since when, by our clock.
    pub since: Moment,
}

/// What AWS answers about an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwsView {
    /// EC2 and Auto Scaling answered.
    Answered(Member),
    /// The instance is in no Auto Scaling group, lacks the tag of `--managed-tag`, or EC2 does not
    /// know it.
    NotOurs,
    /// One of them did not answer in time.
    Unanswered,
}

/// An instance of an Auto Scaling group.
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts of an instance and its group that do not exclude each other"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The Auto Scaling group that the instance is a member of.
    pub group: GroupName,
    /// EC2 reports it as `running`, and its group as `InService` and healthy. `false` in a warm
    /// pool.
    pub is_serving: bool,
    /// The instances that are `InService` and healthy reach the desired capacity of the group. Also
    /// `true` if it counts vCPUs or memory, because AWS does not report those of an instance.
    pub is_group_complete: bool,
    /// Its `HealthStatus` in Auto Scaling is `Unhealthy`.
    pub is_unhealthy: bool,
    /// The group replaces unhealthy instances: none of the processes that do is suspended.
    pub group_replaces_unhealthy: bool,
}

impl Member {
    /// An instance that EC2 and its group describe like this.
    #[must_use]
    pub fn new(group: GroupName, described: &Described<'_>) -> Self {
        let of_group = described.states;
        let is_in_service = |id: &str| of_group.get(id).is_some_and(|state| state == IN_SERVICE);
        let is_well = |id: &&String| is_in_service(id) && !described.unhealthy.contains(*id);
        let own = described.instance.as_str();
        let is_unhealthy = described.unhealthy.contains(own);
        let well = of_group.keys().filter(is_well).map(String::as_str);
        let is_complete = described.capacity.is_reached_by(well);
        Self {
            group,
            is_serving: described.state == InstanceState::Running
                && is_in_service(own)
                && !is_unhealthy,
            is_group_complete: is_complete.unwrap_or(true),
            is_unhealthy,
            group_replaces_unhealthy: !described
                .suspended
                .iter()
                .any(|p| REPLACING.contains(&p.as_str())),
        }
    }
}

/// What EC2 and Auto Scaling answer about an instance and its group.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// The instance that EC2 described.
    pub instance: &'a InstanceId,
    /// Its state according to EC2.
    pub state: InstanceState,
    /// What the group wants, and what each instance counts.
    pub capacity: &'a GroupCapacity,
    /// `LifecycleState` of each instance of the group, by its ID.
    pub states: &'a BTreeMap<String, String>,
    /// The IDs of the instances whose `HealthStatus` is `Unhealthy`: the group replaces them.
    pub unhealthy: &'a BTreeSet<String>,
    /// The processes of the group that are suspended (`SuspendedProcesses`).
    pub suspended: &'a BTreeSet<String>,
}

/// The processes of a group by which it replaces an unhealthy instance. While one of them is
/// suspended, such an instance keeps running.
pub const REPLACING: [&str; 2] = ["ReplaceUnhealthy", "Terminate"];

/// The `LifecycleState` of an instance on which its group counts.
const IN_SERVICE: &str = "InService";

/// Why nothing may begin now, whatever the suspects are. `None`: something may.
#[must_use]
pub fn block_reason(scene: &Scene<'_>) -> Option<WaitReason> {
    let had_outage = scene.watch_failed_at.is_some_and(|at| scene.now < at.plus(AFTER_OUTAGE));
    if !scene.is_index_sound {
        Some(WaitReason::WatchStale)
    } else if had_outage {
        Some(WaitReason::ApiServerOutage)
    } else if scene.failing.is_none() {
        Some(WaitReason::StatusesUnknown)
    } else if shows_fault_elsewhere(scene) {
        Some(WaitReason::FaultElsewhere)
    } else if scene.is_paused {
        Some(WaitReason::Paused)
    } else {
        None
    }
}

/// The instances that have been sick for `after` and whose drain has not begun, the longest sick
/// first.
#[must_use]
pub fn suspects(scene: &Scene<'_>, history: &NodeHistory, after: Duration) -> Vec<Suspect> {
    let suspect = |scanned: &ScannedNode| {
        let instance = scanned.node.instance.clone()?;
        let is_free = match scanned.status {
            ImpairedStatus::Free => scanned.is_managed,
            ImpairedStatus::OnlyTainted => scanned.is_managed && scene.response.cordons(),
            _ => false,
        };
        let was_ready = history.was_ready(&scanned.node);
        let (symptom, since) = sick_since(scene, scanned, history, was_ready)?;
        let is_long = since.plus(after) <= scene.now;
        // The annotation shows an earlier drain of this Node, which a person may have ended. Sundown
        // drains the Node again only if it was healthy after that and then became sick.
        let is_new = scanned.last_sickness.as_ref().is_none_or(|last_sickness| {
            last_sickness.at < since && history.was_healthy_after(&scanned.node, last_sickness.at)
        });
        let node = Arc::clone(&scanned.node);
        let is_suspect =
            is_free && is_long && is_new && is_only_node_of_its_instance(scene, scanned);
        is_suspect.then_some(Suspect { node, instance, symptom, since })
    };
    let mut suspects: Vec<Suspect> = scene.nodes.iter().filter_map(suspect).collect();
    sort_longest_sick_first(&mut suspects);
    suspects
}

/// Of several Nodes that claim one instance, nothing shows which one is sick, or whether the others
/// serve.
fn is_only_node_of_its_instance(scene: &Scene<'_>, scanned: &ScannedNode) -> bool {
    let claims = |other: &&ScannedNode| other.node.instance == scanned.node.instance;
    scene.nodes.iter().filter(claims).nth(1).is_none()
}

fn sort_longest_sick_first(suspects: &mut [Suspect]) {
    suspects.sort_by(|a, b| (a.since, &a.node.name).cmp(&(b.since, &b.node.name)));
}

/// What shows that the instance of this Node is sick, and since when. `was_ready`: the Node was Ready
/// before. One that never was belongs to a failed launch.
fn sick_since(
    scene: &Scene<'_>,
    scanned: &ScannedNode,
    history: &NodeHistory,
    was_ready: bool,
) -> Option<(Symptom, Moment)> {
    let failing = scanned.node.instance.as_ref().and_then(|id| scene.failing?.get(id));
    let by_check = failing.map(|since| (Symptom::StatusCheck, *since));
    let by_node = history.not_ready_since(&scanned.node, scene.now).filter(|_| was_ready);
    let by_node = by_node.map(|since| (Symptom::NotReady, since));
    by_check.into_iter().chain(by_node).min_by_key(|(_, since)| *since)
}

fn looks_sick(scene: &Scene<'_>, scanned: &ScannedNode) -> bool {
    let fails = |id: &InstanceId| scene.failing.is_some_and(|failing| failing.contains_key(id));
    scanned.node.ready != Ready::True || scanned.node.instance.as_ref().is_some_and(fails)
}
