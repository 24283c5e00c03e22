//! Taking an interruption on.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    Before, MAX_BYTES, MAX_HOOKS, MAX_INTERRUPTIONS, Record, RecordStatus, VERSION, compat,
    life::consume_release,
    ours,
    patch::{NodePatch, urgency},
    schema::{Entry, Known},
    status,
};
use crate::domain::{
    Compat, EXCLUDE_FROM_LOAD_BALANCERS, InstanceId, Interruption, Kind, Moment, Node, RECORD,
    Taken, seconds,
};

/// What else bears on an accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptOptions {
    /// Set the load balancer label in the same patch (if nobody else has set it).
    pub exclude: bool,
    /// It is taken on late and unproved, because nobody could be asked.
    pub stale: bool,
    /// When its message was sent: stands in for an event time that is not said.
    pub sent: Option<Moment>,
    /// When the drain of an open record ends at the latest, as whoever drains it derives it;
    /// `None`: not known here, or nothing ends it.
    pub rules: Option<Moment>,
    /// `--deadline-margin`: how long before the instance ends its pods must be gone. `rules` is
    /// earlier by this margin.
    pub margin: Duration,
    /// `--spot-deadline-margin`: the same for a spot notice.
    pub spot_margin: Duration,
    /// Whose marks are written beside ours.
    pub compat: Option<Compat>,
    /// `--drain-timeout`; the deadline of a hook is its accept plus this where `rules` does not say
    /// better.
    pub drain_timeout: Option<Duration>,
    /// AWS has not said yet whether its hook is ours: see [`Record::is_unconfirmed`].
    pub unconfirmed: bool,
}

/// The longest that a hook may drain for when nobody says otherwise: the greatest HeartbeatTimeout
/// that there is.
const LONGEST_HOOK: Duration = seconds(7200);

impl Default for AcceptOptions {
    fn default() -> Self {
        Self {
            exclude: false,
            stale: false,
            sent: None,
            rules: None,
            margin: Duration::ZERO,
            spot_margin: Duration::ZERO,
            compat: None,
            drain_timeout: None,
            unconfirmed: false,
        }
    }
}

impl AcceptOptions {
    /// By when pods must be gone because of this interruption, whose instance ends at `end`.
    fn forces(&self, taken: &Taken, end: Moment) -> Moment {
        taken.forces_at(
            end,
            if taken.kind == Some(Kind::Spot) { self.spot_margin } else { self.margin },
        )
    }
}

/// How an interruption is taken on.
#[derive(Debug, Clone, PartialEq)]
pub enum Accept {
    /// Send this merge patch; when it is accepted, the message has done its work.
    Patch {
        /// The merge patch, with `metadata.resourceVersion`.
        body: Value,
        /// The record as it will stand.
        record: Box<Record>,
        /// The patch writes the load balancer label.
        excludes: bool,
        /// It joins a drain that is under way.
        joins: bool,
    },
    /// The record holds all that it brings: the message is deleted, counted, and nothing is
    /// written.
    Repeat,
    /// The Node is another instance's (it was registered again under the same name): look the
    /// instance up again.
    OtherInstance,
    /// The record has no room for another hook. The message stays for the dead-letter queue.
    Full,
}

/// Takes `interruption` on for `node`, which the caller found to be its instance's.
///
/// - No record, a damaged or void one, or a released one whose cordon or taint is gone: a fresh
///   record.
/// - An open record: it joins when it owes a new hook or brings an earlier deadline, else it is a
///   repeat. A Node that somebody uncordoned meanwhile is not cordoned again; the taint is written
///   in any case.
/// - A released one whose cordon and taint stand: only an interruption that owes a hook which the
///   record does not name replaces it, keeping the before-state (so does a later action of a hook
///   that it names).
/// - The same event twice is a repeat wherever the record is of this instance.
///
/// The taint shows the kind that leaves least time of all that have joined. An order to release the
/// node that is older than the drain (`sundown.dev/release`) was for another one: a fresh record
/// removes it.
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
    let new = Newcomer::new(interruption, now, options);
    let (record, joins) = match status(node, Some(&interruption.instance)) {
        RecordStatus::None => (new.fresh(node, seen_before(node)), false),
        RecordStatus::Damaged(_) => (new.fresh(node, salvage(node)), false),
        RecordStatus::Void { record, .. }
        | RecordStatus::Released { record, ours_stands: false }
            if !new.is_told_by(&record) =>
        {
            (new.fresh(node, before_us(node, &record)), false)
        }
        RecordStatus::Released { record, ours_stands: true }
            if new.brings_an_action_after(&record) =>
        {
            (new.fresh(node, record.before), false)
        }
        RecordStatus::Open(record) if new.adds_to(&record, options) => (new.join(record), true),
        RecordStatus::Doubtful { record, .. }
            if !new.is_told_by(&record) && new.adds_to(&hooks_only(&record, node), options) =>
        {
            (new.join(hooks_only(&record, node)), true)
        }
        RecordStatus::Void { .. }
        | RecordStatus::Released { .. }
        | RecordStatus::Open(_)
        | RecordStatus::Doubtful { .. } => return Accept::Repeat,
    };
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
    patch.taint(&record);
    if !joins {
        consume_release(node, &mut patch);
    }
    let uncordoned_by_hand = joins && !node.unschedulable;
    if !uncordoned_by_hand {
        patch.cordon();
    }
    let excludes = options.exclude && patch.exclude(record.compat());
    Accept::Patch { body: patch.body(), record: Box::new(record), excludes, joins }
}

/// An accept whose answer was lost had its effect: the re-read Node's record, of this instance,
/// holds this very event.
#[must_use]
pub fn recognise(node: &Node, interruption: &Interruption) -> bool {
    let same_instance = node.instance.as_ref().is_none_or(|i| *i == interruption.instance);
    let Some(Ok(record)) = node.record().map(Record::read) else { return false };
    same_instance
        && Newcomer::new(interruption, Moment::UNIX_EPOCH, &AcceptOptions::default())
            .is_told_by(&record)
}

/// An interruption on its way into a record.
struct Newcomer {
    instance: InstanceId,
    taken: Taken,
    entry: Known,
}

impl Newcomer {
    fn new(interruption: &Interruption, now: Moment, options: &AcceptOptions) -> Self {
        let instance = interruption.instance.clone();
        let taken = Taken::new(interruption, &instance, options.sent, now, options.stale);
        Self {
            entry: Known { unconfirmed: options.unconfirmed, ..Known::new(&taken) },
            instance,
            taken,
        }
    }

    fn fresh(self, node: &Node, before: Before) -> Record {
        Record {
            version: VERSION,
            instance: self.instance,
            boot: node.boot_id.clone(),
            before,
            compat: None,
            interruptions: vec![Entry::Known(Box::new(self.entry))],
            released: None,
            rest: Map::new(),
        }
    }

    /// Where the record is full, an interruption that owes nothing gives way: the newcomer owes
    /// something or ends earlier.
    fn join(self, mut record: Record) -> Record {
        if record.interruptions.len() >= MAX_INTERRUPTIONS
            && let Some(at) = record
                .interruptions
                .iter()
                .position(|e| matches!(e, Entry::Known(k) if k.hook.is_none()))
        {
            record.interruptions.remove(at);
        }
        record.interruptions.push(Entry::Known(Box::new(self.entry)));
        record
    }

    /// The record, of this instance, holds this very event.
    fn is_told_by(&self, record: &Record) -> bool {
        record.instance == self.instance && record.known().any(|k| self.is_same_event(k))
    }

    /// By the event's id, or by the action's token (EventBridge and Auto Scaling tell one action
    /// under two ids). An event without an id is known by all that it says.
    fn is_same_event(&self, other: &Known) -> bool {
        let new = &self.entry;
        if new.kind != other.kind {
            return false;
        }
        let same_hook = new.group == other.group && new.hook == other.hook;
        let same_action = same_hook && new.token.is_some() && new.token == other.token;
        let same_id = same_hook && !new.event.is_empty() && new.event == other.event;
        let nameless = new.event.is_empty() && other.event.is_empty();
        let same_words = nameless
            && same_hook
            && new.token == other.token
            && new.ends == other.ends
            && new.state == other.state;
        same_action || same_id || (same_words && self.is_same_time(other))
    }

    /// An event without a time is of whatever time: only the moment at which its message came stood
    /// in for it.
    fn is_same_time(&self, other: &Known) -> bool {
        self.taken.time == self.taken.accepted || self.entry.time == other.time
    }

    /// It owes a hook that the record does not name, or a later action of one that it does.
    fn has_new_action(&self, record: &Record) -> bool {
        let mut of_this_hook =
            record.known().filter(|k| k.group == self.entry.group && k.hook == self.entry.hook);
        self.entry.hook.is_some() && of_this_hook.all(|k| self.is_a_later_action_than(k))
    }

    /// AWS keeps one action of a hook and an instance open at a time, so that one of another token
    /// that began later has taken the place of the other (root volumes replaced one after the
    /// other, a way back into a warm pool). Without its token an action cannot be told from another
    /// one.
    fn is_a_later_action_than(&self, other: &Known) -> bool {
        let tokens = self.entry.token.as_ref().zip(other.token.as_ref());
        tokens.is_some_and(|(new, old)| new != old) && self.entry.time > other.time
    }

    /// It owes a hook that the released record does not name, or a later action of one that it
    /// does. Where the record has no token to compare, that is one that began after the release.
    fn brings_an_action_after(&self, record: &Record) -> bool {
        let began_later = record.released.as_ref().is_some_and(|r| self.entry.time > r.at);
        let other_token =
            self.entry.token.is_some() && record.known().all(|k| k.token != self.entry.token);
        let later_action = self.entry.hook.is_some() && began_later && other_token;
        !self.is_told_by(record) && (self.has_new_action(record) || later_action)
    }

    /// It owes a new hook, or brings an earlier deadline than the one that rules the open record.
    fn adds_to(&self, record: &Record, options: &AcceptOptions) -> bool {
        !self.is_told_by(record)
            && (self.has_new_action(record) || self.ends_sooner(record, options))
    }

    /// It would end the drain, or force pods, sooner than anything in the record. Both are
    /// compared, because the later of two ends may have the larger margin. In doubt it is `true`:
    /// an interruption that joins for nothing costs a PATCH, one that is dropped may cost the pods
    /// their time.
    fn ends_sooner(&self, record: &Record, options: &AcceptOptions) -> bool {
        let now = self.taken.accepted;
        let mut held = record.taken(&self.instance);
        // What waits for its proof rules nothing, so it outranks nothing that is sure.
        held.retain(|t| self.taken.stale || !t.stale);
        if let Some(hook) = &self.taken.hook {
            return !held.iter().any(|t| t.hook.as_ref().is_some_and(|h| h.key == hook.key));
        }
        let Some(end) = end_ahead(&self.taken, now) else { return false };
        let forces = options.forces(&self.taken, end);
        // A limit that is over rules nothing any more: the drain is paused, or about to be taken up
        // again.
        if options.rules.is_some_and(|limit| limit > now && limit <= forces) {
            return false;
        }
        let patience = options.drain_timeout.unwrap_or(LONGEST_HOOK);
        let end_of = |t: &Taken| match &t.hook {
            Some(_) if options.rules.is_some() => None,
            Some(_) => Some(t.accepted.plus(patience)).filter(|end| *end > now),
            None => end_ahead(t, now),
        };
        // Pods that had to be gone before a leader took the drain up are not forced on that account
        // (`lifecycle::limits`): it outranks nothing. Where no limit rules yet, a leader is about
        // to take the drain up.
        let rules_ahead = options.rules.is_none_or(|limit| limit > now);
        let is_void = |t: &Taken, forces: Moment| {
            t.hook.is_none()
                && !t.is_over()
                && (forces <= t.accepted || (forces <= now && rules_ahead))
        };
        let limits_of = |t: &Taken| {
            end_of(t)
                .map(|end| (end, options.forces(t, end)))
                .filter(|(_, forces)| !is_void(t, *forces))
        };
        let ends: Vec<(Moment, Moment)> = held.iter().filter_map(limits_of).collect();
        ends.iter().all(|(old, _)| end < *old) || ends.iter().all(|(_, old)| forces < *old)
    }
}

/// When the machine goes, by the facts of an interruption that owes no hook. A moment that is over
/// is none, unless the machine is over with it.
fn end_ahead(taken: &Taken, now: Moment) -> Option<Moment> {
    taken.machine_goes().filter(|end| taken.is_over() || *end > now)
}

/// The word in the taint: the kind that leaves least time. A word that this version does not know
/// is not shown: it need not be fit for a taint.
pub(super) fn shown_kind(record: &Record) -> &'static str {
    record
        .known()
        .filter_map(|k| Kind::from_word(&k.kind))
        .max_by_key(|k| urgency(*k))
        .map_or("other", Kind::as_str)
}

/// What is there before us on a Node without a record that can be read.
fn seen_before(node: &Node) -> Before {
    let excluded = node
        .labels
        .get(EXCLUDE_FROM_LOAD_BALANCERS)
        .is_some_and(|v| !compat::is_our_label(v, None));
    Before { unschedulable: node.unschedulable, excluded, ..Before::default() }
}

/// What is there before us where a record that does not count left something of ours.
fn before_us(node: &Node, record: &Record) -> Before {
    let seen = seen_before(node);
    let ours = ours(node, record);
    Before {
        unschedulable: seen.unschedulable && !ours.cordon,
        excluded: seen.excluded && !ours.label,
        ..seen
    }
}

/// A damaged record may still say that we cordoned the Node. Only while our taint stands is it
/// believed.
fn salvage(node: &Node) -> Before {
    let seen = seen_before(node);
    let text = node.annotations.get(RECORD).map(String::as_str).unwrap_or_default();
    let said = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|v| v.pointer("/before/unschedulable")?.as_bool());
    let ours = said == Some(false) && node.has_our_taint();
    Before { unschedulable: seen.unschedulable && !ours, ..seen }
}

/// A record from before a reboot that something new joins: what it owes may still be open, all else
/// went with that boot.
fn hooks_only(record: &Record, node: &Node) -> Record {
    let may_be_open = |e: &&Entry| {
        matches!(e, Entry::Foreign(_)) || matches!(e, Entry::Known(k) if k.hook.is_some())
    };
    let interruptions = record.interruptions.iter().filter(may_be_open).cloned().collect();
    Record { boot: node.boot_id.clone(), interruptions, ..record.clone() }
}
