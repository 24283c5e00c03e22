//! Scenarios: what is in the cluster, and what happens to it. The page `docs/scenarios.md` says it to people.

use std::{collections::BTreeSet, ops::RangeInclusive, path::Path, time::Duration};

use serde::{Deserialize, Deserializer};

use crate::{
    config::{duration_text, parse_duration},
    domain::seconds,
};

/// A scenario, read from YAML (or JSON, which is YAML).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Scenario {
    /// In a few words.
    pub(super) name: String,
    /// Flags of `sundown run` that the service gets besides its queue and its cluster's name.
    #[serde(default)]
    pub(super) flags: Vec<String>,
    /// The groups of nodes.
    pub(super) groups: Vec<Group>,
    /// What runs on them.
    #[serde(default)]
    pub(super) workloads: Vec<Workload>,
    /// What happens, each at its time after the start.
    pub(super) events: Vec<Event>,
    /// It is over when everything has come to rest, at the latest then.
    #[serde(default = "an_hour", deserialize_with = "duration")]
    pub(super) until: Duration,
}

/// An Auto Scaling group whose instances are nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) nodes: usize,
    #[serde(default)]
    pub(super) spot: bool,
    #[serde(default)]
    pub(super) hook: Option<Hook>,
}

/// A terminate hook.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Hook {
    pub(super) name: String,
    #[serde(deserialize_with = "duration")]
    pub(super) heartbeat_timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

/// A workload with its pods' habits and its budget.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Workload {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    /// One where it is not said, as in Kubernetes; a DaemonSet has one pod a node.
    #[serde(default)]
    pub(super) replicas: Option<usize>,
    /// Its pods run on nodes of this group only.
    #[serde(default)]
    pub(super) group: Option<String>,
    /// `terminationGracePeriodSeconds`.
    #[serde(default, deserialize_with = "some_duration")]
    pub(super) grace: Option<Duration>,
    /// How long its processes take to stop.
    #[serde(default, deserialize_with = "some_duration")]
    pub(super) stop: Option<Duration>,
    /// From its start to being ready.
    #[serde(default, deserialize_with = "some_duration")]
    pub(super) ready: Option<Duration>,
    #[serde(default)]
    pub(super) budget: Option<Budget>,
}

/// A disruption budget over a workload's pods.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Budget {
    #[serde(default)]
    pub(super) min_available: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) max_unavailable: Option<serde_json::Value>,
}

/// Something that happens.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Event {
    #[serde(deserialize_with = "duration")]
    pub(super) at: Duration,
    #[serde(default)]
    pub(super) scale_in: Option<Instances>,
    #[serde(default)]
    pub(super) spot: Option<Instances>,
    #[serde(default)]
    pub(super) rebalance: Option<Instances>,
    #[serde(default)]
    pub(super) stop: Option<Instances>,
}

/// So many instances of a group: those first that run a pod of the workload `running`, then the oldest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Instances {
    pub(super) group: String,
    pub(super) count: usize,
    /// `NAMESPACE/NAME` of a workload.
    #[serde(default)]
    pub(super) running: Option<String>,
}

/// A scenario that cannot be played.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum ScenarioError {
    #[error("cannot read the scenario {path}")]
    Read { path: String, source: std::io::Error },
    #[error("cannot understand the scenario {path}: {why} (the built-in one is in docs/scenarios/default.yaml)")]
    Parse { path: String, why: String },
    #[error("the scenario names the {what} `{name}`, which it does not have")]
    NoSuch { what: &'static str, name: String },
    #[error("the scenario has two groups called `{0}`: give each a name of its own")]
    SameName(String),
    #[error("the hook `{hook}` of the group `{group}` has a heartbeatTimeout of {}: AWS takes 30s to 2h", duration_text(*.given))]
    Timeout { group: String, hook: String, given: Duration },
    #[error("the DaemonSet `{0}` has replicas: take them away, it has one pod on each node")]
    Replicas(String),
    #[error("the budget of `{0}` must give one of minAvailable and maxUnavailable")]
    NotOneBound(String),
    #[error("the budget of `{workload}` gives {bound} for {field}: use a number of pods, such as 2, or a share of them, such as \"50%\"")]
    Bound { workload: String, field: &'static str, bound: serde_json::Value },
    #[error("the event at {} would never happen, the scenario is over at {}: raise `until`", duration_text(*.at), duration_text(*.until))]
    TooLate { at: Duration, until: Duration },
    #[error("the event at {} of the scenario is about {count} instances of the group `{group}`, which has {nodes}", duration_text(*.at))]
    TooMany { at: Duration, group: String, count: usize, nodes: usize },
    #[error("the event at {} of the scenario says nothing that happens: give it scaleIn, spot, rebalance or stop", duration_text(*.0))]
    Nothing(Duration),
    #[error("the flags of the scenario: {0}")]
    Flags(String),
}

/// What AWS takes (`PutLifecycleHook`).
const HEARTBEAT_TIMEOUT: RangeInclusive<Duration> = seconds(30)..=seconds(7200);

const DEFAULT: &str = include_str!("../../../docs/scenarios/default.yaml");

impl Scenario {
    /// The scenario in this file; the built-in one without a file.
    pub(super) fn load(path: Option<&Path>) -> Result<Self, ScenarioError> {
        let (name, text) = match path {
            None => ("(built in)".to_owned(), DEFAULT.to_owned()),
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::Read { path: name.clone(), source })?;
                (name, text)
            }
        };
        let scenario: Self = serde_saphyr::from_str(&text).map_err(|e| ScenarioError::Parse { path: name, why: e.to_string() })?;
        scenario.check()?;
        scenario.check_values()?;
        Ok(scenario)
    }

    /// What it names is there.
    fn check(&self) -> Result<(), ScenarioError> {
        let mut groups: Vec<&String> = self.workloads.iter().filter_map(|w| w.group.as_ref()).collect();
        let mut workloads: Vec<&String> = Vec::new();
        for event in &self.events {
            let some: Vec<&Instances> = [&event.scale_in, &event.spot, &event.rebalance, &event.stop].into_iter().flatten().collect();
            if some.is_empty() {
                return Err(ScenarioError::Nothing(event.at));
            }
            groups.extend(some.iter().map(|i| &i.group));
            workloads.extend(some.iter().filter_map(|i| i.running.as_ref()));
        }
        if let Some(name) = groups.into_iter().find(|name| !self.groups.iter().any(|g| g.name == **name)) {
            return Err(ScenarioError::NoSuch { what: "group", name: name.clone() });
        }
        if let Some(name) = workloads.into_iter().find(|name| !self.workloads.iter().any(|w| w.is_called(name))) {
            return Err(ScenarioError::NoSuch { what: "workload", name: name.clone() });
        }
        Ok(())
    }
}

impl Scenario {
    /// What it says is possible in AWS and in Kubernetes.
    fn check_values(&self) -> Result<(), ScenarioError> {
        let mut names = BTreeSet::new();
        for group in &self.groups {
            if !names.insert(&group.name) {
                return Err(ScenarioError::SameName(group.name.clone()));
            }
            if let Some(hook) = group.hook.as_ref().filter(|h| !HEARTBEAT_TIMEOUT.contains(&h.heartbeat_timeout)) {
                let (group, hook, given) = (group.name.clone(), hook.name.clone(), hook.heartbeat_timeout);
                return Err(ScenarioError::Timeout { group, hook, given });
            }
        }
        for workload in &self.workloads {
            workload.check()?;
        }
        for event in &self.events {
            if event.at >= self.until {
                return Err(ScenarioError::TooLate { at: event.at, until: self.until });
            }
            for some in [&event.scale_in, &event.spot, &event.rebalance, &event.stop].into_iter().flatten() {
                if let Some(group) = self.groups.iter().find(|g| g.name == some.group && g.nodes < some.count) {
                    let (group, nodes) = (group.name.clone(), group.nodes);
                    return Err(ScenarioError::TooMany { at: event.at, group, count: some.count, nodes });
                }
            }
        }
        Ok(())
    }
}

impl Workload {
    /// Kubernetes would take it.
    fn check(&self) -> Result<(), ScenarioError> {
        let full = || format!("{}/{}", self.namespace, self.name);
        if self.kind == Kind::DaemonSet && self.replicas.is_some() {
            return Err(ScenarioError::Replicas(full()));
        }
        let Some(budget) = &self.budget else { return Ok(()) };
        let (field, bound) = match (&budget.min_available, &budget.max_unavailable) {
            (Some(bound), None) => ("minAvailable", bound),
            (None, Some(bound)) => ("maxUnavailable", bound),
            _ => return Err(ScenarioError::NotOneBound(full())),
        };
        if is_bound(bound) { Ok(()) } else { Err(ScenarioError::Bound { workload: full(), field, bound: bound.clone() }) }
    }

    /// `full` is `NAMESPACE/NAME`.
    pub(super) fn is_called(&self, full: &str) -> bool {
        full.split_once('/') == Some((self.namespace.as_str(), self.name.as_str()))
    }
}

/// A number of pods, or a share of them from 0% to 100%.
fn is_bound(bound: &serde_json::Value) -> bool {
    let share = |text: &str| text.strip_suffix('%').filter(|n| n.bytes().all(|b| b.is_ascii_digit())).and_then(|n| n.parse::<u8>().ok());
    match bound {
        serde_json::Value::Number(pods) => pods.as_u64().is_some_and(|n| i32::try_from(n).is_ok()),
        serde_json::Value::String(text) => share(text).is_some_and(|n| n <= 100),
        _ => false,
    }
}

fn an_hour() -> Duration {
    Duration::from_hours(1)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_scenario_is_one() {
        let scenario = Scenario::load(None).unwrap();
        assert!(scenario.groups.iter().map(|g| g.nodes).sum::<usize>() >= 24);
        assert!(scenario.events.iter().any(|e| e.scale_in.is_some()) && scenario.events.iter().any(|e| e.spot.is_some()));
    }

    #[test]
    fn a_scenario_that_cannot_be_read_says_why() {
        let error = Scenario::load(Some(Path::new("/nowhere/at-all.yaml"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at-all.yaml"), "{error}");
    }

    #[test]
    fn a_bound_is_a_number_of_pods_or_a_share_of_them() {
        let of = |yaml: &str| serde_saphyr::from_str::<serde_json::Value>(yaml).unwrap();
        for good in ["0", "2", "\"50%\"", "50%", "0%", "100%"] {
            assert!(is_bound(&of(good)), "{good}");
        }
        for bad in ["two", "\"50\"", "-1", "1.5", "101%", "\"%\"", "+5%", "5 %", "true", "[1]", "99999999999"] {
            assert!(!is_bound(&of(bad)), "{bad}");
        }
    }
}
