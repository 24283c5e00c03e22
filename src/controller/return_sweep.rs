//! Looks for instances that are back although no event reports it, and restores their Nodes.
//! [`crate::record::awaited_return`] decides which answers show that.

use std::sync::Arc;

use futures::{StreamExt, stream};
use tokio::sync::mpsc;
use tracing::warn;

use super::{
    context::Term,
    returns::{self, Asked, Unanswered, answer},
};
use crate::{
    cluster::node_lease_renewed,
    domain::{InstanceId, Moment, Node, seconds},
    observe::MessageOutcome,
    record::{AwaitedReturn, AwsAnswer, Look, ReturnSightings, awaited_return},
};

/// How many Nodes are looked into at once.
const MAX_CONCURRENT_LOOKS: usize = 64;
/// How long the PATCH of one Node lasts at most.
const LOOK_TIMEOUT: std::time::Duration = seconds(30);

/// Takes an instance that Auto Scaling has shown in service, and when it was asked.
pub(super) type SeenInService = mpsc::UnboundedSender<(InstanceId, Moment)>;

/// Runs until the end of the term. A dry run does not start it.
pub(super) async fn run(term: Arc<Term>, in_service: SeenInService) {
    let Some(interval) = term.shared.config.ours.sweep_interval else { return };
    term.shared.nodes.synced().await;
    let clock = term.shared.clock;
    let mut sightings = ReturnSightings::default();
    let mut next = clock.now().plus(interval);
    loop {
        clock.sleep_until(next).await;
        let nodes = term.shared.nodes.all().into_iter().filter(|node| term.manages(node));
        let waiting: Vec<(Arc<Node>, AwaitedReturn)> =
            nodes.filter_map(|node| awaited_return(&node).map(|awaited| (node, awaited))).collect();
        sightings.keep(&waiting);
        let looks: Vec<_> = stream::iter(waiting)
            .map(|(node, awaited)| {
                look_in_time(Arc::clone(&term), in_service.clone(), node, awaited)
            })
            .buffer_unordered(MAX_CONCURRENT_LOOKS)
            .collect()
            .await;
        for (node, look, (asked, answered)) in looks {
            if sightings.note(&node, look, asked, answered) {
                restore_within_limit(&term, &node).await;
            }
        }
        next = sightings.next_look(clock.now(), interval);
    }
}

/// Restores the Node. A Node whose PATCH is refused must not keep the others waiting: the next
/// looks find it again.
async fn restore_within_limit(term: &Term, node: &Arc<Node>) {
    match tokio::time::timeout(LOOK_TIMEOUT, returns::restore_unreported(term, node)).await {
        Ok(true) => term.shared.metrics.sweep_decided(MessageOutcome::Restored),
        Ok(false) => {}
        Err(_) => warn!(
            node = %node.name,
            "Cannot restore the node of an instance that is back: the API server does not accept \
             the PATCH. Trying again. Find out which webhook or policy refuses it."
        ),
    }
}

/// Looks into a Node. The two times: when the questions began, and when they were answered.
async fn look_in_time(
    term: Arc<Term>,
    in_service: SeenInService,
    node: Arc<Node>,
    awaited: AwaitedReturn,
) -> (Arc<Node>, Look, (Moment, Moment)) {
    let asked = term.shared.clock.now();
    let looking = look(&term, &node, &awaited, |instance| {
        // The receiver is gone if the sweep for lifecycle hooks does not run.
        in_service.send((instance, asked)).ok();
    });
    let seen = looking.await.unwrap_or_else(|unanswered| {
        unanswered.report(&term, &node);
        Look::Unanswered
    });
    let answered = term.shared.clock.now();
    (node, seen, (asked, answered))
}

/// Asks AWS, and reads the Lease of the Node if AWS shows that the instance is back. Calls
/// `in_service` with the instance if its group has it in service.
async fn look(
    term: &Term,
    node: &Node,
    awaited: &AwaitedReturn,
    in_service: impl FnOnce(InstanceId),
) -> Result<Look, Unanswered> {
    let (lookups, now) = (&term.shared.lookups, tokio::time::Instant::now());
    let group_state = match &awaited.group {
        Some(group) => {
            let asking = lookups.members.listed_state_since(group, &awaited.instance, now);
            answer(Asked::Group, asking).await?
        }
        None => None,
    };
    let instance = if awaited.needs_instance() {
        answer(Asked::Ec2, lookups.instances.get_since(&awaited.instance, now)).await?.1
    } else {
        None
    };
    let of_aws = AwsAnswer { group_state: group_state.as_deref(), instance: instance.as_deref() };
    if of_aws.is_in_service() {
        in_service(awaited.instance.clone());
    }
    let Some(since) = awaited.shown_by(&of_aws) else { return Ok(Look::Away) };
    let reading = node_lease_renewed(&term.shared.cluster, &node.name);
    Ok(Look::of_node(node, since, answer(Asked::Lease, reading).await?))
}
