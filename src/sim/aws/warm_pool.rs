//! What a scenario does with warm pools, and with instances that leave their group.

use super::{EmbeddedAws, PoolState};

/// Warm pools with all lifecycle states.
impl EmbeddedAws {
    /// Gives the group an empty warm pool, whose instances keep running. The shortcuts below create
    /// the pool themselves.
    pub fn put_warm_pool(&self, group: &str) {
        self.put_warm_pool_with_state(group, PoolState::Running);
    }

    /// Gives the group an empty warm pool. `pool_state`: what becomes of the instances that go into
    /// it from now on.
    pub fn put_warm_pool_with_state(&self, group: &str, pool_state: PoolState) {
        self.shared.with(|state, _| {
            if let Some(group) = state.groups.get_mut(group) {
                (group.has_warm_pool, group.pool_state) = (true, pool_state);
            }
        });
    }

    /// Launches an instance into the warm pool, through the launch hooks of the group; returns its
    /// id. `None`: no such group.
    pub fn launch_into_warm_pool(&self, group: &str) -> Option<String> {
        self.shared.with(|state, now| state.launch_into_pool(now, group))
    }

    /// A scale-in moves an instance in service into the warm pool, through the terminate hooks of
    /// the group (`ReuseOnScaleIn`). The desired capacity falls by one.
    pub fn scale_in_to_warm_pool(&self, instance: &str) {
        self.shared.with(|state, now| state.scale_in_to_pool(now, instance));
    }

    /// A scale-out takes an instance of the warm pool, which EC2 starts if it is stopped, and
    /// launches it into its group through the launch hooks. The desired capacity rises by one.
    pub fn scale_out_from_warm_pool(&self, instance: &str) {
        self.shared.with(|state, now| state.scale_out_from_pool(now, instance));
    }

    /// Auto Scaling terminates an instance of the warm pool, through the terminate hooks of its
    /// group.
    pub fn terminate_in_warm_pool(&self, instance: &str) {
        self.shared.with(|state, now| state.terminate_in_pool(now, instance));
    }
}

/// Shortcuts past the lifecycle states, for instances that run in their pool. The
/// eleventh stream of the simulation's seeds uses them: the full methods take other times, and would
/// change those worlds.
impl EmbeddedAws {
    /// An instance leaves its warm pool and is in service. No event is sent.
    pub fn leave_warm_pool(&self, instance: &str) {
        self.shared.with(|state, now| state.leave_pool(now, instance));
    }

    /// The same, with the event `EC2 Instance Launch Successful`.
    pub fn leave_warm_pool_with_event(&self, instance: &str) {
        self.shared.with(|state, now| {
            state.leave_pool(now, instance);
            state.send_out_of_pool(now, instance);
        });
    }

    /// Auto Scaling returns an instance to the warm pool, through the terminate hooks of its group.
    /// It is in the pool as soon as they have ended.
    pub fn return_to_warm_pool(&self, instance: &str) {
        self.shared.with(|state, now| state.return_to_pool(now, instance));
    }

    /// Detaches the instance from its group: it keeps running, and loses the tag with the name of
    /// the group. No event is sent.
    pub fn detach(&self, instance: &str) {
        self.shared.with(|state, _| state.detach(instance));
    }
}
