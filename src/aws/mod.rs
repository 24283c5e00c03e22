//! The AWS edge: SQS, Auto Scaling and EC2, as far as Sundown calls them.
//!
//! Every call has a deadline of its own, is reported to a [`CallObserver`], and fails with an [`AwsError`] that says what to
//! do about it ([`Advice`]). Nothing here retries except the [`lookup`]s, and nothing here knows what a pod is.

mod autoscaling;
mod call;
mod clients;
mod clock;
mod config;
mod ec2;
mod error;
#[cfg(test)]
pub(crate) mod fake;
pub mod lookup;
pub(crate) mod queue;
mod region;
#[cfg(test)]
mod tests;

pub use autoscaling::{AutoScaling, GroupFacts, HookResult};
pub use call::{Api, CallObserver, Outcome};
pub use clients::Clients;
pub use clock::AwsClock;
pub use config::{Options, load};
pub use ec2::Ec2;
pub use error::{Advice, AwsError};
pub use lookup::{DnsLookup, GroupLookup, HookLookup, InstanceLookup, LookupError, Lookups};
pub use queue::{EntryFailure, Message, Queue, QueueAttributes, Receipt};
pub use region::{UnknownRegion, region_of_queue};
