//! The labels of namespaces, which rules with `namespaceLabels` read. One LIST answers for all
//! namespaces. It is asked for only while nodes are drained and such a rule exists, when a pod waits
//! for it and at intervals.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Effect, Fleet, FleetEvent, Question, pod_rules::SettingsByRules};
use crate::{
    domain::{Moment, NamespaceLabels, NodeName, seconds},
    drain,
};

/// The shortest time between two questions.
const SHORTEST: Duration = seconds(1);
/// How long after an answer the labels are asked for again.
const REFRESH: Duration = seconds(60);
/// How long after a failure.
const RETRY: Duration = seconds(10);
/// Labels that were read before this are forgotten when the first drain begins.
const OLDEST: Duration = seconds(120);

/// The questions about labels of namespaces.
#[derive(Debug, Default)]
pub(super) struct NamespaceQuestions {
    /// The keys of the labels that the rules read. Empty: none is asked for.
    keys: BTreeSet<String>,
    /// When to ask next; `None`: not before a pod needs it.
    due: Option<Moment>,
    /// A question has no answer yet.
    is_asking: bool,
    asked_at: Option<Moment>,
    answered_at: Option<Moment>,
    /// The last question failed, which was reported.
    is_failing: bool,
}

impl Fleet {
    /// The rules have changed: if they read other labels than before, no label is known.
    pub(super) fn follow_namespace_keys(&mut self) {
        let keys: BTreeSet<String> =
            self.settings.drain.rules.namespace_label_keys().map(str::to_owned).collect();
        if keys == self.namespaces.keys {
            return;
        }
        // An answer that is on its way has other keys, and is ignored.
        self.namespaces = NamespaceQuestions { keys, ..NamespaceQuestions::default() };
        self.replace_namespace_labels(NamespaceLabels::default());
    }

    /// A drain begins. While no node was drained, nothing was asked.
    pub(super) fn forget_old_namespaces(&mut self) {
        let oldest = self.now.minus(OLDEST);
        if self.drains.is_empty() && self.namespaces.answered_at.is_some_and(|at| at < oldest) {
            self.namespaces.answered_at = None;
            self.replace_namespace_labels(NamespaceLabels::default());
        }
    }

    /// A pod waits for the labels of its namespace.
    pub(super) fn namespaces_needed(&mut self) {
        let soonest = self.namespaces.asked_at.map_or(self.now, |at| at.plus(SHORTEST));
        let due = self.namespaces.due.map_or(soonest, |due| due.min(soonest));
        self.namespaces.due = Some(due.max(self.now));
        self.ask_for_namespaces();
    }

    /// Asks if that is due.
    pub(super) fn ask_for_namespaces(&mut self) {
        let now = self.now;
        let questions = &mut self.namespaces;
        let is_due = questions.due.is_some_and(|due| due <= now);
        if !is_due || questions.is_asking || questions.keys.is_empty() || self.drains.is_empty() {
            return;
        }
        questions.is_asking = true;
        questions.asked_at = Some(now);
        questions.due = None;
        self.out.push(Effect::Ask(Question::Namespaces(questions.keys.clone())));
    }

    /// The answer. `Err`: the error of the LIST.
    pub(super) fn namespaces_read(
        &mut self,
        keys: &BTreeSet<String>,
        found: Result<NamespaceLabels, String>,
    ) {
        if *keys != self.namespaces.keys {
            return;
        }
        let now = self.now;
        let questions = &mut self.namespaces;
        questions.is_asking = false;
        let pause = if found.is_ok() { REFRESH } else { RETRY };
        // A pod may have needed another answer meanwhile.
        questions.due = Some(questions.due.unwrap_or(Moment::MAX).min(now.plus(pause)));
        let was_failing = std::mem::replace(&mut questions.is_failing, found.is_err());
        match found {
            Ok(labels) => {
                questions.answered_at = Some(now);
                if was_failing {
                    self.out.report_of_fleet(FleetEvent::NamespacesKnown);
                }
                self.apply_namespace_labels(labels);
            }
            Err(error) if !was_failing => {
                self.out.report_of_fleet(FleetEvent::NamespacesUnknown(error));
            }
            Err(_) => {}
        }
    }

    fn apply_namespace_labels(&mut self, labels: NamespaceLabels) {
        if *self.settings.drain.namespaces == labels {
            return;
        }
        self.replace_namespace_labels(labels);
        let nodes: Vec<NodeName> = self.drains.keys().cloned().collect();
        for node in nodes {
            self.apply_rules(&node);
        }
    }

    /// The caller applies them to the drains.
    fn replace_namespace_labels(&mut self, labels: NamespaceLabels) {
        let settings =
            drain::Settings { namespaces: Arc::new(labels), ..(*self.settings.drain).clone() };
        self.settings.drain = Arc::new(settings);
        self.settings_by_rules = SettingsByRules::default();
    }
}
