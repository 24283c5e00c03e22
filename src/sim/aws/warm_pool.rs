//! What a scenario does with warm pools, and with instances that leave their group.

use super::EmbeddedAws;

impl EmbeddedAws {
    /// Gives the group a warm pool, which is empty. A group whose instances go into a warm pool by
    /// [`EmbeddedAws::other_action`] has one without this.
    pub fn put_warm_pool(&self, group: &str) {
        self.shared.with(|state, _| {
            if let Some(group) = state.groups.get_mut(group) {
                group.has_warm_pool = true;
            }
        });
    }

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
    pub fn return_to_warm_pool(&self, instance: &str) {
        self.shared.with(|state, now| state.return_to_pool(now, instance));
    }

    /// Detaches the instance from its group: it keeps running, and loses the tag with the name of
    /// the group. No event is sent.
    pub fn detach(&self, instance: &str) {
        self.shared.with(|state, _| state.detach(instance));
    }
}
