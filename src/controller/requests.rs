//! Drain requests: accepts those that the fleet orders, and reports them in a dry run.

use std::{collections::BTreeSet, sync::Arc};

use tracing::info;

use super::{
    accept::{self, Tries},
    context::Term,
};
use crate::{
    domain::{Cause, Interruption, Node, seconds},
    record,
    triage::{self, Certainty, HookClaim, OtherClaims},
};

/// How often a dry run looks for requests.
const LOOK_EVERY: std::time::Duration = seconds(15);
/// The most requests that a dry run remembers to have reported. Then it forgets them.
const MOST_REPORTED: usize = 10_000;

/// Accepts a request. If that fails, the fleet orders it again.
pub(super) async fn begin(term: Term, node: Arc<Node>, interruption: Interruption) {
    let Cause::Request(request) = &interruption.cause else { return };
    let now = term.shared.clock.now();
    let verdict = triage::Accept {
        node,
        instance: interruption.instance.clone(),
        response: request.stage.response(),
        certainty: Certainty::Timely,
        claim: HookClaim::Ours,
        state: None,
        // A person named this Node.
        others: OtherClaims::None,
    };
    let mut tries = Tries::default();
    accept::accept(&term, &interruption, &verdict, now, None, &mut tries).await;
}

/// Logs each request on a managed Node once. Nothing is accepted in a dry run.
pub(super) async fn report_in_dry_run(term: Term) {
    let mut reported = BTreeSet::new();
    term.shared.nodes.synced().await;
    loop {
        let now = term.aws_now();
        for node in term.shared.nodes.all() {
            let Some(instance) = node.instance.clone().filter(|_| term.manages(&node)) else {
                continue;
            };
            let refused = record::refused_requests(&node, Some(&instance), now);
            for record::RefusedRequest { name, why } in refused {
                if reported.insert(format!("{} {name} {why}", node.uid)) {
                    info!(
                        node = %node.name, request = name,
                        "Dry run: would refuse the request for a drain: {why}."
                    );
                }
            }
            let next = record::next_request(&node, &instance, now);
            let Some(Interruption { cause: Cause::Request(request), event_id, .. }) = next else {
                continue;
            };
            if reported.insert(format!("{} {event_id}", node.uid)) {
                info!(
                    node = %node.name, %instance, stage = request.stage.as_str(),
                    "Dry run: would accept the request for a drain by {request}."
                );
            }
        }
        if reported.len() > MOST_REPORTED {
            reported.clear();
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
