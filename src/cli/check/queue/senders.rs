//! Who may send to a queue, by its policy.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cli::check::finding::Finding;

/// The service principal that delivers EventBridge's events.
const EVENT_BRIDGE: &str = "events.amazonaws.com";
/// Who may send to a queue, by its policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cli::check) struct Senders {
    /// EventBridge may.
    pub(in crate::cli::check) event_bridge: bool,
    /// The rules from which it may send: names, or patterns with wildcards. Empty: any rule.
    pub(in crate::cli::check) rules: BTreeSet<String>,
    /// Whether a Deny keeps everybody else out.
    pub(in crate::cli::check) others: Others,
}

/// Whether a policy denies sqs:SendMessage to principals that are not AWS services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(in crate::cli::check) enum Others {
    /// No statement denies it.
    #[default]
    NotDenied,
    /// A statement denies it, under a condition that does not distinguish people from services.
    Unclear,
    /// A statement denies it to principals, or to all that are not AWS services.
    Denied,
    /// A statement denies it to everybody: no event arrives either.
    EverybodyDenied,
}

/// Whether EventBridge may send to the queue, and from which rules.
pub(super) fn policy(name: &str, senders: &Senders) -> Finding {
    const POINT: &str = "queue.policy";
    if senders.others == Others::EverybodyDenied {
        let message = "its policy denies sqs:SendMessage to everybody, EventBridge too";
        return Finding::no(
            POINT,
            name,
            message,
            "add a condition to the Deny: BoolIfExists aws:PrincipalIsAWSService false",
        );
    }
    match (senders.event_bridge, senders.rules.is_empty()) {
        (false, _) => {
            let message = "its policy does not let EventBridge send to it";
            Finding::no(
                POINT,
                name,
                message,
                "allow sqs:SendMessage to events.amazonaws.com, with a condition on aws:SourceArn \
                 that names the rules",
            )
        }
        (true, true) => {
            let message = "its policy lets EventBridge send from any rule of anybody's";
            Finding::no(
                POINT,
                name,
                message,
                "add a condition on aws:SourceArn that names the rules",
            )
            .advice()
        }
        (true, false) => {
            let rules = senders.rules.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            Finding::yes(POINT, name, format!("EventBridge may send to it, from {rules}"))
        }
    }
}

/// Whether everybody else is kept from sending to it.
pub(super) fn locked(name: &str, others: Others) -> Finding {
    const POINT: &str = "queue.senders";
    const REMEDY: &str = "deny sqs:SendMessage to principals that are no AWS service \
        (BoolIfExists aws:PrincipalIsAWSService false)";
    match others {
        Others::Denied | Others::EverybodyDenied => {
            Finding::yes(POINT, name, "its policy denies sqs:SendMessage to others")
        }
        Others::Unclear => {
            let message = "its policy denies sqs:SendMessage under conditions that do not prove \
                that people are kept out";
            Finding::cannot_tell(POINT, name, message, REMEDY).advice()
        }
        Others::NotDenied => {
            let message = "its policy denies nobody: in its own account whoever has \
                sqs:SendMessage can have nodes drained";
            Finding::no(POINT, name, message, REMEDY).advice()
        }
    }
}

/// The elements of an array, or the value itself: JSON policies allow both.
fn each(value: Option<&Value>) -> Vec<&Value> {
    match value {
        Some(Value::Array(all)) => all.iter().collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    }
}

/// The values of a condition. `true` and `false` may be JSON booleans.
fn texts(values: &Value) -> Vec<&str> {
    let text = |value: &'_ Value| value.as_bool().map(|b| if b { "true" } else { "false" });
    each(Some(values))
        .into_iter()
        .filter_map(|value| value.as_str().or_else(|| text(value)))
        .collect()
}

pub(super) fn words(value: Option<&Value>) -> Vec<&str> {
    each(value).into_iter().filter_map(Value::as_str).collect()
}

/// Reads from a queue's policy who may send.
pub(in crate::cli::check) fn senders(attributes: &BTreeMap<String, String>) -> Senders {
    let policy: Value = attributes
        .get("Policy")
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let mut senders = Senders::default();
    for statement in each(policy.get("Statement")) {
        let is_send = |action: &str| {
            let action = action.to_ascii_lowercase();
            matches!(action.as_str(), "*" | "sqs:*" | "sqs:sendmessage" | "sqs:send*")
        };
        if !words(statement.get("Action")).into_iter().any(is_send) {
            continue;
        }
        let principal = statement.get("Principal");
        let everybody = principal.and_then(Value::as_str) == Some("*")
            || words(principal.and_then(|p| p.get("AWS"))).contains(&"*");
        let service = words(principal.and_then(|p| p.get("Service"))).contains(&EVENT_BRIDGE);
        match statement.get("Effect").and_then(Value::as_str) {
            Some("Deny") => senders.others = senders.others.max(denied(statement, everybody)),
            Some("Allow") if service || everybody => {
                senders.event_bridge = true;
                senders.rules.extend(
                    conditions(statement, "aws:SourceArn")
                        .into_iter()
                        .map(|arn| rule_name(arn).to_owned()),
                );
            }
            _ => {}
        }
    }
    senders
}

/// Whom a Deny statement keeps out.
///
/// All conditions of a statement must hold for it to apply. So a condition that exempts some
/// principals proves something only if no other condition narrows the Deny further.
fn denied(statement: &Value, everybody: bool) -> Others {
    let conditions = all_conditions(statement);
    let is_tls =
        |(_, key, _): &(&str, &str, Vec<&str>)| key.eq_ignore_ascii_case("aws:SecureTransport");
    if conditions.iter().any(is_tls) {
        // A Deny that only requires TLS keeps nobody out.
        return Others::NotDenied;
    }
    let lets_some_through = statement.get("NotPrincipal").is_some();
    if !everybody && !lets_some_through {
        // It names certain principals, and does not deny anything to others.
        return Others::NotDenied;
    }
    match conditions.as_slice() {
        [] if lets_some_through => Others::Denied,
        [] => Others::EverybodyDenied,
        all if all
            .iter()
            .all(|(operator, key, values)| keeps_people_out(operator, key, values)) =>
        {
            Others::Denied
        }
        _ => Others::Unclear,
    }
}

/// Whether a condition holds for every person and role except those that it names.
fn keeps_people_out(operator: &str, key: &str, values: &[&str]) -> bool {
    let operator = operator.to_ascii_lowercase();
    let operator = operator.strip_suffix("ifexists").unwrap_or(&operator);
    let is = |name: &str| key.eq_ignore_ascii_case(name);
    if is("aws:PrincipalIsAWSService") {
        return operator == "bool" && values == ["false"];
    }
    // A negated operator denies all principals except those named.
    let is_negated =
        matches!(operator, "arnnotlike" | "arnnotequals" | "stringnotlike" | "stringnotequals");
    // A pattern for all principals, or all roles of an account, keeps nobody of it out.
    let is_wide = |pattern: &&str| {
        pattern.ends_with(":root") || pattern.rsplit([':', '/']).next() == Some("*")
    };
    is("aws:PrincipalArn") && is_negated && !values.is_empty() && !values.iter().any(is_wide)
}

/// Operator, key and values of each condition of a statement.
fn all_conditions(statement: &Value) -> Vec<(&str, &str, Vec<&str>)> {
    let operators = statement.get("Condition").and_then(Value::as_object).into_iter().flatten();
    let keys =
        operators.filter_map(|(operator, keys)| Some((operator.as_str(), keys.as_object()?)));
    keys.flat_map(|(operator, keys)| {
        keys.iter().map(move |(key, values)| (operator, key.as_str(), texts(values)))
    })
    .collect()
}

fn conditions<'a>(statement: &'a Value, key: &str) -> Vec<&'a str> {
    let operators = statement
        .get("Condition")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(serde_json::Map::values);
    let keys = operators
        .filter_map(Value::as_object)
        .flatten()
        .filter(|(name, _)| name.eq_ignore_ascii_case(key));
    keys.flat_map(|(_, value)| words(Some(value))).collect()
}

/// `arn:aws:events:REGION:ACCOUNT:rule/NAME`
fn rule_name(arn: &str) -> &str {
    arn.split_once(":rule/").map_or(arn, |(_, name)| name)
}
