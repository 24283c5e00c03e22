//! AWS's clock, by the `Date` headers of its answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{
            Intercept,
            context::{
                BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
            },
            dyn_dispatch_hint,
        },
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use jiff::SignedDuration;

use crate::{
    domain::{ClockSkew, Moment},
    runtime::Clock,
};

/// Our clock, corrected by its difference from AWS's clock. Clones share one estimate.
#[derive(Debug, Clone)]
pub struct AwsClock {
    clock: Clock,
    skew: Arc<Mutex<ClockSkew>>,
}

impl AwsClock {
    /// A clock that shows our time until answers of AWS show a difference.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, skew: Arc::default() }
    }

    /// The time now by AWS's clock.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.clock.now() + self.skew()
    }

    /// AWS's time minus ours. Zero if it is under 2 s or not known.
    #[must_use]
    pub fn skew(&self) -> SignedDuration {
        self.lock().skew()
    }

    /// As [`Self::skew`]. Until an answer of AWS has shown its time within 2 s: `guess`, unless
    /// slower answers rule it out.
    #[must_use]
    pub fn skew_or(&self, guess: SignedDuration) -> SignedDuration {
        self.lock().skew_or(guess)
    }

    /// The interceptor that feeds the clock. Every client must have it.
    pub(super) fn reader(&self) -> DateReader {
        DateReader(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, ClockSkew> {
        self.skew.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the `Date` header of every answer, errors included.
#[derive(Debug)]
pub(super) struct DateReader(AwsClock);

#[derive(Debug)]
struct SentAt(Moment);

impl Storable for SentAt {
    type Storer = StoreReplace<Self>;
}

#[dyn_dispatch_hint]
impl Intercept for DateReader {
    fn name(&self) -> &'static str {
        "DateReader"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(SentAt(self.0.clock.now()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.response().headers();
        // An answer with an `Age` header came from a cache (RFC 9111, 5.1), so its date is old.
        let date = if headers.get("age").is_some() { None } else { headers.get("date") };
        if let (Some(date), Some(SentAt(sent))) = (date, bag.load::<SentAt>()) {
            let now = self.0.clock.now();
            self.0.lock().saw(date, *sent, now);
        }
        Ok(())
    }
}
