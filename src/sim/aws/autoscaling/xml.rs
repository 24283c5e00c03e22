//! The XML of Auto Scaling's answers.

use std::collections::{BTreeMap, BTreeSet};

use super::{HookSpec, LifecycleState, PoolState, groups::Group};
use crate::{
    domain::Moment,
    sim::aws::{events::millis_text, instance::State as InstanceState, state::State, xml::Xml},
};

/// A group as it is described.
#[derive(Debug)]
pub(super) struct GroupView {
    name: String,
    arn: String,
    desired: usize,
    weight: Option<usize>,
    zones: Vec<String>,
    created: Moment,
    tags: BTreeMap<String, String>,
    /// Those that are not in the warm pool.
    members: Vec<MemberView>,
    /// How many are in the warm pool, and what becomes of them; `None`: it has none.
    warm_pool: Option<(usize, PoolState)>,
    retains: bool,
    suspended: BTreeSet<String>,
}

impl GroupView {
    pub(super) fn new(state: &State, group: &Group) -> Self {
        let (pooled, members): (Vec<_>, Vec<_>) =
            MemberView::all(state, group).into_iter().partition(MemberView::is_in_warm_pool);
        let has_warm_pool = group.has_warm_pool || !pooled.is_empty();
        Self {
            name: group.spec.name.clone(),
            arn: group.arn.clone(),
            desired: group.spec.desired.saturating_mul(group.spec.weight.unwrap_or(1)),
            weight: group.spec.weight,
            zones: group.spec.template.zones.clone(),
            created: group.created,
            tags: group.spec.tags.clone(),
            members,
            warm_pool: has_warm_pool.then_some((pooled.len(), group.pool_state)),
            retains: group.spec.retain_on_abandon,
            suspended: group.suspended.clone(),
        }
    }
}

/// An instance of a group as it is described.
#[derive(Debug)]
pub(super) struct MemberView {
    group: String,
    instance: String,
    instance_type: String,
    zone: String,
    state: &'static str,
    healthy: bool,
}

impl MemberView {
    pub(super) fn new(state: &State, group: &Group, instance: &str) -> Option<Self> {
        let stand = group.state_of(instance)?;
        let found = state.instances.get(instance)?;
        Some(Self {
            group: group.spec.name.clone(),
            instance: instance.to_owned(),
            instance_type: found.instance_type.clone(),
            zone: found.zone.clone(),
            state: state
                .waits_aside(&group.spec.name, instance)
                .filter(|_| stand == LifecycleState::InService)
                .unwrap_or(stand.as_str()),
            healthy: (matches!(found.state, InstanceState::Pending | InstanceState::Running)
                || stand.may_be_stopped() && !found.state.is_terminal())
                && !group.is_unhealthy(instance),
        })
    }

    pub(super) fn all(state: &State, group: &Group) -> Vec<Self> {
        let members = group.members();
        members.iter().filter_map(|m| Self::new(state, group, &m.instance)).collect()
    }

    /// It is shown in this state.
    pub(super) fn is_in(&self, state: LifecycleState) -> bool {
        self.state == state.as_str()
    }

    /// Only DescribeWarmPool and DescribeAutoScalingInstances show it.
    pub(super) fn is_in_warm_pool(&self) -> bool {
        self.state.starts_with("Warmed:")
    }

    fn write(&self, xml: &mut Xml, health: [&str; 2]) {
        xml.text("InstanceId", &self.instance);
        xml.text("InstanceType", &self.instance_type);
        xml.text("AvailabilityZone", &self.zone);
        xml.text("LifecycleState", self.state);
        xml.text(
            "HealthStatus",
            health.get(usize::from(self.healthy)).copied().unwrap_or_default(),
        );
        xml.text("ProtectedFromScaleIn", "false");
    }
}

fn next_token(xml: &mut Xml, next: Option<&str>) {
    if let Some(token) = next {
        xml.text("NextToken", token);
    }
}

pub(super) fn groups(xml: &mut Xml, groups: &[GroupView], next: Option<&str>) {
    xml.list("AutoScalingGroups", "member", groups, |xml, group| {
        xml.text("AutoScalingGroupName", &group.name);
        xml.text("AutoScalingGroupARN", &group.arn);
        xml.text("MinSize", "0");
        xml.text("MaxSize", group.desired.max(100).to_string());
        xml.text("DesiredCapacity", group.desired.to_string());
        xml.text("DefaultCooldown", "300");
        xml.list("AvailabilityZones", "member", &group.zones, |xml, zone| xml.escaped(zone));
        xml.text("HealthCheckType", "EC2");
        xml.text("HealthCheckGracePeriod", "300");
        xml.list("Instances", "member", &group.members, |xml, member| {
            member.write(xml, ["Unhealthy", "Healthy"]);
            if let Some(weight) = group.weight {
                xml.text("WeightedCapacity", weight.to_string());
            }
        });
        xml.list("SuspendedProcesses", "member", &group.suspended, |xml, process| {
            xml.text("ProcessName", process);
        });
        if let Some((size, pool_state)) = group.warm_pool {
            xml.element("WarmPoolConfiguration", |xml| warm_pool_configuration(xml, pool_state));
            xml.text("WarmPoolSize", size.to_string());
        }
        if group.retains {
            xml.element("InstanceLifecyclePolicy", |xml| {
                xml.element("RetentionTriggers", |xml| xml.text("TerminateHookAbandon", "retain"));
            });
        }
        xml.text("CreatedTime", millis_text(group.created));
        xml.list("Tags", "member", &group.tags, |xml, (key, value)| {
            xml.text("ResourceId", &group.name);
            xml.text("ResourceType", "auto-scaling-group");
            xml.text("Key", key);
            xml.text("Value", value);
            xml.text("PropagateAtLaunch", "false");
        });
    });
    next_token(xml, next);
}

fn warm_pool_configuration(xml: &mut Xml, pool_state: PoolState) {
    xml.text("MinSize", "0");
    xml.text("PoolState", pool_state.as_str());
}

/// The instances of a warm pool. `pool_state`: `None` if the group has none.
pub(super) fn warm_pool(
    xml: &mut Xml,
    pool_state: Option<PoolState>,
    members: &[MemberView],
    next: Option<&str>,
) {
    if let Some(pool_state) = pool_state {
        xml.element("WarmPoolConfiguration", |xml| warm_pool_configuration(xml, pool_state));
    }
    xml.list("Instances", "member", members, |xml, member| {
        member.write(xml, ["Unhealthy", "Healthy"]);
    });
    next_token(xml, next);
}

pub(super) fn members(xml: &mut Xml, members: &[MemberView], next: Option<&str>) {
    xml.list("AutoScalingInstances", "member", members, |xml, member| {
        xml.text("AutoScalingGroupName", &member.group);
        // This action alone writes it in capitals.
        member.write(xml, ["UNHEALTHY", "HEALTHY"]);
    });
    next_token(xml, next);
}

pub(super) fn hooks(xml: &mut Xml, group: &str, hooks: &[HookSpec], queue_arn: &str) {
    xml.list("LifecycleHooks", "member", hooks, |xml, hook| {
        xml.text("LifecycleHookName", &hook.name);
        xml.text("AutoScalingGroupName", group);
        xml.text("LifecycleTransition", hook.transition.as_str());
        if let Some(queue) = &hook.notify_queue {
            xml.text("NotificationTargetARN", format!("{queue_arn}{queue}"));
            xml.text("RoleARN", "arn:aws:iam::123456789012:role/notify");
        }
        if let Some(metadata) = &hook.metadata {
            xml.text("NotificationMetadata", metadata);
        }
        xml.text("HeartbeatTimeout", hook.heartbeat_timeout.as_secs().to_string());
        xml.text("GlobalTimeout", hook.global_timeout().as_secs().to_string());
        xml.text("DefaultResult", hook.default_result.as_str());
    });
}

pub(super) fn policies(xml: &mut Xml, policies: &[(String, String)], next: Option<&str>) {
    xml.list("ScalingPolicies", "member", policies, |xml, (group, policy)| {
        xml.text("AutoScalingGroupName", group);
        xml.text("PolicyName", policy);
        xml.text("PolicyType", "SimpleScaling");
    });
    next_token(xml, next);
}

/// A scaling activity that has begun.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) id: String,
    pub(super) group: String,
    pub(super) description: String,
    pub(super) start: Moment,
}

impl Activity {
    fn write(&self, xml: &mut Xml) {
        xml.text("ActivityId", &self.id);
        xml.text("AutoScalingGroupName", &self.group);
        xml.text("Description", &self.description);
        xml.text("Cause", "An instance was taken out of service in response to a user request.");
        xml.text("StartTime", millis_text(self.start));
        xml.text("StatusCode", "InProgress");
        xml.text("Progress", "0");
    }
}

pub(super) fn activity(xml: &mut Xml, activity: &Activity) {
    xml.element("Activity", |xml| activity.write(xml));
}

pub(super) fn activities(xml: &mut Xml, activities: &[Activity]) {
    xml.list("Activities", "member", activities, |xml, activity| activity.write(xml));
}
