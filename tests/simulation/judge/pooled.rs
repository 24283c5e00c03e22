//! Nodes that are cordoned because their instances are launched into a warm pool: only while such an
//! action is open, before it is completed, and until the instance leaves the pool.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, ServiceEvent, Transition},
        kube::NodeState,
    },
};

use super::{
    Judge, is_us,
    nodes::{Write, instance, record, taint},
};

/// By when a Node that is ready again must be put back: two rounds of the sweep, and what it asks.
const PUT_BACK: Duration = Duration::from_secs(200);
/// How long after the end of its launch hooks an instance is in the pool at the latest.
const ENTERED: Duration = Duration::from_secs(60);
/// How long a Node must have been Ready for us to know that before its hook is completed.
const KNOWN: Duration = Duration::from_secs(15);
/// A call that AWS has accepted may be answered a moment later.
const CALLS: Duration = Duration::from_secs(3);

/// This write cordons a Node for a warm pool.
pub fn is_cordon_for_pool(old: &NodeState, new: &NodeState) -> bool {
    is_for_pool(new) && record(old) != record(new) && taint(old).is_none()
}

/// Its record says that its instance is in a warm pool, and that nothing was drained for that.
fn is_for_pool(node: &NodeState) -> bool {
    record(node).is_some_and(|record| record["released"]["outcome"] == "into_warm_pool")
}

impl Judge<'_> {
    pub(super) fn pooled(&mut self) {
        for write in self.writes.clone() {
            let Some((old, new)) = write.both().filter(|_| is_us(write.by)) else { continue };
            if is_cordon_for_pool(old, new) && !self.is_open_into_pool(write, new) {
                self.broken(
                    write.at,
                    format!(
                        "{}: it was cordoned for a warm pool, and no action asks for it",
                        new.name
                    ),
                );
            }
        }
        self.cordoned_before_completion();
        self.left_the_pool();
    }

    /// When the Node was cordoned for a warm pool.
    pub(super) fn pooled_at(&self, name: &str) -> Vec<Moment> {
        let is_it = |w: &&Write<'_>| {
            let states = w.both();
            is_us(w.by)
                && states.is_some_and(|(old, new)| new.name == name && is_cordon_for_pool(old, new))
        };
        self.writes.iter().filter(is_it).map(|w| w.at).collect()
    }

    /// The Node was cordoned for a warm pool by then.
    pub(super) fn was_pooled(&self, name: &str, at: Moment) -> bool {
        self.pooled_at(name).iter().any(|pooled| *pooled <= at)
    }

    /// An action that launches the instance into a pool is open, and AWS has shown that.
    fn is_open_into_pool(&self, write: Write<'_>, node: &NodeState) -> bool {
        self.evidence.actions.iter().any(|action| {
            let is_open = action.started <= write.at
                && action.end.as_ref().is_none_or(|end| end.at + CALLS >= write.at);
            action.instance == instance(node)
                && is_open
                && self.is_into_pool(action)
                && action.heartbeats.iter().any(|at| *at <= write.at)
        })
    }

    /// A launch whose message says so. If its message was lost: one after which the instance was in
    /// the pool.
    fn is_into_pool(&self, action: &ActionReport) -> bool {
        let says = |destination: &str| {
            let mut messages = self.evidence.messages.iter();
            messages.any(|m| m.body.contains(&action.token) && m.body.contains(destination))
        };
        action.transition == Transition::Launching
            && (says("\"Destination\":\"WarmPool\"")
                || (!says("\"Destination\":\"AutoScalingGroup\"") && self.leads_into_pool(action)))
    }

    /// Its instance was in the pool soon after its end, and no terminate hook of the instance began
    /// in between: a scale-in takes an instance into the pool through those.
    fn leads_into_pool(&self, action: &ActionReport) -> bool {
        let Some(end) = action.end.as_ref().map(|end| end.at) else { return false };
        let is_scaled_in = |entered: Moment| {
            self.evidence.actions.iter().any(|a| {
                a.instance == action.instance
                    && a.transition == Transition::Terminating
                    && end <= a.started
                    && a.started <= entered
            })
        };
        self.evidence.service_changes.iter().any(|c| {
            c.instance == action.instance
                && c.change == ServiceEvent::IntoWarmPool
                && end <= c.at
                && c.at <= end + ENTERED
                && !is_scaled_in(c.at)
        })
    }

    /// The Node as the API server had it at this moment.
    fn node_at(&self, name: &str, at: Moment) -> Option<&NodeState> {
        let of_it =
            |w: &&Write<'_>| w.at <= at && w.new.or(w.old).is_some_and(|state| state.name == name);
        self.writes.iter().rev().find(of_it)?.new
    }

    fn cordoned_before_completion(&mut self) {
        let mut missed = Vec::new();
        for action in &self.evidence.actions {
            let Some(end) = action.end.as_ref().filter(|end| is_us(&end.by)) else { continue };
            if !self.is_into_pool(action) {
                continue;
            }
            let Some(name) = self.evidence.nodes.get(&action.instance) else { continue };
            let was_ready = [end.at, end.at - KNOWN]
                .iter()
                .all(|at| self.node_at(name, *at).is_some_and(|node| node.ready == "True"));
            let is_cordoned = self.node_at(name, end.at).is_some_and(|node| node.unschedulable);
            if was_ready && !is_cordoned {
                missed.push((end.at, name.clone()));
            }
        }
        for (at, name) in missed {
            self.broken(
                at,
                format!(
                    "{name}: its instance went into a warm pool, and it was not cordoned before"
                ),
            );
        }
    }

    /// A Node that was cordoned for a pool is put back when its instance has left it.
    fn left_the_pool(&mut self) {
        let evidence = self.evidence;
        if evidence.terms.each("--sweep-interval").iter().all(|interval| *interval == "0s") {
            return;
        }
        let mut left = Vec::new();
        for (id, name) in &evidence.nodes {
            let pool = [ServiceEvent::IntoWarmPool, ServiceEvent::OutOfWarmPool];
            let changes = evidence.service_changes.iter().rev();
            let last = changes
                .filter(|c| c.instance == *id && pool.contains(&c.change))
                .max_by_key(|c| c.at);
            let Some(last) = last.filter(|c| c.change == ServiceEvent::OutOfWarmPool) else {
                continue;
            };
            let is_over = last.at + PUT_BACK <= evidence.ended;
            let is_up = |at| self.node_at(name, at).is_some_and(|node| node.ready == "True");
            let has_been_up = is_up(evidence.ended) && is_up(evidence.ended - PUT_BACK);
            let is_marked = self.node_at(name, evidence.ended).is_some_and(|node| {
                let is_kept = node.annotations.get("sundown.dev/keep-cordoned");
                is_for_pool(node) && taint(node).is_some() && is_kept.is_none()
            });
            if is_over && has_been_up && is_marked {
                left.push(name.clone());
            }
        }
        for name in left {
            self.broken(
                evidence.ended,
                format!("{name}: its instance has left the warm pool, and it was not put back"),
            );
        }
    }
}
