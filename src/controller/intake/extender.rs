//! Keeps what is undecided invisible to others.

use std::time::Duration;

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{IntakeEvent, backoff, ledger::Key, writer::Desk};
use crate::aws::{Advice, queue::BATCH};

/// Calls in flight.
const IN_FLIGHT: usize = 8;
/// What is due within this is extended now, so that batches fill.
const AHEAD: Duration = Duration::from_secs(1);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Extends what is held at half of its visibility timeout, for ever.
pub(super) async fn run(desk: Desk, visibility: Duration) {
    let mut flying = FuturesUnordered::new();
    loop {
        while flying.len() < IN_FLIGHT {
            let soon = if desk.ledger.next_due().is_some_and(|at| at <= Instant::now()) {
                AHEAD.min(visibility / 10)
            } else {
                Duration::ZERO
            };
            let due = desk.ledger.take_due(Instant::now() + soon, BATCH);
            for _ in 0..due.too_old {
                desk.tell(IntakeEvent::HeldTooLong);
            }
            if due.keys.is_empty() {
                break;
            }
            flying.push(extend(desk.clone(), due.keys, visibility));
        }
        let (room, next) = (flying.len() < IN_FLIGHT, desk.ledger.next_due());
        tokio::select! {
            biased;
            Some(()) = flying.next(), if !flying.is_empty() => {}
            () = tokio::time::sleep_until(
                next.unwrap_or_else(Instant::now)
            ), if room && next.is_some() => {}
            () = desk.ledger.bell.notified(), if next.is_none() => {}
        }
    }
}

/// Extends messages until SQS has done it, or until they are visible again.
async fn extend(desk: Desk, mut keys: Vec<Key>, visibility: Duration) {
    let visible_at = Instant::now() + visibility / 2;
    let mut backoff = backoff(LONGEST_PAUSE);
    loop {
        let batch: Vec<_> =
            keys.iter().filter_map(|key| Some((*key, desk.ledger.receipt(*key)?))).collect();
        let messages: Vec<_> =
            batch.iter().map(|(_, receipt)| (receipt.clone(), visibility)).collect();
        let asked = Instant::now();
        match desk.queue.change_visibility_batch(&messages).await {
            Ok(failed) => {
                let refused = failed.iter().filter(|f| f.sender_fault).count();
                for (index, (key, receipt)) in batch.iter().enumerate() {
                    if !failed.iter().any(|f| f.index == index) {
                        desk.ledger.extended(*key, receipt, asked);
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
                    desk.tell(IntakeEvent::Extended(extended));
                }
                if refused > 0 {
                    // Visible again, or received by somebody else. A copy that comes to us is held
                    // as before.
                    desk.tell(IntakeEvent::Lost(refused));
                }
            }
            Err(error) => {
                desk.complain(&error, "Could not keep messages invisible to others; trying again.");
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
        desk.tell(IntakeEvent::ExtendRetried(keys.len()));
        tokio::time::sleep(backoff.pause(&desk.random)).await;
    }
    desk.tell(IntakeEvent::Lost(keys.len()));
}
