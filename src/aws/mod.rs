//! The AWS edge: the calls to SQS, Auto Scaling and EC2 that Sundown needs.
//!
//! Every call has its own deadline, is reported to an [`Observer`](crate::runtime::Observer), and fails with an
//! [`AwsError`] with [`Advice`] on what to do. Only the [`lookup`]s retry, and nothing here knows
//! what a pod is.

mod autoscaling;
mod call;
mod clients;
mod clock;
mod config;
mod ec2;
mod error;
mod event_bridge;
#[cfg(test)]
pub(crate) mod fake;
mod groups;
mod hosts;
mod instance_health;
pub mod lookup;
#[cfg(test)]
mod network_tests;
pub(crate) mod queue;
mod receiving;
mod region;
#[cfg(test)]
mod tests;
mod warm_pool;

pub use autoscaling::{AutoScaling, DescribedHook, GroupFacts};
pub use call::{Api, ApiCall, Outcome};
pub use clients::{Clients, Identity};
pub use clock::AwsClock;
pub use config::{BadBundle, InvalidConfig, Options, load, load_watched};
pub use ec2::Ec2;
pub use error::{Advice, AwsError};
pub use event_bridge::{EventBridge, PutEvent, RuleFacts, TargetFacts};
pub use groups::{Group, GroupFilter, Hook, WaitingMembers};
pub use hosts::{Hosts, Proxy};
pub use lookup::{
    BlockLookup, DnsLookup, GroupLookup, HookLookup, InstanceLookup, LookupError, Lookups,
    MemberLookup,
};
pub use queue::{EntryFailure, Message, Queue, QueueAttributes, Receipt};
pub use receiving::{Body, ByteLimit};
pub use region::{UnknownRegion, region_of_queue};
pub use warm_pool::WarmPool;
