//! The arithmetic of the disruption controller, beside pods whose status the case writes itself
//! (kubernetes: pkg/controller/disruption).

use serde_json::{Value, json};

use super::{
    deletion::{bound, runs, status},
    evictions::{budget, evict},
};
use crate::{
    script::{Case, Step, delete, get, merge, post},
    steps,
};

/// A workload of pods that fit on no node.
fn workload(plural: &str, name: &str, replicas: u64) -> Step {
    let mut spec = json!({
        "replicas": replicas, "selector": { "matchLabels": { "app": name } },
        "template": {
            "metadata": { "labels": { "app": name, "all": "yes" } },
            "spec": {
                "nodeSelector": { "nowhere": "yes" },
                "containers": [{ "name": "main", "image": "none" }]
            },
        },
    });
    if plural == "statefulsets" {
        spec["podManagementPolicy"] = "Parallel".into();
        spec["serviceName"] = name.into();
    }
    post(plural, json!({ "metadata": { "name": name }, "spec": spec })).into()
}

/// All of its pods are there.
fn there(app: &str, names: &[&'static str]) -> Step {
    let items: Vec<Value> = names.iter().map(|_| json!({})).collect();
    let mut list = get(&format!("pods?labelSelector=app%3D{app}"))
        .shows(json!({ "items": items }))
        .eventually();
    for (n, name) in names.iter().enumerate() {
        list = list.save(name, POINTERS[n]);
    }
    list.into()
}

const POINTERS: [&str; 4] = [
    "/items/0/metadata/name",
    "/items/1/metadata/name",
    "/items/2/metadata/name",
    "/items/3/metadata/name",
];

/// Expected, desired, healthy, allowed.
fn comes_to(name: &str, [expected, desired, healthy, allowed]: [u64; 4]) -> Step {
    let (word, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    get(&format!("poddisruptionbudgets/{name}"))
        .shows(json!({ "status": {
            "expectedPods": expected, "desiredHealthy": desired, "currentHealthy": healthy,
            "disruptionsAllowed": allowed,
            "conditions": [{ "type": "DisruptionAllowed", "status": word, "reason": reason }],
        } }))
        .eventually()
        .into()
}

/// Budgets over the same pods: bound, value, what it comes to.
fn table(selector: &Value, rows: &[(&str, Value, [u64; 4])]) -> Vec<Step> {
    let row = |(n, (bound, value, sums)): (usize, &(&str, Value, [u64; 4]))| {
        let name = format!("b{n}");
        [budget(&name, json!({ (*bound): value, "selector": selector })), comes_to(&name, *sums)]
    };
    rows.iter().enumerate().flat_map(row).collect()
}

fn failed(name: &str, message: &str) -> Step {
    get(&format!("poddisruptionbudgets/{name}"))
        .shows(json!({
            "status": {
                "disruptionsAllowed": 0,
                "conditions": [{
                    "type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed",
                    "message": message
                }]
            }
        }))
        .eventually()
        .into()
}

fn owned_by(name: &str, api_version: &str, kind: &str, owner: &str, uid: &str) -> Step {
    let mut pod = bound(name, 30);
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": api_version, "kind": kind, "name": owner, "uid": uid, "controller": true
    }]);
    post("pods", pod).into()
}

pub fn cases() -> Vec<Case> {
    let (min, max) = ("minAvailable", "maxUnavailable");
    let one_selector = json!({ "matchLabels": { "all": "yes" } });
    vec![
        Case::new(
            "a_budget_of_a_workload_counts_what_its_controller_wants",
            [
                // Seven are wanted, five are ready.
                steps![
                    workload("statefulsets", "web", 7),
                    get("pods/web-6").eventually(),
                    get("pods?labelSelector=app%3Dweb")
                        .shows(json!({ "items": [{}, {}, {}, {}, {}, {}, {}] }))
                        .eventually()
                ],
                (0..7).map(|n| runs(&format!("web-{n}"), n < 5)).collect(),
                table(
                    &one_selector,
                    &[
                        (min, json!(3), [7, 3, 5, 2]),
                        (min, json!(5), [7, 5, 5, 0]),
                        (min, json!(9), [7, 9, 5, 0]),
                        (min, json!(0), [7, 0, 5, 5]),
                        (min, json!("50%"), [7, 4, 5, 1]),
                        (min, json!("57%"), [7, 4, 5, 1]),
                        (min, json!("58%"), [7, 5, 5, 0]),
                        (min, json!("0%"), [7, 0, 5, 5]),
                        (min, json!("100%"), [7, 7, 5, 0]),
                        (max, json!(0), [7, 7, 5, 0]),
                        (max, json!(2), [7, 5, 5, 0]),
                        (max, json!(3), [7, 4, 5, 1]),
                        (max, json!(10), [7, 0, 5, 5]),
                        (max, json!("1%"), [7, 6, 5, 0]),
                        (max, json!("30%"), [7, 4, 5, 1]),
                        (max, json!("100%"), [7, 0, 5, 5]),
                    ],
                ),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        Case::new(
            "a_budget_follows_its_pods_and_their_controller",
            steps![
                workload("deployments", "web", 4),
                there("web", &["p0", "p1", "p2", "p3"]),
                budget(
                    "b",
                    json!({ "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } })
                ),
                comes_to("b", [4, 3, 0, 0]),
                runs("$p0", true),
                runs("$p1", true),
                runs("$p2", true),
                comes_to("b", [4, 3, 3, 0]),
                runs("$p3", true),
                comes_to("b", [4, 3, 4, 1]),
                runs("$p3", false),
                comes_to("b", [4, 3, 3, 0]),
                merge("poddisruptionbudgets/b", json!({ "spec": { "maxUnavailable": 2 } }))
                    .shows(json!({ "metadata": { "generation": 2 } })),
                comes_to("b", [4, 2, 3, 1]),
                get("poddisruptionbudgets/b")
                    .shows(json!({ "status": { "observedGeneration": 2 } })),
                merge(
                    "poddisruptionbudgets/b",
                    json!({ "spec": { "selector": { "matchLabels": { "app": "nobody" } } } })
                ),
                comes_to("b", [0, 0, 0, 0]),
            ],
        ),
        Case::new(
            "a_budget_over_two_controllers_adds_them_up",
            steps![
                workload("deployments", "web", 2),
                workload("replicasets", "api", 3),
                there("web", &["w0", "w1"]),
                there("api", &["a0", "a1", "a2"]),
                runs("$w0", true),
                runs("$w1", true),
                runs("$a0", true),
                budget("b", json!({ "minAvailable": "50%", "selector": one_selector })),
                comes_to("b", [5, 3, 3, 0]),
                budget("c", json!({ "maxUnavailable": "50%", "selector": one_selector })),
                comes_to("c", [5, 2, 3, 1]),
            ],
        ),
        Case::new(
            "pods_without_a_controller_count_for_a_plain_number_alone",
            [
                steps![post("pods", bound("p", 30)), runs("p", true)],
                table(
                    &json!({ "matchLabels": { "app": "p" } }),
                    &[
                        (min, json!(1), [1, 1, 1, 0]),
                        (min, json!(0), [1, 0, 1, 1]),
                        (min, json!("50%"), [0, 0, 1, 0]),
                        (max, json!(1), [0, 0, 1, 0]),
                        (max, json!("100%"), [0, 0, 1, 0]),
                    ],
                ),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        Case::new(
            "a_budget_without_pods_allows_nothing",
            table(
                &json!({ "matchLabels": { "app": "nobody" } }),
                &[
                    (min, json!(0), [0, 0, 0, 0]),
                    (max, json!(1), [0, 0, 0, 0]),
                    (min, json!(1), [0, 1, 0, 0]),
                ],
            ),
        ),
        Case::new(
            "pods_that_are_finished_or_going_are_not_healthy",
            steps![
                post("pods", bound("done", 30)),
                status("done", "Succeeded", false),
                post("pods", bound("going", 30)),
                runs("going", true),
                delete("pods/going"),
                post("pods", bound("pending", 30)),
                post("pods", bound("fine", 30)),
                runs("fine", true),
                budget(
                    "b",
                    json!({
                        "minAvailable": 0,
                        "selector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] }
                    })
                ),
                comes_to("b", [4, 0, 1, 1]),
            ],
        ),
        Case::new(
            "a_pod_whose_controller_cannot_be_scaled_fails_the_budget",
            steps![
                post(
                    "jobs",
                    json!({
                        "metadata": { "name": "j" },
                        "spec": {
                            "suspend": true,
                            "template": {
                                "metadata": { "labels": { "app": "j" } },
                                "spec": {
                                    "restartPolicy": "Never",
                                    "containers": [{ "name": "main", "image": "none" }]
                                }
                            }
                        }
                    })
                )
                .save("job", "/metadata/uid"),
                owned_by(
                    "of-job",
                    "example.com/v1",
                    "Thing",
                    "t",
                    "11111111-1111-1111-1111-111111111111"
                ),
                runs("of-job", true),
                budget(
                    "unknown",
                    json!({
                        "maxUnavailable": 1, "selector": { "matchLabels": { "app": "of-job" } }
                    })
                ),
                failed("unknown", "*"),
                // A plain number asks no controller.
                budget(
                    "number",
                    json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "of-job" } } })
                ),
                comes_to("number", [1, 1, 1, 0]),
            ],
        ),
        Case::new(
            "a_pod_that_is_granted_and_not_gone_counts_for_two_minutes",
            steps![
                workload("statefulsets", "web", 3),
                get("pods?labelSelector=app%3Dweb")
                    .shows(json!({ "items": [{}, {}, {}] }))
                    .eventually(),
                runs("web-0", true),
                runs("web-1", true),
                runs("web-2", true),
                budget(
                    "b",
                    json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } })
                ),
                comes_to("b", [3, 1, 3, 2]),
                merge(
                    "poddisruptionbudgets/b/status",
                    json!({
                        "status": {
                            "disruptedPods": {
                                "web-0": "$now", "web-1": "2026-01-01T00:00:00Z", "nobody": "$now"
                            }
                        }
                    })
                ),
                comes_to("b", [3, 1, 2, 1]),
                get("poddisruptionbudgets/b")
                    .shows(json!({
                        "status": {
                            "disruptedPods": { "web-0": "$now", "web-1": null, "nobody": null }
                        }
                    }))
                    .eventually(),
                // Evicted and gone at once, for it is on no node; its successor is not ready.
                evict("web-2", Value::Null),
                comes_to("b", [3, 1, 1, 0]),
                get("poddisruptionbudgets/b")
                    .shows(json!({ "status": { "disruptedPods": { "web-0": "$now" } } })),
            ],
        ),
    ]
}
