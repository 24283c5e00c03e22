//! Objects as tables and as metadata alone.

use serde_json::json;

use super::objects::config;
use crate::{
    script::{Case, events, get, merge, open_as, post},
    steps,
};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

pub fn cases() -> Vec<Case> {
    let columns = |names: &[&str]| names.iter().map(|n| json!({ "name": n })).collect::<Vec<_>>();
    vec![
        Case::new(
            "objects_are_shown_as_tables",
            steps![
                post(
                    "leases",
                    json!({ "metadata": { "name": "a" }, "spec": { "holderIdentity": "me" } })
                ),
                get("leases").header("accept", TABLE).shows(json!({
                    "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                    "metadata": { "resourceVersion": "*" },
                    "columnDefinitions": columns(&["Name", "Holder", "Age"]),
                    "rows": [{
                        "cells": ["a", "me", "*"],
                        "object": {
                            "kind": "PartialObjectMetadata",
                            "metadata": { "name": "a", "namespace": "$ns" }
                        }
                    }],
                })),
                get("leases/a?includeObject=Object").header("accept", TABLE).shows(json!({
                    "kind": "Table", "rows": [{
                        "cells": ["a", "me", "*"],
                        "object": { "kind": "Lease", "spec": { "holderIdentity": "me" } }
                    }],
                })),
                get("leases/a?includeObject=None")
                    .header("accept", TABLE)
                    .shows(json!({ "rows": [{ "cells": ["a", "me", "*"], "object": null }] })),
            ],
        ),
        Case::new(
            "the_table_of_a_budget_is_what_kubectl_prints",
            steps![
                post(
                    "poddisruptionbudgets",
                    json!({
                        "metadata": { "name": "b" },
                        "spec": { "minAvailable": "50%", "selector": {} }
                    })
                ),
                get("poddisruptionbudgets/b").header("accept", TABLE).shows(json!({
                    "columnDefinitions": columns(&[
                        "Name", "Min Available", "Max Unavailable",
                        "Allowed Disruptions", "Age"]),
                    "rows": [{ "cells": ["b", "50%", "N/A", 0, "*"] }],
                })),
            ],
        ),
        Case::new(
            "objects_are_shown_as_metadata_alone",
            steps![
                post("configmaps", config("a", "1")).save("rv", "/metadata/resourceVersion"),
                get("configmaps/a").header("accept", METADATA).shows(json!({
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": { "name": "a", "resourceVersion": "$rv" }, "data": null
                })),
                get("configmaps?fieldSelector=metadata.name%3Da")
                    .header("accept", METADATA_LIST)
                    .shows(json!({
                        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                        "metadata": { "resourceVersion": "*" },
                        "items": [{
                            "metadata": { "name": "a", "resourceVersion": "$rv" }, "data": null
                        }],
                    })),
                open_as(
                    "w",
                    "configmaps?watch=true&fieldSelector=metadata.name%3Da&resourceVersion=$rv",
                    METADATA
                ),
                merge(
                    "configmaps/a",
                    json!({ "metadata": { "labels": { "x": "y" } }, "data": { "k": "2" } })
                ),
                events(
                    "w",
                    json!([{
                        "type": "MODIFIED",
                        "object": {
                            "kind": "PartialObjectMetadata",
                            "metadata": { "name": "a", "labels": { "x": "y" } }, "data": null
                        }
                    }])
                ),
            ],
        ),
    ]
}
