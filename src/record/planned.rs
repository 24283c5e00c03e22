//! The annotation `sundown.dev/planned`: the scheduled changes that AWS Health has announced for the
//! instance of a Node, so that their messages can be deleted weeks before a drain begins.
//!
//! ```json
//! {"version":1,"instance":"i-1234567890abcdef0","changes":[
//!   {"arn":"arn:aws:health:…","code":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED","event":"7fb6…",
//!    "communication":"1234…-1","time":"2026-12-01T00:00:00Z","updated":"2026-12-01T00:00:00Z",
//!    "starts":"2026-12-15T09:00:00Z","begun":true,"replaced":["5a1c…"]}]}
//! ```
//!
//! All times are by AWS's clock. A change stays in the annotation after it was canceled
//! (`"closed":true`): messages come in any order, so an older announcement may follow.
//!
//! A change that EC2 shows, too, has `"ec2":{"id":"instance-event-…","starts":"…"}`.
//!
//! Unknown fields survive a rewrite, and so do changes of an unknown shape. An annotation of a newer
//! version that this one cannot read stays as it is.

mod noting;
mod withdrawn;

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use noting::{Plan, PlanChange, holds_change, plan};
pub use withdrawn::{Withdrawal, WithdrawnChanges, withdrawn_changes};

use crate::domain::{
    ChangeAction, ChangeFamily, ChangeSchedule, ChangeStatus, HealthNotice, InstanceId,
    Interruption, Moment, Node, PLANNED, is_ec2_event_id, seconds,
};

const VERSION: u64 = 1;
/// The most changes in the annotation. The oldest canceled one makes room for a new one.
pub const MAX_CHANGES: usize = 8;
/// The greatest length of the annotation: all annotations of an object share 256 KiB.
pub const MAX_PLANNED_BYTES: usize = 16 * 1024;
/// The most earlier announcements of a change, and the most earlier starts, that are remembered.
const MAX_REPLACED: usize = 8;
/// Longer texts are cut. An ARN is cut at its beginning: what identifies it is at its end.
const MAX_TEXT: usize = 256;
/// EC2 may lag behind a closure by AWS Health, or behind the end of a change, for this long. An event
/// that it shows for longer is open.
const EC2_LAGS: Duration = seconds(600);
/// Longer event IDs are cut, as in a record (EventBridge's have 36 characters).
const MAX_EVENT_ID: usize = 128;

/// The scheduled changes of the instance of a Node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    version: u64,
    instance: String,
    changes: Vec<Entry>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// One scheduled change in the annotation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    /// It has the shape that this version writes.
    Known(Box<PlannedChange>),
    /// Only a newer version knows its shape. It stays as it is.
    Unknown(Value),
}

impl Entry {
    fn known(&self) -> Option<&PlannedChange> {
        if let Self::Known(change) = self { Some(change) } else { None }
    }

    fn known_mut(&mut self) -> Option<&mut PlannedChange> {
        if let Self::Known(change) = self { Some(change) } else { None }
    }
}

/// Why an annotation cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    /// A newer version wrote it.
    Newer,
    /// No version wrote it.
    Damaged,
}

/// One scheduled change, as the newest message about it has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// `eventArn`, or the end of it. Of a change that only EC2 has shown: `instance-event-…`.
    pub(super) arn: String,
    /// `eventTypeCode`.
    pub code: String,
    /// The ID of the event that announced the change, moved it to its present start, or canceled
    /// it. If the node is drained for the change, its record has this event ID.
    pub event: String,
    /// `communicationId` of the newest message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    communication: Option<String>,
    /// The time of that event.
    time: Moment,
    /// When AWS last updated it: an older message changes nothing.
    updated: Moment,
    /// When it begins; `None`: AWS has given no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Moment>,
    /// It is canceled or over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    closed: bool,
    /// It is closed only because its newest message asks for nothing (`INFORMATIONAL`). EC2 may
    /// still show it as open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    informational: bool,
    /// An interruption for it was accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begun: bool,
    /// What EC2 shows of it (DescribeInstanceStatus). `None`: EC2 has not shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ec2: Option<ShownInEc2>,
    /// The boot ID of the Node when the interruption for this change was accepted. `None`: it was
    /// not accepted, or the boot ID was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    /// The IDs of events that no longer hold: the change was moved or canceled since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A scheduled event, as EC2 last showed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ShownInEc2 {
    /// `instance-event-…`.
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    starts: Option<Moment>,
    /// It is completed or canceled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    closed: bool,
    /// Earlier starts: a message of AWS Health with one of them is out of date.
    #[serde(default, rename = "left", skip_serializing_if = "Vec::is_empty")]
    earlier_starts: Vec<Moment>,
}

impl Planned {
    /// The scheduled changes in the annotation of this Node. `None` without any, if the annotation
    /// cannot be read, or if it belongs to another instance.
    #[must_use]
    pub fn of(node: &Node, instance: &InstanceId) -> Option<Self> {
        Self::read(node, instance).ok().flatten()
    }

    /// `Ok(None)`: the Node has no annotation, or one of another instance.
    fn read(node: &Node, instance: &InstanceId) -> Result<Option<Self>, Unreadable> {
        let Some(text) = node.annotations.get(PLANNED) else { return Ok(None) };
        let read: Option<Self> = serde_json::from_str(text).ok();
        let Some(planned) = read.filter(|_| text.len() <= MAX_PLANNED_BYTES) else {
            let value: Value = serde_json::from_str(text).unwrap_or_default();
            let is_newer = value
                .get("version")
                .and_then(Value::as_u64)
                .is_some_and(|version| version > VERSION);
            return Err(if is_newer { Unreadable::Newer } else { Unreadable::Damaged });
        };
        Ok(Some(planned).filter(|planned| planned.instance == instance.as_str()))
    }

    fn new(instance: &InstanceId) -> Self {
        let instance = instance.as_str().to_owned();
        Self { version: VERSION, instance, changes: Vec::new(), rest: Map::new() }
    }

    /// The annotation's text.
    #[must_use]
    pub fn write(&self) -> String {
        // This cannot fail: the maps have string keys, and the text is written to memory.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn known(&self) -> impl Iterator<Item = &PlannedChange> {
        self.changes.iter().filter_map(Entry::known)
    }

    /// The changes that are neither canceled nor reported as over.
    pub(super) fn open(&self) -> impl Iterator<Item = &PlannedChange> {
        self.known().filter(|change| !change.closed)
    }

    fn known_mut(&mut self) -> impl Iterator<Item = &mut PlannedChange> {
        self.changes.iter_mut().filter_map(Entry::known_mut)
    }

    /// The changes whose drain has not begun or must begin again, in the order in which they are
    /// due. Leaves out a change that needs a drain before its start, if the start has passed
    /// ([`Self::overdue_at`] is the exception). `boot`: the boot ID of the Node.
    #[must_use]
    pub fn waiting(&self, at: PlanTime, boot: Option<&str>) -> Vec<&PlannedChange> {
        let waits = |change: &&PlannedChange| change.waits(boot) && !change.is_past(at.now);
        let mut waiting: Vec<_> = self.known().filter(waits).collect();
        waiting.sort_by_key(|change| change.due_at(at));
        waiting
    }

    /// AWS has canceled what this event announced, or it is over.
    pub(super) fn is_canceled(&self, event: &str) -> bool {
        let mut canceled = self.known().filter(|change| change.closed);
        canceled.any(|change| change.replaced.iter().any(|id| id == event))
    }

    /// When the next change becomes overdue. A change is overdue if EC2 still shows it as open
    /// 10 minutes after its start: then [`Self::waiting`] lists it again. `None`: no change can
    /// become overdue.
    #[must_use]
    pub fn overdue_at(&self, now: Moment) -> Option<Moment> {
        let past = self.open().filter(|change| change.is_past(now));
        past.filter_map(PlannedChange::overdue_at).min()
    }

    /// The change that begins next, or has begun and is not over.
    #[must_use]
    pub fn next(&self) -> Option<&PlannedChange> {
        self.open().min_by_key(|change| change.starts.unwrap_or(Moment::UNIX_EPOCH))
    }

    /// The annotation after an interruption with this event ID was accepted on a Node with this boot
    /// ID. `None`: no change waits for it.
    pub(super) fn begun(mut self, event: &str, boot: Option<&str>) -> Option<Self> {
        let mut changes = self.known_mut();
        let change = changes.find(|change| change.waits(boot) && change.event == event)?;
        (change.begun, change.boot) = (true, boot.map(str::to_owned));
        drop(changes);
        Some(self)
    }

    /// The annotation after EC2 has started the instance at `launched`: degraded hardware that was
    /// announced before is no longer that of the instance. `None`: nothing changes.
    pub(super) fn close_degraded_before(mut self, launched: Moment) -> Option<Self> {
        let is_left = |change: &PlannedChange| {
            let is_degraded = ChangeAction::of_code(&change.code).is_of_hardware();
            is_degraded && !change.closed && change.updated.max(change.time) < launched
        };
        let mut changes = false;
        for change in self.known_mut().filter(|change| is_left(change)) {
            (change.closed, changes) = (true, true);
        }
        changes.then_some(self)
    }

    fn make_room(&mut self) -> bool {
        while self.changes.len() > MAX_CHANGES || self.write().len() > MAX_PLANNED_BYTES {
            // The last one is new.
            let others = self.changes.len().saturating_sub(1);
            let others = self.changes.iter().take(others).enumerate();
            let closed = others.filter_map(|(at, entry)| {
                let change = entry.known().filter(|change| change.closed)?;
                Some((at, change.updated))
            });
            let Some((oldest, _)) = closed.min_by_key(|(_, updated)| *updated) else {
                return false;
            };
            self.changes.remove(oldest);
        }
        true
    }
}

impl PlannedChange {
    fn new(notice: &HealthNotice, interruption: &Interruption, now: Moment) -> Self {
        let time = interruption.time.unwrap_or(now);
        let (arn, closed, starts) = (key(notice), notice.closes_change(), notice.starts.map(whole));
        let is_of_ec2 = is_ec2_event_id(&arn);
        // EC2 gives no time of the last update. The earliest time makes every later message of AWS
        // Health newer.
        let sent = if is_of_ec2 { Moment::UNIX_EPOCH } else { time };
        Self {
            ec2: is_of_ec2.then(|| ShownInEc2 {
                id: arn.clone(),
                starts,
                closed,
                earlier_starts: Vec::new(),
            }),
            arn,
            code: end_of(&notice.code),
            event: interruption.event_id.chars().take(MAX_EVENT_ID).collect(),
            communication: notice.communication_id.as_deref().map(end_of),
            time: whole(time),
            updated: whole(notice.updated.unwrap_or(sent)),
            starts,
            closed,
            informational: notice.is_informational && notice.status != ChangeStatus::Closed,
            begun: false,
            boot: None,
            replaced: Vec::new(),
            rest: Map::new(),
        }
    }

    /// Whether the drain for this change has not begun, or must begin again. `boot`: the boot ID of
    /// the Node. After a new boot Sundown restores the Node. If the change is a reboot, it is then
    /// done. For any other change, Sundown drains the Node again.
    fn waits(&self, boot: Option<&str>) -> bool {
        let has_booted = self.boot.as_deref().zip(boot).is_some_and(|(then, now)| then != now);
        let is_reboot = ChangeFamily::of_code(&self.code) == Some(ChangeFamily::Reboot);
        !self.closed && (!self.begun || (has_booted && !is_reboot))
    }

    /// Whether it is too late to drain the node for this change: its start has passed, and the
    /// drain was due before the start. `false` from [`Self::overdue_at`] on: EC2 then still shows
    /// the change as open, so it has not happened yet, and can happen at any moment.
    fn is_past(&self, now: Moment) -> bool {
        let is_due_before = ChangeAction::of_code(&self.code) == ChangeAction::BeforeStart;
        let starts = self.starts.filter(|starts| is_due_before && *starts <= now);
        starts.is_some() && self.overdue_at().is_none_or(|overdue| overdue > now)
    }

    /// From when on the change is overdue: [`EC2_LAGS`] after its start. `None` if EC2 does not
    /// show it as open, if its drain has begun, or if it has no start.
    fn overdue_at(&self) -> Option<Moment> {
        let is_open = self.ec2.as_ref().is_some_and(|shown| !shown.closed);
        self.starts.filter(|_| is_open && !self.begun).map(|starts| starts.plus(EC2_LAGS))
    }

    /// When its drain begins, on AWS's clock: before its start, by the schedule, or as soon as
    /// possible.
    #[must_use]
    pub fn due_at(&self, at: PlanTime) -> Moment {
        match (ChangeAction::of_code(&self.code), self.starts) {
            (ChangeAction::BeforeStart, Some(starts)) => at.schedule.begins_at(starts, at.now),
            _ => Moment::UNIX_EPOCH,
        }
    }

    /// Whether the drain for the present start is due by now. Unlike [`Self::due_at`], this counts
    /// a window that is already over: so a node that was drained for an earlier start is not
    /// restored and then drained again.
    fn would_have_begun(&self, at: PlanTime) -> bool {
        match (ChangeAction::of_code(&self.code), self.starts) {
            (ChangeAction::BeforeStart, Some(starts)) => {
                at.schedule.would_begin_at(starts) <= at.now
            }
            _ => true,
        }
    }

    /// The interruption that begins its drain. Its deadline is the start, also where degraded
    /// hardware is drained long before.
    #[must_use]
    pub fn interruption(&self, instance: &InstanceId) -> Interruption {
        let notice = Arc::new(HealthNotice {
            event_arn: self.arn.clone(),
            communication_id: self.communication.clone(),
            code: self.code.clone(),
            starts: self.starts,
            ..HealthNotice::default()
        });
        notice.of(instance.clone(), &self.event, Some(self.time))
    }
}

/// What the time of a drain for a scheduled change depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanTime {
    /// The present, on AWS's clock.
    pub now: Moment,
    /// When a drain begins before its start.
    pub schedule: ChangeSchedule,
}

fn key(notice: &HealthNotice) -> String {
    end_of(if notice.event_arn.is_empty() { &notice.code } else { &notice.event_arn })
}

fn end_of(text: &str) -> String {
    let excess = text.chars().count().saturating_sub(MAX_TEXT);
    text.chars().skip(excess).collect()
}

fn whole(at: Moment) -> Moment {
    super::schema::whole_millis(at)
}
