//! Instances that are drained and come back: with a new root volume, or out of a warm pool.

use serde_json::json;
use sundown::sim::aws::{LifecycleState, Member, State};

use super::play::{Play, Todo};
use crate::judge::Belongs;

/// How long after the end of its hooks an instance boots from its new root volume.
const BOOTS_AFTER: u64 = 20;
/// How long a look waits for the next one.
const LOOK_AGAIN: u64 = 10;

impl Play<'_> {
    /// An instance in service of a group of ours that has hooks, without an open action: its group
    /// and itself.
    fn in_service(&self, pick: usize) -> Option<(String, String)> {
        let aws = &self.stage.world.aws;
        let groups = self.plan.groups.iter();
        let groups = groups.filter(|g| g.belongs == Belongs::Us && !g.hooks.is_empty());
        let runs = |id: &str| aws.instance(id).is_some_and(|i| i.state == State::Running);
        let all: Vec<_> = groups
            .flat_map(|group| {
                let members = aws.members(&group.name).into_iter();
                let serving = members.filter(|member| member.state == LifecycleState::InService);
                let ids = serving.map(|member| member.instance);
                ids.filter(|id| runs(id) && !self.has_open_action(id))
                    .map(|id| (group.name.clone(), id))
                    .collect::<Vec<_>>()
            })
            .collect();
        (!all.is_empty()).then(|| all[pick % all.len()].clone())
    }

    fn has_open_action(&self, instance: &str) -> bool {
        let actions = self.stage.world.aws.actions();
        actions.iter().any(|action| action.instance == instance && action.end.is_none())
    }

    /// Auto Scaling replaces the root volume of an instance, through its terminate hooks.
    pub(super) fn replace_root_volume(&mut self, pick: usize) {
        let Some((group, instance)) = self.in_service(pick) else { return };
        let plan = self.plan.groups.iter().find(|of| of.name == group);
        let hooks: Vec<_> = plan.into_iter().flat_map(|group| &group.hooks).collect();
        let detail = [
            ("Action", "ReplaceRootVolume"),
            ("Origin", "AutoScalingGroup"),
            ("Destination", "AutoScalingGroup"),
        ];
        for (hook, _) in hooks {
            self.stage.world.aws.other_action(&group, hook, &instance, &detail);
        }
        self.after(BOOTS_AFTER, Todo::NewRoot(instance));
    }

    /// Its hooks have ended, or not yet.
    pub(super) fn boot_from_new_root(&mut self, instance: String) {
        if self.has_open_action(&instance) {
            self.after(LOOK_AGAIN, Todo::NewRoot(instance));
            return;
        }
        let world = &self.stage.world;
        let runs = world.aws.instance(&instance).is_some_and(|i| i.state == State::Running);
        if let Some(node) = world.node_of(&instance).filter(|_| runs) {
            world.kube.reboot(&node);
        }
    }

    /// Somebody sends an event about an action of this instance that Auto Scaling never began.
    pub(super) fn make_up(&mut self, pick: usize) {
        let Some((group, instance)) = self.in_service(pick) else { return };
        let hooks = self.plan.groups.iter().find(|g| g.name == group).map(|g| &g.hooks);
        let Some((hook, _)) = hooks.and_then(|all| all.get(pick % all.len())) else { return };
        self.changes += 1;
        let time = self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let body = json!({
            "version": "0", "id": format!("made-up-{}", self.changes),
            "detail-type": "EC2 Instance-terminate Lifecycle Action",
            "source": "aws.autoscaling", "account": "123456789012", "time": time,
            "region": "eu-west-1", "resources": [],
            "detail": {
                "LifecycleActionToken": format!("00000000-0000-4000-8000-{:012}", self.changes),
                "AutoScalingGroupName": group, "LifecycleHookName": hook,
                "EC2InstanceId": instance,
                "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
                "Origin": "AutoScalingGroup", "Destination": "EC2",
            },
        });
        let world = &self.stage.world;
        world.aws.send_event(world.queue(), &body.to_string());
    }

    pub(super) fn new_root_volume(&mut self, pick: usize, fails: Option<u64>) {
        let Some((_, instance)) = self.in_service(pick) else { return };
        self.stage.world.aws.replace_root_volume(&instance);
        if let Some(after) = fails {
            self.after(after, Todo::FailRootVolume(instance));
        }
    }

    pub(super) fn stand_by(&mut self, pick: usize, lower_desired: bool, seconds: u64) {
        let Some((_, instance)) = self.in_service(pick) else { return };
        if self.stage.world.aws.enter_standby(&instance, lower_desired) {
            self.after(seconds, Todo::ExitStandby(instance));
        }
    }

    /// Into the warm pool that a group has from the start.
    pub(super) fn use_warm_pool(
        &mut self,
        pick: usize,
        is_new: bool,
        seconds: u64,
        ends_there: bool,
    ) {
        let aws = self.stage.world.aws.clone();
        let pools: Vec<_> = self.plan.groups.iter().filter(|group| group.pool.is_some()).collect();
        let Some(group) = pools.get(pick % pools.len().max(1)) else { return };
        let instance = if is_new {
            aws.launch_into_warm_pool(&group.name)
        } else {
            let members = aws.members(&group.name);
            let serving =
                members.into_iter().filter(|member| member.state == LifecycleState::InService);
            let ids: Vec<_> = serving
                .map(|member| member.instance)
                .filter(|instance| !self.has_open_action(instance))
                .collect();
            let id = ids.get(pick % ids.len().max(1)).cloned();
            id.inspect(|instance| aws.scale_in_to_warm_pool(instance))
        };
        if let Some(instance) = instance {
            self.after(seconds, Todo::EndInPool { instance, leaves: !ends_there });
        }
    }

    /// An instance leaves the warm pool, or ends there, as soon as its hooks are over.
    pub(super) fn end_in_pool(&mut self, instance: String, leaves: bool) {
        let aws = self.stage.world.aws.clone();
        if self.has_open_action(&instance) {
            self.after(LOOK_AGAIN, Todo::EndInPool { instance, leaves });
        } else if leaves {
            aws.scale_out_from_warm_pool(&instance);
        } else {
            aws.terminate_in_warm_pool(&instance);
        }
    }

    /// Auto Scaling returns an instance to the warm pool.
    pub(super) fn return_to_pool(&mut self, pick: usize, seconds: u64, with_event: bool) {
        let Some((_, instance)) = self.in_service(pick) else { return };
        self.stage.world.aws.return_to_warm_pool(&instance);
        self.after(seconds, Todo::LeavePool { instance, with_event });
    }

    pub(super) fn leave_pool(&mut self, instance: String, with_event: bool) {
        let aws = &self.stage.world.aws;
        let group = aws.instance(&instance).and_then(|found| found.group).unwrap_or_default();
        let is_pooled = |member: &Member| {
            member.instance == instance && member.state == LifecycleState::WarmedRunning
        };
        let is_pooled = aws.members(&group).iter().any(is_pooled);
        if self.has_open_action(&instance) {
            self.after(LOOK_AGAIN, Todo::LeavePool { instance, with_event });
        } else if !is_pooled {
            // It ended in the pool, or on its way.
        } else if with_event {
            self.stage.world.aws.leave_warm_pool_with_event(&instance);
        } else {
            self.stage.world.aws.leave_warm_pool(&instance);
        }
    }
}
