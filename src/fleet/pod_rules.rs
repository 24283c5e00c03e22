//! The administrator's rules about pods, which may change while nodes are drained. On each node
//! only those count whose `nodeLabels` match.

use std::{collections::BTreeMap, sync::Arc};

use super::{Fleet, namespaces::RulesCount};
use crate::{
    domain::{Node, NodeName, PodRules, RulesOnNode},
    drain,
};

/// The settings of drains on whose nodes not all rules count. Drains with the same rules share them.
#[derive(Debug, Default)]
pub(super) struct SettingsByRules(BTreeMap<RulesOnNode, Arc<drain::Settings>>);

impl SettingsByRules {
    fn of(&mut self, all: &Arc<drain::Settings>, on_node: RulesOnNode) -> Arc<drain::Settings> {
        if let Some(known) = self.0.get(&on_node) {
            return Arc::clone(known);
        }
        let rules = all.rules.only(on_node);
        if rules.count() == all.rules.count() {
            return Arc::clone(all);
        }
        self.0.retain(|_, settings| Arc::strong_count(settings) > 1);
        let settings = Arc::new(drain::Settings { rules: Arc::new(rules), ..(**all).clone() });
        self.0.insert(on_node, Arc::clone(&settings));
        settings
    }
}

impl Fleet {
    /// Applies the rules to all drains, and to those that begin later.
    pub(super) fn set_pod_rules(&mut self, rules: Arc<PodRules>) {
        if self.settings.drain.rules == rules && !self.have_rules_to_wait() {
            return;
        }
        if self.follow_namespace_keys(&rules) == RulesCount::Now {
            self.replace_rules(rules);
            self.apply_rules_to_all();
        }
    }

    /// The caller applies them to the drains.
    pub(super) fn replace_rules(&mut self, rules: Arc<PodRules>) {
        let settings = drain::Settings { rules, ..(*self.settings.drain).clone() };
        self.settings.drain = Arc::new(settings);
        self.settings_by_rules = SettingsByRules::default();
    }

    pub(super) fn apply_rules_to_all(&mut self) {
        let nodes: Vec<NodeName> = self.drains.keys().cloned().collect();
        for node in nodes {
            self.apply_rules(&node);
        }
    }

    /// The settings for the drain of this Node, and which rules count on it.
    pub(super) fn drain_settings(&mut self, node: &Node) -> (Arc<drain::Settings>, RulesOnNode) {
        let on_node = self.settings.drain.rules.on_node(&node.labels);
        (self.settings_by_rules.of(&self.settings.drain, on_node), on_node)
    }

    /// Applies the labels of a drained Node if other rules count on it than before.
    pub(super) fn follow_node_labels(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get(name) else { return };
        if state.rules_on_node != self.settings.drain.rules.on_node(&state.node.labels) {
            self.apply_rules(name);
        }
    }

    pub(super) fn apply_rules(&mut self, name: &NodeName) {
        let Some(node) = self.drains.get(name).map(|state| Arc::clone(&state.node)) else { return };
        let (settings, on_node) = self.drain_settings(&node);
        if let Some(state) = self.drains.get_mut(name) {
            state.rules_on_node = on_node;
        }
        self.feed(name, drain::Input::Settings(settings));
    }
}
