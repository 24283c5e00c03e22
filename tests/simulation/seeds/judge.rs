//! What every run must keep to, whatever happened in it.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use sundown::sim::{
    aws::{ActionReport, State, Transition, Verdict},
    kube::{Fact, PodRef},
};

use super::{
    plan::{Belongs, Group},
    play::Evidence,
    story::{Deadline, Story, is_open},
};

/// What was broken, in words; nothing where all was kept.
pub fn judge(evidence: &Evidence) -> Vec<String> {
    let mut judge = Judge { story: Story::of(evidence), evidence, broken: Vec::new() };
    judge.pods();
    judge.strangers();
    judge.actions();
    judge.messages();
    judge.rest();
    judge.broken
}

struct Judge<'a> {
    story: Story<'a>,
    evidence: &'a Evidence,
    broken: Vec<String>,
}

fn is_us(name: &str) -> bool {
    name.starts_with("sundown")
}

const SLACK: Duration = Duration::from_millis(1500);

impl Judge<'_> {
    fn broken(&mut self, at: Timestamp, what: String) {
        let after = at.duration_since(self.evidence.begun).as_secs_f64();
        self.broken.push(format!("[{after:+.3} s] {what}"));
    }

    fn group(&self, name: &str) -> Option<&Group> {
        self.evidence.plan.groups.iter().find(|g| g.name == name)
    }

    /// Ours to complete.
    fn is_ours(&self, group: &str, hook: &str) -> bool {
        self.group(group).is_some_and(|g| g.belongs == Belongs::Us) && hook != "Terminate-LC-Hook"
    }

    /// A node of somebody else's is told by its labels. Where there is no Node (any more, or as far as can be seen), only tags speak.
    fn looks_like_ours(&self, group: &str, instance: &str, at: Timestamp) -> bool {
        let tagged = self.group(group).is_some_and(|g| [Belongs::Karpenter, Belongs::Ignored].contains(&g.belongs));
        let node = self.evidence.nodes.get(instance);
        tagged && (node.is_none_or(|n| self.story.node_gone(n, at)) || self.evidence.excuses.iter().any(|(a, b)| *a <= at && *b >= at))
    }

    /// Only the pods that count, only on nodes with an open record, each asked first, none forced too early, never without grace.
    fn pods(&mut self) {
        let blurred = self.evidence.plan.acts.iter().any(|(_, a)| a.blurs_budgets());
        for entry in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            match &entry.fact {
                Fact::Evicted { pod, grace, overrun, again } => {
                    self.touched(entry.at, pod, *grace, *again);
                    if !overrun.is_empty() && !blurred {
                        self.broken(entry.at, format!("the eviction of {} overran {overrun:?}", pod.name));
                    }
                }
                Fact::Deleted { pod, grace, again, .. } => {
                    self.touched(entry.at, pod, *grace, *again);
                    if !again {
                        self.forced(entry.at, pod);
                    }
                }
                _ => {}
            }
        }
    }

    fn touched(&mut self, at: Timestamp, pod: &PodRef, grace: u64, again: bool) {
        let untouchable = ["mirror-", "finished-", "tolerant-"].iter().any(|k| pod.name.starts_with(k)) || pod.name.starts_with("daemon");
        if untouchable {
            self.broken(at, format!("{} was touched", pod.name));
        }
        if grace == 0 {
            self.broken(at, format!("{} got no grace", pod.name));
        }
        if !self.story.was_open(&pod.node, at) {
            self.broken(at, format!("{} was touched on {}, which has no open record", pod.name, pod.node));
        }
        let outlives = |d: Deadline| at + Duration::from_secs(1) >= d.at || self.leaves_by(pod, at).is_none_or(|end| end > d.at);
        if again && self.evidence.plan.is_calm() && !self.soonest(&pod.node, at).is_some_and(outlives) {
            self.broken(at, format!("{} was asked again while it was leaving in time", pod.name));
        }
    }

    /// By when a pod had to be gone, as far as it had been asked before this moment.
    fn leaves_by(&self, pod: &PodRef, before: Timestamp) -> Option<Timestamp> {
        let ends = self.evidence.entries.iter().filter(|e| e.at < before).filter_map(|e| match &e.fact {
            Fact::Evicted { pod: p, grace, .. } | Fact::Deleted { pod: p, grace, .. } if p.uid == pod.uid => Some(e.at + Duration::from_secs(*grace)),
            _ => None,
        });
        ends.min()
    }

    fn instance_of(&self, node: &str) -> Option<&String> {
        self.evidence.nodes.iter().find(|(_, n)| *n == node).map(|(i, _)| i)
    }

    fn soonest(&self, node: &str, at: Timestamp) -> Option<Deadline> {
        self.story.deadlines(self.instance_of(node)?, at).into_iter().min_by_key(|d| d.at)
    }

    fn forced(&mut self, at: Timestamp, pod: &PodRef) {
        let asked =
            self.evidence.requests.iter().any(|r| r.at <= at && r.subresource == "eviction" && r.namespace == pod.namespace && r.name == pod.name);
        if !asked {
            self.broken(at, format!("{} was deleted and never asked to go", pod.name));
        }
        let own = Duration::from_secs(self.grace_of(pod));
        let Some(instance) = self.instance_of(&pod.node).cloned() else { return };
        let deadlines = self.story.deadlines(&instance, at);
        let in_time = deadlines.iter().any(|d| {
            let half = d.accepted + Duration::try_from(d.at.duration_since(d.accepted)).unwrap_or_default() / 2;
            at + SLACK >= (d.at - own).max(half)
        });
        if !in_time {
            self.broken(at, format!("{} was deleted too early: {deadlines:?}", pod.name));
        }
    }

    fn grace_of(&self, pod: &PodRef) -> u64 {
        self.evidence.plan.loads.iter().find(|l| pod.namespace == "load" && pod.name.starts_with(&l.name)).map_or(30, |l| l.grace)
    }

    /// No call for another's hook, no write to another's node.
    fn strangers(&mut self) {
        for call in &self.evidence.calls {
            let acts = ["autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"].contains(&call.api.as_str());
            let mut parts = call.object.split('/');
            let (group, hook) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let instance = parts.next().unwrap_or_default();
            if acts && !self.is_ours(group, hook) && !self.looks_like_ours(group, instance, call.at) {
                self.broken(call.at, format!("{} for {}, which is not ours", call.api, call.object));
            }
        }
        let mut foreign = BTreeMap::new();
        for (instance, node) in &self.evidence.nodes {
            let group = self.evidence.groups.get(instance).and_then(|g| self.group(g));
            if group.is_some_and(|g| g.belongs != Belongs::Us) {
                foreign.insert(node.clone(), instance.clone());
            }
        }
        for request in self.evidence.requests.iter().filter(|r| is_us(&r.client) && !["get", "list", "watch"].contains(&r.verb.as_str())) {
            if request.resource == "nodes" && foreign.contains_key(&request.name) {
                self.broken(request.at, format!("{} of {}, which is not ours", request.verb, request.name));
            }
            if !["nodes", "pods", "leases", "events"].contains(&request.resource.as_str()) {
                self.broken(request.at, format!("{} of {}", request.verb, request.resource));
            }
        }
    }

    /// Every hook of ours ends by our completion, in time, and not before its node is empty.
    fn actions(&mut self) {
        for action in self.evidence.actions.clone() {
            if !self.is_ours(&action.group, &action.hook) {
                let end = action.end.as_ref().filter(|e| !e.by.is_empty());
                if end.is_some_and(|e| !self.looks_like_ours(&action.group, &action.instance, e.at)) {
                    self.broken(action.started, format!("{}/{} of {} was completed and is not ours", action.group, action.hook, action.instance));
                }
                continue;
            }
            let name = format!("{}/{} of {}", action.group, action.hook, action.instance);
            let Some(end) = &action.end else {
                self.broken(self.evidence.ended, format!("{name} is open"));
                continue;
            };
            match end.verdict {
                Verdict::Completed(_) if action.transition == Transition::Terminating => self.not_too_early(&name, &action, end.at),
                Verdict::Completed(_) | Verdict::Stopped | Verdict::Removed => {}
                Verdict::TimedOut(_) => self.excused(&name, &action, end.at),
                Verdict::GlobalTimeout(_) => self.broken(end.at, format!("{name} ran into its global timeout")),
            }
            if action.beats.iter().any(|b| *b > end.at) {
                self.broken(end.at, format!("{name} got a heartbeat after its end"));
            }
        }
    }

    /// It timed out: something must have kept every leader from beating.
    fn excused(&mut self, name: &str, action: &ActionReport, end: Timestamp) {
        let last = action.beats.last().copied().unwrap_or(action.started);
        let timeout = action.heartbeat_timeout;
        let interval = if timeout < Duration::from_secs(60) { timeout / 3 } else { timeout / 2 };
        // Retries, and what a dead replica had received, which is hidden for a minute.
        let due = last + interval + Duration::from_secs(3);
        let calm = self.story.longest_calm(due, end);
        // The Node is the record: one that is deleted takes what it owes with it, unless a process saw it go and lives on.
        if self.evidence.nodes.get(&action.instance).is_some_and(|n| self.story.gone_unwitnessed(n, end)) {
            return;
        }
        let unseen = action.beats.is_empty() && self.story.longest_calm(action.started, end) < timeout.min(Duration::from_secs(100));
        if calm >= (timeout / 3).min(Duration::from_secs(20)) && !unseen {
            self.broken(end, format!("{name} timed out ({timeout:?}), last beaten {last}, although all was well for {calm:?} after {due}"));
        }
    }

    fn not_too_early(&mut self, name: &str, action: &ActionReport, at: Timestamp) {
        let Some(node) = self.evidence.nodes.get(&action.instance) else { return };
        let left: Vec<String> = self.story.left(node, at).iter().map(|l| l.pod.name.clone()).collect();
        let over = |s: State| matches!(s, State::Stopped | State::Terminated);
        let is_over = self.evidence.changes.iter().any(|c| c.id == action.instance && over(c.state) && c.at <= at);
        let excused = left.is_empty()
            || is_over
            || self.story.node_gone(node, at)
            || self.story.machine_gone(node, at)
            || self.story.released_by_hand(node, at)
            || self.story.hand(node, "lost", at - Duration::from_secs(60))
            || self.story.deadlines(&action.instance, at).iter().any(|d| at + SLACK >= d.at);
        if !excused {
            let deadlines = self.story.deadlines(&action.instance, at);
            self.broken(at, format!("{name} was completed before {node} was empty: {left:?} are left; {deadlines:?}"));
        }
    }

    /// No message is deleted before what it asks for is durable, unless it asks for nothing.
    fn messages(&mut self) {
        for deletion in &self.evidence.deletions {
            let Some(event) = event(&deletion.body) else {
                self.broken(deletion.at, format!("a message that nobody understands was deleted: {:?}", deletion.body));
                continue;
            };
            let kept = match event.hook.as_ref() {
                Some((group, hook)) => {
                    !self.is_ours(group, hook)
                        || event.launch
                        || self.story.told(&event.instance, deletion.at).iter().any(|t| t.hook.as_ref() == event.hook.as_ref())
                        || self.is_over(&event, deletion.at)
                }
                None => self.is_settled(&event, deletion.at),
            };
            if !kept {
                self.broken(deletion.at, format!("a message was deleted before its intent was durable: {}", deletion.body));
            }
        }
    }

    /// No action of this event's hook is open any more.
    fn is_over(&self, event: &Event, at: Timestamp) -> bool {
        let mut of_it = self.evidence.actions.iter().filter(|a| {
            a.instance == event.instance
                && event.hook.as_ref().is_some_and(|(g, h)| *g == a.group && *h == a.hook)
                && event.token.as_ref().is_none_or(|t| *t == a.token)
        });
        of_it.all(|a| a.end.as_ref().is_some_and(|e| e.at <= at))
    }

    /// Spot, capacity, states: written down, or nothing of ours to write it on, or stale.
    fn is_settled(&self, event: &Event, at: Timestamp) -> bool {
        let ours = self.evidence.groups.get(&event.instance).and_then(|g| self.group(g)).is_some_and(|g| g.belongs == Belongs::Us);
        let told = self.story.told(&event.instance, at);
        let never_read = ![
            "EC2 Spot Instance Interruption Warning",
            "EC2 Capacity Reservation Instance Interruption Warning",
            "EC2 Instance State-change Notification",
        ]
        .contains(&event.kind.as_str());
        let harmless = ["pending", "running"].contains(&event.state.as_str());
        let known = told.iter().any(|t| t.event == event.id);
        // To one that is drained already (or was), it says nothing new.
        let repeat = !told.is_empty();
        let node = self.evidence.nodes.get(&event.instance);
        let no_node = node.is_none_or(|n| self.story.node_gone(n, at) || self.story.page(n, at).is_none());
        let age = at.duration_since(event.time).as_secs();
        let stale = age > if event.state.is_empty() { 118 } else { 58 };
        !ours || never_read || harmless || known || repeat || no_node || stale
    }

    /// In the end nothing is left to do, and nothing is done.
    fn rest(&mut self) {
        for what in self.evidence.restless.clone() {
            self.broken(self.evidence.ended, format!("it never came to rest: {what}"));
        }
        if self.evidence.panics > 0 {
            self.broken(self.evidence.ended, format!("{} panics", self.evidence.panics));
        }
        if self.evidence.idle > 30 {
            self.broken(self.evidence.ended, format!("{} calls in a minute in which nothing happened", self.evidence.idle));
        }
        let calm = self.evidence.plan.is_calm();
        for node in self.evidence.nodes.values() {
            let Some(page) = self.story.page(node, self.evidence.ended) else { continue };
            let old = page.record.as_ref().is_some_and(|r| {
                r["interruptions"].as_array().into_iter().flatten().all(|i| i["event"].as_str().is_some_and(|e| e.starts_with("old-")))
            });
            if calm && old && is_open(page) {
                self.broken(self.evidence.ended, format!("{node} was drained for a notice that was minutes old"));
            }
        }
    }
}

/// A message, as far as it matters here.
struct Event {
    kind: String,
    id: String,
    time: Timestamp,
    instance: String,
    state: String,
    hook: Option<(String, String)>,
    token: Option<String>,
    launch: bool,
}

fn event(body: &str) -> Option<Event> {
    let outer: Value = serde_json::from_str(body).ok()?;
    let text = |v: &Value, key: &str| v[key].as_str().map(str::to_owned);
    let (detail, kind) = match text(&outer, "detail-type") {
        Some(kind) => (outer["detail"].clone(), kind),
        None => (outer.clone(), text(&outer, "LifecycleTransition")?),
    };
    Some(Event {
        launch: kind.contains("launch") || kind.contains("LAUNCHING"),
        kind,
        id: text(&outer, "id").unwrap_or_default(),
        time: text(&outer, "time").or_else(|| text(&outer, "Time"))?.parse().ok()?,
        instance: text(&detail, "EC2InstanceId").or_else(|| text(&detail, "instance-id"))?,
        state: text(&detail, "state").unwrap_or_default(),
        hook: text(&detail, "AutoScalingGroupName").zip(text(&detail, "LifecycleHookName")),
        token: text(&detail, "LifecycleActionToken"),
    })
}
