//! The time as AWS sees it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{
            Intercept,
            context::{BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef},
            dyn_dispatch_hint,
        },
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::{
    config_bag::{ConfigBag, Storable, StoreReplace},
    date_time::{DateTime, Format},
};
use jiff::SignedDuration;

use crate::{
    controller::Clock,
    domain::{Moment, MomentExt},
};

/// How many answers an estimate rests on.
const SAMPLES: usize = 15;
/// The `Date` header has whole seconds and answers take time on the way: less than this is no skew.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// An answer that took longer bounds the offset too loosely.
const LONGEST_SAMPLE: Duration = Duration::from_secs(2);

/// How far AWS's clock is from ours, by the `Date` header of its answers.
///
/// Each answer bounds the offset from both sides: AWS wrote the header after we sent the request and before we had the
/// answer. The estimate is the median over the last answers of the smallest offset that fits each, so one wrong header (of a
/// proxy, say) moves nothing. An answer that took long is not counted: after an idle hour all are of long polls, whose bounds are
/// 20 s apart, and the smallest offset that fits those is far too small.
#[derive(Debug, Clone)]
pub struct AwsClock {
    clock: Clock,
    offsets: Arc<Mutex<VecDeque<SignedDuration>>>,
}

impl AwsClock {
    /// A clock that agrees with ours until AWS says otherwise.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, offsets: Arc::default() }
    }

    /// The time now, as AWS sees it.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.clock.now().checked_add(self.skew()).unwrap_or_else(|_| self.clock.now())
    }

    /// AWS's time less ours; zero while that is under 2 s.
    #[must_use]
    pub fn skew(&self) -> SignedDuration {
        let mut offsets: Vec<_> = self.offsets.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        offsets.sort_unstable_by_key(|o| o.abs());
        let median = offsets.get(offsets.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        if median.abs() < TOLERANCE { SignedDuration::ZERO } else { median }
    }

    /// What feeds it: to be put into every client.
    pub(super) fn reader(&self) -> DateReader {
        DateReader(self.clone())
    }

    fn saw(&self, date: Moment, sent: Moment) {
        let now = self.clock.now();
        if now.since_or_zero(sent) > LONGEST_SAMPLE {
            return;
        }
        let earliest = date.duration_since(now);
        let latest = date.plus(Duration::from_secs(1)).duration_since(sent);
        let offset = if earliest > SignedDuration::ZERO {
            earliest
        } else if latest < SignedDuration::ZERO {
            latest
        } else {
            SignedDuration::ZERO
        };
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        if offsets.len() == SAMPLES {
            offsets.pop_front();
        }
        offsets.push_back(offset);
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

    fn read_before_transmit(&self, _: &BeforeTransmitInterceptorContextRef<'_>, _: &RuntimeComponents, bag: &mut ConfigBag) -> Result<(), BoxError> {
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
        // An answer with an `Age` came out of a cache (RFC 9111, 5.1): its date is old.
        let date = if headers.get("age").is_some() { None } else { headers.get("date").and_then(parse) };
        if let (Some(date), Some(SentAt(sent))) = (date, bag.load::<SentAt>()) {
            self.0.saw(date, *sent);
        }
        Ok(())
    }
}

fn parse(date: &str) -> Option<Moment> {
    let date = DateTime::from_str(date, Format::HttpDate).ok()?;
    Moment::from_second(date.secs()).ok()
}
