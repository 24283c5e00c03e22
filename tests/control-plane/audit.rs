//! What the API server's audit log has of Sundown, and of its Lease.

use std::{collections::BTreeMap, time::Duration};

use sundown::domain::Moment;

pub use crate::log::{Call, USER};
use crate::stage::Stage;

/// By a replica, on anything but the Lease.
pub fn is_write(call: &Call) -> bool {
    call.is_by_sundown()
        && call.resource != "leases"
        && !["get", "list", "watch"].contains(&call.verb.as_str())
}

/// All calls so far, in the order in which they came in.
pub fn calls(stage: &Stage) -> Vec<Call> {
    stage.audit.calls()
}

/// How often each pod's eviction was accepted, in the namespace `default`. (Sundown's own
/// Deployment, which drains move as well, is in another.)
pub fn evicted(calls: &[Call]) -> BTreeMap<String, usize> {
    let mut pods = BTreeMap::new();
    for call in calls.iter().filter(|c| {
        c.user == USER
            && c.is("create", "pods/eviction")
            && c.code == 201
            && c.namespace == "default"
    }) {
        *pods.entry(call.name.clone()).or_default() += 1;
    }
    pods
}

/// Each of these pods was evicted once, and no other.
pub fn assert_evicted_once(calls: &[Call], pods: &[String]) {
    let expected: BTreeMap<_, _> = pods.iter().map(|pod| (pod.clone(), 1)).collect();
    assert_eq!(evicted(calls), expected);
}

/// Who held the Lease from when on: the first write of each holder that was accepted. `None`:
/// nobody.
pub fn holders(calls: &[Call]) -> Vec<(Moment, Option<String>)> {
    let mut holders: Vec<(Moment, Option<String>)> = Vec::new();
    for call in calls.iter().filter(|c| c.namespace == "sundown" && (200..300).contains(&c.code)) {
        let Some(holder) = call.holder.clone() else { continue };
        let holder = Some(holder).filter(|h| !h.is_empty());
        if holders.last().is_none_or(|(_, was)| *was != holder) {
            holders.push((call.received, holder));
        }
    }
    holders
}

/// Writes of replicas that did not hold the Lease when they came in. `notice`: for so long after
/// somebody else has taken the Lease the requests of its holder may still arrive.
fn strays(calls: &[Call], notice: Duration) -> Vec<&Call> {
    let holders = holders(calls);
    let holder_at = |at: Moment| {
        holders.iter().rev().find(|(from, _)| *from <= at).and_then(|(_, holder)| holder.clone())
    };
    // Each replica calls itself by a name of its own.
    let own = |c: &Call| Some((c.uid.clone(), c.holder.clone().filter(|h| !h.is_empty())?));
    let names: BTreeMap<_, _> = calls.iter().filter(|c| c.user == USER).filter_map(own).collect();
    let holds = |c: &Call| {
        names.get(&c.uid).is_some_and(|n| {
            [c.received, c.received.minus(notice)].map(holder_at).iter().flatten().any(|h| h == n)
        })
    };
    calls.iter().filter(|c| is_write(c) && !holds(c)).collect()
}

/// The API server got writes, and each from the replica that held the Lease then.
pub fn assert_one_writer(calls: &[Call], notice: Duration) {
    assert!(calls.iter().any(is_write), "nothing was written");
    let strays = strays(calls, notice);
    assert!(strays.is_empty(), "{strays:#?}\n{:#?}", holders(calls));
}

#[test]
fn a_write_of_who_does_not_hold_the_lease_is_found() {
    let at = |second: i64| Moment::from_second(second).unwrap();
    let call = |second, uid: &str| Call {
        received: at(second),
        user: USER.to_owned(),
        uid: uid.to_owned(),
        code: 200,
        ..Call::default()
    };
    let lease = |second, uid: &str, holder: &str| Call {
        verb: "update".to_owned(),
        resource: "leases".to_owned(),
        namespace: "sundown".to_owned(),
        holder: Some(holder.to_owned()),
        ..call(second, uid)
    };
    let write = |second, uid: &str| Call {
        verb: "patch".to_owned(),
        resource: "nodes".to_owned(),
        ..call(second, uid)
    };
    let log = [
        lease(10, "a", "A"),
        write(11, "a"),
        lease(20, "a", ""),
        write(21, "a"),
        lease(30, "b", "B"),
        write(31, "b"),
        write(32, "a"),
        lease(40, "a", "A"),
        write(41, "b"),
        write(42, "c"),
    ];
    let found = |notice| {
        strays(&log, Duration::from_secs(notice))
            .into_iter()
            .map(|c| (c.received, c.uid.as_str()))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(0), [(at(21), "a"), (at(32), "a"), (at(41), "b"), (at(42), "c")]);
    assert_eq!(found(2), [(at(32), "a"), (at(42), "c")]);
    assert_eq!(holders(&log).len(), 4);
}
