//! Nodes of instances that are gone: Sundown deletes or taints a Node only if a flag asks for it, and
//! only once the drain is over, the instance is terminated and the Node is not Ready.

use std::{collections::BTreeMap, time::Duration};

use sundown::{
    domain::Moment,
    sim::{
        aws::{InstanceChange, State},
        kube::NodeState,
    },
};

use super::{
    Judge, Response,
    excuses::{EC2, Needs, SEE_NODES, Scope, WRITE_NODES},
    is_us,
    nodes::{instance, is_claimed_twice, record, taint},
};

const DELETE: &str = "--delete-node";
const TAINT: &str = "--out-of-service-taint";
/// The taint that Kubernetes takes as a sign that the machine is out of service.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// From the moment at which all conditions hold to the delete: two rounds of 15 s, a minute with the
/// taint, and the time that calls take.
const IN_TIME: Duration = Duration::from_secs(120);
/// Kinds of interruptions that end the instance.
const ENDING: [&str; 4] = ["terminate-hook", "spot", "capacity-reservation", "capacity-block"];

impl Judge<'_> {
    pub(super) fn gone(&mut self) {
        let mut broken = Vec::new();
        for write in self.writes.iter().filter(|write| is_us(write.by)) {
            let Some(old) = write.old else { continue };
            let flag = match write.new {
                None => DELETE,
                Some(new) if is_out_of_service(new) && !is_out_of_service(old) => TAINT,
                Some(new) if is_out_of_service(old) && !is_out_of_service(new) => {
                    broken.push((write.at, format!("{}: lost {OUT_OF_SERVICE}", old.name)));
                    continue;
                }
                Some(_) => continue,
            };
            let wrong = self.not_gone(old, flag, write.at);
            broken.extend(wrong.map(|why| (write.at, format!("{}: {flag}: {why}", old.name))));
        }
        broken.extend(self.left_behind());
        for (at, what) in broken {
            self.broken(at, what);
        }
    }

    /// Why this Node must not be deleted or tainted now.
    fn not_gone(&self, node: &NodeState, flag: &str, at: Moment) -> Option<&'static str> {
        if !self.evidence.terms.is_set(flag) {
            Some("the flag is not set")
        } else if self.terminated(node).is_none_or(|ended| ended > at) {
            Some("its instance is not terminated")
        } else if node.ready == "True" {
            Some("it is Ready")
        } else if !is_drained(node) {
            Some("it has no record of a drain that is over")
        } else {
            None
        }
    }

    /// When the instance of a Node was terminated. Named scenarios record no changes of instances:
    /// there the end of its machine shows that.
    fn terminated(&self, node: &NodeState) -> Option<Moment> {
        let changes = &self.evidence.changes;
        if changes.is_empty() {
            return self.story.machine_gone_at(&node.name);
        }
        let is_it = |change: &&InstanceChange| change.id == instance(node);
        let mut ends = changes.iter().filter(is_it).filter(|c| c.state == State::Terminated);
        ends.next().map(|change| change.at)
    }

    /// Nodes that are still there in the end although Sundown was to delete them.
    fn left_behind(&self) -> Vec<(Moment, String)> {
        if !self.evidence.terms.is_set(DELETE) || !self.evidence.terms.calm {
            return Vec::new();
        }
        let (ended, mut last) = (self.evidence.ended, BTreeMap::new());
        for write in &self.writes {
            let Some(node) = write.new.or(write.old) else { continue };
            last.insert(&node.name, write.new.map(|node| (write.at, node)));
        }
        let stays = last.into_values().flatten().filter(|(since, node)| {
            let terminated = self.terminated(node);
            let since = terminated.map(|terminated| terminated.max(*since));
            let is_due = since.is_some_and(|since| ended > since + IN_TIME);
            let needs: &[Needs] = &[EC2, SEE_NODES, WRITE_NODES];
            let scope = Scope::of_leader(needs).about(instance(node), &node.name);
            is_due
                && self.not_gone(node, DELETE, ended).is_none()
                && self.ends_instance(node)
                && !is_claimed_twice(&self.writes, &node.name, ended, ended)
                && taint(node).is_some()
                && node.unschedulable
                && since.is_some_and(|since| !self.is_excused(scope, since, ended))
        });
        let text = |node: &NodeState| format!("{}: it was to be deleted", node.name);
        stays.map(|(_, node)| (ended, text(node))).collect()
    }

    /// An interruption of its record ends the instance, none of them leaves it the way back, and its
    /// pods were drained.
    fn ends_instance(&self, node: &NodeState) -> bool {
        let all = record(node).and_then(|record| record["interruptions"].as_array().cloned());
        let Some(all) = all.filter(|all| !all.is_empty()) else { return false };
        let is_of = |i: &serde_json::Value, kinds: &[&str]| {
            i["kind"].as_str().is_some_and(|kind| kinds.contains(&kind))
        };
        let ends = |i: &serde_json::Value| is_of(i, &ENDING) && i["warm_pool"].is_null();
        let may_come_back = |i: &serde_json::Value| !ends(i) && !is_of(i, &["rebalance"]);
        all.iter().any(ends)
            && !all.iter().any(may_come_back)
            && self.evidence.terms.strongest(&all) == Response::Drain
    }
}

pub fn is_out_of_service(node: &NodeState) -> bool {
    node.taints.iter().any(|(key, ..)| key == OUT_OF_SERVICE)
}

fn is_drained(node: &NodeState) -> bool {
    record(node).is_some_and(|record| !record["released"].is_null())
}
