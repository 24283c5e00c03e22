//! Drains and the records of their Nodes, from the queue to the release.
#![allow(clippy::cast_precision_loss, reason = "small counts and seconds")]

mod accepting;
mod bursts;
mod compat;
mod deadlines;
mod drain_conditions;
mod evict_after;
mod gates;
mod impaired;
mod labels;
mod life;
mod lost_nodes;
mod maintenance;
mod notices;
mod order;
mod own_pod;
mod pace;
mod places;
mod pods;
mod refusals;
mod requests;
mod responses;
mod restored;
mod results;
mod rules;
mod settings;
mod traces;
mod trouble;
mod volumes;
mod wishes;

use sundown::{
    domain::Moment,
    sim::{
        aws::{HookResult, SpotAction, Verdict},
        kube::{Entry, Fact, PodShape, PodSpec, Request},
    },
};

use crate::{
    harness::{Replica, Stage},
    judge::Rule,
};

/// A cluster in which one replica leads.
pub struct Scene {
    pub stage: Stage,
    pub sundown: Replica,
    pub instances: Vec<String>,
}

impl Scene {
    /// A group of `nodes` nodes with the hook `drain` of 300 s, and a replica that leads.
    pub async fn hooked(seed: u64, nodes: usize, flags: &[&str]) -> Self {
        let stage = Stage::new(seed);
        let instances = stage.group(nodes, 300);
        Self::led(stage, instances, flags).await
    }

    /// A group of `nodes` spot nodes without a hook, and a replica that leads.
    pub async fn spot(seed: u64, nodes: usize, flags: &[&str]) -> Self {
        let stage = Stage::new(seed);
        let instances = stage.spot_group(nodes);
        Self::led(stage, instances, flags).await
    }

    /// A replica that leads on this stage.
    pub async fn led(stage: Stage, instances: Vec<String>, flags: &[&str]) -> Self {
        stage.pass(5).await;
        let sundown = stage.start("sundown-0", flags);
        stage.until(30, "it leads", || sundown.metrics.leads()).await;
        stage.pass(5).await;
        Self { stage, sundown, instances }
    }

    /// The Node of the `n`th instance.
    pub fn node(&self, n: usize) -> String {
        self.stage.world.node_of(&self.instances[n]).unwrap()
    }

    /// Puts a pod on the `n`th node.
    pub fn pod(&self, n: usize, name: &str, shape: PodShape) -> String {
        self.stage
            .world
            .kube
            .add_pod(&PodSpec::on(self.node(n), "shop", name).shape(shape).label("app", "web"))
    }

    /// The `n`th instance is terminated through its hook; waits for the cordon and says when that
    /// was.
    pub async fn terminate(&self, n: usize) -> Moment {
        self.stage.world.aws.terminate(&self.instances[n], true);
        self.cordoned(n).await
    }

    /// The spot notice of the `n`th instance comes; waits for the cordon and says when that was.
    pub async fn notice(&self, n: usize) -> Moment {
        self.stage.world.aws.spot_interruption(&self.instances[n], SpotAction::Terminate);
        self.cordoned(n).await
    }

    pub async fn cordoned(&self, n: usize) -> Moment {
        self.stage
            .until(10, "the node is cordoned", || self.stage.is_cordoned(&self.instances[n]))
            .await;
        self.stage.clock.now()
    }

    /// Waits until the hook of the `n`th instance is completed by us; says when.
    pub async fn completed(&self, n: usize, limit: u64) -> Moment {
        let ended = || self.stage.actions(&self.instances[n]).iter().any(|a| a.end.is_some());
        self.stage.until(limit, "the action is over", ended).await;
        let action = self.stage.actions(&self.instances[n]).remove(0);
        let end = action.end.unwrap();
        assert!(!end.by.is_empty(), "completed by a call, not by {:?}", end.verdict);
        assert_eq!(end.verdict, Verdict::Completed(HookResult::Continue));
        end.at
    }

    /// The evictions of a pod that were asked for.
    pub fn evictions(&self, pod: &str) -> Vec<Request> {
        self.requests("create", "pods", "eviction", pod)
    }

    /// The deletions of a pod that were asked for.
    pub fn deletes(&self, pod: &str) -> Vec<Request> {
        self.requests("delete", "pods", "", pod)
    }

    /// The patches of a Node that were asked for.
    pub fn patches(&self, n: usize) -> Vec<Request> {
        self.requests("patch", "nodes", "", &self.node(n))
    }

    pub fn requests(
        &self,
        verb: &str,
        resource: &str,
        subresource: &str,
        name: &str,
    ) -> Vec<Request> {
        let ours = |r: &Request| {
            r.client.starts_with("sundown")
                && r.verb == verb
                && r.resource == resource
                && r.subresource == subresource
        };
        self.stage
            .world
            .kube
            .requests()
            .into_iter()
            .filter(|r| ours(r) && (name.is_empty() || r.name == name))
            .collect()
    }

    /// What was said in Events with this reason.
    pub fn events(&self, reason: &str) -> Vec<String> {
        let text =
            |e: &serde_json::Value, field: &str| e[field].as_str().unwrap_or_default().to_owned();
        let all = self.stage.world.kube.objects("events");
        all.iter().filter(|e| text(e, "reason") == reason).map(|e| text(e, "message")).collect()
    }

    /// How often an Event with this reason was said, coalesced ones counted.
    pub fn times_said(&self, reason: &str) -> u64 {
        let all = self.stage.world.kube.objects("events");
        all.iter().filter(|e| e["reason"] == reason).map(|e| e["count"].as_u64().unwrap_or(1)).sum()
    }

    /// The pod's object is there.
    pub fn is_there(&self, pod: &str) -> bool {
        self.stage.world.kube.object("pods", "shop", pod).is_some()
    }

    /// The first moment at which something happened.
    pub fn when(&self, what: impl Fn(&Entry) -> bool) -> Moment {
        self.stage.world.kube.journal().iter().find(|e| what(e)).expect("it happened").at
    }

    /// Accepted removals of a pod: when, with which grace, and whether it was a deletion.
    pub fn removals(&self, name: &str) -> Vec<(Moment, u64, bool)> {
        let removal = |e: &Entry| match &e.fact {
            Fact::Evicted { pod, grace, .. } if pod.name == name => Some((e.at, *grace, false)),
            Fact::Deleted { pod, grace, .. } if pod.name == name => Some((e.at, *grace, true)),
            _ => None,
        };
        self.stage.deeds().iter().filter_map(removal).collect()
    }

    /// Evictions by this answer.
    pub fn answers(&self, class: &str) -> f64 {
        self.sundown.metric(&format!("evictions_total{{answer=\"{class}\"}}"))
    }

    /// What befell records, by event.
    pub fn records(&self, event: &str) -> f64 {
        self.sundown.metric(&format!("records_total{{event=\"{event}\"}}"))
    }

    /// Everything ends, and is judged, but not by these rules.
    pub async fn end_except(self, except: &[Rule], why: &str) {
        self.sundown.stop().await;
        self.stage.end_except(except, why);
    }

    /// Everything ends, and is judged.
    pub async fn end(self) {
        self.sundown.stop().await;
        self.stage.end();
    }
}

/// Seconds between two moments.
pub fn between(from: Moment, to: Moment) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A pod with this grace period that takes this long to stop.
pub fn graceful(grace: u64, stop: u64) -> PodShape {
    use std::time::Duration;
    PodShape {
        grace: Some(Duration::from_secs(grace)),
        stop: Some(Duration::from_secs(stop)),
        ..PodShape::default()
    }
}

/// Whether `value` is within `slack` of `wanted`.
#[track_caller]
pub fn about(value: f64, wanted: f64, slack: f64) {
    assert!((value - wanted).abs() <= slack, "{value} is not within {slack} of {wanted}");
}
