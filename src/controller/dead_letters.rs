//! How many messages the dead-letter queues hold (`--dlq-url`).

use std::{sync::Arc, time::Duration};

use tracing::{info, warn};

use crate::{
    aws::{Advice, AwsError, Queue},
    domain::seconds,
    observe::Metrics,
};

/// How often each queue is asked, as often as CloudWatch does.
const EVERY: Duration = seconds(60);
/// Of errors in a row, the first and every 30th after it are logged.
const LOG_EVERY: u32 = 30;

/// Asks every dead-letter queue for its depth, on every replica, for as long as the process lives:
/// people must see the depth also while nobody leads. While a queue cannot be asked, the metric
/// shows no depth, because an old number would be misleading.
pub(super) async fn follow(queues: Vec<Queue>, metrics: Arc<Metrics>) {
    futures::future::join_all(queues.iter().map(|queue| follow_one(queue, &metrics))).await;
}

async fn follow_one(queue: &Queue, metrics: &Metrics) {
    let mut failed = 0_u32;
    loop {
        match queue.attributes().await {
            Ok(attributes) => {
                if std::mem::take(&mut failed) > 0 {
                    info!(queue = queue.name(), "The dead-letter queue can be asked again.");
                }
                metrics.set_dead_letters(queue.name(), Some(attributes.visible));
            }
            Err(error) => {
                if failed.is_multiple_of(LOG_EVERY) {
                    log(queue, &error);
                }
                failed = failed.wrapping_add(1);
                metrics.set_dead_letters(queue.name(), None);
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn log(queue: &Queue, error: &AwsError) {
    let remedy = match error.advice() {
        Advice::Denied => "allow sqs:GetQueueAttributes on it in the role's policy",
        Advice::Gone => "check --dlq-url, its region and its account",
        Advice::Retry => "nothing, unless it lasts",
    };
    warn!(
        queue = queue.name(), %error, remedy,
        "The dead-letter queue cannot be asked for its depth; trying again. Drains do not need \
         it.");
}
