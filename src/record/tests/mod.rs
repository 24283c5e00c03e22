//! A Node, a merge patch and an API server that applies it, for all tests of this room.
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

mod accept;
mod accept_joining;
mod accept_replacing;
mod booted;
mod compat;
mod confirmed;
mod drain_conditions;
mod ended;
mod exclusion_limit;
mod gone;
mod impaired;
mod life;
mod maintenance;
mod planned;
mod planned_conflicts;
mod planned_drains;
mod planned_in_ec2;
mod properties;
mod requests;
mod responses;
mod return_check;
mod returned;
mod schema;
mod sweep;
mod unreported_end;
mod warm_pool;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::domain::*;

pub(crate) const INSTANCE: &str = "i-1234567890abcdef0";
pub(crate) const OTHER: &str = "i-0fedcba0987654321";

pub(crate) fn id(text: &str) -> InstanceId {
    text.parse().unwrap()
}

/// `n` seconds after a fixed moment.
pub(crate) fn at(n: i64) -> Moment {
    Moment::from_second(1_767_225_600 + n).unwrap()
}

pub(crate) fn node() -> Node {
    Node {
        uid: "uid-1".into(),
        resource_version: "7".into(),
        instance: Some(id(INSTANCE)),
        boot_id: Some("boot-1".into()),
        taints: vec![taint("dedicated", "gpu", "NoExecute")],
        labels: std::sync::Arc::new([("zone".to_owned(), "a".to_owned())].into()),
        annotations: [("sundown.dev/other".to_owned(), "kept".to_owned())].into(),
        ..Node::for_test("a")
    }
}

pub(crate) fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint {
        key: key.into(),
        value: Some(value.into()),
        effect: effect.into(),
        time_added: Some("2026-01-01T00:00:00Z".into()),
    }
}

pub(crate) fn event(event_id: &str, time: i64, cause: Cause) -> Interruption {
    Interruption { instance: id(INSTANCE), event_id: event_id.into(), time: Some(at(time)), cause }
}

pub(crate) fn spot(event_id: &str, time: i64) -> Interruption {
    event(event_id, time, Cause::Spot(SpotAction::Terminate))
}

pub(crate) fn state(event_id: &str, time: i64, state: InstanceState) -> Interruption {
    event(event_id, time, Cause::StateChange(state))
}

pub(crate) fn hook(event_id: &str, time: i64, hook: &str, token: &str) -> Interruption {
    let action = HookAction {
        group: "asg".into(),
        hook: hook.into(),
        token: Some(token.into()),
        origin: None,
        destination: None,
        purpose: HookPurpose::Ordinary,
        metadata: None,
    };
    event(event_id, time, Cause::Terminate(action))
}

/// Applies a merge patch as the API server does.
pub(crate) fn apply(node: &Node, patch: &Value) -> Node {
    assert_eq!(patch["metadata"]["resourceVersion"], node.resource_version, "each write is fenced");
    assert_eq!(patch["metadata"]["uid"], node.uid, "each write names the object");
    let mut doc = json!({
        "metadata": {
            "resourceVersion": node.resource_version, "labels": node.labels,
            "annotations": node.annotations.iter().collect::<BTreeMap<_, _>>()
        },
        "spec": {"taints": node.taints},
    });
    if node.unschedulable {
        doc["spec"]["unschedulable"] = true.into();
    }
    json_patch::merge(&mut doc, patch);
    let next = node.resource_version.parse::<u64>().unwrap() + 1;
    let read = |key: &str| -> BTreeMap<String, String> {
        serde_json::from_value(doc["metadata"][key].clone()).unwrap()
    };
    Node {
        resource_version: next.to_string(),
        unschedulable: doc["spec"]["unschedulable"].as_bool().unwrap_or_default(),
        taints: serde_json::from_value(doc["spec"]["taints"].clone()).unwrap_or_default(),
        labels: std::sync::Arc::new(read("labels")),
        annotations: read("annotations").into_iter().collect(),
        ..node.clone()
    }
}

pub(crate) fn take_on(node: &Node, interruption: &Interruption, now: i64) -> Option<Node> {
    take_on_with(node, interruption, now, &AcceptOptions::default())
}

pub(crate) fn take_on_with(
    node: &Node,
    interruption: &Interruption,
    now: i64,
    options: &AcceptOptions,
) -> Option<Node> {
    match accept(node, interruption, at(now), options) {
        Accept::Patch { body, record, .. } => {
            let node = apply(node, &body);
            assert_eq!(
                Record::read(node.record().unwrap()).unwrap(),
                *record,
                "the returned record is the one that the patch writes"
            );
            Some(node)
        }
        Accept::Repeat => None,
        other => panic!("{other:?}"),
    }
}

/// Marks the record as released, as the leader does after a drain.
pub(crate) fn release_node(node: &Node, now: i64) -> Node {
    apply(node, &release(node, &Released::new(at(now), "empty")).unwrap())
}

pub(crate) fn set_record(node: &mut Node, text: &str) {
    node.annotations.insert(RECORD, text);
}

pub(crate) fn our_taint(node: &Node) -> Option<&str> {
    node.taints.iter().find(|t| t.key == TAINT).and_then(|t| t.value.as_deref())
}

pub(crate) fn open_actions(node: &Node) -> Vec<String> {
    let record = Record::read(node.record().unwrap()).unwrap();
    record
        .open_actions(&id(INSTANCE))
        .iter()
        .map(|o| format!("{}/{}", o.key.group, o.key.hook))
        .collect()
}

pub(crate) fn kinds(node: &Node) -> Vec<Option<Kind>> {
    Record::read(node.record().unwrap())
        .unwrap()
        .interruptions(&id(INSTANCE))
        .iter()
        .map(|t| t.kind)
        .collect()
}

/// The Node with the request `a`, which Sundown has accepted.
fn requested(node: &Node) -> Node {
    let mut requests = NodeRequests::default();
    requests.add("drain.sundown.dev/a", "");
    let asking = Node { requests: Some(Box::new(requests)), ..node.clone() };
    let request = DrainRequest::read("a", "").unwrap().interruption(&id(INSTANCE));
    take_on(&asking, &request, 105).unwrap()
}

/// The terminate hook of an instance that goes into its warm pool.
fn to_pool() -> Interruption {
    let mut action = hook("e1", 100, "drain", "t1");
    if let Cause::Terminate(action) = &mut action.cause {
        action.destination = Some(PoolEnd::WarmPool);
    }
    action
}

/// What EC2 shows of the instance.
fn facts(state: InstanceState) -> InstanceFacts {
    InstanceFacts {
        id: id(INSTANCE),
        state,
        launched: None,
        private_dns: None,
        private_address: None,
        tags: std::collections::BTreeMap::new(),
    }
}
