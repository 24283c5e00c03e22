//! Warm pools: instances that are launched into them, wait there and are launched from there.

use super::{LifecycleState, Transition, flow::STEP, hook_point::HookPoint};
use crate::{
    domain::Moment,
    sim::aws::{
        events::EventKind,
        instance::{Boot, State as InstanceState},
        journal::{ServiceChange, ServiceEvent},
        state::State,
    },
};

/// What becomes of the instances in a warm pool (Auto Scaling API reference, `PoolState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum PoolState {
    /// EC2 stops them.
    Stopped,
    /// They keep running.
    #[default]
    Running,
    /// EC2 hibernates them: they keep the contents of their memory.
    Hibernated,
}

impl PoolState {
    /// As the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::Running => "Running",
            Self::Hibernated => "Hibernated",
        }
    }

    const fn lifecycle_state(self) -> LifecycleState {
        match self {
            Self::Stopped => LifecycleState::WarmedStopped,
            Self::Running => LifecycleState::WarmedRunning,
            Self::Hibernated => LifecycleState::WarmedHibernated,
        }
    }
}

/// Through all lifecycle states.
impl State {
    /// Launches an instance into the warm pool; its launch hooks begin when it runs.
    pub(in crate::sim::aws) fn launch_into_pool(
        &mut self,
        now: Moment,
        group: &str,
    ) -> Option<String> {
        self.groups.get_mut(group)?.has_warm_pool = true;
        self.launch_to(now, group, HookPoint::LaunchIntoPool)
    }

    /// An instance in service goes back into the warm pool in place of a termination.
    pub(in crate::sim::aws) fn scale_in_to_pool(&mut self, now: Moment, instance: &str) {
        if !self.is_in_service(instance) {
            return;
        }
        let Some(group) = self.group_of_mut(instance) else { return };
        group.has_warm_pool = true;
        group.spec.desired = group.spec.desired.saturating_sub(1);
        group.come_to(instance, HookPoint::ReturnToPool);
        let time = STEP.max(group.spec.deregistration_delay);
        self.step_after(now, instance, time);
    }

    /// Its hooks have ended.
    pub(super) fn proceed_into_pool(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        group.set(instance, LifecycleState::WarmedPendingProceed);
        if group.pool_state == PoolState::Running {
            self.step_after(now, instance, STEP);
            return;
        }
        self.end_instance(now, instance, InstanceState::Stopping);
        if self.instances.get(instance).is_some_and(|i| i.state == InstanceState::Stopped) {
            self.arrive_in_pool(now, instance);
        }
    }

    /// An instance is in the warm pool.
    pub(super) fn arrive_in_pool(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let Some(point) = group.point_of(instance) else { return };
        let (name, state) = (group.spec.name.clone(), group.pool_state.lifecycle_state());
        self.enter_pool(now, instance, state);
        let kind = match point.transition() {
            Transition::Launching => EventKind::LaunchSuccessful,
            Transition::Terminating => EventKind::TerminateSuccessful,
        };
        self.send_about_member(now, kind, &name, instance, point.event_fields());
    }

    /// Launches an instance of the warm pool into its group.
    pub(in crate::sim::aws) fn scale_out_from_pool(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        if !group.state_of(instance).is_some_and(LifecycleState::is_warm) {
            return;
        }
        group.spec.desired += 1;
        group.come_to(instance, HookPoint::LaunchFromPool);
        self.record_service(now, instance, ServiceEvent::OutOfWarmPool);
        match self.instances.get(instance).map(|found| found.state) {
            Some(InstanceState::Running) => self.step_after(now, instance, STEP),
            Some(InstanceState::Stopped) => self.start_again(now, instance),
            // Its health check fails.
            _ => self.terminate_member(now, instance),
        }
    }

    /// EC2 has started an instance that is launched out of the warm pool.
    pub(super) fn report_boot_out_of_pool(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of(instance) else { return };
        if group.point_of(instance) == Some(HookPoint::LaunchFromPool) {
            let boot = match group.pool_state {
                PoolState::Hibernated => Boot::Resumed,
                PoolState::Stopped | PoolState::Running => Boot::Started,
            };
            self.report_boot(now, instance, boot);
        }
    }

    /// Terminates an instance of the warm pool through the hooks of its group.
    pub(in crate::sim::aws) fn terminate_in_pool(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        if group.state_of(instance).is_some_and(LifecycleState::is_warm) {
            group.come_to(instance, HookPoint::TerminateInPool);
            self.step_after(now, instance, STEP);
        }
    }
}

/// At once, beside the lifecycle states.
impl State {
    fn record_service(&mut self, now: Moment, instance: &str, change: ServiceEvent) {
        self.service_changes.push(ServiceChange { at: now, instance: instance.to_owned(), change });
    }

    fn enter_pool(&mut self, now: Moment, instance: &str, state: LifecycleState) {
        if let Some(group) = self.group_of_mut(instance) {
            group.set(instance, state);
        }
        self.record_service(now, instance, ServiceEvent::IntoWarmPool);
    }

    /// The instance of this action is in the warm pool, and keeps running there.
    pub(super) fn run_in_pool(&mut self, now: Moment, index: usize) {
        if let Some(instance) = self.actions.instance_of(index) {
            self.enter_pool(now, &instance, LifecycleState::WarmedRunning);
        }
    }

    /// The instance of this action is terminated out of the warm pool.
    pub(super) fn end_in_pool(&mut self, now: Moment, index: usize) {
        if let Some(instance) = self.actions.instance_of(index) {
            self.proceed_to_end(now, &instance, LifecycleState::TerminatingProceed);
        }
    }

    /// An instance leaves the warm pool and is in service.
    pub(in crate::sim::aws) fn leave_pool(&mut self, now: Moment, instance: &str) {
        if let Some(group) = self.group_of_mut(instance) {
            group.set(instance, LifecycleState::InService);
        }
        self.record_service(now, instance, ServiceEvent::OutOfWarmPool);
    }

    pub(in crate::sim::aws) fn send_out_of_pool(&mut self, now: Moment, instance: &str) {
        let group = self.group_of(instance).map(|group| group.spec.name.clone());
        if let Some(group) = group {
            let ends = HookPoint::LaunchFromPool.event_fields();
            self.send_about_member(now, EventKind::LaunchSuccessful, &group, instance, ends);
        }
    }

    /// Begins the terminate hooks of an instance that goes back into the warm pool.
    pub(in crate::sim::aws) fn return_to_pool(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of(instance) else { return };
        let (name, hooks) = (group.spec.name.clone(), group.hooks_for(Transition::Terminating));
        let ends = HookPoint::ReturnToPool.event_fields();
        for hook in hooks {
            self.other_action(now, &name, &hook.name, instance, ends);
        }
    }
}
