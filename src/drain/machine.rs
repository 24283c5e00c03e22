//! The drain of one node: decides what happens to each of its pods, and when the drain is over.

mod arrivals;
mod ending;
mod explain;
mod left;
mod rules;
mod unanswered;
mod volumes;
mod wishes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::{arrivals::Source, unanswered::Unanswered};
use super::{
    Class, DispatchInput, Effect, Input, LeftAlone, NodePriority, Note, Order, Outcome, Phase,
    Settings, Start, Status,
    answer::full_message,
    classify,
    comebacks::Comebacks,
    daemon_sets::{DaemonSetKey, DaemonSets, Lookup},
    pod::{Desired, Disposition, Entry, NamespaceStep, Rules, Tally},
    silence::KubeletSilence,
    status::{self, Summary},
    view::View,
    volumes::Volumes,
};
use crate::domain::{
    ApiAnswer, DaemonSetState, Limits, Moment, NodeName, Pod, PodKey, PodUid, Verification,
};

/// The drain of one node, as a state machine.
#[derive(Debug)]
pub struct Drain {
    node: NodeName,
    cordoned_at: Moment,
    own_pod: Option<PodKey>,
    settings: Arc<Settings>,
    limits: Limits,
    /// Boxed, because the map reserves room for eleven pods at once, which is much for ten thousand
    /// nodes with a few pods each.
    pods: BTreeMap<PodUid, Box<Entry>>,
    tally: Tally,
    /// The first group with pods for which later groups wait, at the end of the last step.
    first_group: Option<usize>,
    hold: EvictionHold,
    daemon_sets: DaemonSets,
    comebacks: Comebacks,
    /// When to evaluate which pod again.
    timers: BTreeSet<(Moment, PodUid)>,
    /// Sundown's own pods among `pods`: several, because a name can be used again.
    own: BTreeSet<PodUid>,
    forced: Vec<PodKey>,
    /// When the API server last accepted an order to remove a pod.
    evicted_at: Option<Moment>,
    /// Forced deletes without an answer.
    unanswered: BTreeMap<PodUid, Unanswered>,
    view: View,
    paused: bool,
    over: bool,
    silence: KubeletSilence,
    volumes: Volumes,
    /// The priority that the dispatcher was last sent.
    priority: Option<NodePriority>,
    only_own_reported: bool,
    effects: Vec<Effect>,
}

/// Whether something holds all evictions of the node: a gate, other drains, a pause or
/// `--evict-after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictionHold {
    /// This leader has seen none.
    None,
    /// One holds them now.
    Holds,
    /// The last one ended at this time, or may have ended by then: before a take-over.
    EndedAt(Moment),
}

impl EvictionHold {
    fn initial(limits: &Limits) -> Self {
        if limits.evictions_wait() { Self::Holds } else { Self::None }
    }
}

impl Drain {
    /// A drain that begins: at the accept, or when this leader takes the node over.
    #[must_use]
    pub fn new(start: Start, settings: impl Into<Arc<Settings>>) -> Self {
        Self {
            node: start.node,
            cordoned_at: start.cordoned_at,
            own_pod: start.own_pod,
            settings: settings.into(),
            limits: start.limits,
            pods: BTreeMap::new(),
            tally: Tally::default(),
            first_group: None,
            hold: EvictionHold::initial(&start.limits),
            daemon_sets: DaemonSets::default(),
            comebacks: Comebacks::default(),
            timers: BTreeSet::new(),
            own: BTreeSet::new(),
            forced: Vec::new(),
            evicted_at: None,
            unanswered: BTreeMap::new(),
            view: View::default(),
            paused: false,
            over: false,
            silence: KubeletSilence::default(),
            volumes: Volumes::default(),
            priority: None,
            only_own_reported: false,
            effects: Vec::new(),
        }
    }

    /// `metadata.name` of the Node.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Applies an input, and returns what the caller must do.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        if self.over {
            return Vec::new();
        }
        self.apply(now, input);
        self.report_unanswered(false);
        if self.view.has_caught_up(now) {
            self.evaluate_all(now);
        }
        self.evaluate_due(now);
        self.evaluate_next_group(now);
        self.end_if_over(now);
        if !self.over {
            self.send_priority();
        }
        std::mem::take(&mut self.effects)
    }

    fn apply(&mut self, now: Moment, input: Input) {
        match input {
            Input::Listed(pods) => self.listed(now, pods),
            Input::Changed(pod) => {
                if let Some((uid, notify)) = self.insert(now, pod, Source::Watch) {
                    self.evaluate(now, &uid, notify);
                }
            }
            Input::Gone(uid) => self.remove(now, &uid),
            Input::Watch(state) => {
                if self.view.watch(now, state, &self.settings) {
                    self.evaluate_all(now);
                }
            }
            Input::DaemonSet { namespace, name, state } => {
                self.daemon_set(now, (namespace, name), state);
            }
            Input::Paused if !self.paused => {
                self.paused = true;
                self.note_hold(now);
                self.evaluate_all(now);
            }
            Input::Resumed(limits) if self.paused => {
                self.paused = false;
                self.limits = limits;
                self.note_hold(now);
                self.evaluate_all(now);
            }
            Input::Limits(limits) | Input::Resumed(limits) => self.set_limits(now, limits),
            Input::Settings(settings) => self.set_settings(now, settings),
            Input::Node(condition) => self.set_condition(now, condition),
            Input::Answer { order, answer } => self.answered(now, &order, &answer),
            Input::Volumes(seen) => self.volumes_seen(now, seen),
            Input::NoVolumes => self.volumes.skip(),
            Input::Release => self.end(Outcome::Released { left: self.left() }),
            Input::Contradicted => self.end(Outcome::Contradicted { left: self.left() }),
            Input::Paused | Input::Tick => {}
        }
    }

    /// The order to send for a pod after [`DispatchEffect::Send`](super::DispatchEffect::Send),
    /// computed for `now`. `None`: nothing is to be done with the pod at the moment. The dispatcher
    /// forgets the pod then, so the drain requests it again when that changes. `evict`: as in the
    /// effect.
    #[must_use]
    pub fn order(&mut self, uid: &PodUid, now: Moment, evict: bool) -> Option<Order> {
        let rules = self.rules(now);
        let entry = self.pods.get_mut(uid)?;
        let order = entry.order(&rules, now, evict);
        if order.is_none() {
            entry.requested = Desired::Nothing;
        } else {
            entry.is_unanswered = true;
        }
        if let Some(order) = &order {
            self.sent(order, now);
        }
        order
    }

    /// Until when to wait for the answer to an eviction of this pod that is sent now; `None`: as
    /// long as for any call.
    #[must_use]
    pub fn evict_until(&self, uid: &PodUid, now: Moment) -> Option<Moment> {
        self.pods.get(uid)?.evict_until(&self.rules(now), now)
    }

    /// What the caller must report if this order is accepted after the drain has ended or has
    /// forgotten the pod: that the pod was deleted by force. `None`: nothing. In all other cases
    /// the drain reports it itself.
    #[must_use]
    pub fn note_if_accepted(&self, order: &Order) -> Option<Note> {
        self.pods.get(order.uid())?.forced_note(order)
    }

    /// When the caller should send an [`Input::Tick`]; `None`: at no time.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        if self.over {
            return None;
        }
        let pod = self.timers.first().map(|(at, _)| *at);
        [pod, self.next_check()].into_iter().flatten().min()
    }

    /// Whether the pods of the node have been listed since this drain began. If not, it may not
    /// know all pods that are left.
    #[must_use]
    pub const fn has_listed_pods(&self) -> bool {
        self.view.listed_at.is_some()
    }

    /// Whether every pod that counts is terminating (or none is left): the node no longer needs its
    /// load balancers.
    #[must_use]
    pub const fn is_last_pod_terminating(&self) -> bool {
        self.view.listed_at.is_some() && self.tally.terminating == self.tally.left
    }

    /// Whether a pod of the node may be ending because of this drain: one that counts is terminating,
    /// or its eviction was accepted and may still show its effect, or an order has no answer yet. Of
    /// an eviction whose answer was lost, only a deletion time counts.
    #[must_use]
    pub fn disrupts_pods(&self) -> bool {
        self.tally.terminating > 0 || self.pods.values().any(|entry| entry.is_disrupted())
    }

    /// The limits in force.
    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The state of the drain at `now`.
    #[must_use]
    pub fn status(&self, now: Moment) -> Status {
        let phase = match (self.over, self.paused, self.view.listed_at.is_some()) {
            (true, ..) => Phase::Ended,
            (_, true, _) => Phase::Paused,
            _ if !self.limits.response.evicts() => Phase::Marked,
            (.., false) => Phase::Listing,
            _ if self.volumes.is_waiting() => Phase::Volumes,
            _ => Phase::Draining,
        };
        let rules = self.rules(now);
        let Summary { counts, blocked, asked_to_wait } =
            status::summary(self.pods.values().map(|entry| &**entry), &rules, now, self.tally);
        let unreachable = self.gives_up_at();
        let ends_at = [self.limits.end_at, unreachable]
            .into_iter()
            .flatten()
            .min()
            .map(|at| if self.over { now.min(at) } else { at });
        let (forced, left_alone) = (self.forced.clone(), self.left_alone());
        let waits = self.pods.values().filter_map(|e| e.waits_for_earlier_groups_until(&rules));
        let next_group_at = waits.filter(|at| *at > now).min();
        Status { phase, counts, blocked, forced, left_alone, ends_at, next_group_at, asked_to_wait }
    }

    /// The owners whose new pods come back on the node and are left alone.
    #[must_use]
    pub fn left_alone(&self) -> Vec<LeftAlone> {
        let left_alone = self.comebacks.left_alone();
        left_alone
            .map(|((namespace, owner), new)| LeftAlone {
                namespace: namespace.clone(),
                owner: owner.clone(),
                new,
            })
            .collect()
    }

    // ---- pods ----

    /// The limits as they apply now. Until AWS has confirmed the drain, no pod is forced and no
    /// grace period is shortened for a deadline. A person's order to force counts as soon as the
    /// drain may end.
    fn confirmed_limits(&self) -> Limits {
        let verification = self.limits.verification;
        Limits {
            force_at: self.limits.force_at.filter(|_| verification == Verification::Verified),
            forced_at: self.limits.forced_at.filter(|_| verification.may_end()),
            ..self.limits
        }
    }

    fn rules(&self, now: Moment) -> Rules {
        let may_evict = self.limits.response.evicts()
            && self.limits.verification.may_evict()
            && !self.limits.evictions_wait();
        let accepted = self.limits.accepted;
        Rules {
            limits: self.confirmed_limits(),
            settings: self.settings.clone(),
            planned_force_at: self.limits.force_at,
            order_from: match self.hold {
                EvictionHold::EndedAt(ended) => ended.max(accepted),
                EvictionHold::None | EvictionHold::Holds => accepted,
            },
            first_group: self.tally.first_group(),
            is_inactive: self.paused || self.over || !may_evict,
            own_may_go: self.view.listed_at.is_some() && self.tally.others == 0,
            known_until: self.view.known_until(now),
            blind: self.view.is_blind(),
        }
    }

    /// Inserts all pods first and evaluates them afterwards. Otherwise Sundown's own pod could seem
    /// to be the last one in between.
    fn listed(&mut self, now: Moment, pods: Vec<Pod>) {
        let seen: BTreeSet<PodUid> = pods.iter().map(|p| p.uid.clone()).collect();
        let lost: Vec<PodUid> =
            self.pods.keys().filter(|uid| !seen.contains(*uid)).cloned().collect();
        let source = if self.view.listed_at.is_some() { Source::List } else { Source::FirstList };
        self.view.listed(now);
        let changed: Vec<_> =
            pods.into_iter().filter_map(|pod| self.insert(now, pod, source)).collect();
        for uid in lost {
            self.remove(now, &uid);
        }
        for (uid, notify) in changed {
            self.evaluate(now, &uid, notify);
        }
        if source == Source::FirstList {
            self.note_first_list();
        }
    }

    /// Inserts or updates a pod, without evaluating it. Returns its UID, and whether the dispatcher
    /// needs the new version even if the same is requested. `None`: the pod is on another node.
    fn insert(&mut self, now: Moment, mut pod: Pod, source: Source) -> Option<(PodUid, bool)> {
        if pod.node.as_ref().is_some_and(|node| *node != self.node) {
            return None;
        }
        self.share(&mut pod);
        let uid = pod.uid.clone();
        let (before, notify) = if let Some(entry) = self.pods.get_mut(&uid) {
            let before = entry.tally();
            let notify = entry.update(pod, &self.settings);
            if source != Source::Watch {
                entry.listed(now);
            }
            (before, notify)
        } else {
            let entry = self.new_entry(now, pod, source);
            if entry.own {
                self.own.insert(uid.clone());
            }
            self.pods.insert(uid.clone(), Box::new(entry));
            (Tally::default(), false)
        };
        self.resolve_daemon_set(&uid);
        if let Some(entry) = self.pods.get(&uid) {
            self.tally.replace(before, entry.tally());
        }
        self.note_claims(&uid);
        Some((uid, notify))
    }

    /// Lets a pod share strings with other pods of this node, to save memory: there may be tens of
    /// thousands of pods.
    fn share(&self, pod: &mut Pod) {
        pod.node = Some(self.node.clone());
        if let Some((uid, _)) = self.pods.get_key_value(&pod.uid) {
            pod.uid = uid.clone();
        }
        let mut namespaces = self.pods.values().map(|entry| &entry.pod.key.namespace);
        if let Some(shared) = namespaces.find(|namespace| **namespace == pod.key.namespace) {
            pod.key.namespace = shared.clone();
        }
    }

    /// Finds out whether a DaemonSet's pod counts, or asks the caller to look the DaemonSet up.
    fn resolve_daemon_set(&mut self, uid: &PodUid) {
        let Some(entry) = self
            .pods
            .get(uid)
            .filter(|e| e.disposition == Disposition::Unknown && e.gone.is_none())
        else {
            return;
        };
        let Some(owner) = &entry.pod.owner else { return };
        let key = (entry.pod.key.namespace.to_string(), owner.name.clone());
        match self.daemon_sets.look_up(&key, uid) {
            Lookup::Known(state) => self.apply_daemon_set(uid, state),
            Lookup::Ask => {
                self.effects.push(Effect::AskDaemonSet { namespace: key.0, name: key.1 });
            }
            Lookup::Wait => {}
        }
    }

    /// Applies what is known of the DaemonSet that owns a pod.
    fn apply_daemon_set(&mut self, uid: &PodUid, state: DaemonSetState) {
        let Some(entry) = self.pods.get_mut(uid).filter(|e| e.disposition == Disposition::Unknown)
        else {
            return;
        };
        let Some(owner) = &entry.pod.owner else { return };
        match state {
            DaemonSetState::Gone => {
                entry.disposition = Disposition::Counts;
                self.effects.push(Effect::Note(Note::OrphanedDaemonSet {
                    pod: entry.pod.key.clone(),
                    daemon_set: owner.name.clone(),
                }));
                self.note_claims(uid);
            }
            DaemonSetState::Exists | DaemonSetState::Unreadable => {
                entry.disposition = Disposition::Untouched;
            }
        }
    }

    fn daemon_set(&mut self, now: Moment, key: DaemonSetKey, state: DaemonSetState) {
        let name = key.1.clone();
        for uid in self.daemon_sets.answer(key, state) {
            // Another DaemonSet may have adopted the pod since.
            let owned = |e: &&Entry| e.pod.owner.as_ref().is_some_and(|o| o.name == name);
            let Some(before) = self.pods.get(&uid).map(|e| &**e).filter(owned).map(Entry::tally)
            else {
                continue;
            };
            self.apply_daemon_set(&uid, state);
            if let Some(entry) = self.pods.get(&uid) {
                self.tally.replace(before, entry.tally());
            }
            self.evaluate(now, &uid, false);
        }
        self.evaluate_own(now);
    }

    fn remove(&mut self, now: Moment, uid: &PodUid) {
        let Some(entry) = self.pods.remove(uid) else { return };
        self.was_removed(&entry.pod);
        self.tally.replace(entry.tally(), Tally::default());
        if let Some(at) = entry.wake {
            self.timers.remove(&(at, uid.clone()));
        }
        if entry.requested != Desired::Nothing {
            self.effects.push(Effect::Dispatch(DispatchInput::Cancel { uid: uid.clone() }));
        }
        if entry.own {
            self.own.remove(uid);
        }
        self.evaluate_own(now);
    }

    // ---- evaluation of pods ----

    /// Evaluates one pod after a change, and then Sundown's own pod, which may be the last one now,
    /// or no longer the last.
    fn evaluate(&mut self, now: Moment, uid: &PodUid, notify: bool) {
        self.evaluate_pod(now, uid, notify);
        self.evaluate_own(now);
    }

    fn evaluate_own(&mut self, now: Moment) {
        for uid in self.own.clone() {
            self.evaluate_pod(now, &uid, false);
        }
    }

    fn evaluate_all(&mut self, now: Moment) {
        let all: Vec<PodUid> = self.pods.keys().cloned().collect();
        for uid in all {
            self.evaluate_pod(now, &uid, false);
        }
    }

    fn evaluate_due(&mut self, now: Moment) {
        while let Some((at, uid)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.timers.remove(&(at, uid.clone()));
            self.evaluate_pod(now, &uid, false);
        }
    }

    /// Notes that a hold of the evictions begins or ends. Call it before pods are evaluated. After a
    /// hold, the pods of a node with a silent kubelet have the time again that they are given.
    fn note_hold(&mut self, now: Moment) {
        if self.paused || self.limits.evictions_wait() {
            self.hold = EvictionHold::Holds;
        } else if self.hold == EvictionHold::Holds {
            self.hold = EvictionHold::EndedAt(now);
            self.silence.resumed(now);
        }
    }

    /// Evaluates all pods if another group has become the first one. That may show that all pods of
    /// this group are stuck, too. Then the next group is the first one, and all pods are evaluated
    /// again.
    fn evaluate_next_group(&mut self, now: Moment) {
        for _ in 0..=self.settings.groups() {
            let first = self.tally.first_group();
            let before = std::mem::replace(&mut self.first_group, first);
            if before == first || before.is_none() && !self.tally.has_later_groups() {
                return;
            }
            self.evaluate_all(now);
        }
    }

    /// Requests from the dispatcher what is to be done with a pod, if that has changed (or if
    /// `notify` and the pod is to be removed); reports a pod that has been blocked for long; sets
    /// the timer of the pod.
    fn evaluate_pod(&mut self, now: Moment, uid: &PodUid, notify: bool) {
        let rules = self.rules(now);
        self.note_wishes(uid, &rules);
        let Some(entry) = self.pods.get_mut(uid) else { return };
        let before = entry.tally();
        match entry.follow_namespace(now, &rules.settings) {
            Some(NamespaceStep::Begins) => self.effects.push(Effect::AskNamespaces),
            Some(NamespaceStep::EndsInVain) => {
                let pod = entry.pod.key.clone();
                self.effects.push(Effect::Note(Note::NamespaceUnknown { pod }));
            }
            None => {}
        }
        entry.apply_time(&rules);
        self.tally.replace(before, entry.tally());
        self.view.missed |=
            entry.gone.is_some_and(|at| at.plus(rules.settings.relist_after) <= now);
        if let Some(block) = entry
            .block
            .as_mut()
            .filter(|b| !b.reported && b.since.plus(rules.settings.report_blocked_after) <= now)
        {
            block.reported = true;
            let (reason, message, since) = (block.reason, block.message.clone(), block.since);
            self.effects.push(Effect::Note(Note::Blocked {
                pod: entry.pod.key.clone(),
                uid: entry.pod.uid.clone(),
                reason,
                message,
                since,
            }));
        }
        let desired = entry.update_desired(&rules, now);
        let wake = entry.next_change(&rules, now);
        if wake != entry.wake {
            if let Some(at) = entry.wake {
                self.timers.remove(&(at, uid.clone()));
            }
            self.timers.extend(wake.map(|at| (at, uid.clone())));
            entry.wake = wake;
        }
        if desired == entry.requested && (!notify || desired == Desired::Nothing) {
            return;
        }
        entry.requested = desired;
        if entry.own
            && desired != Desired::Nothing
            && !std::mem::replace(&mut self.only_own_reported, true)
        {
            self.effects.push(Effect::OnlyOwnPodLeft);
        }
        self.effects.push(Effect::Dispatch(match desired.method() {
            None => DispatchInput::Cancel { uid: uid.clone() },
            Some(method) => {
                DispatchInput::Request { node: self.node.clone(), pod: entry.pod.clone(), method }
            }
        }));
    }

    fn send_priority(&mut self) {
        let deadline = self.limits.force_at.or(self.limits.end_at).unwrap_or(Moment::MAX);
        let priority =
            NodePriority { relaxed: !self.limits.urgent, deadline, left: self.tally.left };
        if self.priority != Some(priority) {
            self.priority = Some(priority);
            self.effects.insert(
                0,
                Effect::Dispatch(DispatchInput::Priority { node: self.node.clone(), priority }),
            );
        }
    }

    // ---- answers ----

    fn answered(&mut self, now: Moment, order: &Order, answer: &ApiAnswer) {
        let class = classify(answer);
        let limits = self.confirmed_limits();
        self.was_answered(order, answer, class);
        if let Some(entry) = self.pods.get_mut(order.uid()) {
            entry.is_unanswered = false;
        }
        if class == Class::Accepted {
            self.evicted_at = Some(now);
        }
        let Some(entry) = self.pods.get_mut(order.uid()).filter(|e| e.gone.is_none()) else {
            return;
        };
        let (before, key) = (entry.tally(), entry.pod.key.clone());
        match (class, order) {
            (Class::Accepted, _) => {
                entry.requested = Desired::Nothing;
                let limits = entry.limits_of(&limits, &self.settings);
                let note = entry.accepted(now, order, &limits);
                if matches!(note, Some(Note::Forced { .. })) {
                    self.forced.push(key);
                }
                self.effects.extend(note.map(Effect::Note));
            }
            (Class::Gone | Class::OtherUid, _) if !entry.listed_after_404 => entry.gone = Some(now),
            _ => {
                entry.refuse(now, class, order, full_message(answer));
                if class == Class::Malformed
                    && !std::mem::replace(&mut entry.malformed_reported, true)
                {
                    self.effects.push(Effect::Note(Note::Malformed {
                        pod: key,
                        message: full_message(answer),
                    }));
                }
            }
        }
        self.tally.replace(before, entry.tally());
        self.evaluate(now, order.uid(), false);
    }
}
