//! New settings during a drain: the administrator's rules about pods have changed.

use std::sync::Arc;

use super::Drain;
use crate::{
    domain::{Moment, PodUid},
    drain::Settings,
};

impl Drain {
    /// Applies new settings, and evaluates all pods again.
    pub(super) fn set_settings(&mut self, now: Moment, settings: Arc<Settings>) {
        if self.settings == settings {
            return;
        }
        let old = std::mem::replace(&mut self.settings, settings);
        let all: Vec<PodUid> = self.pods.keys().cloned().collect();
        for uid in &all {
            let Some(entry) = self.pods.get_mut(uid) else { continue };
            let before = entry.tally();
            entry.settings_changed(&old, &self.settings);
            self.resolve_daemon_set(uid);
            if let Some(entry) = self.pods.get(uid) {
                self.tally.replace(before, entry.tally());
            }
            self.note_claims(uid);
        }
        self.evaluate_all(now);
    }
}
