//! Reports which sick instances wait, and why.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

use crate::{
    controller::context::Term,
    domain::NodeName,
    triage::impaired::{Scene, Suspect, Waits, census},
};

/// The nodes of sick instances whose drain does not begin, by the reason.
pub(super) type Waiting = BTreeMap<Waits, BTreeSet<NodeName>>;

/// How many nodes a log line names.
const MOST_NAMED: usize = 10;

pub(super) fn names(suspects: &[Suspect]) -> BTreeSet<NodeName> {
    suspects.iter().map(|suspect| suspect.node.name.clone()).collect()
}

/// Sets the metric, and logs each reason once until it or its nodes change.
pub(super) fn waiting(term: &Term, scene: &Scene<'_>, before: &mut Waiting, mut now: Waiting) {
    now.retain(|_, nodes| !nodes.is_empty());
    let counts = now.iter().map(|(why, nodes)| (why.as_str(), nodes.len())).collect();
    term.shared.metrics.set_impaired_waiting(&counts);
    for (why, nodes) in now.iter().filter(|(why, nodes)| before.get(why) != Some(nodes)) {
        let named: Vec<&str> = nodes.iter().take(MOST_NAMED).map(NodeName::as_str).collect();
        let [all, _] = census(scene);
        if why.is_after_drain() {
            warn!(
                reason = why.as_str(), waiting = nodes.len(), nodes = ?named,
                "These sick instances are not replaced: {}.", why.text()
            );
            continue;
        }
        warn!(
            reason = why.as_str(), waiting = nodes.len(), nodes = ?named, sick = all.sick,
            of = all.nodes,
            "No drain of these sick instances begins: {}.", why.text()
        );
    }
    if now.is_empty() && !before.is_empty() {
        info!("No sick instance waits for its drain or its replacement.");
    }
    *before = now;
}
