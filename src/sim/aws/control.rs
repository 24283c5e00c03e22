//! What a scenario or a test does to the embedded AWS, and what it can see.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use tokio::sync::mpsc;

use super::{
    ActionReport, Call, Check, CheckChange, Deletion, Disorder, EmbeddedAws, FaultId, FaultRule,
    GroupSpec, HealthNotice, HookResult, HookSpec, Instance, InstanceChange, InstanceSpec, Member,
    Outcome, PlannedEvent, QueueSettings, QueueView, Rule, SentMessage, ServiceChange, SpotAction,
    State,
    autoscaling::{Group, Named},
    events::EventKind,
    sqs::Queue,
};
use crate::{
    domain::Moment,
    sim::{Disturbance, Tripwire},
};

/// Queues.
impl EmbeddedAws {
    /// Creates a queue (or changes the settings of an existing one) and returns its URL. SQS itself
    /// refuses this in the minute after a queue of this name was deleted, but this method does not:
    /// the caller must wait.
    pub fn create_queue(&self, name: &str, settings: QueueSettings) -> String {
        self.shared.with(|state, _| state.make_queue(name, settings))
    }

    /// Deletes a queue with all its messages; calls for it then get "queue does not exist".
    pub fn delete_queue(&self, name: &str) {
        self.shared.with(|state, now| state.delete_queue(now, name));
    }

    /// The URL that SQS gives for a queue of this name, whether or not the queue exists.
    pub fn queue_url(&self, name: &str) -> String {
        self.shared.with(|state, _| state.queue_url(name))
    }

    /// Puts a message with exactly this body on a queue; returns its id (empty if there is no
    /// such queue).
    pub fn send_event(&self, queue: &str, body: &str) -> String {
        self.shared.with(|state, now| state.put(now, queue, body)).unwrap_or_default()
    }

    /// The messages of a queue now; `None`: no such queue.
    pub fn queue(&self, name: &str) -> Option<QueueView> {
        self.shared.with(|state, _| state.queues.get(name).map(Queue::view))
    }

    /// The settings of a queue; `None`: no such queue.
    pub fn queue_settings(&self, name: &str) -> Option<QueueSettings> {
        self.shared.with(|state, _| state.queues.get(name).map(|queue| queue.settings.clone()))
    }

    /// Lets a queue duplicate, reorder and forget.
    pub fn disorder(&self, queue: &str, disorder: Disorder) {
        self.shared.with(|state, _| {
            if let Some(queue) = state.queues.get_mut(queue) {
                queue.disorder = disorder;
            }
        });
    }

    /// Adds a rule of EventBridge.
    pub fn route(&self, rule: Rule) {
        self.shared.with(|state, _| state.rules.push(rule));
    }

    /// Adds a rule of EventBridge in place of those that have its name.
    pub fn reroute(&self, rule: Rule) {
        self.shared.with(|state, _| {
            state.rules.retain(|r| r.name != rule.name);
            state.rules.push(rule);
        });
    }

    /// EventBridge delivers no event of AWS until then: a target without a dead-letter queue drops
    /// events silently when the key or the policy of its queue refuses them.
    pub fn lose_events(&self, until: Moment) {
        self.shared.with(|state, _| state.events_lost_until = Some(until));
    }
}

/// Instances.
impl EmbeddedAws {
    /// Puts an instance there that belongs to no group; returns its id.
    pub fn create_instance(&self, spec: InstanceSpec) -> String {
        self.shared.with(|state, now| state.create_instance(now, spec, None))
    }

    /// An instance, also some time after its end.
    pub fn instance(&self, id: &str) -> Option<Instance> {
        self.shared.with(|state, _| state.instances.get(id).cloned())
    }

    /// All instances, by id, ended ones included until EC2 forgets them.
    pub fn instances(&self) -> Vec<Instance> {
        self.shared.with(|state, _| state.instances.values().cloned().collect())
    }

    /// Shows each instance, without a copy of it. `look` must not ask this AWS for anything else.
    pub fn each_instance(&self, look: impl FnMut(&Instance)) {
        self.shared.with(|state, _| state.instances.values().for_each(look));
    }

    /// Every change of an instance's state from now on, in order, none lost.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<InstanceChange> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.shared.with(|state, _| state.subscribers.push(sender));
        receiver
    }

    /// Sends the two-minute warning and ends the instance (stops it) two minutes later; hibernation
    /// begins at once. Of an instance that is not there nothing but the warning is seen.
    pub fn spot_interruption(&self, instance: &str, action: SpotAction) {
        self.shared.with(|state, now| state.spot_interruption(now, instance, action));
    }

    /// The two-minute warning of an interruptible capacity reservation, and the end of the instance
    /// two minutes later.
    pub fn capacity_interruption(&self, instance: &str) {
        self.shared.with(|state, now| state.capacity_interruption(now, instance));
    }

    /// Puts an instance into a Capacity Block (`cr-…`).
    pub fn put_in_block(&self, instance: &str, reservation: &str) {
        self.shared.with(|state, _| {
            if let Some(instance) = state.instances.get_mut(instance) {
                instance.capacity_reservation = Some(reservation.to_owned());
            }
        });
    }

    /// The warning that a Capacity Block ends in 40 minutes, and the end of the instances that are
    /// in it now, ten minutes later.
    pub fn block_ends(&self, reservation: &str) {
        self.shared.with(|state, now| state.block_ends(now, reservation));
    }

    /// Sends a rebalance recommendation; nothing else happens.
    pub fn rebalance_recommendation(&self, instance: &str) {
        let detail = serde_json::json!({ "instance-id": instance });
        self.shared.with(|state, now| {
            state.send_about_instance(now, EventKind::Rebalance, instance, &detail);
        });
    }

    /// Sends a notice of AWS Health; nothing else happens.
    pub fn health(&self, notice: &HealthNotice) {
        self.shared.with(|state, now| state.health(now, notice));
    }

    /// Sends a state-change notification although nothing changed.
    pub fn state_change_event(&self, instance: &str, to: State) {
        self.shared.with(|state, now| state.send_state_change(now, instance, to));
    }

    /// Somebody suspends a process of a group, such as `ReplaceUnhealthy`.
    pub fn suspend(&self, group: &str, process: &str) {
        self.shared.with(|state, _| {
            if let Some(found) = state.groups.get_mut(group) {
                found.suspended.insert(process.to_owned());
            }
        });
    }

    /// A status check of an instance begins to fail, or passes again.
    pub fn fail_check(&self, instance: &str, check: Check, fails: bool) {
        self.shared.with(|state, now| {
            let since = state.aws_time(now);
            let failed = &mut state.statuses.entry(instance.to_owned()).or_default().failed;
            if fails {
                failed.entry(check).or_insert(since);
            } else {
                failed.remove(&check);
            }
            let fails = !failed.is_empty();
            state.check_changes.push(CheckChange { at: now, instance: instance.to_owned(), fails });
        });
    }

    /// When the status checks of instances began to fail and passed again.
    #[must_use]
    pub fn check_changes(&self) -> Vec<CheckChange> {
        self.shared.with(|state, _| state.check_changes.clone())
    }

    /// EC2 schedules an event for an instance, in place of one with its id. No event of AWS Health
    /// is sent.
    pub fn schedule(&self, instance: &str, event: PlannedEvent) {
        self.shared.with(|state, now| {
            state.scheduled.push((now, instance.to_owned(), event.clone()));
            let events = &mut state.statuses.entry(instance.to_owned()).or_default().events;
            events.retain(|known| known.id != event.id);
            events.push(event);
        });
    }

    /// What EC2 has scheduled for instances, also what is over, with the time on our clock.
    #[must_use]
    pub fn scheduled(&self) -> Vec<(Moment, String, PlannedEvent)> {
        self.shared.with(|state, _| state.scheduled.clone())
    }

    /// What EC2's TerminateInstances does: the machine shuts down now, hooks or not.
    pub fn terminate_in_ec2(&self, instance: &str) {
        self.shared.with(|state, now| state.end_instance(now, instance, State::ShuttingDown));
    }

    /// What EC2's StopInstances does.
    pub fn stop(&self, instance: &str) {
        self.shared.with(|state, now| state.end_instance(now, instance, State::Stopping));
    }

    /// What EC2's StartInstances does.
    pub fn start_again(&self, instance: &str) {
        self.shared.with(|state, now| state.start_again(now, instance));
    }
}

/// Auto Scaling groups.
impl EmbeddedAws {
    /// Creates a group whose first instances are already in service; returns their ids. EventBridge
    /// gets no event for these instances, but subscribers are notified.
    pub fn create_group(&self, spec: GroupSpec) -> Vec<String> {
        self.shared.with(|state, now| state.create_group(now, spec))
    }

    /// Adds a hook to a group, or changes it; a notification target gets no test notification (the
    /// API's PutLifecycleHook sends one).
    pub fn put_hook(&self, group: &str, hook: HookSpec) {
        self.shared.with(|state, _| {
            if let Some(group) = state.groups.get_mut(group) {
                group.hooks.insert(hook.name.clone(), hook);
            }
        });
    }

    /// Removes a hook; its open actions end.
    pub fn remove_hook(&self, group: &str, hook: &str) {
        self.shared.with(|state, now| state.remove_hook(now, group, hook));
    }

    /// The instances of a group that are not gone, oldest first.
    pub fn members(&self, group: &str) -> Vec<Member> {
        self.shared.with(|state, _| state.groups.get(group).map(Group::members)).unwrap_or_default()
    }

    /// The names of the groups whose lifecycle policy retains instances whose terminate hook is
    /// abandoned.
    #[must_use]
    pub fn retaining_groups(&self) -> BTreeSet<String> {
        self.shared.with(|state, _| {
            let specs = state.groups.values().map(|group| &group.spec);
            specs.filter(|spec| spec.retain_on_abandon).map(|spec| spec.name.clone()).collect()
        })
    }

    /// Lowers the desired capacity by `n` and terminates the `n` oldest instances in service
    /// through the hooks; returns them.
    pub fn scale_in(&self, group: &str, n: usize) -> Vec<String> {
        self.shared.with(|state, now| {
            let going = state.oldest(group, n);
            for instance in &going {
                state.terminate_in_group(now, instance, true);
            }
            going
        })
    }

    /// Sets the desired capacity; instances are launched or (oldest first) terminated.
    pub fn set_desired(&self, group: &str, desired: usize) {
        self.shared.with(|state, now| state.set_desired(now, group, desired));
    }

    /// Terminates an instance through its group's hooks, lowering the desired capacity or not (then
    /// it is replaced).
    pub fn terminate(&self, instance: &str, lower_desired: bool) {
        self.shared.with(|state, now| state.terminate_in_group(now, instance, lower_desired));
    }

    /// Launches one more instance in a group, raising the desired capacity; returns its id. `None`:
    /// no such group.
    pub fn launch(&self, group: &str) -> Option<String> {
        self.shared.with(|state, now| {
            let id = state.launch(now, group)?;
            state.groups.get_mut(group)?.spec.desired += 1;
            Some(id)
        })
    }

    /// Runs a hook of a group for an instance outside the ordinary way: its end moves the instance
    /// only into the warm pool, if `detail` has that as the `Destination`. `detail` sets fields of the event, such as `Origin`, `Destination` (warm pools)
    /// and `Action` (`ReplaceRootVolume`). Returns the token; `None`: no such hook.
    pub fn other_action(
        &self,
        group: &str,
        hook: &str,
        instance: &str,
        detail: &[(&str, &str)],
    ) -> Option<String> {
        self.shared.with(|state, now| state.other_action(now, group, hook, instance, detail))
    }

    /// Which instances went out of service without an end, and which came back.
    pub fn service_changes(&self) -> Vec<ServiceChange> {
        self.shared.with(|state, _| state.service_changes.clone())
    }

    /// What a third party's CompleteLifecycleAction does; whether it was accepted.
    pub fn complete_as(
        &self,
        by: &str,
        group: &str,
        hook: &str,
        instance: &str,
        result: HookResult,
    ) -> bool {
        let named = Named { group, hook, token: None, instance: Some(instance) };
        self.shared.with(|state, now| state.complete(now, &named, result, by).is_ok())
    }

    /// Every lifecycle action so far, in the order in which they began.
    pub fn actions(&self) -> Vec<ActionReport> {
        self.shared.with(|state, _| state.actions.reports())
    }
}

/// Faults and the journal.
impl EmbeddedAws {
    /// Adds a fault.
    pub fn fault(&self, rule: FaultRule) -> FaultId {
        self.shared.with(|state, _| state.faults.add(rule))
    }

    /// Ends a fault.
    pub fn end_fault(&self, id: FaultId) {
        self.shared.with(|state, _| state.faults.remove(id));
    }

    /// Ends all faults.
    pub fn end_faults(&self) {
        self.shared.with(|state, _| state.faults.clear());
    }

    /// Cuts off the clients whose access keys begin like this: their calls do not arrive, and
    /// answers to calls that were under way do not either.
    pub fn cut_off(&self, client: &str) {
        self.shared.with(|state, _| state.cut_off.insert(client.to_owned()));
    }

    /// Ends that.
    pub fn reconnect(&self, client: &str) {
        self.shared.with(|state, _| state.cut_off.remove(client));
    }

    /// Calls pass this tripwire from now on.
    pub fn tripwire(&self, tripwire: &Tripwire) {
        self.shared.with(|state, _| state.tripwire = tripwire.clone());
    }

    /// Sets AWS's clock this much before ours (negative: behind it): `Date` headers, times in
    /// events, launch times.
    pub fn skew(&self, ahead: SignedDuration) {
        self.shared.with(|state, _| state.skew = ahead);
    }

    /// Every call so far, in order, as far as the journal keeps them.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.with(|state, _| state.journal.calls())
    }

    /// How many calls the journal keeps.
    pub fn call_count(&self) -> usize {
        self.shared.with(|state, _| state.journal.call_count())
    }

    /// The calls that injected faults affected, as far as the journal keeps them.
    pub fn disturbances(&self) -> Vec<Disturbance> {
        self.shared.with(|state, _| state.journal.disturbances())
    }

    /// Number of calls by API and outcome. Always complete.
    pub fn counts(&self) -> BTreeMap<String, BTreeMap<Outcome, u64>> {
        self.shared.with(|state, _| state.journal.counts())
    }

    /// How many calls of one API there were (`sqs:ReceiveMessage`), however they ended. Always
    /// complete.
    pub fn count(&self, api: &str) -> u64 {
        self.shared.with(|state, _| state.journal.count(api))
    }

    /// Every message that was deleted by a call, in order, as far as the journal keeps them.
    pub fn deletions(&self) -> Vec<Deletion> {
        self.shared.with(|state, _| state.journal.deletions())
    }

    /// Every message that was sent to a queue, in order, with its receives and its deletion, as far
    /// as the journal keeps them.
    pub fn messages(&self) -> Vec<SentMessage> {
        self.shared.with(|state, _| state.journal.messages())
    }

    /// Forgets calls, counts and deletions (not lifecycle actions, nor the messages that were
    /// sent).
    pub fn clear_journal(&self) {
        self.shared.with(|state, _| state.journal.clear());
    }
}
