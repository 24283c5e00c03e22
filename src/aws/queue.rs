//! SQS: one queue.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry,
    DeleteMessageBatchRequestEntry, Message as SqsMessage, MessageSystemAttributeName,
    QueueAttributeName,
};

use super::{Api, AwsError, Body, ByteLimit, call::Caller, receiving::Share};
use crate::domain::Moment;

/// How many messages or entries one call carries at most.
pub(crate) const BATCH: usize = 10;
/// How long a call other than a receive may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How much longer a receive may take than the wait that it asks for.
const RECEIVE_MARGIN: Duration = Duration::from_secs(10);

/// The receipt handle by which a message is deleted or its visibility is changed. Each receive
/// gives a new one, and only the newest is sure to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt(Arc<str>);

impl Receipt {
    /// A receipt that no queue has issued. A call with it does no harm, and the answer shows
    /// whether the call is allowed.
    #[must_use]
    pub fn bogus() -> Self {
        Self("c3VuZG93bi1jaGVjaw".into())
    }
}

/// A message as it was received.
#[derive(Debug)]
pub struct Message {
    /// `MessageId`: the same whenever the message is received again.
    pub id: Arc<str>,
    /// The receipt of this receive.
    pub receipt: Receipt,
    /// What the sender put in: not trusted.
    pub body: Body,
    /// `SentTimestamp`, by AWS's clock; `None` if AWS did not send it.
    pub sent: Option<Moment>,
    /// `ApproximateReceiveCount`; 1 if AWS did not send it.
    pub receive_count: u32,
}

/// An entry of a batch that failed although the call succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFailure {
    /// The index of the entry in the batch.
    pub index: usize,
    /// The receipt is wrong (expired, or replaced by a newer one), so trying again cannot help.
    pub sender_fault: bool,
    /// AWS's error code.
    pub code: String,
}

/// The attributes that Sundown reads by `GetQueueAttributes`. A count that AWS did not send is 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueAttributes {
    /// `ApproximateNumberOfMessages`.
    pub visible: u64,
    /// `ApproximateNumberOfMessagesNotVisible`.
    pub in_flight: u64,
    /// `ApproximateNumberOfMessagesDelayed`.
    pub delayed: u64,
    /// `RedrivePolicy`, the JSON text; `None`: the queue has no dead-letter queue.
    pub redrive_policy: Option<String>,
}

/// A client for one queue.
#[derive(Debug, Clone)]
pub struct Queue {
    client: aws_sdk_sqs::Client,
    caller: Caller,
    url: Arc<str>,
}

impl Queue {
    pub(super) fn new(client: aws_sdk_sqs::Client, caller: Caller, url: &str) -> Self {
        Self { client, caller, url: url.into() }
    }

    /// The queue URL, as in the configuration.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name of the queue: the last part of the URL. For logs and metric labels.
    #[must_use]
    pub fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }

    /// Receives up to `max` messages (1 to 10) and waits up to `wait` (at most 20 s) for the first.
    /// The messages stay invisible to other receivers for `visibility`. The answer is read as soon
    /// as it fits into `limit`.
    pub async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: Duration,
        limit: &ByteLimit,
    ) -> Result<Vec<Message>, AwsError> {
        let (gate, share) = limit.gate();
        let request = self
            .client
            .receive_message()
            .queue_url(&*self.url)
            .max_number_of_messages(whole(max.clamp(1, BATCH) as u64))
            .wait_time_seconds(whole(wait.as_secs().min(20)))
            .visibility_timeout(whole(visibility.as_secs()))
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        let answer = self
            .caller
            .call(
                Api::ReceiveMessage,
                self.name(),
                wait + RECEIVE_MARGIN,
                request.customize().interceptor(gate).send(),
            )
            .await?;
        Ok(answer
            .messages
            .unwrap_or_default()
            .into_iter()
            .filter_map(|m| message(m, &share))
            .collect())
    }

    /// Deletes up to 10 messages. Returns the entries that failed.
    pub async fn delete_batch(&self, receipts: &[Receipt]) -> Result<Vec<EntryFailure>, AwsError> {
        if receipts.is_empty() {
            return Ok(Vec::new());
        }
        let entries = receipts.iter().enumerate().filter_map(|(i, r)| {
            DeleteMessageBatchRequestEntry::builder()
                .id(i.to_string())
                .receipt_handle(&*r.0)
                .build()
                .ok()
        });
        let request = self
            .client
            .delete_message_batch()
            .queue_url(&*self.url)
            .set_entries(Some(entries.collect()));
        let answer =
            self.caller.call(Api::DeleteMessageBatch, self.name(), LIMIT, request.send()).await?;
        Ok(failures(&answer.failed))
    }

    /// Hides up to 10 messages, each for its duration from now (in whole seconds); zero makes a
    /// message visible at once. Returns the entries that failed.
    pub async fn change_visibility_batch(
        &self,
        messages: &[(Receipt, Duration)],
    ) -> Result<Vec<EntryFailure>, AwsError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let entries = messages.iter().enumerate().filter_map(|(i, (receipt, hidden))| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(i.to_string())
                .receipt_handle(&*receipt.0);
            entry.visibility_timeout(whole(hidden.as_secs())).build().ok()
        });
        let request = self
            .client
            .change_message_visibility_batch()
            .queue_url(&*self.url)
            .set_entries(Some(entries.collect()));
        let answer = self
            .caller
            .call(Api::ChangeMessageVisibilityBatch, self.name(), LIMIT, request.send())
            .await?;
        Ok(failures(&answer.failed))
    }

    /// Reads the attributes that show whether the queue exists and may be used, and how many
    /// messages it has.
    pub async fn attributes(&self) -> Result<QueueAttributes, AwsError> {
        let request = self
            .client
            .get_queue_attributes()
            .queue_url(&*self.url)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessages)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesDelayed)
            .attribute_names(QueueAttributeName::RedrivePolicy);
        let answer =
            self.caller.call(Api::GetQueueAttributes, self.name(), LIMIT, request.send()).await?;
        let text = |name| answer.attributes.as_ref().and_then(|all| all.get(&name));
        let number = |name| text(name).and_then(|n| n.parse().ok()).unwrap_or_default();
        Ok(QueueAttributes {
            visible: number(QueueAttributeName::ApproximateNumberOfMessages),
            in_flight: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
            delayed: number(QueueAttributeName::ApproximateNumberOfMessagesDelayed),
            redrive_policy: text(QueueAttributeName::RedrivePolicy).cloned(),
        })
    }

    /// Reads all attributes of the queue, by their names in the API.
    pub async fn all_attributes(&self) -> Result<BTreeMap<String, String>, AwsError> {
        let request = self
            .client
            .get_queue_attributes()
            .queue_url(&*self.url)
            .attribute_names(QueueAttributeName::All);
        let answer =
            self.caller.call(Api::GetQueueAttributes, self.name(), LIMIT, request.send()).await?;
        Ok(answer
            .attributes
            .unwrap_or_default()
            .into_iter()
            .map(|(name, value)| (name.as_str().to_owned(), value))
            .collect())
    }

    /// Sends a message and returns its id. Only `sundown send-test` calls this.
    pub async fn send(&self, body: &str) -> Result<String, AwsError> {
        let request = self.client.send_message().queue_url(&*self.url).message_body(body);
        let answer = self.caller.call(Api::SendMessage, self.name(), LIMIT, request.send()).await?;
        Ok(answer.message_id.unwrap_or_default())
    }
}

fn whole(n: u64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// `None` for a message without id or receipt: Sundown could not delete it.
fn message(m: SqsMessage, share: &Share) -> Option<Message> {
    let attribute = |name| m.attributes.as_ref().and_then(|all| all.get(&name));
    let sent = attribute(MessageSystemAttributeName::SentTimestamp)
        .and_then(|ms| Moment::from_millisecond(ms.parse().ok()?).ok());
    let receive_count = attribute(MessageSystemAttributeName::ApproximateReceiveCount)
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    let body = share.body(m.body.unwrap_or_default());
    Some(Message {
        sent,
        receive_count,
        id: m.message_id?.into(),
        receipt: Receipt(m.receipt_handle?.into()),
        body,
    })
}

fn failures(failed: &[BatchResultErrorEntry]) -> Vec<EntryFailure> {
    failed
        .iter()
        .filter_map(|f| {
            Some(EntryFailure {
                index: f.id().parse().ok()?,
                sender_fault: f.sender_fault(),
                code: f.code().to_owned(),
            })
        })
        .collect()
}
