//! The trace of one drain, built during the drain.

use std::collections::BTreeMap;

use md5::{Digest, Md5};

use super::{Attribute, Event, Span, Trace, Value};
use crate::{
    domain::{Moment, PodKey},
    observe::Place,
};

/// How many events the trace of one drain has at most: a drain can force hundreds of pods.
const EVENTS: usize = 64;
/// How many `blocked` spans the trace of one drain has at most.
const WAITS: usize = 64;

/// What is known of a drain when it begins.
#[derive(Debug, Clone)]
pub struct DrainStart<'a> {
    /// The name of the Node.
    pub node: &'a str,
    /// The ID of the instance.
    pub instance: &'a str,
    /// The kind of its first interruption.
    pub kind: &'static str,
    /// The ID of the event of that interruption.
    pub event: &'a str,
    /// The group, zone and instance type of the node.
    pub place: &'a Place,
    /// The time that AWS gives for the event.
    pub happened: Moment,
    /// When the interruption was accepted, which is when the node was cordoned.
    pub accepted: Moment,
    /// Another leader began the drain, and what happened until this one took over is not known.
    pub taken_over: bool,
}

/// Collects the events of one drain, and turns them into its trace at the end.
#[derive(Debug, Clone)]
pub struct DrainTrace {
    id: [u8; 16],
    attributes: Vec<Attribute>,
    happened: Moment,
    accepted: Moment,
    evicted: i64,
    forced: i64,
    events: Vec<Event>,
    dropped_events: u32,
    /// The pods that are blocked now: by pod and reason, since when.
    blocked: BTreeMap<(PodKey, &'static str), Moment>,
    /// The pods that were blocked: pod, reason, since when, until when.
    waits: Vec<(PodKey, &'static str, Moment, Moment)>,
    dropped_waits: i64,
    hook_ends: Vec<Event>,
    ended: Option<Ended>,
}

#[derive(Debug, Clone)]
struct Ended {
    at: Moment,
    outcome: &'static str,
    left: Vec<PodKey>,
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

impl DrainTrace {
    /// The trace of a drain that begins.
    #[must_use]
    pub fn begin(start: &DrainStart<'_>) -> Self {
        let place = start.place;
        let mut attributes = vec![
            ("k8s.node.name", text(start.node)),
            ("host.id", text(start.instance)),
            ("sundown.kind", text(start.kind)),
            ("sundown.event.id", text(start.event)),
            ("sundown.taken_over", Value::Flag(start.taken_over)),
        ];
        let known = [
            ("sundown.group", &place.group),
            ("cloud.availability_zone", &place.zone),
            ("host.type", &place.instance_type),
        ];
        attributes.extend(
            known
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name, text(value.as_str()))),
        );
        // The same for every leader that this drain has.
        let id =
            Md5::digest(format!("{} {} {}", start.instance, start.accepted, start.event)).into();
        let cordoned = Event { at: start.accepted, name: "cordoned", attributes: vec![] };
        Self {
            id,
            attributes,
            happened: start.happened.min(start.accepted),
            accepted: start.accepted,
            evicted: 0,
            forced: 0,
            events: vec![cordoned],
            dropped_events: 0,
            blocked: BTreeMap::new(),
            waits: Vec::new(),
            dropped_waits: 0,
            hook_ends: Vec::new(),
            ended: None,
        }
    }

    fn event(&mut self, at: Moment, name: &'static str, attributes: Vec<Attribute>) {
        if self.events.len() < EVENTS {
            self.events.push(Event { at, name, attributes });
        } else {
            self.dropped_events += 1;
        }
    }

    /// The API server accepted an eviction.
    pub fn evicted(&mut self, at: Moment, pod: &PodKey) {
        self.evicted += 1;
        if self.evicted == 1 {
            self.event(at, "first eviction", vec![("sundown.pod", text(pod.to_string()))]);
        }
    }

    /// Sundown deleted a pod that could not be evicted. `grace`: its grace period in seconds.
    pub fn forced(&mut self, at: Moment, pod: &PodKey, reason: &'static str, grace: u32) {
        self.forced += 1;
        let attributes = vec![
            ("sundown.pod", text(pod.to_string())),
            ("sundown.reason", text(reason)),
            ("sundown.grace_seconds", Value::Number(grace.into())),
        ];
        self.event(at, "forced", attributes);
    }

    /// Takes the pods that are blocked now, each with the reason and since when. A pod that was
    /// blocked before and is not in the list gets a `blocked` span that ends now.
    pub fn blocked(
        &mut self,
        now: Moment,
        pods: impl Iterator<Item = (PodKey, &'static str, Moment)>,
    ) {
        let mut before = std::mem::take(&mut self.blocked);
        for (pod, reason, since) in pods {
            let key = (pod, reason);
            let since = before.remove(&key).unwrap_or(since);
            self.blocked.insert(key, since);
        }
        for ((pod, reason), since) in before {
            self.waited(pod, reason, since, now);
        }
    }

    fn waited(&mut self, pod: PodKey, reason: &'static str, since: Moment, until: Moment) {
        if self.waits.len() < WAITS {
            self.waits.push((pod, reason, since, until));
        } else {
            self.dropped_waits += 1;
        }
    }

    /// The drain ended, with the pods `left` on the node.
    pub fn ended(&mut self, at: Moment, outcome: &'static str, left: &[PodKey]) {
        self.blocked(at, std::iter::empty());
        self.ended.get_or_insert_with(|| Ended { at, outcome, left: left.to_vec() });
    }

    /// A lifecycle action was completed, or no longer existed. `hook`: the name of its hook.
    pub fn hook_over(&mut self, at: Moment, hook: &str) {
        self.hook_ends.push(Event {
            at,
            name: "lifecycle hook over",
            attributes: vec![("sundown.hook", text(hook))],
        });
    }

    /// The whole trace, when the drain and the completions of its hooks are over.
    #[must_use]
    pub fn finish(mut self, at: Moment) -> Trace {
        self.ended(at, "given_up", &[]);
        let Self {
            id,
            mut attributes,
            happened,
            accepted,
            evicted,
            forced,
            events,
            dropped_events,
            waits,
            dropped_waits,
            hook_ends,
            ended,
            ..
        } = self;
        let Ended { at: ended_at, outcome, left } =
            ended.unwrap_or(Ended { at, outcome: "given_up", left: Vec::new() });
        attributes.extend([
            ("sundown.outcome", text(outcome)),
            ("sundown.evicted", Value::Number(evicted)),
            ("sundown.forced", Value::Number(forced)),
        ]);
        if dropped_waits > 0 {
            attributes.push(("sundown.dropped_waits", Value::Number(dropped_waits)));
        }
        let failed = (!left.is_empty()).then(|| {
            let were = if left.len() == 1 {
                "1 pod was".to_owned()
            } else {
                format!("{} pods were", left.len())
            };
            format!(
                "{were} left: {}",
                left.iter().take(10).map(ToString::to_string).collect::<Vec<_>>().join(", ")
            )
        });
        let mut spans = Spans { trace: id, end: at, all: Vec::new() };
        let root = spans.add(None, "drain", happened, at.max(ended_at), attributes);
        spans.add(Some(root), "accept", happened, accepted, vec![]);
        let evict = spans.add(Some(root), "evict", accepted, ended_at, vec![]);
        if let Some(evict) = spans.all.last_mut() {
            evict.events = events;
            evict.dropped_events = dropped_events;
            evict.failed.clone_from(&failed);
        }
        for (pod, reason, since, until) in waits {
            spans.add(
                Some(evict),
                "blocked",
                since,
                until,
                vec![("sundown.pod", text(pod.to_string())), ("sundown.reason", text(reason))],
            );
        }
        spans.add(Some(root), "complete", ended_at, at, vec![]);
        if let Some(complete) = spans.all.last_mut() {
            complete.events = hook_ends;
        }
        if let Some(root) = spans.all.first_mut() {
            root.failed = failed;
        }
        Trace { id, spans: spans.all }
    }
}

struct Spans {
    trace: [u8; 16],
    /// Part of the span IDs. If a Node is registered again during its drain, its trace is sent
    /// twice: the spans of both need different IDs, and the ends differ.
    end: Moment,
    all: Vec<Span>,
}

impl Spans {
    fn add(
        &mut self,
        parent: Option<[u8; 8]>,
        name: &'static str,
        start: Moment,
        end: Moment,
        attributes: Vec<Attribute>,
    ) -> [u8; 8] {
        let digest = Md5::new()
            .chain_update(self.trace)
            .chain_update(self.end.to_string())
            .chain_update(self.all.len().to_be_bytes())
            .finalize();
        let mut id = [0; 8];
        id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        let end = end.max(start);
        self.all.push(Span {
            id,
            parent,
            name,
            start,
            end,
            attributes,
            events: Vec::new(),
            dropped_events: 0,
            failed: None,
        });
        id
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests;
