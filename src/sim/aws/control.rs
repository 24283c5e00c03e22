//! What a scenario or a test does to the embedded AWS, and what it can see.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::SignedDuration;
use tokio::sync::mpsc;

use super::{
    ActionReport, Call, Deletion, Disorder, EmbeddedAws, FaultId, FaultRule, GroupSpec, HealthNotice, HookResult, HookSpec, Instance, InstanceChange,
    InstanceSpec, Member, Outcome, QueueSettings, QueueView, Rule, SpotAction, State,
};

/// Queues.
impl EmbeddedAws {
    /// Makes a queue (or changes the settings of one that exists) and returns its URL.
    pub fn create_queue(&self, name: &str, settings: QueueSettings) -> String {
        todo!()
    }

    /// Deletes a queue with all that is in it; calls for it then get "queue does not exist".
    pub fn delete_queue(&self, name: &str) {
        todo!()
    }

    /// The URL that SQS gives for a queue of this name, there or not.
    pub fn queue_url(&self, name: &str) -> String {
        todo!()
    }

    /// Puts a message on a queue as it is; returns its id (empty when there is no such queue).
    pub fn send_event(&self, queue: &str, body: &str) -> String {
        todo!()
    }

    /// How a queue stands.
    pub fn queue(&self, name: &str) -> Option<QueueView> {
        todo!()
    }

    /// Lets a queue duplicate, reorder and forget.
    pub fn disorder(&self, queue: &str, disorder: Disorder) {
        todo!()
    }

    /// Adds a rule of EventBridge.
    pub fn route(&self, rule: Rule) {
        todo!()
    }
}

/// Instances.
impl EmbeddedAws {
    /// Puts an instance there that belongs to no group; returns its id.
    pub fn create_instance(&self, spec: InstanceSpec) -> String {
        todo!()
    }

    /// An instance, also some time after its end.
    pub fn instance(&self, id: &str) -> Option<Instance> {
        todo!()
    }

    /// All instances, by id, ended ones included until EC2 forgets them.
    pub fn instances(&self) -> Vec<Instance> {
        todo!()
    }

    /// Every change of an instance's state from now on, in order, none lost.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<InstanceChange> {
        todo!()
    }

    /// Sends the two-minute warning and ends the instance (stops it) two minutes later; hibernation begins at once.
    pub fn spot_interruption(&self, instance: &str, action: SpotAction) {
        todo!()
    }

    /// The two-minute warning of an interruptible capacity reservation, and the end of the instance two minutes later.
    pub fn capacity_interruption(&self, instance: &str) {
        todo!()
    }

    /// Sends a rebalance recommendation; nothing else happens.
    pub fn rebalance_recommendation(&self, instance: &str) {
        todo!()
    }

    /// Sends a notice of AWS Health; nothing else happens.
    pub fn health(&self, notice: HealthNotice) {
        todo!()
    }

    /// Sends a state-change notification although nothing changed.
    pub fn state_change_event(&self, instance: &str, state: State) {
        todo!()
    }

    /// What EC2's TerminateInstances does: the machine shuts down now, hooks or not.
    pub fn terminate_in_ec2(&self, instance: &str) {
        todo!()
    }

    /// What EC2's StopInstances does.
    pub fn stop(&self, instance: &str) {
        todo!()
    }

    /// What EC2's StartInstances does.
    pub fn start_again(&self, instance: &str) {
        todo!()
    }
}

/// Auto Scaling groups.
impl EmbeddedAws {
    /// Makes a group whose first instances are in service already; returns their ids.
    pub fn create_group(&self, spec: GroupSpec) -> Vec<String> {
        todo!()
    }

    /// Adds a hook to a group, or changes it.
    pub fn put_hook(&self, group: &str, hook: HookSpec) {
        todo!()
    }

    /// Removes a hook; its open actions end.
    pub fn remove_hook(&self, group: &str, hook: &str) {
        todo!()
    }

    /// The instances of a group that are not gone, oldest first.
    pub fn members(&self, group: &str) -> Vec<Member> {
        todo!()
    }

    /// Lowers the desired capacity by `n` and terminates the `n` oldest instances in service through the hooks; returns them.
    pub fn scale_in(&self, group: &str, n: usize) -> Vec<String> {
        todo!()
    }

    /// Sets the desired capacity; instances are launched or (oldest first) terminated.
    pub fn set_desired(&self, group: &str, desired: usize) {
        todo!()
    }

    /// Terminates an instance through its group's hooks, lowering the desired capacity or not (then it is replaced).
    pub fn terminate(&self, instance: &str, lower_desired: bool) {
        todo!()
    }

    /// Launches one more instance in a group, raising the desired capacity; returns its id.
    pub fn launch(&self, group: &str) -> String {
        todo!()
    }

    /// What a third party's CompleteLifecycleAction does; whether it was accepted.
    pub fn complete_as(&self, by: &str, group: &str, hook: &str, instance: &str, result: HookResult) -> bool {
        todo!()
    }

    /// Every lifecycle action so far, in the order in which they began.
    pub fn actions(&self) -> Vec<ActionReport> {
        todo!()
    }
}

/// Faults and the journal.
impl EmbeddedAws {
    /// Adds a fault.
    pub fn fault(&self, rule: FaultRule) -> FaultId {
        todo!()
    }

    /// Ends a fault.
    pub fn end_fault(&self, id: FaultId) {
        todo!()
    }

    /// Ends all faults.
    pub fn end_faults(&self) {
        todo!()
    }

    /// Sets AWS's clock this much before ours (negative: behind it): `Date` headers, times in events, launch times.
    pub fn skew(&self, ahead: SignedDuration) {
        todo!()
    }

    /// Every call so far, in order, as far as the journal keeps them.
    pub fn calls(&self) -> Vec<Call> {
        todo!()
    }

    /// How many calls of each API ended how. Always complete.
    pub fn counts(&self) -> BTreeMap<String, BTreeMap<Outcome, u64>> {
        todo!()
    }

    /// How many calls of one API there were (`sqs:ReceiveMessage`), however they ended. Always complete.
    pub fn count(&self, api: &str) -> u64 {
        todo!()
    }

    /// Every message that was deleted by a call, in order, as far as the journal keeps them.
    pub fn deletions(&self) -> Vec<Deletion> {
        todo!()
    }

    /// Forgets calls, counts and deletions (not lifecycle actions).
    pub fn clear_journal(&self) {
        todo!()
    }
}
