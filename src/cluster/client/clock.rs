//! Compares the API server's clock with ours.

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, header};
use jiff::SignedDuration;

use crate::domain::{Moment, SteadySkew};

/// The difference between the API server's clock and ours, by the `Date` headers of its answers.
/// Clones share one estimate.
#[derive(Debug, Clone, Default)]
pub(in crate::cluster) struct ServerClock(Arc<Mutex<SteadySkew>>);

impl ServerClock {
    /// Records the `Date` header of an answer that came at `now` to a request sent at `sent`.
    pub(super) fn saw(&self, headers: &HeaderMap, sent: Moment, now: Moment) {
        if let Some(date) = headers.get(header::DATE).and_then(|date| date.to_str().ok()) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).saw(date, sent, now);
        }
    }

    /// Converts a time in an object of the cluster to our clock. Controllers are assumed to have
    /// the clock of the API server. Changes nothing if the difference is under 2 s or not known.
    pub(in crate::cluster) fn to_ours(&self, at: Moment) -> Moment {
        at - self.skew()
    }

    /// The API server's time minus ours. Zero if it is under 2 s or not known.
    pub(in crate::cluster) fn skew(&self) -> SignedDuration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).skew()
    }
}
