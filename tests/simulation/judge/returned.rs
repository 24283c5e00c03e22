//! Nodes that are put back although their drain had ended and their machine has not booted: only if
//! their instance is truly back.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::{
        aws::{Call, InstanceChange, Outcome, ServiceChange, ServiceEvent, State},
        kube::NodeState,
    },
};

use super::{
    Judge, is_us,
    nodes::{RELEASE, Write, instance, open_record, record, taint, taint_with},
    sent::Change,
};

const IGNORE: &str = "sundown.dev/ignore";
const KEEP_CORDONED: &str = "sundown.dev/keep-cordoned";
/// AWS must have shown the return twice, this far apart.
const APART: Duration = Duration::from_secs(15);
/// An answer may be that old.
const JUST_NOW: Duration = Duration::from_secs(30);
/// AWS's clock can be measured to half a second, and a time in a record has whole ones.
const ROUNDED: Duration = Duration::from_secs(2);

/// A person keeps it cordoned.
fn is_kept(node: &NodeState) -> bool {
    node.annotations.get(KEEP_CORDONED).is_some_and(|value| value == "true")
}

/// A person asks Sundown to leave it.
fn is_ordered(node: &NodeState) -> bool {
    [RELEASE, IGNORE].iter().any(|key| node.annotations.contains_key(*key))
}

impl Judge<'_> {
    /// Each write of ours that puts back a Node whose record was released before.
    pub(super) fn returned(&mut self) {
        for write in self.writes.clone() {
            let Some((old, new)) = write.both().filter(|_| is_us(write.by)) else { continue };
            let had = taint(old).or_else(|| taint_with(old, "PreferNoSchedule")).is_some();
            let has = taint(new).or_else(|| taint_with(new, "PreferNoSchedule")).is_some();
            if is_kept(old) && ((had && !has) || (old.unschedulable && !new.unschedulable)) {
                self.broken(
                    write.at,
                    format!("{}: it was put back, and a person keeps it cordoned", new.name),
                );
            }
            if !had || has {
                continue;
            }
            let Some(record) = record(old).filter(|record| !record["released"].is_null()) else {
                continue;
            };
            let boot = record["boot"].as_str().unwrap_or_default();
            let has_booted = !boot.is_empty() && boot != new.boot_id;
            if has_booted && !self.is_up(write, new) {
                self.broken(
                    write.at,
                    format!("{}: it was put back after a boot, and it is not up", new.name),
                );
            }
            let by_person = is_ordered(old) || self.was_held(write, new, &record);
            let of_another = record["instance"] != instance(new);
            if has_booted
                || by_person
                || of_another
                || self.is_called_off(write, new, &record)
                || super::requests::is_asked_no_longer(new, &record)
                || self.names_only_unbegun_actions(&record)
                || super::sick::is_well_again(self.evidence, write.at, new, &record)
                || self.is_back(write, new, &record)
            {
                continue;
            }
            self.broken(
                write.at,
                format!("{}: it was put back, and nothing shows that it is back", new.name),
            );
        }
    }

    /// `sundown.dev/keep-cordoned` held what was due when the drain ended: the write of ours that
    /// ended it found that annotation, and either the order of a person, and no hook kept the drain
    /// from that, or nothing but recommendations that had expired.
    fn was_held(&self, write: Write<'_>, node: &NodeState, held: &Value) -> bool {
        let Some(ended) = held["released"]["at"].as_str() else { return false };
        self.writes.iter().filter(|w| is_us(w.by) && w.at <= write.at).any(|w| {
            let Some((old, new)) = w.both() else { return false };
            new.uid == node.uid
                && record(new).is_some_and(|record| record["released"]["at"] == ended)
                && is_kept(old)
                && open_record(old).is_some_and(|all| {
                    is_ordered(old) && all.iter().all(|one| one["hook"].is_null())
                        || all.iter().all(|one| self.has_expired(instance(node), one, w.at))
                })
        })
    }

    /// The entry is a recommendation, and no interruption followed it within its time.
    fn has_expired(&self, instance: &str, entry: &Value, at: Moment) -> bool {
        let event = entry["event"].as_str().unwrap_or_default();
        let accepted = self.story.first_told(instance, event, None);
        entry["kind"] == "rebalance"
            && accepted.is_some_and(|accepted| {
                accepted + self.evidence.terms.rebalance_ttl() <= at + ROUNDED
            })
    }

    /// The record names lifecycle actions, and none of them ever began.
    fn names_only_unbegun_actions(&self, record: &Value) -> bool {
        let tokens: Vec<&str> = record["interruptions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["token"].as_str())
            .collect();
        let exists = |token: &&str| self.evidence.actions.iter().any(|a| a.token == **token);
        !tokens.is_empty() && !tokens.iter().any(exists)
    }

    /// The Node is Ready, and EC2 runs the instance.
    fn is_up(&self, write: Write<'_>, node: &NodeState) -> bool {
        let evidence = self.evidence;
        let of_it = evidence.changes.iter().filter(|c| c.id == instance(node) && c.at <= write.at);
        let state = of_it.max_by_key(|c| c.at).map(|c| c.state);
        // A state that changed a moment ago may not have been seen.
        let is_recent = |c: &&InstanceChange| c.at + JUST_NOW >= write.at;
        let changes = || evidence.changes.iter().filter(|c| c.id == instance(node));
        let runs = state.is_none_or(|state| state == State::Running)
            || changes().filter(|c| c.at <= write.at).any(|c| is_recent(&c));
        let was_ready = self.writes.iter().any(|w| {
            w.new.is_some_and(|n| n.uid == node.uid && n.ready == "True")
                && w.at <= write.at
                && w.at + JUST_NOW >= write.at
        });
        runs && (node.ready == "True" || was_ready)
    }

    /// The record holds nothing but scheduled changes, and AWS had canceled or moved each change of
    /// this instance.
    fn is_called_off(&self, write: Write<'_>, node: &NodeState, record: &Value) -> bool {
        let held = record["interruptions"].as_array().cloned().unwrap_or_default();
        let only_changes = held.iter().all(|i| i["kind"] == "scheduled-change");
        let sent: Vec<_> = self
            .story
            .notices
            .iter()
            .filter(|n| n.event.instance == instance(node) && n.sent <= write.at)
            .filter_map(|n| Some((n.event.change.as_ref()?, n.event.ends)))
            .collect();
        let is_replaced = |(change, ends): (&Change, Option<Moment>)| {
            sent.iter().any(|(later, other_ends)| {
                later.arn == change.arn
                    && later.updated > change.updated
                    && (later.is_closed || *other_ends != ends)
            })
        };
        let of_entry = |entry: &Value| {
            let notice = self.story.notices.iter().find(|n| entry["event"] == n.event.id)?;
            Some((notice.event.change.as_ref()?, notice.event.ends))
        };
        let is_off = |entry: &Value| of_entry(entry).is_some_and(is_replaced);
        only_changes && !held.is_empty() && held.iter().all(is_off)
    }

    fn is_back(&self, write: Write<'_>, node: &NodeState, record: &Value) -> bool {
        let is_launch = |body: &str| {
            let goes_into_service = body.contains("\"Destination\":\"AutoScalingGroup\"")
                && (body.contains("EC2 Instance Launch Successful")
                    || body.contains("EC2_INSTANCE_LAUNCHING"));
            body.contains(instance(node)) && goes_into_service
        };
        let times = record["interruptions"].as_array().into_iter().flatten();
        let times = times.filter_map(|entry| entry["time"].as_str()?.parse::<Moment>().ok());
        let last = times.max().map_or(self.evidence.begun, |at| at - self.evidence.aws_ahead);
        let sent = self.evidence.messages.iter().filter(|m| m.at <= write.at);
        let mut sent = sent.filter(|m| m.at + ROUNDED >= last);
        sent.any(|m| is_launch(&m.body)) || self.is_seen_back(write, instance(node), record)
    }

    /// AWS showed to this process twice that the instance was back, and that can be shown for all
    /// that the record holds.
    fn is_seen_back(&self, write: Write<'_>, instance: &str, record: &Value) -> bool {
        let evidence = self.evidence;
        if evidence.terms.each("--sweep-interval").iter().all(|interval| *interval == "0s") {
            return false;
        }
        let changes: Vec<&ServiceChange> = evidence
            .service_changes
            .iter()
            .filter(|c| c.instance == instance && c.at <= write.at)
            .collect();
        let last = |of: &[ServiceEvent]| changes.iter().rev().find(|c| of.contains(&c.change));
        let mut apis = BTreeSet::new();
        let mut since = evidence.begun;
        for entry in record["interruptions"].as_array().into_iter().flatten() {
            let time = entry["time"].as_str().and_then(|text| text.parse::<Moment>().ok());
            let Some(time) = time.map(|at| at - evidence.aws_ahead) else { return false };
            match entry["kind"].as_str() {
                Some("root-volume") => {
                    apis.insert("autoscaling:DescribeAutoScalingGroups");
                    since = since.max(time);
                }
                Some("terminate-hook" | "launch-hook") if entry["warm_pool"] == true => {
                    let pool = [ServiceEvent::IntoWarmPool, ServiceEvent::OutOfWarmPool];
                    let Some(left) = last(&pool) else { return false };
                    if left.change != ServiceEvent::OutOfWarmPool {
                        return false;
                    }
                    apis.insert("autoscaling:DescribeAutoScalingGroups");
                    since = since.max(left.at);
                }
                // A made-up state change: the instance has run all the time.
                Some("state-change")
                    if entry["state"] == "stopping"
                        && !self.story.is_ending(instance, write.at) =>
                {
                    apis.insert("ec2:DescribeInstances");
                    since = since.max(time);
                }
                Some("spot-hibernate" | "spot-stop" | "state-change") => {
                    let started = last(&[ServiceEvent::StartedAgain]);
                    let Some(started) = started.filter(|c| c.at + ROUNDED >= time) else {
                        return false;
                    };
                    apis.insert("ec2:DescribeInstances");
                    since = since.max(started.at);
                }
                _ => return false,
            }
        }
        !apis.is_empty() && apis.iter().all(|api| self.asked_twice(api, write, since))
    }

    /// The process called for that twice, 15 s apart, after that moment, and AWS answered.
    fn asked_twice(&self, api: &str, write: Write<'_>, since: Moment) -> bool {
        let is_answered = |call: &&Call| {
            call.api == api
                && call.by == write.by
                && call.outcome == Outcome::Ok
                && call.at >= since
                && call.at <= write.at
        };
        let mut times = self.evidence.calls.iter().filter(is_answered).map(|call| call.at);
        let Some(first) = times.next() else { return false };
        // A batch may begin a moment after the question.
        times.any(|at| at + Duration::from_secs(1) >= first + APART)
    }
}
