//! Tests of the drain and the dispatcher, alone and together against a small model of an API
//! server.
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

mod answers;
mod bench;
mod budget_block;
mod budgets;
mod comebacks;
mod dispatch;
mod explain;
mod explain_pods;
mod fairness;
mod gates;
mod graces;
mod judge;
mod nodes;
mod order;
mod pods;
mod properties;
mod responses;
mod rules;
mod scenarios;
mod unanswered;
mod untried;
mod verification;
mod volumes;
mod wishes;
mod withdrawn;
mod world;

use std::{sync::Arc, time::Duration};

use super::*;
use crate::domain::{
    ApiAnswer, Budget, BudgetKey, DaemonSetState, DrainSettings, EvictionStart, ForceAfter, Limits,
    Moment, Owner, Phase as PodPhase, Pod, PodKey, PodUid, PodWishes, Selector, seconds,
};

/// `secs` seconds after the start of the test.
fn at(secs: u64) -> Moment {
    at_ms(secs * 1000)
}

fn at_ms(ms: u64) -> Moment {
    Moment::from_second(1_700_000_000).unwrap().plus(Duration::from_millis(ms))
}

/// A running, ready pod of `n1` with a grace period of 30 s; its UID is its name.
pub(crate) fn pod(name: &str) -> Pod {
    Pod {
        key: key(name),
        uid: name.into(),
        node: Some("n1".into()),
        labels: [("app".to_owned(), "web".to_owned())].into(),
        phase: PodPhase::Running,
        ready: true,
        created: None,
        deletion: None,
        grace: seconds(30),
        owner: Some(Box::new(Owner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web-1".into(),
        })),
        mirror: false,
        tolerates_us: false,
        priority: 0,
        finalizers: false,
        has_claims: false,
        wishes: PodWishes::default(),
    }
}

fn key(name: &str) -> PodKey {
    PodKey { namespace: "default".into(), name: name.into() }
}

fn daemon(name: &str, set: &str) -> Pod {
    Pod {
        owner: Some(Box::new(Owner {
            api_version: "apps/v1".into(),
            kind: "DaemonSet".into(),
            name: set.into(),
        })),
        ..pod(name)
    }
}

/// A budget of all pods with `app=web`.
fn budget(name: &str, allowed: i64) -> Budget {
    Budget {
        key: BudgetKey { namespace: "default".into(), name: name.into() },
        selector: Selector::from_parts([("app".to_owned(), "web".to_owned())], []),
        allowed,
        healthy: 1 + allowed,
        desired: 1,
        generation: 1,
        observed: 1,
    }
}

fn limits(force_at: u64) -> Limits {
    Limits {
        force_at: Some(at(force_at)),
        end_at: Some(at(force_at)),
        ..Limits::without_deadline(at(0), true)
    }
}

fn drain(limits: Limits) -> Drain {
    Drain::new(
        Start { node: "n1".into(), cordoned_at: at(0), limits, own_pod: None },
        Settings::default(),
    )
}

fn ok() -> ApiAnswer {
    ApiAnswer { code: 201, ..ApiAnswer::default() }
}

fn answer(code: u16, reason: &str, message: &str) -> ApiAnswer {
    ApiAnswer { code, reason: reason.into(), message: message.into(), ..ApiAnswer::default() }
}

const NEEDS: &str = "The disruption budget pdb needs 1 healthy pods and has 1 currently";

fn refused_by_budget() -> ApiAnswer {
    ApiAnswer {
        causes: vec![("DisruptionBudget".into(), NEEDS.into())],
        ..answer(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
        )
    }
}

fn lagging() -> ApiAnswer {
    ApiAnswer {
        causes: vec![(
            "DisruptionBudget".into(),
            "The disruption budget pdb is still being processed by the server.".into(),
        )],
        retry_after: Some(seconds(10)),
        ..answer(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
        )
    }
}

fn two_budgets() -> ApiAnswer {
    answer(
        500,
        "",
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
         support.",
    )
}

fn overload(retry_after: Option<u64>) -> ApiAnswer {
    ApiAnswer {
        retry_after: retry_after.map(seconds),
        ..answer(429, "Failed to parse error data", "Too many requests, please try again later.")
    }
}

fn namespace_terminating() -> ApiAnswer {
    ApiAnswer {
        causes: vec![(
            "NamespaceTerminating".into(),
            "namespace default is being terminated".into(),
        )],
        ..answer(
            403,
            "Forbidden",
            "pods \"a\" is forbidden: unable to create new content in namespace default because \
             it is being terminated",
        )
    }
}

fn other_uid() -> ApiAnswer {
    answer(
        409,
        "Conflict",
        "Precondition failed: UID in precondition: a, the UID in the precondition (a) does not \
         match the UID in record (b). The object might have been deleted and then recreated",
    )
}

fn evict(name: &str, grace: Option<u32>) -> Order {
    Order::Evict { pod: key(name), uid: name.into(), grace }
}

fn delete(name: &str, grace: u32) -> Order {
    Order::Delete { pod: key(name), uid: name.into(), grace, why: DeleteWhy::Forced }
}

fn shorten(name: &str, grace: u32) -> Order {
    Order::Delete { pod: key(name), uid: name.into(), grace, why: DeleteWhy::Shortened }
}

/// The pods that a drain requests from the dispatcher, and whether by delete.
fn requests(effects: &[Effect]) -> Vec<(String, bool)> {
    let want = |e: &Effect| match e {
        Effect::Dispatch(DispatchInput::Request { pod, method, .. }) => {
            Some((pod.uid.to_string(), method.is_delete()))
        }
        _ => None,
    };
    effects.iter().filter_map(want).collect()
}

fn ended(effects: &[Effect]) -> Option<&Outcome> {
    effects.iter().find_map(|e| if let Effect::Ended(outcome) = e { Some(outcome) } else { None })
}

fn notes(effects: &[Effect]) -> Vec<&Note> {
    effects
        .iter()
        .filter_map(|e| if let Effect::Note(note) = e { Some(note) } else { None })
        .collect()
}

fn uid(name: &str) -> PodUid {
    name.into()
}
