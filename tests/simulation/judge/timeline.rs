//! A life in lines of text.

use sundown::{domain::Moment, sim::kube::Request};

use super::Evidence;

/// All that happened, in order, for a person who looks for the cause.
pub fn timeline(evidence: &Evidence) -> String {
    let mut lines: Vec<(Moment, String)> = Vec::new();
    for entry in &evidence.entries {
        lines.push((entry.at, format!("{}: {:?}", entry.by, entry.fact)));
    }
    let seldom =
        |r: &&Request| !["leases", "events"].contains(&r.resource.as_str()) || r.status >= 400;
    for r in evidence.requests.iter().filter(seldom) {
        lines.push((
            r.at,
            format!(
                "{}: {} {}/{} {}/{} -> {} at {:?}",
                r.client,
                r.verb,
                r.resource,
                r.subresource,
                r.namespace,
                r.name,
                r.status,
                r.answered
            ),
        ));
    }
    for call in evidence.calls.iter().filter(|c| !c.api.starts_with("sqs:Receive")) {
        lines.push((call.at, format!("{} {} {:?}", call.api, call.object, call.outcome)));
    }
    for message in &evidence.messages {
        lines.push((message.at, format!("sent {}", message.body)));
        for delivery in &message.deliveries {
            lines.push((delivery.at, format!("{} receives {}", delivery.by, message.body)));
        }
    }
    for deletion in &evidence.deletions {
        lines.push((deletion.at, format!("deleted {}", deletion.body)));
    }
    for change in &evidence.changes {
        lines.push((change.at, format!("{} is {:?}", change.id, change.state)));
    }
    for (at, act) in &evidence.acts {
        lines.push((*at, format!("*** {act}")));
    }
    for action in &evidence.actions {
        lines.push((action.started, format!("an action begins: {action:?}")));
    }
    lines.retain(|(at, _)| *at >= evidence.begun);
    lines.sort_by_key(|(at, _)| *at);
    let line = |(at, text): (Moment, String)| {
        format!("{:9.3} {text}\n", at.duration_since(evidence.begun).as_secs_f64())
    };
    lines.into_iter().map(line).collect()
}
