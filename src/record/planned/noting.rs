//! Notes a message about a scheduled change, or an event that EC2 shows, on the Node.

use std::time::Duration;

use serde_json::Value;

use super::{
    EC2_LAGS, Entry, MAX_REPLACED, PlanTime, Planned, PlannedChange, ShownInEc2, Unreadable,
};
use crate::{
    domain::{
        Cause, ChangeFamily, InstanceId, Interruption, InterruptionFacts, Kind, Moment, Node,
        PLANNED, is_ec2_event_id, seconds,
    },
    record::{RecordStatus, patch::NodePatch, status},
};

/// AWS Health and EC2 show one change under two IDs. Their starts differ by less than this.
const SAME_START: Duration = seconds(60);

/// What a message about a scheduled change changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanChange {
    /// AWS announces a change that the annotation does not have, or has as canceled.
    Announced,
    /// The start or the code of the change is another one.
    Moved,
    /// AWS announces a change, or moves one, whose start has passed: nothing is left to drain for.
    Past,
    /// The change is canceled, has ended, or asks for nothing any longer.
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
        /// The patch replaces an annotation that no version can have written.
        replaces_damaged: bool,
    },
    /// The annotation holds the message, a copy of it, or a newer one.
    Repeat,
    /// The Node belongs to another instance.
    OtherInstance,
    /// The annotation has no room: as many other changes are announced as it can hold.
    Full,
    /// A newer version of Sundown wrote the annotation, and this one cannot read it. It stays as it
    /// is.
    Unreadable,
}

/// Notes a message about a scheduled change on the Node of its instance. The present is also the
/// time of a message without one.
#[must_use]
pub fn plan(node: &Node, interruption: &Interruption, at: PlanTime) -> Plan {
    let Cause::ScheduledChange(notice) = &interruption.cause else { return Plan::Repeat };
    let instance = &interruption.instance;
    if node.is_elsewhere || node.instance.as_ref().is_some_and(|i| i != instance) {
        return Plan::OtherInstance;
    }
    let (mut planned, replaces_damaged) = match Planned::read(node, instance) {
        Ok(planned) => (planned.unwrap_or_else(|| Planned::new(instance)), false),
        Err(Unreadable::Damaged) => (Planned::new(instance), true),
        Err(Unreadable::Newer) => return Plan::Unreadable,
    };
    let mut new = PlannedChange::new(notice, interruption, at.now);
    let is_past = !new.closed && new.is_past(at.now);
    let change = if let Some(known) = planned.about(&new) {
        let Some(change) = known.merge(new, is_drained(node, instance), at) else {
            return Plan::Repeat;
        };
        change
    } else if new.is_of_ec2() && (new.closed || is_past) {
        // EC2 lists an event for days after its end.
        return Plan::Repeat;
    } else {
        let change = if new.closed { PlanChange::Canceled } else { PlanChange::Announced };
        if let Some(event) = accepted_event(node, instance, &planned, &new) {
            // The annotation was lost during the drain.
            (new.begun, new.boot, new.event) = (true, node.boot_id.clone(), event);
        }
        planned.changes.push(Entry::Known(Box::new(new)));
        change
    };
    if !planned.make_room() {
        return Plan::Full;
    }
    let mut patch = NodePatch::new(node);
    patch.annotate(PLANNED, Some(planned.write()));
    let is_news = matches!(change, PlanChange::Announced | PlanChange::Moved);
    let change = if is_news && is_past { PlanChange::Past } else { change };
    Plan::Patch { body: patch.body(), change, replaces_damaged }
}

/// Whether the annotation of the Node holds the change that this message is about.
#[must_use]
pub fn holds_change(node: &Node, interruption: &Interruption, at: PlanTime) -> bool {
    let Cause::ScheduledChange(notice) = &interruption.cause else { return false };
    let Ok(Some(mut planned)) = Planned::read(node, &interruption.instance) else { return false };
    planned.about(&PlannedChange::new(notice, interruption, at.now)).is_some()
}

/// The event ID of this change in the record of the Node, if `planned` has lost the change. It may
/// differ from that of `new`, because AWS Health and EC2 show one change under two IDs: then the
/// same start identifies the change. `None`: the record does not hold the change.
fn accepted_event(
    node: &Node,
    instance: &InstanceId,
    planned: &Planned,
    new: &PlannedChange,
) -> Option<String> {
    let (RecordStatus::Open(record) | RecordStatus::Released { record, has_our_changes: true }) =
        status(node, Some(instance))
    else {
        return None;
    };
    let is_of_another = |event: &str| {
        planned
            .known()
            .any(|known| known.event == event || known.replaced.iter().any(|id| id == event))
    };
    let is_it = |facts: &InterruptionFacts| {
        facts.kind == Some(Kind::ScheduledChange)
            && !is_of_another(&facts.event_id)
            && (facts.event_id == new.event || is_same_start(facts.ends, new.starts))
    };
    record.interruptions(instance).into_iter().find(is_it).map(|facts| facts.event_id)
}

/// The drain of the Node has ended, and the Node is as the drain left it.
fn is_drained(node: &Node, instance: &InstanceId) -> bool {
    matches!(
        status(node, Some(instance)),
        RecordStatus::Released { record, has_our_changes: true } if !record.is_held()
    )
}

impl Planned {
    /// Finds the known change that `new` is about: by its ID or, if that is not known, by family
    /// and start (AWS Health and EC2 show one change under two IDs). A message of AWS Health that
    /// closes an event with an unknown ID never matches a change that only EC2 has shown.
    fn about(&mut self, new: &PlannedChange) -> Option<&mut PlannedChange> {
        let is_it = |change: &PlannedChange| match &change.ec2 {
            Some(shown) if new.is_of_ec2() => shown.id == new.arn,
            _ => change.arn == new.arn,
        };
        let is_twin = |change: &PlannedChange| {
            let is_free = if new.is_of_ec2() {
                !change.informational && change.is_free_for(new)
            } else {
                !new.closed && change.is_of_ec2()
            };
            is_free && change.is_same_change(new)
        };
        let at = self.known().position(is_it).or_else(|| self.known().position(is_twin))?;
        self.known_mut().nth(at)
    }
}

fn is_same_start(one: Option<Moment>, other: Option<Moment>) -> bool {
    let apart = |one: Moment, other: Moment| one.max(other).since_or_zero(one.min(other));
    one.zip(other).is_some_and(|(one, other)| apart(one, other) < SAME_START)
}

impl ShownInEc2 {
    fn shows_the_same(&self, other: &Self) -> bool {
        (&self.id, self.starts, self.closed) == (&other.id, other.starts, other.closed)
    }

    /// This, with the starts that EC2 has shown before.
    fn after(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        let mut earlier_starts = before.earlier_starts;
        earlier_starts.extend(before.starts);
        earlier_starts.retain(|start| !is_same_start(Some(*start), self.starts));
        earlier_starts.dedup();
        let excess = earlier_starts.len().saturating_sub(MAX_REPLACED);
        earlier_starts.drain(..excess);
        Self { earlier_starts, ..self }
    }
}

impl PlannedChange {
    /// Only EC2 has shown it so far.
    fn is_of_ec2(&self) -> bool {
        is_ec2_event_id(&self.arn)
    }

    /// EC2 shows no event of it, or has closed the one that it showed: `new` may be its event.
    fn is_free_for(&self, new: &Self) -> bool {
        self.ec2.as_ref().is_none_or(|shown| shown.closed && !new.closed && !self.is_of_ec2())
    }

    fn is_same_change(&self, other: &Self) -> bool {
        let family = ChangeFamily::of_code(&self.code);
        let has_moved = !other.is_of_ec2() && self.has_moved_from(other.starts);
        family.is_some()
            && family == ChangeFamily::of_code(&other.code)
            && (has_moved || self.may_start_with(other))
    }

    /// A start that is not known may be any.
    fn may_start_with(&self, other: &Self) -> bool {
        self.starts.is_none() || other.starts.is_none() || is_same_start(self.starts, other.starts)
    }

    /// EC2 has shown this start earlier, and shows another one now.
    fn has_moved_from(&self, starts: Option<Moment>) -> bool {
        let mut earlier = self.ec2.iter().flat_map(|shown| &shown.earlier_starts);
        earlier.any(|start| is_same_start(Some(*start), starts))
    }

    /// Takes in what is new about this change. `None`: nothing is. `is_drained`: the drain of the
    /// node has ended, and the node is as the drain left it.
    fn merge(&mut self, new: Self, is_drained: bool, at: PlanTime) -> Option<PlanChange> {
        match (new.is_of_ec2(), self.is_of_ec2()) {
            (true, _) => self.shown_in_ec2(new, is_drained, at),
            (false, true) => Some(self.announced_too(new)),
            (false, false) => self.update(new, is_drained, at),
        }
    }

    /// Takes in what EC2 shows now. Because EC2 may lag behind AWS Health, this is news only in
    /// these cases:
    ///
    /// - EC2 itself has shown another start or status before.
    /// - EC2 has canceled this start.
    /// - EC2 still shows an event [`EC2_LAGS`] after AWS Health has closed it.
    ///
    /// In all other cases it only updates `ec2` (and a start that was missing).
    fn shown_in_ec2(&mut self, new: Self, is_drained: bool, at: PlanTime) -> Option<PlanChange> {
        let shown = new.ec2.clone()?;
        let before = self.ec2.take();
        let goes_on = self.closed && !shown.closed && at.now >= self.time.plus(EC2_LAGS);
        if !goes_on && before.as_ref().is_some_and(|before| before.shows_the_same(&shown)) {
            self.ec2 = before;
            return None;
        }
        let was_over = before.as_ref().is_some_and(|before| before.closed);
        let is_moved = before.as_ref().is_some_and(|before| before.starts != new.starts)
            && !is_same_start(self.starts, new.starts);
        // An event with the ID that only EC2 has shown is the change itself.
        let is_this_start = self.is_of_ec2() || self.may_start_with(&new);
        self.ec2 = Some(shown.after(before));
        let change = match (self.closed, new.closed) {
            (false, true) if is_this_start => PlanChange::Canceled,
            (false, false) if is_moved => PlanChange::Moved,
            (true, false) if was_over || is_moved || goes_on => PlanChange::Announced,
            _ => PlanChange::Updated,
        };
        if change == PlanChange::Updated {
            self.starts = self.starts.or(new.starts);
        } else {
            let new = Self {
                arn: self.arn.clone(),
                code: self.code.clone(),
                communication: self.communication.clone(),
                updated: self.updated,
                ..new
            };
            self.replace_by(new, change, is_drained, at);
        }
        Some(change)
    }

    /// The first message of AWS Health about a change that EC2 has shown. It closes nothing: see
    /// [`Planned::about`].
    fn announced_too(&mut self, new: Self) -> PlanChange {
        (self.arn, self.code) = (new.arn, new.code);
        (self.updated, self.communication) = (new.updated, new.communication);
        self.starts = self.starts.or(new.starts);
        PlanChange::Updated
    }

    /// Takes in a message of AWS Health about the same event. `None`: the message is a copy, or
    /// older.
    fn update(&mut self, new: Self, is_drained: bool, at: PlanTime) -> Option<PlanChange> {
        let is_copy = new.communication.is_some() && new.communication == self.communication;
        // Of two messages with the same time, the one that closes the change counts.
        if is_copy || (new.updated, new.closed) <= (self.updated, self.closed) {
            return None;
        }
        let is_this_start =
            is_same_start(self.starts, new.starts) || self.has_moved_from(new.starts);
        let is_known = new.starts.is_none() || new.starts == self.starts || is_this_start;
        let starts = if is_known { self.starts } else { new.starts };
        let is_same_plan = starts == self.starts && new.code == self.code;
        let shown = self.ec2.as_ref();
        let is_over_in_ec2 =
            shown.is_some_and(|shown| shown.closed && is_same_start(shown.starts, starts));
        let is_open_in_ec2 = shown.is_some_and(|shown| !shown.closed);
        let change = match (self.closed, new.closed) {
            (true, true) => PlanChange::Updated,
            (true, false) if is_over_in_ec2 => PlanChange::Updated,
            (false, false) if is_same_plan => PlanChange::Updated,
            (false, false) => PlanChange::Moved,
            (false, true) if new.informational && is_open_in_ec2 => PlanChange::Updated,
            (false, true) => PlanChange::Canceled,
            (true, false) => PlanChange::Announced,
        };
        if change == PlanChange::Updated {
            (self.updated, self.communication) = (new.updated, new.communication);
            self.informational &= new.informational;
        } else {
            self.replace_by(Self { starts, ..new }, change, is_drained, at);
        }
        Some(change)
    }

    fn replace_by(&mut self, new: Self, change: PlanChange, is_drained: bool, at: PlanTime) {
        let mut replaced = std::mem::take(&mut self.replaced);
        replaced.push(std::mem::take(&mut self.event));
        replaced.retain(|id| *id != new.event);
        let excess = replaced.len().saturating_sub(MAX_REPLACED);
        replaced.drain(..excess);
        let (rest, ec2) = (std::mem::take(&mut self.rest), self.ec2.take());
        let (begun, boot) = (self.begun, self.boot.take());
        let starts = new.starts.or(self.starts);
        *self = Self { starts, ec2, replaced, rest, ..new };
        // A drained node stays drained if its drain for the new start would have begun by now.
        if change == PlanChange::Moved && begun && is_drained && self.would_have_begun(at) {
            (self.begun, self.boot) = (true, boot);
        }
    }
}
