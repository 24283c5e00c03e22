//! The faults that the second and the third stream draw.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sundown::domain::Moment;
use sundown::sim::{
    aws::{Fault as AwsFault, FaultRule, HealthNotice, HookResult, How},
    kube::{EvictionVerdict, Fault, Match, PodState, Rule, RuleId},
};

use super::{
    people::{old_notice, record},
    plan::{Act, Webhook},
    play::{Play, Todo},
};

/// Milliseconds between two labels.
const RELABEL: u64 = 300;

/// A hook that is not ours in any group, whatever the flags say.
fn is_others(hook: &str) -> bool {
    ["Terminate-LC-Hook", "log-backup"].contains(&hook)
}

impl Play<'_> {
    pub(super) fn fault(&mut self, act: &Act) {
        let world = self.stage.world.clone();
        let (aws, kube) = (&world.aws, &world.kube);
        match act {
            Act::Partition { replica, aws: from_aws, kube: from_kube, seconds } => {
                let client = client(*replica);
                if *from_aws {
                    aws.cut_off(&client);
                }
                if *from_kube {
                    kube.cut_off(&client);
                }
                self.after(*seconds, Todo::Reconnect(client));
            }
            Act::SilentWatch { replica, resource } => {
                kube.silence_watches(&Match::of("watch", resource).from(client(*replica)));
            }
            Act::KubeOfOne { replica, matching, fault, share, seconds } => {
                let matching = matching.clone().from(client(*replica));
                let rule =
                    kube.inject(Rule { share: *share, ..Rule::always(matching, fault.clone()) });
                self.after(*seconds, Todo::Lift(rule));
            }
            Act::Webhook { answer, load, seconds } => {
                let load = load.map(|n| self.plan.loads[n].name.clone());
                let hanging = self.webhook(*answer, load);
                if hanging.is_some() {
                    let now = self.now();
                    self.evidence.evictions_hang.push((now, now + Duration::from_secs(*seconds)));
                }
                self.after(*seconds, Todo::NoWebhook(hanging));
            }
            Act::EvictionConflicts { picks, times, unready } => {
                let pods = kube.pods();
                for pod in picks.iter().filter_map(|pick| pods.get(pick % pods.len().max(1))) {
                    kube.conflict_evictions(
                        &pod.namespace,
                        &pod.name,
                        *times,
                        unready.then_some(PodState::NotReady),
                    );
                }
            }
            Act::FreezeScheduler { seconds } => {
                kube.freeze_scheduler(true);
                self.after(*seconds, Todo::Schedule);
            }
            Act::DeleteQueue { seconds } => {
                if let Some(settings) = aws.queue_settings(world.queue()) {
                    aws.delete_queue(world.queue());
                    self.queue_is_away(*seconds);
                    self.after(*seconds, Todo::Queue(settings));
                }
            }
            Act::InvalidTokens { seconds } => {
                let refusal = "1 validation error detected: Value at 'lifecycleActionToken' \
                    failed to satisfy constraint";
                let until = self.now() + Duration::from_secs(*seconds);
                aws.fault(FaultRule::new(
                    "autoscaling:*",
                    AwsFault::InvalidToken(refusal),
                    How::Until(until),
                ));
            }
            Act::Relabel { pick, seconds } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.relabel(node, *seconds * 1_000 / RELABEL);
                }
            }
            Act::Large { pick, kib, notice } => {
                let sent = self.now() - Duration::from_secs(600);
                self.with_instance(*pick, |id| {
                    let mut body: Value = serde_json::from_str(&old_notice(id, sent)).unwrap();
                    if !notice {
                        body["detail-type"] = json!("EC2 Instance Rebalance Recommendation");
                    }
                    body["padding"] = json!("x".repeat(kib * 1024 - 2048));
                    aws.send_event(world.queue(), &body.to_string());
                });
            }
            Act::MadeUpHook { pick, own_group } => {
                if let Some(node) = self.busy_node(*pick) {
                    self.made_up_hook(&node, *own_group);
                }
            }
            Act::OthersComplete => {
                for action in
                    aws.actions().into_iter().filter(|a| a.end.is_none() && is_others(&a.hook))
                {
                    aws.complete_as(
                        "others",
                        &action.group,
                        &action.hook,
                        &action.instance,
                        HookResult::Continue,
                    );
                }
            }
            Act::Health { pick } => {
                let start = self.now() + Duration::from_secs(3_600);
                self.with_instance(*pick, |id| {
                    // It drains no node. Worlds with drains for scheduled changes are elsewhere.
                    aws.health(&HealthNotice {
                        code: "AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED".to_owned(),
                        ..HealthNotice::retirement([id.to_owned()], start)
                    });
                });
            }
            Act::Test { pick, is_real, is_spot } => {
                let now = self.now() + SignedDuration::from_secs(self.plan.aws_clock);
                self.with_instance(*pick, |id| {
                    drop(aws.send_event(world.queue(), &test(id, now, *is_real, *is_spot)));
                });
            }
            other => panic!("{other:?} is no fault"),
        }
    }

    pub(super) fn end_fault(&mut self, fault: Todo) {
        let world = &self.stage.world;
        match fault {
            Todo::Reconnect(client) => {
                world.aws.reconnect(&client);
                world.kube.reconnect(&client);
            }
            Todo::NoWebhook(hanging) => {
                world.kube.eviction_webhook(|_| EvictionVerdict::Allow);
                hanging.into_iter().for_each(|rule| world.kube.lift(rule));
            }
            Todo::Schedule => world.kube.freeze_scheduler(false),
            Todo::Queue(settings) => drop(world.aws.create_queue(world.queue(), settings)),
            Todo::Relabel(node, left) => self.relabel(node, left),
            _ => panic!("no fault ends"),
        }
    }

    /// Every write conflicts with one that named the version before it.
    fn relabel(&mut self, node: String, left: u64) {
        self.stage.world.kube.edit("nodes", "", &node, |n| {
            n["metadata"]["labels"]["example.com/turn"] = json!(left.to_string());
        });
        if left > 0 {
            let at = self.now() + Duration::from_millis(RELABEL);
            self.then(at, Todo::Relabel(node, left - 1));
        }
    }

    fn made_up_hook(&mut self, node: &str, own_group: bool) {
        let Some(value) = self.stage.world.kube.object("nodes", "", node) else { return };
        let instance = value["spec"]["providerID"]
            .as_str()
            .and_then(|id| id.rsplit('/').next())
            .unwrap_or_default()
            .to_owned();
        let own = self.evidence.groups.get(&instance).cloned().unwrap_or_default();
        let group = if own_group { own } else { "made-up".to_owned() };
        let fresh = json!({
            "version": 1, "instance": instance, "boot": value["status"]["nodeInfo"]["bootID"],
            "before": { "unschedulable": false, "excluded": false }, "interruptions": [],
        });
        let mut record = record(&value).filter(|r| r["released"].is_null()).unwrap_or(fresh);
        // Records are in AWS's time.
        let now = (self.now() + SignedDuration::from_secs(self.plan.aws_clock)).to_string();
        let hook = json!({
            "kind": "terminate-hook", "event": "made-up", "time": now, "accepted": now,
            "group": group, "hook": "drain", "token": "00000000-0000-4000-8000-000000000000",
        });
        record["interruptions"].as_array_mut().unwrap().push(hook);
        self.hand(node, "record made up");
        self.annotate("nodes", "", node, "sundown.dev/record", Some(&record.to_string()));
    }

    fn webhook(&self, answer: Webhook, load: Option<String>) -> Option<RuleId> {
        let kube = &self.stage.world.kube;
        let namespace = load.is_some().then(|| "load".to_owned());
        kube.eviction_webhook(move |review| {
            let message = || "from the simulation".to_owned();
            if load.as_ref().is_some_and(|load| {
                review.namespace != "load" || !review.name.starts_with(load.as_str())
            }) {
                return EvictionVerdict::Allow;
            }
            match answer {
                Webhook::Denies => EvictionVerdict::Deny(message()),
                Webhook::Busy => EvictionVerdict::Busy(message()),
                Webhook::Unreachable => {
                    EvictionVerdict::Unreachable("connection refused".to_owned())
                }
                Webhook::Intercepts => EvictionVerdict::Intercept,
                Webhook::Hangs => {
                    EvictionVerdict::Unreachable("context deadline exceeded".to_owned())
                }
            }
        });
        let evictions = Match { namespace, ..Match::evictions() };
        let hangs = answer == Webhook::Hangs;
        hangs.then(|| kube.inject(Rule::always(evictions, Fault::Slow(Duration::from_secs(10)))))
    }
}

/// As `sundown send-test` sends it.
fn test(instance: &str, time: Moment, is_real: bool, is_spot: bool) -> String {
    let mut body: Value = serde_json::from_str(&old_notice(instance, time)).unwrap();
    (body["id"], body["source"]) =
        (json!(format!("test-{}", time.as_millisecond())), json!("sundown.test"));
    if !is_spot {
        body["detail-type"] = json!("EC2 Instance State-change Notification");
        body["detail"] = json!({ "instance-id": instance, "state": "stopping" });
    }
    body["detail"]["sundown"] = json!({ "test": true, "real": is_real });
    body.to_string()
}

/// What the tags and access keys of all processes of this replica begin with.
fn client(replica: usize) -> String {
    format!("sundown-{replica}-")
}
