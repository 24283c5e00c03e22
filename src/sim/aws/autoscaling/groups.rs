//! Groups: their members and how many there should be.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    GroupSpec, HookSpec, LifecycleState, Member, PoolState, Transition, hook_point::HookPoint,
};
use crate::{
    domain::Moment,
    sim::aws::{
        ec2,
        instance::State as InstanceState,
        state::{State, Timer},
    },
};

/// Time until a group acts on an instance that was set unhealthy.
pub(super) const HEALTH_CHECK: Duration = Duration::from_secs(10);

/// The tag that Auto Scaling puts on the instances of a group.
const GROUP_TAG: &str = "aws:autoscaling:groupName";

/// What a group knows of one of its instances.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// How many instances the group had launched before.
    order: u64,
    state: LifecycleState,
    /// The point to which it has come last: its hooks run, have run, or will.
    point: HookPoint,
}

#[derive(Debug)]
pub(in crate::sim::aws) struct Group {
    pub(in crate::sim::aws) spec: GroupSpec,
    pub(in crate::sim::aws) hooks: BTreeMap<String, HookSpec>,
    pub(in crate::sim::aws) arn: String,
    pub(in crate::sim::aws) created: Moment,
    /// By instance.
    members: BTreeMap<String, Entry>,
    launches: u64,
    /// Members that somebody has set unhealthy.
    unhealthy: BTreeSet<String>,
    /// The processes that somebody has suspended.
    pub(in crate::sim::aws) suspended: BTreeSet<String>,
    /// A launch of missing instances is scheduled.
    replacing: bool,
    /// It has a warm pool: an instance has gone into one or out of one.
    pub(in crate::sim::aws) has_warm_pool: bool,
    /// What becomes of the instances in its warm pool.
    pub(in crate::sim::aws) pool_state: PoolState,
}

impl Group {
    fn new(spec: GroupSpec, arn: String, created: Moment) -> Self {
        Self {
            spec,
            hooks: BTreeMap::new(),
            arn,
            created,
            members: BTreeMap::new(),
            launches: 0,
            unhealthy: BTreeSet::new(),
            suspended: BTreeSet::new(),
            replacing: false,
            has_warm_pool: false,
            pool_state: PoolState::Running,
        }
    }

    /// Oldest first.
    pub(in crate::sim::aws) fn members(&self) -> Vec<Member> {
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by_key(|(_, entry)| entry.order);
        members
            .into_iter()
            .map(|(instance, entry)| Member { instance: instance.clone(), state: entry.state })
            .collect()
    }

    pub(in crate::sim::aws) fn state_of(&self, instance: &str) -> Option<LifecycleState> {
        self.members.get(instance).map(|entry| entry.state)
    }

    pub(super) fn set(&mut self, instance: &str, to: LifecycleState) {
        if let Some(entry) = self.members.get_mut(instance) {
            entry.state = to;
        }
    }

    pub(super) fn point_of(&self, instance: &str) -> Option<HookPoint> {
        self.members.get(instance).map(|entry| entry.point)
    }

    /// An instance comes to a point at which hooks run; they have not begun.
    pub(super) fn come_to(&mut self, instance: &str, point: HookPoint) {
        if let Some(entry) = self.members.get_mut(instance) {
            (entry.state, entry.point) = (point.state_before(), point);
        }
    }

    /// Somebody has set its health status to `Unhealthy`.
    pub(super) fn is_unhealthy(&self, instance: &str) -> bool {
        self.unhealthy.contains(instance)
    }

    pub(super) fn remove(&mut self, instance: &str) {
        self.members.remove(instance);
        self.unhealthy.remove(instance);
    }

    pub(super) fn hooks_for(&self, transition: Transition) -> Vec<HookSpec> {
        self.hooks.values().filter(|hook| hook.transition == transition).cloned().collect()
    }

    fn size(&self) -> usize {
        self.members.values().filter(|entry| entry.state.counts()).count()
    }
}

impl State {
    /// The `n` oldest instances of a group that are in service and wait in no hook.
    pub(in crate::sim::aws) fn oldest(&self, group: &str, n: usize) -> Vec<String> {
        let members = self.groups.get(group).map(Group::members).unwrap_or_default();
        let in_service = members.into_iter().filter(|m| m.state == LifecycleState::InService);
        let free = in_service.filter(|m| self.waits_aside(group, &m.instance).is_none());
        free.take(n).map(|m| m.instance).collect()
    }

    pub(in crate::sim::aws) fn group_of(&self, instance: &str) -> Option<&Group> {
        self.groups.get(self.instances.get(instance)?.group.as_ref()?)
    }

    pub(in crate::sim::aws) fn group_of_mut(&mut self, instance: &str) -> Option<&mut Group> {
        self.groups.get_mut(self.instances.get(instance)?.group.as_ref()?)
    }

    /// Creates a group; its first instances are already in service.
    pub(in crate::sim::aws) fn create_group(
        &mut self,
        now: Moment,
        spec: GroupSpec,
    ) -> Vec<String> {
        let id = self.uuid();
        let (region, account) = (&self.settings.region, &self.settings.account);
        let (name, desired, age) = (spec.name.clone(), spec.desired, spec.age);
        let arn = format!(
            "arn:aws:autoscaling:{region}:{account}:autoScalingGroup:{id}:autoScalingGroupName/{name}"
        );
        let created = self.aws_time(now);
        self.groups.insert(name.clone(), Group::new(spec, arn, created));
        (0..desired)
            .filter_map(|_| {
                self.add_member(now, &name, (HookPoint::Launch, LifecycleState::InService), age)
            })
            .collect()
    }

    fn add_member(
        &mut self,
        now: Moment,
        group: &str,
        (point, state): (HookPoint, LifecycleState),
        age: Duration,
    ) -> Option<String> {
        let found = self.groups.get_mut(group)?;
        let order = found.launches;
        found.launches += 1;
        let template = found.spec.template.clone();
        let turn = usize::try_from(order).unwrap_or_default() % template.zones.len().max(1);
        let zone = template.zones.get(turn).cloned().unwrap_or_default();
        let mut tags = template.tags;
        tags.insert(GROUP_TAG.to_owned(), group.to_owned());
        let at_work = if state == LifecycleState::InService {
            InstanceState::Running
        } else {
            InstanceState::Pending
        };
        let spec = ec2::launched(zone, template.instance_type, template.spot, tags, at_work, age);
        let id = self.create_instance(now, spec, Some(group.to_owned()));
        self.groups.get_mut(group)?.members.insert(id.clone(), Entry { order, state, point });
        Some(id)
    }

    /// Launches one instance; its launch hooks begin when it runs.
    pub(in crate::sim::aws) fn launch(&mut self, now: Moment, group: &str) -> Option<String> {
        self.launch_to(now, group, HookPoint::Launch)
    }

    pub(super) fn launch_to(
        &mut self,
        now: Moment,
        group: &str,
        point: HookPoint,
    ) -> Option<String> {
        let boot = self.groups.get(group)?.spec.template.boot;
        let at_first = (point, point.state_before());
        let id = self.add_member(now, group, at_first, Duration::ZERO)?;
        self.send_state_change(now, &id, InstanceState::Pending);
        let timer = Timer::Move {
            instance: id.clone(),
            from: InstanceState::Pending,
            to: InstanceState::Running,
        };
        self.after(now, boot, timer);
        Some(id)
    }

    pub(in crate::sim::aws) fn set_desired(&mut self, now: Moment, group: &str, desired: usize) {
        let Some(found) = self.groups.get_mut(group) else { return };
        found.spec.desired = desired;
        let surplus = found.size().saturating_sub(desired);
        for instance in self.oldest(group, surplus) {
            self.terminate_member(now, &instance);
        }
        self.see_to_size(now, group);
    }

    /// Terminates an instance, lowering the desired capacity or not.
    pub(in crate::sim::aws) fn terminate_in_group(
        &mut self,
        now: Moment,
        instance: &str,
        lower_desired: bool,
    ) {
        if let Some(group) = self
            .group_of_mut(instance)
            .filter(|g| lower_desired && g.state_of(instance).is_some_and(LifecycleState::counts))
        {
            group.spec.desired = group.spec.desired.saturating_sub(1);
        }
        self.terminate_member(now, instance);
    }

    /// What DetachInstances does to the instance, but for the desired capacity.
    pub(in crate::sim::aws) fn detach(&mut self, instance: &str) {
        if let Some(group) = self.group_of_mut(instance) {
            group.remove(instance);
        }
        if let Some(found) = self.instances.get_mut(instance) {
            found.group = None;
            found.tags.remove(GROUP_TAG);
        }
    }

    /// What SetInstanceHealth does: the group's next health check replaces an unhealthy instance.
    pub(in crate::sim::aws) fn set_health(&mut self, now: Moment, instance: &str, healthy: bool) {
        let Some(group) = self.group_of_mut(instance) else { return };
        if healthy {
            group.unhealthy.remove(instance);
        } else if group.unhealthy.insert(instance.to_owned()) {
            self.after(now, HEALTH_CHECK, Timer::Unhealthy { instance: instance.to_owned() });
        }
    }

    pub(in crate::sim::aws) fn replace_unhealthy(&mut self, now: Moment, instance: &str) {
        let replaced = self.group_of(instance).is_some_and(|group| {
            let is_suspended = |process: &str| group.suspended.contains(process);
            group.is_unhealthy(instance)
                && !["ReplaceUnhealthy", "Terminate"].into_iter().any(is_suspended)
                && group.state_of(instance) == Some(LifecycleState::InService)
                && self.waits_aside(&group.spec.name, instance).is_none()
        });
        if replaced {
            self.terminate_member(now, instance);
        }
    }

    /// Schedules the launch of the instances that the group lacks.
    pub(super) fn see_to_size(&mut self, now: Moment, group: &str) {
        let Some(found) = self.groups.get_mut(group) else { return };
        let Some(delay) = found.spec.replace_after else { return };
        if found.size() < found.spec.desired && !found.replacing {
            found.replacing = true;
            self.after(now, delay, Timer::Replace { group: group.to_owned() });
        }
    }

    pub(in crate::sim::aws) fn replace(&mut self, now: Moment, group: &str) {
        let Some(found) = self.groups.get_mut(group) else { return };
        found.replacing = false;
        let missing = found.spec.desired.saturating_sub(found.size());
        for _ in 0..missing {
            self.launch(now, group);
        }
    }
}
