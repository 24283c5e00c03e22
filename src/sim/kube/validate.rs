//! The part of validation that a drainer could trip over (kubernetes: pkg/apis/core/validation;
//! apimachinery: pkg/api/validation).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{failure::Failure, json::Look, kinds::Kind, request::Call};

/// All annotations of an object together, in bytes.
const ANNOTATIONS: usize = 256 * 1024;

/// Refuses an object that the real server would refuse.
pub(super) fn object(kind: &Kind, value: &Value) -> Result<(), Failure> {
    let name = value.text("metadata.name");
    let bad = |field: &str, why: &str| Err(Failure::invalid(kind, name, field, why));
    for (key, label) in value.at("metadata.labels").as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            return bad(
                "metadata.labels",
                &format!(
                    "Invalid value: {key:?}: name part must consist of alphanumeric characters, \
                     '-', '_' or '.'"
                ),
            );
        }
        if !label.as_str().is_some_and(is_label_value) {
            return bad(
                "metadata.labels",
                &format!(
                    "Invalid value: {label}: a valid label must be an empty string or consist of \
                     alphanumeric characters"
                ),
            );
        }
    }
    let mut size = 0;
    for (key, text) in value.at("metadata.annotations").as_object().into_iter().flatten() {
        let Some(text) = text.as_str() else {
            return Err(Failure::bad_request(format!(
                "json: cannot unmarshal {text} into Go struct field \
                 ObjectMeta.metadata.annotations of type string"
            )));
        };
        size += key.len() + text.len();
        if !is_qualified_name(&key.to_lowercase()) {
            return bad(
                "metadata.annotations",
                &format!(
                    "Invalid value: {key:?}: name part must consist of alphanumeric characters, \
                     '-', '_' or '.'"
                ),
            );
        }
    }
    if size > ANNOTATIONS {
        return bad("metadata.annotations", "Too long: may not be more than 262144 bytes");
    }
    if kind.plural != "events" && !is_name(name) {
        return bad(
            "metadata.name",
            &format!(
                "Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower \
                 case alphanumeric characters, '-' or '.', and must start and end with an \
                 alphanumeric character"
            ),
        );
    }
    match kind.plural.as_str() {
        "events" => event(kind, name, value),
        "nodes" => taints(kind, name, value),
        "leases" => lease(kind, name, value),
        "poddisruptionbudgets" => budget(kind, name, value),
        _ => Ok(()),
    }
}

pub(super) fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, n)| (Some(p), n));
    let prefix_is_good = prefix.is_none_or(|p| {
        !p.is_empty()
            && p.len() <= 253
            && p.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
    });
    prefix_is_good && !name.is_empty() && is_label_value(name)
}

pub(super) fn is_label_value(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && ends(text.chars().next())
        && ends(text.chars().next_back())
}

/// A name of an object: a lowercase RFC 1123 subdomain.
fn is_name(text: &str) -> bool {
    let label = |l: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !l.is_empty() && l.chars().all(inner) && !l.starts_with('-') && !l.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// An Event lives where its object does; one about an object without a namespace in `default`.
fn event(kind: &Kind, name: &str, event: &Value) -> Result<(), Failure> {
    let (own, of) = (event.text("metadata.namespace"), event.text("involvedObject.namespace"));
    if own == if of.is_empty() { "default" } else { of } {
        return Ok(());
    }
    Err(Failure::invalid(
        kind,
        name,
        "involvedObject.namespace",
        &format!("Invalid value: {of:?}: does not match event.namespace"),
    ))
}

/// There is one kind of dry run.
pub(super) fn dry_run(call: &Call) -> Result<(), Failure> {
    let options = match call.verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        "delete" | "deletecollection" => "DeleteOptions",
        _ => return Ok(()),
    };
    let Some(other) = call.query.all("dryRun").iter().find(|word| *word != "All") else {
        return Ok(());
    };
    let why = format!("Unsupported value: {other:?}: supported values: \"All\"");
    let causes = serde_json::json!([{
        "reason": "FieldValueNotSupported", "message": why, "field": "dryRun"
    }]);
    let details = serde_json::json!({ "group": "meta.k8s.io", "kind": options, "causes": causes });
    Err(Failure::new(
        422,
        "Invalid",
        format!("{options}.meta.k8s.io \"\" is invalid: dryRun: {why}"),
    )
    .with_details(details))
}

/// Checks that the version parameters of a list or a watch are consistent (apimachinery:
/// pkg/apis/meta/internalversion/validation).
pub(super) fn version_match(call: &Call) -> Result<(), Failure> {
    let query = &call.query;
    let (version, how, watch) =
        (query.get("resourceVersion"), query.get("resourceVersionMatch"), call.verb == "watch");
    let initial = query.get("sendInitialEvents");
    let refuse = |field: &str, reason: &str, why: &str| {
        let d = serde_json::json!({
            "group": "meta.k8s.io", "kind": "ListOptions",
            "causes": [{ "reason": reason, "message": why, "field": field }]
        });
        Err(Failure::new(
            422,
            "Invalid",
            format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: {why}"),
        )
        .with_details(d))
    };
    let forbid =
        |field: &str, why: &str| refuse(field, "FieldValueForbidden", &format!("Forbidden: {why}"));
    if watch {
        return match (initial, how) {
            ("", "") => Ok(()),
            ("", _) => forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            (_, "NotOlderThan") => Ok(()),
            _ => forbid(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
        };
    }
    match how {
        "" => Ok(()),
        _ if version.is_empty() => forbid(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        _ if !query.get("continue").is_empty() => forbid(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        "Exact" if version == "0" => forbid(
            "resourceVersionMatch",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        "Exact" | "NotOlderThan" => Ok(()),
        other => {
            let why = format!(
                "Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
            );
            refuse("resourceVersionMatch", "FieldValueNotSupported", &why)
        }
    }
}

fn taints(kind: &Kind, name: &str, node: &Value) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for (i, taint) in node.items("spec.taints").iter().enumerate() {
        let (key, effect) = (taint.text("key"), taint.text("effect"));
        if !is_qualified_name(key) {
            return Err(Failure::invalid(
                kind,
                name,
                &format!("metadata.taints[{i}].key"),
                &format!("Invalid value: {key:?}"),
            ));
        }
        if !is_label_value(taint.text("value")) {
            let why = format!("Invalid value: {:?}", taint.text("value"));
            return Err(Failure::invalid(kind, name, &format!("metadata.taints[{i}].value"), &why));
        }
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Err(Failure::invalid(
                kind,
                name,
                &format!("metadata.taints[{i}].effect"),
                &format!("Unsupported value: {effect:?}"),
            ));
        }
        if !seen.insert((key, effect)) {
            return Err(Failure::invalid(
                kind,
                name,
                &format!("metadata.taints[{i}]"),
                "Duplicate value: taints must be unique by key and effect pair",
            ));
        }
    }
    Ok(())
}

/// With six digits behind the second, no more and no less.
fn is_micro_time(text: &str) -> bool {
    let digits = text
        .split_once('.')
        .map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    digits == 6 && text.parse::<crate::domain::Moment>().is_ok()
}

fn lease(kind: &Kind, name: &str, lease: &Value) -> Result<(), Failure> {
    if lease.at("spec.leaseDurationSeconds").as_i64().is_some_and(|d| d <= 0) {
        return Err(Failure::invalid(
            kind,
            name,
            "spec.leaseDurationSeconds",
            "Invalid value: must be greater than 0",
        ));
    }
    for field in ["acquireTime", "renewTime"] {
        let value = lease.at("spec").at(field);
        let is_micro_time = value.as_str().is_some_and(is_micro_time);
        if !value.is_null() && !is_micro_time {
            return Err(Failure::bad_request(format!(
                "parsing time {value} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse"
            )));
        }
    }
    Ok(())
}

fn budget(kind: &Kind, name: &str, budget: &Value) -> Result<(), Failure> {
    let both =
        !budget.at("spec.minAvailable").is_null() && !budget.at("spec.maxUnavailable").is_null();
    if both {
        return Err(Failure::invalid(
            kind,
            name,
            "spec",
            "Invalid value: minAvailable and maxUnavailable cannot be both set",
        ));
    }
    Ok(())
}
