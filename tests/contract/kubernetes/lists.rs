//! Lists: selectors, pages, versions.

use serde_json::{Value, json};

use super::objects::config;
use crate::{
    script::{Case, Step, delete, get, merge, post},
    steps,
};

fn labelled(name: &str, labels: Value) -> Step {
    post("configmaps", json!({ "metadata": { "name": name, "labels": labels } })).into()
}

fn named(selector: &str, names: &[&str]) -> Step {
    let items: Vec<Value> =
        names.iter().map(|name| json!({ "metadata": { "name": name } })).collect();
    get(&format!("configmaps?labelSelector={selector}"))
        .shows(json!({ "kind": "ConfigMapList", "items": items }))
        .into()
}

/// Real clusters put a ConfigMap of their own into every namespace.
const OURS: &str = "labelSelector=!kubernetes.io/description,ours";

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "labels_select",
            steps![
                labelled("a", json!({ "ours": "1", "tier": "web", "n": "5" })),
                labelled("b", json!({ "ours": "1", "tier": "db" })),
                labelled("c", json!({ "ours": "1" })),
                named("ours", &["a", "b", "c"]),
                named("ours,tier%3Dweb", &["a"]),
                named("ours,tier!%3Dweb", &["b", "c"]),
                named("ours,tier", &["a", "b"]),
                named("ours,!tier", &["c"]),
                named("tier%20in%20(web,db)", &["a", "b"]),
                named("ours,tier%20notin%20(web)", &["b", "c"]),
                named("n%3E4", &["a"]),
                named("n%3C4", &[]),
                named("ours,tier%3D", &[]),
                get("configmaps?labelSelector=a%3D%3D%3Db").refused(
                    400,
                    "BadRequest",
                    "*",
                    Value::Null
                ),
                get("configmaps?labelSelector=in%20()x").refused(
                    400,
                    "BadRequest",
                    "*",
                    Value::Null
                ),
            ],
        ),
        Case::new(
            "fields_select",
            steps![
                post(
                    "pods",
                    json!({
                        "metadata": { "name": "p" },
                        "spec": {
                            "nodeName": "$ns-none",
                            "containers": [{ "name": "main", "image": "none" }]
                        }
                    })
                ),
                post(
                    "pods",
                    json!({
                        "metadata": { "name": "q" },
                        "spec": {
                            "nodeSelector": { "nowhere": "yes" },
                            "containers": [{ "name": "main", "image": "none" }]
                        }
                    })
                ),
                get("pods?fieldSelector=spec.nodeName%3D$ns-none")
                    .shows(json!({ "items": [{ "metadata": { "name": "p" } }] })),
                get("pods?fieldSelector=spec.nodeName!%3D$ns-none")
                    .shows(json!({ "items": [{ "metadata": { "name": "q" } }] })),
                get("pods?fieldSelector=metadata.name%3Dq,status.phase%3DPending")
                    .shows(json!({ "items": [{ "metadata": { "name": "q" } }] })),
                get("pods?fieldSelector=status.phase%3DRunning").shows(json!({ "items": [] })),
                get("/api/v1/pods?fieldSelector=spec.nodeName%3D$ns-none").shows(
                    json!({ "items": [{ "metadata": { "name": "p", "namespace": "$ns" } }] })
                ),
                get("pods?fieldSelector=spec.hostname%3Dx").refused(
                    400,
                    "BadRequest",
                    "*",
                    Value::Null
                ),
                get("configmaps?fieldSelector=data%3Dx").refused(
                    400,
                    "BadRequest",
                    "*",
                    Value::Null
                ),
                // So Sundown lists all of them (src/cluster/volumes.rs).
                get("/apis/storage.k8s.io/v1/volumeattachments?fieldSelector=spec.nodeName%3Da")
                    .refused(400, "BadRequest", "*", Value::Null),
            ],
        ),
        Case::new(
            "a_volume_attachment_names_its_node_and_its_volume",
            steps![
                post(
                    "/apis/storage.k8s.io/v1/volumeattachments",
                    json!({
                        "metadata": { "name": "$ns-a" },
                        "spec": {
                            "attacher": "none.example.com", "nodeName": "$ns-none",
                            "source": { "persistentVolumeName": "$ns-pv" }
                        }
                    })
                ),
                get("/apis/storage.k8s.io/v1/volumeattachments/$ns-a").shows(json!({
                    "spec": {
                        "nodeName": "$ns-none", "source": { "persistentVolumeName": "$ns-pv" }
                    }
                })),
                delete("/apis/storage.k8s.io/v1/volumeattachments/$ns-a"),
            ],
        ),
        Case::new(
            "a_list_is_read_in_pages_as_it_was_at_the_first",
            steps![
                labelled("a", json!({ "ours": "1" })),
                labelled("b", json!({ "ours": "1" })),
                labelled("c", json!({ "ours": "1" })),
                get(&format!("configmaps?{OURS}&limit=2"))
                    .shows(json!({
                        "metadata": {
                            "continue": "*", "remainingItemCount": null, "resourceVersion": "*"
                        },
                        "items": [
                            { "metadata": { "name": "a" } }, { "metadata": { "name": "b" } }
                        ]
                    }))
                    .save("continue", "/metadata/continue")
                    .save("rv", "/metadata/resourceVersion"),
                labelled("d", json!({ "ours": "1" })),
                delete("configmaps/c"),
                get(&format!("configmaps?{OURS}&limit=2&continue=$continue")).shows(json!({
                    "metadata": { "continue": null, "resourceVersion": "$rv" },
                    "items": [{ "metadata": { "name": "c" } }]
                })),
                get(&format!("configmaps?{OURS}")).shows(json!({
                    "metadata": { "resourceVersion": "!$rv" },
                    "items": [
                        { "metadata": { "name": "a" } }, { "metadata": { "name": "b" } },
                        { "metadata": { "name": "d" } }
                    ]
                })),
                get("configmaps?limit=2&continue=nonsense").refused(
                    400,
                    "BadRequest",
                    "*",
                    Value::Null
                ),
            ],
        ),
        Case::new(
            "the_first_page_says_how_many_are_left",
            steps![
                post("leases", json!({ "metadata": { "name": "a" } })),
                post("leases", json!({ "metadata": { "name": "b" } })),
                post("leases", json!({ "metadata": { "name": "c" } })),
                get("leases?limit=1")
                    .shows(json!({
                        "metadata": { "continue": "*", "remainingItemCount": 2 },
                        "items": [{ "metadata": { "name": "a" } }]
                    }))
                    .save("continue", "/metadata/continue"),
                get("leases?limit=1&continue=$continue").shows(json!({
                    "metadata": { "continue": "*", "remainingItemCount": 1 },
                    "items": [{ "metadata": { "name": "b" } }]
                })),
                get("leases?limit=0").shows(json!({
                    "metadata": { "continue": null, "remainingItemCount": null },
                    "items": [{}, {}, {}]
                })),
                get("leases?limit=3").shows(json!({
                    "metadata": { "continue": null, "remainingItemCount": null },
                    "items": [{}, {}, {}]
                })),
            ],
        ),
        Case::new(
            "a_page_that_is_too_old_cannot_be_continued",
            steps![
                post("leases", json!({ "metadata": { "name": "a" } })),
                post("leases", json!({ "metadata": { "name": "b" } })),
                get("leases?limit=1").save("continue", "/metadata/continue"),
                merge("leases/a", json!({ "metadata": { "labels": { "x": "y" } } })),
                Step::Forget,
                get("leases?limit=1&continue=$continue").gives(
                    410,
                    json!({
                        "reason": "Expired",
                        // The real one offers a token for an inconsistent rest too, which the
                        // embedded one does not have.
                        "message": "The provided continue parameter is too old to display a \
                            consistent list result. You can start a new list without the continue \
                            parameter*",
                    })
                ),
                get("leases").shows(json!({ "items": [{}, {}] })),
            ],
        ),
        Case::new(
            "a_list_can_ask_for_a_version",
            steps![
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                get("configmaps?resourceVersion=0").shows(json!({ "kind": "ConfigMapList" })),
                get("configmaps?resourceVersion=$rv&resourceVersionMatch=NotOlderThan")
                    .shows(json!({ "kind": "ConfigMapList" })),
                get("configmaps?resourceVersionMatch=NotOlderThan").refused(
                    422,
                    "Invalid",
                    "*",
                    json!("*")
                ),
                get("configmaps?resourceVersion=0&resourceVersionMatch=Exact").refused(
                    422,
                    "Invalid",
                    "*",
                    json!("*")
                ),
                get("configmaps?resourceVersion=$rv&resourceVersionMatch=Sometimes").refused(
                    422,
                    "Invalid",
                    "*",
                    json!("*")
                ),
                get("configmaps?resourceVersion=x")
                    .gives(400, json!({ "reason": "BadRequest", "message": "*" })),
            ],
        ),
        Case::new(
            "a_list_cannot_ask_for_the_future",
            steps![get("configmaps?resourceVersion=999999999").gives(
                504,
                json!({
                        "reason": "Timeout",
                        "message": "Timeout: Too large resource version: 999999999, current: *",
                        "retryAfter": "1",
                    "details": { "retryAfterSeconds": 1, "causes": [{
                        "reason": "ResourceVersionTooLarge", "message":
                        "Too large resource version" }] } })
            ),],
        ),
        Case::new(
            "a_collection_is_deleted_by_selector",
            steps![
                labelled("a", json!({ "ours": "1" })),
                labelled("b", json!({ "ours": "1" })),
                labelled("c", json!({})),
                delete("configmaps?labelSelector=ours").shows(json!({
                    "kind": "ConfigMapList",
                    "items": [{ "metadata": { "name": "a" } }, { "metadata": { "name": "b" } }]
                })),
                named("ours", &[]),
                get("configmaps/c"),
            ],
        ),
    ]
}
