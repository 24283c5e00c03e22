//! Reports which sick instances wait, and why.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

use crate::{
    controller::context::Term,
    domain::NodeName,
    triage::impaired::{Phase, Scene, Suspect, WaitReason, census, needs_follow_up},
};

/// The nodes of sick instances that wait, by the reason.
pub(super) type Waiting = BTreeMap<(Phase, WaitReason), BTreeSet<NodeName>>;

/// How many nodes a log line names.
const MOST_NAMED: usize = 10;

pub(super) fn names(suspects: &[Suspect]) -> BTreeSet<NodeName> {
    suspects.iter().map(|suspect| suspect.node.name.clone()).collect()
}

/// Notes the nodes about which AWS is asked only in a later round. Each keeps the reason that was
/// last reported for it in this phase. Without one it gets [`WaitReason::Unanswered`].
pub(super) fn still_waiting(
    now: &mut Waiting,
    before: &Waiting,
    phase: Phase,
    nodes: BTreeSet<NodeName>,
) {
    for node in nodes {
        let of_node = before.iter().find(|((of, _), nodes)| *of == phase && nodes.contains(&node));
        let why = of_node.map_or(WaitReason::Unanswered, |((_, why), _)| *why);
        now.entry((phase, why)).or_default().insert(node);
    }
}

fn first(nodes: &BTreeSet<NodeName>) -> Vec<&str> {
    nodes.iter().take(MOST_NAMED).map(NodeName::as_str).collect()
}

/// Sets the metric, and logs each reason once until it or its nodes change.
pub(super) fn waiting(term: &Term, scene: &Scene<'_>, before: &mut Waiting, mut now: Waiting) {
    now.retain(|_, nodes| !nodes.is_empty());
    let mut counts = BTreeMap::new();
    for ((_, why), nodes) in &now {
        *counts.entry(why.as_str()).or_default() += nodes.len();
    }
    term.shared.metrics.set_impaired_waiting(&counts);
    for (key, nodes) in now.iter().filter(|(key, nodes)| before.get(key) != Some(nodes)) {
        let ((phase, why), named) = (key, first(nodes));
        let [all, _] = census(scene);
        match phase {
            Phase::BeforeDrain => warn!(
                reason = why.as_str(), waiting = nodes.len(), nodes = ?named, sick = all.sick,
                of = all.nodes,
                "No drain of these sick instances begins: {}.", why.text()
            ),
            Phase::AfterDrain => warn!(
                reason = why.as_str(), waiting = nodes.len(), nodes = ?named,
                "The drains of these sick instances have ended, and their nodes are neither \
                 replaced nor restored: {}.", why.text()
            ),
        }
    }
    if now.is_empty() && !before.is_empty() {
        info!("No sick instance waits for its drain or its replacement.");
    }
    *before = now;
}

/// Warns of the nodes of sick instances if nothing looks at them any longer.
pub(super) fn warn_of_nodes_never_restored(term: &Term) {
    let nodes = term.shared.nodes.all().into_iter();
    let drained = nodes.map(|node| super::scan(term, node)).filter(needs_follow_up);
    let drained: BTreeSet<NodeName> = drained.map(|scanned| scanned.node.name.clone()).collect();
    if !drained.is_empty() {
        warn!(
            nodes = ?first(&drained), waiting = drained.len(),
            "These nodes were drained because their instances were sick. The sweep is off \
             (--sweep-interval 0s), so Sundown does not restore them when they are healthy. During a \
             drain `sundown release NODE` does; after it, uncordon the node and remove its taint."
        );
    }
}
