//! How things go: grace, preconditions, finalizers, owners.

use serde_json::{Value, json};

use super::objects::{config, of};
use crate::{
    script::{Case, Step, delete, delete_with, get, merge, patch_as, post},
    steps,
};

/// A pod on a node without a kubelet: what is done to it stays as it is.
pub fn bound(name: &str, grace: u64) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "nodeName": "$ns-node", "terminationGracePeriodSeconds": grace,
            "containers": [{ "name": "main", "image": "none" }]
        },
    })
}

/// It runs, and is ready or not.
pub fn runs(name: &str, ready: bool) -> Step {
    status(name, "Running", ready)
}

pub fn status(name: &str, phase: &str, ready: bool) -> Step {
    let ready = if ready { "True" } else { "False" };
    let patch = json!({
        "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] }
    });
    patch_as("application/strategic-merge-patch+json", &format!("pods/{name}/status"), patch)
        .shows(json!({ "status": { "phase": phase } }))
        .into()
}

fn gone(name: &str) -> Step {
    get(&format!("pods/{name}"))
        .refused(404, "NotFound", &format!("pods \"{name}\" not found"), of("pods", name))
        .into()
}

fn grace_of(seconds: u64) -> Value {
    json!({ "metadata": { "deletionTimestamp": "*", "deletionGracePeriodSeconds": seconds } })
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a_pod_on_a_node_has_its_grace",
            steps![
                post("pods", bound("p", 40))
                    .shows(json!({
                        "metadata": { "deletionTimestamp": null }, "status": { "phase": "Pending" }
                    }))
                    .save("uid", "/metadata/uid"),
                runs("p", true),
                delete("pods/p").shows(json!({
                    "kind": "Pod",
                    "metadata": {
                        "uid": "$uid", "deletionTimestamp": "*",
                        "deletionGracePeriodSeconds": 40
                    }
                })),
                get("pods/p").shows(grace_of(40)),
            ],
        ),
        Case::new(
            "a_grace_can_only_become_shorter",
            steps![
                post("pods", bound("p", 40)),
                runs("p", true),
                delete_with("pods/p", json!({ "gracePeriodSeconds": 30 }))
                    .shows(grace_of(30))
                    .save("ends", "/metadata/deletionTimestamp")
                    .save("rv", "/metadata/resourceVersion"),
                delete_with("pods/p", json!({ "gracePeriodSeconds": 60 })).shows(json!({
                    "metadata": {
                        "deletionTimestamp": "$ends", "deletionGracePeriodSeconds": 30,
                        "resourceVersion": "$rv"
                    }
                })),
                delete("pods/p").shows(json!({
                    "metadata": {
                        "deletionTimestamp": "$ends", "deletionGracePeriodSeconds": 30,
                        "resourceVersion": "$rv"
                    }
                })),
                delete("pods/p?gracePeriodSeconds=10").shows(json!({
                    "metadata": { "deletionTimestamp": "!$ends", "deletionGracePeriodSeconds": 10 }
                })),
                delete_with("pods/p", json!({ "gracePeriodSeconds": 0 }))
                    .shows(json!({ "kind": "Pod" })),
                gone("p"),
            ],
        ),
        Case::new(
            "no_grace_is_at_once",
            steps![
                post("pods", bound("p", 40)),
                runs("p", true),
                delete_with("pods/p", json!({ "gracePeriodSeconds": 0 }))
                    .shows(json!({ "kind": "Pod", "metadata": { "name": "p" } })),
                gone("p"),
                post("pods", bound("negative", 40)),
                runs("negative", true),
                delete_with("pods/negative", json!({ "gracePeriodSeconds": -1 }))
                    .shows(grace_of(1)),
            ],
        ),
        Case::new(
            "pods_that_do_not_run_go_at_once",
            steps![
                post(
                    "pods",
                    json!({
                        "metadata": { "name": "unscheduled" },
                        "spec": {
                            "nodeSelector": { "nowhere": "yes" },
                            "containers": [{ "name": "main", "image": "none" }]
                        }
                    })
                ),
                delete("pods/unscheduled").shows(json!({ "kind": "Pod" })),
                gone("unscheduled"),
                post("pods", bound("finished", 40)),
                status("finished", "Succeeded", false),
                delete("pods/finished").shows(json!({ "kind": "Pod" })),
                gone("finished"),
                post("pods", bound("failed", 40)),
                status("failed", "Failed", false),
                delete_with("pods/failed", json!({ "gracePeriodSeconds": 5 }))
                    .shows(json!({ "kind": "Pod" })),
                gone("failed"),
                post("pods", bound("pending", 40)),
                delete("pods/pending").shows(grace_of(40)),
            ],
        ),
        Case::new(
            "a_deletion_can_have_preconditions",
            steps![
                post("pods", bound("p", 40)).save("uid", "/metadata/uid"),
                delete_with("pods/p", json!({ "preconditions": { "uid": "other" } })).refused(
                    409,
                    "Conflict",
                    "Operation cannot be fulfilled on Pod \"p\": the UID in the precondition \
                     (other) does not match the UID in record ($uid). The object might have been \
                     deleted and then recreated",
                    of("Pod", "p")
                ),
                get("pods/p")
                    .shows(json!({ "metadata": { "deletionTimestamp": null } }))
                    .save("rv", "/metadata/resourceVersion"),
                delete_with("pods/p", json!({ "preconditions": { "resourceVersion": "1" } }))
                    .refused(
                        409,
                        "Conflict",
                        "Operation cannot be fulfilled on Pod \"p\": the ResourceVersion in the \
                         precondition (1) does not match the ResourceVersion in record ($rv). The \
                         object might have been modified",
                        of("Pod", "p")
                    ),
                delete_with(
                    "pods/p",
                    json!({ "preconditions": { "uid": "$uid", "resourceVersion": "$rv" } })
                )
                .shows(grace_of(40)),
                post("configmaps", config("c", "1")).save("c", "/metadata/uid"),
                delete_with("configmaps/c", json!({ "preconditions": { "uid": "other" } }))
                    .refused(
                        409,
                        "Conflict",
                        "Operation cannot be fulfilled on ConfigMap \"c\": the UID in the \
                         precondition (other) does not match the UID in record ($c). The object \
                         might have been deleted and then recreated",
                        of("ConfigMap", "c")
                    ),
            ],
        ),
        Case::new(
            "a_finalizer_keeps_an_object",
            steps![
                post(
                    "configmaps",
                    json!({ "metadata": { "name": "a", "finalizers": ["example.com/hold"] } })
                ),
                delete("configmaps/a")
                    .shows(json!({
                        "kind": "ConfigMap",
                        "metadata": { "deletionTimestamp": "*", "deletionGracePeriodSeconds": 0 }
                    }))
                    .save("rv", "/metadata/resourceVersion"),
                delete("configmaps/a").shows(json!({
                    "kind": "ConfigMap",
                    "metadata": { "deletionTimestamp": "*", "resourceVersion": "$rv" }
                })),
                merge("configmaps/a", json!({ "metadata": { "finalizers": null } }))
                    .shows(json!({ "metadata": { "deletionTimestamp": "*" } })),
                get("configmaps/a").refused(
                    404,
                    "NotFound",
                    "configmaps \"a\" not found",
                    of("configmaps", "a")
                ),
                post(
                    "pods",
                    json!({
                        "metadata": { "name": "p", "finalizers": ["example.com/hold"] },
                        "spec": {
                            "nodeName": "$ns-node",
                            "containers": [{ "name": "main", "image": "none" }]
                        }
                    })
                ),
                runs("p", true),
                delete_with("pods/p", json!({ "gracePeriodSeconds": 0 })).shows(grace_of(0)),
                get("pods/p").shows(grace_of(0)),
                merge("pods/p", json!({ "metadata": { "finalizers": null } })),
                gone("p"),
            ],
        ),
        Case::new(
            "what_is_owned_goes_with_its_owner",
            steps![
                post("configmaps", config("owner", "1")).save("owner", "/metadata/uid"),
                post(
                    "configmaps",
                    json!({
                        "metadata": {
                            "name": "owned",
                            "ownerReferences": [{
                                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                                "uid": "$owner", "controller": true
                            }]
                        }
                    })
                ),
                delete("configmaps/owner"),
                get("configmaps/owned")
                    .refused(
                        404,
                        "NotFound",
                        "configmaps \"owned\" not found",
                        of("configmaps", "owned")
                    )
                    .eventually(),
            ],
        ),
        Case::new(
            "a_dry_deletion_of_a_pod_changes_nothing",
            steps![
                post("pods", bound("p", 40)),
                runs("p", true),
                delete_with("pods/p", json!({ "dryRun": ["All"] }))
                    .shows(json!({ "kind": "Pod", "metadata": { "deletionTimestamp": "*" } })),
                get("pods/p").shows(json!({ "metadata": { "deletionTimestamp": null } })),
            ],
        ),
    ]
}
