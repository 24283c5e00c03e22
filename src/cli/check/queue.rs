//! What a queue's attributes, its policy and the rules that fill it say. Nothing here asks anybody.

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

/// What EventBridge's events are delivered by.
const EVENT_BRIDGE: &str = "events.amazonaws.com";
/// Without it nothing is drained on a scale-in.
const TERMINATE: &str = "EC2 Instance-terminate Lifecycle Action";
/// A change of leader costs a message that is not decided yet one receive, or two: the long poll of
/// who led may get it once more.
const LEAST_RECEIVES: u64 = 10;

/// A dead-letter queue, as the redrive policy of another names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadLetters {
    pub(super) arn: String,
    pub(super) max_receives: u64,
}

/// Who may send to a queue, as its policy says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Senders {
    /// EventBridge may.
    pub(super) event_bridge: bool,
    /// From these rules only: names, or patterns with wildcards.
    pub(super) rules: BTreeSet<String>,
    /// What a Deny says of others.
    pub(super) others: Others,
}

/// What a policy says of those who are no AWS service, by its statements that deny sqs:SendMessage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Others {
    /// No statement denies it.
    #[default]
    NotDenied,
    /// A statement denies it under a condition that does not tell people from services.
    Unclear,
    /// A statement denies it to principals, or to all that are no AWS service.
    Denied,
    /// A statement denies it to everybody: no event arrives either.
    EverybodyDenied,
}

/// What the attributes of a queue say, but for its redrive policy.
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
            let says = format!(
                "messages are kept for {}: what comes during a longer outage is lost",
                duration_text(kept)
            );
            Finding::no(POINT, name, says, "set MessageRetentionPeriod to 345600 (four days)")
                .advice()
        }
        Some(kept) => {
            Finding::yes(POINT, name, format!("messages are kept for {}", duration_text(kept)))
        }
        None => Finding::cannot_tell(
            POINT,
            name,
            "SQS does not say for how long messages are kept",
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
        let says = "its policy denies sqs:SendMessage to everybody, EventBridge too";
        return Finding::no(
            POINT,
            name,
            says,
            "add a condition to the Deny: BoolIfExists aws:PrincipalIsAWSService false",
        );
    }
    match (senders.event_bridge, senders.rules.is_empty()) {
        (false, _) => {
            let says = "its policy does not let EventBridge send to it";
            Finding::no(
                POINT,
                name,
                says,
                "allow sqs:SendMessage to events.amazonaws.com, with a condition on aws:SourceArn \
                 that names the rules",
            )
        }
        (true, true) => {
            let says = "its policy lets EventBridge send from any rule of anybody's";
            Finding::no(POINT, name, says, "add a condition on aws:SourceArn that names the rules")
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
            let says = "its policy denies sqs:SendMessage under conditions that do not prove that \
                people are kept out";
            Finding::cannot_tell(POINT, name, says, REMEDY).advice()
        }
        Others::NotDenied => {
            let says = "its policy denies nobody: in its own account whoever has sqs:SendMessage \
                can have nodes drained";
            Finding::no(POINT, name, says, REMEDY).advice()
        }
    }
}

/// One or many, as JSON policies write both.
fn each(value: Option<&Value>) -> Vec<&Value> {
    match value {
        Some(Value::Array(all)) => all.iter().collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    }
}

/// The values of a condition; `true` and `false` may stand without quotes.
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

/// What a queue's policy says about who may send.
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

/// Whom a Deny keeps out.
///
/// All conditions of a statement must hold for it to apply. So one that names who is let through
/// proves something only where no other condition narrows the Deny further.
fn denied(statement: &Value, everybody: bool) -> Others {
    let conditions = all_conditions(statement);
    let is_tls =
        |(_, key, _): &(&str, &str, Vec<&str>)| key.eq_ignore_ascii_case("aws:SecureTransport");
    if conditions.iter().any(is_tls) {
        // One that only asks for TLS keeps nobody out.
        return Others::NotDenied;
    }
    let lets_some_through = statement.get("NotPrincipal").is_some();
    if !everybody && !lets_some_through {
        // It is about certain principals: the others are not denied by it.
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

/// Whether a condition holds for every person and role but those that it names.
fn keeps_people_out(operator: &str, key: &str, values: &[&str]) -> bool {
    let operator = operator.to_ascii_lowercase();
    let operator = operator.strip_suffix("ifexists").unwrap_or(&operator);
    let is = |name: &str| key.eq_ignore_ascii_case(name);
    if is("aws:PrincipalIsAWSService") {
        return operator == "bool" && values == ["false"];
    }
    // By principal: all but those named.
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

/// Where a queue's redrive policy sends what is received too often.
pub(super) fn dead_letters(attributes: &BTreeMap<String, String>) -> Option<DeadLetters> {
    let policy: Value = serde_json::from_str(attributes.get("RedrivePolicy")?).ok()?;
    let count = policy.get("maxReceiveCount")?;
    let max_receives = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    Some(DeadLetters { arn: policy.get("deadLetterTargetArn")?.as_str()?.to_owned(), max_receives })
}

/// The URL of a queue beside another, from its ARN.
pub(super) fn url_beside(url: &str, arn: &str) -> Option<String> {
    let mut parts = arn.rsplit(':');
    let (name, account) = (parts.next()?, parts.next()?);
    let origin = url::Url::parse(url).ok()?.origin().ascii_serialization();
    Some(format!("{origin}/{account}/{name}"))
}

/// What the redrive policy of a queue says. `dead`: the attributes of the dead-letter queue, or why
/// they cannot be had.
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
            "it has no dead-letter queue: what is not understood is received again and again",
            remedy,
        )
        .advice();
    };
    if target.max_receives < LEAST_RECEIVES {
        let says = format!(
            "after {} receives a message is a dead letter; each change of leader costs one or two",
            target.max_receives
        );
        return Finding::no(POINT, name, says, "set maxReceiveCount to 10").advice();
    }
    let of_queue = seconds(attributes, "MessageRetentionPeriod");
    match dead {
        Some(Ok(dead)) => match (seconds(dead, "MessageRetentionPeriod"), of_queue) {
            (Some(kept), Some(of_queue)) if kept <= of_queue => {
                let says = format!(
                    "{} keeps messages for {}, from when they were first sent: no longer than \
                     this queue",
                    target.arn,
                    duration_text(kept)
                );
                Finding::no(
                    POINT,
                    name,
                    says,
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

/// What a call with a receipt that no queue gave says of the right to make it.
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
        // Refused as a whole because of the receipt: the right to ask is looked at first.
        Err(error) if error.code().contains("ReceiptHandle") => {
            Finding::yes(point, name, "allowed (a made-up receipt was refused as such)")
        }
        Err(error) => Finding::of_error(point, name, error),
    }
}

/// What a rule that fills the queue is like.
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
            "the queue is none of its targets",
            format!("aws events put-targets --rule {name} with the queue's ARN"),
        )];
    };
    let mut found = Vec::new();
    if target.transforms {
        let says = "its target changes the event on the way: Sundown will not understand it";
        found.push(Finding::no(
            POINT,
            name,
            says,
            "take Input, InputPath and InputTransformer off the target",
        ));
    }
    if target.attempts == Some(0) {
        let says = "its target tries once: MaximumRetryAttempts is 0";
        found.push(
            Finding::no(
                POINT,
                name,
                says,
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

/// Whether the rules together bring what Sundown acts on to this queue. Only where all of them are
/// known.
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
            format!("no rule brings `{TERMINATE}`: scale-ins are not heard of"),
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
                "what is acted on is brought by {}",
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
