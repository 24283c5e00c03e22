//! The dispatcher: decides which request is sent next, and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Class, DispatchEffect, DispatchInput, DispatchSettings, DispatchStatus, Method,
    burst_gate::{BurstGate, BurstWaits},
    dispatch_state::{DrainingNode, PodRequest, SentRequest, State},
    request_queue::{QueueKey, Reply, SILENT_AFTER, SubQueue},
    request_queues::{BudgetOutcome, QueueLimits, RequestQueues},
    retry_backoff::RetryBackoff,
    slots::Slots,
};
use crate::domain::{Budget, BudgetKey, Moment, NodeName, Pod, PodUid, seconds};

/// How long the disruption controller may take to see that a pod is no longer ready. Until its
/// budget's status shows that, the API server counts the pod as healthy and evicts it although the
/// budget is then violated (seen 64 ms after the change of the pod's status).
const UNREADY_NOTICED: Duration = seconds(3);

/// The dispatcher over all drains: only what it lets through is sent.
#[derive(Debug)]
pub struct Dispatcher {
    slots: Slots,
    retry_backoff: RetryBackoff,
    pods: BTreeMap<PodUid, PodRequest>,
    namespaces: BTreeMap<Arc<str>, BTreeSet<PodUid>>,
    nodes: BTreeMap<NodeName, DrainingNode>,
    budgets: BTreeMap<Arc<BudgetKey>, Budget>,
    queues: RequestQueues,
    in_flight: BTreeMap<PodUid, SentRequest>,
    /// When each parked pod is retried even if nothing has changed.
    timers: BTreeSet<(Moment, PodUid)>,
    gate: BurstGate,
    overloaded_until: Option<Moment>,
    paused: bool,
}

impl Dispatcher {
    /// A dispatcher without pods and budgets.
    #[must_use]
    pub fn new(settings: DispatchSettings) -> Self {
        let waits = BurstWaits {
            quiet: settings.burst_quiet,
            urgent: settings.burst_urgent,
            relaxed: settings.burst_relaxed,
        };
        let slots = Slots::new(settings.in_flight);
        let limits = QueueLimits {
            per_budget: settings.per_budget,
            initial_window: settings.initial_window.max(1),
            max_window: slots.for_deletes(),
            suspects: slots.for_suspects(),
        };
        Self {
            slots,
            retry_backoff: RetryBackoff::new(settings.probe, settings.seed),
            pods: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            nodes: BTreeMap::new(),
            budgets: BTreeMap::new(),
            queues: RequestQueues::new(limits),
            in_flight: BTreeMap::new(),
            timers: BTreeSet::new(),
            gate: BurstGate::new(waits),
            overloaded_until: None,
            paused: false,
        }
    }

    /// Applies an input, and returns the requests to send now.
    pub fn step(&mut self, now: Moment, input: DispatchInput) -> Vec<DispatchEffect> {
        match input {
            DispatchInput::Request { node, pod, method } => {
                self.request_removal(now, node, pod, method);
            }
            DispatchInput::Cancel { uid } => self.forget(&uid),
            DispatchInput::Priority { node, priority } => {
                self.change_node(&node, |n| n.priority = priority);
            }
            DispatchInput::Closed { node } => self.close(&node),
            DispatchInput::Answer { uid, class } => self.answered(now, &uid, class),
            DispatchInput::Withdrawn { uid } => self.withdrawn(now, &uid),
            DispatchInput::Budget(budget) => self.budget_changed(&budget),
            DispatchInput::BudgetGone(key) => self.budget_gone(&key),
            DispatchInput::Paused { node, paused } if paused || self.nodes.contains_key(&node) => {
                self.change_node(&node, |n| n.paused = paused);
            }
            DispatchInput::PausedAll(paused) => self.paused = paused,
            DispatchInput::Arrived => self.gate.arrived(now),
            DispatchInput::Settled => self.gate.settled(),
            DispatchInput::Accepted { node, urgent } => self.accepted(now, &node, urgent),
            DispatchInput::Paused { .. } | DispatchInput::Tick => {}
        }
        self.pass_time(now);
        self.send_ready(now)
    }

    /// When the caller should send a [`DispatchInput::Tick`]; `None`: at no time.
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        let pod = self.timers.first().map(|(at, _)| *at);
        [pod, self.gate.opens_at(), self.overloaded_until, self.queues.next_wake()]
            .into_iter()
            .flatten()
            .min()
    }

    /// How many requests are in flight and waiting, and why.
    #[must_use]
    pub fn status(&self) -> DispatchStatus {
        let in_flight = self.in_flight.keys().filter(|uid| self.pods.contains_key(*uid)).count();
        DispatchStatus {
            in_flight: self.in_flight.len(),
            waiting: self.pods.len() - in_flight,
            undecided: self.gate.undecided(),
            held: self.gate.held(),
            overloaded_until: self.overloaded_until,
        }
    }

    // ---- sending ----

    fn pass_time(&mut self, now: Moment) {
        self.overloaded_until = self.overloaded_until.filter(|until| *until > now);
        for node in self.gate.open(now) {
            self.change_node(&node, |n| n.held = false);
        }
        self.queues.tick(now);
        while let Some((_, uid)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.wake(&uid);
        }
    }

    /// Returns all requests that may be sent: deletes first, then evictions, each in the order of
    /// priority.
    fn send_ready(&mut self, now: Moment) -> Vec<DispatchEffect> {
        let mut sends = Vec::new();
        while let Some(uid) = self.next() {
            self.leave_queue(&uid);
            let Some(queue) = self.pods.get(&uid).map(|request| self.queue_for_request(request))
            else {
                break;
            };
            let version = self.queues.sent(now, &queue);
            let Some(request) = self.pods.get_mut(&uid) else { break };
            request.state = State::InFlight;
            (request.retry_at_once, request.retry_by) = (false, None);
            let evict = !queue.is_delete();
            if let Some(node) = self.nodes.get_mut(&request.node).filter(|_| evict) {
                node.started = true;
            }
            sends.push(DispatchEffect::Send {
                node: request.node.clone(),
                uid: uid.clone(),
                evict,
            });
            self.in_flight
                .insert(uid, SentRequest { pod: request.pod.clone(), queue, sent: now, version });
        }
        sends
    }

    /// The pod that is next, if there is a slot for it.
    fn next(&self) -> Option<PodUid> {
        if self.paused {
            return None;
        }
        let (counted, all) = (self.queues.counted(), self.in_flight.len());
        let may_delete = self.slots.has_room_for_delete(counted, all);
        if let Some(until) = self.overloaded_until {
            // A delete whose deadline is before the end of the overload does not wait for that.
            return if may_delete { self.queues.next_delete_due(until) } else { None };
        }
        if may_delete && let Some(uid) = self.queues.next_delete() {
            return Some(uid);
        }
        let (uid, is_urgent) = self.queues.next_eviction()?;
        self.slots.has_room_for_eviction(is_urgent, counted, all).then_some(uid)
    }

    /// The queue whose slot the request of this pod takes now. With [`Method::EvictionOrDelete`]: a
    /// queue of evictions if it has room, otherwise the queue of deletes.
    fn queue_for_request(&self, request: &PodRequest) -> QueueKey {
        // An eviction must not take a slot that is reserved for deletes.
        let has_slot =
            || self.slots.has_room_for_eviction(true, self.queues.counted(), self.in_flight.len());
        if request.method == Method::EvictionOrDelete
            && self.overloaded_until.is_none()
            && has_slot()
        {
            let queue = self.queue_of(&request.pod, Method::Eviction);
            if self.queues.has_room(&queue) {
                return queue;
            }
        }
        request.queue.clone()
    }

    /// Records that a request ended. Returns whether it was an eviction; `None`: no request for
    /// this pod is in flight.
    fn end_request(&mut self, now: Moment, uid: &PodUid, class: Option<Class>) -> Option<bool> {
        let request = self.in_flight.remove(uid)?;
        let reply = match class {
            None => Reply::Withdrawn,
            Some(Class::Transient) if request.sent.plus(SILENT_AFTER) <= now => Reply::TimedOut,
            Some(_) => Reply::Answered,
        };
        let outcome = match class {
            Some(Class::Accepted) => BudgetOutcome::Used,
            Some(Class::Budget | Class::BudgetLagging { .. } | Class::BudgetBroken) => {
                BudgetOutcome::Refused(request.version)
            }
            _ => BudgetOutcome::Unaffected,
        };
        self.queues.ended(now, &request.queue, &request.pod, reply, outcome);
        Some(!request.queue.is_delete())
    }

    fn answered(&mut self, now: Moment, uid: &PodUid, class: Class) {
        let ended = self.end_request(now, uid, Some(class));
        if let Class::Overload { retry_after } = class {
            self.overloaded_until = self.overloaded_until.max(Some(now.plus(retry_after)));
        }
        let Some(was_eviction) = ended else { return };
        let Some(request) =
            self.pods.get_mut(uid).filter(|request| request.state == State::InFlight)
        else {
            return;
        };
        if class == Class::Accepted {
            self.forget(uid);
            return;
        }
        // `Gone` and `OtherUid` are here because the drain normally cancels the request right after
        // this. If a LIST has shown the pod since, it does not, and the request is sent again.
        let is_transient = matches!(
            class,
            Class::Transient
                | Class::Unauthorized
                | Class::Conflict
                | Class::Gone
                | Class::OtherUid
        );
        if was_eviction && request.method == Method::EvictionOrDelete {
            // The eviction was tried now. The drain requests the delete as soon as it has the
            // answer.
            request.method = Method::Delete;
        }
        let delete = request.method.is_delete();
        let wait = self.retry_backoff.wait(class, request.tries, delete);
        // By now the pod is to be deleted: a failed eviction is no reason to wait with that.
        let is_transient = is_transient && !(was_eviction && delete);
        request.tries = if is_transient { request.tries.saturating_add(1) } else { 0 };
        let on_budget =
            matches!(class, Class::Budget | Class::BudgetLagging { .. } | Class::BudgetBroken);
        request.state = match wait {
            Some(wait) if is_transient || !request.retry_at_once => {
                let until = now.plus(wait);
                State::Parked {
                    until: request.retry_by.take().map_or(until, |at| until.min(at.max(now))),
                    on_budget,
                }
            }
            _ => State::Ready,
        };
        self.enter_queue(uid);
    }

    fn withdrawn(&mut self, now: Moment, uid: &PodUid) {
        if self.end_request(now, uid, None).is_none() {
            return;
        }
        match self.pods.get_mut(uid) {
            Some(request) if request.retry_at_once => {
                request.state = State::Ready;
                self.enter_queue(uid);
            }
            Some(_) => self.forget(uid),
            None => {}
        }
    }

    // ---- pods to remove ----

    fn request_removal(&mut self, now: Moment, node: NodeName, pod: Arc<Pod>, method: Method) {
        let uid = pod.uid.clone();
        let (queue, delete) = (self.queue_of(&pod, method), method.is_delete());
        let is_in_flight = self.in_flight.contains_key(&uid);
        let Some(request) = self.pods.get(&uid) else {
            let node_state = self.nodes.entry(node.clone()).or_default();
            node_state.pods.insert(uid.clone());
            node_state.join(&queue);
            self.namespaces.entry(pod.key.namespace.clone()).or_default().insert(uid.clone());
            let state = if is_in_flight { State::InFlight } else { State::Ready };
            self.pods.insert(
                uid.clone(),
                PodRequest {
                    node,
                    pod,
                    method,
                    queue,
                    state,
                    tries: 0,
                    retry_at_once: is_in_flight,
                    retry_by: None,
                },
            );
            self.enter_queue(&uid);
            return;
        };
        let changed = request.pod.phase != pod.phase || request.pod.labels != pod.labels;
        let is_retry_useful =
            request.method != method || (changed || !request.pod.ready && pod.ready) && !delete;
        let became_unready = request.pod.ready && !pod.ready && !delete;
        self.leave_queue(&uid);
        if let Some(request) = self.pods.get_mut(&uid) {
            request.pod = pod;
            if request.method != method {
                request.tries = 0;
            }
            request.method = method;
        }
        self.move_to_queue(&uid, queue);
        if is_retry_useful {
            self.make_ready(&uid);
        } else if became_unready {
            self.make_ready_after(&uid, now.plus(UNREADY_NOTICED));
        }
        self.enter_queue(&uid);
    }

    /// Forgets a pod that is no longer to be removed. A request in flight still counts until its
    /// answer.
    fn forget(&mut self, uid: &PodUid) {
        self.leave_queue(uid);
        let Some(request) = self.pods.remove(uid) else { return };
        if let Some(node) = self.nodes.get_mut(&request.node) {
            node.pods.remove(uid);
            node.leave(&request.queue);
        }
        let namespace = &request.pod.key.namespace;
        if let Some(pods) = self.namespaces.get_mut(namespace) {
            pods.remove(uid);
            if pods.is_empty() {
                self.namespaces.remove(namespace);
            }
        }
    }

    fn close(&mut self, node: &NodeName) {
        for uid in self.nodes.get(node).map(|n| n.pods.clone()).unwrap_or_default() {
            self.forget(&uid);
        }
        self.nodes.remove(node);
        self.gate.forget(node);
    }

    // ---- queues ----

    /// Puts a pod into the queue and timers that fit its state.
    fn enter_queue(&mut self, uid: &PodUid) {
        let Some(request) = self.pods.get(uid) else { return };
        let Some(node) = self.nodes.get(&request.node) else { return };
        let priority = node.priority_in(&request.queue);
        match request.state {
            State::InFlight => {}
            State::Ready => {
                self.queues.add(
                    &request.queue,
                    SubQueue::Fresh,
                    &request.node,
                    priority,
                    &request.pod,
                );
            }
            State::Parked { until, on_budget } => {
                self.timers.insert((until, uid.clone()));
                if on_budget && !request.method.is_delete() {
                    self.queues.add(
                        &request.queue,
                        SubQueue::Parked,
                        &request.node,
                        priority,
                        &request.pod,
                    );
                }
            }
        }
    }

    /// Takes a pod out of its queue and timers; its state stays.
    fn leave_queue(&mut self, uid: &PodUid) {
        let Some(request) = self.pods.get(uid) else { return };
        match request.state {
            State::InFlight => return,
            State::Ready => {}
            State::Parked { until, .. } => {
                self.timers.remove(&(until, uid.clone()));
            }
        }
        self.queues.remove(&request.queue, &request.node, &request.pod);
    }

    /// Something happened that could help: a parked pod becomes ready, and a pod whose request is
    /// in flight is retried at once if it is refused.
    fn wake(&mut self, uid: &PodUid) {
        self.leave_queue(uid);
        self.make_ready(uid);
        self.enter_queue(uid);
    }

    fn make_ready(&mut self, uid: &PodUid) {
        match self.pods.get_mut(uid) {
            Some(request) if request.state == State::InFlight => request.retry_at_once = true,
            Some(request) => request.state = State::Ready,
            None => {}
        }
    }

    /// Like [`make_ready`](Self::make_ready), but not before `at`; at once if the pod is not in the queue of
    /// a budget.
    fn make_ready_after(&mut self, uid: &PodUid, at: Moment) {
        match self.pods.get_mut(uid) {
            Some(PodRequest { queue: QueueKey::Budget(_), state, retry_by, .. }) => match state {
                State::Parked { until, .. } => *until = at.min(*until),
                State::InFlight => *retry_by = Some(at),
                State::Ready => {}
            },
            _ => self.make_ready(uid),
        }
    }

    /// Must be called while the pod is in no queue.
    fn move_to_queue(&mut self, uid: &PodUid, queue: QueueKey) {
        let Some(request) = self.pods.get_mut(uid).filter(|request| request.queue != queue) else {
            return;
        };
        if let Some(node) = self.nodes.get_mut(&request.node) {
            node.leave(&request.queue);
            node.join(&queue);
        }
        request.queue = queue;
    }

    // ---- nodes ----

    /// Changes the state of a node, and its priority in every queue in which its pods wait.
    fn change_node(&mut self, name: &NodeName, f: impl FnOnce(&mut DrainingNode)) {
        let node = self.nodes.entry(name.clone()).or_default();
        let before = (node.priority, node.paused, node.held);
        f(node);
        if before == (node.priority, node.paused, node.held) {
            return;
        }
        for queue in node.queues.keys() {
            self.queues.set_priority(queue, name, node.priority_in(queue));
        }
    }

    fn accepted(&mut self, now: Moment, name: &NodeName, urgent: bool) {
        if self.nodes.get(name).is_some_and(|n| n.started) {
            return;
        }
        self.gate.accepted(now, name.clone(), urgent);
        self.change_node(name, |n| n.held = true);
    }

    // ---- budgets ----

    fn queue_of(&self, pod: &Pod, method: Method) -> QueueKey {
        let namespace = &pod.key.namespace;
        if method.is_delete() {
            return QueueKey::Deletes(namespace.clone());
        }
        let first = BudgetKey { namespace: namespace.to_string(), name: String::new() };
        let mut matching = self
            .budgets
            .range(first..)
            .take_while(|(key, _)| *key.namespace == **namespace)
            .filter(|(_, b)| b.selects(pod));
        match (matching.next(), matching.next()) {
            (None, _) => QueueKey::Unbudgeted(namespace.clone()),
            (Some((key, _)), None) => QueueKey::Budget(key.clone()),
            (Some(_), Some(_)) => QueueKey::SeveralBudgets(namespace.clone()),
        }
    }

    fn budget_changed(&mut self, budget: &Budget) {
        let key = self
            .budgets
            .get_key_value(&budget.key)
            .map_or_else(|| Arc::new(budget.key.clone()), |(key, _)| key.clone());
        let before = self.budgets.insert(key.clone(), budget.clone());
        let selector_is_new = before.as_ref().is_none_or(|b| b.selector != budget.selector);
        let spec_is_new = before.as_ref().is_none_or(|b| b.generation != budget.generation);
        let unready = self.queues.budget(&key, budget);
        if selector_is_new {
            self.requeue(&budget.key.namespace, |pod| {
                budget.selects(pod) || before.as_ref().is_some_and(|b| b.selects(pod))
            });
        } else if spec_is_new {
            // The API server refuses a pod that two budgets select before it looks at their status,
            // so only their specs matter.
            let has_several_budgets = |request: &PodRequest| {
                matches!(request.queue, QueueKey::SeveralBudgets(_)) && budget.selects(&request.pod)
            };
            for uid in self.in_namespace(&budget.key.namespace, has_several_budgets) {
                self.wake(&uid);
            }
        }
        for uid in unready {
            if self.pods.get(&uid).is_some_and(|request| !request.pod.ready) {
                self.wake(&uid);
            }
        }
    }

    fn budget_gone(&mut self, key: &BudgetKey) {
        let Some((shared, budget)) = self.budgets.remove_entry(key) else { return };
        self.queues.budget_gone(shared);
        self.requeue(&key.namespace, |pod| budget.selects(pod));
    }

    fn in_namespace(
        &self,
        namespace: &str,
        is_affected: impl Fn(&PodRequest) -> bool,
    ) -> Vec<PodUid> {
        let uids = self.namespaces.get(namespace).into_iter().flatten();
        uids.filter(|uid| self.pods.get(*uid).is_some_and(&is_affected)).cloned().collect()
    }

    /// The budgets of a namespace select other pods than before: puts the affected pods into their
    /// new queues, ready to be tried.
    fn requeue(&mut self, namespace: &str, is_affected: impl Fn(&Pod) -> bool) {
        for uid in self.in_namespace(namespace, |request| is_affected(&request.pod)) {
            let Some(queue) =
                self.pods.get(&uid).map(|request| self.queue_of(&request.pod, request.method))
            else {
                continue;
            };
            self.leave_queue(&uid);
            self.move_to_queue(&uid, queue);
            self.make_ready(&uid);
            self.enter_queue(&uid);
        }
    }
}
