//! The API server's clock.

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, header};
use jiff::SignedDuration;

use crate::domain::{Moment, SteadySkew};

/// How far the API server's clock is from ours, by the `Date` header of its answers. Clones share
/// one estimate.
#[derive(Debug, Clone, Default)]
pub(in crate::cluster) struct ServerClock(Arc<Mutex<SteadySkew>>);

impl ServerClock {
    /// An answer with these headers came at `now` to a request of `sent`.
    pub(super) fn saw(&self, headers: &HeaderMap, sent: Moment, now: Moment) {
        if let Some(date) = headers.get(header::DATE).and_then(|date| date.to_str().ok()) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).saw(date, sent, now);
        }
    }

    /// A time in an object of the cluster, by our clock; controllers are taken to have the clock of
    /// the API server. The same where the difference is under 2 s or not known.
    pub(in crate::cluster) fn to_ours(&self, at: Moment) -> Moment {
        at - self.skew()
    }

    /// The API server's time less ours; zero where that is under 2 s or not known.
    pub(in crate::cluster) fn skew(&self) -> SignedDuration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).skew()
    }
}
