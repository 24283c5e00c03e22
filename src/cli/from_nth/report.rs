//! Prints the result.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{
    always,
    ours::{Explained, Ours},
};

/// The state of the project, for readers who decide whether to migrate. README and
/// `docs/from-nth.md` have the same facts.
const STATUS: &str = concat!(
    "Sundown ",
    env!("CARGO_PKG_VERSION"),
    ", before its first release:
- No image is published yet: you build it (docs/install.md).
- It has not run against real AWS yet, only against embedded servers for SQS, EC2 and Auto Scaling.
- It ignores rebalance recommendations, on which NTH acts, unless you set `--on rebalance=drain`.
- It drains for AWS Health events an hour before they begin. NTH drains at once.
So begin with a trial, which drains nothing and answers no hook (docs/from-nth.md).
"
);

/// The whole result for people. The first line has the most important fact about these settings,
/// and the state of the project follows.
pub(super) fn text(ours: &Ours) -> String {
    let mut out = if ours.imds_mode { IMDS.to_owned() } else { queue_mode(ours) };
    write!(out, "\n{STATUS}").ok();
    out += "\n# Values for deploy/helm/sundown (`-o values` prints these alone)\n\n";
    out += &yaml(&ours.values);
    list(&mut out, "To do", ours.to_do.iter().cloned());
    let line = |s: &Explained| format!("{}: {}", s.setting, s.why);
    list(&mut out, "Has no counterpart", ours.missing.iter().map(line));
    list(&mut out, "Behaves differently, because of what was set", ours.changes.iter().map(line));
    list(
        &mut out,
        "Behaves differently in any case",
        always::BEHAVIOUR.iter().map(|(what, why)| format!("{what}: {why}")),
    );
    list(&mut out, "IAM", rights());
    list(&mut out, "Ignored", ours.ignored.iter().cloned());
    out
}

/// The first line: whether all settings can be carried over.
fn queue_mode(ours: &Ours) -> String {
    let missing: Vec<_> = ours
        .missing
        .iter()
        .map(|missing| missing.setting.split(": ").next().unwrap_or_default())
        .collect();
    match missing.len() {
        0 => "Queue mode: everything that is set can be carried over, or is not needed here.\n"
            .to_owned(),
        1 => format!(
            "Queue mode, but {} has no counterpart here: see below before you switch over.\n",
            missing.concat()
        ),
        _ => format!(
            "Queue mode, but these have no counterpart here: {}. See below before you switch \
             over.\n",
            missing.join(", ")
        ),
    }
}

const IMDS: &str = "IMDS mode: this NTH runs as a DaemonSet that asks each instance's own metadata. Sundown has no such mode: it reads a queue.
First make the queue, its rules and the lifecycle hooks (terraform/, or docs/install.md); then what is below applies.
";

fn list(out: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        writeln!(out, "\n# {heading}\n").ok();
        for line in lines {
            writeln!(out, "- {line}").ok();
        }
    }
}

/// The differences between NTH's IAM policy and ours.
fn rights() -> impl Iterator<Item = String> {
    let word = |r: &always::Right| match (r.theirs, r.ours) {
        (false, true) => "add   ",
        (true, false) => "drop  ",
        _ => "keep  ",
    };
    let lines = always::RIGHTS.iter().map(move |r| {
        let why = if r.why.is_empty() { String::new() } else { format!(": {}", r.why) };
        format!("{}{}{why}", word(r), r.action)
    });
    lines.chain([
        "the queue's actions on the queue alone, the hook's on groups that carry \
         kubernetes.io/cluster/NAME (NTH: on every resource)"
            .to_owned(),
        "kms:Decrypt on the key of an encrypted queue, as for NTH".to_owned(),
    ])
}

/// The state of the project as JSON.
fn status() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "imagePublished": false,
        "runAgainstAws": false,
        "notActedOnYet": [],
    })
}

/// The whole result as JSON.
pub(super) fn json(ours: &Ours) -> Value {
    let rights = always::RIGHTS
        .iter()
        .map(|r| json!({ "action": r.action, "nth": r.theirs, "sundown": r.ours, "why": r.why }));
    let behaviour =
        always::BEHAVIOUR.iter().map(|(what, why)| json!({ "setting": what, "why": why }));
    let mut all = serde_json::to_value(ours).unwrap_or_default();
    if let Some(all) = all.as_object_mut() {
        all.insert("status".to_owned(), status());
        all.insert("iam".to_owned(), rights.collect());
        all.insert("always".to_owned(), behaviour.collect());
    }
    all
}

/// The values as flags of `sundown run`: those under `config`, the region and the metrics port.
pub(super) fn flags(ours: &Ours) -> String {
    let mut lines = Vec::new();
    let empty = Map::new();
    let config = ours.values.get("config").and_then(Value::as_object).unwrap_or(&empty);
    for (key, value) in config {
        match (key.as_str(), value) {
            ("queueUrls", Value::Array(urls)) => lines.extend(
                urls.iter().filter_map(Value::as_str).map(|url| format!("--queue-url={url}")),
            ),
            (_, Value::Bool(on)) => lines.extend(on.then(|| format!("--{}", kebab(key)))),
            (_, Value::String(text)) if text.is_empty() => {}
            (_, value) => lines.push(format!("--{}={}", kebab(key), super::read::plain(value))),
        }
    }
    if let Some(region) =
        ours.values.get("aws").and_then(|a| a.get("region")).and_then(Value::as_str)
    {
        lines.push(format!("--region={region}"));
    }
    if let Some(port) = ours.values.get("metrics").and_then(|metrics| metrics.get("port")) {
        lines.push(format!("--metrics-listen=0.0.0.0:{port}"));
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// `drainTimeout` → `drain-timeout`.
fn kebab(key: &str) -> String {
    let dashed = |c: char| {
        if c.is_ascii_uppercase() { format!("-{}", c.to_ascii_lowercase()) } else { c.to_string() }
    };
    key.chars().map(dashed).collect()
}

/// A mapping as YAML. Scalars are written as JSON, which is valid YAML.
pub(super) fn yaml(map: &Map<String, Value>) -> String {
    let mut out = String::new();
    for (key, value) in map {
        block(&mut out, 0, &format!("{}:", scalar_key(key)), value);
    }
    out
}

fn block(out: &mut String, depth: usize, head: &str, value: &Value) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            writeln!(out, "{indent}{head}").ok();
            for (key, value) in map {
                block(out, depth + 1, &format!("{}:", scalar_key(key)), value);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            writeln!(out, "{indent}{head}").ok();
            for item in list {
                // List items are written as JSON, which is valid YAML 1.2.
                writeln!(out, "{indent}  - {item}").ok();
            }
        }
        scalar => {
            writeln!(out, "{indent}{head} {scalar}").ok();
        }
    }
}

/// A key with a character that means something in YAML is quoted.
fn scalar_key(key: &str) -> String {
    let plain = !key.is_empty()
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b))
        && key.starts_with(|c: char| c.is_ascii_alphabetic());
    let word = matches!(
        key.to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n"
    );
    if plain && !word { key.to_owned() } else { Value::from(key).to_string() }
}
