//! The drain of one node.

mod arrivals;
mod ending;
mod left;
mod unanswered;

use std::collections::{BTreeMap, BTreeSet};

use self::{arrivals::Source, unanswered::Unanswered};
use super::{
    Class, DispatchInput, Effect, Input, LeftAlone, Note, Order, Outcome, Phase, Settings, Start,
    Status, Turn,
    answer::words,
    classify,
    comebacks::Comebacks,
    daemon_sets::{DaemonSetKey, DaemonSets, Lookup},
    pod::{Belongs, Entry, Rules, Tally, Wish},
    silence::Silence,
    status,
    view::View,
};
use crate::domain::{ApiAnswer, DaemonSetState, Limits, Moment, NodeName, Pod, PodKey, PodUid};

/// The drain of one node.
#[derive(Debug)]
pub struct Drain {
    node: NodeName,
    cordoned_at: Moment,
    own_pod: Option<PodKey>,
    settings: Settings,
    limits: Limits,
    /// Boxed, because the map reserves room for eleven pods at once: of ten thousand nodes with a
    /// few pods each that is much.
    pods: BTreeMap<PodUid, Box<Entry>>,
    tally: Tally,
    daemon_sets: DaemonSets,
    comebacks: Comebacks,
    /// When which pod is to be looked at again.
    timers: BTreeSet<(Moment, PodUid)>,
    /// Our own pods among `pods` (the name may be used again).
    own: BTreeSet<PodUid>,
    forced: Vec<PodKey>,
    /// Deletes by force that have no answer.
    unanswered: BTreeMap<PodUid, Unanswered>,
    view: View,
    paused: bool,
    over: bool,
    silence: Silence,
    /// What the dispatcher knows of our place.
    turn: Option<Turn>,
    only_own_told: bool,
    out: Vec<Effect>,
}

impl Drain {
    /// A drain at its take-up: at the accept, after a change of leader.
    #[must_use]
    pub fn new(start: Start, settings: Settings) -> Self {
        Self {
            node: start.node,
            cordoned_at: start.cordoned_at,
            own_pod: start.own_pod,
            settings,
            limits: start.limits,
            pods: BTreeMap::new(),
            tally: Tally::default(),
            daemon_sets: DaemonSets::default(),
            comebacks: Comebacks::default(),
            timers: BTreeSet::new(),
            own: BTreeSet::new(),
            forced: Vec::new(),
            unanswered: BTreeMap::new(),
            view: View::default(),
            paused: false,
            over: false,
            silence: Silence::default(),
            turn: None,
            only_own_told: false,
            out: Vec::new(),
        }
    }

    /// Its node.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Takes an input and says what is to be done.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        if self.over {
            return Vec::new();
        }
        self.take(now, input);
        self.tell_unanswered(false);
        if self.view.has_caught_up(now) {
            self.look_at_all(now);
        }
        self.look_at_due(now);
        self.end_if_over(now);
        if !self.over {
            self.tell_turn();
        }
        std::mem::take(&mut self.out)
    }

    fn take(&mut self, now: Moment, input: Input) {
        match input {
            Input::Listed(pods) => self.listed(now, pods),
            Input::Changed(pod) => {
                if let Some((uid, matters)) = self.insert(now, pod, Source::Watch) {
                    self.look_at(now, &uid, matters);
                }
            }
            Input::Gone(uid) => self.remove(now, &uid),
            Input::Watch(state) => {
                if self.view.watch(now, state, &self.settings) {
                    self.look_at_all(now);
                }
            }
            Input::DaemonSet { namespace, name, state } => {
                self.daemon_set(now, (namespace, name), state);
            }
            Input::Paused if !self.paused => {
                self.paused = true;
                self.look_at_all(now);
            }
            Input::Resumed(limits) if self.paused => {
                self.paused = false;
                self.limits = limits;
                self.silence.resumed(now);
                self.look_at_all(now);
            }
            Input::Limits(limits) | Input::Resumed(limits) => self.limit(now, limits),
            Input::Node(condition) => self.condition(now, condition),
            Input::Answer { order, answer } => self.answered(now, &order, &answer),
            Input::Release => self.end(Outcome::Released { left: self.left() }),
            Input::Paused | Input::Tick => {}
        }
    }

    /// What to send for a pod that the dispatcher let go, computed for `now`; `None`: nothing is
    /// wanted for it any more. The dispatcher, told so, forgets it: what is wanted later has to be
    /// told anew. `evict` is what the dispatcher said of room for an eviction.
    #[must_use]
    pub fn order(&mut self, uid: &PodUid, now: Moment, evict: bool) -> Option<Order> {
        let rules = self.rules(now);
        let entry = self.pods.get_mut(uid)?;
        let order = entry.order(&rules, now, evict);
        if order.is_none() {
            entry.told = Wish::Nothing;
        }
        if let Some(order) = &order {
            self.sent(order, now);
        }
        order
    }

    /// Until when the answer to an eviction of this pod that is sent now is waited for; `None`: as
    /// long as for any call.
    #[must_use]
    pub fn evict_until(&self, uid: &PodUid, now: Moment) -> Option<Moment> {
        self.pods.get(uid)?.evict_until(&self.rules(now), now)
    }

    /// What people should hear of an order that is sent now if it is accepted: that a pod was
    /// deleted by force. This drain says so itself, unless it has ended by then, or knows nothing
    /// of the pod any more.
    #[must_use]
    pub fn note_if_accepted(&self, order: &Order) -> Option<Note> {
        self.pods.get(order.uid())?.note_of(order)
    }

    /// When it wants an [`Input::Tick`].
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        if self.over {
            return None;
        }
        let pod = self.timers.first().map(|(at, _)| *at);
        [pod, self.next_end()].into_iter().flatten().min()
    }

    /// The pods of the node have been listed since this drain was taken up: what it says is left is
    /// all that is left.
    #[must_use]
    pub const fn has_listed_pods(&self) -> bool {
        self.view.listed_at.is_some()
    }

    /// Every pod that counts is terminating (or none is left): the node's load balancers need it no
    /// more.
    #[must_use]
    pub const fn is_last_pod_terminating(&self) -> bool {
        self.view.listed_at.is_some() && self.tally.terminating == self.tally.left
    }

    /// What it says of itself.
    #[must_use]
    pub fn status(&self, now: Moment) -> Status {
        let phase = match (self.over, self.paused, self.view.listed_at.is_some()) {
            (true, ..) => Phase::Ended,
            (_, true, _) => Phase::Paused,
            (.., false) => Phase::Listing,
            _ => Phase::Draining,
        };
        let (counts, blocked) =
            status::summary(self.pods.values().map(|entry| &**entry), self.tally);
        let unreachable = self.gives_up_at();
        let ends_at = [self.limits.end_at, unreachable]
            .into_iter()
            .flatten()
            .min()
            .map(|at| if self.over { now.min(at) } else { at });
        let left_alone = self.comebacks.left_alone();
        let left_alone = left_alone
            .map(|((namespace, owner), new)| LeftAlone {
                namespace: namespace.clone(),
                owner: owner.clone(),
                new,
            })
            .collect();
        Status { phase, counts, blocked, forced: self.forced.clone(), left_alone, ends_at }
    }

    // ---- pods ----

    fn rules(&self, now: Moment) -> Rules {
        Rules {
            limits: self.limits,
            settings: self.settings,
            still: self.paused || self.over,
            own_may_go: self.view.listed_at.is_some() && self.tally.others == 0,
            known_until: self.view.known_until(now),
            blind: self.view.is_blind(),
        }
    }

    /// Takes all pods first and looks at them afterwards: our own pod must not seem to be the last
    /// one in between.
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
        for (uid, matters) in changed {
            self.look_at(now, &uid, matters);
        }
    }

    /// Takes a pod in, or what is new of it, without looking at what follows. Whether the
    /// dispatcher should hear of it even if the same is wanted.
    fn insert(&mut self, now: Moment, mut pod: Pod, source: Source) -> Option<(PodUid, bool)> {
        if pod.node.as_ref().is_some_and(|node| *node != self.node) {
            return None;
        }
        self.share(&mut pod);
        let uid = pod.uid.clone();
        let (before, matters) = if let Some(entry) = self.pods.get_mut(&uid) {
            let before = entry.tally();
            let matters = entry.update(pod);
            if source != Source::Watch {
                entry.found(now);
            }
            (before, matters)
        } else {
            let entry = self.newcomer(now, pod, source);
            if entry.own {
                self.own.insert(uid.clone());
            }
            self.pods.insert(uid.clone(), Box::new(entry));
            (Tally::default(), false)
        };
        self.sort_in(&uid);
        if let Some(entry) = self.pods.get(&uid) {
            self.tally.replace(before, entry.tally());
        }
        Some((uid, matters))
    }

    /// Has a pod share the texts that pods of this node have in common: there may be tens of
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

    /// Finds out whether a DaemonSet's pod counts, or asks.
    fn sort_in(&mut self, uid: &PodUid) {
        let Some(entry) =
            self.pods.get(uid).filter(|e| e.belongs == Belongs::Unknown && e.gone.is_none())
        else {
            return;
        };
        let Some(owner) = &entry.pod.owner else { return };
        let key = (entry.pod.key.namespace.to_string(), owner.name.clone());
        match self.daemon_sets.look_up(&key, uid) {
            Lookup::Known(state) => self.belongs_to(uid, state),
            Lookup::Ask => self.out.push(Effect::AskDaemonSet { namespace: key.0, name: key.1 }),
            Lookup::Wait => {}
        }
    }

    /// This is known of the DaemonSet that owns a pod.
    fn belongs_to(&mut self, uid: &PodUid, state: DaemonSetState) {
        let Some(entry) = self.pods.get_mut(uid).filter(|e| e.belongs == Belongs::Unknown) else {
            return;
        };
        let Some(owner) = &entry.pod.owner else { return };
        match state {
            DaemonSetState::Gone => {
                entry.belongs = Belongs::Counts;
                self.out.push(Effect::Note(Note::OrphanedDaemonSet {
                    pod: entry.pod.key.clone(),
                    daemon_set: owner.name.clone(),
                }));
            }
            DaemonSetState::There | DaemonSetState::Unreadable => {
                entry.belongs = Belongs::Untouched;
            }
        }
    }

    fn daemon_set(&mut self, now: Moment, key: DaemonSetKey, state: DaemonSetState) {
        let name = key.1.clone();
        for uid in self.daemon_sets.answer(key, state) {
            // It may have been adopted by another one meanwhile.
            let owned = |e: &&Entry| e.pod.owner.as_ref().is_some_and(|o| o.name == name);
            let Some(before) = self.pods.get(&uid).map(|e| &**e).filter(owned).map(Entry::tally)
            else {
                continue;
            };
            self.belongs_to(&uid, state);
            if let Some(entry) = self.pods.get(&uid) {
                self.tally.replace(before, entry.tally());
            }
            self.look_at(now, &uid, false);
        }
        self.look_at_own(now);
    }

    fn remove(&mut self, now: Moment, uid: &PodUid) {
        let Some(entry) = self.pods.remove(uid) else { return };
        self.was_removed(&entry.pod);
        self.tally.replace(entry.tally(), Tally::default());
        if let Some(at) = entry.wake {
            self.timers.remove(&(at, uid.clone()));
        }
        if entry.told != Wish::Nothing {
            self.out.push(Effect::Dispatch(DispatchInput::Unwant { uid: uid.clone() }));
        }
        if entry.own {
            self.own.remove(uid);
        }
        self.look_at_own(now);
    }

    // ---- what is wanted ----

    /// Looks at one pod after something changed, and at our own when that makes it the last one (or
    /// no longer the last).
    fn look_at(&mut self, now: Moment, uid: &PodUid, matters: bool) {
        self.look_at_one(now, uid, matters);
        self.look_at_own(now);
    }

    fn look_at_own(&mut self, now: Moment) {
        for uid in self.own.clone() {
            self.look_at_one(now, &uid, false);
        }
    }

    fn look_at_all(&mut self, now: Moment) {
        let all: Vec<PodUid> = self.pods.keys().cloned().collect();
        for uid in all {
            self.look_at_one(now, &uid, false);
        }
    }

    fn look_at_due(&mut self, now: Moment) {
        while let Some((at, uid)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.timers.remove(&(at, uid.clone()));
            self.look_at_one(now, &uid, false);
        }
    }

    /// Tells the dispatcher what is wanted for a pod, if that is new; says aloud what has to be;
    /// sets its timer.
    fn look_at_one(&mut self, now: Moment, uid: &PodUid, matters: bool) {
        let rules = self.rules(now);
        let Some(entry) = self.pods.get_mut(uid) else { return };
        let before = entry.tally();
        entry.age(&rules);
        self.tally.replace(before, entry.tally());
        self.view.missed |=
            entry.gone.is_some_and(|at| at.plus(rules.settings.relist_after) <= now);
        if let Some(block) = entry
            .block
            .as_mut()
            .filter(|b| !b.told && b.since.plus(rules.settings.tell_blocked_after) <= now)
        {
            block.told = true;
            let (reason, message, since) = (block.reason, block.message.clone(), block.since);
            self.out.push(Effect::Note(Note::Blocked {
                pod: entry.pod.key.clone(),
                uid: entry.pod.uid.clone(),
                reason,
                message,
                since,
            }));
        }
        let wish = entry.look(&rules, now);
        let wake = entry.next_change(&rules, now);
        if wake != entry.wake {
            if let Some(at) = entry.wake {
                self.timers.remove(&(at, uid.clone()));
            }
            self.timers.extend(wake.map(|at| (at, uid.clone())));
            entry.wake = wake;
        }
        if wish == entry.told && (!matters || wish == Wish::Nothing) {
            return;
        }
        entry.told = wish;
        if entry.own && wish != Wish::Nothing && !std::mem::replace(&mut self.only_own_told, true) {
            self.out.push(Effect::OnlyOwnPodLeft);
        }
        self.out.push(Effect::Dispatch(match wish.by() {
            None => DispatchInput::Unwant { uid: uid.clone() },
            Some(by) => DispatchInput::Want { node: self.node.clone(), pod: entry.pod.clone(), by },
        }));
    }

    fn tell_turn(&mut self) {
        let deadline = self.limits.force_at.or(self.limits.end_at).unwrap_or(Moment::MAX);
        let turn = Turn { relaxed: !self.limits.urgent, deadline, left: self.tally.left };
        if self.turn != Some(turn) {
            self.turn = Some(turn);
            self.out
                .insert(0, Effect::Dispatch(DispatchInput::Turn { node: self.node.clone(), turn }));
        }
    }

    // ---- answers ----

    fn answered(&mut self, now: Moment, order: &Order, answer: &ApiAnswer) {
        let class = classify(answer);
        self.was_answered(order, answer, class);
        let Some(entry) = self.pods.get_mut(order.uid()).filter(|e| e.gone.is_none()) else {
            return;
        };
        let (before, key) = (entry.tally(), entry.pod.key.clone());
        match (class, order) {
            (Class::Accepted, _) => {
                entry.told = Wish::Nothing;
                let note = entry.accepted(now, order, self.limits.force_at);
                if matches!(note, Some(Note::Forced { .. })) {
                    self.forced.push(key);
                }
                self.out.extend(note.map(Effect::Note));
            }
            (Class::Gone | Class::OtherUid, _) if !entry.is_there => entry.gone = Some(now),
            _ => {
                entry.refuse(now, class, order, words(answer));
                if class == Class::Malformed && !std::mem::replace(&mut entry.malformed, true) {
                    self.out
                        .push(Effect::Note(Note::Malformed { pod: key, message: words(answer) }));
                }
            }
        }
        self.tally.replace(before, entry.tally());
        self.look_at(now, order.uid(), false);
    }
}
