//! How many Nodes look sick. If many do, the fault lies elsewhere: in the network, DNS or the API
//! server.

use std::collections::BTreeMap;

use super::{ScannedNode, Scene, looks_sick};
use crate::domain::{ImpairedStatus, ZONE};

/// The fewest Nodes of a zone that show a fault of the zone.
const ZONE_NODES: usize = 3;

/// How many Nodes look sick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// How many there are.
    pub nodes: usize,
    /// How many of them look sick, however short.
    pub sick: usize,
}

impl Census {
    fn add(&mut self, is_sick: bool) {
        self.nodes += 1;
        self.sick += usize::from(is_sick);
    }

    /// Several Nodes and more than 20 % of them look sick.
    const fn shows_fault_elsewhere(self) -> bool {
        self.sick >= 2 && self.sick.saturating_mul(5) > self.nodes
    }

    /// Several Nodes of a zone and more than half of them look sick.
    const fn shows_fault_of_zone(self) -> bool {
        self.nodes >= ZONE_NODES && self.sick >= 2 && self.sick.saturating_mul(2) > self.nodes
    }
}

/// The Nodes that count. A Node without an EC2 instance (Fargate, a machine elsewhere) fails for
/// other reasons, and one that another interruption holds is going away.
fn counted<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a ScannedNode> {
    let counts = |scanned: &&ScannedNode| {
        scanned.node.instance.is_some() && scanned.status != ImpairedStatus::OtherInterruption
    };
    scene.nodes.iter().filter(counts)
}

/// Counts the Nodes with an EC2 instance, and those of them that Sundown manages.
#[must_use]
pub fn census(scene: &Scene<'_>) -> [Census; 2] {
    let [mut all, mut managed] = [Census::default(); 2];
    for scanned in counted(scene) {
        let is_sick = looks_sick(scene, scanned);
        all.add(is_sick);
        if scanned.is_managed {
            managed.add(is_sick);
        }
    }
    [all, managed]
}

/// More than 20 % of the Nodes look sick, or more than half of those of one zone.
pub(super) fn shows_fault_elsewhere(scene: &Scene<'_>) -> bool {
    let mut zones: BTreeMap<&str, Census> = BTreeMap::new();
    for scanned in counted(scene) {
        if let Some(zone) = scanned.node.labels.get(ZONE) {
            zones.entry(zone).or_default().add(looks_sick(scene, scanned));
        }
    }
    census(scene).into_iter().any(Census::shows_fault_elsewhere)
        || zones.into_values().any(Census::shows_fault_of_zone)
}
