//! What excuses a promise: a call that it needs met a fault, for the object that it is about, or
//! nobody led.
//!
//! The embedded servers know which request, call and watch met a fault. A fault that strikes
//! nothing excuses nothing, and what strikes one API, one process or one node excuses nothing else.

use std::{collections::BTreeMap, time::Duration};

use sundown::{domain::Moment, sim::Disturbance};

use super::{Evidence, Judge, leaders::Why};

/// Calls that something needs; `*` at the end stands for the rest of a name.
pub type Needs = &'static [&'static str];

/// To receive messages, and to find out whether they are ours and true.
pub const MESSAGES: Needs = &["sqs:*", "ec2:*", "autoscaling:Describe*"];
/// To know which of several Nodes is an instance's.
pub const EC2: Needs = &["ec2:*"];
/// To know what is on Nodes.
pub const SEE_NODES: Needs = &["watch nodes", "list nodes", "get nodes"];
/// To know Nodes that the process has not seen before.
pub const LIST_NODES: Needs = &["list nodes"];
pub const WRITE_NODES: Needs = &["patch nodes", "get nodes"];
pub const WRITE_CONDITIONS: Needs = &["patch nodes/status"];
/// To know what runs on a node.
pub const SEE_PODS: Needs = &["watch pods", "list pods", "get daemonsets", "list daemonsets"];
/// To know for the first time what runs on a node.
pub const LIST_PODS: Needs = &["list pods"];
/// To know which volumes are attached.
pub const SEE_VOLUMES: Needs = &["list volumeattachments", "get persistentvolumeclaims"];
/// To know what budgets allow.
pub const SEE_BUDGETS: Needs = &["watch poddisruptionbudgets", "list poddisruptionbudgets"];
/// To make pods go.
pub const REMOVE_PODS: Needs = &["create pods/eviction", "delete pods", "patch pods/status"];
pub const HEARTBEATS: Needs = &["autoscaling:RecordLifecycleActionHeartbeat"];
/// To find out which instances wait, and in which hooks.
pub const DESCRIBES: Needs = &["autoscaling:Describe*"];
pub const COMPLETIONS: Needs = &["autoscaling:CompleteLifecycleAction", "autoscaling:Describe*"];
/// To see who holds the Lease, and whether all is paused.
pub const LEASE: Needs = &[
    "get leases",
    "watch leases",
    "list leases",
    "update leases",
    "patch leases",
    "create leases",
];

pub const EVENTS: Needs = &["create events", "patch events"];

/// How long a call that met a fault may still be felt after its end: the longest time between two
/// tries, with room for a try.
const AFTER: Duration = Duration::from_secs(12);
/// The same of messages: one that was received and lost is hidden for a minute.
const AFTER_MESSAGES: Duration = Duration::from_secs(65);
/// The same of a watch that went silent: it lasts until the watch ends by its own time limit.
const AFTER_SILENCE: Duration = Duration::from_secs(300);
/// A process asks AWS about instances, groups and hooks again after this at most.
const ASKED_AGAIN: Duration = Duration::from_secs(20);
/// A call that is never answered is given up after this.
const GIVEN_UP: Duration = Duration::from_secs(11);

/// What a promise is about, and what it needs.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub needs: &'a [Needs],
    /// Instance and Node; `None`: all of them.
    pub of: Option<(&'a str, &'a str)>,
    /// Only while this process could not make its calls.
    pub process: Option<&'a str>,
    /// A time without a leader excuses it: `None`: never; `Some(true)`: also where the process that
    /// had led lives on.
    pub without_leader: Option<bool>,
}

impl<'a> Scope<'a> {
    /// Of all nodes, by any leader.
    pub const fn of_leader(needs: &'a [Needs]) -> Self {
        Self { needs, of: None, process: None, without_leader: Some(true) }
    }

    pub const fn about(self, instance: &'a str, node: &'a str) -> Self {
        Self { of: Some((instance, node)), ..self }
    }
}

/// A fault, as far as it is felt.
#[derive(Debug)]
pub struct Felt<'a> {
    from: Moment,
    to: Moment,
    fault: &'a Disturbance,
}

/// All that met a fault, by what it was.
#[derive(Debug, Default)]
pub struct Faults<'a>(BTreeMap<&'a str, Vec<Felt<'a>>>);

impl<'a> Faults<'a> {
    pub fn of(evidence: &'a Evidence) -> Self {
        let tries = questions(evidence);
        let mut all: BTreeMap<&str, Vec<Felt<'_>>> = BTreeMap::new();
        for fault in &evidence.disturbances {
            let over = fault.until.unwrap_or(fault.at + GIVEN_UP);
            let after = match fault.what.as_str() {
                what if what.starts_with("sqs:") => AFTER_MESSAGES,
                _ if fault.is_silent => AFTER_SILENCE,
                _ => AFTER,
            };
            let next = tries.get(&(fault.what.as_str(), fault.by.as_str())).and_then(|all| {
                all.get(all.partition_point(|at| *at <= over.max(fault.at))).copied()
            });
            // Until its next try, the process knows no better.
            let asked_again = next.map(|next| next.min(over + ASKED_AGAIN));
            let to = asked_again.into_iter().fold(over + after, Ord::max);
            all.entry(&fault.what).or_default().push(Felt { from: fault.at, to, fault });
        }
        Self(all)
    }
}

/// When each process asked AWS about instances, groups and hooks, by API and process.
fn questions(evidence: &Evidence) -> BTreeMap<(&str, &str), Vec<Moment>> {
    let is_question =
        |api: &str| ["ec2:*", "autoscaling:Describe*"].iter().any(|n| matches(n, api));
    let calls = evidence.calls.iter().map(|c| (c.api.as_str(), c.by.as_str(), c.at));
    let faults = evidence.disturbances.iter().map(|d| (d.what.as_str(), d.by.as_str(), d.at));
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (api, by, at) in calls.chain(faults).filter(|(api, ..)| is_question(api)) {
        all.entry((api, by)).or_default().push(at);
    }
    all.values_mut().for_each(|times| times.sort_unstable());
    all
}

fn matches(need: &str, what: &str) -> bool {
    need.strip_suffix('*').map_or(need == what, |start| what.starts_with(start))
}

impl Judge<'_> {
    /// Something that excuses it lasted at some time between these two.
    pub(super) fn is_excused(&self, scope: Scope<'_>, from: Moment, to: Moment) -> bool {
        self.excuses(scope, from, to).next().is_some()
    }

    /// The longest time between these two in which nothing excused it.
    pub(super) fn longest_clear(&self, scope: Scope<'_>, from: Moment, to: Moment) -> Duration {
        let mut excuses: Vec<_> = self.excuses(scope, from, to).collect();
        excuses.sort();
        let (mut longest, mut cursor) = (Duration::ZERO, from);
        let between =
            |a: Moment, b: Moment| Duration::try_from(b.duration_since(a)).unwrap_or_default();
        for (a, b) in excuses {
            longest = longest.max(between(cursor, a));
            cursor = cursor.max(b);
        }
        longest.max(between(cursor, to))
    }

    /// Since when something has excused it without a break until that moment. `None`: nothing
    /// excuses it then.
    pub(super) fn excused_since(&self, scope: Scope<'_>, at: Moment) -> Option<Moment> {
        let earlier = |from: Moment| self.excuses(scope, from, from).map(|(began, _)| began).min();
        let mut since = earlier(at)?;
        while let Some(before) = earlier(since).filter(|before| *before < since) {
            since = before;
        }
        Some(since)
    }

    fn excuses<'s>(
        &'s self,
        scope: Scope<'s>,
        from: Moment,
        to: Moment,
    ) -> impl Iterator<Item = (Moment, Moment)> + 's {
        let overlaps = move |(a, b): &(Moment, Moment)| *a <= to && *b >= from;
        let counts = move |why: Why| {
            scope.without_leader.is_some_and(|also_alive| also_alive || why == Why::Gone)
        };
        // What a process had received that is gone is hidden for a minute.
        let hides = scope.needs.contains(&MESSAGES);
        let after = move |is_takeover: bool| {
            if hides && is_takeover { AFTER_MESSAGES } else { Duration::ZERO }
        };
        let gaps = self
            .leaders
            .gaps
            .iter()
            .filter(move |gap| counts(gap.why))
            .map(move |gap| (gap.from, gap.to + after(gap.is_takeover)));
        let faults = self.faults.0.iter().filter(move |(what, _)| {
            scope.needs.iter().any(|n| n.iter().any(|need| matches(need, what)))
        });
        let of_it =
            faults.flat_map(|(_, felt)| felt).filter(move |felt| self.concerns(scope, felt.fault));
        // A queue that is deleted loses its messages.
        let away = self
            .evidence
            .queue_away
            .iter()
            .filter(move |_| hides)
            .map(|(from, to)| (*from, *to + AFTER_MESSAGES));
        gaps.chain(of_it.map(|felt| (felt.from, felt.to))).chain(away).filter(overlaps)
    }

    /// A fault of a call about another node, or of another process, excuses nothing.
    fn concerns(&self, scope: Scope<'_>, fault: &Disturbance) -> bool {
        if scope.process.is_some_and(|process| process != fault.by) {
            return false;
        }
        let Some((instance, node)) = scope.of.filter(|_| !fault.object.is_empty()) else {
            return true;
        };
        match fault.what.as_str() {
            "autoscaling:RecordLifecycleActionHeartbeat"
            | "autoscaling:CompleteLifecycleAction" => fault.object.ends_with(instance),
            what if what.ends_with(" nodes") || what.ends_with(" nodes/status") => {
                fault.object == node
            }
            what if what.contains(" pods") => {
                let pods = self.story.pods.values().filter(|life| life.pod.node == node);
                pods.into_iter()
                    .any(|life| fault.object == format!("{}/{}", life.pod.namespace, life.pod.name))
            }
            _ => true,
        }
    }
}
