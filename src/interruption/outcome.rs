//! The results of the parser, and their names in metrics and logs.

use crate::domain::{CapacityBlock, Interruption};

/// The content of a valid message body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// One interruption, or one for each affected instance of an AWS Health event. Never empty.
    Interruptions(Vec<Interruption>),
    /// A Capacity Block ends. EC2 must be asked which instances run in it: each of them is
    /// interrupted.
    CapacityBlock(CapacityBlock),
    /// A test event, as `sundown send-test` sends it: no instance is really interrupted.
    Test(TestEvent),
    /// `autoscaling:TEST_NOTIFICATION`, which Auto Scaling sends for a new hook with a notification
    /// target.
    TestNotification,
    /// A message that Sundown does not act on.
    Irrelevant(Irrelevant),
}

/// The content of a test event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestEvent {
    /// What a real event of this form would contain.
    pub content: TestContent,
    /// How many further instances the event names; Sundown ignores them.
    pub ignored: usize,
    /// The event asks Sundown to act on it (`detail.sundown.real`).
    pub real: bool,
}

/// What a test event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestContent {
    /// Never empty, at most [`TestEvent::MOST_INSTANCES`].
    Interruptions(Vec<Interruption>),
    /// A Capacity Block. Of its instances, the first [`TestEvent::MOST_INSTANCES`] are processed.
    CapacityBlock(CapacityBlock),
}

impl TestEvent {
    /// Most instances of one test event to process. Sundown asks EC2 about each and writes a
    /// Kubernetes Event for it, and anybody who may put events on the bus can send one that names
    /// thousands.
    pub const MOST_INSTANCES: usize = 100;
}

/// Why Sundown does not act on a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Irrelevant {
    /// An event of another `source` than `aws.autoscaling`, `aws.ec2` and `aws.health`.
    OtherSource,
    /// Another `detail-type` of one of these sources.
    OtherDetailType,
    /// A scaling notification of a group (such as `autoscaling:EC2_INSTANCE_LAUNCH`), which is not
    /// a lifecycle action.
    OtherNotification,
    /// A successful launch other than out of a warm pool into the group: no action waits for an
    /// answer.
    OrdinaryLaunch,
    /// An instance is `pending` or `running`.
    StateNotEnding,
    /// A state that EC2 does not have.
    UnknownState,
    /// AWS Health about another service than EC2.
    OtherHealthService,
    /// AWS Health in another category than `scheduledChange`.
    OtherHealthCategory,
    /// AWS Health that names no instance.
    NoInstance,
}

impl Irrelevant {
    /// Every reason, for initializing metrics.
    pub const ALL: [Self; 9] = [
        Self::OtherSource,
        Self::OtherDetailType,
        Self::OtherNotification,
        Self::OrdinaryLaunch,
        Self::StateNotEnding,
        Self::UnknownState,
        Self::OtherHealthService,
        Self::OtherHealthCategory,
        Self::NoInstance,
    ];

    /// The reason in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OtherSource => "other_source",
            Self::OtherDetailType => "other_detail_type",
            Self::OtherNotification => "other_notification",
            Self::OrdinaryLaunch => "ordinary_launch",
            Self::StateNotEnding => "state_not_ending",
            Self::UnknownState => "unknown_state",
            Self::OtherHealthService => "other_health_service",
            Self::OtherHealthCategory => "other_health_category",
            Self::NoInstance => "no_instance",
        }
    }
}

/// Why a body was rejected. Holds at most a short excerpt of the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// Nothing, or white space.
    #[error("the body is empty")]
    Empty,
    /// Longer than [`super::MAX_BODY`].
    #[error("the body is longer than a queue message can be")]
    TooLong,
    /// Not UTF-8.
    #[error("the body is not UTF-8")]
    NotUtf8,
    /// Not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// JSON, but not a known kind of message.
    #[error("the body is JSON, but no event of EventBridge, Auto Scaling or SNS")]
    OtherShape,
    /// A field holds a value of another type than it should.
    #[error("a field has a value of the wrong type: {0}")]
    WrongType(String),
    /// A field that Sundown reads appears twice.
    #[error("a field is there twice: {0}")]
    DuplicateKey(String),
    /// EventBridge's `version` is not `0`.
    #[error("the event has version `{0}`, known is `0`")]
    UnknownVersion(String),
    /// A required field is missing or empty.
    #[error("the event has no `{0}`")]
    MissingField(&'static str),
    /// A field's value is invalid (too long, or with control characters).
    #[error("the value of `{0}` cannot be one")]
    BadField(&'static str),
    /// The field for the instance id holds other text.
    #[error(transparent)]
    BadInstanceId(#[from] crate::domain::NotAnInstanceId),
    /// A lifecycle action with an unknown transition, or with another one than its `detail-type`
    /// names.
    #[error("unknown or contradictory lifecycle transition `{0}`")]
    UnknownTransition(String),
    /// SNS asks for a subscription to be confirmed.
    #[error("SNS asks for its subscription to be confirmed")]
    Unconfirmed,
    /// More than two SNS envelopes, one inside the other.
    #[error("more than two SNS envelopes, one inside the other")]
    TooManyEnvelopes,
}

impl Reject {
    /// Every result of [`Reject::as_str`], for initializing metrics.
    pub const LABELS: [&'static str; 14] = [
        "empty",
        "too_long",
        "not_utf8",
        "not_json",
        "other_shape",
        "wrong_type",
        "duplicate_key",
        "unknown_version",
        "missing_field",
        "bad_field",
        "bad_instance_id",
        "unknown_transition",
        "unconfirmed",
        "too_many_envelopes",
    ];

    /// The reason in metrics and logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::NotUtf8 => "not_utf8",
            Self::NotJson(_) => "not_json",
            Self::OtherShape => "other_shape",
            Self::WrongType(_) => "wrong_type",
            Self::DuplicateKey(_) => "duplicate_key",
            Self::UnknownVersion(_) => "unknown_version",
            Self::MissingField(_) => "missing_field",
            Self::BadField(_) => "bad_field",
            Self::BadInstanceId(_) => "bad_instance_id",
            Self::UnknownTransition(_) => "unknown_transition",
            Self::Unconfirmed => "unconfirmed",
            Self::TooManyEnvelopes => "too_many_envelopes",
        }
    }

    /// What an operator should check.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::TooLong | Self::NotUtf8 | Self::NotJson(_) | Self::OtherShape => {
                "something else than EventBridge, Auto Scaling or SNS writes to this queue; look \
                 at the queue's policy and at the message in the dead-letter queue"
            }
            Self::WrongType(_)
            | Self::DuplicateKey(_)
            | Self::MissingField(_)
            | Self::BadField(_)
            | Self::BadInstanceId(_) => {
                "the event does not look as AWS documents it; look for an input transformer or \
                 input path on the EventBridge target, and send the matched event unchanged"
            }
            Self::UnknownVersion(_) => {
                "AWS has a newer form of this event; look for a newer Sundown"
            }
            Self::UnknownTransition(_) => {
                "the lifecycle action is neither a launch nor a termination; look for a newer \
                 Sundown"
            }
            Self::Unconfirmed => {
                "open the SubscribeURL of the message in the dead-letter queue, or subscribe the \
                 queue again from the account that owns it"
            }
            Self::TooManyEnvelopes => {
                "a topic forwards to a topic; subscribe the queue to the first one, or switch raw \
                 message delivery on"
            }
        }
    }
}
