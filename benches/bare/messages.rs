//! Receives and deletes of a queue.

use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry as Entry, Message};
use aws_smithy_async::rt::sleep::{SharedAsyncSleep, TokioSleep};
use aws_smithy_runtime_api::client::stalled_stream_protection::StalledStreamProtectionConfig;
use futures::{FutureExt as _, future::join_all};
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{RECEIVES, Work};

/// All that a queue has: received, and deleted or not.
#[derive(Debug, Serialize, Deserialize)]
pub struct Messages {
    /// The embedded AWS.
    pub endpoint: String,
    /// The URL of the queue.
    pub queue: String,
    pub delete: bool,
}

impl Messages {
    pub(super) async fn prepare(self) -> Work {
        let sqs = aws_sdk_sqs::Client::new(&config(&self.endpoint));
        // Opens the connections; a queue that has nobody's messages hidden loses nothing by it.
        let ask = |_| sqs.get_queue_attributes().queue_url(&self.queue).send();
        for answer in join_all((0..RECEIVES).map(ask)).await {
            answer.unwrap();
        }
        let deletes = Arc::new(Semaphore::new(RECEIVES));
        async move {
            let receiver = |_| {
                tokio::spawn(receive_all(
                    sqs.clone(),
                    self.queue.clone(),
                    self.delete.then(|| Arc::clone(&deletes)),
                ))
            };
            for receiver in join_all((0..RECEIVES).map(receiver)).await {
                receiver.unwrap();
            }
        }
        .boxed()
    }
}

/// The SDK as plain as it comes.
fn config(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("AKIABARE", "not-a-secret", None, None, "bare");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}

/// Receives until nothing comes; deletes beside that.
async fn receive_all(sqs: aws_sdk_sqs::Client, queue: String, deletes: Option<Arc<Semaphore>>) {
    let mut deleting = JoinSet::new();
    loop {
        let received = sqs
            .receive_message()
            .queue_url(&queue)
            .max_number_of_messages(10)
            .send()
            .await
            .unwrap();
        let received = received.messages.unwrap_or_default();
        if received.is_empty() {
            break;
        }
        if let Some(deletes) = &deletes {
            let slot = Arc::clone(deletes).acquire_owned().await.unwrap();
            let (sqs, queue) = (sqs.clone(), queue.clone());
            deleting.spawn(async move {
                let entries: Vec<_> = received.iter().enumerate().map(entry).collect();
                sqs.delete_message_batch()
                    .queue_url(queue)
                    .set_entries(Some(entries))
                    .send()
                    .await
                    .unwrap();
                drop(slot);
            });
        }
    }
    while let Some(deleted) = deleting.join_next().await {
        deleted.unwrap();
    }
}

fn entry((i, message): (usize, &Message)) -> Entry {
    Entry::builder()
        .id(i.to_string())
        .set_receipt_handle(message.receipt_handle.clone())
        .build()
        .unwrap()
}
