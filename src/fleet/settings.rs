//! The settings of a drain that the annotations of its Node give.

use super::{DrainEvent, Fleet};
use crate::domain::{Limits, NodeName, ReadSettings, Setting, SettingProblem};

impl Fleet {
    /// Applies the settings in a Node's annotations if they have changed since Sundown last read
    /// them.
    pub(super) fn follow_settings(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        let read = self.settings.limits.of_node(&state.node);
        let before = std::mem::replace(&mut state.node_settings, read);
        if before == state.node_settings {
            return;
        }
        if state.node_settings.0.drain_timeout != before.0.drain_timeout && self.has_passed(name) {
            self.timeout_has_passed(name, &before);
        }
        let Some(state) = self.drains.get(name) else { return };
        let after = &state.node_settings;
        if after.1 != before.1 && !after.1.is_empty() {
            self.out.report(name, DrainEvent::SettingsIgnored(after.1.clone()));
        }
        if before.0 != after.0 {
            self.report_resumed_at(name);
            self.refresh_limits(name);
        }
    }

    /// The Node's new drain timeout, counted from the accept, has passed already. The first time it
    /// counts from now, so that nothing is forced at once. Later the old one stays: otherwise a
    /// kubelet could put the end off again and again.
    fn timeout_has_passed(&mut self, name: &NodeName, before: &ReadSettings) {
        let Some(state) = self.drains.get_mut(name) else { return };
        if !std::mem::replace(&mut state.is_timeout_changed, true) {
            return self.count_anew(name);
        }
        let (settings, problems) = &mut state.node_settings;
        let refused = settings.text(Setting::DrainTimeout).unwrap_or_default();
        settings.drain_timeout = before.0.drain_timeout;
        problems.push(SettingProblem::has_passed(&refused));
    }

    /// Whether a deadline of the drain that was ahead would lie in the past with its present
    /// settings.
    pub(super) fn has_passed(&mut self, name: &NodeName) -> bool {
        let now = self.now;
        let passed =
            |limits: &Limits| limits.force_at.or(limits.end_at).is_some_and(|end| end <= now);
        let Some(state) = self.drains.get(name).filter(|state| state.is_draining()) else {
            return false;
        };
        !passed(&state.limits) && self.limits_now(name).is_some_and(|limits| passed(&limits))
    }

    /// From now on, deadlines of the drain that have passed count from now.
    pub(super) fn count_anew(&mut self, name: &NodeName) {
        let now = self.now;
        if let Some(state) = self.drains.get_mut(name) {
            state.resumed_at = now;
        }
        self.report_resumed_at(name);
    }
}
