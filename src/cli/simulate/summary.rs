//! How a simulation went.

use std::{collections::BTreeMap, io};

use serde::Serialize;

use super::scenario::Scenario;
use crate::{
    controller::{BlockedFor, Board, NodeReport},
    domain::{Moment, MomentExt, NodeName},
    sim::World,
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
    /// A person ended it.
    #[serde(skip)]
    by_hand: bool,
    nodes: Vec<NodeSummary>,
    hooks: Vec<HookSummary>,
    calls: Calls,
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
    /// Which pod was blocked, by what and how long: the longest first.
    blocked: Vec<BlockedFor>,
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

impl Summary {
    pub(super) fn of(
        scenario: &Scenario,
        seed: u64,
        (begun, ended): (Moment, Moment),
        at_rest: bool,
        by_hand: bool,
        board: &Board,
        world: &World,
    ) -> Self {
        let nodes = in_order(&board.snapshot()).into_iter().map(|(name, r)| node(name, r, begun)).collect();
        let actions = world.aws.actions();
        let hooks = actions.iter().map(|a| HookSummary {
            instance: a.instance.clone(),
            hook: a.hook.clone(),
            open_seconds: a.end.as_ref().map_or(ended, |e| e.at).since_or_zero(a.started).as_secs(),
            ended: a.end.as_ref().map_or_else(|| "open".to_owned(), |e| format!("{:?}", e.verdict)),
        });
        let aws = world.aws.counts().into_iter().map(|(api, outcomes)| (api, outcomes.values().sum())).collect();
        let kubernetes = world.kube.counts().into_iter().map(|((verb, resource), n)| (format!("{verb} {resource}"), n)).collect();
        Self {
            scenario: scenario.name.clone(),
            seed,
            seconds: ended.since_or_zero(begun).as_secs(),
            at_rest,
            by_hand,
            nodes,
            hooks: hooks.collect(),
            calls: Calls { aws, kubernetes },
        }
    }

    /// Everything came to rest, or nobody waited for that.
    pub(super) const fn is_success(&self) -> bool {
        self.at_rest || self.by_hand
    }

    pub(super) fn write_json(&self, out: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    pub(super) fn write_text(&self, out: &mut impl io::Write) -> io::Result<()> {
        writeln!(out, "\n{} (seed {}): {} min {} s of simulated time\n", self.scenario, self.seed, self.seconds / 60, self.seconds % 60)?;
        writeln!(
            out,
            "{:<42} {:<14} {:>9} {:>8} {:<11} {:>7} {:>6} {:>10}  {:<9} blocked",
            "node", "kind", "cordoned", "drained", "ended", "evicted", "forced", "heartbeats", "completed"
        )?;
        for n in &self.nodes {
            writeln!(
                out,
                "{:<42} {:<14} {:>7} s {:>6} s {:<11} {:>7} {:>6} {:>10}  {:<9} {}",
                n.node,
                n.kind,
                n.cordoned_after_ms / 1000,
                n.drained_after_ms.map_or_else(|| "-".to_owned(), |ms| (ms / 1000).to_string()),
                n.ended,
                n.evictions,
                n.forced.len(),
                n.heartbeats,
                n.completed_with.join(" "),
                n.blocked_text()
            )?;
        }
        let forced: Vec<_> = self.nodes.iter().flat_map(|n| &n.forced).map(String::as_str).collect();
        if !forced.is_empty() {
            writeln!(out, "\nForced by a deadline: {}", forced.join(", "))?;
        }
        if !self.at_rest {
            let end = if self.by_hand { "it was ended by hand" } else { "the scenario's end" };
            writeln!(out, "\nNot everything came to rest before {end}.")?;
        }
        Ok(())
    }
}

impl NodeSummary {
    fn blocked_text(&self) -> String {
        let Some(longest) = self.blocked.first() else { return String::new() };
        let others = self.blocked.len() - 1;
        let more = if others == 0 { String::new() } else { format!(", {others} more for less") };
        format!("{} s by {} ({}){more}", longest.seconds, longest.reason, longest.pod)
    }
}

fn longest_first(blocked: &[BlockedFor]) -> Vec<BlockedFor> {
    let mut blocked: Vec<_> = blocked.iter().filter(|b| b.seconds > 0).cloned().collect();
    blocked.sort_by(|a, b| b.seconds.cmp(&a.seconds).then_with(|| a.pod.cmp(&b.pod)));
    blocked
}

/// In the order in which they were cordoned; then `ip-10-0-0-9` before `ip-10-0-0-10`.
pub(super) fn in_order(drains: &BTreeMap<NodeName, NodeReport>) -> Vec<(&NodeName, &NodeReport)> {
    let mut all: Vec<_> = drains.iter().collect();
    all.sort_by_key(|(name, r)| (r.cordoned, name.as_str().len(), *name));
    all
}

fn node(name: &NodeName, r: &NodeReport, begun: Moment) -> NodeSummary {
    NodeSummary {
        node: name.to_string(),
        instance: r.instance.clone(),
        kind: r.kind,
        cordoned_after_ms: r.cordoned.since_or_zero(begun).as_millis(),
        drained_after_ms: r.drained.map(|at| at.since_or_zero(r.cordoned).as_millis()),
        ended: r.phase,
        evictions: r.evictions,
        refusals: r.refusals,
        deletes: r.deletes,
        forced: r.forced.clone(),
        blocked: longest_first(&r.blocked_for),
        heartbeats: r.heartbeats,
        completed_with: r.completed.clone(),
    }
}
