//! What the API server's audit log has of Sundown, and of its Lease.

use std::{collections::BTreeMap, fs, time::Duration};

use serde_json::Value;
use sundown::domain::{Moment, MomentExt};

use crate::stage::Stage;

/// Who Sundown is to the API server; replicas differ by uid.
pub const USER: &str = "system:serviceaccount:sundown:sundown";

/// One call, by anybody.
#[derive(Debug, Clone, Default)]
pub struct Call {
    pub received: Moment,
    pub user: String,
    /// Which replica: `sundown-N` of [`crate::cluster::replica_token`].
    pub uid: String,
    pub verb: String,
    pub group: String,
    /// With its subresource: `pods/eviction`. Empty: no resource at all.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u64,
    /// Of a write of a Lease: the holder that it names, empty for none.
    pub holder: Option<String>,
    pub uri: String,
}

impl Call {
    fn of(event: &Value) -> Self {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (resource, sub) = (text("/objectRef/resource"), text("/objectRef/subresource"));
        let verb = text("/verb");
        let named = event.pointer("/requestObject/spec/holderIdentity").is_some();
        let holder = (["create", "update"].contains(&verb.as_str()) || named).then(|| text("/requestObject/spec/holderIdentity"));
        Self {
            received: text("/requestReceivedTimestamp").parse().unwrap(),
            user: text("/user/username"),
            uid: text("/user/uid"),
            verb,
            group: text("/objectRef/apiGroup"),
            holder: holder.filter(|_| resource == "leases"),
            resource: if sub.is_empty() { resource } else { format!("{resource}/{sub}") },
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            uri: text("/requestURI"),
        }
    }

    pub fn is(&self, verb: &str, resource: &str) -> bool {
        (self.verb.as_str(), self.resource.as_str()) == (verb, resource)
    }

    /// By a replica, on anything but the Lease.
    pub fn is_write(&self) -> bool {
        self.user == USER && self.resource != "leases" && !["get", "list", "watch"].contains(&self.verb.as_str())
    }
}

/// All calls so far, in the order in which they came in. Of a watch its beginning counts, of everything else its end.
pub fn calls(stage: &Stage) -> Vec<Call> {
    let text = fs::read_to_string(stage.cluster.folder.path().join("audit.log")).unwrap_or_default();
    // The last line may be half written.
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let counts = |e: &Value| e["stage"] == if e["verb"] == "watch" { "ResponseStarted" } else { "ResponseComplete" };
    let mut calls: Vec<_> = events.filter(counts).map(|e| Call::of(&e)).collect();
    calls.sort_by_key(|c| c.received);
    calls
}

/// How often each pod's eviction was accepted, in the namespace `default`. (Sundown's own Deployment, which drains move as well, is in another.)
pub fn evicted(calls: &[Call]) -> BTreeMap<String, usize> {
    let mut pods = BTreeMap::new();
    for call in calls.iter().filter(|c| c.user == USER && c.is("create", "pods/eviction") && c.code == 201 && c.namespace == "default") {
        *pods.entry(call.name.clone()).or_default() += 1;
    }
    pods
}

/// Each of these pods was evicted once, and no other.
pub fn assert_evicted_once(calls: &[Call], pods: &[String]) {
    let expected: BTreeMap<_, _> = pods.iter().map(|pod| (pod.clone(), 1)).collect();
    assert_eq!(evicted(calls), expected);
}

/// Who held the Lease from when on: the first write of each holder that was accepted. `None`: nobody.
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

/// Writes of replicas that did not hold the Lease when they came in. `notice`: for so long after somebody else has taken the Lease the
/// requests of its holder may still arrive.
fn strays(calls: &[Call], notice: Duration) -> Vec<&Call> {
    let holders = holders(calls);
    let holder_at = |at: Moment| holders.iter().rev().find(|(from, _)| *from <= at).and_then(|(_, holder)| holder.clone());
    // Each replica calls itself by a name of its own.
    let own = |c: &Call| Some((c.uid.clone(), c.holder.clone().filter(|h| !h.is_empty())?));
    let names: BTreeMap<_, _> = calls.iter().filter(|c| c.user == USER).filter_map(own).collect();
    let holds = |c: &Call| names.get(&c.uid).is_some_and(|n| [c.received, c.received.minus(notice)].map(holder_at).iter().flatten().any(|h| h == n));
    calls.iter().filter(|c| c.is_write() && !holds(c)).collect()
}

/// The API server got writes, and each from the replica that held the Lease then.
pub fn assert_one_writer(calls: &[Call], notice: Duration) {
    assert!(calls.iter().any(Call::is_write), "nothing was written");
    let strays = strays(calls, notice);
    assert!(strays.is_empty(), "{strays:#?}\n{:#?}", holders(calls));
}

#[test]
fn a_write_of_who_does_not_hold_the_lease_is_found() {
    let at = |second: i64| Moment::from_second(second).unwrap();
    let call = |second, uid: &str| Call { received: at(second), user: USER.to_owned(), uid: uid.to_owned(), code: 200, ..Call::default() };
    let lease = |second, uid: &str, holder: &str| Call {
        verb: "update".to_owned(),
        resource: "leases".to_owned(),
        namespace: "sundown".to_owned(),
        holder: Some(holder.to_owned()),
        ..call(second, uid)
    };
    let write = |second, uid: &str| Call { verb: "patch".to_owned(), resource: "nodes".to_owned(), ..call(second, uid) };
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
    let found = |notice| strays(&log, Duration::from_secs(notice)).into_iter().map(|c| (c.received, c.uid.as_str())).collect::<Vec<_>>();
    assert_eq!(found(0), [(at(21), "a"), (at(32), "a"), (at(41), "b"), (at(42), "c")]);
    assert_eq!(found(2), [(at(32), "a"), (at(42), "c")]);
    assert_eq!(holders(&log).len(), 4);
}
