//! How tasks are started and ended.

use std::{future::Future, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Starts tasks, and knows when all of them have ended.
#[derive(Debug, Clone, Default)]
pub struct Spawner {
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Spawner {
    /// A spawner without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task. Dropping the handle does not end it ([`Self::spawn_scoped`] does that).
    pub fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let end = self.end.clone();
        // Boxed once: otherwise each layer around the task would hold it twice, as its argument and
        // as the future that it polls.
        let task = Box::pin(task);
        self.tasks.spawn(async move {
            match end.run_until_cancelled_owned(task).await {
                Some(output) => output,
                // Killed: the handle of this task never resolves.
                None => std::future::pending().await,
            }
        })
    }

    /// Starts a task that ends when the handle is dropped.
    pub fn spawn_scoped<F>(&self, task: F) -> tokio_util::task::AbortOnDropHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio_util::task::AbortOnDropHandle::new(self.spawn(task))
    }

    /// Waits until all tasks have ended, but no longer than `limit`; returns whether they have.
    pub async fn finished(&self, limit: Duration) -> bool {
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }

    /// Ends every task at once, as the end of the process would: no task can clean up first.
    pub fn kill(&self) {
        self.end.cancel();
    }
}
