//! The one place through which all heartbeats and completions of a term go out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    lifecycle::{BEAT_RATE, Pace, TAKE_UP_RATE, Turn},
    runtime::{Clock, Spawner},
};

/// Two lines: one for the first heartbeats of what was taken up, one for all others and for
/// completions.
#[derive(Clone)]
pub(super) struct Pacer {
    take_ups: Line,
    others: Line,
}

#[derive(Clone)]
struct Line {
    pace: Arc<Mutex<Pace<oneshot::Sender<()>>>>,
    more: Arc<Notify>,
}

impl Pacer {
    /// Lets calls go until `end`.
    pub(super) fn start(clock: Clock, spawner: &Spawner, end: &CancellationToken) -> Self {
        let line = |rate| {
            let line = Line { pace: Arc::new(Mutex::new(Pace::new(rate))), more: Arc::default() };
            let (task, end) = (line.clone(), end.clone());
            drop(spawner.spawn(async move { end.run_until_cancelled(task.let_go(clock)).await }));
            line
        };
        Self { take_ups: line(TAKE_UP_RATE), others: line(BEAT_RATE) }
    }

    /// Waits for its turn. Who stops waiting loses nothing but its place.
    pub(super) async fn turn(&self, turn: Turn) {
        let line = if turn.is_take_up { &self.take_ups } else { &self.others };
        let (go, going) = oneshot::channel();
        line.pace().enter(turn, go);
        line.more.notify_one();
        if going.await.is_err() {
            // The end: nobody is let go any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Line {
    fn pace(&self) -> MutexGuard<'_, Pace<oneshot::Sender<()>>> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn let_go(self, clock: Clock) {
        loop {
            let next = {
                let mut pace = self.pace();
                pace.retain(|who| !who.is_closed());
                pace.next_at()
            };
            let now = clock.now();
            match next {
                None => self.more.notified().await,
                Some(at) if at > now => tokio::select! {
                    () = clock.sleep_until(at) => {}
                    () = self.more.notified() => {}
                },
                Some(_) => drop(self.pace().pop(now).map(|who| who.send(()))),
            }
        }
    }
}
