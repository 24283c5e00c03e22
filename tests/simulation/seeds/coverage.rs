//! Which faults struck in which phase of a life, and in which worlds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Debug},
};

use serde_json::{Value, json};
use sundown::sim::kube::{Fault as KubeFault, Match};

use super::{
    eleventh, fourteenth,
    phases::{Phase, Phases},
    plan::{Act, Plan},
    second, third,
};
use crate::judge::Evidence;

/// Plans that are drawn, and not played, to find out which faults there are: a fault that never
/// struck has a row of zeros.
const DRAWN: [std::ops::Range<u64>; 5] = [
    0..1_000,
    second::FIRST..second::FIRST + 1_000,
    third::FIRST..third::FIRST + 1_000,
    eleventh::FIRST..eleventh::FIRST + 1_000,
    fourteenth::FIRST..fourteenth::FIRST + 1_000,
];

/// How often a fault struck: in all, and in each phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Strikes {
    all: usize,
    in_phase: [usize; Phase::ALL.len()],
}

/// What some lives covered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    faults: BTreeMap<String, Strikes>,
    /// In how many lives the world had a feature.
    worlds: BTreeMap<String, usize>,
}

impl Coverage {
    /// What one life covered.
    pub fn of(plan: &Plan, evidence: &Evidence) -> Self {
        let phases = Phases::of(evidence);
        let mut coverage = Self::default();
        // The evidence has the acts of the plan in the same order, with the times that they had.
        for ((_, act), (at, _)) in plan.acts.iter().zip(&evidence.acts) {
            let struck = phases.at(*at);
            for name in names(act) {
                let strikes = coverage.faults.entry(name).or_default();
                strikes.all += 1;
                for phase in &struck {
                    strikes.in_phase[*phase as usize] += 1;
                }
            }
        }
        coverage.worlds = features(plan).into_iter().map(|feature| (feature, 1)).collect();
        coverage
    }

    pub fn add(&mut self, other: &Self) {
        for (name, strikes) in &other.faults {
            let mine = self.faults.entry(name.clone()).or_default();
            mine.all += strikes.all;
            for (mine, more) in mine.in_phase.iter_mut().zip(strikes.in_phase) {
                *mine += more;
            }
        }
        for (feature, lives) in &other.worlds {
            *self.worlds.entry(feature.clone()).or_default() += lives;
        }
    }

    /// With a row of zeros for what can be drawn and was not.
    fn with_zeros(&self) -> Self {
        let mut all = self.clone();
        for plan in DRAWN.into_iter().flatten().map(Plan::of) {
            for name in plan.acts.iter().flat_map(|(_, act)| names(act)) {
                all.faults.entry(name).or_default();
            }
            for feature in features(&plan) {
                all.worlds.entry(feature).or_default();
            }
        }
        all
    }

    pub fn json(&self) -> Value {
        let all = self.with_zeros();
        let row = |strikes: &Strikes| {
            let phases = Phase::ALL.iter().zip(strikes.in_phase);
            let mut row: BTreeMap<&str, usize> = phases.map(|(p, n)| (p.title(), n)).collect();
            row.insert("all", strikes.all);
            json!(row)
        };
        let faults: BTreeMap<_, _> = all.faults.iter().map(|(name, s)| (name, row(s))).collect();
        json!({ "faults": faults, "worlds": all.worlds })
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.with_zeros();
        let width = all.faults.keys().chain(all.worlds.keys()).map(String::len).max().unwrap_or(0);
        write!(f, "| {:width$} |    all |", "fault")?;
        for phase in Phase::ALL {
            write!(f, " {:>10} |", phase.title())?;
        }
        writeln!(f, "\n| {:-<width$} | -----: |{}", "", " ---------: |".repeat(Phase::ALL.len()))?;
        for (name, strikes) in &all.faults {
            write!(f, "| {name:width$} | {:>6} |", strikes.all)?;
            for count in strikes.in_phase {
                write!(f, " {count:>10} |")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\n| {:width$} |  lives |", "worlds with")?;
        writeln!(f, "| {:-<width$} | -----: |", "")?;
        for (feature, lives) in &all.worlds {
            writeln!(f, "| {feature:width$} | {lives:>6} |")?;
        }
        Ok(())
    }
}

/// The rows of an act that breaks something or interferes: its kind, and for calls that fail what
/// was called, too. Interruptions have none.
fn names(act: &Act) -> Vec<String> {
    match act {
        Act::ScaleIn { .. }
        | Act::Spot { .. }
        | Act::Capacity { .. }
        | Act::Block { .. }
        | Act::LoseEvents { .. }
        | Act::FailCheck { .. }
        | Act::RootVolume { .. }
        | Act::IntoPool { .. }
        | Act::NewRootVolume { .. }
        | Act::Standby { .. }
        | Act::WarmPool { .. }
        | Act::MadeUp { .. }
        | Act::ChangeInEc2 { .. }
        | Act::EndInEc2 { .. } => Vec::new(),
        Act::Aws { api, fault, .. } => {
            vec![format!("Aws {}", variant(fault)), format!("Aws, call {api}")]
        }
        Act::Kube { matching, fault, .. } => {
            let fault = match fault {
                KubeFault::Status { code, .. } => format!("Kube Status {code}"),
                other => format!("Kube {}", variant(other)),
            };
            vec![fault, format!("Kube, request {}", request(matching))]
        }
        Act::KubeOfOne { matching, .. } => {
            vec!["Kube, of one replica".to_owned(), format!("Kube, request {}", request(matching))]
        }
        Act::Partition { aws, kube, .. } => {
            let from = match (aws, kube) {
                (true, true) => "both",
                (true, false) => "AWS",
                _ => "Kubernetes",
            };
            vec![format!("Partition of one replica from {from}")]
        }
        Act::SilentWatch { resource, .. } => vec![format!("SilentWatch of {resource}")],
        Act::Webhook { answer, .. } => vec![format!("Webhook {answer:?}")],
        Act::Test { is_real, .. } => {
            vec![(if *is_real { "Test that asks to be acted on" } else { "Test" }).to_owned()]
        }
        other => vec![variant(other)],
    }
}

fn request(matching: &Match) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_else(|| "*".to_owned());
    let subresource = matching.subresource.as_deref().filter(|name| !name.is_empty());
    let slash = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    format!("{} {}{slash}", part(&matching.verb), part(&matching.resource))
}

/// The name of an enum's variant, without its fields.
fn variant(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// What a world has that not every world has.
fn features(plan: &Plan) -> BTreeSet<String> {
    let mut all = BTreeSet::from([format!("{} replicas", plan.replicas)]);
    // A path names a folder of this machine.
    let without_folder = |flag: &String| match flag.rsplit_once('/') {
        Some((_, file)) if flag.starts_with("--rules-file=") => format!("--rules-file={file}"),
        _ => flag.clone(),
    };
    all.extend(plan.flags.iter().map(without_folder));
    all.extend(plan.loads.iter().map(|load| format!("workload {:?}", load.kind)));
    all.extend(plan.loose.iter().map(|(_, kind)| format!("pod {kind:?}")));
    for group in &plan.groups {
        all.insert(format!("group {:?}", group.belongs));
        let has = [
            ("group of spot instances", group.spot),
            ("group that replaces instances", group.replaces),
            ("group with a launch hook", group.launch_hook),
            ("group with several terminate hooks", group.hooks.len() > 1),
            (
                "group with a hook named sundown beside others",
                group.hooks.iter().any(|(name, _)| name.starts_with("sundown")),
            ),
            ("group with a tag for --managed-tag", group.tag.is_some()),
            ("hook that notifies the queue itself", group.native),
        ];
        all.extend(has.iter().filter(|(_, has)| *has).map(|(name, _)| (*name).to_owned()));
    }
    let has = [
        ("clocks of replicas that differ", plan.clocks.iter().any(|ahead| *ahead != 0)),
        ("a clock of AWS that differs", plan.aws_clock != 0),
        ("two Nodes that claim one instance", !plan.claimed_twice.is_empty()),
        ("replicas on nodes that may drain", plan.on_nodes),
        ("a queue that gives few messages at once", plan.partial > 0.0),
        ("a queue that duplicates and reorders", plan.disorder != (0.0, 0.0, 0.0)),
        ("kubelets that write status", plan.busy_kubelets),
        ("nodes of the control plane", !plan.drain.control_plane.is_empty()),
        ("volumes of pods", plan.drain.singles.iter().any(|one| one.volume.is_some())),
        ("critical pods", plan.drain.has_critical()),
        ("pods that ask for something", plan.drain.asks()),
        ("no fault", plan.is_calm()),
    ];
    all.extend(has.iter().filter(|(_, has)| *has).map(|(name, _)| (*name).to_owned()));
    all
}
