//! What earlier rounds have shown of the Nodes.

use std::{collections::BTreeMap, time::Duration};

use super::{HEALTHY_FOR, ScannedNode};
use crate::domain::{InstanceId, Moment, Node, Ready, seconds};

/// A Node that is not Ready since longer after it was created was Ready before: a launch succeeds or
/// fails sooner. This counts only if nobody has seen the Node before.
const LAUNCHED_WITHIN: Duration = seconds(900);
/// How long after its creation the kubelet of a Node writes the `Ready` condition for the first time.
const FIRST_STATUS: Duration = seconds(30);

/// What the rounds of this leader have shown, by the UID of the Node.
#[derive(Debug, Default)]
pub struct Sightings(BTreeMap<String, Sighting>);

#[derive(Debug, Clone, Copy, Default)]
struct Sighting {
    /// `None`: not known.
    was_ready: Option<bool>,
    healthy_since: Option<Moment>,
}

impl Sightings {
    /// Takes in one round. `failing`: the instances whose status checks fail; `None`: EC2 has not
    /// answered, so nothing shows that an instance is healthy.
    pub fn note(
        &mut self,
        now: Moment,
        nodes: &[ScannedNode],
        failing: Option<&BTreeMap<InstanceId, Moment>>,
    ) {
        let before = std::mem::take(&mut self.0);
        for ScannedNode { node, .. } in nodes {
            let mut sighting = before.get(&node.uid).copied().unwrap_or_default();
            if node.ready == Ready::True {
                sighting.was_ready = Some(true);
            } else if sighting.was_ready.is_none() && is_first_status(node) {
                sighting.was_ready = Some(false);
            }
            let passes = |failing: &BTreeMap<InstanceId, Moment>| {
                node.instance.as_ref().is_none_or(|id| !failing.contains_key(id))
            };
            match (node.ready, failing.map(passes)) {
                (Ready::True, Some(true)) => {
                    sighting.healthy_since = sighting.healthy_since.or(Some(now));
                }
                (Ready::True, None) => {}
                _ => sighting.healthy_since = None,
            }
            self.0.insert(node.uid.clone(), sighting);
        }
    }

    /// The Node was Ready once. A Node that no round has seen before was Ready if it lost that long
    /// after it was created.
    pub(super) fn was_ready(&self, node: &Node) -> bool {
        let seen = self.0.get(&node.uid).and_then(|sighting| sighting.was_ready);
        seen.unwrap_or_else(|| {
            let times = node.created.zip(node.ready_since);
            times.is_some_and(|(created, since)| since > created.plus(LAUNCHED_WITHIN))
        })
    }

    /// Every round within [`HEALTHY_FOR`] has shown the Node Ready and no status check of its
    /// instance failing.
    pub(super) fn is_healthy(&self, node: &Node, now: Moment) -> bool {
        let since = self.0.get(&node.uid).and_then(|sighting| sighting.healthy_since);
        since.is_some_and(|since| since.plus(HEALTHY_FOR) <= now)
    }
}

/// The Ready condition has not changed since the kubelet wrote it for the first time.
fn is_first_status(node: &Node) -> bool {
    let times = node.created.zip(node.ready_since);
    times.is_none_or(|(created, since)| since <= created.plus(FIRST_STATUS))
}
