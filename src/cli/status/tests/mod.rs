//! Facts of a cluster for the tests of the report and of its text.
#![allow(clippy::indexing_slicing, reason = "what is not there fails the test")]

mod gates;
mod pace;
mod report;
mod requests;
mod retained;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{
    clipped,
    facts::{EventFacts, Facts, LeaseFacts, RetainedFact, RetainedFacts, Subject},
    model::{
        self, BlockedPod, Hook, Interruption, LastEvent, Leader, NodeStatus, Pods, Report,
        RetainedInstance, State, Until, WaitingNode,
    },
    read::named,
    report::report,
    text::{Look, text},
};
use crate::{
    cli::paint::Paint,
    config::{DrainConfig, PublishedService},
    controller::{drain_settings, limit_settings},
    domain::{
        Budget, BudgetKey, DaemonSetState, KEEP_CORDONED, Moment, Node, Owner, PAUSE, Phase, Pod,
        PodKey, PodWishes, RECORD, Selector, TAINT, Taint, seconds,
    },
    drain::{BlockReason, Drain, Start},
    fleet::limits_of,
    record::Record,
};

const INSTANCE: &str = "i-1234567890abcdef0";

const PLAIN: Look = Look { paint: Paint::new(false), width: 80, is_detailed: false };

/// `s` seconds after a fixed moment; the status is read at 3600.
fn at(s: i64) -> Moment {
    Moment::from_second(1_767_225_600 + s).unwrap()
}

fn node(name: &str, annotations: &[(&str, String)]) -> Node {
    Node {
        instance: Some(INSTANCE.parse().unwrap()),
        unschedulable: true,
        taints: vec![Taint {
            key: TAINT.to_owned(),
            value: None,
            effect: "NoSchedule".to_owned(),
            time_added: None,
        }],
        annotations: annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
        ..Node::for_test(name)
    }
}

/// A record with a terminate hook that was accepted at this second.
fn hook(accepted: i64) -> String {
    let interruption = json!({
        "kind": "terminate-hook", "event": "e", "time": at(accepted - 1), "accepted": at(accepted),
        "group": "web", "hook": "sundown"
    });
    json!({ "version": 1, "instance": INSTANCE, "interruptions": [interruption] }).to_string()
}

fn pod(name: &str) -> Pod {
    Pod {
        key: PodKey { namespace: "shop".into(), name: name.into() },
        uid: name.into(),
        node: Some("a".into()),
        labels: [("app".to_owned(), name.to_owned())].into(),
        phase: Phase::Running,
        ready: true,
        created: None,
        deletion: None,
        grace: seconds(30),
        owner: Some(Box::new(Owner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web".into(),
        })),
        mirror: false,
        tolerates_us: false,
        priority: 0,
        finalizers: false,
        has_claims: false,
        wishes: PodWishes::default(),
    }
}

fn budget(app: &str, allowed: i64) -> Budget {
    Budget {
        key: BudgetKey { namespace: "shop".into(), name: app.into() },
        selector: Selector::from_parts([("app".to_owned(), app.to_owned())], []),
        allowed,
        healthy: 2,
        desired: 2,
        generation: 1,
        observed: 1,
    }
}

fn event(subject: Subject, reason: &str, message: &str, last: i64) -> EventFacts {
    EventFacts {
        subject,
        reason: reason.to_owned(),
        is_warning: true,
        message: message.to_owned(),
        first: at(last - 10),
        last: at(last),
    }
}

fn lease() -> LeaseFacts {
    LeaseFacts {
        namespace: "sundown".to_owned(),
        name: "sundown".to_owned(),
        holder: Some("sundown-0".to_owned()),
        acquired: Some(at(0)),
        renewed: Some(at(3598)),
        duration: seconds(15),
        is_paused: false,
        settings: DrainConfig::from_published("--drain-timeout=40m"),
        service: PublishedService::read("--sweep-interval=1m"),
    }
}

fn facts(nodes: Vec<Node>, pods: &[Pod]) -> Facts {
    let pods = nodes.iter().map(|node| (node.name.clone(), Ok(pods.to_vec()))).collect();
    Facts {
        now: at(3600),
        lease: Some(lease()),
        nodes,
        pods,
        daemon_sets: BTreeMap::new(),
        budgets: Vec::new(),
        events: Vec::new(),
        retained: RetainedFacts::default(),
        trouble: Vec::new(),
    }
}

/// One node with these pods. Its drain began at 3350.
fn draining(pods: &[Pod]) -> Facts {
    facts(vec![node("a", &[(RECORD, hook(3350))])], pods)
}
