//! What pods ask of a drain: their priority, labels and annotations as the plan of the world gives
//! them, and what the flags and the rules of the administrator make of that.

use std::time::Duration;

use serde_json::Value;
use sundown::sim::kube::PodRef;

use super::{Terms, is_like, sent::duration};

/// From this priority on a pod is critical.
pub const CRITICAL: i64 = 2_000_000_000;

/// What the plan gives the pods of a workload, or a single pod.
#[derive(Debug, Clone, Default)]
pub struct Traits {
    pub priority: i64,
    pub labels: Vec<(&'static str, &'static str)>,
    pub annotations: Vec<(&'static str, &'static str)>,
    /// The kind of the controller; "": none.
    pub owner: &'static str,
    /// It is of a DaemonSet that `--drain-daemonset` names.
    pub is_drained_daemon: bool,
}

/// What a pod asks for, or what a rule says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Wait,
    /// Until it has this age.
    WaitUntilAge(Duration),
    Last,
    Skip,
}

/// The rules of the file, as JSON. Nothing if there is none.
pub fn rules_of(flags: &[String]) -> Vec<Value> {
    let file = flags.iter().find_map(|flag| flag.strip_prefix("--rules-file="));
    let text = file.map(|file| std::fs::read_to_string(file).unwrap());
    let rules: Option<Value> = text.map(|text| serde_saphyr::from_str(&text).unwrap());
    rules.and_then(|rules| rules["rules"].as_array().cloned()).unwrap_or_default()
}

impl Traits {
    fn label(&self, key: &str) -> Option<&'static str> {
        self.labels.iter().find(|(of, _)| *of == key).map(|(_, value)| *value)
    }

    fn annotation(&self, key: &str) -> Option<&'static str> {
        self.annotations.iter().find(|(of, _)| *of == key).map(|(_, value)| *value)
    }

    /// Each key that counts, in the order in which it counts, with its value.
    fn asks(&self, terms: &Terms) -> Vec<(&'static str, &'static str)> {
        let honored = terms.each("--honor");
        let is_honored = |key: &str| honored.iter().any(|all| all.split(',').any(|k| k == key));
        let all = [
            ("sundown.dev/drain", self.annotation("sundown.dev/drain")),
            ("cluster.x-k8s.io/drain", self.label("cluster.x-k8s.io/drain")),
            ("karpenter.sh/do-not-disrupt", self.annotation("karpenter.sh/do-not-disrupt")),
            (
                "cluster-autoscaler.kubernetes.io/safe-to-evict",
                self.annotation("cluster-autoscaler.kubernetes.io/safe-to-evict"),
            ),
        ];
        all.into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .filter(|(key, _)| *key == "sundown.dev/drain" || is_honored(key))
            .collect()
    }

    /// What it asks for itself.
    pub fn own_wish(&self, terms: &Terms) -> Option<Wish> {
        let read = |(key, value): (&str, &str)| match (key, value) {
            ("sundown.dev/drain", "wait")
            | ("karpenter.sh/do-not-disrupt", "true")
            | ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false" | "on-completion") => {
                Some(Wish::Wait)
            }
            ("sundown.dev/drain", "last") => Some(Wish::Last),
            ("sundown.dev/drain", "skip") => Some(Wish::Skip),
            ("cluster.x-k8s.io/drain", value) if value.eq_ignore_ascii_case("skip") => {
                Some(Wish::Skip)
            }
            ("cluster.x-k8s.io/drain", "wait-completed") => Some(Wish::Wait),
            ("karpenter.sh/do-not-disrupt", age) => duration(age).map(Wish::WaitUntilAge),
            _ => None,
        };
        self.asks(terms).into_iter().find_map(read)
    }

    /// A key of it that counts has a value without a meaning.
    pub fn asks_for_nonsense(&self, terms: &Terms) -> bool {
        self.asks(terms).iter().any(|(key, value)| {
            *key == "sundown.dev/drain" && !["wait", "last", "skip"].contains(value)
        })
    }

    /// The rule that counts for a pod of this namespace.
    pub fn rule<'t>(&self, namespace: &str, terms: &'t Terms) -> Option<&'t Value> {
        terms.rules.iter().find(|rule| {
            let of = &rule["match"];
            let texts = |field: &str| {
                let all = of[field].as_array().into_iter().flatten();
                all.filter_map(Value::as_str).collect::<Vec<_>>()
            };
            let (namespaces, kinds) = (texts("namespaces"), texts("ownerKinds"));
            let is_selected = of["podLabels"].as_str().is_none_or(|text| self.is_selected(text));
            (namespaces.is_empty() || namespaces.iter().any(|glob| is_like(glob, namespace)))
                && (kinds.is_empty() || kinds.contains(&self.owner))
                && is_selected
        })
    }

    /// By a selector of one requirement: `key=value` or `key in (one, other)`.
    fn is_selected(&self, selector: &str) -> bool {
        if let Some((key, values)) = selector.split_once(" in ") {
            let mut values = values.trim_matches(['(', ')']).split(',').map(str::trim);
            return self.label(key).is_some_and(|own| values.any(|value| value == own));
        }
        selector.split_once('=').is_some_and(|(key, value)| self.label(key) == Some(value))
    }

    /// What it asks for, otherwise what its rule says.
    pub fn wish(&self, namespace: &str, terms: &Terms) -> Option<Wish> {
        self.own_wish(terms).or_else(|| match self.rule(namespace, terms)?["behavior"].as_str() {
            Some("Skip") => Some(Wish::Skip),
            Some("WaitCompleted") => Some(Wish::Wait),
            _ => None,
        })
    }

    /// In which group it leaves, and how many groups there are (without that of the pods that ask
    /// to go last).
    pub fn group(&self, namespace: &str, terms: &Terms) -> (usize, usize) {
        let orders = orders(terms);
        let order = terms.each("--pod-order").into_iter().next().unwrap_or("critical-last");
        let wish = self.own_wish(terms);
        let (group, groups) = if orders.len() > 1 {
            let rule = self.rule(namespace, terms).filter(|_| wish.is_none());
            let own = rule.and_then(|rule| rule["order"].as_i64()).unwrap_or(0);
            (orders.iter().filter(|other| **other < own).count(), orders.len())
        } else if let Some(list) = order.strip_prefix("priority:") {
            let begins: Vec<i64> = list.split(',').map(|n| n.parse().unwrap()).collect();
            let begun = begins.iter().filter(|from| **from <= self.priority).count();
            (begun.saturating_sub(1), begins.len())
        } else if order == "together" {
            (0, 1)
        } else {
            let is_critical = usize::from(self.priority >= CRITICAL);
            (2 * is_critical + usize::from(self.is_drained_daemon), 4)
        };
        if wish == Some(Wish::Last) { (groups, groups) } else { (group, groups) }
    }
}

/// The orders of the rules, the lowest first, with that of the pods without one.
fn orders(terms: &Terms) -> Vec<i64> {
    let mut all: Vec<i64> =
        terms.rules.iter().filter_map(|rule| rule["order"].as_i64()).chain([0]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Terms {
    /// What is known of a pod. Nothing special is known of most.
    pub fn traits_of(&self, pod: &PodRef) -> Traits {
        let is_it = |(namespace, name, _): &&(String, String, Traits)| {
            let rest = pod.name.strip_prefix(name.as_str());
            pod.namespace == *namespace
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.traits.iter().find(is_it).map(|(.., traits)| traits.clone()).unwrap_or_default()
    }

    /// Its pods leave in several groups, or wait because they ask for it.
    pub fn has_order(&self) -> bool {
        !self.traits.is_empty()
    }
}
