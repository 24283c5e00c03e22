//! What the command has changed on a node, and what follows, in words. No I/O.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use crate::{
    cluster::RequestedNode,
    domain::{DrainRequest, Moment, Node, RequestStage, seconds},
    fleet::PausedBy,
    record::{self, RecordStatus},
};

/// The kind of a request in a record: no interruption by AWS.
const OF_REQUESTS: &str = "request";
/// The most names that a line lists.
const NAMED: usize = 8;

/// The line for a node whose drain was requested. `before` and `after`: the Node before and after
/// the PATCH.
pub(super) fn requested(
    before: &RequestedNode,
    after: &RequestedNode,
    request: &DrainRequest,
    paused: PausedBy,
) -> String {
    let (node, name, value) = (&after.node.name, &*request.name, request.value());
    let mut parts = vec![match before.requests.get(name) {
        Some(was) if *was == value => {
            format!("{node}: the request {name} was there already, so nothing was changed")
        }
        Some(was) => format!("{node}: the request {name} is replaced: {value} (before: {was})"),
        None => format!("{node}: requested as {name}: {value}"),
    }];
    let (others, of_aws) = (others(after, name), of_aws(&after.node));
    if !others.is_empty() {
        parts.push(format!("also requested by {others}"));
    }
    if !of_aws.is_empty() {
        parts.push(format!("AWS has announced {of_aws}, which Sundown acts on as well"));
    }
    if after.node.ignored() {
        parts.push("the node has sundown.dev/ignore, so Sundown leaves it alone".to_owned());
    } else if request.stage == RequestStage::Drain {
        let resume = match paused {
            PausedBy::Nothing => None,
            PausedBy::Node => Some(format!("`sundown resume {node}`")),
            PausedBy::Lease => Some("`sundown resume`".to_owned()),
            PausedBy::Both => Some(format!("`sundown resume` and `sundown resume {node}`")),
        };
        parts.extend(resume.map(|resume| format!("its drain is paused until {resume}")));
    }
    parts.join("; ")
}

/// The line for a node whose request was removed, or that had none: what holds the node, if
/// anything does.
pub(super) fn cancelled(before: &RequestedNode, after: &RequestedNode, name: &str) -> String {
    let node = &after.node.name;
    let done = if before.requests.contains_key(name) {
        format!("{node}: the request {name} is removed")
    } else {
        format!("{node}: it has no request {name}, so nothing was changed")
    };
    let (others, of_aws) = (others(after, name), of_aws(&after.node));
    let stays = match (others.is_empty(), of_aws.is_empty()) {
        (true, true) if !before.requests.contains_key(name) => return done,
        (true, true) if after.node.keeps_cordon() => {
            return format!("{done}; sundown.dev/keep-cordoned keeps the node cordoned");
        }
        (true, true) => {
            return format!(
                "{done}; nothing else asks for the drain, so Sundown restores the node if it has \
                 cordoned it"
            );
        }
        (false, true) => format!("the request of {others}"),
        (true, false) => format!("what AWS has announced ({of_aws})"),
        (false, false) => {
            format!("the request of {others} and what AWS has announced ({of_aws})")
        }
    };
    format!("{done}; the node stays cordoned because of {stays}")
}

/// The other requesters of a node, in the order of their names.
fn others(found: &RequestedNode, name: &str) -> String {
    let others: Vec<&str> =
        found.requests.keys().map(String::as_str).filter(|other| *other != name).collect();
    let named = others.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match others.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The kinds of interruption that the open record of a node has from AWS, each once.
fn of_aws(node: &Node) -> String {
    let (RecordStatus::Open(record), Some(instance)) = (record::status(node, None), &node.instance)
    else {
        return String::new();
    };
    let mut kinds: Vec<_> = record
        .interruptions(instance)
        .into_iter()
        .filter_map(|facts| Some(facts.kind?.as_str()))
        .filter(|kind| *kind != OF_REQUESTS)
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(", ")
}

/// A warning if no replica leads, as far as the Lease shows. `lease`: `Err` has the reason why it
/// could not be read.
pub(super) fn leader_warning(lease: Result<Option<&Lease>, &str>, now: Moment) -> Option<String> {
    let why = match lease {
        Err(why) => return Some(format!("whether a replica of Sundown leads is not known: {why}")),
        Ok(None) => "there is no Lease of it".to_owned(),
        Ok(Some(lease)) => {
            let spec = lease.spec.clone().unwrap_or_default();
            let duration = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
            // Twice, because clocks may differ.
            let alive: Duration = seconds(duration.unwrap_or(15)) * 2;
            let renewed: Option<Moment> = spec.renew_time.map(|time| time.0.into());
            if spec.holder_identity.is_none_or(|holder| holder.is_empty()) {
                "nobody holds its Lease".to_owned()
            } else if renewed.is_some_and(|at| now < at.plus(alive)) {
                return None;
            } else {
                "its Lease was not renewed in time".to_owned()
            }
        }
    };
    Some(format!(
        "no replica of Sundown leads ({why}): the Nodes are annotated, and nothing follows until \
         one leads"
    ))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1 as meta,
    };

    use super::*;
    use crate::domain::{IGNORE, KEEP_CORDONED, RECORD};

    const SPOT: &str = r#"{"version":1,"instance":"i-0123456789abcdef0","interruptions":[
        {"kind":"spot","time":"2026-01-31T16:00:00Z","accepted":"2026-01-31T16:00:00Z"},
        {"kind":"request","time":"2026-01-31T16:00:00Z","accepted":"2026-01-31T16:00:00Z"}]}"#;

    fn node(annotations: &[(&str, &str)], requests: &[(&str, &str)]) -> RequestedNode {
        let owned = |pair: &(&str, &str)| (String::from(pair.0), String::from(pair.1));
        let node = Node {
            instance: "i-0123456789abcdef0".parse().ok(),
            annotations: annotations.iter().map(owned).collect(),
            ..Node::for_test("n")
        };
        RequestedNode { node, requests: requests.iter().map(owned).collect() }
    }

    #[test]
    fn a_request_is_reported_with_all_that_asks_for_the_same_drain() {
        let request = DrainRequest::read("ann", "reason=new kernel").unwrap();
        let ann = ("ann", "stage=drain;reason=new kernel");
        let bob = ("bob", "stage=cordon");
        for (annotations, before, after, paused, expected) in [
            (
                &[][..],
                &[][..],
                &[ann][..],
                PausedBy::Nothing,
                "n: requested as ann: stage=drain;reason=new kernel",
            ),
            (
                &[],
                &[("ann", "stage=cordon")],
                &[ann],
                PausedBy::Nothing,
                "n: the request ann is replaced: stage=drain;reason=new kernel (before: \
                 stage=cordon)",
            ),
            (
                &[],
                &[ann],
                &[ann],
                PausedBy::Nothing,
                "n: the request ann was there already, so nothing was changed",
            ),
            (
                &[(RECORD, SPOT)],
                &[bob],
                &[ann, bob],
                PausedBy::Lease,
                "n: requested as ann: stage=drain;reason=new kernel; also requested by bob; AWS \
                 has announced spot, which Sundown acts on as well; its drain is paused until \
                 `sundown resume`",
            ),
            (
                &[],
                &[],
                &[ann],
                PausedBy::Both,
                "n: requested as ann: stage=drain;reason=new kernel; its drain is paused until \
                 `sundown resume` and `sundown resume n`",
            ),
            (
                &[(IGNORE, "true")],
                &[],
                &[ann],
                PausedBy::Node,
                "n: requested as ann: stage=drain;reason=new kernel; the node has \
                 sundown.dev/ignore, so Sundown leaves it alone",
            ),
        ] {
            let (before, after) = (node(annotations, before), node(annotations, after));
            assert_eq!(requested(&before, &after, &request, paused), expected);
        }
        let cordon = DrainRequest::read("ann", "stage=cordon").unwrap();
        let after = node(&[], &[("ann", "stage=cordon")]);
        assert_eq!(
            requested(&node(&[], &[]), &after, &cordon, PausedBy::Lease),
            "n: requested as ann: stage=cordon",
            "no eviction waits for the pause"
        );
    }

    #[test]
    fn a_removal_names_what_still_holds_the_node() {
        let (ann, bob) = (("ann", "stage=drain"), ("bob", "stage=drain"));
        for (annotations, before, after, expected) in [
            (
                &[][..],
                &[ann][..],
                &[][..],
                "n: the request ann is removed; nothing else asks for the drain, so Sundown \
                 restores the node if it has cordoned it",
            ),
            (
                &[(KEEP_CORDONED, "true")],
                &[ann],
                &[],
                "n: the request ann is removed; sundown.dev/keep-cordoned keeps the node cordoned",
            ),
            (
                &[],
                &[ann, bob],
                &[bob],
                "n: the request ann is removed; the node stays cordoned because of the request of \
                 bob",
            ),
            (
                &[(RECORD, SPOT)],
                &[ann],
                &[],
                "n: the request ann is removed; the node stays cordoned because of what AWS has \
                 announced (spot)",
            ),
            (
                &[(RECORD, SPOT)],
                &[ann, bob],
                &[bob],
                "n: the request ann is removed; the node stays cordoned because of the request of \
                 bob and what AWS has announced (spot)",
            ),
            (&[], &[], &[], "n: it has no request ann, so nothing was changed"),
            (
                &[],
                &[bob],
                &[bob],
                "n: it has no request ann, so nothing was changed; the node stays cordoned because \
                 of the request of bob",
            ),
        ] {
            let (before, after) = (node(annotations, before), node(annotations, after));
            assert_eq!(cancelled(&before, &after, "ann"), expected);
        }
        let many: Vec<_> =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|n| (n, "")).into();
        assert_eq!(others(&node(&[], &many), "ann"), "a, b, c, d, e, f, g, h and 2 more");
    }

    #[test]
    fn nobody_leads_if_the_lease_is_missing_free_or_old() {
        let now: Moment = "2026-01-31T16:00:00Z".parse().unwrap();
        let lease = |holder: &str, age: u64| Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(15),
                renew_time: Some(meta::MicroTime(now.minus(seconds(age)).into())),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        };
        for (lease, words) in [
            (Ok(Some(lease("pod_1", 29))), None),
            (Ok(Some(lease("pod_1", 30))), Some("not renewed in time")),
            (Ok(Some(lease("", 1))), Some("nobody holds its Lease")),
            (Ok(Some(Lease::default())), Some("nobody holds its Lease")),
            (Ok(None), Some("there is no Lease of it")),
            (Err("denied"), Some("is not known: denied")),
        ] {
            let warning = leader_warning(lease.as_ref().map(Option::as_ref).map_err(|e| *e), now);
            match words {
                Some(words) => {
                    assert!(warning.as_deref().is_some_and(|w| w.contains(words)), "{warning:?}");
                }
                None => assert_eq!(warning, None),
            }
        }
    }
}
