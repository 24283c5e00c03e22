//! Queues, in the JSON protocol of SQS.

mod admin;
mod store;
mod wire;

use std::{collections::BTreeMap, time::Duration};

pub(super) use store::{Message, Queue};
pub(super) use wire::{error_body, handle, no_such_queue, object};

use crate::domain::Moment;

/// The settings of a queue, with the defaults of SQS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// `VisibilityTimeout`.
    pub visibility: Duration,
    /// `ReceiveMessageWaitTimeSeconds`.
    pub wait: Duration,
    /// `DelaySeconds`.
    pub delay: Duration,
    /// `MessageRetentionPeriod`.
    pub retention: Duration,
    /// `RedrivePolicy`: the dead-letter queue's name, and after how many receives a message goes
    /// there.
    pub redrive: Option<Redrive>,
    /// How many messages may be in flight before `OverLimit`.
    pub max_in_flight: usize,
    /// Attributes about access and encryption (`Policy`, `KmsMasterKeyId`, …), by name: stored, but
    /// without effect here.
    pub access: BTreeMap<String, String>,
}

/// Where messages go that were received too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The dead-letter queue.
    pub queue: String,
    /// How often a message may be received.
    pub max_receives: u32,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            visibility: Duration::from_secs(30),
            wait: Duration::ZERO,
            delay: Duration::ZERO,
            retention: Duration::from_hours(96),
            redrive: None,
            max_in_flight: 120_000,
            access: BTreeMap::new(),
        }
    }
}

/// The contents of a queue at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueView {
    /// Messages that can be received.
    pub visible: usize,
    /// Messages that were received and are neither deleted nor visible again.
    pub in_flight: usize,
    /// Messages that are not visible yet.
    pub delayed: usize,
    /// All messages in the order in which they came.
    pub messages: Vec<MessageView>,
}

/// A message in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageView {
    /// `MessageId`, a UUID.
    pub id: String,
    /// `Body`, as sent.
    pub body: std::sync::Arc<str>,
    /// When it was sent.
    pub sent: Moment,
    /// How often it was received.
    pub receive_count: u32,
    /// Until when it cannot be received; `None`: it can.
    pub hidden_until: Option<Moment>,
}
