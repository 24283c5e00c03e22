//! What scenarios break.

use super::{
    Away, EmbeddedKube, EvictionReview, EvictionVerdict, Fault, Match, PodState, Rule, RuleId,
    Timing, agenda::Task, eviction::Conflicts, object::Key, store::State, watch::Push,
};
use crate::sim::{Disturbance, Tripwire};

/// Faults.
impl EmbeddedKube {
    /// Requests that match get the fault.
    pub fn inject(&self, rule: Rule) -> RuleId {
        self.lock().rules.add(rule)
    }

    /// Removes a fault that [`inject`](Self::inject) has added.
    pub fn lift(&self, rule: RuleId) {
        self.lock().rules.lift(rule);
    }

    /// The verb on the resource (`pods`, `pods/eviction`) is forbidden, as if RBAC did not allow
    /// it.
    pub fn deny(&self, verb: &str, resource: &str) -> RuleId {
        self.inject(Rule::always(Match::of(verb, resource), Fault::Forbidden))
    }

    /// The server is away.
    pub fn go_away(&self, how: Away) {
        let mut state = self.lock();
        state.rules.away = Some(how);
        let last = if how == Away::Refusing { Push::Break } else { Push::Silence };
        state.disturb_watches(&Match::all(), Some(&last));
    }

    /// It is back.
    pub fn come_back(&self) {
        self.lock().rules.away = None;
    }

    /// Cuts off the clients whose tags begin like this: their requests do not arrive, answers to
    /// requests that were under way do not either, and their watches stay open and silent.
    pub fn cut_off(&self, client: &str) {
        let mut state = self.lock();
        state.rules.cut_off.insert(client.to_owned());
        state.disturb_watches(&Match::all().from(client), Some(&Push::Silence));
    }

    /// Ends that. Watches that were open stay silent.
    pub fn reconnect(&self, client: &str) {
        self.lock().rules.cut_off.remove(client);
    }

    /// Requests pass this tripwire from now on.
    pub fn tripwire(&self, tripwire: &Tripwire) {
        self.lock().tripwire = tripwire.clone();
    }

    /// Everything but watches gets 429 in plain text with this `Retry-After`; `None` ends that.
    pub fn overload(&self, retry_after: Option<u32>) {
        self.lock().rules.overload = retry_after;
    }

    /// Every token is refused.
    pub fn unauthorized(&self, on: bool) {
        self.lock().rules.unauthorized = on;
    }

    /// Open watches that match end.
    pub fn cut_watches(&self, matching: &Match) {
        self.lock().disturb_watches(matching, None);
    }

    /// Open watches that match break in the middle, as when a connection is reset.
    pub fn break_watches(&self, matching: &Match) {
        self.lock().disturb_watches(matching, Some(&Push::Break));
    }

    /// Open watches that match send nothing from now on, but stay open.
    pub fn silence_watches(&self, matching: &Match) {
        self.lock().disturb_watches(matching, Some(&Push::Silence));
    }

    /// History is forgotten: a watch from before now gets 410, and so does a list that is
    /// continued.
    pub fn compact(&self) {
        self.lock().compact();
    }

    /// An admission webhook for evictions.
    pub fn eviction_webhook(
        &self,
        hook: impl Fn(&EvictionReview) -> EvictionVerdict + Send + Sync + 'static,
    ) {
        self.lock().hook = Some(Box::new(hook));
    }

    /// The next `times` deletions of a pod by eviction meet a conflict; at the first the pod
    /// changes to the state `becomes`.
    pub fn conflict_evictions(
        &self,
        namespace: &str,
        name: &str,
        times: usize,
        becomes: Option<PodState>,
    ) {
        self.lock().conflicts.insert(Key::new(namespace, name), Conflicts { left: times, becomes });
    }

    /// The disruption controller stands still; statuses of budgets stay as they are.
    pub fn freeze_disruption_controller(&self, frozen: bool) {
        let mut state = self.lock();
        state.frozen.disruption = frozen;
        let now = state.now();
        for key in state.index.budgets.keys().cloned().collect::<Vec<_>>() {
            state.agenda.at(now, Task::Budget(key));
        }
    }

    /// The scheduler stands still.
    pub fn freeze_scheduler(&self, frozen: bool) {
        let mut state = self.lock();
        state.frozen.scheduler = frozen;
        let now = state.now();
        state.agenda.at(now, Task::Schedule);
    }

    /// How long the parts take from now on.
    pub fn set_timing(&self, timing: Timing) {
        self.lock().options.timing = timing;
    }
}

impl State {
    /// Ends the matching watches with a last word, and notes which they were.
    fn disturb_watches(&mut self, matching: &Match, last: Option<&Push>) {
        let at = self.now();
        let is_silent = last.is_some_and(|last| matches!(last, Push::Silence));
        for asked in self.watches.end(matching, last) {
            let what = format!("watch {}", asked.resource);
            let fault = Disturbance {
                at,
                until: Some(at),
                by: asked.client,
                what,
                object: String::new(),
                is_silent,
            };
            if self.journal.on {
                self.journal.disturbances.push(fault);
            }
        }
    }
}
