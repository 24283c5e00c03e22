//! The life of an instance in its group: launch, launch hooks, service, terminate hooks, end.

use std::time::Duration;

use super::{LifecycleState, actions::EndsIn, hook_point::HookPoint};
use crate::{
    domain::Moment,
    sim::aws::{
        events::EventKind,
        instance::State as InstanceState,
        state::{State, Timer},
    },
};

/// How long an instance stays in a state in which Auto Scaling waits for nothing. AWS documents no
/// time. Launches and terminations pass such states at once here.
pub(super) const STEP: Duration = Duration::from_secs(5);

impl State {
    /// Terminates an instance through its group's hooks.
    pub(in crate::sim::aws) fn terminate_member(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let (name, delay) = (group.spec.name.clone(), group.spec.deregistration_delay);
        match group.state_of(instance) {
            Some(LifecycleState::TerminatingRetained) => {
                self.proceed_to_end(now, instance, LifecycleState::TerminatingProceed);
            }
            Some(state) if state.is_retained() => {
                self.proceed_to_end(now, instance, LifecycleState::WarmedTerminatingProceed);
            }
            Some(state) if state.counts() || state.is_standby() => {
                group.come_to(instance, HookPoint::Terminate);
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
        if self.group_of(instance).and_then(|g| g.state_of(instance))
            == Some(LifecycleState::Terminating)
        {
            self.begin_hooks(now, instance);
        }
    }

    /// Begins the hooks of the point to which an instance has come.
    pub(super) fn begin_hooks(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let Some(point) = group.point_of(instance) else { return };
        let hooks = group.hooks_for(point.transition());
        let name = group.spec.name.clone();
        if hooks.is_empty() {
            self.hooks_over(now, instance, false);
            return;
        }
        group.set(instance, point.wait_state());
        for hook in hooks {
            let (ends_in, detail) = (EndsIn::NextState, point.event_fields());
            let token = self.begin_action(now, &name, &hook, instance, ends_in, detail);
            self.send_action(now, &name, &hook, instance, &token, detail);
        }
    }

    /// Lets an instance leave its lifecycle state after this time, unless it leaves it earlier.
    pub(super) fn step_after(&mut self, now: Moment, instance: &str, time: Duration) {
        if let Some(from) = self.group_of(instance).and_then(|group| group.state_of(instance)) {
            self.after(now, time, Timer::Step { instance: instance.to_owned(), from });
        }
    }

    /// That time is over.
    pub(in crate::sim::aws) fn step(&mut self, now: Moment, instance: &str, from: LifecycleState) {
        if self.group_of(instance).and_then(|group| group.state_of(instance)) != Some(from) {
            return;
        }
        match from {
            LifecycleState::Pending
            | LifecycleState::ReplacingRootVolume
            | LifecycleState::WarmedPending
            | LifecycleState::WarmedTerminating => self.begin_hooks(now, instance),
            LifecycleState::PendingProceed => self.put_in_service(now, instance),
            LifecycleState::EnteringStandby => self.finish_standby(instance),
            LifecycleState::ReplacingRootVolumeProceed => self.boot_from_new_root(now, instance),
            LifecycleState::RootVolumeReplaced => self.pass_health_check(now, instance),
            LifecycleState::WarmedPendingProceed => self.arrive_in_pool(now, instance),
            _ => {}
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
        let token = self.begin_action(now, group, &hook, instance, ends_in, detail);
        self.send_action(now, group, &hook, instance, &token, detail);
        Some(token)
    }

    /// All hooks of the point to which an instance has come have ended.
    pub(super) fn hooks_over(&mut self, now: Moment, instance: &str, abandoned: bool) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let Some(point) = group.point_of(instance) else { return };
        let name = group.spec.name.clone();
        let retained = abandoned && group.spec.retain_on_abandon;
        match point {
            HookPoint::Launch
            | HookPoint::LaunchFromStandby
            | HookPoint::LaunchFromPool
            | HookPoint::NewRootVolume
                if abandoned =>
            {
                // The launch has failed: no terminate hook runs for it.
                self.proceed_to_end(now, instance, LifecycleState::TerminatingProceed);
                self.see_to_size(now, &name);
            }
            HookPoint::Launch => self.put_in_service(now, instance),
            HookPoint::LaunchFromStandby | HookPoint::LaunchFromPool | HookPoint::NewRootVolume => {
                group.set(instance, LifecycleState::PendingProceed);
                self.step_after(now, instance, STEP);
            }
            HookPoint::Terminate if retained => {
                group.set(instance, LifecycleState::TerminatingRetained);
            }
            HookPoint::Terminate => {
                self.proceed_to_end(now, instance, LifecycleState::TerminatingProceed);
            }
            // As with a termination, ABANDON only stops the remaining hooks.
            HookPoint::ReplaceRootVolume => {
                group.set(instance, LifecycleState::ReplacingRootVolumeProceed);
                let boot = group.spec.template.boot;
                self.step_after(now, instance, boot);
            }
            HookPoint::ReturnToPool if retained => {
                group.set(instance, LifecycleState::WarmedPendingRetained);
            }
            HookPoint::TerminateInPool if retained => {
                group.set(instance, LifecycleState::WarmedTerminatingRetained);
            }
            HookPoint::LaunchIntoPool | HookPoint::ReturnToPool if !abandoned => {
                self.proceed_into_pool(now, instance);
            }
            HookPoint::LaunchIntoPool | HookPoint::ReturnToPool | HookPoint::TerminateInPool => {
                self.proceed_to_end(now, instance, LifecycleState::WarmedTerminatingProceed);
            }
        }
    }

    /// The launch of an instance has succeeded.
    fn put_in_service(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        let Some(point) = group.point_of(instance) else { return };
        let name = group.spec.name.clone();
        group.set(instance, LifecycleState::InService);
        if point != HookPoint::NewRootVolume {
            let fields = point.event_fields();
            self.send_about_member(now, EventKind::LaunchSuccessful, &name, instance, fields);
        }
    }

    /// Terminates an instance without hooks; `state`: its lifecycle state until it is gone.
    pub(super) fn proceed_to_end(&mut self, now: Moment, instance: &str, state: LifecycleState) {
        if let Some(group) = self.group_of_mut(instance) {
            group.set(instance, state);
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
            (
                InstanceState::Running,
                Some(LifecycleState::Pending | LifecycleState::WarmedPending),
            ) => {
                self.report_boot_out_of_pool(now, instance);
                self.begin_hooks(now, instance);
            }
            (InstanceState::Stopped, Some(LifecycleState::WarmedPendingProceed)) => {
                self.arrive_in_pool(now, instance);
            }
            (InstanceState::Terminated, Some(LifecycleState::TerminatingProceed)) => {
                group.remove(instance);
                self.send_about_member(now, EventKind::TerminateSuccessful, &name, instance, &[]);
            }
            (InstanceState::Terminated, Some(LifecycleState::WarmedTerminatingProceed)) => {
                group.remove(instance);
                let out_of_pool = HookPoint::TerminateInPool.event_fields();
                let kind = EventKind::TerminateSuccessful;
                self.send_about_member(now, kind, &name, instance, out_of_pool);
            }
            // In `Warmed:Running` the group keeps it: seeds of the simulation rely on that.
            (InstanceState::Terminated, Some(stand)) if stand.leaves_pool_when_gone() => {
                group.remove(instance);
                self.drop_actions(now, &name, instance);
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
}
