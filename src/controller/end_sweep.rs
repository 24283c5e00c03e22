//! Looks for instances that EC2 shuts down although no event reports it, and drains their Nodes as
//! far as there is time. [`crate::record::may_end_unreported`] decides which Nodes to ask EC2 about.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::join_all;
use tracing::{debug, info, warn};

use super::{context::Term, decision::Decision, rounds};
use crate::{
    aws::AwsError,
    domain::{InstanceId, InstanceState, Interruption, Kind, Moment, Node, NodeName, seconds},
    record,
    triage::{RoundFailure, RoundRobin, Rounds, sweep::FIRST_CHECK_AFTER},
};

/// How long Sundown tries to accept a shutdown. If that fails, the next round finds it again.
const ACCEPT_TIMEOUT: std::time::Duration = seconds(30);

/// Runs until the end of the term. A dry run does not start it.
pub(super) async fn run(term: Arc<Term>) {
    let config = &term.shared.config.ours;
    let Some(interval) = config.sweep_interval else { return };
    if config.cluster_name.is_none() || term.shared.policy.ignores(Kind::StateChange).is_some() {
        return;
    }
    term.shared.nodes.synced().await;
    let (clock, random) = (term.shared.clock, term.shared.random.clone());
    let mut rounds = Rounds::new(clock.now(), interval, random.fraction());
    let mut order = RoundRobin::default();
    loop {
        clock.sleep_until(rounds.next()).await;
        let result = round(&term, &mut order).await.map_err(|error| failed(&term, &error));
        if rounds.ended(clock.now(), result, random.fraction()) {
            warn!(
                "EC2 has not answered three times in a row whether it shuts instances down: if \
                 their events are lost, their nodes are not drained. The log says why at level \
                 debug."
            );
        }
    }
}

/// Asks EC2 about the Nodes that are not Ready, and once more a little later about those whose
/// instances end: their event may be under way.
async fn round(term: &Arc<Term>, order: &mut RoundRobin<NodeName>) -> Result<(), AwsError> {
    let (asked, _) = order.next(silent_nodes(term), record::MAX_ASKED, |node| node.name.clone());
    let first = ending(term, &asked).await?;
    if first.is_empty() {
        return Ok(());
    }
    let clock = term.shared.clock;
    clock.sleep_until(clock.now().plus(FIRST_CHECK_AFTER)).await;
    let now = clock.now();
    let mut again = silent_nodes(term);
    again.retain(|node| first.iter().any(|(found, ..)| found.uid == node.uid));
    let found = ending(term, &again).await?;
    join_all(found.into_iter().map(|found| accept(term, found, now))).await;
    Ok(())
}

fn silent_nodes(term: &Term) -> Vec<Arc<Node>> {
    let may_end = |node: &Arc<Node>| term.manages(node) && record::may_end_unreported(node);
    term.shared.nodes.all().into_iter().filter(may_end).collect()
}

/// The state changes of those instances that EC2 shuts down, with their Nodes. 200 Nodes at most are
/// asked about, in one call.
async fn ending(
    term: &Term,
    nodes: &[Arc<Node>],
) -> Result<Vec<(Arc<Node>, InstanceState, Interruption)>, AwsError> {
    let of_node = |node: &Arc<Node>| Some((node.instance.clone()?, Arc::clone(node)));
    let nodes: BTreeMap<InstanceId, Arc<Node>> =
        nodes.iter().filter_map(of_node).take(record::MAX_ASKED).collect();
    let ids: Vec<InstanceId> = nodes.keys().cloned().collect();
    let at = term.skew().to_aws(term.shared.clock.now());
    let facts = term.shared.aws.ec2().describe_instances(&ids).await?;
    let found = facts.into_iter().filter_map(|facts| {
        let found = record::unreported_end(&facts.id, facts.state, at)?;
        Some((Arc::clone(nodes.get(&facts.id)?), facts.state, found))
    });
    Ok(found.collect())
}

async fn accept(
    term: &Arc<Term>,
    (node, state, found): (Arc<Node>, InstanceState, Interruption),
    at: Moment,
) {
    info!(
        node = %node.name, instance = %found.instance, state = state.as_str(),
        "EC2 shuts an instance down, and no event of it has arrived."
    );
    Decision::found_ending(Arc::clone(term), found, at).decide_within(ACCEPT_TIMEOUT).await;
}

fn failed(term: &Term, error: &AwsError) -> RoundFailure {
    let failure = rounds::failure(error);
    if failure == RoundFailure::Denied && term.is_first_report("unreported ends are denied") {
        warn!(
            %error,
            "Sundown may not ask EC2 whether it shuts instances down: if their events are lost, \
             their nodes are not drained. Allow ec2:DescribeInstances in the role's policy."
        );
    } else {
        debug!(%error, "EC2 does not answer whether it shuts instances down.");
    }
    failure
}
