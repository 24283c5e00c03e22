//! What people do, and to which node or instance it is done.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use sundown::{
    domain::Moment,
    sim::{
        aws::State,
        kube::{Entry, Fact},
    },
};

use super::{
    plan::Act,
    play::{Play, Todo},
};
use crate::judge::Belongs;

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
            Act::Release { pick } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.hand(&node, "released");
                    self.annotate("nodes", "", &node, "sundown.dev/release", Some("true"));
                }
            }
            Act::Reboot { pick } => {
                if let Some(node) = self.busy_node(*pick) {
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

    /// A pause goes with its Lease, unless the process that makes the Lease again knew of it: that
    /// one writes it again.
    pub(super) fn forget_pauses(&mut self) {
        let kube = self.stage.world.kube.clone();
        let (journal, requests) = (kube.journal(), kube.requests());
        let is_made = |e: &&Entry| {
            matches!(
                &e.fact,
                Fact::LeaseHeld { lease, holder } if lease == "sundown" && !holder.is_empty()
            )
        };
        for deleted in &self.leases_deleted {
            let made = journal
                .iter()
                .filter(is_made)
                .find(|e| e.at >= *deleted && e.by.starts_with("sundown"));
            for (from, end) in self.evidence.pauses.iter_mut().filter(|(from, _)| from <= deleted) {
                // Processes look at the Lease every two seconds.
                let was_seen = *from + Duration::from_secs(3) <= *deleted;
                let answers = requests.iter().filter(|r| r.resource == "leases" && r.status == 200);
                let mut seen =
                    answers.filter(|r| r.answered.is_some_and(|at| at >= *from && at <= *deleted));
                match made {
                    _ if !was_seen => *end = (*deleted).min(*end),
                    Some(made) if !seen.any(|r| r.client == made.by) => *end = made.at.min(*end),
                    _ => {}
                }
            }
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
