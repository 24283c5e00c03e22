//! The life of an instance in its group: launch, launch hooks, service, terminate hooks, end.

use serde_json::{Map, Value, json};

use super::{HookSpec, LifecycleState as Stand, Transition, actions::EndsIn};
use crate::{
    domain::Moment,
    sim::aws::{
        events::{Envelope, EventKind, millis_text},
        instance::State as InstanceState,
        journal::{ServiceChange, ServiceEvent},
        state::{State, Timer},
    },
};

impl State {
    /// Terminates an instance through its group's hooks.
    pub(in crate::sim::aws) fn terminate_member(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let (name, delay) = (group.spec.name.clone(), group.spec.deregistration_delay);
        match group.state_of(instance) {
            Some(Stand::TerminatingRetained) => self.proceed_to_end(now, instance),
            Some(state) if state.counts() => {
                group.set(instance, Stand::Terminating);
                self.drop_actions(now, &name, instance);
                if delay.is_zero() {
                    self.begin_terminate_hooks(now, instance);
                } else {
                    self.after(now, delay, Timer::BeginHooks { instance: instance.to_owned() });
                }
                self.see_to_size(now, &name);
            }
            _ => {}
        }
    }

    pub(in crate::sim::aws) fn begin_terminate_hooks(&mut self, now: Moment, instance: &str) {
        if self.group_of(instance).and_then(|g| g.state_of(instance)) == Some(Stand::Terminating) {
            self.begin_hooks(now, instance, Transition::Terminating);
        }
    }

    fn begin_hooks(&mut self, now: Moment, instance: &str, transition: Transition) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let hooks = group.hooks_for(transition);
        let name = group.spec.name.clone();
        if hooks.is_empty() {
            self.hooks_through(now, instance, transition, false);
            return;
        }
        let waiting = if transition == Transition::Launching {
            Stand::PendingWait
        } else {
            Stand::TerminatingWait
        };
        group.set(instance, waiting);
        for hook in hooks {
            let token = self.begin_action(now, &name, &hook, instance, EndsIn::NextState);
            self.send_action(now, &name, &hook, instance, &token, &[]);
        }
    }

    /// Begins an action whose end does not change its instance's state; returns its token.
    pub(in crate::sim::aws) fn other_action(
        &mut self,
        now: Moment,
        group: &str,
        hook: &str,
        instance: &str,
        detail: &[(&str, &str)],
    ) -> Option<String> {
        let hook = self.groups.get(group)?.hooks.get(hook)?.clone();
        let ends_in = if detail.contains(&("Destination", "WarmPool")) {
            EndsIn::WarmPool
        } else if detail.contains(&("Origin", "WarmPool"))
            && detail.contains(&("Destination", "EC2"))
        {
            EndsIn::OutOfPool
        } else {
            EndsIn::SameState
        };
        if matches!(ends_in, EndsIn::WarmPool | EndsIn::OutOfPool) {
            self.groups.get_mut(group)?.has_warm_pool = true;
        }
        let token = self.begin_action(now, group, &hook, instance, ends_in);
        self.send_action(now, group, &hook, instance, &token, detail);
        Some(token)
    }

    /// The instance of this action is in the warm pool, and keeps running there.
    pub(super) fn enter_pool(&mut self, now: Moment, index: usize) {
        let Some(instance) = self.actions.instance_of(index) else { return };
        if let Some(group) = self.group_of_mut(&instance) {
            group.set(&instance, Stand::WarmedRunning);
        }
        self.service_changes.push(ServiceChange {
            at: now,
            instance,
            change: ServiceEvent::IntoWarmPool,
        });
    }

    /// The instance of this action is terminated out of the warm pool.
    pub(super) fn end_in_pool(&mut self, now: Moment, index: usize) {
        if let Some(instance) = self.actions.instance_of(index) {
            self.proceed_to_end(now, &instance);
        }
    }

    /// An instance leaves the warm pool and is in service.
    pub(in crate::sim::aws) fn leave_pool(&mut self, now: Moment, instance: &str) {
        if let Some(group) = self.group_of_mut(instance) {
            group.set(instance, Stand::InService);
        }
        self.service_changes.push(ServiceChange {
            at: now,
            instance: instance.to_owned(),
            change: ServiceEvent::OutOfWarmPool,
        });
    }

    pub(in crate::sim::aws) fn send_out_of_pool(&mut self, now: Moment, instance: &str) {
        let group = self.group_of(instance).map(|group| group.spec.name.clone());
        if let Some(group) = group {
            let ends = [("Origin", "WarmPool"), ("Destination", "AutoScalingGroup")];
            self.send_about_member(now, EventKind::LaunchSuccessful, &group, instance, &ends);
        }
    }

    /// Begins the terminate hooks of an instance that goes back into the warm pool.
    pub(in crate::sim::aws) fn return_to_pool(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of(instance) else { return };
        let (name, hooks) = (group.spec.name.clone(), group.hooks_for(Transition::Terminating));
        let ends = [("Origin", "AutoScalingGroup"), ("Destination", "WarmPool")];
        for hook in hooks {
            self.other_action(now, &name, &hook.name, instance, &ends);
        }
    }

    /// All hooks of an instance have ended.
    pub(super) fn hooks_through(
        &mut self,
        now: Moment,
        instance: &str,
        transition: Transition,
        abandoned: bool,
    ) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let name = group.spec.name.clone();
        match (transition, abandoned) {
            (Transition::Launching, false) => {
                group.set(instance, Stand::InService);
                self.send_about_member(now, EventKind::LaunchSuccessful, &name, instance, &[]);
            }
            (Transition::Launching, true) => {
                // The launch has failed: no terminate hook runs for it.
                self.proceed_to_end(now, instance);
                self.see_to_size(now, &name);
            }
            (Transition::Terminating, true) if group.spec.retain_on_abandon => {
                group.set(instance, Stand::TerminatingRetained);
            }
            (Transition::Terminating, _) => self.proceed_to_end(now, instance),
        }
    }

    fn proceed_to_end(&mut self, now: Moment, instance: &str) {
        if let Some(group) = self.group_of_mut(instance) {
            group.set(instance, Stand::TerminatingProceed);
        }
        match self.instances.get(instance).map(|i| i.state) {
            Some(InstanceState::Terminated) => {
                self.member_moved(now, instance, InstanceState::Terminated);
            }
            Some(_) => self.end_instance(now, instance, InstanceState::ShuttingDown),
            None => {}
        }
    }

    /// Handles an instance's new EC2 state in its group.
    pub(in crate::sim::aws) fn member_moved(
        &mut self,
        now: Moment,
        instance: &str,
        to: InstanceState,
    ) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let name = group.spec.name.clone();
        let (notice_after, stand) = (group.spec.notice_after, group.state_of(instance));
        match (to, stand) {
            (InstanceState::Running, Some(Stand::Pending)) => {
                self.begin_hooks(now, instance, Transition::Launching);
            }
            (InstanceState::Terminated, Some(Stand::TerminatingProceed)) => {
                group.remove(instance);
                self.send_about_member(now, EventKind::TerminateSuccessful, &name, instance, &[]);
            }
            (InstanceState::ShuttingDown | InstanceState::Stopping, Some(stand))
                if stand.counts() =>
            {
                self.after(now, notice_after, Timer::Notice { instance: instance.to_owned() });
            }
            _ => {}
        }
    }

    /// Terminates an instance that the group finds no longer healthy.
    pub(in crate::sim::aws) fn notice_end(&mut self, now: Moment, instance: &str) {
        let healthy = matches!(
            self.instances.get(instance).map(|i| i.state),
            Some(InstanceState::Pending | InstanceState::Running)
        );
        if !healthy {
            self.terminate_member(now, instance);
        }
    }

    /// Sends the event of a lifecycle action to EventBridge, and to the hook's own queue if it has
    /// one.
    fn send_action(
        &mut self,
        now: Moment,
        group: &str,
        hook: &HookSpec,
        instance: &str,
        token: &str,
        other: &[(&str, &str)],
    ) {
        let arn = self.groups.get(group).map(|g| g.arn.clone()).unwrap_or_default();
        let (kind, origin, destination) = match hook.transition {
            Transition::Launching => (EventKind::LaunchAction, "EC2", "AutoScalingGroup"),
            Transition::Terminating => (EventKind::TerminateAction, "AutoScalingGroup", "EC2"),
        };
        let mut detail = Map::new();
        let mut put = |key: &str, value: &str| drop(detail.insert(key.to_owned(), value.into()));
        put("LifecycleActionToken", token);
        put("AutoScalingGroupName", group);
        put("LifecycleHookName", &hook.name);
        put("EC2InstanceId", instance);
        put("LifecycleTransition", hook.transition.as_str());
        put("Origin", origin);
        put("Destination", destination);
        if let Some(metadata) = &hook.metadata {
            put("NotificationMetadata", metadata);
        }
        for (key, value) in other {
            put(key, value);
        }
        self.send(now, kind, &[&arn], &Value::Object(detail.clone()));
        if let Some(queue) = &hook.notify_queue {
            self.send_native(now, queue, hook.notify_envelope, detail);
        }
    }

    fn send_native(
        &mut self,
        now: Moment,
        queue: &str,
        envelope: Envelope,
        mut message: Map<String, Value>,
    ) {
        message.insert("Service".to_owned(), "AWS Auto Scaling".into());
        message.insert("Time".to_owned(), millis_text(self.aws_time(now)).into());
        message.insert("RequestId".to_owned(), self.uuid().into());
        message.insert("AccountId".to_owned(), self.settings.account.clone().into());
        self.put_in(now, queue, envelope, &Value::Object(message).to_string());
    }

    /// What PutLifecycleHook sends to a notification target.
    pub(super) fn send_test_notification(&mut self, now: Moment, group: &str, queue: &str) {
        let arn = self.groups.get(group).map(|g| g.arn.clone()).unwrap_or_default();
        let mut message = Map::new();
        message.insert("Event".to_owned(), "autoscaling:TEST_NOTIFICATION".into());
        message.insert("AutoScalingGroupName".to_owned(), group.into());
        message.insert("AutoScalingGroupARN".to_owned(), arn.into());
        self.send_native(now, queue, Envelope::Plain, message);
    }

    fn send_about_member(
        &mut self,
        now: Moment,
        kind: EventKind,
        group: &str,
        instance: &str,
        other: &[(&str, &str)],
    ) {
        let arn = self.groups.get(group).map(|g| g.arn.clone()).unwrap_or_default();
        let zone = self.instances.get(instance).map(|i| i.zone.clone()).unwrap_or_default();
        let mut detail = json!({
            "StatusCode": "InProgress",
            "AutoScalingGroupName": group,
            "ActivityId": self.uuid(),
            "Details": { "Availability Zone": zone },
            "RequestId": self.uuid(),
            "StatusMessage": "",
            "EndTime": millis_text(self.aws_time(now)),
            "EC2InstanceId": instance,
            "StartTime": millis_text(self.aws_time(now)),
            "Cause": "",
        });
        if let Value::Object(detail) = &mut detail {
            detail.extend(other.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())));
        }
        let machine = format!(
            "arn:aws:ec2:{}:{}:instance/{instance}",
            self.settings.region, self.settings.account
        );
        self.send(now, kind, &[&arn, &machine], &detail);
    }
}
