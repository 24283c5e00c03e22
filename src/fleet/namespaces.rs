//! The labels of namespaces, which rules with `namespaceLabels` read. One LIST answers for all
//! namespaces. It is asked for only while nodes are drained and such a rule exists, when a pod or new
//! rules wait for it and at intervals.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Effect, Fleet, FleetEvent, Question, pod_rules::SettingsByRules};
use crate::{
    domain::{Moment, NamespaceLabels, PodRules, seconds},
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
    /// New rules that read labels which are not known yet. They count from the answer on.
    next: Option<Arc<PodRules>>,
}

/// When new rules begin to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RulesCount {
    Now,
    /// When the labels that they read are known.
    Later,
}

fn keys_of(rules: &PodRules) -> BTreeSet<String> {
    rules.namespace_label_keys().map(str::to_owned).collect()
}

impl Fleet {
    /// These rules are to count instead of those that count now. While nodes are drained, rules that
    /// read other labels wait for these: until then, pods that stay would go.
    pub(super) fn follow_namespace_keys(&mut self, rules: &Arc<PodRules>) -> RulesCount {
        let keys = keys_of(rules);
        let are_known = keys.is_subset(&keys_of(&self.settings.drain.rules));
        let is_draining = !self.drains.is_empty();
        if keys != self.namespaces.keys {
            // An answer that is on its way has other keys, and is ignored.
            let NamespaceQuestions { asked_at, answered_at, .. } = self.namespaces;
            let soonest = asked_at.map_or(self.now, |at| at.plus(SHORTEST)).max(self.now);
            let due = is_draining.then_some(soonest);
            let none = NamespaceQuestions::default();
            self.namespaces = NamespaceQuestions { keys, due, asked_at, answered_at, ..none };
        }
        self.namespaces.next = None;
        if are_known {
            return RulesCount::Now;
        }
        if is_draining {
            self.namespaces.next = Some(Arc::clone(rules));
            return RulesCount::Later;
        }
        self.forget_namespaces();
        RulesCount::Now
    }

    /// Whether new rules wait for labels.
    pub(super) const fn have_rules_to_wait(&self) -> bool {
        self.namespaces.next.is_some()
    }

    /// A drain begins. While no node was drained, nothing was asked.
    pub(super) fn forget_old_namespaces(&mut self) {
        if !self.drains.is_empty() {
            return;
        }
        let oldest = self.now.minus(OLDEST);
        let next = self.namespaces.next.take();
        if next.is_some() || self.namespaces.answered_at.is_some_and(|at| at < oldest) {
            self.forget_namespaces();
        }
        if let Some(rules) = next {
            self.replace_rules(rules);
        }
    }

    fn forget_namespaces(&mut self) {
        self.namespaces.answered_at = None;
        self.replace_namespace_labels(NamespaceLabels::default());
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
        let next = self.namespaces.next.take();
        if next.is_none() && *self.settings.drain.namespaces == labels {
            return;
        }
        self.replace_namespace_labels(labels);
        if let Some(rules) = next {
            self.replace_rules(rules);
        }
        self.apply_rules_to_all();
    }

    /// The caller applies them to the drains.
    fn replace_namespace_labels(&mut self, labels: NamespaceLabels) {
        let settings =
            drain::Settings { namespaces: Arc::new(labels), ..(*self.settings.drain).clone() };
        self.settings.drain = Arc::new(settings);
        self.settings_by_rules = SettingsByRules::default();
    }
}
