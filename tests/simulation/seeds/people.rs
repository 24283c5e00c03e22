//! What people do, and to which node or instance it is done.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use sundown::{
    domain::Moment,
    sim::{
        aws::State,
        kube::{Entry, Fact, Request},
    },
};

use super::{
    plan::Act,
    play::{Play, Todo},
};
use crate::judge::Belongs;

/// Holds every restore of a node.
pub(super) const KEEP_CORDONED: &str = "sundown.dev/keep-cordoned";
/// Forces a drain.
const FORCE: &str = "sundown.dev/force";

impl Play<'_> {
    pub(super) fn person(&mut self, act: &Act) {
        let world = self.stage.world.clone();
        let kube = &world.kube;
        match act {
            Act::PauseAll { seconds } => {
                if self.annotate(
                    "leases",
                    "kube-system",
                    "sundown",
                    "sundown.dev/pause",
                    Some("true"),
                ) {
                    let (now, end) = (self.now(), self.now() + Duration::from_secs(*seconds));
                    self.evidence.pauses.push((now, end));
                    self.after(*seconds, Todo::ResumeAll);
                }
            }
            Act::Uncordon { pick } => {
                if let Some(node) = self.busy_node(*pick) {
                    kube.edit("nodes", "", &node, |n| n["spec"]["unschedulable"] = json!(false));
                }
            }
            Act::DeletePod { pick } => {
                let pods = kube.pods();
                if let Some(pod) = pods.get(pick % pods.len().max(1)) {
                    kube.delete("pods", &pod.namespace, &pod.name);
                }
            }
            Act::DeleteRecord { pick } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.hand(&node, "record deleted");
                    self.annotate("nodes", "", &node, "sundown.dev/record", None);
                }
            }
            Act::PauseNode { pick, seconds } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.annotate("nodes", "", &node, "sundown.dev/pause", Some("true"));
                    self.after(*seconds, Todo::Resume(node));
                }
            }
            Act::KeepCordoned { pick, seconds } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.annotate("nodes", "", &node, KEEP_CORDONED, Some("true"));
                    self.after(*seconds, Todo::EndKeepCordoned(node));
                }
            }
            Act::Gate { pick, key, seconds } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.annotate("nodes", "", &node, key, Some("from a random world"));
                    if let Some(seconds) = seconds {
                        self.after(*seconds, Todo::Unset(node, key));
                    }
                }
            }
            Act::Force { pick, seconds } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.annotate("nodes", "", &node, FORCE, Some("true"));
                    if let Some(seconds) = seconds {
                        self.after(*seconds, Todo::Unset(node, FORCE));
                    }
                }
            }
            Act::Release { pick } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.hand(&node, "released");
                    self.annotate("nodes", "", &node, "sundown.dev/release", Some("true"));
                }
            }
            Act::Reboot { pick } => {
                if let Some(node) = self.busy_node(*pick).filter(|node| !self.has_ended(node)) {
                    self.hand(&node, "rebooted");
                    kube.reboot(&node);
                }
            }
            Act::KubeletLost { pick, seconds } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.hand(&node, "lost");
                    kube.kubelet_lost(&node);
                    self.after(*seconds, Todo::KubeletBack(node));
                }
            }
            Act::DeleteNode { pick } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.hand(&node, "deleted");
                    kube.delete_node(&node);
                }
            }
            other => panic!("nobody does {other:?}"),
        }
    }

    /// Whatever pause there was is over.
    pub(super) fn no_pause(&mut self) {
        let now = self.now();
        for (_, end) in &mut self.evidence.pauses {
            *end = now.min(*end);
        }
    }

    /// The process that makes a deleted Lease again writes the pause again that it knew of, although
    /// it may have been lifted while that process did not see it. A person sees that all drains are
    /// paused, and resumes them after half a minute.
    pub(super) fn resume_again(&mut self) {
        const SEEN_AFTER: u64 = 30;
        let is_expected = self.todo.values().any(|todo| matches!(todo, Todo::ResumeAll));
        if self.leases_deleted.is_empty() || is_expected {
            return;
        }
        let leases = self.stage.world.kube.objects("leases");
        let is_paused = |lease: &Value| {
            lease["metadata"]["name"] == "sundown"
                && lease["metadata"]["annotations"]["sundown.dev/pause"] == "true"
        };
        if leases.iter().any(is_paused) {
            let set = |e: &Entry| matches!(e.fact, Fact::PausedAll { paused: true, .. });
            let journal = self.stage.world.kube.journal();
            let from = journal.iter().rev().find(|e| set(e)).map_or(self.now(), |e| e.at);
            self.evidence.pauses.push((from, self.now() + Duration::from_secs(SEEN_AFTER)));
            self.after(SEEN_AFTER, Todo::ResumeAll);
        }
    }

    /// A pause goes with its Lease, unless the process that makes the Lease again knew of it: that
    /// one writes it again.
    pub(super) fn forget_pauses(&mut self) {
        let kube = self.stage.world.kube.clone();
        let (journal, requests) = (kube.journal(), kube.requests());
        for deleted in &self.leases_deleted {
            forget_pauses(&mut self.evidence.pauses, *deleted, &journal, &requests);
        }
    }

    pub(super) fn hand(&mut self, node: &str, what: &'static str) {
        let now = self.now();
        self.evidence.hands.push((now, node.to_owned(), what));
    }

    /// Says whether there was such an object.
    pub(super) fn annotate(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        key: &str,
        value: Option<&str>,
    ) -> bool {
        self.stage.world.kube.edit(resource, namespace, name, |o| {
            if !o["metadata"]["annotations"].is_object() {
                o["metadata"]["annotations"] = json!({});
            }
            let all = o["metadata"]["annotations"].as_object_mut().unwrap();
            match value {
                Some(value) => drop(all.insert(key.to_owned(), json!(value))),
                None => drop(all.remove(key)),
            }
        })
    }

    /// An instance that runs, ours or not.
    pub(super) fn with_instance(&self, pick: usize, act: impl FnOnce(&str)) {
        let running: Vec<_> = self
            .stage
            .world
            .aws
            .instances()
            .into_iter()
            .filter(|i| i.state == State::Running)
            .collect();
        if !running.is_empty() {
            act(&running[pick % running.len()].id);
        }
    }

    /// Puts these instances into a Capacity Block of their own, and ends it. An instance stays in
    /// its first block.
    pub(super) fn end_block(&mut self, picks: &[usize]) {
        let mut blocks = std::mem::take(&mut self.evidence.blocks);
        self.ended_blocks += 1;
        let block = format!("cr-{:017x}", self.ended_blocks);
        let aws = self.stage.world.aws.clone();
        for pick in picks {
            self.with_instance(*pick, |id| {
                if !blocks.contains_key(id) {
                    blocks.insert(id.to_owned(), block.clone());
                    aws.put_in_block(id, &block);
                }
            });
        }
        self.evidence.blocks = blocks;
        aws.block_ends(&block);
    }

    /// The instance of this Node is known and does not run: its machine cannot boot.
    fn has_ended(&self, node: &str) -> bool {
        let (nodes, aws) = (self.stage.world.nodes(), &self.stage.world.aws);
        let mut instances = nodes.iter().filter(|(_, name)| *name == node).map(|(id, _)| id);
        instances.any(|id| aws.instance(id).is_some_and(|found| found.state != State::Running))
    }

    /// A node of ours; one that is drained, if there is any.
    pub(super) fn busy_node(&self, pick: usize) -> Option<String> {
        let ours: BTreeSet<&str> = self
            .plan
            .groups
            .iter()
            .filter(|g| g.belongs == Belongs::Us)
            .map(|g| g.name.as_str())
            .collect();
        let nodes = self.stage.world.kube.objects("nodes");
        let is_ours = |n: &&Value| {
            n["metadata"]["labels"]["eks.amazonaws.com/nodegroup"]
                .as_str()
                .is_some_and(|g| ours.contains(g))
        };
        let ours: Vec<_> = nodes.iter().filter(is_ours).collect();
        let busy: Vec<_> = ours
            .iter()
            .copied()
            .filter(|n| record(n).is_some_and(|r| r["released"].is_null()))
            .collect();
        let among = if busy.is_empty() { ours } else { busy };
        Some(among.get(pick % among.len().max(1))?["metadata"]["name"].as_str()?.to_owned())
    }
}

/// Somebody deleted the Lease at this moment. Ends the pauses that went with it.
fn forget_pauses(
    pauses: &mut [(Moment, Moment)],
    deleted: Moment,
    journal: &[Entry],
    requests: &[Request],
) {
    let is_made = |e: &&Entry| {
        matches!(
            &e.fact,
            Fact::LeaseHeld { lease, holder } if lease == "sundown" && !holder.is_empty()
        )
    };
    let is_ours = |e: &&Entry| e.at >= deleted && e.by.starts_with("sundown");
    let made = journal.iter().filter(is_made).find(is_ours);
    // The process wrote the pause into the Lease that it made.
    let is_written_again = made.is_some_and(|made| {
        let is_it = |e: &Entry| {
            matches!(&e.fact, Fact::PausedAll { lease, paused: true } if lease == "sundown")
        };
        journal.iter().any(|e| (e.at, &e.by) == (made.at, &made.by) && is_it(e))
    });
    if is_written_again {
        return;
    }
    for (from, end) in pauses.iter_mut().filter(|(from, _)| *from <= deleted) {
        // Processes look at the Lease every two seconds.
        let was_seen = *from + Duration::from_secs(3) <= deleted;
        let answers = requests.iter().filter(|r| r.resource == "leases" && r.status == 200);
        let mut seen =
            answers.filter(|r| r.answered.is_some_and(|at| at >= *from && at <= deleted));
        match made {
            _ if !was_seen => *end = deleted.min(*end),
            Some(made) if !seen.any(|r| r.client == made.by) => *end = made.at.min(*end),
            _ => {}
        }
    }
}

pub(super) fn record(node: &Value) -> Option<Value> {
    serde_json::from_str(node["metadata"]["annotations"]["sundown.dev/record"].as_str()?).ok()
}

pub(super) fn old_notice(instance: &str, time: Moment) -> String {
    json!({
        "version": "0", "id": format!("old-{}", time.as_second()),
        "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
        "account": "123456789012", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "region": "eu-west-1",
        "resources": [format!("arn:aws:ec2:eu-west-1:123456789012:instance/{instance}")],
        "detail": { "instance-id": instance, "instance-action": "terminate" },
    })
    .to_string()
}

#[test]
fn a_pause_goes_with_its_lease_unless_the_process_that_makes_the_lease_again_writes_it_again() {
    let at = |second: i64| Moment::from_second(1_767_225_600 + second).unwrap();
    let (lease, by) = ("sundown".to_owned(), "sundown-0-1".to_owned());
    let entry = |second: i64, fact: Fact| Entry { at: at(second), by: by.clone(), fact };
    let made = |second: i64| {
        entry(second, Fact::LeaseHeld { lease: lease.clone(), holder: "sundown_0".to_owned() })
    };
    let paused =
        |second: i64| entry(second, Fact::PausedAll { lease: lease.clone(), paused: true });
    // A pause from 0 to 60; the Lease is deleted, and the process makes it again.
    for (deleted, journal, end, why) in [
        (1, vec![made(2)], 1, "nobody can have seen it"),
        (1, vec![made(2), paused(2)], 60, "the process had seen it"),
        (1, vec![made(2), paused(3)], 1, "that is another pause"),
        (10, vec![made(20)], 20, "the process had not read the Lease"),
        (10, vec![made(20), paused(20)], 60, "the process had seen it by a watch"),
        (10, vec![], 60, "nobody made the Lease again"),
    ] {
        let mut pauses = [(at(0), at(60))];
        forget_pauses(&mut pauses, at(deleted), &journal, &[]);
        assert_eq!(pauses, [(at(0), at(end))], "{why}");
    }
}
