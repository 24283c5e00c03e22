//! What a scenario does with single instances of a group that stay in it: standby, and new root
//! volumes. And when Auto Scaling lets instances boot.

use tokio::sync::mpsc;

use super::{EmbeddedAws, InstanceBoot};

impl EmbeddedAws {
    /// What EnterStandby does: the instance goes through `EnteringStandby` into `Standby`. If the
    /// desired capacity is not lowered, the group launches another instance. Returns whether the
    /// instance was in service.
    pub fn enter_standby(&self, instance: &str, lower_desired: bool) -> bool {
        self.shared.with(|state, now| state.enter_standby(now, instance, lower_desired))
    }

    /// What ExitStandby does: the desired capacity rises by one, and the instance goes through
    /// `Pending` and the launch hooks of its group into service. Returns whether the instance was
    /// in standby.
    pub fn exit_standby(&self, instance: &str) -> bool {
        self.shared.with(|state, now| state.exit_standby(now, instance))
    }

    /// What an instance refresh with the strategy `ReplaceRootVolume` does to an instance in
    /// service. The instance goes through `ReplacingRootVolume` and the terminate hooks of its
    /// group, boots from a new root volume, and comes back into service through the launch hooks.
    pub fn replace_root_volume(&self, instance: &str) {
        self.shared.with(|state, now| state.replace_root(now, instance));
    }

    /// The replacement of an instance's root volume fails after its terminate hooks: the group
    /// terminates the instance for good, through the hooks again, and launches another one.
    pub fn fail_root_volume(&self, instance: &str) {
        self.shared.with(|state, now| state.fail_root(now, instance));
    }

    /// Every time from now on at which Auto Scaling lets an instance boot again: out of a warm pool,
    /// or from a new root volume. [`EmbeddedAws::start_again`] is not among them: there the caller
    /// decides when the kubelet is back.
    pub fn subscribe_to_boots(&self) -> mpsc::UnboundedReceiver<InstanceBoot> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.shared.with(|state, _| state.boot_subscribers.push(sender));
        receiver
    }
}
