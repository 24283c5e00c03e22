//! What watches send, from which version, and how they end.

use serde_json::{Value, json};

use super::objects::config;
use crate::{
    script::{Case, Step, delete, events, get, merge, open, post},
    steps,
};

fn event(kind: &str, name: &str, data: &str) -> Value {
    json!({
        "type": kind,
        "object": {
            "kind": "ConfigMap", "metadata": { "name": name, "resourceVersion": "*" },
            "data": { "k": data }
        }
    })
}

/// The ConfigMap that real clusters put into every namespace stays out of the way.
const OURS: &str = "fieldSelector=metadata.name!%3Dkube-root-ca.crt";

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a_watch_from_a_version_says_what_changed_since",
            steps![
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                merge(
                    "configmaps/a", json!({ "data": { "k": "2" } })
                ).save("changed", "/metadata/resourceVersion"),
                post("configmaps", config("b", "1")),
                delete("configmaps/a"),
                open("w", &format!("configmaps?watch=true&resourceVersion=$rv&{OURS}")),
                events(
                    "w",
                    json!([
                        {
                            "type": "MODIFIED",
                            "object": {
                                "metadata": { "name": "a", "resourceVersion": "$changed" },
                                "data": { "k": "2" }
                            }
                        },
                        event("ADDED", "b", "1"),
                        // The last state, with the version of its end.
                        {
                            "type": "DELETED",
                            "object": {
                                "metadata": { "name": "a", "resourceVersion": "!$changed" },
                                "data": { "k": "2" }
                            }
                        },
                    ])
                ),
                merge("configmaps/b", json!({ "data": { "k": "2" } })),
                events("w", json!([event("MODIFIED", "b", "2")])),
            ],
        ),
        Case::new(
            "a_watch_without_a_version_begins_with_what_is_there",
            steps![
                post("configmaps", config("a", "1")),
                post("configmaps", config("b", "1")),
                open("w", &format!("configmaps?watch=true&{OURS}")),
                events("w", json!([event("ADDED", "a", "1"), event("ADDED", "b", "1")])),
                open("zero", &format!("configmaps?watch=true&resourceVersion=0&{OURS}")),
                events("zero", json!([event("ADDED", "a", "1"), event("ADDED", "b", "1")])),
                delete("configmaps/a"),
                events("w", json!([event("DELETED", "a", "1")])),
                events("zero", json!([event("DELETED", "a", "1")])),
            ],
        ),
        Case::new(
            "a_watch_can_list_first_and_say_when_it_has",
            steps![
                post("configmaps", config("a", "1")),
                open(
                    "w",
                    &format!(
                        "configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&{OURS}"
                    )
                ),
                events(
                    "w",
                    json!([
                        event("ADDED", "a", "1"),
                        {
                            "type": "BOOKMARK",
                            "object": {
                                "kind": "ConfigMap", "apiVersion": "v1",
                                "metadata": {
                                    "resourceVersion": "*",
                                    "annotations": { "k8s.io/initial-events-end": "true" }
                                }
                            }
                        },
                    ])
                ),
                post("configmaps", config("b", "1")),
                events("w", json!([event("ADDED", "b", "1")])),
                get(
                    "configmaps?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
                ).refused(422, "Invalid", "*", json!("*")),
            ],
        ),
        Case::new(
            "objects_come_into_a_selector_and_leave_it",
            steps![
                post(
                    "configmaps", json!({ "metadata": { "name": "a" }, "data": { "k": "1" } })
                ).save("rv", "/metadata/resourceVersion"),
                open("w", "configmaps?watch=true&resourceVersion=$rv&labelSelector=x%3Dy"),
                merge("configmaps/a", json!({ "metadata": { "labels": { "x": "y" } } })),
                events("w", json!([event("ADDED", "a", "1")])),
                merge("configmaps/a", json!({ "data": { "k": "2" } })),
                events("w", json!([event("MODIFIED", "a", "2")])),
                // What it was when it still matched.
                merge(
                    "configmaps/a", json!({ "metadata": { "labels": null }, "data": { "k": "3" } })
                ).save("left", "/metadata/resourceVersion"),
                events(
                    "w",
                    json!([{
                        "type": "DELETED",
                        "object": {
                            "metadata": {
                                "name": "a", "resourceVersion": "$left", "labels": { "x": "y" }
                            },
                            "data": { "k": "2" }
                        }
                    }])
                ),
                merge("configmaps/a", json!({ "data": { "k": "4" } })),
                merge("configmaps/a", json!({ "metadata": { "labels": { "x": "y" } } })),
                events("w", json!([event("ADDED", "a", "4")])),
            ],
        ),
        Case::new(
            "pods_are_watched_by_their_node",
            steps![
                get("pods").save("rv", "/metadata/resourceVersion"),
                open(
                    "w",
                    "/api/v1/pods?watch=true&resourceVersion=$rv&fieldSelector=spec.nodeName%3D$ns-node"
                ),
                post(
                    "pods",
                    json!({
                        "metadata": { "name": "other" },
                        "spec": {
                            "nodeName": "$ns-other",
                            "containers": [{ "name": "main", "image": "none" }]
                        }
                    })
                ),
                post(
                    "pods",
                    json!({
                        "metadata": { "name": "p" },
                        "spec": {
                            "nodeName": "$ns-node",
                            "containers": [{ "name": "main", "image": "none" }]
                        }
                    })
                ),
                events(
                    "w", json!([{ "type": "ADDED", "object": { "metadata": { "name": "p" } } }])
                ),
            ],
        ),
        Case::new(
            "one_object_is_watched_by_its_name",
            steps![
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                open(
                    "w", "configmaps?watch=true&resourceVersion=$rv&fieldSelector=metadata.name%3Da"
                ),
                post("configmaps", config("b", "1")),
                merge("configmaps/a", json!({ "data": { "k": "2" } })),
                events("w", json!([event("MODIFIED", "a", "2")])),
            ],
        ),
        Case::new(
            "a_watch_ends_when_its_time_is_over",
            steps![
                get("configmaps").save("rv", "/metadata/resourceVersion"),
                open(
                    "w",
                    &format!("configmaps?watch=true&resourceVersion=$rv&timeoutSeconds=1&{OURS}")
                ),
                Step::Ends { name: "w" },
            ],
        ),
        Case::new(
            "a_watch_gets_a_bookmark_before_its_time_is_over",
            steps![
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                merge("configmaps/a", json!({ "data": { "k": "2" } })),
                open(
                    "w",
                    "configmaps?watch=true&resourceVersion=$rv&timeoutSeconds=5&allowWatchBookmarks=true&fieldSelector=metadata.name%3Da"
                ),
                events(
                    "w",
                    json!([
                        event("MODIFIED", "a", "2"),
                        {
                            "type": "BOOKMARK",
                            "object": {
                                "kind": "ConfigMap", "apiVersion": "v1",
                                "metadata": {
                                    "name": null, "resourceVersion": "!$rv", "annotations": null
                                }
                            }
                        },
                    ])
                ),
                Step::Ends { name: "w" },
            ],
        ),
        Case::new(
            "a_watch_from_a_version_that_is_forgotten_is_410",
            steps![
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                merge("configmaps/a", json!({ "data": { "k": "2" } })),
                merge("configmaps/a", json!({ "data": { "k": "3" } })),
                Step::Forget,
                open("w", "configmaps?watch=true&resourceVersion=$rv"),
                events(
                    "w",
                    json!([{
                        "type": "ERROR",
                        "object": {
                            "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
                            "message": "too old resource version: $rv (*)", "details": null
                        }
                    }])
                ),
                Step::Ends { name: "w" },
                get("configmaps").save("now", "/metadata/resourceVersion"),
                open("again", "configmaps?watch=true&resourceVersion=$now"),
                merge("configmaps/a", json!({ "data": { "k": "4" } })),
                events("again", json!([event("MODIFIED", "a", "4")])),
            ],
        ),
        Case::new(
            "a_watch_cannot_be_of_anything",
            steps![
                get("configmaps?watch=true&resourceVersion=x")
                    .gives(500, json!({ "message": "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \
                             \"x\": invalid syntax" })),
                get(
                    "pods?watch=true&fieldSelector=spec.hostname%3Dx"
                ).refused(400, "BadRequest", "*", Value::Null),
            ],
        ),
    ]
}
