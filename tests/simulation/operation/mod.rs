//! What stands while drains go on: heartbeats, completions, deadlines, leadership, pauses; and what
//! AWS does to all of it.

mod actions;
mod boots;
mod bursts;
mod clocks;
mod clouds;
mod completions;
mod deadlines;
mod gone;
mod heartbeats;
mod joining;
mod leaders;
mod pace;
mod pausing;
mod pools;
mod processes;
mod records;
mod returned;
mod stopping;
mod sweep;
mod takeovers;
mod without_leader;

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, GroupSpec, HookResult, HookSpec, Verdict},
        kube::{BudgetSpec, PodShape, PodSpec},
    },
};

use crate::harness::{Replica, Stage};

const BEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";

/// Seconds.
const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Stage {
    /// A group of `nodes` nodes with these hooks.
    fn group_with(&self, name: &str, nodes: usize, hooks: &[HookSpec]) -> Vec<String> {
        self.world
            .add_group(GroupSpec { replace_after: None, ..GroupSpec::new(name, nodes) }, hooks)
    }

    /// The name of an instance's Node.
    fn name_of(&self, instance: &str) -> String {
        self.world.node_of(instance).unwrap_or_else(|| panic!("{instance} has no Node"))
    }

    /// A pod of its own on the instance's node, which takes `stop` seconds to stop and may take
    /// four hours.
    pub fn slow_pod(&self, instance: &str, name: &str, stop: u64) {
        let shape =
            PodShape { grace: Some(s(4 * 3600)), stop: Some(s(stop)), ..PodShape::default() };
        self.world.kube.add_pod(&PodSpec::on(self.name_of(instance), "shop", name).shape(shape));
    }

    /// A pod on the instance's node whose budget never lets it go; it stops in a second, and may
    /// take `grace` seconds.
    fn blocked_pod(&self, instance: &str, name: &str, grace: u64) {
        let shape = PodShape { grace: Some(s(grace)), ..PodShape::default() };
        self.world.kube.add_pod(
            &PodSpec::on(self.name_of(instance), "shop", name).shape(shape).label("app", name),
        );
        self.world.kube.add_budget(&BudgetSpec::for_app("shop", name).max(0));
    }

    /// Sets or removes an annotation of the instance's Node.
    fn annotate(&self, instance: &str, key: &str, value: Option<&str>) {
        let node = self.name_of(instance);
        self.world.kube.edit("nodes", "", &node, |n| {
            match (value, &mut n["metadata"]["annotations"]) {
                (None, serde_json::Value::Object(all)) => drop(all.remove(key)),
                (_, all) => all[key] = value.into(),
            }
        });
    }

    /// Sends a spot warning for an instance that runs on all the same.
    fn spot_warning(&self, instance: &str, id: &str) {
        let body = serde_json::json!({
            "version": "0", "id": id, "detail-type": "EC2 Spot Instance Interruption Warning",
            "source": "aws.ec2",
            "account": "123456789012", "region": "eu-west-1", "time": self.clock.now().to_string(),
            "resources": [format!("arn:aws:ec2:eu-west-1a:instance/{instance}")],
            "detail": { "instance-id": instance, "instance-action": "terminate" },
        });
        let queue = self.world.queue().to_owned();
        assert!(!self.world.aws.send_event(&queue, &body.to_string()).is_empty());
    }

    pub fn action(&self, instance: &str) -> ActionReport {
        let mut actions = self.actions(instance);
        assert_eq!(actions.len(), 1, "{actions:?}");
        actions.remove(0)
    }

    /// The lifecycle action of the instance is over.
    pub fn is_over(&self, instance: &str) -> bool {
        let actions = self.actions(instance);
        !actions.is_empty() && actions.iter().all(|a| a.end.is_some())
    }

    /// Every lifecycle action that there was is over.
    fn all_over(&self) -> bool {
        let actions = self.world.aws.actions();
        !actions.is_empty() && actions.iter().all(|a| a.end.is_some())
    }

    /// The instance's actions were completed by a replica with CONTINUE, and nobody called for them
    /// afterwards.
    pub fn completed_once(&self, instance: &str) {
        let actions = self.actions(instance);
        assert!(!actions.is_empty(), "{instance} has no action");
        actions.iter().for_each(completed_once);
    }

    /// The same of every action that there was.
    fn all_completed_once(&self) {
        let actions = self.world.aws.actions();
        assert!(!actions.is_empty(), "there is no action");
        actions.iter().for_each(completed_once);
    }

    /// Starts a replica and waits until it leads and knows the nodes.
    async fn lead(&self, name: &str, flags: &[&str]) -> Replica {
        let replica = self.start(name, flags);
        self.until(30, "it leads and is ready", || {
            replica.metrics.leads() && replica.readiness.missing().is_empty()
        })
        .await;
        replica
    }
}

/// A terminate hook with this heartbeat timeout; AWS abandons when nobody answers.
fn hook(name: &str, heartbeat_timeout: u64) -> HookSpec {
    HookSpec::terminating(name).heartbeat_timeout(s(heartbeat_timeout))
}

/// The times between the beginning, the heartbeats and the end of an action, in seconds.
fn gaps(action: &ActionReport) -> Vec<f64> {
    let end = action.end.as_ref().map(|e| e.at);
    let signs: Vec<Moment> =
        [action.started].into_iter().chain(action.heartbeats.iter().copied()).chain(end).collect();
    assert!(
        signs.len() > 1,
        "it had no heartbeat and no end, so no gap can be measured: {action:?}"
    );
    signs.windows(2).map(|w| w[1].since_or_zero(w[0]).as_secs_f64()).collect()
}

fn completed_once(action: &ActionReport) {
    let end = action.end.as_ref().unwrap_or_else(|| panic!("it still waits: {action:?}"));
    assert_eq!(end.verdict, Verdict::Completed(HookResult::Continue), "{action:?}");
    assert!(end.by.starts_with("sundown"), "{action:?}");
    assert_eq!(action.late_calls, [], "calls after the end: {action:?}");
}
