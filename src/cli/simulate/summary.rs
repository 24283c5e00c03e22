//! How a simulation went.

use std::{collections::BTreeMap, io};

use serde::Serialize;

use super::{
    lines::{Line, Style},
    scenario::Scenario,
    screen::Screen,
};
use crate::{
    controller::{BlockedFor, Board, NodeReport},
    domain::{Moment, NodeName},
    sim::{World, kube::PodView},
};

/// How a simulation went. The same seed gives the same bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    scenario: String,
    seed: u64,
    seconds: u64,
    /// Everything came to rest before the scenario's end.
    at_rest: bool,
    /// The user ended it with Ctrl-C.
    #[serde(skip)]
    by_hand: bool,
    nodes: Vec<NodeSummary>,
    hooks: Vec<HookSummary>,
    calls: Calls,
    /// The user's own service drained, so nothing is known of its drains.
    #[serde(skip)]
    has_service: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeSummary {
    node: String,
    instance: String,
    kind: &'static str,
    /// From the start of the scenario, in milliseconds.
    cordoned_after_ms: u128,
    /// From the cordon, in milliseconds.
    drained_after_ms: Option<u128>,
    ended: &'static str,
    evictions: u64,
    refusals: u64,
    deletes: u64,
    forced: Vec<String>,
    /// Which pod was blocked, by what and how long; the longest first. An open block counts to the
    /// end of the run.
    blocked: Vec<BlockedFor>,
    /// Pods that were left when the drain ended, or that are left now if it has not ended.
    pods_left: Vec<String>,
    heartbeats: u64,
    completed_with: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HookSummary {
    instance: String,
    hook: String,
    open_seconds: u64,
    ended: String,
}

#[derive(Debug, Serialize)]
struct Calls {
    aws: BTreeMap<String, u64>,
    kubernetes: BTreeMap<String, u64>,
}

/// How a simulation ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// When the scenario began.
    pub(super) begun: Moment,
    /// When it was over.
    pub(super) ended: Moment,
    /// Everything came to rest.
    pub(super) at_rest: bool,
    /// The user ended it with Ctrl-C.
    pub(super) by_hand: bool,
}

impl Summary {
    /// `board`: the drains. `None`: the user started the service.
    pub(super) fn of(
        scenario: &Scenario,
        seed: u64,
        end: End,
        board: Option<&Board>,
        world: &World,
    ) -> Self {
        let End { begun, ended, at_rest, by_hand } = end;
        let drains = board.map(Board::snapshot).unwrap_or_default();
        let nodes =
            in_order(&drains).into_iter().map(|(name, r)| node(name, r, end, world)).collect();
        let actions = world.aws.actions();
        let hooks = actions.iter().map(|a| HookSummary {
            instance: a.instance.clone(),
            hook: a.hook.clone(),
            open_seconds: a.end.as_ref().map_or(ended, |e| e.at).since_or_zero(a.started).as_secs(),
            ended: a.end.as_ref().map_or_else(|| "open".to_owned(), |e| format!("{:?}", e.verdict)),
        });
        let aws = world
            .aws
            .counts()
            .into_iter()
            .map(|(api, outcomes)| (api, outcomes.values().sum()))
            .collect();
        let kubernetes = world
            .kube
            .counts()
            .into_iter()
            .map(|((verb, resource), n)| (format!("{verb} {resource}"), n))
            .collect();
        Self {
            scenario: scenario.name.clone(),
            seed,
            seconds: ended.since_or_zero(begun).as_secs(),
            at_rest,
            by_hand,
            nodes,
            hooks: hooks.collect(),
            calls: Calls { aws, kubernetes },
            has_service: board.is_some(),
        }
    }

    /// Whether everything came to rest, or the user ended the simulation.
    pub(super) const fn is_success(&self) -> bool {
        self.at_rest || self.by_hand
    }

    pub(super) fn write_json(&self, out: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Prints it for people: a table, and what went wrong.
    pub(super) fn print(&self, screen: &mut Screen) {
        let head = format!(
            "{} (seed {}): {} min {} s of simulated time",
            self.scenario,
            self.seed,
            self.seconds / 60,
            self.seconds % 60
        );
        for line in [Line::default(), Line::of(Style::Strong, head), Line::default()] {
            screen.print(line);
        }
        if self.has_service {
            let table = self.table();
            let cut = self.cut_off(&table, Screen::columns());
            for line in table {
                screen.print(line);
            }
            if !cut.is_empty() {
                screen.print(Line::default());
            }
            for line in cut {
                screen.print(line);
            }
        } else {
            for hook in &self.hooks {
                screen.print(Line::plain(format!(
                    "{}  {}: {} after {} s",
                    hook.instance, hook.hook, hook.ended, hook.open_seconds
                )));
            }
        }
        let of_all = |pods: fn(&NodeSummary) -> &[String]| {
            let named = self
                .nodes
                .iter()
                .flat_map(|n| pods(n).iter().map(move |pod| format!("{pod} ({})", short(&n.node))));
            few(named.collect())
        };
        for (what, pods) in [
            ("Forced by a deadline", of_all(|n| &n.forced)),
            ("Pods left", of_all(|n| &n.pods_left)),
        ] {
            if !pods.is_empty() {
                screen.print(Line::default());
                screen.print_whole(
                    &Line::of(Style::Bad, what).and(Style::Plain, format!(": {pods}")),
                );
            }
        }
        if !self.at_rest {
            let end = if self.by_hand { "it was ended by hand" } else { "the scenario's end" };
            screen.print(Line::default());
            screen.print_whole(&Line::of(
                Style::Waiting,
                format!("Not everything came to rest before {end}."),
            ));
        }
    }

    /// If the table is wider than `width`: its last columns as lines, for each node that has a
    /// value in them.
    fn cut_off(&self, table: &[Line], width: usize) -> Vec<Line> {
        if table.iter().all(|line| line.length() <= width) {
            return Vec::new();
        }
        let line = |n: &NodeSummary| {
            let mut parts = Vec::new();
            if n.heartbeats > 0 {
                parts.push(count(n.heartbeats, "heartbeat"));
            }
            if !n.completed_with.is_empty() {
                parts.push(format!("completed {}", n.completed_with.join(" ")));
            }
            let blocked = n.blocked_text();
            let mut lines = Vec::new();
            if !parts.is_empty() || !blocked.is_empty() {
                lines.push(Line::plain(
                    format!("{}  {}", short(&n.node), parts.join(", ")).trim_end(),
                ));
            }
            if !blocked.is_empty() {
                lines.push(Line::of(Style::Waiting, format!("  blocked {}", blocked.trim_start())));
            }
            lines
        };
        self.nodes.iter().flat_map(line).collect()
    }

    fn table(&self) -> Vec<Line> {
        let name = self
            .nodes
            .iter()
            .map(|n| short(&n.node).chars().count())
            .max()
            .unwrap_or_default()
            .max(4);
        let ended = self.nodes.iter().map(|n| n.ended.len()).max().unwrap_or_default().max(5);
        let head = format!(
            "{:<name$}  {:<14}  {:>8}  {:>7}  {:<ended$}  {:>7}  {:>6}  {:>10}  {:<9}  blocked",
            "node",
            "kind",
            "cordoned",
            "drained",
            "ended",
            "evicted",
            "forced",
            "heartbeats",
            "completed"
        );
        let row = |n: &NodeSummary| {
            let drained =
                n.drained_after_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} s", ms / 1000));
            let style = if n.ended == "empty" { Style::Good } else { Style::Bad };
            let forced = if n.forced.is_empty() { Style::Plain } else { Style::Bad };
            let (mut end, blocked) = (
                format!("  {:>10}  {:<9}", n.heartbeats, n.completed_with.join(" ")),
                n.blocked_text(),
            );
            if blocked.is_empty() {
                end.truncate(end.trim_end().len());
            }
            Line::plain(format!(
                "{:<name$}  {:<14}  {:>6} s  {drained:>7}  ",
                short(&n.node),
                n.kind,
                n.cordoned_after_ms / 1000
            ))
            .and(style, format!("{:<ended$}", n.ended))
            .and(Style::Plain, format!("  {:>7}  ", n.evictions))
            .and(forced, format!("{:>6}", n.forced.len()))
            .and(Style::Plain, end)
            .and(Style::Waiting, blocked)
        };
        std::iter::once(Line::of(Style::Strong, head)).chain(self.nodes.iter().map(row)).collect()
    }
}

/// The most pods that the text names. The JSON has all of them.
const NAMED: usize = 20;

fn few(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let all = names.join(", ");
    if more == 0 { all } else { format!("{all} and {more} more") }
}

/// A number of things: `1 pod`, `2 pods`.
pub(super) fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A node's name up to its domain, which all nodes of a simulation share.
pub(super) fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl NodeSummary {
    fn blocked_text(&self) -> String {
        let Some(longest) = self.blocked.first() else { return String::new() };
        let others = self.blocked.len() - 1;
        let more = if others == 0 { String::new() } else { format!(", {others} more for less") };
        format!("  {} s by {} ({}){more}", longest.seconds, longest.reason, longest.pod)
    }
}

fn longest_first(mut blocked: Vec<BlockedFor>) -> Vec<BlockedFor> {
    blocked.retain(|b| b.seconds > 0);
    blocked.sort_by(|a, b| b.seconds.cmp(&a.seconds).then_with(|| a.pod.cmp(&b.pod)));
    blocked
}

/// The pods that are left on a node whose drain is not over, without
/// DaemonSet pods, mirror pods and finished pods.
fn not_drained(name: &NodeName, world: &World) -> Vec<String> {
    let counts = |pod: &PodView| {
        pod.node.as_deref() == Some(name.as_str())
            && !pod.mirror
            && pod.owner_kind.as_deref() != Some("DaemonSet")
            && !matches!(pod.phase.as_str(), "Succeeded" | "Failed")
    };
    let mut all: Vec<String> = world
        .kube
        .pods()
        .iter()
        .filter(|pod| counts(pod))
        .map(|pod| format!("{}/{}", pod.namespace, pod.name))
        .collect();
    all.sort();
    all
}

/// The drains in the order of their cordons, then of their numbers: `ip-10-0-0-9` before
/// `ip-10-0-0-10`.
pub(super) fn in_order(drains: &BTreeMap<NodeName, NodeReport>) -> Vec<(&NodeName, &NodeReport)> {
    let mut all: Vec<_> = drains.iter().collect();
    all.sort_by_key(|(name, r)| (r.cordoned, name.as_str().len(), *name));
    all
}

fn node(name: &NodeName, r: &NodeReport, end: End, world: &World) -> NodeSummary {
    NodeSummary {
        node: name.to_string(),
        instance: r.instance.clone(),
        kind: r.kind,
        cordoned_after_ms: r.cordoned.since_or_zero(end.begun).as_millis(),
        drained_after_ms: r.drained.map(|at| at.since_or_zero(r.cordoned).as_millis()),
        ended: r.phase,
        evictions: r.evictions,
        refusals: r.refusals,
        deletes: r.deletes,
        forced: r.forced.clone(),
        blocked: longest_first(r.blocked_until(end.ended)),
        pods_left: if r.drained.is_some() {
            r.left_at_end.clone()
        } else {
            not_drained(name, world)
        },
        heartbeats: r.heartbeats,
        completed_with: r.completed.clone(),
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests;
