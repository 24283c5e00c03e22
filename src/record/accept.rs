//! Accepts an interruption: decides whether it gets a new record, joins one, or is a repeat.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    Before, MAX_BYTES, MAX_HOOKS, MAX_INTERRUPTIONS, Planned, Record, RecordStatus, VERSION,
    compat,
    impaired::{is_for_sickness, mark_of},
    life::remove_release_order,
    ours,
    patch::NodePatch,
    schema::{Entry, KnownEntry},
    status,
};
use crate::domain::{
    Compat, EXCLUDE_FROM_LOAD_BALANCERS, IMPAIRED, InstanceId, InstanceState, Interruption,
    InterruptionFacts, Kind, Moment, Node, PLANNED, RECORD, Response, is_sweep_event_id, seconds,
};

/// What an accept depends on, apart from the Node and the interruption.
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
}

/// A recommendation that comes sooner after another one does not extend its time: each extension
/// costs a PATCH.
const REPEATED_AFTER: Duration = seconds(60);

/// By how much AWS's clock, in the time of an event, may differ from ours, in the first sight of the
/// sweep.
const CLOCKS_DIFFER: Duration = seconds(5);

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
        }
    }
}

impl AcceptOptions {
    /// By when this interruption needs pods to be gone, if its instance ends at `end`.
    fn forces(&self, facts: &InterruptionFacts, end: Moment) -> Moment {
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
///   earlier deadline, a stronger response or a later recommendation. Otherwise it is a repeat. If somebody has uncordoned the Node meanwhile, it
///   is not cordoned again, but the taint is written.
/// - If the record is released and cordon and taint are still on the Node, only an interruption
///   with a stronger response or with a new lifecycle action replaces it: one of a hook that the record does not name, or a
///   later one of a hook that it names. The new record keeps the state before Sundown.
/// - If the record is released and only shows that the instance went into a warm pool, every
///   interruption replaces it that cordons the Node for more than a while: no recommendation, and
///   not the stop in the pool. The new record keeps the state before Sundown and the pool.
/// - If the released record is there only because the instance was sick, an interruption that ends
///   the machine replaces it, too: pods may be left, and now they have a deadline.
/// - If the record is released, and `sundown.dev/keep-cordoned` alone holds the restore, every
///   interruption that it does not name replaces it.
/// - A scheduled change is accepted only while the annotation `sundown.dev/planned` waits for it.
///   The same patch notes there that it has begun.
/// - If the record belongs to this instance and names this event, the interruption is a repeat.
///
/// The taint shows the most urgent kind of all interruptions that have joined. A new record removes
/// the annotation `sundown.dev/release`, because it is older than the drain and was not for it.
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
    // A change that waits may have the event of an earlier drain: after a boot.
    let is_change = interruption.kind() == Kind::ScheduledChange;
    let planned = Planned::of(node, &interruption.instance).filter(|_| is_change);
    let boot = node.boot_id.as_deref();
    let planned = planned.and_then(|planned| planned.begun(&interruption.event_id, boot));
    if is_change && planned.is_none() {
        // It was moved or canceled since, or was accepted before.
        return Accept::Repeat;
    }
    let new = NewEntry::new(interruption, now, options);
    let found = status(node, Some(&interruption.instance));
    let is_released = matches!(found, RecordStatus::Released { .. });
    let (record, joins) = match found {
        RecordStatus::None => (new.fresh(node, seen_before(node)), false),
        RecordStatus::Damaged(_) => (new.fresh(node, before_damaged(node)), false),
        RecordStatus::Released { record, has_our_marks: false }
            if planned.is_some() || !new.is_in(&record) =>
        {
            (new.fresh(node, before_us(node, &record)), false)
        }
        RecordStatus::Void { record, .. } if planned.is_some() || !new.is_in(&record) => {
            (new.fresh_after(&record, node, before_us(node, &record)), false)
        }
        // The instance did not go, and only a person keeps the Node as it is.
        RecordStatus::Released { record, has_our_marks: true }
            if record.is_held() && (planned.is_some() || !new.is_in(&record)) =>
        {
            (new.fresh(node, before_of(&record, node)), false)
        }
        RecordStatus::Released { record, has_our_marks: true }
            if new.brings_an_action_after(&record)
                || new.is_stronger_than(&record)
                || new.ends_a_time_in_the_pool(&record)
                || (is_for_sickness(&record) && new.ends_the_machine()) =>
        {
            (new.fresh_after(&record, node, before_of(&record, node)), false)
        }
        RecordStatus::Open(record) if new.adds_to(&record, options) => {
            let before = before_of(&record, node);
            (new.join(Record { before, ..record }), true)
        }
        RecordStatus::Doubtful { record, .. }
            if !new.is_in(&record) && new.adds_to(&hooks_only(&record, node), options) =>
        {
            let before = before_of(&record, node);
            (new.join(Record { before, ..hooks_only(&record, node) }), true)
        }
        RecordStatus::Void { .. }
        | RecordStatus::Released { .. }
        | RecordStatus::Open(_)
        | RecordStatus::Doubtful { .. } => return Accept::Repeat,
    };
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
    if is_released {
        patch.taint_no_weaker(&record);
    } else {
        patch.taint(&record);
    }
    if let Some(planned) = planned {
        patch.annotate(PLANNED, Some(planned.write()));
    }
    if let Some(mark) = mark_of(interruption, now) {
        patch.annotate(IMPAIRED, Some(mark));
    }
    if !joins {
        remove_release_order(node, &mut patch);
    }
    let uncordoned_by_hand = was_cordoned && !node.unschedulable;
    if record.response().cordons() && !uncordoned_by_hand {
        patch.cordon();
    }
    let excludes = options.exclude && patch.exclude(record.compat());
    Accept::Patch { body: patch.body(), record: Box::new(record), excludes, joins }
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

/// An interruption that may be added to a record.
pub(super) struct NewEntry {
    instance: InstanceId,
    facts: InterruptionFacts,
    entry: KnownEntry,
}

impl NewEntry {
    pub(super) fn new(interruption: &Interruption, now: Moment, options: &AcceptOptions) -> Self {
        let instance = interruption.instance.clone();
        let facts = InterruptionFacts {
            response: options.response,
            ..InterruptionFacts::new(interruption, &instance, options.sent, now, options.stale)
        };
        Self {
            entry: KnownEntry {
                unconfirmed: options.unconfirmed,
                warm_pool: interruption.goes_into_warm_pool(),
                ..KnownEntry::new(&facts)
            },
            instance,
            facts,
        }
    }

    pub(super) fn fresh(self, node: &Node, before: Before) -> Record {
        Record {
            version: VERSION,
            instance: self.instance,
            boot: node.boot_id.clone(),
            before,
            compat: None,
            interruptions: vec![Entry::Known(Box::new(self.entry))],
            released: None,
            pool: None,
            rest: Map::new(),
        }
    }

    /// The record that replaces `old`, whose Node was not put back: if the instance went into a
    /// warm pool, it is still there.
    fn fresh_after(self, old: &Record, node: &Node, before: Before) -> Record {
        let pool = old.pool_group().filter(|_| old.instance == self.instance).cloned();
        Record { pool, ..self.fresh(node, before) }
    }

    /// The record only shows that the instance went into a warm pool, and this interruption does
    /// not belong to that. A recommendation ends by itself, and would uncordon the Node in the pool.
    fn ends_a_time_in_the_pool(&self, record: &Record) -> bool {
        let is_stop = [InstanceState::Stopping, InstanceState::Stopped]
            .iter()
            .any(|state| self.entry.state.as_deref() == Some(state.as_str()));
        record.is_only_of_a_pool()
            && !self.is_in(record)
            && !is_stop
            && !self.is_recommendation()
            && self.facts.response.cordons()
    }

    /// Adds the interruption. A recommendation replaces older ones. If the record is full, the
    /// interruption replaces the one with the weakest response among those without a lifecycle
    /// action.
    fn join(self, mut record: Record) -> Record {
        if self.is_recommendation() {
            record.interruptions.retain(|entry| {
                let Entry::Known(old) = entry else { return true };
                !is_recommendation(old) || old.response() > self.facts.response
            });
        }
        if record.interruptions.len() >= MAX_INTERRUPTIONS {
            let without_action = record.interruptions.iter().enumerate().filter_map(|(at, e)| {
                let Entry::Known(old) = e else { return None };
                old.hook.is_none().then(|| (old.response(), at))
            });
            if let Some((_, at)) = without_action.min() {
                record.interruptions.remove(at);
            }
        }
        record.interruptions.push(Entry::Known(Box::new(self.entry)));
        record
    }

    fn is_recommendation(&self) -> bool {
        is_recommendation(&self.entry)
    }

    /// The record holds only recommendations, all at least a minute older than this one. It extends
    /// the time for which the node stays marked.
    fn extends_recommendation(&self, record: &Record) -> bool {
        let is_older = |old: &KnownEntry| {
            is_recommendation(old) && old.time.plus(REPEATED_AFTER) <= self.entry.time
        };
        self.is_recommendation() && !record.has_unknown() && record.known().all(is_older)
    }

    /// The record belongs to this instance and names this very event.
    pub(super) fn is_in(&self, record: &Record) -> bool {
        let released = record.released.as_ref().map(|released| released.at);
        record.instance == self.instance
            && record.known().any(|k| self.is_same_event(k) || self.is_same_wait(k, released))
    }

    /// One of the two was found by the sweep, which knows neither the event ID nor the token of an
    /// action. The instance waits in the same hook:
    ///
    /// - The sweep finds what the record holds already, unless the wait began after the release:
    ///   AWS keeps only one action of a hook and an instance open at a time.
    /// - The event of what the sweep has found arrives late: it began before the first sight.
    fn is_same_wait(&self, other: &KnownEntry, released: Option<Moment>) -> bool {
        let new = &self.entry;
        let same_hook = new.hook.is_some() && new.group == other.group && new.hook == other.hook;
        if !same_hook || !is_same_kind(&new.kind, &other.kind) {
            return false;
        }
        if is_sweep_event_id(&new.event) {
            return released.is_none_or(|at| new.time <= at);
        }
        is_sweep_event_id(&other.event) && new.time <= other.time.plus(CLOCKS_DIFFER)
    }

    /// The two have the same event ID, or the same token: EventBridge and Auto Scaling send one
    /// action under two IDs. Events without an ID are the same if all their facts are.
    fn is_same_event(&self, other: &KnownEntry) -> bool {
        let new = &self.entry;
        if !is_same_kind(&new.kind, &other.kind) {
            return false;
        }
        let same_hook = new.group == other.group && new.hook == other.hook;
        let same_action = same_hook && new.token.is_some() && new.token == other.token;
        let same_id = same_hook && !new.event.is_empty() && new.event == other.event;
        let both_without_id = new.event.is_empty() && other.event.is_empty();
        let same_facts = both_without_id
            && same_hook
            && new.token == other.token
            && new.ends == other.ends
            && new.state == other.state;
        same_action || same_id || (same_facts && self.is_same_time(other))
    }

    /// The two have the same time. An event without a time equals any: it only got the time at
    /// which it was accepted.
    fn is_same_time(&self, other: &KnownEntry) -> bool {
        self.facts.time == self.facts.accepted || self.entry.time == other.time
    }

    /// It brings a lifecycle action of a hook that the record does not name, or a later one of a
    /// hook that the record names.
    fn has_new_action(&self, record: &Record) -> bool {
        let mut of_this_hook =
            record.known().filter(|k| k.group == self.entry.group && k.hook == self.entry.hook);
        self.entry.hook.is_some() && of_this_hook.all(|k| self.is_a_later_action_than(k))
    }

    /// AWS keeps only one action of a hook and an instance open at a time. So an action with
    /// another token that began later has replaced the earlier one (root volumes that are replaced
    /// one after the other, a way back into a warm pool). Actions without a token cannot be
    /// distinguished.
    fn is_a_later_action_than(&self, other: &KnownEntry) -> bool {
        let tokens = self.entry.token.as_ref().zip(other.token.as_ref());
        tokens.is_some_and(|(new, old)| new != old) && self.entry.time > other.time
    }

    /// It brings a lifecycle action that the released record does not cover: one of a hook that the
    /// record does not name, or a later one. If the record has no token to compare, a later action
    /// is one that began after the release.
    fn brings_an_action_after(&self, record: &Record) -> bool {
        let began_later = record.released.as_ref().is_some_and(|r| self.entry.time > r.at);
        let other_token = is_sweep_event_id(&self.entry.event)
            || (self.entry.token.is_some() && record.known().all(|k| k.token != self.entry.token));
        let later_action = self.entry.hook.is_some() && began_later && other_token;
        !self.is_in(record) && (self.has_new_action(record) || later_action)
    }

    /// It brings a new lifecycle action, an earlier deadline than that of the open record, or a
    /// stronger response. A scheduled change always joins: it is noted as begun with the same PATCH.
    fn adds_to(&self, record: &Record, options: &AcceptOptions) -> bool {
        !self.is_in(record)
            && (self.has_new_action(record)
                || self.ends_sooner(record, options)
                || self.is_stronger_than(record)
                || self.extends_recommendation(record)
                || self.facts.kind == Some(Kind::ScheduledChange))
    }

    /// Its response is stronger than that of every interruption in the record, and the record does
    /// not contain it yet.
    fn is_stronger_than(&self, record: &Record) -> bool {
        !self.is_in(record) && self.facts.response > record.response()
    }

    /// It brings the time at which the machine ends.
    fn ends_the_machine(&self) -> bool {
        self.facts.machine_ends_at().is_some()
    }

    /// It would end the drain, or force pods, sooner than every interruption in the record. Both
    /// are compared, because the later of two ends may have the larger margin. In doubt it is
    /// `true`: an interruption that joins without need costs a PATCH, but one that is dropped may
    /// cost the pods their time.
    fn ends_sooner(&self, record: &Record, options: &AcceptOptions) -> bool {
        let now = self.facts.accepted;
        let mut held = record.interruptions(&self.instance);
        // A stale interruption sets no deadline until it is proved. One that is not stale is not
        // compared with it.
        held.retain(|t| self.facts.stale || !t.stale);
        if let Some(hook) = &self.facts.hook {
            return !held.iter().any(|t| t.hook.as_ref().is_some_and(|h| h.key == hook.key));
        }
        let Some(end) = end_ahead(&self.facts, now) else { return false };
        let forces = options.forces(&self.facts, end);
        // A limit in the past does not count: the drain is paused, or about to be resumed.
        if options.current_limit.is_some_and(|limit| limit > now && limit <= forces) {
            return false;
        }
        // The deadline of a lifecycle action is part of `current_limit`. While that is not known,
        // AWS may still contradict the action, and then its deadline counts for nothing.
        let end_of =
            |t: &InterruptionFacts| if t.hook.is_some() { None } else { end_ahead(t, now) };
        // A leader ignores deadlines by which pods had to be gone before it resumed the drain
        // (`lifecycle::limits`), so they are not compared. If there is a limit ahead, a leader has
        // resumed the drain since. Without a limit, a leader is about to.
        let has_no_past_limit = options.current_limit.is_none_or(|limit| limit > now);
        let is_ignored = |t: &InterruptionFacts, forces: Moment| {
            !t.is_over() && (forces <= t.accepted || (forces <= now && has_no_past_limit))
        };
        let limits_of = |t: &InterruptionFacts| {
            end_of(t)
                .map(|end| (end, options.forces(t, end)))
                .filter(|(_, forces)| !is_ignored(t, *forces))
        };
        let ends: Vec<(Moment, Moment)> = held.iter().filter_map(limits_of).collect();
        ends.iter().all(|(old, _)| end < *old) || ends.iter().all(|(_, old)| forces < *old)
    }
}

/// Whether these names may stand for the same kind of event. Earlier versions wrote `capacity` for
/// `capacity-reservation`, `spot` also for `spot-stop` and `spot-hibernate`, and `terminate-hook`
/// also for `root-volume`.
fn is_same_kind(one: &str, other: &str) -> bool {
    let (Some(one), Some(other)) = (Kind::from_word(one), Kind::from_word(other)) else {
        return one == other;
    };
    one == other
        || (one.is_spot() && other.is_spot())
        || (one.is_terminate_hook() && other.is_terminate_hook())
}

fn is_recommendation(entry: &KnownEntry) -> bool {
    Kind::from_word(&entry.kind).is_some_and(Kind::is_recommendation)
}

/// The state before Sundown of a Node with a record that counts. If this record does not cordon, a
/// cordon on the Node was set by somebody else, and must stay.
fn before_of(record: &Record, node: &Node) -> Before {
    let of_others = node.unschedulable && !record.response().cordons();
    let before = &record.before;
    Before { unschedulable: before.unschedulable || of_others, ..before.clone() }
}

/// The record of this Node cordons it.
fn record_cordons(node: &Node) -> bool {
    let record = node.record().and_then(|text| Record::read(text).ok());
    record.is_some_and(|record| record.response().cordons())
}

/// When the machine ends, by the facts of an interruption without a lifecycle action. A moment in
/// the past counts only if the machine has ended.
fn end_ahead(facts: &InterruptionFacts, now: Moment) -> Option<Moment> {
    facts.machine_ends_at().filter(|end| facts.is_over() || *end > now)
}

/// The state before Sundown of a Node without a readable record.
pub(super) fn seen_before(node: &Node) -> Before {
    let excluded = node
        .labels
        .get(EXCLUDE_FROM_LOAD_BALANCERS)
        .is_some_and(|v| !compat::is_our_label(v, None));
    Before { unschedulable: node.unschedulable, excluded, ..Before::default() }
}

/// The state before Sundown of a Node with a record that does not count: without the cordon and the
/// label that Sundown set for that record.
pub(super) fn before_us(node: &Node, record: &Record) -> Before {
    let seen = seen_before(node);
    let ours = ours(node, record);
    Before {
        unschedulable: seen.unschedulable && !ours.cordon,
        excluded: seen.excluded && !ours.label,
        ..seen
    }
}

/// The state before Sundown of a Node with a damaged record. The record may still show that Sundown
/// cordoned the Node. That counts only while the Node has Sundown's taint.
pub(super) fn before_damaged(node: &Node) -> Before {
    let seen = seen_before(node);
    let text = node.annotations.get(RECORD).map(String::as_str).unwrap_or_default();
    let was_unschedulable = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|v| v.pointer("/before/unschedulable")?.as_bool());
    let ours = was_unschedulable == Some(false) && node.has_our_taint();
    Before { unschedulable: seen.unschedulable && !ours, ..seen }
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
