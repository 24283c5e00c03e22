//! EventBridge as far as people call it: events of one's own, and what a rule is like. Its rules
//! are those of [`Rule`](super::Rule).

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    answer::{ApiError, Asked},
    events::{EventKind, Rule, seconds_text},
    state::State,
};
use crate::domain::Moment;

/// The source of events that are no more than tests.
const TEST_SOURCE: &str = "sundown.test";
/// The other `detail-type` that AWS documents for [`EventKind::BlockWarning`].
const BLOCK_WARNING_TOO: &str = "Capacity Block Reservation Expiration Warning";

pub(super) fn handle(state: &mut State, now: Moment, asked: &Asked) -> Result<String, ApiError> {
    let body = read(&asked.json)?;
    let answer = match asked.action.as_str() {
        "PutEvents" => put_events(state, now, &body)?,
        "DescribeRule" => describe_rule(state, &body)?,
        "ListTargetsByRule" => list_targets(state, &body)?,
        action => {
            return Err(ApiError::new(
                "UnknownOperationException",
                format!("The embedded AWS has no action {action} of EventBridge."),
            ));
        }
    };
    Ok(answer.to_string())
}

/// The rule, or the kinds of events, that a request is about.
pub(super) fn object(body: &Bytes) -> String {
    let body = read(body).unwrap_or_default();
    let named = text(&body, "Rule") + &text(&body, "Name");
    if !named.is_empty() {
        return named;
    }
    entries(&body).map(|entry| text(entry, "DetailType")).collect::<Vec<_>>().join(",")
}

fn read(body: &Bytes) -> Result<Value, ApiError> {
    serde_json::from_slice(body)
        .map_err(|error| ApiError::new("SerializationException", error.to_string()))
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn entries(body: &Value) -> impl Iterator<Item = &Value> {
    body.get("Entries").and_then(Value::as_array).into_iter().flatten()
}

fn put_events(state: &mut State, now: Moment, body: &Value) -> Result<Value, ApiError> {
    let entries: Vec<Value> = entries(body).cloned().collect();
    if entries.is_empty() || entries.len() > 10 {
        return Err(ApiError::new("ValidationException", "Entries must have 1 to 10 members."));
    }
    let answers: Vec<Value> = entries.iter().map(|entry| put_event(state, now, entry)).collect();
    let failed = answers.iter().filter(|a| a.get("ErrorCode").is_some()).count();
    Ok(json!({ "FailedEntryCount": failed, "Entries": answers }))
}

fn put_event(state: &mut State, now: Moment, entry: &Value) -> Value {
    let (source, detail_type) = (text(entry, "Source"), text(entry, "DetailType"));
    if source.starts_with("aws.") {
        return json!({
            "ErrorCode": "NotAuthorizedForSourceException",
            "ErrorMessage": "Not authorized for the source."
        });
    }
    let Ok(detail) = serde_json::from_str::<Value>(&text(entry, "Detail")) else {
        return json!({ "ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed." });
    };
    let id = state.uuid();
    let event = json!({
        "version": "0", "id": id, "detail-type": detail_type, "source": source,
        "account": state.settings.account,
        "time": seconds_text(state.aws_time(now)), "region": state.settings.region,
        "resources": entry.get("Resources").cloned().unwrap_or_else(|| json!([])), "detail": detail,
    });
    let wants = |rule: &&Rule| {
        rule.tests
            && rule.enabled
            && source == TEST_SOURCE
            && rule.kinds.iter().any(|k| k.detail_type() == detail_type)
    };
    let targets: Vec<Rule> = state.rules.iter().filter(wants).cloned().collect();
    for rule in targets {
        state.put_in(now, &rule.queue, rule.envelope, &event.to_string());
    }
    json!({ "EventId": id })
}

fn rule<'a>(state: &'a State, name: &str) -> Result<&'a Rule, ApiError> {
    let missing = || {
        ApiError::new(
            "ResourceNotFoundException",
            format!("Rule {name} does not exist on EventBus default."),
        )
    };
    state.rules.iter().find(|rule| rule.name == name).ok_or_else(missing)
}

fn describe_rule(state: &State, body: &Value) -> Result<Value, ApiError> {
    let rule = rule(state, &text(body, "Name"))?;
    let mut sources: BTreeSet<&str> = rule.kinds.iter().map(|k| k.source()).collect();
    sources.extend(rule.tests.then_some(TEST_SOURCE));
    let mut types: Vec<&str> = rule.kinds.iter().copied().map(EventKind::detail_type).collect();
    if rule.kinds.contains(&EventKind::BlockWarning) {
        types.push(BLOCK_WARNING_TOO);
    }
    Ok(json!({
        "Name": rule.name, "Arn": state.rule_arn(&rule.name), "EventBusName": "default",
        "State": if rule.enabled { "ENABLED" } else { "DISABLED" },
        "EventPattern": json!({ "source": sources, "detail-type": types }).to_string(),
    }))
}

fn list_targets(state: &State, body: &Value) -> Result<Value, ApiError> {
    let rule = rule(state, &text(body, "Rule"))?;
    let target = json!({
        "Id": "queue", "Arn": state.queue_arn(&rule.queue),
        "RetryPolicy": { "MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 3600 },
    });
    Ok(json!({ "Targets": [target] }))
}

impl State {
    fn rule_arn(&self, name: &str) -> String {
        format!("arn:aws:events:{}:{}:rule/{name}", self.settings.region, self.settings.account)
    }
}
