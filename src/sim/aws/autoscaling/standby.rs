//! Standby: instances that a person takes out of service and puts back (Auto Scaling user guide,
//! "Temporarily remove instances from your Auto Scaling group").

use super::{LifecycleState, flow::STEP, hook_point::HookPoint};
use crate::{
    domain::Moment,
    sim::aws::{
        instance::State as InstanceState,
        state::{State, Timer},
    },
};

impl State {
    /// An instance is in service and waits in no hook.
    pub(super) fn is_in_service(&self, instance: &str) -> bool {
        self.group_of(instance).is_some_and(|group| {
            group.state_of(instance) == Some(LifecycleState::InService)
                && self.waits_aside(&group.spec.name, instance).is_none()
        })
    }

    /// What EnterStandby does to one instance; whether the instance was in service.
    pub(in crate::sim::aws) fn enter_standby(
        &mut self,
        now: Moment,
        instance: &str,
        lower_desired: bool,
    ) -> bool {
        if !self.is_in_service(instance) {
            return false;
        }
        let Some(group) = self.group_of_mut(instance) else { return false };
        if lower_desired {
            group.spec.desired = group.spec.desired.saturating_sub(1);
        }
        group.set(instance, LifecycleState::EnteringStandby);
        let (name, time) = (group.spec.name.clone(), STEP.max(group.spec.deregistration_delay));
        self.step_after(now, instance, time);
        self.see_to_size(now, &name);
        true
    }

    /// It is deregistered from load balancers.
    pub(super) fn finish_standby(&mut self, instance: &str) {
        if let Some(group) = self.group_of_mut(instance) {
            group.set(instance, LifecycleState::Standby);
        }
    }

    /// What ExitStandby does to one instance; whether the instance was in standby. The desired
    /// capacity rises, however the instance came into standby.
    pub(in crate::sim::aws) fn exit_standby(&mut self, now: Moment, instance: &str) -> bool {
        let runs = self.instances.get(instance).is_some_and(|i| i.state == InstanceState::Running);
        let Some(group) = self.group_of_mut(instance) else { return false };
        if group.state_of(instance) != Some(LifecycleState::Standby) {
            return false;
        }
        group.spec.desired += 1;
        group.come_to(instance, HookPoint::LaunchFromStandby);
        let notice_after = group.spec.notice_after;
        if runs {
            self.step_after(now, instance, STEP);
        } else {
            // Its health is checked again.
            self.after(now, notice_after, Timer::Notice { instance: instance.to_owned() });
        }
        true
    }
}
