//! The requests for a drain on a Node: their names, and those that are not obeyed.

use super::Reader;
use crate::{
    cli::status::model::{Interruption, RequestShown},
    domain::{DRAIN_REQUEST, InstanceId, InterruptionFacts, Kind, Node},
    record::{self, Record, RefusedRequest},
};

impl Interruption {
    /// An interruption in the record of this Node.
    pub(super) fn of(facts: &InterruptionFacts, node: &Node) -> Self {
        let request = facts.requester().map(|name| RequestShown {
            by: name.to_owned(),
            reason: facts.reason.as_deref().map(str::to_owned),
            deadline: facts.ends,
            is_gone: !node.asks_with(&facts.event_id),
        });
        Self {
            kind: facts.kind.map_or("unknown", Kind::as_str),
            time: facts.time,
            accepted: facts.accepted,
            request,
        }
    }
}

/// The interruptions without the requests that the Node no longer has, unless nothing else is left.
pub(super) fn holding(interruptions: &[InterruptionFacts], node: &Node) -> Vec<InterruptionFacts> {
    let holds = |facts: &&InterruptionFacts| !facts.is_request() || node.asks_with(&facts.event_id);
    let left: Vec<_> = interruptions.iter().filter(holds).cloned().collect();
    if left.is_empty() { interruptions.to_vec() } else { left }
}

/// The names of the requests in a record that the Node still has.
pub(super) fn asking(record: &Record, node: &Node) -> Vec<String> {
    let all = record.interruptions(record.instance()).into_iter();
    let asking = all.filter(|facts| facts.is_request() && node.asks_with(&facts.event_id));
    asking.filter_map(|facts| facts.requester().map(str::to_owned)).collect()
}

impl Reader<'_> {
    /// What is to be said about requests on this Node that do not drain it.
    pub(super) fn request_remarks(&self, node: &Node) -> Vec<String> {
        if node.requests.is_none() {
            return Vec::new();
        }
        let now = self.facts.now;
        let refused = record::refused_requests(node, node.instance.as_ref(), now);
        let refused = refused.into_iter().map(|RefusedRequest { name, why }| {
            format!("The request {DRAIN_REQUEST}{name} does not drain it: {why}.")
        });
        let next = |instance: &InstanceId| record::next_request(node, instance, now);
        let waits = node.instance.as_ref().and_then(next).filter(|_| !node.ignored());
        let waits = waits.and_then(|next| {
            let name = crate::domain::DrainRequest::name_of_event(&next.event_id)?;
            Some(format!("The leader has not accepted the request {DRAIN_REQUEST}{name} yet."))
        });
        refused.chain(waits).chain(ended_by_hand(node)).collect()
    }
}

/// A person released the node, and the request is still on it.
fn ended_by_hand(node: &Node) -> Option<String> {
    let record::RecordStatus::Released { record, has_our_changes: false } =
        record::status(node, None)
    else {
        return None;
    };
    let names = asking(&record, node);
    (!names.is_empty()).then(|| {
        format!(
            "A person ended its drain. It still has the request of {}, which drains it again only \
             if it changes.",
            names.join(", ")
        )
    })
}
