//! Requests for a drain: who asks, why, and what is not obeyed.

use super::*;
use crate::{
    domain::{DrainRequest, NodeRequests},
    record::{AcceptOptions, accept},
};

fn asks(node: Node, all: &[(&str, &str)]) -> Node {
    let mut requests = NodeRequests::default();
    for (name, value) in all {
        requests.add(&format!("drain.sundown.dev/{name}"), value);
    }
    Node { requests: Some(Box::new(requests)), ..node }
}

fn entry(name: &str, value: &str) -> serde_json::Value {
    let request = DrainRequest::read(name, value).unwrap();
    json!({
        "kind": "request", "event": request.event_id(), "time": at(3400), "accepted": at(3400),
        "ends": request.deadline, "reason": request.reason
    })
}

fn recorded(entries: &[serde_json::Value], released: Option<&str>) -> String {
    let mut record = json!({ "version": 1, "instance": INSTANCE, "interruptions": entries });
    if let Some(outcome) = released {
        record["released"] = json!({ "at": at(3500), "outcome": outcome });
    }
    record.to_string()
}

const KERNEL: &str = "deadline=2026-01-01T02:00:00Z;reason=new kernel";

#[test]
fn each_request_is_named_beside_the_notices_of_aws() {
    let spot = json!({ "kind": "spot", "event": "e", "time": at(3590), "accepted": at(3591) });
    let all = [entry("upgrade", KERNEL), entry("check", ""), spot];
    let node = asks(node("a", &[(RECORD, recorded(&all, None))]), &[("upgrade", KERNEL)]);
    let report = report(&facts(vec![node], &[]), Some(&"a".into()));
    let status = &report.nodes[0];
    let shown: Vec<_> = status.interruptions.iter().map(|one| one.request.clone()).collect();
    let by = |n: usize| shown[n].as_ref().map(|request| (request.by.as_str(), request.is_gone));
    assert_eq!([by(0), by(1), by(2)], [Some(("upgrade", false)), Some(("check", true)), None]);
    assert_eq!(status.deadline, Some(at(3710 - 2)), "that of the notice rules");
    let page = text(&report, Look { is_detailed: true, width: 200, ..PLAIN });
    for line in [
        "request    upgrade (new kernel), deadline 2026-01-01T02:00:00Z",
        "request    check, which no longer asks",
        "came       spot at",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[test]
fn what_does_not_drain_a_node_is_a_remark() {
    let remarks = |node: Node| {
        let status = report(&facts(vec![node], &[]), Some(&"a".into())).nodes.remove(0);
        status.remarks.join(" ")
    };
    let bare = || Node { unschedulable: false, taints: Vec::new(), ..node("a", &[]) };
    let wrong = remarks(asks(bare(), &[("a", "typo"), ("b", "deadline=2020-01-01T00:00:00Z")]));
    for part in ["drain.sundown.dev/a does not drain it: `typo` is not a field", "has passed"] {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
    let waits = remarks(asks(bare(), &[("a", "")]));
    assert!(waits.contains("has not accepted the request drain.sundown.dev/a yet"), "{waits}");
    let released = recorded(&[entry("a", "")], Some("released"));
    let by_hand = Node {
        annotations: node("a", &[(RECORD, released)]).annotations,
        ..asks(bare(), &[("a", "")])
    };
    let interruption =
        DrainRequest::read("a", "").unwrap().interruption(&INSTANCE.parse().unwrap());
    let again = accept(&by_hand, &interruption, at(3600), &AcceptOptions::default());
    assert_eq!(again, crate::record::Accept::Repeat);
    let by_hand = remarks(by_hand);
    assert!(by_hand.contains("drains it again only if it changes"), "{by_hand}");
}

#[test]
fn a_drained_node_waits_until_its_request_is_removed() {
    let record = recorded(&[entry("upgrade", KERNEL)], Some("empty"));
    let drained = asks(node("a", &[(RECORD, record)]), &[("upgrade", KERNEL)]);
    let report = report(&facts(vec![drained], &[]), Some(&"a".into()));
    assert_eq!(report.waiting[0].until, Until::RequestIsRemoved);
    let remark = &report.nodes[0].remarks[0];
    assert!(remark.contains("remove drain.sundown.dev/upgrade"), "{remark}");
}
