//! The events of a group: to EventBridge, and to the queues of its hooks.

use serde_json::{Map, Value, json};

use super::{HookSpec, Transition};
use crate::{
    domain::Moment,
    sim::aws::{
        events::{Envelope, EventKind, millis_text},
        state::State,
    },
};

impl State {
    /// Sends the event of a lifecycle action to EventBridge, and to the hook's own queue if it has
    /// one.
    pub(super) fn send_action(
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

    pub(super) fn send_about_member(
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
