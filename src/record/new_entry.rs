//! An interruption that may be added to a record: whether the record holds it already, and whether
//! it brings anything new.

use std::time::Duration;

use serde_json::Map;

use super::{
    Before, MAX_INTERRUPTIONS, Record, VERSION,
    accept::AcceptOptions,
    requests::{is_only_requested, is_request, is_same_requester},
    schema::{Entry, KnownEntry},
};
use crate::domain::{
    InstanceId, InstanceState, Interruption, InterruptionFacts, Kind, Moment, Node, Ready,
    is_sweep_event_id, seconds,
};

/// A recommendation that comes sooner after another one does not extend its time: each extension
/// costs a PATCH.
const REPEATED_AFTER: Duration = seconds(60);

/// An interruption whose machine ends within this time replaces the record of a drained sick
/// instance.
pub const ENDS_SOON: Duration = seconds(3600);

/// By how much AWS's clock, in the time of an event, may differ from ours, in the first sight of the
/// sweep.
const CLOCKS_DIFFER: Duration = seconds(5);

/// An interruption that may be added to a record.
pub(super) struct NewEntry {
    instance: InstanceId,
    facts: InterruptionFacts,
    entry: KnownEntry,
    /// [`AcceptOptions::is_another_wait`].
    is_another_wait: bool,
}

/// Whether the kubelet may have reported since its instance stopped. Clocks differ, and Kubernetes
/// takes some time to notice that a kubelet is silent.
fn may_have_reported_since(node: &Node, stopped: Moment, now: Moment) -> bool {
    const CLOCKS: Duration = seconds(60);
    const NOTICED: Duration = seconds(120);
    match node.ready {
        Ready::Unknown => false,
        Ready::True if now > stopped.plus(NOTICED) => true,
        _ => node.ready_since.is_none_or(|since| since.plus(CLOCKS) > stopped),
    }
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
            is_another_wait: options.is_another_wait,
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

    /// The record that replaces `old`, whose Node was not restored. If the instance went into a warm
    /// pool, it is still there. If EC2 has reported it as terminated, or as stopped and its kubelet
    /// has not reported since, nothing runs on it: an action that begins later (its group has
    /// noticed the end) has nothing to wait for.
    pub(super) fn fresh_after(self, old: &Record, node: &Node, before: Before) -> Record {
        let (is_same, accepted) = (old.instance == self.instance, self.entry.accepted);
        let pool = old.pool_group().filter(|_| is_same).cloned();
        let is_end = |entry: &&Entry| {
            let Entry::Known(known) = entry else { return false };
            let is = |state: InstanceState| known.state.as_deref() == Some(state.as_str());
            // A hibernated instance that runs again keeps its boot ID.
            is(InstanceState::Terminated)
                || (is(InstanceState::Stopped)
                    && !may_have_reported_since(node, known.time, accepted))
        };
        let is_this_boot = is_same && !old.is_of_earlier_boot(node);
        let end = old.interruptions.iter().rfind(is_end).filter(|_| is_this_boot).cloned();
        let fresh = self.fresh(node, before);
        let interruptions = end.into_iter().chain(fresh.interruptions).collect();
        Record { interruptions, pool, ..fresh }
    }

    /// Whether this interruption needs a new record, because the old one only shows that the
    /// instance went into a warm pool. A stop belongs to the pool. A recommendation does not count:
    /// its end would uncordon the Node while it is still in the pool.
    pub(super) fn ends_a_time_in_the_pool(&self, record: &Record) -> bool {
        let is_stop = [InstanceState::Stopping, InstanceState::Stopped]
            .iter()
            .any(|state| self.entry.state.as_deref() == Some(state.as_str()));
        record.is_only_of_a_pool()
            && !self.is_in(record)
            && !is_stop
            && !self.is_recommendation()
            && self.cordons()
    }

    /// Adds the interruption. A recommendation replaces older ones, and a request that of the same
    /// name. If the record is full, the interruption replaces a request, or without one, an
    /// interruption without a lifecycle action: in both cases the one with the weakest response.
    pub(super) fn join(self, mut record: Record) -> Record {
        if self.is_recommendation() {
            record.interruptions.retain(|entry| {
                let Entry::Known(old) = entry else { return true };
                !is_recommendation(old) || old.response() > self.facts.response
            });
        }
        record.interruptions.retain(|entry| match entry {
            Entry::Known(old) => !is_same_requester(&self.entry, old),
            Entry::Unknown(_) => true,
        });
        if record.interruptions.len() >= MAX_INTERRUPTIONS {
            let without_action = record.interruptions.iter().enumerate().filter_map(|(at, e)| {
                let Entry::Known(old) = e else { return None };
                old.hook.is_none().then(|| (!is_request(old), old.response(), at))
            });
            if let Some((_, _, at)) = without_action.min() {
                record.interruptions.remove(at);
            }
        }
        record.interruptions.push(Entry::Known(Box::new(self.entry)));
        record
    }

    /// A person or another controller asks for the drain.
    pub(super) fn is_request(&self) -> bool {
        self.facts.is_request()
    }

    /// It is a notice of AWS that cordons the Node, and the record holds only requests.
    pub(super) fn outranks_requests(&self, record: &Record) -> bool {
        !self.is_request()
            && !self.is_recommendation()
            && self.cordons()
            && !self.is_in(record)
            && is_only_requested(record)
    }

    fn is_recommendation(&self) -> bool {
        is_recommendation(&self.entry)
    }

    /// The record holds only recommendations, all at least a minute older than this one. It extends
    /// how long the node stays tainted or cordoned.
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

    /// Whether the two are the same wait of the instance in a hook, if the sweep found one of them.
    /// The sweep knows neither the event ID nor the token of an action.
    ///
    /// - The sweep found `self`: it is the same unless the wait began after the release, or AWS has
    ///   shown that every action of its hook in the record is over. AWS keeps only one action of a
    ///   hook and an instance open at a time.
    /// - The sweep found `other`, and `self` is its late event: it is the same if the event's time
    ///   is not later than when the sweep first saw the instance waiting.
    fn is_same_wait(&self, other: &KnownEntry, released: Option<Moment>) -> bool {
        let new = &self.entry;
        let same_hook = new.hook.is_some() && new.group == other.group && new.hook == other.hook;
        if !same_hook || !is_same_kind(&new.kind, &other.kind) {
            return false;
        }
        if is_sweep_event_id(&new.event) {
            return !self.is_another_wait && released.is_none_or(|at| new.time <= at);
        }
        is_sweep_event_id(&other.event) && self.may_be_event_of(other)
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

    /// It brings a lifecycle action of a hook that the record does not name, or another one of a
    /// hook that the record names.
    fn has_new_action(&self, record: &Record) -> bool {
        let mut of_this_hook =
            record.known().filter(|k| k.group == self.entry.group && k.hook == self.entry.hook);
        self.entry.hook.is_some()
            && (self.is_another_wait || of_this_hook.all(|k| self.is_another_action_than(k)))
    }

    /// The two name different actions of a hook. AWS keeps only one action of a hook and an
    /// instance open at a time (root volumes that are replaced one after the other, a way back into
    /// a warm pool). The times of the events do not show which one: the later event may be made up.
    /// A late copy of the event of an action that is over costs a PATCH and a call, but an action
    /// that is dropped is never completed.
    ///
    /// The sweep knows no token, but it sees an action only after its event: an event that is later
    /// is of another action. Other actions without a token cannot be distinguished.
    fn is_another_action_than(&self, other: &KnownEntry) -> bool {
        let Some(new) = &self.entry.token else { return false };
        match &other.token {
            Some(old) => new != old,
            None => is_sweep_event_id(&other.event) && !self.may_be_event_of(other),
        }
    }

    /// The time of this event is not later than when the sweep first saw the instance wait.
    fn may_be_event_of(&self, found: &KnownEntry) -> bool {
        self.entry.time <= found.time.plus(CLOCKS_DIFFER)
    }

    /// The record names a later action of the same hook. An event without a time is not compared.
    pub(super) fn is_before_an_action_of(&self, record: &Record) -> bool {
        let is_later = |k: &KnownEntry| {
            is_same_kind(&self.entry.kind, &k.kind)
                && k.group == self.entry.group
                && k.hook == self.entry.hook
                && self.is_another_action_than(k)
                && k.time > self.entry.time
        };
        self.entry.hook.is_some() && record.known().any(is_later)
    }

    /// It brings a lifecycle action that the released record does not cover: one of a hook that the
    /// record does not name, or another one. If the record has no token to compare, another action
    /// is one that began after the release.
    pub(super) fn brings_an_action_after(&self, record: &Record) -> bool {
        let began_later = record.released.as_ref().is_some_and(|r| self.entry.time > r.at);
        let other_token = is_sweep_event_id(&self.entry.event)
            || (self.entry.token.is_some() && record.known().all(|k| k.token != self.entry.token));
        let later_action = self.entry.hook.is_some() && began_later && other_token;
        !self.is_in(record) && (self.has_new_action(record) || later_action)
    }

    /// It brings a new lifecycle action, an earlier deadline than that of the open record, a
    /// stronger response or a later recommendation. A scheduled change always joins: it is noted as
    /// begun with the same PATCH. So does a request. A record of requests alone takes in every
    /// notice of AWS that cordons the Node, because people may withdraw the requests.
    pub(super) fn adds_to(&self, record: &Record, options: &AcceptOptions) -> bool {
        !self.is_in(record)
            && (self.has_new_action(record)
                || self.ends_sooner(record, options)
                || self.is_stronger_than(record)
                || self.extends_recommendation(record)
                || self.facts.kind == Some(Kind::ScheduledChange)
                || self.is_request()
                || self.outranks_requests(record))
    }

    /// Its response is stronger than that of every interruption in the record, and the record does
    /// not contain it yet.
    pub(super) fn is_stronger_than(&self, record: &Record) -> bool {
        !self.is_in(record) && self.facts.response > record.response()
    }

    /// It cordons the Node.
    pub(super) fn cordons(&self) -> bool {
        self.facts.response.cordons()
    }

    /// The machine ends because of it, [`ENDS_SOON`] from now at the latest.
    pub(super) fn ends_the_machine_soon(&self) -> bool {
        let soon = self.facts.accepted.plus(ENDS_SOON);
        self.facts.machine_ends_at().is_some_and(|end| end <= soon)
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
        // A leader ignores deadlines that left no time at the accept, and those by which pods had
        // to be gone before it resumed the drain (`lifecycle::limits`), so they are not compared.
        // If there is a limit ahead, a leader has resumed the drain since. Without a limit, a
        // leader is about to.
        let has_no_past_limit = options.current_limit.is_none_or(|limit| limit > now);
        let is_ignored = |t: &InterruptionFacts, end: Moment, forces: Moment| {
            let had_time = t.leaves_time(end) && forces > t.accepted;
            !t.is_over() && (!had_time || (forces <= now && has_no_past_limit))
        };
        let limits_of = |t: &InterruptionFacts| {
            end_of(t)
                .map(|end| (end, options.forces(t, end)))
                .filter(|(end, forces)| !is_ignored(t, *end, *forces))
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

/// When the machine ends, by the facts of an interruption without a lifecycle action. A moment in
/// the past counts only if the machine has ended.
fn end_ahead(facts: &InterruptionFacts, now: Moment) -> Option<Moment> {
    facts.machine_ends_at().filter(|end| facts.is_over() || *end > now)
}
