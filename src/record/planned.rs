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

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{RecordStatus, patch::NodePatch, status};
use crate::domain::{
    Cause, ChangeAction, ChangeStatus, HealthNotice, InstanceId, Interruption, Kind, Moment, Node,
    PLANNED,
};

const VERSION: u64 = 1;
/// The most changes in the annotation. The oldest canceled one makes room for a new one.
pub const MAX_CHANGES: usize = 8;
/// The greatest length of the annotation: all annotations of an object share 256 KiB.
pub const MAX_PLANNED_BYTES: usize = 16 * 1024;
/// The most earlier announcements of a change that are remembered.
const MAX_REPLACED: usize = 8;
/// Longer texts are cut. An ARN is cut at its beginning: what identifies it is at its end.
const MAX_TEXT: usize = 256;
/// Longer event IDs are cut, as in a record (EventBridge's have 36 characters).
const MAX_EVENT_ID: usize = 128;

/// The scheduled changes of the instance of a Node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    version: u64,
    instance: String,
    changes: Vec<PlannedChange>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// One scheduled change, as the newest message about it has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// `eventArn`, or the end of it.
    arn: String,
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
    /// An interruption for it was accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begun: bool,
    /// The boot ID of the Node when that was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    /// The IDs of events that no longer hold: the change was moved or canceled since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What a message about a scheduled change changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanChange {
    /// AWS announces a change that the annotation does not have, or has as canceled.
    Announced,
    /// The start or the code of the change is another one.
    Moved,
    /// The change is canceled, or has ended.
    Canceled,
    /// No drain depends on what is new. Sundown writes only the time of the last update.
    Updated,
}

/// How a message about a scheduled change is noted on the Node.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Send this patch. Once the API server has accepted it, the message can be deleted.
    Patch {
        /// The JSON merge patch of the Node.
        body: Value,
        /// What the message changes in the annotation.
        change: PlanChange,
    },
    /// The annotation holds the message, a copy of it, or a newer one.
    Repeat,
    /// The Node belongs to another instance.
    OtherInstance,
    /// The annotation has no room: as many other changes are announced as it can hold.
    Full,
}

impl Planned {
    /// The scheduled changes in the annotation of this Node. `None` without any, if the annotation
    /// cannot be read, or if it belongs to another instance.
    #[must_use]
    pub fn of(node: &Node, instance: &InstanceId) -> Option<Self> {
        let text = node.annotations.get(PLANNED).filter(|text| text.len() <= MAX_PLANNED_BYTES)?;
        let planned: Self = serde_json::from_str(text).ok()?;
        (planned.instance == instance.as_str()).then_some(planned)
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

    /// The event with this ID announced a change that was moved or canceled since.
    #[must_use]
    pub fn is_superseded(&self, event: &str) -> bool {
        self.changes.iter().any(|change| change.replaced.iter().any(|replaced| replaced == event))
    }

    /// The changes whose drain has not begun or must begin again, in the order in which they are
    /// due. Leaves out a change that needs a drain before its start, if the start has passed at
    /// `now` (AWS's clock). `boot`: the boot ID of the Node.
    #[must_use]
    pub fn waiting(&self, lead: Duration, now: Moment, boot: Option<&str>) -> Vec<&PlannedChange> {
        let waits = |change: &&PlannedChange| change.waits(boot) && !change.is_past(now);
        let mut waiting: Vec<_> = self.changes.iter().filter(waits).collect();
        waiting.sort_by_key(|change| change.due_at(lead));
        waiting
    }

    /// The change that begins next, or has begun and is not over.
    #[must_use]
    pub fn next(&self) -> Option<&PlannedChange> {
        let open = self.changes.iter().filter(|change| !change.closed);
        open.min_by_key(|change| change.starts.unwrap_or(Moment::UNIX_EPOCH))
    }

    /// The annotation after an interruption with this event ID was accepted on a Node with this boot
    /// ID. `None`: no change waits for it.
    pub(super) fn begun(mut self, event: &str, boot: Option<&str>) -> Option<Self> {
        let mut changes = self.changes.iter_mut();
        let change = changes.find(|change| change.waits(boot) && change.event == event)?;
        (change.begun, change.boot) = (true, boot.map(str::to_owned));
        Some(self)
    }

    fn make_room(&mut self) -> bool {
        while self.changes.len() > MAX_CHANGES || self.write().len() > MAX_PLANNED_BYTES {
            // The last one is new.
            let others = self.changes.len().saturating_sub(1);
            let closed = self.changes.iter().take(others).enumerate().filter(|(_, c)| c.closed);
            let Some((oldest, _)) = closed.min_by_key(|(_, change)| change.updated) else {
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
        Self {
            arn: key(notice),
            code: end_of(&notice.code),
            event: interruption.event_id.chars().take(MAX_EVENT_ID).collect(),
            communication: notice.communication_id.as_deref().map(end_of),
            time: whole(time),
            updated: whole(notice.updated.unwrap_or(time)),
            starts: notice.starts.map(whole),
            closed: notice.status == ChangeStatus::Closed,
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
        !self.closed && (!self.begun || (has_booted && !self.code.contains("_REBOOT")))
    }

    /// Its start is past, and its node was to be drained before that.
    fn is_past(&self, now: Moment) -> bool {
        ChangeAction::of_code(&self.code) == ChangeAction::BeforeStart
            && self.starts.is_some_and(|starts| starts <= now)
    }

    /// When its drain begins, on AWS's clock: `lead` before its start, or as soon as possible.
    #[must_use]
    pub fn due_at(&self, lead: Duration) -> Moment {
        match (ChangeAction::of_code(&self.code), self.starts) {
            (ChangeAction::BeforeStart, Some(starts)) => starts.minus(lead),
            _ => Moment::UNIX_EPOCH,
        }
    }

    /// The interruption that begins its drain at `now`, on AWS's clock. A start that lies further
    /// ahead than `lead` sets no deadline: the hardware is degraded, so the drain ends after
    /// `--drain-timeout`.
    #[must_use]
    pub fn interruption(&self, instance: &InstanceId, now: Moment, lead: Duration) -> Interruption {
        let notice = Arc::new(HealthNotice {
            event_arn: self.arn.clone(),
            communication_id: self.communication.clone(),
            code: self.code.clone(),
            starts: self.starts.filter(|starts| *starts <= now.plus(lead)),
            ..HealthNotice::default()
        });
        notice.of(instance.clone(), &self.event, Some(self.time))
    }

    /// Takes in a message about the same change. `None`: the message is a copy, or older.
    fn update(&mut self, new: Self) -> Option<PlanChange> {
        let is_copy = new.communication.is_some() && new.communication == self.communication;
        // Of two messages with the same time, the one that closes the change counts.
        if is_copy || (new.updated, new.closed) <= (self.updated, self.closed) {
            return None;
        }
        let starts = new.starts.or(self.starts);
        let is_same_plan = starts == self.starts && new.code == self.code;
        let change = match (self.closed, new.closed) {
            (true, true) => PlanChange::Updated,
            (false, false) if is_same_plan => PlanChange::Updated,
            (false, false) => PlanChange::Moved,
            (false, true) => PlanChange::Canceled,
            (true, false) => PlanChange::Announced,
        };
        if change == PlanChange::Updated {
            (self.updated, self.communication) = (new.updated, new.communication);
            return Some(change);
        }
        let mut replaced = std::mem::take(&mut self.replaced);
        replaced.push(std::mem::take(&mut self.event));
        let excess = replaced.len().saturating_sub(MAX_REPLACED);
        replaced.drain(..excess);
        let rest = std::mem::take(&mut self.rest);
        *self = Self { starts, replaced, rest, ..new };
        Some(change)
    }
}

/// Notes a message about a scheduled change on the Node of its instance. `now`, on AWS's clock: the
/// time of a message without a time.
#[must_use]
pub fn plan(node: &Node, interruption: &Interruption, now: Moment) -> Plan {
    let Cause::ScheduledChange(notice) = &interruption.cause else { return Plan::Repeat };
    let instance = &interruption.instance;
    if node.is_elsewhere || node.instance.as_ref().is_some_and(|i| i != instance) {
        return Plan::OtherInstance;
    }
    let mut planned = Planned::of(node, instance).unwrap_or_else(|| Planned::new(instance));
    let new = PlannedChange::new(notice, interruption, now);
    let known = planned.changes.iter_mut().find(|change| change.arn == new.arn);
    let change = if let Some(known) = known {
        let Some(change) = known.update(new) else { return Plan::Repeat };
        change
    } else {
        let change = if new.closed { PlanChange::Canceled } else { PlanChange::Announced };
        planned.changes.push(new);
        change
    };
    if !planned.make_room() {
        return Plan::Full;
    }
    let mut patch = NodePatch::new(node);
    patch.annotate(PLANNED, Some(planned.write()));
    Plan::Patch { body: patch.body(), change }
}

/// What canceled and moved changes mean for the record of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CanceledChanges {
    /// Nothing.
    None,
    /// The record is open, and its interruptions with these event IDs no longer hold.
    Open(Vec<String>),
    /// The drain has ended, and none of its interruptions holds any longer: the Node is put back.
    Ended,
}

/// Decides what the scheduled changes in `planned` that no longer hold mean for the record of this
/// Node. A record that holds other interruptions keeps them.
#[must_use]
pub fn canceled_changes(node: &Node, instance: &InstanceId, planned: &Planned) -> CanceledChanges {
    let over = |record: &super::Record| {
        let facts = record.interruptions(instance);
        let is_superseded = |facts: &crate::domain::InterruptionFacts| {
            facts.kind == Some(Kind::ScheduledChange) && planned.is_superseded(&facts.event_id)
        };
        let all = !record.has_unknown() && facts.iter().all(is_superseded);
        (
            facts.into_iter().filter(is_superseded).map(|facts| facts.event_id).collect::<Vec<_>>(),
            all,
        )
    };
    match status(node, Some(instance)) {
        RecordStatus::Open(record) | RecordStatus::Doubtful { record, .. } => match over(&record).0
        {
            events if events.is_empty() => CanceledChanges::None,
            events => CanceledChanges::Open(events),
        },
        RecordStatus::Released { record, has_our_marks: true } if over(&record).1 => {
            CanceledChanges::Ended
        }
        _ => CanceledChanges::None,
    }
}

/// A scheduled change can begin to drain this Node now: it has no record that must be settled or
/// whose instance is about to end.
#[must_use]
pub fn may_begin_change(node: &Node, instance: &InstanceId) -> bool {
    match status(node, Some(instance)) {
        RecordStatus::Released { record, has_our_marks: true } => record.is_held(),
        RecordStatus::Doubtful { .. } => false,
        _ => true,
    }
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
