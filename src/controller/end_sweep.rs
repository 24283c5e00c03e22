//! Looks for instances that EC2 shuts down although no event reports it, and drains their Nodes as
//! far as there is time. [`crate::record::may_end_unreported`] decides which Nodes to ask EC2 about.

use std::sync::Arc;

use futures::future::join_all;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{context::Term, decision::Decision};
use crate::{
    domain::{Interruption, Kind, Moment, Node, seconds},
    record::{self, EndTurns},
};

/// How long a question to EC2 lasts at most.
const LOOK_TIMEOUT: std::time::Duration = seconds(20);
/// How long the accept of what EC2 has shown lasts at most. The next round finds the others again.
const ACCEPT_TIMEOUT: std::time::Duration = seconds(30);

/// Runs until the end of the term. A dry run does not start it.
pub(super) async fn run(term: Arc<Term>) {
    let config = &term.shared.config.ours;
    let Some(interval) = config.sweep_interval else { return };
    if config.cluster_name.is_none() || term.shared.policy.ignores(Kind::StateChange).is_some() {
        return;
    }
    term.shared.nodes.synced().await;
    let clock = term.shared.clock;
    let mut turns = EndTurns::default();
    loop {
        let pause = interval.saturating_sub((interval / 4).mul_f64(term.shared.random.fraction()));
        clock.sleep_until(clock.now().plus(pause)).await;
        let may_end = |node: &Arc<Node>| term.manages(node) && record::may_end_unreported(node);
        let nodes = term.shared.nodes.all().into_iter().filter(may_end).collect();
        let asked = turns.next(nodes);
        let ending = join_all(asked.iter().map(|node| look(&term, node))).await;
        join_all(ending.into_iter().flatten().map(|found| accept(&term, found))).await;
    }
}

/// Asks EC2 about the instance of a Node. All Nodes of a round share one call.
async fn look(term: &Term, node: &Node) -> Option<(Interruption, Moment)> {
    let (instance, now) = (node.instance.as_ref()?, term.shared.clock.now());
    let since = tokio::time::Instant::now();
    let asking = term.shared.lookups.instances.get_since(instance, since);
    let answer = tokio::time::timeout(LOOK_TIMEOUT, asking).await.ok()?.ok()?;
    let state = answer.1?.state;
    let found = record::unreported_end(instance, state, term.skew().to_aws(now))?;
    info!(
        node = %node.name, %instance, state = state.as_str(),
        "EC2 shuts an instance down, and no event of it has arrived."
    );
    Some((found, now))
}

async fn accept(term: &Arc<Term>, (found, at): (Interruption, Moment)) {
    let give_up = CancellationToken::new();
    let mut decision = Decision::found_ending(Arc::clone(term), found, at, give_up.clone());
    let deciding = Box::pin(decision.decide());
    drop(tokio::time::timeout(ACCEPT_TIMEOUT, deciding).await);
}
