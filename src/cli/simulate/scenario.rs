//! Reads scenarios: what is in the cluster, and what happens to it. `docs/scenarios.md` documents
//! every field.

mod read;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, io::Read as _, ops::RangeInclusive, path::Path, time::Duration};

use super::fields::Field;
use crate::{config::duration_text, domain::seconds};

/// A scenario, read from YAML (or JSON, which is YAML).
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    /// A short description, at most 200 characters.
    pub(super) name: String,
    /// Flags of `sundown run` that the service gets besides its queue and its cluster's name.
    pub(super) flags: Vec<String>,
    /// The groups of nodes.
    pub(super) groups: Vec<Group>,
    /// The workloads whose pods run on the nodes.
    pub(super) workloads: Vec<Workload>,
    /// What happens. Each event has its time after the start.
    pub(super) events: Vec<Event>,
    /// When the scenario ends at the latest, after its start. It ends earlier if everything has
    /// come to rest.
    pub(super) until: Duration,
}

/// An Auto Scaling group whose instances are nodes.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) nodes: usize,
    pub(super) spot: bool,
    pub(super) hook: Option<Hook>,
    pub(super) launch_hook: Option<Hook>,
}

/// A lifecycle hook of a group.
#[derive(Debug, Clone)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) heartbeat_timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

/// A workload: how its pods start and stop, and its disruption budget.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    /// `None`: 1, as in Kubernetes, or for a DaemonSet one pod on each node.
    pub(super) replicas: Option<usize>,
    /// Its pods run on nodes of this group only.
    pub(super) group: Option<String>,
    /// `terminationGracePeriodSeconds`.
    pub(super) grace: Option<Duration>,
    /// How long its processes take to stop.
    pub(super) stop: Option<Duration>,
    /// How long a pod takes from its start until it is ready.
    pub(super) ready: Option<Duration>,
    pub(super) budget: Option<Budget>,
}

/// A disruption budget over a workload's pods, by one of its two bounds.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    pub(super) min_available: Option<serde_json::Value>,
    pub(super) max_unavailable: Option<serde_json::Value>,
}

/// What happens at one time.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) scale_in: Option<Instances>,
    pub(super) spot: Option<Instances>,
    pub(super) rebalance: Option<Instances>,
    pub(super) stop: Option<Instances>,
    /// Auto Scaling terminates the instances and launches as many in their place.
    pub(super) replace: Option<Instances>,
    /// Auto Scaling launches this many instances.
    pub(super) launch: Option<Instances>,
    /// Auto Scaling returns the instances to the warm pool, through the hook of their group.
    pub(super) to_warm_pool: Option<Instances>,
    /// Auto Scaling takes instances out of the warm pool.
    pub(super) from_warm_pool: Option<Instances>,
    /// Auto Scaling replaces the root volumes of the instances, through the hook of their group.
    pub(super) replace_root_volume: Option<Instances>,
    /// A person puts the instances into standby.
    pub(super) enter_standby: Option<Instances>,
    /// A person takes instances out of standby.
    pub(super) exit_standby: Option<Instances>,
    /// AWS Health announces that the instances retire.
    pub(super) maintenance: Option<Instances>,
    /// When `maintenance` begins, after this event.
    pub(super) starts_in: Duration,
    /// A status check of the instances fails from then on.
    pub(super) impaired: Option<Instances>,
    /// How long EventBridge delivers no event.
    pub(super) lose_events: Option<Duration>,
}

/// `count` instances of a group: first those that run a pod of the workload `running`, then the
/// oldest.
#[derive(Debug, Clone)]
pub(super) struct Instances {
    pub(super) group: String,
    pub(super) count: usize,
    /// `NAMESPACE/NAME` of a workload.
    pub(super) running: Option<String>,
}

/// A scenario that cannot be played.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum ScenarioError {
    #[error("cannot read the scenario {path}")]
    Read { path: String, source: std::io::Error },
    #[error("the scenario {path} is larger than {} KiB", MOST_BYTES / 1024)]
    TooLarge { path: String },
    #[error(
        "the scenario {path} is no valid YAML{at}: check the indentation, the quotes, and that no \
         key is there twice. The built-in one, docs/scenarios/default.yaml, is an example"
    )]
    Syntax { path: String, at: String },
    /// A field has a wrong value: its path, and what it may be.
    #[error("the scenario is wrong: {0}")]
    Field(String),
    #[error("the scenario is wrong: flags: {0}")]
    Flags(String),
}

/// The largest scenario file.
const MOST_BYTES: u64 = 1024 * 1024;
/// The most nodes and pods of a scenario, pods of DaemonSets included. A laptop has memory for this
/// many.
const NODES: RangeInclusive<usize> = 1..=5_000;
const PODS: RangeInclusive<usize> = 1..=20_000;
/// The lengths of lists.
const GROUPS: RangeInclusive<usize> = 1..=50;
const WORKLOADS: RangeInclusive<usize> = 1..=200;
const EVENTS: RangeInclusive<usize> = 1..=1_000;
const FLAGS: RangeInclusive<usize> = 1..=100;
/// Characters of the scenario's name, of a hook's, and of a flag.
const LONGEST_NAME: usize = 200;
const LONGEST_FLAG: usize = 1_000;
/// The range that AWS accepts (`PutLifecycleHook`).
const HEARTBEAT_TIMEOUT: RangeInclusive<Duration> = seconds(30)..=seconds(7200);
/// The range of a pod's `grace`, `stop` and `ready`.
const OF_A_POD: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
/// AWS keeps a lifecycle action open for 48 hours at most.
const UNTIL: RangeInclusive<Duration> = seconds(1)..=Duration::from_hours(72);

const DEFAULT: &str = include_str!("../../../docs/scenarios/default.yaml");
/// The scenarios that `--scenario` knows by name.
const BUILT_IN: [(&str, &str); 10] = [
    ("default", DEFAULT),
    ("impaired", include_str!("../../../docs/scenarios/impaired.yaml")),
    ("instance-refresh", include_str!("../../../docs/scenarios/instance-refresh.yaml")),
    ("launch", include_str!("../../../docs/scenarios/launch.yaml")),
    ("lost-events", include_str!("../../../docs/scenarios/lost-events.yaml")),
    ("maintenance", include_str!("../../../docs/scenarios/maintenance.yaml")),
    ("rebalance", include_str!("../../../docs/scenarios/rebalance.yaml")),
    ("root-volume", include_str!("../../../docs/scenarios/root-volume.yaml")),
    ("standby", include_str!("../../../docs/scenarios/standby.yaml")),
    ("warm-pool", include_str!("../../../docs/scenarios/warm-pool.yaml")),
];

impl Scenario {
    /// Reads the scenario in this file. A name of [`BUILT_IN`] means that one, unless there is such
    /// a file. Without a path, reads the default.
    pub(super) fn load(path: Option<&Path>) -> Result<Self, ScenarioError> {
        let named = path.filter(|path| !path.exists());
        let built_in =
            BUILT_IN.iter().find(|(name, _)| named.is_some_and(|path| path.as_os_str() == *name));
        match (path, built_in) {
            (None, _) => Self::read("(built in)", DEFAULT),
            (Some(_), Some((_, text))) => Self::read("(built in)", text),
            (Some(path), None) => {
                let name = path.display().to_string();
                let unreadable = |source| ScenarioError::Read { path: name.clone(), source };
                let mut text = String::new();
                std::fs::File::open(path)
                    .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
                    .map_err(unreadable)?;
                if text.len() as u64 > MOST_BYTES {
                    return Err(ScenarioError::TooLarge { path: name });
                }
                Self::read(&name, &text)
            }
        }
    }

    fn read(path: &str, text: &str) -> Result<Self, ScenarioError> {
        let value = yaml(text).map_err(|error| {
            let at =
                error.location().map(|at| format!(", line {}, column {}", at.line(), at.column()));
            ScenarioError::Syntax { path: path.to_owned(), at: at.unwrap_or_default() }
        })?;
        let scenario = Self::of(&Field::whole(&value))?;
        scenario.check_names()?;
        scenario.check_size()?;
        scenario.check_events()?;
        Ok(scenario)
    }

    fn of(field: &Field<'_>) -> Result<Self, ScenarioError> {
        let fields = field.fields(&["name", "flags", "groups", "workloads", "events", "until"])?;
        let list = |name: &str, entries| {
            fields.read(name, |field| field.list(entries)).map(Option::unwrap_or_default)
        };
        Ok(Self {
            name: fields.get("name")?.text(LONGEST_NAME)?,
            flags: list("flags", FLAGS)?
                .iter()
                .map(|flag| flag.text(LONGEST_FLAG))
                .collect::<Result<_, _>>()?,
            groups: fields
                .get("groups")?
                .list(GROUPS)?
                .iter()
                .map(Group::of)
                .collect::<Result<_, _>>()?,
            workloads: list("workloads", WORKLOADS)?
                .iter()
                .map(Workload::of)
                .collect::<Result<_, _>>()?,
            events: fields
                .get("events")?
                .list(EVENTS)?
                .iter()
                .map(Event::of)
                .collect::<Result<_, _>>()?,
            until: fields
                .read("until", |until| until.duration(UNTIL))?
                .unwrap_or(Duration::from_hours(1)),
        })
    }

    /// Checks that names of groups and of workloads are unique, and that each name that is referred
    /// to exists.
    fn check_names(&self) -> Result<(), ScenarioError> {
        let mut groups = BTreeSet::new();
        for (n, group) in self.groups.iter().enumerate() {
            if !groups.insert(&group.name) {
                return Err(wrong(format!(
                    "groups[{n}].name is `{}`, as of an earlier group: give each a name of its own",
                    group.name
                )));
            }
        }
        let mut workloads = BTreeSet::new();
        for (n, workload) in self.workloads.iter().enumerate() {
            let full = format!("{}/{}", workload.namespace, workload.name);
            if let Some(group) = workload.group.as_ref().filter(|group| !groups.contains(group)) {
                return Err(wrong(format!(
                    "workloads[{n}].group is `{group}`, which no group is called"
                )));
            }
            if !workloads.insert(full.clone()) {
                return Err(wrong(format!(
                    "workloads[{n}] is called {full}, as an earlier workload: give each a name of \
                     its own"
                )));
            }
        }
        for (n, event) in self.events.iter().enumerate() {
            for (what, some) in event.all() {
                if !groups.contains(&some.group) {
                    return Err(wrong(format!(
                        "events[{n}].{what}.group is `{}`, which no group is called",
                        some.group
                    )));
                }
                if let Some(running) =
                    some.running.as_ref().filter(|running| !workloads.contains(*running))
                {
                    let remedy = "which no workload is called: use NAMESPACE/NAME of one";
                    return Err(wrong(format!(
                        "events[{n}].{what}.running is `{running}`, {remedy}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Checks that it does not have too many nodes and pods.
    fn check_size(&self) -> Result<(), ScenarioError> {
        let nodes: usize = self.groups.iter().map(|group| group.nodes).sum();
        if !NODES.contains(&nodes) {
            return Err(wrong(format!(
                "all groups together have {nodes} nodes: use at most {}",
                NODES.end()
            )));
        }
        let of = |workload: &Workload| match workload.kind {
            Kind::DaemonSet => {
                let runs_on =
                    |group: &&Group| workload.group.as_ref().is_none_or(|name| group.name == *name);
                self.groups.iter().filter(runs_on).map(|group| group.nodes).sum()
            }
            Kind::Deployment | Kind::StatefulSet => workload.replicas.unwrap_or(1),
        };
        let pods: usize = self.workloads.iter().map(of).sum();
        if pods > *PODS.end() {
            return Err(wrong(format!(
                "all workloads together have {pods} pods, those of DaemonSets included: use at \
                 most {}",
                PODS.end()
            )));
        }
        Ok(())
    }

    /// Checks that each event can happen: before the end, and with enough nodes in its group.
    fn check_events(&self) -> Result<(), ScenarioError> {
        for (n, event) in self.events.iter().enumerate() {
            if event.at >= self.until {
                let (at, until) = (duration_text(event.at), duration_text(self.until));
                return Err(wrong(format!(
                    "events[{n}].at is {at}, and the scenario is over at {until}: raise until, or \
                     let it happen earlier"
                )));
            }
            for (what, some) in [
                ("toWarmPool", &event.to_warm_pool),
                ("replaceRootVolume", &event.replace_root_volume),
            ] {
                if let Some(some) = some
                    && self.groups.iter().any(|g| g.name == some.group && g.hook.is_none())
                {
                    return Err(wrong(format!(
                        "events[{n}].{what}.group is `{}`, which has no hook: give it one",
                        some.group
                    )));
                }
            }
            for (what, some) in event.all() {
                if let Some(group) = self
                    .groups
                    .iter()
                    .find(|group| group.name == some.group && group.nodes < some.count)
                {
                    let (count, nodes) = (some.count, group.nodes);
                    return Err(wrong(format!(
                        "events[{n}].{what}.count is {count}, and the group `{}` has {nodes} \
                         nodes: use 1 to {nodes}",
                        group.name
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Reads YAML in which only `true` and `false` are booleans: a group may be called `n`.
fn yaml(text: &str) -> Result<serde_json::Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

fn wrong(what: String) -> ScenarioError {
    ScenarioError::Field(what)
}
