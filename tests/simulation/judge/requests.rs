//! Requests for a drain: annotations by which people and other controllers ask. Each entry that
//! Sundown writes for one is as good as a notice if the Node asked for exactly that. Once nobody asks
//! any more, nothing is done on the Node for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::{
        aws::Delivery,
        kube::{Entry, Fact, NodeState},
    },
};

use super::{
    Evidence, Judge, SLACK,
    excuses::{SEE_NODES, Scope},
    is_us,
    nodes::{open_record, record, taint},
    sent::{Event, Kind, Notice},
    story::{Page, RecordedInterruption},
    written::{Written, interruptions},
};

pub const NAME: &str = "request";
/// The annotations that ask.
const PREFIX: &str = "drain.sundown.dev/";
/// Of more than that many, the first by name count.
const MOST: usize = 16;
/// A process may see a Node as it was that long before.
const KNOWN: Duration = Duration::from_secs(2);
/// For how long the call that writes an Event may be tried again.
const LATELY: Duration = Duration::from_secs(60);
/// AWS's clock can be measured to half a second.
const INEXACT: Duration = Duration::from_secs(2);

/// What a value asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    stage: String,
    deadline: Option<Moment>,
    reason: String,
}

fn read(value: &str) -> Option<Asked> {
    let mut asked = Asked { stage: "drain".into(), deadline: None, reason: String::new() };
    for field in value.split(';').map(str::trim).filter(|field| !field.is_empty()) {
        let (key, text) = field.split_once('=')?;
        match (key.trim(), text.trim()) {
            ("stage", stage @ ("drain" | "cordon")) => stage.clone_into(&mut asked.stage),
            ("deadline", at) => asked.deadline = Some(at.parse().ok()?),
            ("reason", why) => why.clone_into(&mut asked.reason),
            _ => return None,
        }
    }
    Some(asked)
}

/// The values that ask, by the name of who asks.
pub fn of(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let all = annotations
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), value.clone())));
    all.collect()
}

/// The name of who asks, in the ID of an entry.
fn name(event: &str) -> Option<&str> {
    event.strip_prefix("request:")?.rsplit_once(':').map(|(name, _)| name)
}

/// The requests on a Node ask for what this entry of a record says.
fn asks(requests: &BTreeMap<String, String>, entry: &Value) -> bool {
    let named = name(entry["event"].as_str().unwrap_or_default());
    let value = named.and_then(|named| requests.get(named));
    let Some(asked) = value.and_then(|value| read(value)) else { return false };
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    let deadline = text("ends").parse::<Moment>().ok().map(Moment::as_millisecond);
    let stage = if text("response").is_empty() { "drain" } else { text("response") };
    asked.stage == stage
        && asked.deadline.map(Moment::as_millisecond) == deadline
        && asked.reason == text("reason")
}

fn entries(record: &Value) -> impl Iterator<Item = &Value> {
    record["interruptions"].as_array().into_iter().flatten()
}

/// The entries of a record without the requests that the Node does not ask for.
pub fn holding(all: &[Value], requests: &BTreeMap<String, String>) -> Vec<Value> {
    let holds = |entry: &&Value| entry["kind"] != NAME || asks(requests, entry);
    all.iter().filter(holds).cloned().collect()
}

/// Nothing but requests, and recommendations, which count for less.
fn is_only_requested(record: &Value) -> bool {
    entries(record).any(|entry| entry["kind"] == NAME)
        && entries(record).all(|entry| entry["kind"] == NAME || entry["kind"] == "rebalance")
}

/// The entries that a Node asked for, as notices. The others have no cause.
pub fn notices(evidence: &Evidence, sent: &[Notice]) -> Vec<Notice> {
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    for Entry { at, by, fact } in &evidence.entries {
        let Fact::Annotated { provider_id, annotations, .. } = fact else { continue };
        let text = annotations.get("sundown.dev/record").filter(|_| is_us(by));
        let Some(record) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
            continue;
        };
        let requests = of(annotations);
        let instance = provider_id.rsplit('/').next().unwrap_or_default();
        let asking: BTreeSet<&str> = entries(&record)
            .filter(|entry| entry["kind"] == NAME && asks(&requests, entry))
            .filter_map(|entry| entry["event"].as_str())
            .collect();
        for written in interruptions(&record).filter(|w| asking.contains(w.event.as_str())) {
            let ahead = sent.iter().rev().find(|n| n.sent <= *at);
            let ahead = ahead.map_or(evidence.aws_ahead, |n| n.ahead);
            let is_counted = name(&written.event)
                .is_some_and(|name| requests.keys().take(MOST).any(|key| key == name));
            // A request whose deadline had passed is refused.
            let was_ahead = written.ends.is_none_or(|ends| ends + INEXACT >= *at + ahead);
            let is_new = known.insert((instance.to_owned(), written.event.clone(), written.time));
            if is_new && is_counted && was_ahead {
                let deliveries = vec![Delivery { at: *at, by: by.clone() }];
                let event = event(instance, &written);
                all.push(Notice { event, sent: *at, ahead, deliveries, deleted: None });
            }
        }
    }
    all
}

fn event(instance: &str, written: &Written) -> Event {
    Event {
        kind: Kind::Request,
        id: written.event.clone(),
        time: Some(written.time),
        instance: instance.to_owned(),
        block: None,
        change: None,
        state: None,
        ends: written.ends,
        hook: None,
        token: None,
        is_test: false,
        is_real_test: false,
        settings: BTreeMap::new(),
    }
}

/// The node was put back because nobody asks any more for what its record holds.
pub fn is_asked_no_longer(node: &NodeState, record: &Value) -> bool {
    let requests = of(&node.annotations);
    is_only_requested(record)
        && entries(record).all(|entry| entry["kind"] != NAME || !asks(&requests, entry))
}

/// When a request that alone rules lets a drain wait for others, by the clock of the world: until
/// its deadline, or for a day.
pub fn waits_until(recorded: &[&RecordedInterruption]) -> Option<Moment> {
    let last = recorded.iter().map(|one| one.accepted).max()?;
    let ends = recorded.iter().filter_map(|one| one.ends).filter(|end| *end > last).min();
    Some(ends.unwrap_or(last + Duration::from_secs(24 * 3600)))
}

/// An annotation on this page is no request that can be obeyed.
fn is_refused(page: &Page, at: Moment) -> bool {
    let is_past = |asked: &Asked| asked.deadline.is_some_and(|deadline| deadline <= at + INEXACT);
    let is_wrong = |value: &String| read(value).is_none_or(|asked| is_past(&asked));
    page.requests.values().any(is_wrong)
        || page.requests.len() > MOST
        || (!page.requests.is_empty() && page.settings.contains_key("ignore"))
        || (!page.requests.is_empty() && page.instance.is_empty())
}

impl Judge<'_> {
    /// No pod is asked to go on a Node that is drained only for requests, once nobody asks any
    /// more. Says how many pods it looked at, so that a test can see that it looks.
    pub(super) fn requests(&mut self) -> usize {
        for write in self.writes.clone() {
            let Some((old, new)) = write.both().filter(|_| is_us(write.by)) else { continue };
            let is_put_back = taint(old).is_some() && taint(new).is_none();
            let Some(held) = record(old).filter(|_| is_put_back && open_record(old).is_some())
            else {
                continue;
            };
            let requests = of(&old.annotations);
            let by_person = ["release", "ignore"]
                .iter()
                .any(|key| old.annotations.contains_key(&format!("sundown.dev/{key}")));
            let asked = entries(&held).any(|entry| entry["kind"] == NAME && asks(&requests, entry));
            let has_booted = held["boot"].as_str().is_some_and(|boot| boot != new.boot_id);
            if asked && !by_person && !has_booted {
                let what = "was put back while somebody asked for its drain";
                self.broken(write.at, format!("{} {what}", new.name));
            }
        }
        let mut looked_at = 0;
        for Entry { at, fact, by } in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. }) = fact else { continue };
            let sent = self.sent(*at, by, pod, matches!(fact, Fact::Deleted { .. }));
            let is_requested = |page: &Page| page.record.as_ref().is_some_and(is_only_requested);
            let pages =
                [self.story.page(&pod.node, sent - KNOWN), self.story.page(&pod.node, sent)];
            if !pages.iter().flatten().any(|page| is_requested(page)) {
                continue;
            }
            looked_at += 1;
            let asks_for = |page: &Page| match &page.record {
                None => !page.requests.is_empty(),
                Some(record) => {
                    !is_only_requested(record)
                        || entries(record).any(|entry| asks(&page.requests, entry))
                }
            };
            let scope = Scope::of_leader(&[SEE_NODES]).about("", &pod.node);
            let was_asked = pages.iter().flatten().any(|page| asks_for(page))
                || self.longest_clear(scope, sent - KNOWN, sent) <= SLACK / 2;
            if !was_asked {
                let what = "and nobody asks for its drain any more";
                self.broken(*at, format!("{} was touched on {}, {what}", pod.name, pod.node));
            }
        }
        looked_at
    }

    /// An annotation of this Node asks for a drain, and is no request that was obeyed at once.
    pub(super) fn may_be_refused(&self, node: &str, at: Moment) -> bool {
        let mut pages = self.story.pages_between(node, at - LATELY, at + KNOWN);
        pages.any(|(page, _)| is_refused(page, at))
    }

    /// A record of this Node held a request that it did not ask for any more.
    pub(super) fn was_withdrawn(&self, node: &str, at: Moment) -> bool {
        let mut pages = self.story.pages_between(node, self.evidence.begun, at);
        pages.any(|(page, _)| {
            let held = page.record.as_ref();
            held.is_some_and(|record| {
                let mut all = entries(record);
                all.any(|entry| entry["kind"] == NAME && !asks(&page.requests, entry))
            })
        })
    }
}
