//! The administrator's rules about pods, which may change while nodes are drained.

use std::sync::Arc;

use super::Fleet;
use crate::{
    domain::{NodeName, PodRules},
    drain,
};

impl Fleet {
    /// Applies the rules to all drains, and to those that begin later.
    pub(super) fn set_pod_rules(&mut self, rules: Arc<PodRules>) {
        if self.settings.drain.rules == rules {
            return;
        }
        let settings = drain::Settings { rules, ..(*self.settings.drain).clone() };
        self.settings.drain = Arc::new(settings);
        let nodes: Vec<NodeName> = self.drains.keys().cloned().collect();
        for node in nodes {
            self.feed(&node, drain::Input::Settings(Arc::clone(&self.settings.drain)));
        }
    }
}
