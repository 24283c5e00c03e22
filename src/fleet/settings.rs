//! The settings of a drain that the annotations of its Node give.

use super::{DrainEvent, Fleet};
use crate::domain::NodeName;

impl Fleet {
    /// Acts on the settings in the annotations of a Node, if they have changed since the drain
    /// began or last looked.
    pub(super) fn follow_settings(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        let read = self.settings.limits.of_node(&state.node);
        let before = std::mem::replace(&mut state.node_settings, read);
        let (now, after) = (self.now, &state.node_settings);
        if before == *after {
            return;
        }
        if after.1 != before.1 && !after.1.is_empty() {
            self.out.report(name, DrainEvent::SettingsIgnored(after.1.clone()));
        }
        if before.0 == after.0 {
            return;
        }
        if after.0.drain_timeout != before.0.drain_timeout {
            // If the new deadline has already passed, it counts from now: nothing is forced at
            // once. Only the first time: otherwise a kubelet could put the end off again and
            // again.
            if !std::mem::replace(&mut state.is_timeout_changed, true) {
                state.resumed_at = now;
            }
        }
        self.report_resumed_at(name);
        self.refresh_limits(name);
    }
}
