//! Limits the rate at which all heartbeats and completions of a term are sent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    lifecycle::{CallPriority, HEARTBEAT_RATE, Pace, TAKE_OVER_RATE},
    runtime::{Clock, Spawner},
};

/// Two queues: one for the first heartbeats of actions that were taken over, one for all other
/// heartbeats and for completions.
#[derive(Clone)]
pub(super) struct Pacer {
    take_overs: PacedQueue,
    others: PacedQueue,
}

#[derive(Clone)]
struct PacedQueue {
    pace: Arc<Mutex<Pace<oneshot::Sender<()>>>>,
    more: Arc<Notify>,
}

impl Pacer {
    /// Starts the two queues. They run until `end`.
    pub(super) fn start(clock: Clock, spawner: &Spawner, end: &CancellationToken) -> Self {
        let queue = |rate| {
            let queue =
                PacedQueue { pace: Arc::new(Mutex::new(Pace::new(rate))), more: Arc::default() };
            let (task, end) = (queue.clone(), end.clone());
            drop(spawner.spawn(async move { end.run_until_cancelled(task.run(clock)).await }));
            queue
        };
        Self { take_overs: queue(TAKE_OVER_RATE), others: queue(HEARTBEAT_RATE) }
    }

    /// Waits until a call may be sent. A caller that stops waiting loses only its place.
    pub(super) async fn wait(&self, priority: CallPriority) {
        let queue = if priority.is_take_over { &self.take_overs } else { &self.others };
        let (go, signal) = oneshot::channel();
        queue.pace().enter(priority, go);
        queue.more.notify_one();
        if signal.await.is_err() {
            // The queues have ended: no more calls are sent.
            std::future::pending::<()>().await;
        }
    }
}

impl PacedQueue {
    fn pace(&self) -> MutexGuard<'_, Pace<oneshot::Sender<()>>> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self, clock: Clock) {
        loop {
            let next = {
                let mut pace = self.pace();
                pace.retain(|sender| !sender.is_closed());
                pace.next_at()
            };
            let now = clock.now();
            match next {
                None => self.more.notified().await,
                Some(at) if at > now => tokio::select! {
                    () = clock.sleep_until(at) => {}
                    () = self.more.notified() => {}
                },
                Some(_) => drop(self.pace().pop(now).map(|sender| sender.send(()))),
            }
        }
    }
}
