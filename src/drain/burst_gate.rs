//! The burst gate: the evictions of nodes that are interrupted together begin together.
//!
//! A scale-in or a spot reclaim takes many instances at once, but AWS reports them one after the
//! other. A pod that is evicted from the first node before the last node is cordoned may land on a
//! node that is about to go, and be evicted again. So the nodes of a burst wait for each other,
//! briefly.

use std::{collections::BTreeSet, time::Duration};

use crate::domain::{Moment, NodeName};

/// How long the nodes of a burst wait for each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct BurstWaits {
    /// A burst is over when all interruptions are decided and none has come in for this long.
    pub(super) quiet: Duration,
    /// It is over this long after its first accept at the latest, if an interruption in it is
    /// urgent.
    pub(super) urgent: Duration,
    /// The same if no interruption in it is urgent.
    pub(super) relaxed: Duration,
}

/// Knows which nodes wait for their burst, and until when.
#[derive(Debug)]
pub(super) struct BurstGate {
    waits: BurstWaits,
    /// Interruptions that were received and are not decided yet.
    undecided: u64,
    last_arrival: Option<Moment>,
    burst: Option<Burst>,
}

/// The nodes of the current burst.
#[derive(Debug)]
struct Burst {
    first_accept: Moment,
    urgent: bool,
    nodes: BTreeSet<NodeName>,
}

impl BurstGate {
    pub(super) const fn new(waits: BurstWaits) -> Self {
        Self { waits, undecided: 0, last_arrival: None, burst: None }
    }

    pub(super) fn arrived(&mut self, now: Moment) {
        self.undecided += 1;
        self.last_arrival = Some(now);
    }

    pub(super) fn settled(&mut self) {
        self.undecided = self.undecided.saturating_sub(1);
    }

    /// Adds a node to the current burst.
    pub(super) fn accepted(&mut self, now: Moment, node: NodeName, urgent: bool) {
        let burst = self.burst.get_or_insert_with(|| Burst {
            first_accept: now,
            urgent,
            nodes: BTreeSet::new(),
        });
        burst.urgent |= urgent;
        burst.nodes.insert(node);
    }

    pub(super) fn forget(&mut self, node: &NodeName) {
        if let Some(burst) = self.burst.as_mut() {
            burst.nodes.remove(node);
            if burst.nodes.is_empty() {
                self.burst = None;
            }
        }
    }

    /// When the burst is over if no further interruption comes in; `None`: no node waits.
    pub(super) fn opens_at(&self) -> Option<Moment> {
        let burst = self.burst.as_ref()?;
        let latest = burst.first_accept.plus(if burst.urgent {
            self.waits.urgent
        } else {
            self.waits.relaxed
        });
        if self.undecided > 0 {
            return Some(latest);
        }
        let quiet = self.last_arrival.map_or(burst.first_accept, |at| at.plus(self.waits.quiet));
        Some(latest.min(quiet))
    }

    /// If the burst is over, ends it and returns its nodes.
    pub(super) fn open(&mut self, now: Moment) -> BTreeSet<NodeName> {
        if self.opens_at().is_some_and(|at| at <= now) {
            self.burst.take().map(|b| b.nodes).unwrap_or_default()
        } else {
            BTreeSet::new()
        }
    }

    pub(super) const fn undecided(&self) -> u64 {
        self.undecided
    }

    pub(super) fn held(&self) -> usize {
        self.burst.as_ref().map_or(0, |b| b.nodes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::seconds;

    fn at(ms: u64) -> Moment {
        Moment::UNIX_EPOCH.plus(Duration::from_millis(ms))
    }

    fn gate() -> BurstGate {
        BurstGate::new(BurstWaits {
            quiet: Duration::from_millis(200),
            urgent: Duration::from_millis(800),
            relaxed: seconds(2),
        })
    }

    #[test]
    fn a_burst_waits_until_every_interruption_is_decided_and_none_comes_in() {
        let mut g = gate();
        g.arrived(at(0));
        g.arrived(at(50));
        g.accepted(at(60), "a".into(), true);
        g.settled();
        assert_eq!(g.opens_at(), Some(at(860)), "one is undecided: only the limit opens");
        g.accepted(at(70), "b".into(), true);
        g.settled();
        assert_eq!(g.opens_at(), Some(at(250)));
        assert!(g.open(at(249)).is_empty());
        assert_eq!(g.open(at(250)).len(), 2);
        assert_eq!(g.opens_at(), None);
    }

    #[test]
    fn steady_arrivals_hold_a_burst_no_longer_than_its_limit() {
        for (urgent, limit) in [(true, 800), (false, 2000)] {
            let mut g = gate();
            g.arrived(at(0));
            g.accepted(at(10), "a".into(), urgent);
            for ms in 1..30 {
                g.arrived(at(ms * 100));
                g.settled();
                let open = g.open(at(ms * 100));
                assert_eq!(
                    open.is_empty(),
                    ms * 100 != (limit + 10_u64).next_multiple_of(100),
                    "{urgent} {ms}"
                );
            }
        }
    }

    #[test]
    fn an_urgent_node_makes_its_burst_urgent() {
        let mut g = gate();
        g.arrived(at(0));
        g.accepted(at(0), "hook".into(), false);
        assert_eq!(g.opens_at(), Some(at(2000)));
        g.accepted(at(300), "spot".into(), true);
        assert_eq!(g.opens_at(), Some(at(800)));
    }

    #[test]
    fn a_burst_whose_nodes_are_all_gone_is_over() {
        let mut g = gate();
        g.accepted(at(0), "a".into(), false);
        g.forget(&"a".into());
        assert_eq!((g.opens_at(), g.held()), (None, 0));
    }
}
