//! Messages: send, receive, delete, change visibility.

use std::{collections::BTreeSet, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    admin,
    store::{Message, Queue, Received, Unchangeable},
};
use crate::{
    domain::Moment,
    sim::aws::{
        EmbeddedAws,
        answer::{ApiError, Asked},
        journal::Deletion,
        state::State,
    },
};

type Answer = Result<String, ApiError>;

/// A message may be this long (SQS developer guide, "Message quotas").
const LONGEST_BODY: usize = 1024 * 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Receive {
    queue_url: String,
    max_number_of_messages: Option<u64>,
    wait_time_seconds: Option<u64>,
    visibility_timeout: Option<u64>,
    /// The older name of the next.
    attribute_names: Vec<String>,
    message_system_attribute_names: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct One {
    queue_url: String,
    #[serde(flatten)]
    entry: Entry,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Batch {
    queue_url: String,
    entries: Vec<Entry>,
}

/// The part that a single request and an entry of a batch have in common.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Entry {
    id: String,
    receipt_handle: String,
    visibility_timeout: Option<u64>,
    message_body: String,
    delay_seconds: Option<u64>,
}

/// What is done to each entry.
type Act = fn(&mut State, Moment, &str, &Entry) -> Result<Value, ApiError>;

pub(in crate::sim::aws) async fn handle(aws: &EmbeddedAws, asked: &Asked) -> Answer {
    let body = &asked.json;
    match asked.action.as_str() {
        "ReceiveMessage" => {
            // A task of its own: SQS keeps serving a long poll after the client disconnects, and a
            // message that arrives during the wait goes to that dead connection
            // (github.com/aws/aws-sdk-js/issues/2350, github.com/aws/aws-sdk-net/issues/1680).
            let (aws, request, by) = (aws.clone(), read(body)?, asked.by.clone());
            let receive = tokio::spawn(async move { receive(&aws, &request, &by).await });
            receive
                .await
                .unwrap_or_else(|error| Err(ApiError::new("InternalError", error.to_string())))
        }
        "DeleteMessage" => one(aws, &read(body)?, delete),
        "DeleteMessageBatch" => batch(aws, &read(body)?, delete),
        "ChangeMessageVisibility" => one(aws, &read(body)?, change_visibility),
        "ChangeMessageVisibilityBatch" => batch(aws, &read(body)?, change_visibility),
        "SendMessage" => one(aws, &read(body)?, send),
        "SendMessageBatch" => batch(aws, &read(body)?, send),
        _ => aws.shared.with(|state, now| admin::handle(state, now, asked)),
    }
}

/// The name of the queue that a request is about.
pub(in crate::sim::aws) fn object(body: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    struct Which {
        queue_url: String,
        queue_name: String,
    }
    let which: Which = serde_json::from_slice(body).unwrap_or_default();
    if which.queue_name.is_empty() {
        queue_name(&which.queue_url).to_owned()
    } else {
        which.queue_name
    }
}

pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body)
        .map_err(|error| ApiError::new("SerializationException", error.to_string()))
}

/// A queue is known by the last part of its URL, whatever the host.
pub(super) fn queue_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

pub(in crate::sim::aws) fn no_such_queue() -> ApiError {
    ApiError::new("QueueDoesNotExist", "The specified queue does not exist.")
}

pub(super) fn find<'a>(state: &'a mut State, url: &str) -> Result<&'a mut Queue, ApiError> {
    state.queues.get_mut(queue_name(url)).ok_or_else(no_such_queue)
}

pub(super) fn within(
    name: &str,
    value: Option<u64>,
    least: u64,
    most: u64,
) -> Result<Option<u64>, ApiError> {
    match value {
        Some(v) if !(least..=most).contains(&v) => {
            let reason = format!("Must be between {least} and {most}, if provided.");
            Err(ApiError::new(
                "InvalidParameterValue",
                format!("Value {v} for parameter {name} is invalid. Reason: {reason}"),
            ))
        }
        ok => Ok(ok),
    }
}

/// Answers as soon as there is a message, else when the wait is over. Time passes on tokio's clock.
async fn receive(aws: &EmbeddedAws, request: &Receive, by: &str) -> Answer {
    let max = within("MaxNumberOfMessages", request.max_number_of_messages, 1, 10)?.unwrap_or(1);
    let max = usize::try_from(max).unwrap_or(1);
    let wait = within("WaitTimeSeconds", request.wait_time_seconds, 0, 20)?;
    let visibility = within("VisibilityTimeout", request.visibility_timeout, 0, 43_200)?
        .map(Duration::from_secs);
    let (wake, default_wait) = aws.shared.with(|state, _| {
        find(state, &request.queue_url).map(|q| (q.wake.clone(), q.settings.wait))
    })?;
    let deadline = Instant::now() + wait.map_or(default_wait, Duration::from_secs);
    let mut last = false;
    loop {
        let received = aws
            .shared
            .with(|state, now| take(state, now, &request.queue_url, max, visibility, by))?;
        if last || !received.messages.is_empty() {
            return Ok(render(request, &received));
        }
        last = tokio::time::timeout_at(deadline, wake.notified()).await.is_err();
    }
}

fn take(
    state: &mut State,
    now: Moment,
    url: &str,
    max: usize,
    visibility: Option<Duration>,
    by: &str,
) -> Result<Received, ApiError> {
    let State { queues, random, journal, .. } = state;
    let queue = queues.get_mut(queue_name(url)).ok_or_else(no_such_queue)?;
    let visibility = visibility.unwrap_or(queue.settings.visibility);
    let mut received = queue
        .receive(now, max, visibility, random)
        .map_err(|_| ApiError::new("OverLimit", "Too many messages are in flight."))?;
    for (_, message) in &received.messages {
        journal.delivered(&message.id, now, by);
    }
    let target = queue.settings.redrive.as_ref().map(|r| r.queue.clone());
    if let Some(dead_letters) = target.and_then(|name| queues.get_mut(&name)) {
        for message in received.dead.drain(..) {
            dead_letters.put(now, message, Duration::ZERO);
        }
    }
    Ok(received)
}

fn render(request: &Receive, received: &Received) -> String {
    let wanted = |name: &str| {
        let mut asked =
            request.attribute_names.iter().chain(&request.message_system_attribute_names);
        asked.any(|a| a == "All" || a == name)
    };
    let one = |(handle, message): &(String, Message)| {
        let mut attributes = Map::new();
        let mut put = |name: &str, value: String| {
            if wanted(name) {
                attributes.insert(name.to_owned(), value.into());
            }
        };
        put("SenderId", "AIDAEMBEDDED".to_owned());
        put("SentTimestamp", message.sent.as_millisecond().to_string());
        put("ApproximateReceiveCount", message.receive_count.to_string());
        put(
            "ApproximateFirstReceiveTimestamp",
            message.first_received.unwrap_or(message.sent).as_millisecond().to_string(),
        );
        let mut json = json!({
            "MessageId": message.id, "ReceiptHandle": handle, "MD5OfBody": message.md5,
            "Body": &*message.body
        });
        if let (false, Some(json)) = (attributes.is_empty(), json.as_object_mut()) {
            json.insert("Attributes".to_owned(), attributes.into());
        }
        json
    };
    // SQS omits `Messages` when the list is empty.
    if received.messages.is_empty() {
        "{}".to_owned()
    } else {
        json!({ "Messages": received.messages.iter().map(one).collect::<Vec<_>>() }).to_string()
    }
}

fn one(aws: &EmbeddedAws, request: &One, act: Act) -> Answer {
    let answer = aws.shared.with(|state, now| {
        find(state, &request.queue_url)?;
        act(state, now, queue_name(&request.queue_url), &request.entry)
    })?;
    Ok(answer.to_string())
}

fn batch(aws: &EmbeddedAws, request: &Batch, act: Act) -> Answer {
    aws.shared.with(|state, now| {
        find(state, &request.queue_url)?;
        check_entries(&request.entries)?;
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        for entry in &request.entries {
            match act(state, now, queue_name(&request.queue_url), entry) {
                Ok(mut answer) => {
                    if let Some(answer) = answer.as_object_mut() {
                        answer.insert("Id".to_owned(), entry.id.clone().into());
                    }
                    successful.push(answer);
                }
                Err(error) => failed.push(json!({
                    "Id": entry.id, "SenderFault": error.status < 500,
                    "Code": query_code(error.code), "Message": error.message,
                })),
            }
        }
        Ok(json!({ "Successful": successful, "Failed": failed }).to_string())
    })
}

fn check_entries(entries: &[Entry]) -> Result<(), ApiError> {
    let ids: BTreeSet<&str> = entries.iter().map(|e| e.id.as_str()).collect();
    let well_formed = |id: &str| {
        (1..=80).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if entries.is_empty() {
        return Err(ApiError::new(
            "EmptyBatchRequest",
            "There should be at least one entry in the request.",
        ));
    }
    if entries.len() > 10 {
        let message = format!(
            "Maximum number of entries per request are 10. You have sent {}.",
            entries.len()
        );
        return Err(ApiError::new("TooManyEntriesInBatchRequest", message));
    }
    if ids.len() < entries.len() {
        return Err(ApiError::new("BatchEntryIdsNotDistinct", "Id repeated."));
    }
    if !ids.into_iter().all(well_formed) {
        let message = "A batch entry id can only contain alphanumeric characters, hyphens and \
            underscores. It can be at most 80 letters long.";
        return Err(ApiError::new("InvalidBatchEntryId", message));
    }
    Ok(())
}

fn delete(state: &mut State, now: Moment, name: &str, entry: &Entry) -> Result<Value, ApiError> {
    let State { queues, random, journal, .. } = state;
    let queue = queues.get_mut(name).ok_or_else(no_such_queue)?;
    if queue.disorder.forget_delete > 0.0 && random.f64() < queue.disorder.forget_delete {
        queue
            .named_by(&entry.receipt_handle)
            .into_iter()
            .for_each(|id| journal.deletion_lost(id, now));
        return Ok(json!({}));
    }
    let deleted =
        queue.delete(&entry.receipt_handle).map_err(|_| bad_handle(&entry.receipt_handle))?;
    if deleted.is_none() {
        queue
            .named_by(&entry.receipt_handle)
            .into_iter()
            .for_each(|id| journal.deletion_lost(id, now));
    }
    if let Some(message) = deleted {
        journal.deletion(|| Deletion {
            at: now,
            queue: name.to_owned(),
            message_id: message.id,
            body: message.body,
            sent: message.sent,
            receive_count: message.receive_count,
        });
    }
    Ok(json!({}))
}

fn change_visibility(
    state: &mut State,
    now: Moment,
    name: &str,
    entry: &Entry,
) -> Result<Value, ApiError> {
    let seconds =
        within("VisibilityTimeout", entry.visibility_timeout, 0, 43_200)?.ok_or_else(|| {
            ApiError::new(
                "MissingParameter",
                "The request must contain the parameter VisibilityTimeout.",
            )
        })?;
    let handle = &entry.receipt_handle;
    find(state, name)?.change_visibility(now, handle, Duration::from_secs(seconds)).map_err(
        |why| match why {
            Unchangeable::BadHandle => bad_handle(handle),
            Unchangeable::NotInFlight => {
                ApiError::new("MessageNotInflight", "The message referred to is not in flight.")
            }
            Unchangeable::Deleted => invalid(
                handle,
                "ReceiptHandle",
                "Message does not exist or is not available for visibility timeout change.",
            ),
            Unchangeable::BeyondLimit => invalid(
                &seconds.to_string(),
                "VisibilityTimeout",
                "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
            ),
        },
    )?;
    Ok(json!({}))
}

fn send(state: &mut State, now: Moment, name: &str, entry: &Entry) -> Result<Value, ApiError> {
    let body = &entry.message_body;
    if body.is_empty() {
        return Err(ApiError::new(
            "MissingParameter",
            "The request must contain the parameter MessageBody.",
        ));
    }
    if body.len() > LONGEST_BODY {
        let message = format!(
            "One or more parameters are invalid. Reason: Message must be shorter than \
             {LONGEST_BODY} bytes."
        );
        return Err(ApiError::new("InvalidParameterValue", message));
    }
    let delay = within("DelaySeconds", entry.delay_seconds, 0, 900)?.map(Duration::from_secs);
    let message = Message::new(state.uuid(), body, state.aws_time(now));
    let answer = json!({ "MessageId": message.id, "MD5OfMessageBody": message.md5 });
    let delay = delay.unwrap_or(find(state, name)?.settings.delay);
    state.put_message(now, name, message, delay);
    Ok(answer)
}

fn bad_handle(handle: &str) -> ApiError {
    ApiError::new(
        "ReceiptHandleIsInvalid",
        format!("The input receipt handle \"{handle}\" is not a valid receipt handle."),
    )
}

fn invalid(value: &str, parameter: &str, reason: &str) -> ApiError {
    ApiError::new(
        "InvalidParameterValue",
        format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}"),
    )
}

/// The body of an error, and the header by which clients of the former Query protocol know it.
pub(in crate::sim::aws) fn error_body(error: &ApiError, kind: &str) -> (String, String) {
    let body =
        json!({ "__type": format!("com.amazonaws.sqs#{}", error.code), "message": error.message })
            .to_string();
    (body, format!("{};{kind}", query_code(error.code)))
}

/// The code of the former Query protocol for a shape (SQS service model, `awsQueryError`).
fn query_code(shape: &str) -> String {
    match shape {
        "QueueDoesNotExist" => "AWS.SimpleQueueService.NonExistentQueue".to_owned(),
        "BatchEntryIdsNotDistinct"
        | "EmptyBatchRequest"
        | "InvalidBatchEntryId"
        | "MessageNotInflight"
        | "PurgeQueueInProgress"
        | "QueueDeletedRecently"
        | "TooManyEntriesInBatchRequest"
        | "UnsupportedOperation" => format!("AWS.SimpleQueueService.{shape}"),
        "QueueNameExists" => "QueueAlreadyExists".to_owned(),
        "AccessDeniedException" => "AccessDenied".to_owned(),
        "ExpiredTokenException" => "ExpiredToken".to_owned(),
        other => other.to_owned(),
    }
}
