//! Evictions by the status of a budget, which the case writes itself while no controller is
//! there (the table of eviction_test.go).

use serde_json::{Value, json};

use super::{
    deletion::{bound, runs},
    evictions::{VIOLATES, accepted, blocked, budget, evict, terminating, untouched},
};
use crate::{
    script::{Ask, Case, Step, get, merge},
    steps,
};

/// A pod `p`, ready or not, and a budget `b` for it of this policy and status, up to date unless
/// the status differs.
fn given(ready: bool, policy: Option<&str>, status: Value) -> Vec<Step> {
    let mut spec = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "p" } } });
    if let Some(policy) = policy {
        spec["unhealthyPodEvictionPolicy"] = policy.into();
    }
    let mut whole = json!({
        "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0,
        "expectedPods": 0
    });
    for (key, value) in status.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let status = merge("poddisruptionbudgets/b/status", json!({ "status": whole }));
    steps![crate::script::post("pods", bound("p", 40)), runs("p", ready), budget("b", spec), status]
}

fn case(name: &'static str, given: Vec<Step>, then: Vec<Step>) -> Case {
    Case::new(name, given.into_iter().chain(then).collect()).without_controllers()
}

fn condition(reason: &str, message: &str) -> Value {
    json!([{
        "type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"
    }])
}

fn unprocessed(pod: &str) -> Ask {
    evict(pod, Value::Null)
        .refused(
            429,
            "TooManyRequests",
            VIOLATES,
            json!({
                "causes": [{
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget b is still being processed by the server."
                }],
                "retryAfterSeconds": 10
            }),
        )
        .retry_after("10")
}

fn allowed(expected: Value) -> Step {
    get("poddisruptionbudgets/b").shows(json!({ "status": expected })).into()
}

pub fn cases() -> Vec<Case> {
    vec![
        case(
            "a_budget_that_allows_none_says_what_it_needs",
            given(true, None, json!({ "currentHealthy": 2, "desiredHealthy": 2 })),
            steps![
                blocked("p", "The disruption budget b needs 2 healthy pods and has 2 currently"),
                untouched("p")
            ],
        ),
        case(
            "a_budget_of_nothing_needs_nothing_and_allows_none",
            given(true, None, json!({})),
            steps![
                blocked("p", "The disruption budget b needs 0 healthy pods and has 0 currently"),
                untouched("p")
            ],
        ),
        case(
            "a_budget_without_a_reason_does_not_allow_it_currently",
            given(true, None, json!({ "currentHealthy": 4, "desiredHealthy": 3 })),
            steps![blocked("p", "The disruption budget b does not allow evicting pods currently")],
        ),
        case(
            "a_budget_says_its_conditions_reason_and_message",
            given(
                true,
                None,
                json!({
                    "currentHealthy": 4, "desiredHealthy": 3,
                    "conditions": condition("Because",
                    "so it is") }),
            ),
            steps![blocked(
                "p",
                "The disruption budget b does not allow evicting pods currently (Because): so it \
                 is"
            )],
        ),
        case(
            "a_budget_that_failed_to_sync_says_so_first",
            given(true, None, json!({ "conditions": condition("SyncFailed", "no controllers") })),
            steps![blocked(
                "p",
                "The disruption budget b does not allow evicting pods currently because it failed \
                 sync: no controllers"
            )],
        ),
        case(
            "a_budget_that_is_behind_its_spec_is_still_processed",
            given(
                true,
                None,
                json!({
                    "observedGeneration": 0, "disruptionsAllowed": 5, "currentHealthy": 6,
                    "desiredHealthy": 1
                }),
            ),
            steps![unprocessed("p"), untouched("p")],
        ),
        case(
            "a_budget_changed_since_is_still_processed",
            given(
                true,
                None,
                json!({ "disruptionsAllowed": 5, "currentHealthy": 6, "desiredHealthy": 1 }),
            ),
            steps![
                merge("poddisruptionbudgets/b", json!({ "spec": { "minAvailable": 2 } }))
                    .shows(json!({ "metadata": { "generation": 2 } })),
                unprocessed("p"),
                untouched("p")
            ],
        ),
        case(
            "the_last_one_that_is_granted_turns_the_condition",
            given(
                true,
                None,
                json!({
                    "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2,
                    "expectedPods": 3,
                "conditions": [{
                    "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"
                }] }),
            ),
            steps![
                accepted("p"),
                allowed(json!({
                        "disruptionsAllowed": 0, "currentHealthy": 3, "disruptedPods": { "p": "*" },
                    "conditions": [{
                        "type": "DisruptionAllowed", "status": "False",
                        "reason": "InsufficientPods", "lastTransitionTime": "!2026-01-01T00:00:00Z"
                    }] })),
                terminating("p", 40),
            ],
        ),
        case(
            "one_of_several_that_is_granted_leaves_the_condition",
            given(
                true,
                None,
                json!({
                    "disruptionsAllowed": 3, "currentHealthy": 5, "desiredHealthy": 2,
                    "expectedPods": 5,
                "conditions": [{
                    "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"
                }] }),
            ),
            steps![
                accepted("p"),
                allowed(json!({ "disruptionsAllowed": 2, "disruptedPods": { "p": "*" },
                    "conditions": [{
                        "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"
                    }] })),
            ],
        ),
        case(
            "a_pod_that_is_not_ready_goes_when_the_budget_is_met",
            given(false, None, json!({ "currentHealthy": 2, "desiredHealthy": 2 })),
            steps![
                accepted("p"),
                allowed(json!({ "disruptionsAllowed": 0, "disruptedPods": null })),
                terminating("p", 40)
            ],
        ),
        case(
            "a_pod_that_is_not_ready_goes_although_the_budget_is_behind",
            given(
                false,
                Some("IfHealthyBudget"),
                json!({ "observedGeneration": 0, "currentHealthy": 2, "desiredHealthy": 2 }),
            ),
            steps![accepted("p")],
        ),
        case(
            "a_pod_that_is_not_ready_stays_when_the_budget_is_not_met",
            given(false, None, json!({ "currentHealthy": 1, "desiredHealthy": 2 })),
            steps![
                blocked("p", "The disruption budget b needs 2 healthy pods and has 1 currently"),
                untouched("p")
            ],
        ),
        case(
            "a_pod_that_is_not_ready_stays_when_the_budget_wants_nothing",
            given(false, Some("IfHealthyBudget"), json!({})),
            steps![blocked(
                "p",
                "The disruption budget b needs 0 healthy pods and has 0 currently"
            )],
        ),
        case(
            "a_pod_that_is_not_ready_always_goes_where_the_policy_says_so",
            given(false, Some("AlwaysAllow"), json!({ "currentHealthy": 0, "desiredHealthy": 2 })),
            steps![
                accepted("p"),
                allowed(json!({ "disruptionsAllowed": 0, "disruptedPods": null })),
                terminating("p", 40)
            ],
        ),
        case(
            "a_ready_pod_asks_the_budget_whatever_the_policy_says",
            given(true, Some("AlwaysAllow"), json!({ "currentHealthy": 2, "desiredHealthy": 2 })),
            steps![blocked(
                "p",
                "The disruption budget b needs 2 healthy pods and has 2 currently"
            )],
        ),
        case(
            "a_grant_is_spent_although_the_precondition_fails",
            given(
                true,
                None,
                json!({ "disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1 }),
            ),
            steps![
                evict("p", json!({ "preconditions": { "uid": "other" } }))
                    .gives(409, json!({ "reason": "Conflict", "message": "*", "details": "*" })),
                allowed(json!({ "disruptionsAllowed": 1, "disruptedPods": { "p": "*" } })),
                untouched("p"),
            ],
        ),
        case(
            "a_dry_eviction_of_a_blocked_pod_is_refused_too",
            given(true, None, json!({ "currentHealthy": 2, "desiredHealthy": 2 })),
            steps![
                evict("p", json!({ "dryRun": ["All"] })).refused(
                    429,
                    "TooManyRequests",
                    VIOLATES,
                    json!({
                        "causes": [{
                            "reason": "DisruptionBudget",
                            "message": "The disruption budget b needs 2 healthy pods and has 2 \
                                currently"
                        }]
                    })
                ),
                untouched("p"),
            ],
        ),
        case(
            "too_many_that_are_not_confirmed_are_forbidden",
            given(
                true,
                None,
                json!({ "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
                    "disruptedPods": (0..2001).map(|n| (
                        format!("x{n}"), Value::from("2026-01-01T00:00:00Z")
                    )).collect::<serde_json::Map<_, _>>() }),
            ),
            steps![evict("p", Value::Null).refused(
                403,
                "Forbidden",
                "poddisruptionbudget.policy \"b\" is forbidden: DisruptedPods map too big - too \
                 many evictions not confirmed by PDB controller",
                json!({
                    "name": "b", "group": "policy", "kind": "poddisruptionbudget",
                    "causes": [{
                        "reason": "DisruptionBudget",
                        "message": "The disruption budget b does not allow evicting pods \
                            currently: too many pending evictions not confirmed by PDB controller"
                    }]
                })
            )],
        ),
    ]
}
