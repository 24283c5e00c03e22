//! Patches: merge, strategic merge, JSON patch. Server-side apply is taken as a merge.

use serde_json::{Map, Value};

use super::json::Look;

/// A patch by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchKind {
    Merge,
    Strategic,
    Json,
    Apply,
}

impl PatchKind {
    /// From the header `Content-Type`.
    pub(super) fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/json-patch+json" => Some(Self::Json),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// Why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unpatchable {
    /// It is no patch: 400.
    Malformed(String),
    /// It does not fit the object, or a test in it fails: 422.
    DoesNotFit,
}

/// Applies a patch in place.
pub(super) fn apply(kind: PatchKind, object: &mut Value, patch: &Value) -> Result<(), Unpatchable> {
    match kind {
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|e| Unpatchable::Malformed(e.to_string()))?;
            json_patch::patch(object, &patch).map_err(|_| Unpatchable::DoesNotFit)
        }
        _ if !patch.is_object() => Err(Unpatchable::Malformed("a patch must be an object".into())),
        PatchKind::Merge => {
            json_patch::merge(object, patch);
            Ok(())
        }
        PatchKind::Strategic | PatchKind::Apply => {
            strategic(object, patch);
            Ok(())
        }
    }
}

/// The key by which elements of a list are the same (`patchMergeKey`); `Some("")`: a list of plain
/// values, merged as a set. Lists not named here are replaced whole, as the API defines it for
/// taints and tolerations.
fn merge_key(field: &str, element: &Value) -> Option<&'static str> {
    Some(match field {
        "conditions" | "addresses" => "type",
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets" => "name",
        "ports" if element.get("containerPort").is_some() => "containerPort",
        "ports" if element.get("port").is_some() => "port",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "ownerReferences" => "uid",
        "topologySpreadConstraints" => "topologyKey",
        "hostAliases" => "ip",
        "finalizers" | "podCIDRs" => "",
        _ => return None,
    })
}

fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if changes.get("$patch").and_then(Value::as_str) == Some("replace") || !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (key, change) in changes {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(have)), Value::Array(gone)) = (fields.get_mut(list), change) {
                have.retain(|v| !gone.contains(v));
            }
        } else if key.starts_with('$') {
            // `$setElementOrder`, `$retainKeys`, `$patch`: order does not matter here, the rest was
            // seen to.
        } else if change.is_null() {
            fields.remove(key);
        } else if let Value::Array(elements) = change {
            let have = fields.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
            merge_list(key, have, elements);
        } else if change.get("$patch").and_then(Value::as_str) == Some("delete") {
            fields.remove(key);
        } else {
            strategic(fields.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

fn merge_list(field: &str, have: &mut Value, elements: &[Value]) {
    let replace = elements.iter().any(|e| e.text("$patch") == "replace");
    let key = elements.first().and_then(|e| merge_key(field, e));
    let (Some(key), Value::Array(list), false) = (key, &mut *have, replace) else {
        *have = Value::Array(
            elements.iter().filter(|e| e.get("$patch").is_none()).cloned().map(clean).collect(),
        );
        return;
    };
    let same =
        |a: &Value, b: &Value| if key.is_empty() { a == b } else { a.get(key) == b.get(key) };
    let before = list.clone();
    for element in elements {
        let position = list.iter().position(|v| same(v, element));
        match (position, element.text("$patch")) {
            (Some(i), "delete") => {
                list.remove(i);
            }
            (None, "delete") => {}
            (Some(i), _) => {
                if let Some(v) = list.get_mut(i) {
                    strategic(v, element);
                }
            }
            (None, _) => list.push(clean(element.clone())),
        }
    }
    *list = in_order(std::mem::take(list), &before, elements, same);
}

/// What the patch names in its order, merged with the rest in the order it had; what is new goes
/// before the rest (apimachinery: pkg/util/strategicpatch, `normalizeElementOrder`).
fn in_order(
    list: Vec<Value>,
    before: &[Value],
    elements: &[Value],
    same: impl Fn(&Value, &Value) -> bool,
) -> Vec<Value> {
    let place = |all: &[Value], v: &Value| all.iter().position(|other| same(other, v));
    let (mut named, rest): (Vec<Value>, Vec<Value>) =
        list.into_iter().partition(|v| place(elements, v).is_some());
    named.sort_by_key(|v| place(elements, v));
    let (mut named, mut rest, mut merged) =
        (named.into_iter().peekable(), rest.into_iter().peekable(), Vec::new());
    loop {
        let rest_first = match (rest.peek(), named.peek()) {
            (Some(r), Some(n)) => {
                place(before, r).zip(place(before, n)).is_some_and(|(r, n)| r < n)
            }
            (r, _) => r.is_some(),
        };
        let Some(next) = (if rest_first { rest.next() } else { named.next() }) else {
            return merged;
        };
        merged.push(next);
    }
}

/// Takes directives out of a value that is new as a whole.
fn clean(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|k, v| !k.starts_with('$') && !v.is_null());
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(kind: PatchKind, object: &Value, patch: &Value) -> Value {
        let mut object = object.clone();
        apply(kind, &mut object, patch).unwrap();
        object
    }

    #[test]
    fn a_strategic_patch_merges_lists_by_their_key_and_replaces_the_others() {
        let pod = json!({ "spec": { "containers": [
            { "name": "a", "image": "1" }, { "name": "b", "image": "1" }
        ],
            "tolerations": [{ "key": "x" }] }, "status": {
                "conditions": [{ "type": "Ready", "status": "True" }]
            } });
        let patch = json!({ "spec": { "containers": [
            { "name": "b", "image": "2" }, { "name": "a", "$patch": "delete" }
        ],
            "tolerations": [{ "key": "y" }] }, "status": {
                "conditions": [
                    { "type": "Ready", "status": "False" }, { "type": "New", "status": "True" }
                ]
            } });
        assert_eq!(
            patched(PatchKind::Strategic, &pod, &patch),
            json!({ "spec": {
                "containers": [{ "name": "b", "image": "2" }], "tolerations": [{ "key": "y" }]
            },
                "status": {
                    "conditions": [
                        { "type": "Ready", "status": "False" }, { "type": "New", "status": "True" }
                    ]
                } })
        );
    }

    #[test]
    fn directives_of_a_strategic_patch() {
        let object = json!({
            "metadata": { "finalizers": ["a", "b"] }, "spec": { "x": { "y": 1 }, "z": 1 }
        });
        let patch = json!({ "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"],
            "$setElementOrder/finalizers": ["b", "c"]
        },
            "spec": { "x": { "$patch": "replace", "w": 2 }, "z": null } });
        assert_eq!(
            patched(PatchKind::Strategic, &object, &patch),
            json!({ "metadata": { "finalizers": ["c", "b"] }, "spec": { "x": { "w": 2 } } })
        );
    }

    #[test]
    fn merge_and_json_patches() {
        let object = json!({ "a": { "b": 1, "c": 2 }, "l": [1] });
        assert_eq!(
            patched(PatchKind::Merge, &object, &json!({ "a": { "b": null }, "l": [2] })),
            json!({ "a": { "c": 2 }, "l": [2] })
        );
        assert_eq!(
            patched(
                PatchKind::Json,
                &object,
                &json!([{ "op": "add", "path": "/l/-", "value": 3 }])
            )
            .items("l")
            .len(),
            2
        );
        let mut o = object;
        assert!(matches!(
            apply(PatchKind::Json, &mut o, &json!([{ "op": "remove", "path": "/x" }])),
            Err(Unpatchable::DoesNotFit)
        ));
        assert!(matches!(
            apply(PatchKind::Merge, &mut o, &json!([])),
            Err(Unpatchable::Malformed(_))
        ));
    }
}
