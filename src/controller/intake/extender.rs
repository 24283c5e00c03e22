//! Keeps undecided messages invisible to other readers of the queue.

use std::time::Duration;

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{IntakeEvent, backoff, held::Key, writer::IntakeQueue};
use crate::aws::{Advice, queue::BATCH};

/// The most calls in flight.
const IN_FLIGHT: usize = 8;
/// When one message is due, those due within this time are extended with it, so that batches fill.
const AHEAD: Duration = Duration::from_secs(1);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Extends each held message when half of its visibility timeout has passed. Never returns.
pub(super) async fn run(queue: IntakeQueue, visibility: Duration) {
    let mut flying = FuturesUnordered::new();
    loop {
        while flying.len() < IN_FLIGHT {
            let soon = if queue.held.next_due().is_some_and(|at| at <= Instant::now()) {
                AHEAD.min(visibility / 10)
            } else {
                Duration::ZERO
            };
            let due = queue.held.take_due(Instant::now() + soon, BATCH);
            for _ in 0..due.too_old {
                queue.report(IntakeEvent::HeldTooLong);
            }
            if due.keys.is_empty() {
                break;
            }
            flying.push(extend(queue.clone(), due.keys, visibility));
        }
        let (room, next) = (flying.len() < IN_FLIGHT, queue.held.next_due());
        tokio::select! {
            biased;
            Some(()) = flying.next(), if !flying.is_empty() => {}
            () = tokio::time::sleep_until(
                next.unwrap_or_else(Instant::now)
            ), if room && next.is_some() => {}
            () = queue.held.due_added.notified(), if next.is_none() => {}
        }
    }
}

/// Extends messages. Retries until SQS has extended them or they are visible again.
async fn extend(queue: IntakeQueue, mut keys: Vec<Key>, visibility: Duration) {
    let visible_at = Instant::now() + visibility / 2;
    let mut backoff = backoff(LONGEST_PAUSE);
    loop {
        let batch: Vec<_> =
            keys.iter().filter_map(|key| Some((*key, queue.held.receipt(*key)?))).collect();
        let messages: Vec<_> =
            batch.iter().map(|(_, receipt)| (receipt.clone(), visibility)).collect();
        let asked = Instant::now();
        match queue.sqs.change_visibility_batch(&messages).await {
            Ok(failed) => {
                let refused = failed.iter().filter(|f| f.sender_fault).count();
                for (index, (key, receipt)) in batch.iter().enumerate() {
                    if !failed.iter().any(|f| f.index == index) {
                        queue.held.extended(*key, receipt, asked);
                    }
                }
                keys = failed
                    .iter()
                    .filter(|f| !f.sender_fault)
                    .filter_map(|f| batch.get(f.index))
                    .map(|(key, _)| *key)
                    .collect();
                let extended = batch.len().saturating_sub(failed.len());
                if extended > 0 {
                    queue.report(IntakeEvent::Extended(extended));
                }
                if refused > 0 {
                    // These are visible again, or another reader has received them. If a copy comes
                    // to this process, it is held as before.
                    queue.report(IntakeEvent::Lost(refused));
                }
            }
            Err(error) => {
                queue.log_error(
                    &error,
                    "Could not keep messages invisible to others; trying again.",
                );
                if error.advice() == Advice::Gone {
                    break;
                }
                keys = batch.into_iter().map(|(key, _)| key).collect();
            }
        }
        if keys.is_empty() {
            return;
        }
        if Instant::now() >= visible_at {
            break;
        }
        queue.report(IntakeEvent::ExtendRetried(keys.len()));
        tokio::time::sleep(backoff.pause(&queue.random)).await;
    }
    queue.report(IntakeEvent::Lost(keys.len()));
}
