//! Evictions beside real controllers (kubernetes: pkg/registry/core/pod/storage/eviction.go).

use serde_json::{Value, json};

use super::{
    deletion::{bound, runs, status},
    objects::of,
};
use crate::{
    script::{Ask, Case, Step, delete, get, merge, post},
    steps,
};

/// Evicts a pod, with these options.
pub fn evict(pod: &str, options: Value) -> Ask {
    let mut eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": pod, "namespace": "$ns" }
    });
    if !options.is_null() {
        eviction["deleteOptions"] = options;
    }
    post(&format!("pods/{pod}/eviction"), eviction)
}

pub fn accepted(pod: &str) -> Ask {
    evict(pod, Value::Null).gives(
        201,
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201 }),
    )
}

pub const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// 429 for want of budget.
pub fn blocked(pod: &str, cause: &str) -> Ask {
    evict(pod, Value::Null).refused(
        429,
        "TooManyRequests",
        VIOLATES,
        json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] }),
    )
}

pub fn terminating(pod: &str, grace: u64) -> Step {
    get(&format!("pods/{pod}")).shows(
        json!({ "metadata": { "deletionTimestamp": "*", "deletionGracePeriodSeconds": grace } })
    ).into()
}

pub fn untouched(pod: &str) -> Step {
    get(&format!("pods/{pod}")).shows(json!({ "metadata": { "deletionTimestamp": null } })).into()
}

pub fn gone(pod: &str) -> Step {
    get(&format!("pods/{pod}"))
        .refused(404, "NotFound", &format!("pods \"{pod}\" not found"), of("pods", pod))
        .into()
}

pub fn budget(name: &str, spec: Value) -> Step {
    post("poddisruptionbudgets", json!({ "metadata": { "name": name }, "spec": spec })).into()
}

fn selects(app: &str) -> Value {
    json!({ "matchLabels": { "app": app } })
}

fn allows(name: &str, allowed: u64) -> Step {
    get(&format!("poddisruptionbudgets/{name}"))
        .shows(json!({ "status": { "disruptionsAllowed": allowed, "observedGeneration": 1 } }))
        .eventually()
        .into()
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a_pod_without_a_budget_is_evicted_with_its_grace",
            steps![
                post("pods", bound("p", 40)),
                runs("p", true),
                accepted("p"),
                get("pods/p").shows(json!({ "metadata": {
                    "deletionGracePeriodSeconds": 40
                }, "status": { "conditions": [{}, {
                    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                    "lastTransitionTime": "*" }] } })),
                // Again: accepted, and nothing changes but where the grace gets shorter.
                accepted("p"),
                terminating("p", 40),
                evict("p", json!({ "gracePeriodSeconds": 10 })),
                terminating("p", 10),
                evict("p", json!({ "gracePeriodSeconds": 20 })),
                terminating("p", 10),
                evict("p", json!({ "gracePeriodSeconds": 0 })),
                gone("p"),
            ],
        ),
        Case::new(
            "an_eviction_must_fit_its_url",
            steps![
                post("pods", bound("p", 40)),
                post(
                    "pods/p/eviction",
                    json!({
                        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "q" }
                    })
                )
                .refused(
                    400,
                    "BadRequest",
                    "name in URL does not match name in Eviction object",
                    Value::Null
                ),
                post(
                    "pods/p/eviction",
                    json!({
                        "apiVersion": "policy/v1", "kind": "Eviction",
                        "metadata": { "name": "p", "namespace": "other" }
                    })
                )
                .refused(
                    400,
                    "BadRequest",
                    "the namespace of the provided object does not match the namespace sent on \
                     the request",
                    Value::Null
                ),
                post(
                    "pods/p/eviction",
                    json!({
                        "apiVersion": "policy/v3", "kind": "Eviction", "metadata": { "name": "p" }
                    })
                )
                .refused(400, "BadRequest", "*", Value::Null),
                evict("p", json!({ "ignoreStoreReadErrorWithClusterBreakingPotential": true }))
                    .refused(422, "Invalid", "*", json!("*")),
                untouched("p"),
                // The older version, and neither version nor kind.
                post(
                    "pods/p/eviction?dryRun=All",
                    json!({
                        "apiVersion": "policy/v1beta1", "kind": "Eviction",
                        "metadata": { "name": "p" }
                    })
                ),
                post("pods/p/eviction?dryRun=All", json!({ "metadata": { "name": "p" } })),
                evict("q", Value::Null).refused(
                    404,
                    "NotFound",
                    "pods \"q\" not found",
                    of("pods", "q")
                ),
                get("pods/p/eviction").refused(
                    405,
                    "MethodNotAllowed",
                    "the server does not allow this method on the requested resource",
                    json!({})
                ),
            ],
        ),
        Case::new(
            "an_eviction_can_have_preconditions",
            steps![
                post("pods", bound("p", 40)).save("uid", "/metadata/uid"),
                runs("p", true),
                evict("p", json!({ "preconditions": { "uid": "other" } })).refused(
                    409,
                    "Conflict",
                    "Operation cannot be fulfilled on Pod \"p\": the UID in the precondition \
                     (other) does not match the UID in record ($uid). The object might have been \
                     deleted and then recreated",
                    of("Pod", "p")
                ),
                get("pods/p").save("rv", "/metadata/resourceVersion"),
                evict("p", json!({ "preconditions": { "resourceVersion": "1" } })).refused(
                    409,
                    "Conflict",
                    "Operation cannot be fulfilled on Pod \"p\": the ResourceVersion in the \
                     precondition (1) does not match the ResourceVersion in record ($rv). The \
                     object might have been modified",
                    of("Pod", "p")
                ),
                untouched("p"),
                evict(
                    "p",
                    json!({
                        "preconditions": { "uid": "$uid", "resourceVersion": "$rv" },
                        "gracePeriodSeconds": 7
                    })
                ),
                terminating("p", 7),
            ],
        ),
        Case::new(
            "a_dry_eviction_changes_nothing",
            steps![
                post("pods", bound("p", 40)),
                runs("p", true),
                budget("b", json!({ "minAvailable": 0, "selector": selects("p") })),
                allows("b", 1),
                evict("p", json!({ "dryRun": ["All"] })),
                post("pods/p/eviction?dryRun=All", json!({ "metadata": { "name": "p" } })),
                post(
                    "pods/p/eviction?dryRun=All",
                    json!({ "metadata": { "name": "p" }, "deleteOptions": { "dryRun": ["All"] } })
                ),
                untouched("p"),
                get("poddisruptionbudgets/b")
                    .shows(json!({ "status": { "disruptionsAllowed": 1, "disruptedPods": null } })),
            ],
        ),
        Case::new(
            "a_budget_grants_one_and_refuses_the_next",
            steps![
                post(
                    "pods",
                    json!({
                        "metadata": { "name": "p", "labels": { "app": "x" } },
                        "spec": {
                            "nodeName": "$ns-node",
                            "containers": [{ "name": "main", "image": "none" }]
                        }
                    })
                ),
                post(
                    "pods",
                    json!({
                        "metadata": { "name": "q", "labels": { "app": "x" } },
                        "spec": {
                            "nodeName": "$ns-node",
                            "containers": [{ "name": "main", "image": "none" }]
                        }
                    })
                ),
                runs("p", true),
                runs("q", true),
                budget("b", json!({ "minAvailable": 1, "selector": selects("x") })),
                allows("b", 1),
                accepted("p"),
                blocked("q", "The disruption budget b needs 1 healthy pods and has 1 currently")
                    .eventually(),
                untouched("q"),
                // What is on its way may be asked again, and what is granted by nobody stays
                // granted by nobody.
                accepted("p"),
                get("poddisruptionbudgets/b")
                    .shows(json!({ "status": {
                        "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1,
                        "expectedPods": 2, "disruptedPods": null,
                        "conditions": [{
                            "type": "DisruptionAllowed", "status": "False",
                            "reason": "InsufficientPods"
                        }] } }))
                    .eventually(),
                delete("poddisruptionbudgets/b"),
                accepted("q"),
            ],
        ),
        Case::new(
            "pods_that_serve_nobody_ask_no_budget",
            steps![
                budget("b", json!({ "maxUnavailable": 0, "selector": {} })),
                post("pods", bound("pending", 40)),
                accepted("pending"),
                terminating("pending", 40),
                post("pods", bound("succeeded", 40)),
                status("succeeded", "Succeeded", false),
                accepted("succeeded"),
                gone("succeeded"),
                post("pods", bound("failed", 40)),
                status("failed", "Failed", false),
                accepted("failed"),
                gone("failed"),
                post("pods", bound("leaving", 40)),
                runs("leaving", true),
                delete("pods/leaving"),
                accepted("leaving"),
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
                accepted("unscheduled"),
                gone("unscheduled"),
            ],
        ),
        Case::new(
            "two_budgets_are_an_error_without_a_reason",
            steps![
                post("pods", bound("p", 40)),
                runs("p", true),
                budget("a", json!({ "minAvailable": 0, "selector": selects("p") })),
                budget("b", json!({ "minAvailable": 0, "selector": {} })),
                allows("a", 1),
                evict("p", Value::Null).refused(
                    500,
                    "",
                    "This pod has more than one PodDisruptionBudget, which the eviction \
                     subresource does not support.",
                    Value::Null
                ),
                untouched("p"),
                delete("poddisruptionbudgets/a"),
                accepted("p").eventually(),
            ],
        ),
        Case::new(
            "selectors_decide_whose_budget_it_is",
            steps![
                post("pods", bound("p", 40)),
                runs("p", true),
                budget("other", json!({ "maxUnavailable": 0, "selector": selects("other") })),
                budget("none", json!({ "maxUnavailable": 0 })),
                evict("p", json!({ "dryRun": ["All"] })),
                budget("all", json!({ "minAvailable": 1, "selector": {} })),
                blocked("p", "The disruption budget all needs 1 healthy pods and has 1 currently")
                    .eventually(),
                delete("poddisruptionbudgets/all"),
                budget(
                    "some",
                    json!({
                        "minAvailable": 1,
                        "selector": {
                            "matchExpressions": [
                                { "key": "app", "operator": "In", "values": ["p"] },
                                { "key": "none", "operator": "DoesNotExist" }
                            ]
                        }
                    })
                ),
                blocked("p", "The disruption budget some needs 1 healthy pods and has 1 currently")
                    .eventually(),
            ],
        ),
        Case::new(
            "an_eviction_in_a_namespace_that_is_going_is_forbidden",
            steps![
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
                delete("namespaces/$ns"),
                evict("p", Value::Null).refused(
                    403,
                    "Forbidden",
                    "pods \"p\" is forbidden: unable to create new content in namespace $ns \
                     because it is being terminated",
                    json!({
                        "name": "p", "kind": "pods",
                        "causes": [{
                            "reason": "NamespaceTerminating",
                            "message": "namespace $ns is being terminated",
                            "field": "metadata.namespace"
                        }]
                    })
                ),
                merge("pods/p", json!({ "metadata": { "finalizers": null } })),
            ],
        ),
        Case::new(
            "a_finalizer_keeps_an_evicted_pod",
            steps![
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
                evict("p", json!({ "gracePeriodSeconds": 0 })),
                terminating("p", 0),
                accepted("p"),
                merge("pods/p", json!({ "metadata": { "finalizers": null } })),
                gone("p"),
            ],
        ),
    ]
}
