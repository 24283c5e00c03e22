//! What earlier rounds have shown of the Nodes.

use std::{collections::BTreeMap, time::Duration};

use super::{HEALTHY_FOR, ScannedNode};
use crate::domain::{InstanceId, Moment, Node, Ready, seconds};

/// If a Node became NotReady later than this after its creation, it was Ready before: a launch
/// succeeds or fails sooner. Used only if the rounds of this leader do not show it.
const LAUNCHED_WITHIN: Duration = seconds(900);
/// How long after its creation the kubelet of a Node writes the `Ready` condition for the first time.
const FIRST_STATUS: Duration = seconds(30);

/// What the rounds of this leader have shown, by the UID of the Node.
#[derive(Debug, Default)]
pub struct NodeHistory(BTreeMap<String, NodeSeen>);

#[derive(Debug, Clone, Copy, Default)]
struct NodeSeen {
    /// `None`: not known.
    was_ready: Option<bool>,
    healthy_since: Option<Moment>,
    /// When a round first saw it at all.
    first: Option<Moment>,
    /// When a round last saw it healthy for [`HEALTHY_FOR`].
    last_healthy: Option<Moment>,
    /// When a round last saw it Ready.
    last_ready: Option<Moment>,
    /// When a round first saw that it was no longer Ready. `None` while it is Ready.
    first_not_ready: Option<Moment>,
}

impl NodeHistory {
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
            let mut seen = before.get(&node.uid).copied().unwrap_or_default();
            if node.ready == Ready::True {
                seen.was_ready = Some(true);
                (seen.last_ready, seen.first_not_ready) = (Some(now), None);
            } else {
                seen.first_not_ready = seen.first_not_ready.or(Some(now));
                if seen.was_ready.is_none() && is_first_status(node) {
                    seen.was_ready = Some(false);
                }
            }
            let passes = |failing: &BTreeMap<InstanceId, Moment>| {
                node.instance.as_ref().is_none_or(|id| !failing.contains_key(id))
            };
            match (node.ready, failing.map(passes)) {
                (Ready::True, Some(true)) => {
                    seen.healthy_since = seen.healthy_since.or(Some(now));
                }
                (Ready::True, None) => {}
                _ => seen.healthy_since = None,
            }
            seen.first = seen.first.or(Some(now));
            self.0.insert(node.uid.clone(), seen);
            let is_healthy = failing.is_some() && self.is_healthy(node, now);
            if let Some(kept) = self.0.get_mut(&node.uid).filter(|_| is_healthy) {
                kept.last_healthy = Some(now);
            }
        }
    }

    /// Whether a round has shown the Node healthy after `at`. Also `true` if this leader first saw
    /// the Node after `at`, and so cannot know. The caller also checks that the sickness began
    /// after `at`.
    pub(super) fn was_healthy_after(&self, node: &Node, at: Moment) -> bool {
        let seen = self.0.get(&node.uid).copied().unwrap_or_default();
        seen.first.is_none_or(|first| first > at) || seen.last_healthy.is_some_and(|last| last > at)
    }

    /// Whether the Node was ever Ready. If the rounds do not show that, it counts as having been
    /// Ready if it became NotReady more than [`LAUNCHED_WITHIN`] after its creation.
    pub(super) fn was_ready(&self, node: &Node) -> bool {
        let was_ready = self.0.get(&node.uid).and_then(|seen| seen.was_ready);
        was_ready.unwrap_or_else(|| {
            let times = node.created.zip(node.ready_since);
            times.is_some_and(|(created, since)| since > created.plus(LAUNCHED_WITHIN))
        })
    }

    /// Since when the Node has not been Ready, by our clock. The kubelet's clock may be wrong, so its
    /// time counts only between the last round that saw the Node Ready and the first that did not.
    /// `None`: it is Ready, or nothing shows since when it is not.
    pub(super) fn not_ready_since(&self, node: &Node, now: Moment) -> Option<Moment> {
        let seen = self.0.get(&node.uid).copied().unwrap_or_default();
        let by_kubelet = node.ready_since.filter(|since| *since <= now);
        let since = by_kubelet.into_iter().chain(seen.first_not_ready).min()?;
        let since = seen.last_ready.map_or(since, |last| last.max(since));
        (node.ready != Ready::True).then_some(since)
    }

    /// Every round within [`HEALTHY_FOR`] has shown the Node Ready and no status check of its
    /// instance failing, and the Node itself shows no change in that time.
    #[must_use]
    pub fn is_healthy(&self, node: &Node, now: Moment) -> bool {
        let since = self.0.get(&node.uid).and_then(|seen| seen.healthy_since);
        let is_long = |since: Moment| since.plus(HEALTHY_FOR) <= now;
        node.ready == Ready::True
            && since.is_some_and(is_long)
            && node.ready_since.is_none_or(is_long)
    }
}

/// Since when the status checks of instances fail, as the rounds of this leader have seen it.
#[derive(Debug, Default)]
pub struct FailingChecks(BTreeMap<InstanceId, Moment>);

impl FailingChecks {
    /// Takes in one answer of EC2: the instances whose checks fail, and since when. Without a time,
    /// the first sight counts.
    pub fn note(
        &mut self,
        now: Moment,
        answer: BTreeMap<InstanceId, Option<Moment>>,
    ) -> BTreeMap<InstanceId, Moment> {
        let before = std::mem::take(&mut self.0);
        let since = |(instance, since): (InstanceId, Option<Moment>)| {
            let first_sight = before.get(&instance).copied().unwrap_or(now);
            let since = since.filter(|since| *since <= now).unwrap_or(first_sight);
            (instance, since)
        };
        self.0 = answer.into_iter().map(since).collect();
        self.0.clone()
    }
}

/// The Ready condition has not changed since the kubelet wrote it for the first time.
fn is_first_status(node: &Node) -> bool {
    let times = node.created.zip(node.ready_since);
    times.is_none_or(|(created, since)| since <= created.plus(FIRST_STATUS))
}
