//! Queues: make, list, describe, purge, delete.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    QueueSettings, Redrive,
    store::Queue,
    wire::{find, no_such_queue, queue_name, read},
};
use crate::{
    domain::Moment,
    sim::aws::{
        answer::{ApiError, Asked},
        state::State,
    },
};

/// For this long after a queue was deleted there can be no other of its name (SQS API reference,
/// `CreateQueue`, `QueueDeletedRecently`).
const NAME_IS_TAKEN: Duration = Duration::from_mins(1);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Request {
    queue_url: String,
    queue_name: String,
    queue_name_prefix: String,
    attributes: BTreeMap<String, String>,
    attribute_names: Vec<String>,
}

pub(super) fn handle(state: &mut State, now: Moment, asked: &Asked) -> Result<String, ApiError> {
    let body = &asked.json;
    let url = |state: &State, name: &str| match &asked.server {
        Some(server) => format!("{server}/{}/{name}", state.settings.account),
        None => state.queue_url(name),
    };
    match asked.action.as_str() {
        "CreateQueue" => {
            let name = create(state, now, &read(body)?)?;
            Ok(json!({ "QueueUrl": url(state, &name) }).to_string())
        }
        "GetQueueUrl" => {
            let name = read::<Request>(body)?.queue_name;
            if state.queues.contains_key(&name) {
                Ok(json!({ "QueueUrl": url(state, &name) }).to_string())
            } else {
                Err(no_such_queue())
            }
        }
        "ListQueues" => {
            let prefix = read::<Request>(body)?.queue_name_prefix;
            let names = state.queues.keys().filter(|name| name.starts_with(&prefix));
            Ok(json!({ "QueueUrls": names.map(|name| url(state, name)).collect::<Vec<_>>() })
                .to_string())
        }
        "GetQueueAttributes" => attributes(state, &read(body)?),
        "SetQueueAttributes" => set_attributes(state, &read(body)?),
        "PurgeQueue" => {
            let request: Request = read(body)?;
            find(state, &request.queue_url)?.purge();
            Ok("{}".to_owned())
        }
        "DeleteQueue" => {
            let request: Request = read(body)?;
            if state.delete_queue(now, queue_name(&request.queue_url)) {
                Ok("{}".to_owned())
            } else {
                Err(no_such_queue())
            }
        }
        action => Err(ApiError::new(
            "UnsupportedOperation",
            format!("The embedded AWS has no SQS action {action}."),
        )),
    }
}

/// `CreateQueue`; returns the queue's name.
fn create(state: &mut State, now: Moment, request: &Request) -> Result<String, ApiError> {
    let name = &request.queue_name;
    let well_formed = (1..=80).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if !well_formed {
        let message =
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
        return Err(ApiError::new("InvalidParameterValue", message));
    }
    if state.deleted_queues.get(name).is_some_and(|deleted| now < deleted.plus(NAME_IS_TAKEN)) {
        let message = "You must wait 60 seconds after deleting a queue before you can create \
            another with the same name.";
        return Err(ApiError::new("QueueDeletedRecently", message));
    }
    let settings = changed(QueueSettings::default(), &request.attributes)?;
    if state
        .queues
        .get(name)
        .is_some_and(|q| !request.attributes.is_empty() && q.settings != settings)
    {
        let message =
            "A queue already exists with the same name and a different value for some attribute";
        return Err(ApiError::new("QueueNameExists", message));
    }
    state.make_queue(name, settings);
    Ok(name.clone())
}

fn attributes(state: &mut State, request: &Request) -> Result<String, ApiError> {
    let name = queue_name(&request.queue_url);
    let arn = state.queue_arn(name);
    let redrive = state.queues.get(name).and_then(|q| q.settings.redrive.clone());
    let redrive = redrive.map(|r| {
        json!({
            "deadLetterTargetArn": state.queue_arn(&r.queue), "maxReceiveCount": r.max_receives
        })
        .to_string()
    });
    let queue = find(state, name)?;
    let (visible, in_flight, delayed) = queue.numbers();
    let settings = &queue.settings;
    let seconds = |d: Duration| d.as_secs().to_string();
    let all = [
        ("QueueArn", Some(arn)),
        ("ApproximateNumberOfMessages", Some(visible.to_string())),
        ("ApproximateNumberOfMessagesNotVisible", Some(in_flight.to_string())),
        ("ApproximateNumberOfMessagesDelayed", Some(delayed.to_string())),
        ("VisibilityTimeout", Some(seconds(settings.visibility))),
        ("ReceiveMessageWaitTimeSeconds", Some(seconds(settings.wait))),
        ("DelaySeconds", Some(seconds(settings.delay))),
        ("MessageRetentionPeriod", Some(seconds(settings.retention))),
        ("MaximumMessageSize", Some((1024 * 1024).to_string())),
        ("RedrivePolicy", redrive),
    ];
    let wanted = |name: &str| request.attribute_names.iter().any(|a| a == "All" || a == name);
    // A queue is encrypted by SQS itself unless a key of one's own is, or the caller wants none.
    let by_sqs = (!settings.access.contains_key("KmsMasterKeyId"))
        .then(|| ("SqsManagedSseEnabled".to_owned(), "true".to_owned()));
    let access = by_sqs.into_iter().chain(settings.access.clone());
    let all =
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).chain(access);
    let shown: BTreeMap<String, String> = all.filter(|(name, _)| wanted(name)).collect();
    Ok(json!({ "Attributes": shown }).to_string())
}

fn set_attributes(state: &mut State, request: &Request) -> Result<String, ApiError> {
    let queue = find(state, &request.queue_url)?;
    queue.settings = changed(queue.settings.clone(), &request.attributes)?;
    Ok("{}".to_owned())
}

fn changed(
    mut settings: QueueSettings,
    attributes: &BTreeMap<String, String>,
) -> Result<QueueSettings, ApiError> {
    for (name, value) in attributes {
        let seconds = || parsed::<u64>(name, value).map(Duration::from_secs);
        match name.as_str() {
            "VisibilityTimeout" => settings.visibility = seconds()?,
            "ReceiveMessageWaitTimeSeconds" => settings.wait = seconds()?,
            "DelaySeconds" => settings.delay = seconds()?,
            "MessageRetentionPeriod" => settings.retention = seconds()?,
            "RedrivePolicy" if value.is_empty() => settings.redrive = None,
            "RedrivePolicy" => settings.redrive = Some(redrive(name, value)?),
            "MaximumMessageSize" => {}
            "Policy"
            | "KmsMasterKeyId"
            | "KmsDataKeyReusePeriodSeconds"
            | "SqsManagedSseEnabled"
            | "RedriveAllowPolicy" => {
                if value.is_empty() {
                    settings.access.remove(name);
                } else {
                    settings.access.insert(name.clone(), value.clone());
                }
            }
            _ => {
                return Err(ApiError::new(
                    "InvalidAttributeName",
                    format!("Unknown Attribute {name}."),
                ));
            }
        }
    }
    Ok(settings)
}

fn redrive(name: &str, value: &str) -> Result<Redrive, ApiError> {
    let policy: serde_json::Value = parsed_json(name, value)?;
    // Consoles and tools write the count as a number or as text.
    let count =
        policy.get("maxReceiveCount").and_then(|c| c.as_u64().or_else(|| c.as_str()?.parse().ok()));
    let arn = policy.get("deadLetterTargetArn").and_then(|a| a.as_str());
    match (arn, count.and_then(|c| u32::try_from(c).ok()).filter(|c| (1..=1000).contains(c))) {
        (Some(arn), Some(max_receives)) => Ok(Redrive {
            queue: arn.rsplit(':').next().unwrap_or_default().to_owned(),
            max_receives,
        }),
        _ => Err(bad_value(name, value)),
    }
}

fn parsed<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, ApiError> {
    value.parse().map_err(|_| bad_value(name, value))
}

fn parsed_json<T: DeserializeOwned>(name: &str, value: &str) -> Result<T, ApiError> {
    serde_json::from_str(value).map_err(|_| bad_value(name, value))
}

fn bad_value(name: &str, value: &str) -> ApiError {
    ApiError::new(
        "InvalidAttributeValue",
        format!("Invalid value for the parameter {name}: {value}"),
    )
}

impl State {
    /// Makes a queue or changes its settings; returns its URL.
    pub(in crate::sim::aws) fn make_queue(
        &mut self,
        name: &str,
        settings: QueueSettings,
    ) -> String {
        let tag = self.random.u32(..);
        match self.queues.get_mut(name) {
            Some(queue) => queue.settings = settings,
            None => {
                self.queues.insert(name.to_owned(), Queue::new(settings, tag));
            }
        }
        self.queue_url(name)
    }

    /// Deletes a queue with all its messages; returns whether it existed.
    pub(in crate::sim::aws) fn delete_queue(&mut self, now: Moment, name: &str) -> bool {
        let was_there = self.queues.remove(name).is_some();
        if was_there {
            self.deleted_queues.insert(name.to_owned(), now);
        }
        was_there
    }

    pub(in crate::sim::aws) fn queue_url(&self, name: &str) -> String {
        format!(
            "https://sqs.{}.amazonaws.com/{}/{name}",
            self.settings.region, self.settings.account
        )
    }

    pub(in crate::sim::aws) fn queue_arn(&self, name: &str) -> String {
        format!("arn:aws:sqs:{}:{}:{name}", self.settings.region, self.settings.account)
    }
}
