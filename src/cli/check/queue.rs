//! Judges a queue's attributes, its policy, and the EventBridge rules that fill it. No I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use super::finding::Finding;
use crate::{
    aws::{AwsError, EntryFailure, RuleFacts},
    cli::words::count,
    config::duration_text,
};

/// The service principal that delivers EventBridge's events.
const EVENT_BRIDGE: &str = "events.amazonaws.com";
/// Without this event Sundown drains nothing on a scale-in.
const TERMINATE: &str = "EC2 Instance-terminate Lifecycle Action";
/// A change of leader adds one or two receives to a message that is not decided yet: the long poll
/// of the old leader may receive it once more.
const LEAST_RECEIVES: u64 = 10;

/// The dead-letter queue in the redrive policy of another queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadLetters {
    pub(super) arn: String,
    pub(super) max_receives: u64,
}

/// Who may send to a queue, by its policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Senders {
    /// EventBridge may.
    pub(super) event_bridge: bool,
    /// The rules from which it may send: names, or patterns with wildcards. Empty: any rule.
    pub(super) rules: BTreeSet<String>,
    /// Whether a Deny keeps everybody else out.
    pub(super) others: Others,
}

/// Whether a policy denies sqs:SendMessage to principals that are not AWS services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Others {
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

/// Judges the attributes of a queue except its redrive policy.
pub(super) fn judge(name: &str, attributes: &BTreeMap<String, String>) -> Vec<Finding> {
    vec![
        retention(name, attributes),
        encryption(name, attributes),
        policy(name, &senders(attributes)),
        locked(name, senders(attributes).others),
    ]
}

fn seconds(attributes: &BTreeMap<String, String>, name: &str) -> Option<Duration> {
    attributes.get(name).and_then(|text| text.parse().ok()).map(Duration::from_secs)
}

fn retention(name: &str, attributes: &BTreeMap<String, String>) -> Finding {
    const POINT: &str = "queue.retention";
    match seconds(attributes, "MessageRetentionPeriod") {
        Some(kept) if kept < Duration::from_hours(24) => {
            let message = format!(
                "messages are kept for {}: during a longer outage messages are lost",
                duration_text(kept)
            );
            Finding::no(POINT, name, message, "set MessageRetentionPeriod to 345600 (four days)")
                .advice()
        }
        Some(kept) => {
            Finding::yes(POINT, name, format!("messages are kept for {}", duration_text(kept)))
        }
        None => Finding::cannot_tell(
            POINT,
            name,
            "SQS did not report for how long messages are kept",
            "ask again",
        )
        .advice(),
    }
}

fn encryption(name: &str, attributes: &BTreeMap<String, String>) -> Finding {
    const POINT: &str = "queue.encryption";
    match attributes.get("KmsMasterKeyId").map(String::as_str).filter(|key| !key.is_empty()) {
        Some(key) if key.ends_with("alias/aws/sqs") => {
            let remedy = "encrypt it by SQS itself (SqsManagedSseEnabled), or under a key of your \
                own whose policy lets events.amazonaws.com use it";
            Finding::no(
                POINT,
                name,
                format!(
                    "it is encrypted under {key}, which EventBridge can never use: no event arrives"
                ),
                remedy,
            )
        }
        Some(key) => {
            let remedy = "see that the key's policy allows kms:Decrypt and kms:GenerateDataKey to \
                events.amazonaws.com, and the role's kms:Decrypt; send a test event";
            Finding::cannot_tell(
                POINT,
                name,
                format!("it is encrypted under {key}, whose policy is not looked at"),
                remedy,
            )
            .advice()
        }
        None if attributes.get("SqsManagedSseEnabled").is_some_and(|on| on == "true") => {
            Finding::yes(POINT, name, "it is encrypted by SQS")
        }
        None => Finding::no(POINT, name, "it is not encrypted", "set SqsManagedSseEnabled to true")
            .advice(),
    }
}

fn policy(name: &str, senders: &Senders) -> Finding {
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

fn locked(name: &str, others: Others) -> Finding {
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

fn words(value: Option<&Value>) -> Vec<&str> {
    each(value).into_iter().filter_map(Value::as_str).collect()
}

/// Reads from a queue's policy who may send.
pub(super) fn senders(attributes: &BTreeMap<String, String>) -> Senders {
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

/// The dead-letter queue of a queue, from its redrive policy.
pub(super) fn dead_letters(attributes: &BTreeMap<String, String>) -> Option<DeadLetters> {
    let policy: Value = serde_json::from_str(attributes.get("RedrivePolicy")?).ok()?;
    let count = policy.get("maxReceiveCount")?;
    let max_receives = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    Some(DeadLetters { arn: policy.get("deadLetterTargetArn")?.as_str()?.to_owned(), max_receives })
}

/// The URL of the queue `arn`, at the same endpoint as `url`.
pub(super) fn url_beside(url: &str, arn: &str) -> Option<String> {
    let mut parts = arn.rsplit(':');
    let (name, account) = (parts.next()?, parts.next()?);
    let origin = url::Url::parse(url).ok()?.origin().ascii_serialization();
    Some(format!("{origin}/{account}/{name}"))
}

/// Judges the redrive policy of a queue. `dead`: the attributes of the dead-letter queue, or the
/// error of asking for them. `None`: they were not asked for.
pub(super) fn redrive(
    name: &str,
    attributes: &BTreeMap<String, String>,
    target: Option<&DeadLetters>,
    dead: Option<Result<&BTreeMap<String, String>, &AwsError>>,
) -> Finding {
    const POINT: &str = "queue.redrive";
    let Some(target) = target else {
        let remedy =
            "give it a dead-letter queue, with maxReceiveCount 10 and a retention of 14 days";
        return Finding::no(
            POINT,
            name,
            "it has no dead-letter queue: a message that Sundown cannot parse is received again \
             and again",
            remedy,
        )
        .advice();
    };
    if target.max_receives < LEAST_RECEIVES {
        let message = format!(
            "after {} receives a message is a dead letter; each change of leader costs one or two",
            target.max_receives
        );
        return Finding::no(POINT, name, message, "set maxReceiveCount to 10").advice();
    }
    let of_queue = seconds(attributes, "MessageRetentionPeriod");
    match dead {
        Some(Ok(dead)) => match (seconds(dead, "MessageRetentionPeriod"), of_queue) {
            (Some(kept), Some(of_queue)) if kept <= of_queue => {
                let message = format!(
                    "{} keeps messages for {}, from when they were first sent: no longer than \
                     this queue",
                    target.arn,
                    duration_text(kept)
                );
                Finding::no(
                    POINT,
                    name,
                    message,
                    "set its MessageRetentionPeriod to 1209600 (14 days)",
                )
                .advice()
            }
            _ => Finding::yes(
                POINT,
                name,
                format!("after {} receives to {}", target.max_receives, target.arn),
            ),
        },
        Some(Err(error)) => Finding::of_look_up(POINT, name, error),
        None => Finding::yes(
            POINT,
            name,
            format!(
                "after {} receives to {}, which was not looked at",
                target.max_receives, target.arn
            ),
        ),
    }
}

/// Judges a call with a made-up receipt handle: whether the role may make this call at all.
pub(super) fn bogus(
    point: &'static str,
    name: &str,
    permission: &str,
    answer: &Result<Vec<EntryFailure>, AwsError>,
) -> Finding {
    match answer {
        Ok(failures) => match failures.iter().find(|f| f.code.contains("Denied")) {
            Some(denied) => Finding::no(
                point,
                name,
                denied.code.clone(),
                format!("allow {permission} in the role's policy"),
            ),
            None => Finding::yes(point, name, "allowed (a made-up receipt was refused as such)"),
        },
        // The whole call was refused because of the receipt. AWS checks the permission before that.
        Err(error) if error.code().contains("ReceiptHandle") => {
            Finding::yes(point, name, "allowed (a made-up receipt was refused as such)")
        }
        Err(error) => Finding::of_error(point, name, error),
    }
}

/// Judges an EventBridge rule that should send to the queue.
pub(super) fn rule(queue_arn: &str, rule: &RuleFacts) -> Vec<Finding> {
    const POINT: &str = "rule";
    let name = rule.name.as_str();
    if !rule.state.starts_with("ENABLED") {
        return vec![Finding::no(
            POINT,
            name,
            format!("it is {}", rule.state),
            format!("aws events enable-rule --name {name}"),
        )];
    }
    let Some(target) = rule.targets.iter().find(|t| t.arn == queue_arn) else {
        return vec![Finding::no(
            POINT,
            name,
            "the queue is not one of its targets",
            format!("aws events put-targets --rule {name} with the queue's ARN"),
        )];
    };
    let mut found = Vec::new();
    if target.transforms {
        let message = "its target changes the event on the way: Sundown will not understand it";
        found.push(Finding::no(
            POINT,
            name,
            message,
            "take Input, InputPath and InputTransformer off the target",
        ));
    }
    if target.attempts == Some(0) {
        let message = "its target tries once: MaximumRetryAttempts is 0";
        found.push(
            Finding::no(
                POINT,
                name,
                message,
                "set both MaximumRetryAttempts (185) and MaximumEventAgeInSeconds (3600)",
            )
            .advice(),
        );
    }
    if found.is_empty() {
        let tests = if takes_tests(rule) { "; test events too" } else { "" };
        let types = detail_types(rule).into_iter().collect::<Vec<_>>().join(", ");
        found.push(Finding::yes(POINT, name, format!("brings {types}{tests}")));
    }
    found
}

fn takes_tests(rule: &RuleFacts) -> bool {
    let pattern: Value = serde_json::from_str(&rule.pattern).unwrap_or_default();
    words(pattern.get("source")).contains(&crate::interruption::TEST_SOURCE)
}

fn detail_types(rule: &RuleFacts) -> BTreeSet<String> {
    let pattern: Value = serde_json::from_str(&rule.pattern).unwrap_or_default();
    words(pattern.get("detail-type")).into_iter().map(str::to_owned).collect()
}

/// Whether the rules together send all events that Sundown acts on to this queue. Call it only if
/// all rules are known.
pub(super) fn coverage(name: &str, queue_arn: &str, rules: &[RuleFacts]) -> Finding {
    const POINT: &str = "rules";
    let brings = |rule: &&RuleFacts| {
        rule.state.starts_with("ENABLED")
            && rule.targets.iter().any(|t| t.arn == queue_arn && !t.transforms)
    };
    let brought: BTreeSet<String> = rules.iter().filter(brings).flat_map(detail_types).collect();
    if !brought.contains(TERMINATE) {
        return Finding::no(
            POINT,
            name,
            format!("no rule brings `{TERMINATE}`: Sundown does not notice scale-ins"),
            "add that rule (docs/install.md, step 2)",
        );
    }
    let wanted = [
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance State-change Notification",
        "EC2 Capacity Reservation Instance Interruption Warning",
        "EC2 Instance Launch Successful",
    ];
    let missing: Vec<_> = wanted.into_iter().filter(|t| !brought.contains(*t)).collect();
    if missing.is_empty() {
        return Finding::yes(
            POINT,
            name,
            format!(
                "every event that Sundown acts on is brought by {}",
                count(rules.iter().filter(brings).count(), "rule")
            ),
        );
    }
    Finding::no(
        POINT,
        name,
        format!("no rule brings `{}`", missing.join("` nor `")),
        "add the rule, unless that is meant",
    )
    .advice()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests;
