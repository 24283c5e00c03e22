//! What happened, put in order: the life of every pod, and what was written on every Node when.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use sundown::sim::{
    aws::{ActionReport, Outcome, State},
    kube::{Fact, PodRef},
};

use super::Evidence;

/// A pod's life.
pub struct Life {
    pub pod: PodRef,
    pub bound: Timestamp,
    pub finished: Option<Timestamp>,
    pub gone: Option<Timestamp>,
}

/// What is written on a Node from then on.
pub struct Page {
    pub at: Timestamp,
    pub instance: String,
    pub record: Option<Value>,
    pub to_be_released: bool,
    pub paused: bool,
}

/// An interruption in a record.
#[derive(Debug)]
pub struct Told {
    pub kind: String,
    /// Of a state change.
    pub state: Option<String>,
    pub event: String,
    pub time: Timestamp,
    pub accepted: Timestamp,
    pub hook: Option<(String, String)>,
    pub ends: Option<Timestamp>,
    /// It was read late and waited for a proof.
    pub is_stale: bool,
}

impl Told {
    /// It says that nothing runs on the machine any more.
    pub fn is_over(&self) -> bool {
        !self.is_stale && matches!(self.state.as_deref(), Some("stopped" | "terminated"))
    }

    /// It owes this action, and was not written down before the action began.
    pub fn is_of(&self, action: &ActionReport) -> bool {
        self.hook.as_ref().is_some_and(|(group, hook)| *group == action.group && *hook == action.hook) && self.accepted >= action.started
    }
}

/// A time before which nothing may be forced or given up.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    pub at: Timestamp,
    pub accepted: Timestamp,
}

pub struct Story<'a> {
    pub evidence: &'a Evidence,
    pub pods: BTreeMap<String, Life>,
    pages: BTreeMap<String, Vec<Page>>,
    gone: BTreeMap<String, Vec<Timestamp>>,
    added: BTreeMap<String, Vec<Timestamp>>,
    /// From when on a Node is cordoned, or is not.
    cordons: BTreeMap<String, Vec<(Timestamp, bool)>>,
    machines_gone: BTreeMap<String, Timestamp>,
}

impl<'a> Story<'a> {
    pub fn of(evidence: &'a Evidence) -> Self {
        let mut story = Self {
            evidence,
            pods: BTreeMap::new(),
            pages: BTreeMap::new(),
            gone: BTreeMap::new(),
            added: BTreeMap::new(),
            cordons: BTreeMap::new(),
            machines_gone: BTreeMap::new(),
        };
        for entry in &evidence.entries {
            story.tell(entry.at, &entry.fact);
        }
        story
    }

    fn tell(&mut self, at: Timestamp, fact: &Fact) {
        match fact {
            Fact::Bound(pod) => {
                self.pods.entry(pod.uid.clone()).or_insert(Life { pod: pod.clone(), bound: at, finished: None, gone: None });
            }
            Fact::PodFinished(pod) => {
                if let Some(life) = self.pods.get_mut(&pod.uid) {
                    life.finished = Some(at);
                }
            }
            Fact::PodGone(pod) => {
                if let Some(life) = self.pods.get_mut(&pod.uid) {
                    life.gone = Some(at);
                }
            }
            Fact::Annotated { node, provider_id, annotations } => {
                let record = annotations.get("sundown.dev/record").and_then(|text| serde_json::from_str(text).ok());
                let to_be_released = annotations.get("sundown.dev/release").is_some_and(|v| v == "true");
                let instance = provider_id.rsplit('/').next().unwrap_or_default().to_owned();
                let paused = annotations.get("sundown.dev/pause").is_some_and(|v| v == "true");
                self.pages.entry(node.clone()).or_default().push(Page { at, instance, record, to_be_released, paused });
            }
            Fact::NodeGone(node) => self.gone.entry(node.clone()).or_default().push(at),
            Fact::NodeAdded(node) => {
                self.added.entry(node.clone()).or_default().push(at);
                self.cordons.entry(node.clone()).or_default().push((at, false));
            }
            Fact::Cordoned(node) => self.cordons.entry(node.clone()).or_default().push((at, true)),
            Fact::Uncordoned(node) => self.cordons.entry(node.clone()).or_default().push((at, false)),
            Fact::MachineGone(node) => drop(self.machines_gone.entry(node.clone()).or_insert(at)),
            _ => {}
        }
    }

    /// What is written on a Node at a time, that moment included.
    pub fn page(&self, node: &str, at: Timestamp) -> Option<&Page> {
        self.pages.get(node)?.iter().rev().find(|p| p.at <= at)
    }

    /// Whether the record was open at that moment, or so shortly before that it could not be known better.
    pub fn was_open(&self, node: &str, at: Timestamp) -> bool {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        pages.iter().enumerate().any(|(i, page)| {
            let known_until = pages.get(i + 1).map(|next| next.at + Duration::from_secs(2));
            page.at <= at && known_until.is_none_or(|u| u >= at) && is_open(page)
        })
    }

    /// What was written on a Node at any time between these two moments, and until when.
    pub fn pages_between(&self, node: &str, from: Timestamp, to: Timestamp) -> impl Iterator<Item = (&Page, Timestamp)> {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        let until = move |i: usize| pages.get(i + 1).map_or(self.evidence.ended, |next| next.at);
        pages.iter().enumerate().map(move |(i, page)| (page, until(i))).filter(move |(page, until)| page.at <= to && *until >= from)
    }

    /// Whether a Node was cordoned at any time between these two moments.
    pub fn cordoned_between(&self, node: &str, from: Timestamp, to: Timestamp) -> bool {
        let all = self.cordons.get(node).map(Vec::as_slice).unwrap_or_default();
        all.iter().enumerate().any(|(i, (at, is))| *is && *at <= to && all.get(i + 1).is_none_or(|(next, _)| *next >= from))
    }

    /// All interruptions that records of this instance held until then.
    pub fn told(&self, instance: &str, until: Timestamp) -> Vec<Told> {
        let pages = self.pages.values().flatten().filter(|p| p.at <= until && p.instance == instance);
        let mut all: Vec<Told> = pages.filter_map(|p| p.record.as_ref()).flat_map(interruptions).collect();
        all.sort_by(|a, b| (&a.event, &a.hook, a.accepted).cmp(&(&b.event, &b.hook, b.accepted)));
        all.dedup_by(|a, b| (&a.event, &a.hook, a.accepted) == (&b.event, &b.hook, b.accepted));
        all
    }

    /// When pods of an instance's node may be forced at the earliest, and its drain given up, as seen at `now`: one for each thing that may rule.
    pub fn deadlines(&self, instance: &str, now: Timestamp) -> Vec<Deadline> {
        self.deadlines_of(instance, &self.told(instance, now), now)
    }

    /// The same of these interruptions of the instance alone.
    pub fn deadlines_of(&self, instance: &str, told: &[Told], now: Timestamp) -> Vec<Deadline> {
        let drain_timeout = Duration::from_secs(self.evidence.terms.drain_timeout);
        let margin = Duration::from_secs(5);
        let mut all = Vec::new();
        for one in told {
            let Told { time, accepted, .. } = *one;
            let patience = accepted + drain_timeout - margin;
            let at = match one.kind.as_str() {
                "spot" => time + Duration::from_secs(110),
                "capacity" => one.ends.unwrap_or(time + Duration::from_secs(120)) - margin,
                "state-change" => time + Duration::from_secs(25),
                _ => patience,
            };
            all.push(Deadline { at: at.min(patience), accepted });
        }
        let first = told.iter().map(|t| t.accepted).min().unwrap_or(now);
        // The end of a pause is a take-up: a hook whose deadline was over by then is given its time from there.
        let node = self.evidence.nodes.get(instance).filter(|_| told.iter().any(|t| t.hook.is_some()));
        let resumed = node.into_iter().flat_map(|node| self.pauses(node)).map(|(_, to)| to).filter(|to| *to > first && *to <= now);
        all.extend(resumed.map(|to| Deadline { at: to + drain_timeout - margin, accepted: first }));
        for action in self.evidence.actions.iter().filter(|a| a.instance == instance) {
            all.push(Deadline { at: action.global_end - Duration::from_secs(65), accepted: first });
            // The last window that anybody was told was granted, once two thirds of it are over.
            let last = self.told_beats(action).filter(|b| *b <= now).max().unwrap_or_else(|| to_the_second(action.started));
            if now >= last + action.heartbeat_timeout.mul_f64(0.66) {
                all.push(Deadline { at: last + action.heartbeat_timeout - margin, accepted: first });
            }
            let assumed = self.assumed_windows(action, now).map(|from| from + action.heartbeat_timeout - margin);
            all.extend(assumed.map(|at| Deadline { at, accepted: first }));
        }
        all
    }

    /// The heartbeats of an action whose acceptance was heard of.
    fn told_beats(&self, action: &ActionReport) -> impl Iterator<Item = Timestamp> {
        let object = format!("{}/{}/{}", action.group, action.hook, action.instance);
        let beats = self.evidence.calls.iter().filter(|c| c.api == "autoscaling:RecordLifecycleActionHeartbeat" && c.outcome == Outcome::Ok);
        let (from, to) = (action.started, action.end.as_ref().map_or(self.evidence.ended, |e| e.at));
        beats.filter(move |c| c.object == object && c.at >= from && c.at <= to).map(|c| c.at)
    }

    /// Pods that count and are on the node at that moment.
    pub fn left(&self, node: &str, at: Timestamp) -> Vec<&Life> {
        // What was bound just now nobody could have seen.
        let seen = at - Duration::from_secs(2);
        let there = |l: &&Life| l.pod.node == node && l.bound <= seen && l.gone.is_none_or(|g| g > at) && l.finished.is_none_or(|f| f > at);
        self.pods.values().filter(there).filter(|l| counts(&l.pod) && !self.came_back(l)).collect()
    }

    /// Three pods of its name came to its node before it, within two minutes: from the fourth on a drain may leave them alone.
    fn came_back(&self, life: &Life) -> bool {
        let since = life.bound - Duration::from_secs(120);
        let like = |l: &&Life| (&l.pod.namespace, &l.pod.name, &l.pod.node) == (&life.pod.namespace, &life.pod.name, &life.pod.node);
        self.pods.values().filter(like).filter(|l| l.bound < life.bound && l.bound >= since).count() > 3
    }

    /// From when to when a node was paused: by itself, or with everything.
    pub fn pauses(&self, node: &str) -> Vec<(Timestamp, Timestamp)> {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        let end = |i: usize| pages.get(i + 1).map_or(self.evidence.ended, |next| next.at);
        // Neighbouring pages with the annotation are one pause.
        let mut all: Vec<(Timestamp, Timestamp)> = Vec::new();
        for (from, to) in pages.iter().enumerate().filter(|(_, p)| p.paused).map(|(i, p)| (p.at, end(i))) {
            match all.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => all.push((from, to)),
            }
        }
        all.extend(&self.evidence.pauses);
        all
    }

    /// When the record of an instance was released, if it was.
    pub fn released(&self, node: &str, instance: &str, from: Timestamp) -> Option<Timestamp> {
        let pages = self.pages.get(node)?.iter().filter(|p| p.at >= from && p.instance == instance);
        pages.filter(|p| p.record.as_ref().is_some_and(|r| !r["released"].is_null())).map(|p| p.at).next()
    }

    pub fn node_gone(&self, node: &str, at: Timestamp) -> bool {
        self.gone.get(node).is_some_and(|times| times.iter().any(|t| *t <= at))
    }

    /// When a Node went before that moment, if it did, and when it registered again, if it did.
    pub fn went(&self, node: &str, at: Timestamp) -> Option<(Timestamp, Option<Timestamp>)> {
        let went = *self.gone.get(node)?.iter().rev().find(|t| **t <= at)?;
        Some((went, self.added.get(node).into_iter().flatten().copied().find(|t| *t >= went && *t <= at)))
    }

    /// The same of a kubelet that is silent: since when, and when it spoke again, if it did.
    pub fn fell_silent(&self, node: &str, at: Timestamp) -> Option<(Timestamp, Option<Timestamp>)> {
        let mut of_it = self.evidence.hands.iter().filter(|(t, n, _)| *t <= at && n == node);
        let (lost, ..) = of_it.clone().rev().find(|(_, _, what)| *what == "lost")?;
        Some((*lost, of_it.find(|(t, _, what)| t >= lost && *what == "back").map(|(t, ..)| *t)))
    }

    /// An instance's last change of state was towards its end.
    pub fn is_ending(&self, instance: &str, at: Timestamp) -> bool {
        let last = self.evidence.changes.iter().filter(|c| c.id == instance && c.at <= at).max_by_key(|c| c.at);
        last.is_some_and(|c| matches!(c.state, State::Stopping | State::ShuttingDown | State::Stopped | State::Terminated))
    }

    /// The Node's object went, or somebody took its open record away, and no process that saw it lived on.
    pub fn gone_unwitnessed(&self, node: &str, until: Timestamp) -> bool {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        let taken_away = pages.windows(2).filter(|w| is_open(&w[0]) && w[1].record.is_none()).map(|w| &w[1].at);
        let mut times = self.gone.get(node).into_iter().flatten().chain(taken_away).filter(|t| **t <= until);
        // Its caches are warm a few seconds after its start.
        let from = |t: &Timestamp| *t - Duration::from_secs(10);
        times.any(|t| !self.evidence.lives.iter().any(|(_, start, end)| *start <= from(t) && end.is_none_or(|e| e >= until)))
    }

    pub fn machine_gone(&self, node: &str, at: Timestamp) -> bool {
        self.machines_gone.get(node).is_some_and(|t| *t <= at)
    }

    /// Somebody deleted the open record of a node twice before that, which ends its drain: the first time may be a mistake. Sundown itself
    /// takes the record of another machine away.
    pub fn record_deleted_twice(&self, node: &str, at: Timestamp) -> bool {
        let (mut was_open, mut deletions) = (false, 0);
        for entry in self.evidence.entries.iter().filter(|e| e.at <= at) {
            let Fact::Annotated { node: of, annotations, .. } = &entry.fact else { continue };
            if of != node {
                continue;
            }
            let record = annotations.get("sundown.dev/record").and_then(|text| serde_json::from_str::<Value>(text).ok());
            deletions += usize::from(was_open && record.is_none() && !super::is_us(&entry.by));
            was_open = record.is_some_and(|r| r["released"].is_null());
        }
        deletions > 1
    }

    /// Somebody asked before that for the release of the drain that went on then: not before its accept, which takes an older order away.
    pub fn released_by_hand(&self, node: &str, at: Timestamp) -> bool {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        let accepted = self.page(node, at).and_then(|p| p.record.as_ref()).and_then(|r| interruptions(r).map(|t| t.accepted).min());
        pages.windows(2).any(|w| {
            let asked = w[1].to_be_released && !w[0].to_be_released && is_open(&w[0]);
            asked && w[1].at <= at && accepted.is_none_or(|accepted| w[1].at >= accepted)
        })
    }

    pub fn hand(&self, node: &str, what: &str, at: Timestamp) -> bool {
        self.evidence.hands.iter().any(|(t, n, w)| *t <= at && n == node && *w == what)
    }

    /// Since when a node has been paused, as whoever leads must know by then: two seconds of calm make it known.
    pub fn known_pause(&self, node: &str, at: Timestamp) -> Option<Timestamp> {
        const KNOWN: Duration = Duration::from_secs(2);
        let pauses = self.pauses(node).into_iter().filter(|(from, to)| *from + KNOWN <= at && at < *to);
        pauses.map(|(from, _)| from).find(|from| self.longest_calm(*from, at) >= KNOWN)
    }

    /// The longest stretch between two moments in which nothing was broken and somebody led.
    pub fn longest_calm(&self, from: Timestamp, to: Timestamp) -> Duration {
        let mut trouble: Vec<_> = self.evidence.excuses.iter().filter(|(a, b)| *a < to && *b > from).copied().collect();
        trouble.sort();
        let (mut longest, mut cursor) = (Duration::ZERO, from);
        let between = |a: Timestamp, b: Timestamp| Duration::try_from(b.duration_since(a)).unwrap_or_default();
        for (a, b) in trouble {
            longest = longest.max(between(cursor, a));
            cursor = cursor.max(b);
        }
        longest.max(between(cursor, to))
    }
}

/// All that happened, in order, for a person who looks for the cause.
pub fn timeline(evidence: &Evidence) -> String {
    let mut lines: Vec<(Timestamp, String)> = Vec::new();
    for entry in &evidence.entries {
        lines.push((entry.at, format!("{}: {:?}", entry.by, entry.fact)));
    }
    let seldom = |r: &&sundown::sim::kube::Request| !["leases", "events"].contains(&r.resource.as_str()) || r.status >= 400;
    for r in evidence.requests.iter().filter(seldom) {
        lines.push((
            r.at,
            format!("{}: {} {}/{} {}/{} -> {} at {:?}", r.client, r.verb, r.resource, r.subresource, r.namespace, r.name, r.status, r.answered),
        ));
    }
    for call in evidence.calls.iter().filter(|c| !c.api.starts_with("sqs:Receive")) {
        lines.push((call.at, format!("{} {} {:?}", call.api, call.object, call.outcome)));
    }
    for deletion in &evidence.deletions {
        lines.push((deletion.at, format!("deleted {}", deletion.body)));
    }
    for change in &evidence.changes {
        lines.push((change.at, format!("{} is {:?}", change.id, change.state)));
    }
    for (at, act) in &evidence.acts {
        lines.push((*at, format!("*** {act}")));
    }
    for action in &evidence.actions {
        lines.push((action.started, format!("an action begins: {action:?}")));
    }
    lines.retain(|(at, _)| *at >= evidence.begun);
    lines.sort_by_key(|(at, _)| *at);
    let line = |(at, text): (Timestamp, String)| format!("{:9.3} {text}\n", at.duration_since(evidence.begun).as_secs_f64());
    lines.into_iter().map(line).collect()
}

/// Events tell their time in whole seconds.
fn to_the_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

pub fn is_open(page: &Page) -> bool {
    page.record.as_ref().is_some_and(|r| r["released"].is_null())
}

pub fn interruptions(record: &Value) -> impl Iterator<Item = Told> + use<> {
    let all = record["interruptions"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter_map(|i| {
        let text = |key: &str| i[key].as_str().map(str::to_owned);
        let time = |key: &str| i[key].as_str().and_then(|t| t.parse().ok());
        Some(Told {
            kind: text("kind")?,
            state: text("state"),
            event: text("event").unwrap_or_default(),
            time: time("time")?,
            accepted: time("accepted")?,
            hook: text("group").zip(text("hook")),
            ends: time("ends"),
            is_stale: i["stale"] == true,
        })
    })
}

/// Whether a drain has to wait for this pod.
pub fn counts(pod: &PodRef) -> bool {
    // What a pod is, its name says: in seeds `mirror-0`, in tests `fluentd-daemon` and the like.
    !["mirror", "finished", "tolerant", "tolerates-us", "daemon"].iter().any(|k| pod.name.contains(k))
}
