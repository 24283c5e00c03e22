//! Decides whether a write may be sent, and counts the writes under way.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{Leadership, LeaseState};
use crate::{domain::seconds, runtime::Clock};

/// How long a request may take to reach the server. A write times out this long before another
/// process may lead.
const ON_THE_WAY: Duration = seconds(1);

/// Knows whether this process may write now. Asked before each write to Kubernetes and to AWS,
/// except those of the Lease itself.
#[derive(Debug, Clone)]
pub struct WriteGuard(Rule);

#[derive(Debug, Clone)]
enum Rule {
    /// Writes are permitted while this process leads.
    Leader {
        clock: Clock,
        state: watch::Receiver<LeaseState>,
        /// The time from the renew deadline until another process may lead.
        reserve: Duration,
        writes: OpenWrites,
    },
    /// Every write is permitted, and may take this long.
    Always(Duration),
    /// No write is permitted.
    Never,
}

impl WriteGuard {
    pub(super) const fn of_leader(
        clock: Clock,
        state: watch::Receiver<LeaseState>,
        reserve: Duration,
        writes: OpenWrites,
    ) -> Self {
        Self(Rule::Leader { clock, state, reserve, writes })
    }

    /// Permits every write, for operator commands and tests.
    #[must_use]
    pub const fn open() -> Self {
        Self::within(Duration::MAX)
    }

    /// Permits every write for at most this time.
    #[must_use]
    pub const fn within(limit: Duration) -> Self {
        Self(Rule::Always(limit))
    }

    /// Permits no write and no heartbeat, for a dry run.
    #[must_use]
    pub const fn closed() -> Self {
        Self(Rule::Never)
    }

    /// Permits one write, to be sent now, until one second before another process may lead. Until
    /// the permit is dropped, the lease is not given up voluntarily. `None`: this process does not
    /// lead, or its last renewal was not in time.
    #[must_use]
    pub fn permit(&self) -> Option<WritePermit> {
        // The write is counted before the state is read, because the task of the Lease publishes
        // the loss of leadership before it reads the count.
        let counted = match &self.0 {
            Rule::Leader { writes, .. } => Some(writes.begin()),
            Rule::Always(_) | Rule::Never => None,
        };
        Some(WritePermit { counted, ..self.permit_uncounted()? })
    }

    /// [`Self::permit`] for a write for which giving the lease up does not wait.
    #[must_use]
    pub fn permit_uncounted(&self) -> Option<WritePermit> {
        let limit = match &self.0 {
            Rule::Always(limit) => *limit,
            Rule::Never => return None,
            Rule::Leader { clock, state, reserve, .. } => {
                let Leadership::Leader { writes_until, .. } = state.borrow().leadership else {
                    return None;
                };
                let now = clock.now();
                if now >= writes_until {
                    return None;
                }
                writes_until.plus(*reserve).since_or_zero(now).saturating_sub(ON_THE_WAY)
            }
        };
        Some(WritePermit { limit, counted: None })
    }

    /// Whether this process may keep lifecycle actions open: it leads, or it led and no other
    /// process is known to lead (ADR 10). If another process leads already, its heartbeats do no
    /// harm.
    #[must_use]
    pub fn may_send_heartbeats(&self) -> bool {
        match &self.0 {
            Rule::Always(_) => true,
            Rule::Never => false,
            Rule::Leader { state, .. } => {
                !matches!(state.borrow().leadership, Leadership::Standby { .. })
            }
        }
    }
}

/// The right to make one write. The caller holds it until the write is answered or can no longer
/// have an effect.
#[derive(Debug)]
pub struct WritePermit {
    limit: Duration,
    #[expect(dead_code, reason = "held until it is dropped")]
    counted: Option<OpenWrite>,
}

impl WritePermit {
    /// How long the write may take, from when the permit was given.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }
}

/// The number of writes that have begun and not ended.
#[derive(Debug, Clone)]
pub(super) struct OpenWrites(Arc<watch::Sender<usize>>);

impl Default for OpenWrites {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl OpenWrites {
    fn begin(&self) -> OpenWrite {
        self.0.send_modify(|count| *count += 1);
        OpenWrite(self.clone())
    }

    /// Whether every write has ended.
    pub(super) fn have_ended(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Waits until every write has ended.
    pub(super) async fn ended(&self) {
        // This cannot fail: the sender lives as long as `self`.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }
}

/// One write that has begun. It ends when this is dropped.
#[derive(Debug)]
struct OpenWrite(OpenWrites);

impl Drop for OpenWrite {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
