//! Accepts an interruption: decides whether it gets a new record, joins one, or is a repeat.

use std::time::Duration;

use serde_json::Value;

use super::{
    MAX_BYTES, MAX_HOOKS, MAX_INTERRUPTIONS, Planned, Record, RecordStatus, VoidReason,
    before::{before_damaged, before_of, before_us, record_cordons, seen_before},
    impaired::{annotation_of, is_for_sickness},
    life::remove_orders,
    new_entry::NewEntry,
    patch::NodePatch,
    requests::{asked, is_only_requested, with_requests_of, without_gone_requests},
    schema::Entry,
    status,
};
use crate::domain::{
    Cause, Compat, IMPAIRED, Interruption, InterruptionFacts, Kind, LifecycleAction, Moment, Node,
    PLANNED, Response, is_sweep_event_id,
};

/// What an accept depends on, apart from the Node and the interruption.
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptOptions {
    /// The patch also sets the load balancer label, unless the Node has it.
    pub exclude: bool,
    /// What Sundown does about the interruption (`--on`).
    pub response: Response,
    /// The interruption was read late, and AWS could not be asked whether it still holds.
    pub stale: bool,
    /// When the message was sent. Used if the event has no time.
    pub sent: Option<Moment>,
    /// By when pods must be gone in the drain of the Node's open record, or when this drain ends if
    /// no pod is forced. `None`: not known here, the drain has no deadline, or AWS has not confirmed
    /// the lifecycle actions that set it.
    pub current_limit: Option<Moment>,
    /// `--deadline-margin`: how long before the end of the instance its pods must be gone.
    /// `current_limit` is earlier by this margin.
    pub margin: Duration,
    /// `--spot-deadline-margin`: the same for a spot notice.
    pub spot_margin: Duration,
    /// The tool whose taints and label are written beside Sundown's (`--compat`).
    pub compat: Option<Compat>,
    /// AWS has not shown yet whether Sundown answers the hook ([`Record::is_unconfirmed`]).
    pub unconfirmed: bool,
    /// The sweep found it, and it is another action than those in the record of the Node
    /// ([`is_another_wait`]).
    pub is_another_wait: bool,
}

impl Default for AcceptOptions {
    fn default() -> Self {
        Self {
            exclude: false,
            response: Response::Drain,
            stale: false,
            sent: None,
            current_limit: None,
            margin: Duration::ZERO,
            spot_margin: Duration::ZERO,
            compat: None,
            unconfirmed: false,
            is_another_wait: false,
        }
    }
}

impl AcceptOptions {
    /// By when this interruption needs pods to be gone, if its instance ends at `end`.
    pub(super) fn forces(&self, facts: &InterruptionFacts, end: Moment) -> Moment {
        facts.forces_at(
            end,
            if facts.kind.is_some_and(Kind::is_spot) { self.spot_margin } else { self.margin },
        )
    }
}

/// How an interruption is accepted.
#[derive(Debug, Clone, PartialEq)]
pub enum Accept {
    /// Send this patch. Once the API server has accepted it, the message can be deleted.
    Patch {
        /// The JSON merge patch of the Node.
        body: Value,
        /// The record that the patch writes.
        record: Box<Record>,
        /// The patch sets the load balancer label.
        excludes: bool,
        /// The interruption joins an open record. If `false`, the patch writes a new one.
        joins: bool,
    },
    /// The interruption adds nothing to the record: write nothing, and delete the message.
    Repeat,
    /// The Node belongs to another instance, because it was registered again under the same name.
    /// Look up the Node of the instance again.
    OtherInstance,
    /// The record has no room for the interruption. Leave the message to the dead-letter queue.
    Full,
}

/// Accepts `interruption` for `node`, which the caller found to be the Node of its instance.
///
/// - Without a record, with a damaged or void one, or with a released one whose cordon or taint was
///   removed, the Node gets a new record.
/// - If the record is open, the interruption joins it if it brings a new lifecycle action, an
///   earlier deadline, a stronger response or a later recommendation. Otherwise it is a repeat. If
///   somebody has uncordoned the Node meanwhile, it is not cordoned again, but the taint is
///   written.
/// - If the machine has booted since an open record, and AWS has not shown yet whether a lifecycle
///   action of the record is still open ([`RecordStatus::Doubtful`]), the interruption joins if it
///   adds one of these things to the record's lifecycle actions alone, and the record keeps only
///   those. Otherwise it is a repeat.
/// - If the record is released and cordon and taint are still on the Node, only an interruption
///   with a stronger response or with a new lifecycle action replaces it: one of a hook that the
///   record does not name, or another one of a hook that it names. The new record keeps the state
///   before Sundown.
/// - If the record is released and only shows that the instance went into a warm pool, every
///   interruption that cordons the Node replaces it. Exceptions: a rebalance recommendation, whose
///   end would uncordon the Node while the instance is still in the pool, and the state changes
///   `stopping` and `stopped`, because an instance stops in its pool. The new record keeps the
///   state before Sundown and the pool.
/// - If the record is released and was written only because the instance is sick, an interruption
///   replaces it, too, if it cordons the Node and ends the machine within an hour: pods may be
///   left, and now they have a deadline. Without such an interruption, the Node waits until its
///   instance is replaced or is healthy again.
/// - If the record is released, and `sundown.dev/keep-cordoned` alone holds the restore, every
///   interruption that it does not name replaces it.
/// - A scheduled change is accepted only while the annotation `sundown.dev/planned` waits for it.
///   The same patch notes there that it has begun.
/// - If the record is released and holds only requests, another request replaces it, and so does
///   every interruption that cordons the Node, except a recommendation. The new record keeps the
///   requests that still ask.
/// - A request is accepted only while the Node has its annotation and its deadline is ahead. It
///   replaces one of the same name. While a record is doubtful, it waits, and so it does while a
///   released record has more than requests. If its deadline has passed and the machine has booted
///   since it was accepted, the Node is cordoned for it.
/// - If the record belongs to this instance and names this event, the interruption is a repeat.
///
/// The taint shows the most urgent kind of all interruptions that have joined. A new record removes
/// the annotations `sundown.dev/release` and `sundown.dev/force`, because they are older than the
/// drain and were not for it.
#[must_use]
pub fn accept(
    node: &Node,
    interruption: &Interruption,
    now: Moment,
    options: &AcceptOptions,
) -> Accept {
    if node.is_elsewhere || node.instance.as_ref().is_some_and(|i| *i != interruption.instance) {
        return Accept::OtherInstance;
    }
    // After a boot, a change that waits again has the event ID that the record of the earlier drain
    // already names. So the annotation decides here, not the record.
    let is_change = interruption.kind() == Kind::ScheduledChange;
    let planned = Planned::of(node, &interruption.instance).filter(|_| is_change);
    let boot = node.boot_id.as_deref();
    let planned = planned.and_then(|planned| planned.begun(&interruption.event_id, boot));
    if is_change && planned.is_none() {
        // It was moved or canceled since, or was accepted before.
        return Accept::Repeat;
    }
    let found = status(node, Some(&interruption.instance));
    let mut options = *options;
    if let Cause::Request(request) = &interruption.cause {
        match asked(node, request, &found, now) {
            Some(strongest) => options.response = options.response.min(strongest),
            None => return Accept::Repeat,
        }
    }
    let options = &options;
    let new = NewEntry::new(interruption, now, options);
    // Unless the record is void, the instance may still end, even if its record is lost. So the
    // patch must not weaken the taint.
    let may_still_end = !matches!(found, RecordStatus::Void { .. });
    let is_open = matches!(found, RecordStatus::Open(_));
    let (record, joins) = match found {
        RecordStatus::None => (new.fresh(node, seen_before(node)), false),
        RecordStatus::Damaged(_) => (new.fresh(node, before_damaged(node)), false),
        RecordStatus::Released { record, has_our_changes: false }
            if planned.is_some() || !new.is_in(&record) =>
        {
            (new.fresh(node, before_us(node, &record)), false)
        }
        // The restore of the Node makes sure that the instance has left its warm pool.
        RecordStatus::Void { record, why: VoidReason::Rebooted }
            if new.is_request() && record.pool_group().is_some() =>
        {
            return Accept::Repeat;
        }
        RecordStatus::Void { record, .. }
            if planned.is_some() || new.is_request() || !new.is_in(&record) =>
        {
            (new.fresh_after(&record, node, before_us(node, &record)), false)
        }
        RecordStatus::Released { record, has_our_changes: true }
            if replaces_ended(&new, &record, node, planned.is_some()) =>
        {
            let before = before_of(&record, node);
            let is_back = record.is_held();
            let fresh = if is_back {
                new.fresh(node, before)
            } else {
                new.fresh_after(&record, node, before)
            };
            (with_requests_of(&record, fresh, node, now), false)
        }
        RecordStatus::Open(record) if new.adds_to(&record, options) => {
            let before = before_of(&record, node);
            let record = without_gone_requests(record, node, now);
            // The record of a sick instance stays open after a boot. What joins it is of this boot:
            // with the earlier one, the record would be void.
            let known = record.boot.as_ref().and(node.boot_id.as_ref());
            let boot = known.or(record.boot.as_ref()).cloned();
            (new.join(Record { boot, before, ..record }), true)
        }
        RecordStatus::Doubtful { record, .. }
            if !new.is_request()
                && !new.is_in(&record)
                && new.adds_to(&hooks_only(&record, node), options) =>
        {
            let before = before_of(&record, node);
            (new.join(Record { before, ..hooks_only(&record, node) }), true)
        }
        RecordStatus::Void { .. }
        | RecordStatus::Released { .. }
        | RecordStatus::Open(_)
        | RecordStatus::Doubtful { .. } => return Accept::Repeat,
    };
    // The node still has Sundown's cordon, for example because it waits for the return of its
    // instance. If the new record did not cordon, nobody would ever uncordon the node.
    let has_our_cordon = node.unschedulable && !record.before.unschedulable;
    let record = if !is_open && has_our_cordon { record.at_least_cordoned() } else { record };
    let was_cordoned = joins && record_cordons(node);
    let is_over_hooks = record.hooks().len() > MAX_HOOKS;
    if is_over_hooks
        || record.interruptions.len() > MAX_INTERRUPTIONS
        || record.write().len() > MAX_BYTES
    {
        return Accept::Full;
    }
    let record = Record {
        compat: options.compat.map(|c| c.as_str().to_owned()).or(record.compat),
        ..record
    };
    let mut patch = NodePatch::new(node);
    patch.record(&record);
    if may_still_end {
        patch.taint_no_weaker(&record);
    } else {
        patch.taint(&record);
    }
    if let Some(planned) = planned {
        patch.annotate(PLANNED, Some(planned.write()));
    }
    if let Some(last_sickness) = annotation_of(interruption, now) {
        patch.annotate(IMPAIRED, Some(last_sickness));
    }
    if !joins {
        remove_orders(node, &mut patch);
    }
    let uncordoned_by_hand = was_cordoned && !node.unschedulable;
    if record.response().cordons() && !uncordoned_by_hand {
        patch.cordon();
    }
    let excludes = options.exclude && patch.exclude(record.compat());
    Accept::Patch { body: patch.body(), record: Box::new(record), excludes, joins }
}

/// Whether an interruption replaces a released record whose cordon and taint are still on the Node.
/// `is_waiting_change`: it is a scheduled change that the annotation `sundown.dev/planned` waits
/// for.
fn replaces_ended(new: &NewEntry, record: &Record, node: &Node, is_waiting_change: bool) -> bool {
    // The instance did not go, and only a person keeps the Node as it is.
    let begins_anew = record.is_held() && (is_waiting_change || !new.is_in(record));
    if new.is_request() {
        // If it replaced what AWS has announced, its end would uncordon a node that AWS takes.
        return begins_anew || (!new.is_in(record) && is_only_requested(record));
    }
    begins_anew
        || new.outranks_requests(record)
        || new.brings_an_action_after(record)
        || new.is_stronger_than(record)
        || new.ends_a_time_in_the_pool(record)
        || (is_for_sickness(record, node) && new.ends_the_machine_soon() && new.cordons())
}

/// Whether a scheduled change can begin to drain this Node now, so that [`accept`] would take it.
/// `false` while AWS has not answered whether the record is void. `false` also for degraded hardware
/// while a node that has booted waits for its instance to return: only the restore shows whether the
/// instance has left that hardware. If a person holds the restore, the change does not wait for it.
/// `response`: the response to such changes.
/// `now`: on AWS's clock.
#[must_use]
pub fn may_begin_change(
    node: &Node,
    change: &Interruption,
    response: Response,
    now: Moment,
) -> bool {
    match status(node, Some(&change.instance)) {
        RecordStatus::Released { record, has_our_changes: true } => {
            let options = AcceptOptions { response, ..AcceptOptions::default() };
            let new = NewEntry::new(change, now, &options);
            replaces_ended(&new, &record, node, true)
        }
        RecordStatus::Doubtful { .. } => false,
        RecordStatus::Void { why: VoidReason::Rebooted, .. } => {
            node.keeps_cordon() || !is_of_hardware(change)
        }
        _ => true,
    }
}

/// A start on other hardware may have ended this change.
fn is_of_hardware(change: &Interruption) -> bool {
    let Cause::ScheduledChange(notice) = &change.cause else { return false };
    notice.action().is_of_hardware()
}

/// Recognizes the effect of an accept whose answer was lost: the Node, read again, has a record of
/// this instance that names this very event.
#[must_use]
pub fn recognize(node: &Node, interruption: &Interruption) -> bool {
    let same_instance = node.instance.as_ref().is_none_or(|i| *i == interruption.instance);
    let Some(Ok(record)) = node.record().map(Record::read) else { return false };
    same_instance
        && NewEntry::new(interruption, Moment::UNIX_EPOCH, &AcceptOptions::default()).is_in(&record)
}

/// Whether the sweep found this interruption, and every action of its hook that the record of the
/// Node names is over: the instance waits for another one. The record may name an action that never
/// began, because its event was made up. `is_over`: AWS has shown that this action is over, other
/// than by accepting Sundown's completion.
#[must_use]
pub fn is_another_wait(
    node: &Node,
    interruption: &Interruption,
    is_over: impl Fn(&LifecycleAction) -> bool,
) -> bool {
    let instance = &interruption.instance;
    let found = interruption.lifecycle_action(instance);
    let Some(found) = found.filter(|_| is_sweep_event_id(&interruption.event_id)) else {
        return false;
    };
    let Some(Ok(record)) = node.record().map(Record::read) else { return false };
    let named = record.interruptions(instance).into_iter().filter_map(|facts| facts.hook);
    let of_this_hook: Vec<_> = named.filter(|action| action.key == found.key).collect();
    record.instance() == instance && !of_this_hook.is_empty() && of_this_hook.iter().all(is_over)
}

/// Whether the Node was drained for a later action of this interruption's hook and still has the
/// cordon and the taint: the message may be a late copy of an earlier action. The later action may
/// also have been made up. Only AWS can show which action is open.
#[must_use]
pub fn is_before_last_drain(node: &Node, interruption: &Interruption) -> bool {
    let Some(time) = interruption.time else { return false };
    let new = NewEntry::new(interruption, time, &AcceptOptions::default());
    let found = status(node, Some(&interruption.instance));
    let RecordStatus::Released { record, has_our_changes: true } = found else { return false };
    new.is_before_an_action_of(&record)
}

/// A record of an earlier boot without the interruptions that ended with that boot. Its lifecycle
/// actions may still be open.
fn hooks_only(record: &Record, node: &Node) -> Record {
    let may_be_open = |e: &&Entry| {
        matches!(e, Entry::Unknown(_)) || matches!(e, Entry::Known(k) if k.hook.is_some())
    };
    let interruptions = record.interruptions.iter().filter(may_be_open).cloned().collect();
    Record { boot: node.boot_id.clone(), interruptions, ..record.clone() }
}
