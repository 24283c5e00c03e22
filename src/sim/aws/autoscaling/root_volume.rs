//! An instance refresh that replaces root volumes (Auto Scaling user guide, "Replace root volumes
//! during instance refresh").

use super::{LifecycleState, Transition, flow::STEP, groups::HEALTH_CHECK, hook_point::HookPoint};
use crate::{
    domain::Moment,
    sim::aws::{
        instance::{Boot, State as InstanceState},
        state::State,
    },
};

impl State {
    /// Begins to replace the root volume of an instance in service.
    pub(in crate::sim::aws) fn replace_root(&mut self, now: Moment, instance: &str) {
        if !self.is_in_service(instance) {
            return;
        }
        let Some(group) = self.group_of_mut(instance) else { return };
        group.come_to(instance, HookPoint::ReplaceRootVolume);
        let time = STEP.max(group.spec.deregistration_delay);
        self.step_after(now, instance, time);
    }

    /// EC2 has replaced the root volume: the instance boots from it.
    pub(super) fn boot_from_new_root(&mut self, now: Moment, instance: &str) {
        if self.instances.get(instance).is_none_or(|i| i.state != InstanceState::Running) {
            self.fail_root(now, instance);
            return;
        }
        if let Some(group) = self.group_of_mut(instance) {
            group.set(instance, LifecycleState::RootVolumeReplaced);
        }
        self.report_boot(now, instance, Boot::NewRoot);
        self.step_after(now, instance, HEALTH_CHECK);
    }

    /// An instance is healthy with its new root volume. Without launch hooks it is in service.
    pub(super) fn pass_health_check(&mut self, now: Moment, instance: &str) {
        let Some(group) = self.group_of_mut(instance) else { return };
        if group.hooks_for(Transition::Launching).is_empty() {
            group.set(instance, LifecycleState::InService);
            return;
        }
        group.come_to(instance, HookPoint::NewRootVolume);
        self.step_after(now, instance, STEP);
    }

    /// The replacement of the root volume has failed: the instance is terminated and replaced.
    pub(in crate::sim::aws) fn fail_root(&mut self, now: Moment, instance: &str) {
        let state = self.group_of(instance).and_then(|group| group.state_of(instance));
        let is_replaced = matches!(
            state,
            Some(LifecycleState::ReplacingRootVolumeProceed | LifecycleState::RootVolumeReplaced)
        );
        if is_replaced {
            self.terminate_member(now, instance);
        }
    }
}
