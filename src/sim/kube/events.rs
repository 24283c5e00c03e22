//! Events are one resource in two groups: stored as core/v1, shown as events.k8s.io/v1 to those who
//! ask there (kubernetes: pkg/apis/events/v1/conversion.go).

use serde_json::{Map, Value};

use super::kinds::Kind;

/// The newer name and the older one.
const NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Asked for in the newer group.
pub(super) fn is_newer(kind: &Kind) -> bool {
    kind.plural == "events" && !kind.group.is_empty()
}

/// From core/v1.
pub(super) fn to_newer(event: Value) -> Value {
    rename(event, "events.k8s.io/v1", |key| {
        NAMES.iter().find(|(_, old)| *old == key).map(|(new, _)| *new)
    })
}

/// To core/v1.
pub(super) fn to_older(event: Value) -> Value {
    rename(event, "v1", |key| NAMES.iter().find(|(new, _)| *new == key).map(|(_, old)| *old))
}

fn rename(event: Value, version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else { return event };
    let mut out: Map<String, Value> =
        fields.into_iter().map(|(k, v)| (name(&k).map_or(k, str::to_owned), v)).collect();
    if out.contains_key("apiVersion") {
        out.insert("apiVersion".into(), version.into());
    }
    Value::Object(out)
}
