//! What each kind of patch does.

use serde_json::{Value, json};

use super::objects::{config, of};
use crate::{
    script::{Case, get, merge, patch_as, post},
    steps,
};

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A pod that no scheduler looks at.
fn unscheduled() -> Value {
    let mut pod = pod();
    pod["spec"]["schedulerName"] = "nobody".into();
    pod
}

fn immutable_uid() -> Value {
    json!({
        "reason": "FieldValueInvalid", "message": "Invalid value: \"other\": field is immutable",
        "field": "metadata.uid"
    })
}

fn pod() -> Value {
    json!({
        "metadata": { "name": "p", "finalizers": ["example.com/a", "example.com/b"] },
        "spec": {
            "nodeSelector": { "nowhere": "yes" },
            "containers": [{ "name": "a", "image": "one" }, { "name": "b", "image": "one" }],
            "tolerations": [{ "key": "x", "operator": "Exists" }],
        },
    })
}

fn condition(kind: &str, status: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": kind, "status": status }] } })
}

/// As Sundown writes it.
fn disrupted() -> Value {
    json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionBySundown",
        "message": "why", "lastTransitionTime": "2026-01-02T03:04:05Z"
    })
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a_merge_patch_replaces_lists_and_takes_nulls_away",
            steps![
                post(
                    "nodes",
                    json!({
                        "metadata": { "name": "$ns", "labels": { "a": "1", "b": "1" } },
                        "spec": { "unschedulable": true }
                    })
                ),
                merge(
                    "nodes/$ns",
                    json!({
                        "metadata": { "labels": { "a": null, "c": "3" } },
                        "spec": { "taints": [{ "key": "x", "value": "y", "effect": "NoSchedule" }] }
                    })
                )
                .shows(json!({
                    "metadata": { "labels": { "a": null, "b": "1", "c": "3" } },
                    "spec": {
                        "unschedulable": true,
                        "taints": [{ "key": "x", "value": "y", "effect": "NoSchedule" }]
                    }
                })),
                merge("nodes/$ns", json!({ "spec": { "unschedulable": null, "taints": null } }))
                    .shows(json!({ "spec": { "unschedulable": null, "taints": null } })),
                merge("nodes/$ns", json!({ "spec": { "unschedulable": true } }))
                    .shows(json!({ "spec": { "unschedulable": true } })),
                // What kubectl uncordon sends.
                patch_as(STRATEGIC, "nodes/$ns", json!({ "spec": { "unschedulable": false } }))
                    .shows(json!({ "spec": { "unschedulable": null } })),
                merge("nodes/$ns", json!([])).refused(400, "BadRequest", "*", Value::Null),
                merge("nodes/$ns", Value::from("{")).refused(400, "BadRequest", "*", Value::Null),
            ],
        )
        // Controllers annotate and taint Nodes as they come.
        .without_controllers(),
        Case::new(
            "a_strategic_patch_merges_lists_by_their_keys",
            steps![
                post("pods", pod()),
                patch_as(
                    STRATEGIC,
                    "pods/p",
                    json!({ "spec": { "containers": [{ "name": "b", "image": "two" }] } })
                )
                .shows(json!({
                    "spec": {
                        "containers": [
                            { "name": "a", "image": "one" }, { "name": "b", "image": "two" }
                        ]
                    }
                })),
                patch_as(
                    STRATEGIC,
                    "pods/p",
                    json!({
                        "metadata": {
                            "finalizers": ["example.com/c"],
                            "$deleteFromPrimitiveList/finalizers": ["example.com/a"]
                        }
                    })
                )
                .shows(json!({ "metadata": { "finalizers": ["example.com/c", "example.com/b"] } })),
                patch_as(
                    STRATEGIC,
                    "pods/p/status",
                    json!({
                        "status": { "conditions": [{ "type": "example.com/x", "status": "True" }] }
                    })
                ),
                patch_as(
                    STRATEGIC,
                    "pods/p/status",
                    json!({
                        "status": { "conditions": [{ "type": "example.com/y", "status": "True" }] }
                    })
                ),
                patch_as(
                    STRATEGIC,
                    "pods/p/status",
                    json!({
                        "status": {
                            "conditions": [{ "type": "example.com/x", "$patch": "delete" }]
                        }
                    })
                ),
                get("pods/p?pretty=0").shows(json!({ "metadata": { "name": "p" } })),
            ],
        ),
        Case::new(
            "a_strategic_patch_of_a_pods_status_sets_one_condition_of_the_pod_with_this_uid",
            steps![
                // The scheduler, which sets a condition of its own, leaves it alone.
                post("pods", unscheduled()).save("uid", "/metadata/uid"),
                patch_as(STRATEGIC, "pods/p/status", condition("example.com/x", "False")),
                patch_as(
                    STRATEGIC,
                    "pods/p/status",
                    json!({
                        "metadata": { "uid": "$uid" }, "status": { "conditions": [disrupted()] }
                    })
                ),
                get("pods/p").shows(json!({
                    "status": {
                        "phase": "Pending",
                        "conditions": [
                            disrupted(), { "type": "example.com/x", "status": "False" }
                        ]
                    }
                })),
                patch_as(
                    STRATEGIC,
                    "pods/p/status",
                    json!({
                        "metadata": { "uid": "other" }, "status": { "conditions": [disrupted()] }
                    })
                )
                .refused(
                    422,
                    "Invalid",
                    "Pod \"p\" is invalid: metadata.uid: Invalid value: \"other\": field is \
                     immutable",
                    json!({ "name": "p", "kind": "Pod", "causes": [immutable_uid()] }),
                ),
            ],
        )
        .without_controllers(),
        Case::new(
            "a_strategic_patch_replaces_taints_whole",
            steps![
                post(
                    "nodes",
                    json!({
                        "metadata": { "name": "$ns", "labels": { "a": "1" } },
                        "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }] }
                    })
                ),
                patch_as(
                    STRATEGIC,
                    "nodes/$ns",
                    json!({ "spec": { "taints": [{ "key": "b", "effect": "NoSchedule" }] } })
                )
                .shows(json!({ "spec": { "taints": [{ "key": "b", "effect": "NoSchedule" }] } })),
                patch_as(
                    STRATEGIC,
                    "nodes/$ns",
                    json!({ "metadata": { "labels": { "$patch": "replace", "only": "this" } } })
                )
                .shows(json!({ "metadata": { "labels": { "only": "this" } } })),
                patch_as(STRATEGIC, "nodes/$ns", json!({ "spec": { "unschedulable": true } }))
                    .shows(json!({ "spec": { "unschedulable": true } })),
                patch_as(STRATEGIC, "nodes/$ns", json!({ "spec": { "unschedulable": null } }))
                    .shows(json!({ "spec": { "unschedulable": null } })),
            ],
        )
        // Controllers annotate and taint Nodes as they come.
        .without_controllers(),
        Case::new(
            "a_json_patch_is_done_whole_or_not_at_all",
            steps![
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                patch_as(
                    JSON,
                    "configmaps/a",
                    json!([
                        { "op": "test", "path": "/data/k", "value": "1" },
                        { "op": "replace", "path": "/data/k", "value": "2" },
                        { "op": "add", "path": "/data/n", "value": "x" }
                    ])
                )
                .shows(json!({ "data": { "k": "2", "n": "x" } })),
                patch_as(
                    JSON,
                    "configmaps/a",
                    json!([
                        { "op": "remove", "path": "/data/n" },
                        { "op": "test", "path": "/data/k", "value": "1" }
                    ])
                )
                .refused(
                    422,
                    "Invalid",
                    "the server rejected our request due to an error in our request",
                    json!({})
                ),
                patch_as(JSON, "configmaps/a", json!([{ "op": "remove", "path": "/data/none" }]))
                    .refused(
                        422,
                        "Invalid",
                        "the server rejected our request due to an error in our request",
                        json!({})
                    ),
                patch_as(
                    JSON,
                    "configmaps/a",
                    json!([
                        { "op": "test", "path": "/metadata/resourceVersion", "value": "$rv" },
                        { "op": "add", "path": "/data/k", "value": "3" }
                    ])
                )
                .refused(
                    422,
                    "Invalid",
                    "the server rejected our request due to an error in our request",
                    json!({})
                ),
                get("configmaps/a").shows(json!({ "data": { "k": "2", "n": "x" } })),
                patch_as(JSON, "configmaps/a", json!({ "data": {} })).refused(
                    400,
                    "BadRequest",
                    "*",
                    Value::Null
                ),
                patch_as(
                    JSON,
                    "configmaps/a",
                    json!([{
                        "op": "replace", "path": "/metadata/resourceVersion", "value": "$rv"
                    }])
                )
                .refused(
                    409,
                    "Conflict",
                    &super::objects::stale("configmaps", "a"),
                    of("configmaps", "a")
                ),
            ],
        ),
        Case::new(
            "what_is_applied_is_made_or_merged",
            steps![
                patch_as(APPLY, "configmaps/a?fieldManager=one", config("a", "1"))
                    .gives(201, json!({ "data": { "k": "1" } })),
                patch_as(
                    APPLY,
                    "configmaps/a?fieldManager=one",
                    json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" },
                        "data": { "k": "2" }
                    })
                )
                .shows(json!({ "data": { "k": "2" } })),
                patch_as(APPLY, "configmaps/a", config("a", "1")).refused(
                    422,
                    "Invalid",
                    "*",
                    json!("*")
                ),
            ],
        ),
        Case::new(
            "a_patch_has_a_kind_that_the_server_knows",
            steps![
                post("configmaps", config("a", "1")),
                patch_as("application/json", "configmaps/a", json!({ "data": {} })).refused(
                    415,
                    "UnsupportedMediaType",
                    "*",
                    json!({})
                ),
                merge("configmaps/a", json!({ "metadata": { "name": "b" } })).refused(
                    400,
                    "BadRequest",
                    "the name of the object (b) does not match the name on the URL (a)",
                    Value::Null
                ),
                merge("configmaps/a", json!({ "metadata": { "name": null } })).refused(
                    400,
                    "BadRequest",
                    "the name of the object (a based on URL) was undeterminable: name must be \
                     provided",
                    Value::Null
                ),
            ],
        ),
        Case::new(
            "what_says_nothing_is_left_out",
            steps![
                post(
                    "nodes",
                    json!({
                        "metadata": { "name": "$ns", "labels": { "a": "1" }, "annotations": {} },
                        "spec": {
                            "taints": [{ "key": "a", "effect": "NoSchedule" }],
                            "unschedulable": false
                        }
                    })
                )
                .shows(json!({
                    "metadata": { "annotations": null }, "spec": { "unschedulable": null }
                })),
                merge("nodes/$ns", json!({ "metadata": { "annotations": { "x": "y" } } })),
                merge(
                    "nodes/$ns",
                    json!({
                        "metadata": { "annotations": { "x": null } }, "spec": { "taints": [] }
                    })
                )
                .shows(json!({ "metadata": { "annotations": null }, "spec": { "taints": null } })),
            ],
        )
        // Controllers annotate and taint Nodes as they come.
        .without_controllers(),
    ]
}
