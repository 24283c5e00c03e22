//! The annotation `sundown.dev/impaired`: when Sundown last accepted the Node's instance as sick.
//! The record does not keep that, because the terminate hook of the sick instance replaces it. A
//! later leader reads here how many drains of sick instances have begun within an hour, and in
//! which groups.
//!
//! ```json
//! {"version":1,"instance":"i-1234567890abcdef0","group":"asg","symptom":"status-check",
//!  "since":"2026-01-01T00:00:00Z","at":"2026-01-01T00:10:00Z"}
//! ```
//!
//! All times are by AWS's clock.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Planned, Record, RecordStatus, requests::is_only_requested, schema::KnownEntry, status,
};
use crate::domain::{
    Cause, GroupName, IMPAIRED, ImpairedStatus, Interruption, Kind, LastSickness, Moment, Node,
};

const VERSION: u64 = 1;
/// A longer text is not ours.
const MAX_BYTES: usize = 2 * 1024;

#[derive(Serialize, Deserialize)]
struct Annotation {
    version: u64,
    instance: String,
    group: GroupName,
    symptom: String,
    since: Moment,
    at: Moment,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The text of the annotation that the accept of this interruption writes at `now`, on AWS's clock.
/// `None` if its instance is not sick.
pub(super) fn annotation_of(interruption: &Interruption, now: Moment) -> Option<String> {
    let Cause::Impaired(sick) = &interruption.cause else { return None };
    let annotation = Annotation {
        version: VERSION,
        instance: interruption.instance.as_str().to_owned(),
        group: sick.group.clone(),
        symptom: sick.symptom.as_str().to_owned(),
        since: super::schema::whole_millis(sick.since),
        at: super::schema::whole_millis(now),
        rest: Map::new(),
    };
    serde_json::to_string(&annotation).ok()
}

/// The annotation of this Node. `None` without one, if it cannot be read, or if it belongs to
/// another instance.
#[must_use]
pub fn last_sickness(node: &Node) -> Option<LastSickness> {
    let text = node.annotations.get(IMPAIRED).filter(|text| text.len() <= MAX_BYTES)?;
    let read: Annotation = serde_json::from_str(text).ok()?;
    let instance = node.instance.clone().filter(|own| own.as_str() == read.instance)?;
    Some(LastSickness { instance, group: read.group, at: read.at })
}

/// The record was written because the instance is sick, and holds nothing else but recommendations,
/// requests, and scheduled changes that AWS has canceled since, by the annotation of the Node.
pub(super) fn is_for_sickness(record: &Record, node: &Node) -> bool {
    let kind = |entry: &KnownEntry| Kind::from_word(&entry.kind);
    let is_canceled = |entry: &KnownEntry| {
        Planned::of(node, &record.instance).is_some_and(|all| all.is_canceled(&entry.event))
    };
    let is_weaker = |entry: &KnownEntry| match kind(entry) {
        // A request is accepted again once the Node is restored.
        Some(Kind::Impaired | Kind::Request) => true,
        Some(Kind::ScheduledChange) => is_canceled(entry),
        Some(kind) => kind.is_recommendation(),
        None => false,
    };
    !record.has_unknown()
        && record.known().any(|entry| kind(entry) == Some(Kind::Impaired))
        && record.known().all(is_weaker)
}

/// The outcomes of a drain after which no pod runs on the node any longer, as far as anybody can
/// know.
const NOTHING_RUNS: [&str; 3] = ["empty", "instance_over", "unreachable"];

/// How the drain of a sick instance has ended.
fn drained(record: &Record) -> ImpairedStatus {
    let outcome = record.released().map(|released| released.outcome.as_str());
    if record.is_held() {
        ImpairedStatus::KeptCordoned
    } else if outcome.is_some_and(|outcome| NOTHING_RUNS.contains(&outcome)) {
        ImpairedStatus::Drained
    } else {
        ImpairedStatus::PodsLeft
    }
}

/// What the record of this Node means for a sick instance.
#[must_use]
pub fn impaired_status(node: &Node) -> ImpairedStatus {
    match status(node, None) {
        RecordStatus::None
        | RecordStatus::Damaged(_)
        | RecordStatus::Void { .. }
        | RecordStatus::Released { has_our_changes: false, .. } => ImpairedStatus::Free,
        RecordStatus::Open(record) if is_for_sickness(&record, node) => ImpairedStatus::Draining,
        RecordStatus::Open(record) if !record.response().cordons() => ImpairedStatus::OnlyTainted,
        RecordStatus::Open(record) | RecordStatus::Released { record, .. }
            if is_only_requested(&record) =>
        {
            ImpairedStatus::Free
        }
        RecordStatus::Released { record, has_our_changes: true }
            if is_for_sickness(&record, node) =>
        {
            drained(&record)
        }
        RecordStatus::Open(_) | RecordStatus::Released { .. } | RecordStatus::Doubtful { .. } => {
            ImpairedStatus::OtherInterruption
        }
    }
}
