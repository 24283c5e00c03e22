//! What leader election and Events rest on.

use serde_json::{Value, json};

use super::objects::{of, stale};
use crate::{
    script::{Case, get, merge, post, put},
    steps,
};

fn lease_details() -> Value {
    json!({ "name": "l", "group": "coordination.k8s.io", "kind": "leases" })
}

pub fn cases() -> Vec<Case> {
    let held = |holder: &str, rv: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {
                "name": "l", "resourceVersion": rv
            },
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1,
                "acquireTime": "2026-01-01T00:00:00.000000Z",
                "renewTime": "2026-01-01T00:00:01.123456Z"
            },
        })
    };
    let mut first = held("one", "");
    first["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    vec![
        Case::new(
            "two_candidates_for_a_lease_meet_a_conflict",
            steps![
                post("leases", first.clone())
                    .shows(json!({
                        "spec": {
                            "holderIdentity": "one", "leaseDurationSeconds": 15,
                            "acquireTime": "2026-01-01T00:00:00.000000Z",
                            "renewTime": "2026-01-01T00:00:01.123456Z"
                        }
                    }))
                    .save("rv", "/metadata/resourceVersion"),
                post("leases", first.clone()).refused(
                    409,
                    "AlreadyExists",
                    "leases.coordination.k8s.io \"l\" already exists",
                    lease_details()
                ),
                put("leases/l", held("two", "$rv"))
                    .shows(json!({ "spec": { "holderIdentity": "two", "leaseTransitions": 1 } })),
                put("leases/l", held("three", "$rv")).refused(
                    409,
                    "Conflict",
                    &stale("leases.coordination.k8s.io", "l"),
                    lease_details()
                ),
                put("leases/l", first.clone()).refused(
                    422,
                    "Invalid",
                    "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: \
                     Invalid value: 0: must be specified for an update",
                    json!({
                        "name": "l", "group": "coordination.k8s.io", "kind": "leases",
                        "causes": [{
                            "reason": "FieldValueInvalid",
                            "message": "Invalid value: 0: must be specified for an update",
                            "field": "metadata.resourceVersion"
                        }]
                    })
                ),
                merge("leases/l", json!({ "spec": { "holderIdentity": "four" } }))
                    .shows(json!({ "spec": { "holderIdentity": "four" } })),
                merge(
                    "leases/l",
                    json!({ "metadata": { "annotations": { "sundown.dev/pause": "true" } } })
                )
                .shows(json!({ "metadata": { "annotations": { "sundown.dev/pause": "true" } } })),
                get("leases/l").shows(json!({ "spec": { "holderIdentity": "four" } })),
            ],
        ),
        Case::new(
            "times_of_a_lease_have_microseconds",
            steps![
                post(
                    "leases",
                    json!({
                        "metadata": { "name": "l" },
                        "spec": { "renewTime": "2026-01-01T00:00:01.5Z" }
                    })
                )
                .gives(400, json!({ "reason": "BadRequest", "message": "*" })),
                post(
                    "leases",
                    json!({
                        "metadata": { "name": "l" }, "spec": { "renewTime": "2026-01-01T00:00:01Z" }
                    })
                )
                .gives(400, json!({ "reason": "BadRequest", "message": "*" })),
                post(
                    "leases",
                    json!({ "metadata": { "name": "l" }, "spec": { "renewTime": "yesterday" } })
                )
                .gives(400, json!({ "reason": "BadRequest", "message": "*" })),
                post(
                    "leases",
                    json!({ "metadata": { "name": "l" }, "spec": { "leaseDurationSeconds": 0 } })
                )
                .refused(
                    422,
                    "Invalid",
                    "*",
                    json!({
                        "name": "l", "group": "coordination.k8s.io", "kind": "Lease",
                        "causes": [{
                            "reason": "FieldValueInvalid", "message": "*",
                            "field": "spec.leaseDurationSeconds"
                        }]
                    })
                ),
                post("leases", json!({ "metadata": { "name": "l" }, "spec": {} }))
                    .shows(json!({ "spec": {} })),
            ],
        ),
        Case::new(
            "events_are_one_resource_in_two_groups",
            steps![
                post(
                    "/apis/events.k8s.io/v1/namespaces/$ns/events",
                    json!({
                        "apiVersion": "events.k8s.io/v1", "kind": "Event",
                        "metadata": { "name": "e" }, "eventTime": "2026-01-01T00:00:01.123456Z",
                        "type": "Normal", "reason": "Drained",
                        "action": "Draining", "note": "all gone",
                        "reportingController": "sundown.dev/sundown",
                        "reportingInstance": "sundown-0",
                        "regarding": { "kind": "Pod", "name": "p", "namespace": "$ns", "uid": "u" },
                    })
                )
                .shows(json!({
                    "apiVersion": "events.k8s.io/v1", "note": "all gone",
                    "regarding": { "name": "p" }, "eventTime": "2026-01-01T00:00:01.123456Z"
                })),
                get("events/e").shows(json!({
                    "apiVersion": "v1", "message": "all gone", "reason": "Drained",
                    "involvedObject": { "name": "p", "uid": "u" },
                    "reportingComponent": "sundown.dev/sundown",
                    "reportingInstance": "sundown-0", "note": null
                })),
                get("events?fieldSelector=involvedObject.name%3Dp")
                    .shows(json!({ "items": [{ "metadata": { "name": "e" } }] })),
                get("events?fieldSelector=involvedObject.name%3Dq").shows(json!({ "items": [] })),
                merge(
                    "/apis/events.k8s.io/v1/namespaces/$ns/events/e",
                    json!({
                        "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:05.000000Z" }
                    })
                )
                .shows(json!({
                    "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:05.000000Z" }
                })),
                get("events/e").shows(json!({ "series": { "count": 2 } })),
            ],
        ),
        Case::new(
            "an_event_lives_in_the_namespace_of_what_it_is_about",
            steps![
                post(
                    "events",
                    json!({
                        "metadata": { "name": "e" },
                        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "other" },
                        "reason": "x", "message": "y", "type": "Normal", "source": {}
                    })
                )
                .refused(
                    422,
                    "Invalid",
                    "*",
                    json!({
                        "name": "e", "kind": "Event",
                        "causes": [{
                            "reason": "FieldValueInvalid", "message": "*",
                            "field": "involvedObject.namespace"
                        }]
                    })
                ),
                post(
                    "events",
                    json!({
                        "metadata": { "name": "f" },
                        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "$ns" },
                        "reason": "x", "message": "y", "type": "Normal"
                    })
                )
                .shows(json!({ "message": "y", "involvedObject": { "name": "p" } })),
                get("events/none").refused(
                    404,
                    "NotFound",
                    "events \"none\" not found",
                    of("events", "none")
                ),
            ],
        ),
    ]
}
