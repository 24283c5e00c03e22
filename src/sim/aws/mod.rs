//! An embedded AWS: SQS, Auto Scaling, EC2, STS and a little of EventBridge, as far as a drainer
//! meets them, with real timers on the injected clock.
//!
//! It speaks the wire protocols, in process through [`AwsConnector`] or over loopback TCP through
//! [`EmbeddedAws::serve`]. All randomness comes from the seed; with a paused tokio clock on one
//! thread, the same calls get byte for byte the same answers.

mod answer;
mod autoscaling;
mod connector;
mod control;
mod ec2;
mod event_bridge;
mod events;
mod faults;
mod instance;
mod journal;
mod members;
mod sqs;
mod state;
mod sts;
#[cfg(test)]
mod tests;
mod warm_pool;
mod xml;

use std::sync::Arc;

pub use autoscaling::{
    GroupSpec, HookResult, HookSpec, LifecycleState, Member, PoolState, Template, Transition,
};
pub use connector::AwsConnector;
pub use ec2::{Check, CheckChange, PlannedEvent};
pub use events::{Envelope, EventKind, HealthNotice, Rule, SpotAction, WARNING};
pub use faults::{Disorder, Fault, FaultId, FaultRule, How};
pub use instance::{Boot, Instance, InstanceBoot, InstanceChange, InstanceSpec, State};
pub use journal::{
    ActionEnd, ActionReport, Call, Deletion, Delivery, Keep, Outcome, SentMessage, ServiceChange,
    ServiceEvent, Verdict,
};
pub use sqs::{MessageView, QueueSettings, QueueView, Redrive};

use self::state::Shared;
use crate::runtime::{Clock, Spawner};

/// How the embedded AWS is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Everything that is random comes from it.
    pub seed: u64,
    /// `eu-west-1`.
    pub region: String,
    /// Twelve digits.
    pub account: String,
    /// How much the journal keeps.
    pub keep: Keep,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            region: "eu-west-1".to_owned(),
            account: "123456789012".to_owned(),
            keep: Keep::All,
        }
    }
}

/// A handle on the embedded AWS. Clones are the same AWS; it ends with the last one.
#[derive(Debug, Clone)]
pub struct EmbeddedAws {
    shared: Arc<Shared>,
}

impl EmbeddedAws {
    /// An AWS without anything in it. Its timers run in one task of `spawner`.
    #[must_use]
    pub fn start(clock: Clock, settings: Settings, spawner: &Spawner) -> Self {
        let shared = Shared::new(clock, settings);
        spawner.spawn(Shared::drive(Arc::downgrade(&shared), shared.rearm()));
        Self { shared }
    }
}
