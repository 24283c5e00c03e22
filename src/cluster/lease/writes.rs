//! Decides whether a write may be sent, and counts the writes under way.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    domain::{Moment, seconds},
    runtime::Clock,
};

/// How long a request may take to reach the server. A write times out this long before another
/// process may lead.
const ON_THE_WAY: Duration = seconds(1);

/// Knows whether this process may write now. Asked before each write to Kubernetes and to AWS.
#[derive(Debug, Clone)]
pub struct WriteGuard {
    pub(super) clock: Clock,
    pub(super) until: watch::Receiver<Option<Moment>>,
    pub(super) heartbeats_only: watch::Receiver<bool>,
    /// The time from the renew deadline until another process may lead.
    pub(super) reserve: Duration,
    pub(super) under_way: UnderWay,
}

impl WriteGuard {
    /// Whether this process leads and its last renewal was in time.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.until.borrow().is_some_and(|until| self.clock.now() < until)
    }

    /// How long a write that is sent now may take: until one second before another process may
    /// lead. `None`: this process may not write.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let until = (*self.until.borrow())?;
        let now = self.clock.now();
        (now < until)
            .then(|| until.plus(self.reserve).since_or_zero(now).saturating_sub(ON_THE_WAY))
    }

    /// Permits one write, to be sent now. Until the permit is dropped, the lease is not given up
    /// voluntarily. `None`: this process may not write.
    #[must_use]
    pub fn permit(&self) -> Option<WritePermit> {
        // The write is counted before the guard is asked, because the keeper closes the guard
        // before it reads the count.
        let counted = self.under_way.begin();
        Some(WritePermit { limit: self.time_left()?, _counted: Some(counted) })
    }

    /// Whether this process may keep lifecycle actions open: it leads, or it led and no other
    /// process is known to lead (ADR 10).
    #[must_use]
    pub fn may_send_heartbeats(&self) -> bool {
        self.until.borrow().is_some() || *self.heartbeats_only.borrow()
    }
}

/// The right to make one write. The caller holds it until the write is answered or can no longer
/// have an effect.
#[derive(Debug)]
pub struct WritePermit {
    limit: Duration,
    _counted: Option<Counted>,
}

impl WritePermit {
    /// A permit that is not counted: giving the lease up does not wait for it.
    #[must_use]
    pub const fn within(limit: Duration) -> Self {
        Self { limit, _counted: None }
    }

    /// How long the write may take, from when the permit was given.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }
}

/// The number of writes under way.
#[derive(Debug, Clone)]
pub(super) struct UnderWay(Arc<watch::Sender<usize>>);

impl Default for UnderWay {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl UnderWay {
    fn begin(&self) -> Counted {
        self.0.send_modify(|count| *count += 1);
        Counted(self.clone())
    }

    pub(super) fn is_none(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Waits until no write is under way.
    pub(super) async fn none(&self) {
        // This cannot fail: the sender lives as long as `self`.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }
}

/// One write that is under way.
#[derive(Debug)]
struct Counted(UnderWay);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
