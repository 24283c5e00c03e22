//! What stays on a Node: nothing of somebody else's is ever changed, and a Node that is put back is
//! as it was before.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use sundown::{
    domain::Moment,
    sim::{
        aws::ActionReport,
        kube::{NodeState, Request},
    },
};

use super::{
    Judge, SLACK,
    excuses::{Scope, WRITE_NODES},
    gone::OUT_OF_SERVICE,
    is_us,
    nodes::{
        EXCLUDED, FORCE, IMPAIRED, PLANNED, RECORD, RELEASE, TAINT, Write, excluded, instance,
        open_record, record, taint, taint_with,
    },
    promises::Promise,
};

/// Taints that `--compat nth` writes beside ours.
const BESIDE: &str = "aws-node-termination-handler/";
/// The node lifecycle controller sets it on each Node that is unschedulable.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The value of the load balancer label that `--compat nth` writes.
const NTH_LABEL: &str = "aws-node-termination-handler";
/// Values of the load balancer label that are ours.
const OUR_LABELS: [&str; 2] = ["sundown", NTH_LABEL];

/// What a Node is without us.
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts of an object that do not exclude each other"
)]
#[derive(Debug, Clone, Default)]
struct Before {
    /// Somebody else cordoned it.
    cordoned: bool,
    /// Somebody else had cordoned the Node of this name that was there before: Sundown may remember
    /// that.
    was_cordoned: bool,
    /// Its record was forgotten (see `is_forgotten`) and it was still cordoned when Sundown
    /// accepted the next interruption: Sundown takes the cordon for somebody else's.
    was_forgotten: bool,
    /// The same of the load balancer label.
    was_labeled: bool,
    /// A person has changed `unschedulable` since the accept: either state may stay.
    meddled: bool,
    /// It is to be put back: a person asked for it, and no hook kept the drain from that.
    restore: Option<Moment>,
    /// A person took its record away after the drain was over, or while no process was there that
    /// ever led again: nobody knows any more that its taint is ours, and what it was before.
    is_forgotten: bool,
    /// We cordoned it because it claims the instance of another Node, and leave it so.
    only_cordoned: bool,
    /// A person wrote a record on it that never was.
    is_made_up: bool,
}

impl Before {
    fn may_stay_cordoned(&self) -> bool {
        self.cordoned
            || self.was_cordoned
            || self.was_forgotten
            || self.meddled
            || self.only_cordoned
    }
}

impl Judge<'_> {
    /// At each write of ours, and in the end.
    pub(super) fn restored(&mut self) {
        let evidence = self.evidence;
        let mut before: BTreeMap<&str, Before> = BTreeMap::new();
        let mut last: BTreeMap<&str, &NodeState> = BTreeMap::new();
        for write in self.writes.clone() {
            let Some(new) = write.new else {
                // What was before us on a Node that registers again, its record may remember.
                last.retain(|_, state| Some(*state) != write.old);
                continue;
            };
            last.insert(&new.name, new);
            let known = before.entry(&new.name).or_default();
            known.is_made_up |= evidence.hands.iter().any(|(at, node, what)| {
                *at <= write.at && *node == new.name && *what == "record made up"
            });
            let Some(old) = write.old else {
                let was_cordoned = known.cordoned || known.was_cordoned || known.was_forgotten;
                *known = Before { was_cordoned, cordoned: new.unschedulable, ..Before::default() };
                continue;
            };
            if !is_us(write.by) {
                others(write, old, new, known);
                let takes_record =
                    open_record(old).is_some() && !new.annotations.contains_key(RECORD);
                if takes_record && !self.is_remembered(write.at, old) {
                    (known.is_forgotten, known.restore) = (true, None);
                }
                continue;
            }
            if taint(old).is_some() && taint(new).is_none() {
                self.count(
                    Promise::PutBack,
                    known.meddled || known.was_cordoned || known.was_forgotten,
                );
            }
            if known.restore.is_some_and(|asked| self.goes_with_an_action(asked, write)) {
                known.restore = None;
            }
            for wrong in ours(old, new, known) {
                self.broken(write.at, format!("{}: {wrong}", new.name));
            }
        }
        for (name, node) in last {
            for wrong in in_the_end(node, &before[name]) {
                self.broken(evidence.ended, format!("{name}: {wrong}"));
            }
        }
    }
}

/// A process that tries a PATCH again waits 5 s between two tries at most, and may have read the
/// Node meanwhile.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);

impl Judge<'_> {
    /// A process that had listed the Nodes before that moment, and lived on, leads then or at any
    /// time later: it knows what the records said. One that ended before it could write this Node
    /// again cannot have put it right.
    fn is_remembered(&self, lost: Moment, node: &NodeState) -> bool {
        let evidence = self.evidence;
        let lists = evidence
            .requests
            .iter()
            .filter(|r| (r.verb.as_str(), r.resource.as_str(), r.status) == ("list", "nodes", 200));
        let in_time = lists.filter(|r| {
            is_us(&r.client)
                && !r.is_disturbed
                && r.answered.is_some_and(|answered| answered < lost)
        });
        let lives_on = |process: &str| {
            !evidence.ends.iter().any(|(name, at)| name == process && *at <= lost + SLACK)
        };
        // Before it leads, it may not write.
        let could_write = |process: &str| {
            let leads = self.leaders.leads_from(process, lost);
            leads.is_some_and(|leads| !self.is_kept_from_writing(process, leads, node))
        };
        let knows = |process: &str| lives_on(process) && could_write(process);
        in_time.map(|r| r.client.as_str()).any(knows)
    }

    /// The write ends the drain, and its record names a lifecycle action of the instance that was
    /// open at some time since a person asked for the release: its hook joined after that. With the
    /// end of the action the instance goes.
    fn goes_with_an_action(&self, asked: Moment, write: Write<'_>) -> bool {
        let Some((old, new)) = write.both() else { return false };
        let Some(ended) = record(new).filter(|record| !record["released"].is_null()) else {
            return false;
        };
        let all = || ended["interruptions"].as_array().into_iter().flatten();
        let is_named = |action: &ActionReport| {
            all().any(|entry| {
                entry["group"] == action.group
                    && entry["hook"] == action.hook
                    && (entry["token"].is_null() || entry["token"] == action.token)
            })
        };
        let is_open = |action: &ActionReport| {
            action.instance == instance(new)
                && action.started <= write.at
                && action.end.as_ref().is_none_or(|end| end.at >= asked)
        };
        open_record(old).is_some()
            && self.evidence.actions.iter().any(|action| is_open(action) && is_named(action))
    }

    /// The process tried to write this Node, and its own tries met faults that lasted from that
    /// moment until it ended.
    fn is_kept_from_writing(&self, process: &str, from: Moment, node: &NodeState) -> bool {
        let evidence = self.evidence;
        let ended = evidence
            .ends
            .iter()
            .filter(|(name, at)| name == process && *at > from)
            .map(|(_, at)| *at)
            .min();
        let Some(ended) = ended else { return false };
        let is_try = |r: &&Request| {
            r.client == process && r.verb == "patch" && r.resource == "nodes" && r.name == node.name
        };
        let mut tries = evidence
            .requests
            .iter()
            .filter(is_try)
            .filter(|r| r.at >= from && r.at <= ended)
            .peekable();
        let has_failed = tries.peek().is_some() && tries.all(|r| r.is_disturbed || r.status == 429);
        let scope = Scope {
            needs: &[WRITE_NODES],
            of: Some((instance(node), &node.name)),
            process: Some(process),
            without_leader: None,
        };
        has_failed && self.longest_clear(scope, from, ended) <= BETWEEN_TRIES
    }
}

/// Somebody else wrote.
fn others(write: Write<'_>, old: &NodeState, new: &NodeState, known: &mut Before) {
    if old.unschedulable != new.unschedulable {
        known.cordoned = new.unschedulable;
        known.meddled = true;
    }
    let orders = |node: &NodeState| node.annotations.get(RELEASE).is_some_and(|v| v == "true");
    if orders(new)
        && !orders(old)
        && open_record(new).is_some_and(|all| all.iter().all(|i| i["hook"].is_null()))
    {
        known.restore = Some(write.at);
    }
    // The drain of a hook that a person makes up is not put back before its action is over.
    let has_hook = open_record(new).is_some_and(|all| all.iter().any(|i| !i["hook"].is_null()));
    if old.boot_id != new.boot_id || has_hook {
        known.restore = None;
    }
    let was_released = record(old).is_some_and(|record| !record["released"].is_null());
    known.is_forgotten |= was_released && !new.annotations.contains_key(RECORD);
}

/// We wrote.
fn ours(old: &NodeState, new: &NodeState, known: &mut Before) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut differ = |what: &str, was: &BTreeSet<String>, is: &BTreeSet<String>| {
        if was != is {
            let changed: Vec<&String> = was.symmetric_difference(is).collect();
            wrong.push(format!("Sundown changed {what} of others: {changed:?}"));
        }
    };
    differ("labels", &labels(old), &labels(new));
    differ("annotations", &annotations(old), &annotations(new));
    differ("taints", &taints(old), &taints(new));
    let takes_label = excluded(old).is_some() && excluded(new) != excluded(old);
    if takes_label && !OUR_LABELS.contains(&excluded(old).unwrap_or_default()) {
        wrong.push(format!(
            "Sundown changed the load balancer label of others: {:?}",
            excluded(old)
        ));
    }
    if open_record(old).is_none() && open_record(new).is_some() {
        known.was_labeled = excluded(old).is_some() && (known.was_labeled || known.is_forgotten);
        known.was_forgotten = old.unschedulable && (known.was_forgotten || known.is_forgotten);
        (known.meddled, known.restore, known.is_forgotten) = (false, None, false);
    }
    // A boot had ended the drain that the order was for. The record of the new boot begins another
    // drain, and its accept removes the order.
    let boot = |node: &NodeState| record(node).map(|record| record["boot"].clone());
    let removes_order =
        old.annotations.contains_key(RELEASE) && !new.annotations.contains_key(RELEASE);
    if removes_order && open_record(new).is_some() && boot(old) != boot(new) {
        known.restore = None;
    }
    known.only_cordoned |= !old.unschedulable && new.unschedulable && open_record(new).is_none();
    let uncordons = old.unschedulable && !new.unschedulable;
    if uncordons && known.cordoned && !known.meddled {
        wrong.push("Sundown uncordoned it, and somebody else had cordoned it".to_owned());
    }
    // It is put back: in one write.
    if taint(old).is_some() && taint(new).is_none() {
        if new.unschedulable && !known.may_stay_cordoned() {
            wrong.push("it was put back and left cordoned".to_owned());
        }
        // A label that was on it when its record was forgotten may stay, too. So may another tool's
        // if a person made up a record that does not say that Sundown set it.
        let is_unnamed = known.is_made_up
            && excluded(new) == Some(NTH_LABEL)
            && record(old).is_some_and(|record| record["compat"].is_null());
        if excluded(new).is_some_and(|value| OUR_LABELS.contains(&value))
            && !known.was_labeled
            && !is_unnamed
        {
            wrong.push("it was put back and left out of load balancers".to_owned());
        }
        if new.taints.iter().any(|(key, ..)| key.starts_with(BESIDE))
            && !old.taints.is_superset(&new.taints)
        {
            wrong.push("it was put back with new taints".to_owned());
        }
        known.restore = None;
    }
    // A node that only had the weaker taint is put back with that.
    let weaker = |node: &NodeState| taint_with(node, "PreferNoSchedule").is_some();
    if weaker(old) && !weaker(new) && taint(new).is_none() {
        known.restore = None;
    }
    wrong
}

/// Nothing happens any more.
fn in_the_end(node: &NodeState, known: &Before) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let ours = excluded(node) == Some("sundown");
    if taint(node).is_some()
        && record(node).is_none()
        && !node.annotations.contains_key(RECORD)
        && !known.is_forgotten
    {
        wrong.push("its taint was left behind without a record");
    }
    if ours && taint(node).is_none() && !known.is_made_up {
        wrong.push("it was left out of load balancers");
    }
    if node.unschedulable && taint(node).is_none() && !known.may_stay_cordoned() {
        wrong.push("it was left cordoned");
    }
    if known.restore.is_some() {
        wrong.push("a person released it, and it was not put back");
    }
    wrong
}

fn labels(node: &NodeState) -> BTreeSet<String> {
    node.labels
        .iter()
        .filter(|(key, _)| *key != EXCLUDED)
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

fn annotations(node: &NodeState) -> BTreeSet<String> {
    let ours = [RECORD, RELEASE, FORCE, PLANNED, IMPAIRED];
    let others = node.annotations.iter().filter(|(key, _)| !ours.contains(&key.as_str()));
    others.map(|(key, value)| format!("{key}={value}")).collect()
}

fn taints(node: &NodeState) -> BTreeSet<String> {
    let others = node
        .taints
        .iter()
        .filter(|(key, ..)| ![TAINT, UNSCHEDULABLE, OUT_OF_SERVICE].contains(&key.as_str()))
        .filter(|(key, ..)| !key.starts_with(BESIDE));
    others.map(|(key, value, effect)| format!("{key}={value}:{effect}")).collect()
}
