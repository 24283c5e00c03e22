//! Creating, reading, replacing: identity, versions, refusals.

use serde_json::{Value, json};

use crate::{
    script::{Case, delete, get, merge, post, put},
    steps,
};

pub fn config(name: &str, data: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": data }
    })
}

/// `details` that name an object.
pub fn of(kind: &str, name: &str) -> Value {
    json!({ "kind": kind, "name": name })
}

pub const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

pub fn stale(kind: &str, name: &str) -> String {
    format!("Operation cannot be fulfilled on {kind} \"{name}\": {MODIFIED}")
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "an_object_is_created_read_and_deleted",
            steps![
                post("configmaps", config("a", "1"))
                    .shows(json!({
                        "kind": "ConfigMap", "apiVersion": "v1",
                        "metadata": {
                            "name": "a", "namespace": "$ns", "uid": "*", "resourceVersion": "*",
                            "creationTimestamp": "*"
                        },
                        "data": { "k": "1" }
                    }))
                    .save("uid", "/metadata/uid")
                    .save("rv", "/metadata/resourceVersion"),
                get("configmaps/a").shows(json!({
                    "metadata": { "uid": "$uid", "resourceVersion": "$rv" },
                    "data": { "k": "1" }
                })),
                post("configmaps", config("a", "2")).refused(
                    409,
                    "AlreadyExists",
                    "configmaps \"a\" already exists",
                    of("configmaps", "a")
                ),
                delete("configmaps/a").shows(json!({
                    "kind": "Status", "status": "Success",
                    "details": { "name": "a", "kind": "configmaps", "uid": "$uid" }
                })),
                get("configmaps/a").refused(
                    404,
                    "NotFound",
                    "configmaps \"a\" not found",
                    of("configmaps", "a")
                ),
                delete("configmaps/a").refused(
                    404,
                    "NotFound",
                    "configmaps \"a\" not found",
                    of("configmaps", "a")
                ),
                merge("configmaps/a", json!({ "data": { "k": "3" } })).refused(
                    404,
                    "NotFound",
                    "configmaps \"a\" not found",
                    of("configmaps", "a")
                ),
            ],
        ),
        Case::new(
            "names_are_generated_and_needed",
            steps![
                post("configmaps", json!({ "metadata": { "generateName": "gen-" } }))
                    .shows(json!({ "metadata": { "name": "gen-?????*", "generateName": "gen-" } })),
                post("configmaps", json!({ "metadata": {} })).refused(
                    422,
                    "Invalid",
                    "ConfigMap \"\" is invalid: metadata.name: Required value: name or \
                     generateName is required",
                    json!({
                        "kind": "ConfigMap",
                        "causes": [{
                            "reason": "FieldValueRequired",
                            "message": "Required value: name or generateName is required",
                            "field": "metadata.name"
                        }]
                    })
                ),
            ],
        ),
        Case::new(
            "what_is_created_must_fit_its_url",
            steps![
                post("configmaps", json!({ "metadata": { "name": "a", "namespace": "other" } }))
                    .refused(
                        400,
                        "BadRequest",
                        "the namespace of the provided object does not match the namespace sent \
                         on the request",
                        Value::Null
                    ),
                post(
                    "configmaps",
                    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } })
                )
                .refused(400, "BadRequest", "*", Value::Null),
                post("configmaps", Value::from("{")).refused(400, "BadRequest", "*", Value::Null),
                post("configmaps", config("a", "1"))
                    .header("content-type", "text/plain")
                    .gives(415, json!({ "reason": "UnsupportedMediaType", "message": "*" })),
                post("configmaps", json!({ "metadata": { "name": "a", "resourceVersion": "5" } }))
                    .refused(
                        500,
                        "",
                        "resourceVersion should not be set on objects to be created",
                        Value::Null
                    ),
                post("/api/v1/namespaces/nowhere/configmaps", config("a", "1")).refused(
                    404,
                    "NotFound",
                    "namespaces \"nowhere\" not found",
                    of("namespaces", "nowhere")
                ),
                post("configmaps", config("a", "1")).shows(json!({})),
                put("configmaps/a", config("b", "1")).refused(
                    400,
                    "BadRequest",
                    "the name of the object (b) does not match the name on the URL (a)",
                    Value::Null
                ),
            ],
        ),
        Case::new(
            "there_is_no_such_resource",
            steps![
                get("/apis/example.com/v1/things").gives(404, json!("404 page not found\n")),
                get("/api/v1/things").refused(
                    404,
                    "NotFound",
                    "the server could not find the requested resource",
                    json!({})
                ),
                get("/api/v1/namespaces/$ns/configmaps/a/status").refused(
                    404,
                    "NotFound",
                    "the server could not find the requested resource",
                    json!({})
                ),
                post("configmaps/a", config("a", "1")).refused(
                    405,
                    "MethodNotAllowed",
                    "the server does not allow this method on the requested resource",
                    json!({})
                ),
            ],
        ),
        Case::new(
            "a_version_that_is_not_the_newest_is_a_conflict",
            steps![
                post("configmaps", config("a", "1"))
                    .save("old", "/metadata/resourceVersion")
                    .save("uid", "/metadata/uid"),
                put(
                    "configmaps/a",
                    json!({
                        "metadata": { "name": "a", "resourceVersion": "$old" }, "data": { "k": "2" }
                    })
                )
                .shows(json!({
                    "metadata": { "uid": "$uid", "resourceVersion": "!$old" },
                    "data": { "k": "2" }
                }))
                .save("new", "/metadata/resourceVersion"),
                put(
                    "configmaps/a",
                    json!({
                        "metadata": { "name": "a", "resourceVersion": "$old" }, "data": { "k": "3" }
                    })
                )
                .refused(
                    409,
                    "Conflict",
                    &stale("configmaps", "a"),
                    of("configmaps", "a")
                ),
                merge(
                    "configmaps/a",
                    json!({ "metadata": { "resourceVersion": "$old" }, "data": { "k": "3" } })
                )
                .refused(
                    409,
                    "Conflict",
                    &stale("configmaps", "a"),
                    of("configmaps", "a")
                ),
                merge(
                    "configmaps/a",
                    json!({ "metadata": { "resourceVersion": "$new" }, "data": { "k": "3" } })
                )
                .shows(json!({ "data": { "k": "3" } })),
                put("configmaps/a", config("a", "4")).shows(json!({ "data": { "k": "4" } })),
                // A patch is no place for a precondition on the UID; with a version that is old
                // too, the version counts.
                merge("configmaps/a", json!({ "metadata": { "uid": "other" } })).refused(
                    422,
                    "Invalid",
                    "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"other\": field is \
                     immutable",
                    json!({ "name": "a", "kind": "ConfigMap", "causes": [{
                        "reason": "FieldValueInvalid",
                        "message": "Invalid value: \"other\": field is immutable",
                        "field": "metadata.uid"
                    }] })
                ),
                merge(
                    "configmaps/a",
                    json!({ "metadata": { "uid": "other", "resourceVersion": "$old" } })
                )
                .refused(
                    409,
                    "Conflict",
                    &stale("configmaps", "a"),
                    of("configmaps", "a")
                ),
                put("configmaps/a", json!({ "metadata": { "name": "a", "uid": "other" } })).gives(
                    409,
                    json!({
                        "reason": "Conflict",
                        "message": "Operation cannot be fulfilled on configmaps \"a\": \
                            *Precondition failed: UID in precondition: other, UID in object meta: \
                            $uid", "details": of("configmaps", "a") })
                ),
                put(
                    "configmaps/none",
                    json!({ "metadata": { "name": "none", "resourceVersion": "$old" } })
                )
                .refused(
                    404,
                    "NotFound",
                    "configmaps \"none\" not found",
                    of("configmaps", "none")
                ),
            ],
        ),
        Case::new(
            "what_changes_nothing_makes_no_version",
            steps![
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                merge("configmaps/a", json!({ "data": { "k": "1" } }))
                    .shows(json!({ "metadata": { "resourceVersion": "$rv" } })),
                put("configmaps/a", config("a", "1"))
                    .shows(json!({ "metadata": { "resourceVersion": "$rv" } })),
                merge("configmaps/a", json!({}))
                    .shows(json!({ "metadata": { "resourceVersion": "$rv" } })),
                get("configmaps").shows(json!({ "kind": "ConfigMapList" })),
            ],
        ),
        Case::new(
            "a_dry_run_changes_nothing",
            steps![
                post("configmaps?dryRun=All", config("a", "1")).shows(
                    json!({ "metadata": { "name": "a", "uid": "*" }, "data": { "k": "1" } })
                ),
                get("configmaps/a").refused(
                    404,
                    "NotFound",
                    "configmaps \"a\" not found",
                    of("configmaps", "a")
                ),
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                merge("configmaps/a?dryRun=All", json!({ "data": { "k": "2" } }))
                    .shows(json!({ "data": { "k": "2" } })),
                delete("configmaps/a?dryRun=All").shows(json!({ "status": "Success" })),
                get("configmaps/a").shows(
                    json!({ "metadata": { "resourceVersion": "$rv" }, "data": { "k": "1" } })
                ),
                delete("configmaps/a?dryRun=Some").refused(422, "Invalid", "*", json!("*")),
            ],
        ),
        Case::new(
            "a_generation_counts_changes_of_the_spec",
            steps![
                post(
                    "poddisruptionbudgets",
                    json!({
                        "metadata": { "name": "b" },
                        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "a": "b" } } }
                    })
                )
                .shows(json!({ "metadata": { "generation": 1 }, "spec": { "minAvailable": 1 } })),
                merge("poddisruptionbudgets/b", json!({ "metadata": { "labels": { "x": "y" } } }))
                    .shows(json!({ "metadata": { "generation": 1 } })),
                merge("poddisruptionbudgets/b", json!({ "spec": { "minAvailable": 2 } }))
                    .shows(json!({ "metadata": { "generation": 2 } })),
                merge("poddisruptionbudgets/b/status", json!({ "spec": { "minAvailable": 3 } }))
                    .shows(
                        json!({ "metadata": { "generation": 2 }, "spec": { "minAvailable": 2 } })
                    ),
                merge(
                    "poddisruptionbudgets/b",
                    json!({
                        "metadata": { "generation": 9, "uid": null },
                        "status": { "expectedPods": 77 }
                    })
                )
                .shows(json!({ "metadata": { "generation": 2, "name": "b", "uid": "*" } })),
                get("poddisruptionbudgets/b")
                    .shows(json!({ "status": { "observedGeneration": 2, "expectedPods": 0 } }))
                    .eventually(),
                get("poddisruptionbudgets/b/status")
                    .shows(json!({ "kind": "PodDisruptionBudget", "metadata": { "name": "b" } })),
            ],
        ),
        Case::new(
            "what_is_not_valid_is_refused_with_its_field",
            steps![
                post(
                    "configmaps",
                    json!({ "metadata": { "name": "a", "labels": { "bad key": "x" } } })
                )
                .refused(
                    422,
                    "Invalid",
                    "*",
                    json!({
                        "name": "a", "kind": "ConfigMap",
                        "causes": [{
                            "reason": "FieldValueInvalid", "message": "*",
                            "field": "metadata.labels"
                        }]
                    })
                ),
                post("configmaps", json!({ "metadata": { "name": "a", "labels": { "x": "-" } } }))
                    .refused(
                        422,
                        "Invalid",
                        "*",
                        json!({
                            "name": "a", "kind": "ConfigMap",
                            "causes": [{
                                "reason": "FieldValueInvalid", "message": "*",
                                "field": "metadata.labels"
                            }]
                        })
                    ),
                post(
                    "configmaps",
                    json!({ "metadata": { "name": "a", "annotations": { "x": 1 } } })
                )
                .refused(400, "BadRequest", "*", Value::Null),
                post("configmaps", json!({ "metadata": { "name": "Not_A_Name" } })).refused(
                    422,
                    "Invalid",
                    "*",
                    json!({
                        "name": "Not_A_Name", "kind": "ConfigMap",
                        "causes": [{
                            "reason": "FieldValueInvalid", "message": "*", "field": "metadata.name"
                        }]
                    })
                ),
                post(
                    "configmaps",
                    json!({
                        "metadata": { "name": "a", "annotations": { "x": "x".repeat(262_145) } }
                    })
                )
                .refused(
                    422,
                    "Invalid",
                    "*",
                    json!({
                        "name": "a", "kind": "ConfigMap",
                        "causes": [{
                            "reason": "FieldValueTooLong", "message": "*",
                            "field": "metadata.annotations"
                        }]
                    })
                ),
                post(
                    "poddisruptionbudgets",
                    json!({
                        "metadata": { "name": "b" },
                        "spec": { "minAvailable": 1, "maxUnavailable": 1 }
                    })
                )
                .refused(
                    422,
                    "Invalid",
                    "*",
                    json!({
                        "name": "b", "group": "policy", "kind": "PodDisruptionBudget",
                        "causes": [{
                            "reason": "FieldValueInvalid", "message": "*", "field": "spec"
                        }]
                    })
                ),
                post(
                    "nodes",
                    json!({
                        "metadata": { "name": "$ns" },
                        "spec": { "taints": [{ "key": "a", "effect": "Never" }] }
                    })
                )
                .refused(
                    422,
                    "Invalid",
                    "*",
                    json!({
                        "name": "$ns", "kind": "Node",
                        "causes": [{
                            "reason": "FieldValueNotSupported", "message": "*",
                            "field": "metadata.taints[0].effect"
                        }]
                    })
                ),
                post(
                    "nodes",
                    json!({
                        "metadata": { "name": "$ns" },
                        "spec": {
                            "taints": [
                                { "key": "a", "effect": "NoSchedule" },
                                { "key": "a", "value": "b", "effect": "NoSchedule" }
                            ]
                        }
                    })
                )
                .refused(
                    422,
                    "Invalid",
                    "*",
                    json!({
                        "name": "$ns", "kind": "Node",
                        "causes": [{
                            "reason": "FieldValueDuplicate", "message": "*",
                            "field": "metadata.taints[1]"
                        }]
                    })
                ),
            ],
        ),
        Case::new(
            "a_namespace_that_is_going_takes_nothing_new",
            steps![
                post(
                    "configmaps",
                    json!({ "metadata": { "name": "held", "finalizers": ["example.com/hold"] } })
                ),
                delete("namespaces/$ns").shows(json!({
                    "metadata": { "deletionTimestamp": "*" },
                    "status": { "phase": "Terminating" }
                })),
                post("configmaps", config("a", "1")).refused(
                    403,
                    "Forbidden",
                    "configmaps \"a\" is forbidden: unable to create new content in namespace $ns \
                     because it is being terminated",
                    json!({
                        "name": "a", "kind": "configmaps",
                        "causes": [{
                            "reason": "NamespaceTerminating",
                            "message": "namespace $ns is being terminated",
                            "field": "metadata.namespace"
                        }]
                    })
                ),
                get("configmaps/held")
                    .shows(json!({
                        "metadata": { "deletionTimestamp": "*", "finalizers": ["example.com/hold"] }
                    }))
                    .eventually(),
                merge("configmaps/held", json!({ "metadata": { "finalizers": null } }))
                    .shows(json!({ "metadata": { "finalizers": null } })),
                get("namespaces/$ns")
                    .refused(
                        404,
                        "NotFound",
                        "namespaces \"$ns\" not found",
                        of("namespaces", "$ns")
                    )
                    .eventually(),
            ],
        ),
    ]
}
