//! Sick instances (`--on impaired`): which are drained, what each of the others waits for, which are
//! healthy again, and which are handed to Auto Scaling.
//!
//! Each round of the sweep is decided in this order. Nothing here makes a call.
//!
//! 1. [`Sightings::note`] remembers which Nodes were Ready, and since when they are healthy.
//! 2. [`suspects`] finds the instances that have been sick for `--impaired-after`.
//! 3. [`hold`] says whether anything may begin at all. First of all that depends on how many Nodes
//!    are sick: a fault of the network, of DNS or of the API server makes many Nodes look sick.
//! 4. The sweep asks AWS about each suspect, and [`choose`] decides which drains begin.
//! 5. [`followed`] lists the nodes that were taken on before and may need a step, and
//!    [`next_step`] decides about each, by what AWS answers.

mod choose;
mod follow;
mod pace;
mod sightings;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub use choose::{Begun, Choice, Decision, choose};
pub use follow::{Step, followed, next_step};
pub use pace::{Pace, RoundEnd};
pub use sightings::Sightings;

use crate::domain::{
    GroupName, ImpairedMark, ImpairedStatus, InstanceId, InstanceState, Moment, Node, Ready,
    Response, Symptom, seconds,
};

/// How long after an outage of the API server nothing begins: kubelets could not report to it.
pub const AFTER_OUTAGE: Duration = seconds(300);
/// How long a node must be healthy before it is put back.
pub const HEALTHY_FOR: Duration = seconds(300);
/// About how many suspects AWS is asked in one round. The others wait for the next round.
pub const MAX_SUSPECTS: usize = 20;

/// A Node, with what its annotations mean for a sick instance.
#[derive(Debug, Clone)]
pub struct ScannedNode {
    /// The Node, as the index or a LIST has it.
    pub node: Arc<Node>,
    /// What its record means.
    pub status: ImpairedStatus,
    /// When Sundown last took it on as impaired, by our clock; `None`: never.
    pub mark: Option<ImpairedMark>,
    /// `--node-selector` matches it, and it has no annotation `sundown.dev/ignore`.
    pub is_managed: bool,
}

impl ScannedNode {
    /// It was taken on as impaired and is not finished: it is drained, it waits for its
    /// replacement, or it goes away.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        let is_held = !matches!(self.status, ImpairedStatus::Free | ImpairedStatus::Marked);
        self.mark.is_some() && is_held
    }
}

/// What one round sees.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Now, by our clock.
    pub now: Moment,
    /// All Nodes of the cluster.
    pub nodes: &'a [ScannedNode],
    /// Since when a status check of an instance has been failing, by our clock.
    pub failing: &'a BTreeMap<InstanceId, Moment>,
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
    /// Its Node.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its group.
    pub group: GroupName,
    /// It runs, and its group counts on it.
    pub is_serving: bool,
    /// The group has as many instances `InService` as it wants.
    pub is_group_complete: bool,
}

impl Member {
    /// An instance that EC2 and its group describe like this.
    #[must_use]
    pub fn new(group: GroupName, described: &Described<'_>) -> Self {
        let of_group = described.states;
        let in_service = of_group.values().filter(|state| *state == IN_SERVICE).count();
        let is_in_service =
            of_group.get(described.instance.as_str()).is_some_and(|state| state == IN_SERVICE);
        Self {
            group,
            is_serving: described.state == InstanceState::Running
                && is_in_service
                && !described.unhealthy.contains(described.instance.as_str()),
            is_group_complete: in_service >= described.desired,
        }
    }
}

/// What EC2 and Auto Scaling answer about an instance and its group.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// The instance.
    pub instance: &'a InstanceId,
    /// Its state according to EC2.
    pub state: InstanceState,
    /// `DesiredCapacity` of the group.
    pub desired: usize,
    /// `LifecycleState` of each instance of the group, by its ID.
    pub states: &'a BTreeMap<String, String>,
    /// The IDs of the instances whose `HealthStatus` is `Unhealthy`: the group replaces them.
    pub unhealthy: &'a BTreeSet<String>,
}

/// The `LifecycleState` of an instance on which its group counts.
const IN_SERVICE: &str = "InService";

/// Why a drain of a sick instance does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waits {
    /// The index of Nodes is not complete, or its watch fails.
    WatchStale,
    /// The API server failed within the last [`AFTER_OUTAGE`].
    ApiServerOutage,
    /// All drains are paused.
    Paused,
    /// Too many Nodes are sick: the fault lies elsewhere.
    FaultElsewhere,
    /// `--max-impaired` drains have begun within an hour.
    MaxPerHour,
    /// Another sick node of the group is drained or waits for its replacement.
    GroupBusy,
    /// The group has fewer instances in service than it wants.
    GroupIncomplete,
    /// AWS did not answer about the instance.
    Unanswered,
}

impl Waits {
    /// Every reason, for initializing metrics.
    pub const ALL: [Self; 8] = [
        Self::WatchStale,
        Self::ApiServerOutage,
        Self::Paused,
        Self::FaultElsewhere,
        Self::MaxPerHour,
        Self::GroupBusy,
        Self::GroupIncomplete,
        Self::Unanswered,
    ];

    /// Its word in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WatchStale => "watch_stale",
            Self::ApiServerOutage => "api_server_outage",
            Self::Paused => "paused",
            Self::FaultElsewhere => "fault_elsewhere",
            Self::MaxPerHour => "max_per_hour",
            Self::GroupBusy => "group_busy",
            Self::GroupIncomplete => "group_incomplete",
            Self::Unanswered => "unanswered",
        }
    }

    /// The reason as the end of a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::WatchStale => "the nodes cannot be read, so they may have changed",
            Self::ApiServerOutage => {
                "the API server failed within the last 5 minutes, so kubelets could not report"
            }
            Self::Paused => "all drains are paused",
            Self::FaultElsewhere => {
                "more than 20 % of the nodes look sick: the fault lies elsewhere (network, DNS, API \
                 server)"
            }
            Self::MaxPerHour => "as many as --max-impaired allows have begun within an hour",
            Self::GroupBusy => {
                "another impaired node of its group is drained, or waits for its replacement"
            }
            Self::GroupIncomplete => "its group has fewer instances in service than it wants",
            Self::Unanswered => "AWS did not answer about its instance",
        }
    }
}

/// How many Nodes look sick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// How many there are.
    pub nodes: usize,
    /// How many of them look sick, however short.
    pub sick: usize,
}

impl Census {
    /// Several Nodes and more than 20 % of them look sick.
    #[must_use]
    pub const fn shows_fault_elsewhere(self) -> bool {
        self.sick >= 2 && self.sick.saturating_mul(5) > self.nodes
    }
}

/// Counts all Nodes, and those that Sundown manages.
#[must_use]
pub fn census(scene: &Scene<'_>) -> [Census; 2] {
    let count = |managed_only: bool| {
        let counted = scene.nodes.iter().filter(|scanned| scanned.is_managed || !managed_only);
        counted.fold(Census::default(), |census, scanned| {
            // A Node that another interruption holds is going away.
            let is_sick = scanned.status != ImpairedStatus::OfOthers && looks_sick(scene, scanned);
            Census { nodes: census.nodes + 1, sick: census.sick + usize::from(is_sick) }
        })
    };
    [count(false), count(true)]
}

/// Why nothing may begin now, whatever the suspects are. `None`: something may.
#[must_use]
pub fn hold(scene: &Scene<'_>) -> Option<Waits> {
    let had_outage = scene.watch_failed_at.is_some_and(|at| scene.now < at.plus(AFTER_OUTAGE));
    if !scene.is_index_sound {
        Some(Waits::WatchStale)
    } else if had_outage {
        Some(Waits::ApiServerOutage)
    } else if census(scene).into_iter().any(Census::shows_fault_elsewhere) {
        Some(Waits::FaultElsewhere)
    } else if scene.is_paused {
        Some(Waits::Paused)
    } else {
        None
    }
}

/// The instances that have been sick for `after` and whose drain has not begun, the longest sick
/// first.
#[must_use]
pub fn suspects(scene: &Scene<'_>, sightings: &Sightings, after: Duration) -> Vec<Suspect> {
    let mut claims: BTreeMap<&InstanceId, usize> = BTreeMap::new();
    for instance in scene.nodes.iter().filter_map(|scanned| scanned.node.instance.as_ref()) {
        *claims.entry(instance).or_default() += 1;
    }
    let suspect = |scanned: &ScannedNode| {
        let instance = scanned.node.instance.clone()?;
        let is_free = match scanned.status {
            ImpairedStatus::Free => scanned.is_managed,
            ImpairedStatus::Marked => scanned.is_managed && scene.response.cordons(),
            _ => false,
        };
        // Of several Nodes that claim one instance, nothing shows which one is sick.
        let is_alone = claims.get(&instance) == Some(&1);
        let (symptom, since) = sick_since(scene, scanned, sightings)?;
        let is_long = since.plus(after) <= scene.now;
        // This sickness was taken on before, and a person has ended that drain.
        let is_new = scanned.mark.as_ref().is_none_or(|mark| mark.at < since);
        let node = Arc::clone(&scanned.node);
        (is_free && is_alone && is_long && is_new).then_some(Suspect {
            node,
            instance,
            symptom,
            since,
        })
    };
    let mut suspects: Vec<Suspect> = scene.nodes.iter().filter_map(suspect).collect();
    suspects.sort_by(|a, b| (a.since, &a.node.name).cmp(&(b.since, &b.node.name)));
    suspects
}

/// What shows that the instance of this Node is sick, and since when. A Node that was never Ready
/// belongs to a failed launch.
fn sick_since(
    scene: &Scene<'_>,
    scanned: &ScannedNode,
    sightings: &Sightings,
) -> Option<(Symptom, Moment)> {
    let failing = scanned.node.instance.as_ref().and_then(|id| scene.failing.get(id));
    let by_check = failing.map(|since| (Symptom::StatusCheck, *since));
    let is_down = scanned.node.ready != Ready::True && sightings.was_ready(&scanned.node);
    let by_node = scanned.node.ready_since.filter(|_| is_down);
    let by_node = by_node.map(|since| (Symptom::NotReady, since));
    by_check.into_iter().chain(by_node).min_by_key(|(_, since)| *since)
}

fn looks_sick(scene: &Scene<'_>, scanned: &ScannedNode) -> bool {
    let fails = |id: &InstanceId| scene.failing.contains_key(id);
    scanned.node.ready != Ready::True || scanned.node.instance.as_ref().is_some_and(fails)
}
