//! The JSON forms of messages. Only the fields that Sundown reads are declared; all others may be
//! there in any form.

use std::{borrow::Cow, fmt, ops::Deref};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use serde_json::value::RawValue;

use super::Reject;

/// A string that borrows from the body if possible. (serde borrows into a bare `Cow<str>`, but not
/// into an `Option` of one.)
#[derive(Debug, Clone)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, s: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(s)))
            }

            fn visit_str<E: de::Error>(self, s: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(s.to_owned())))
            }

            fn visit_string<E: de::Error>(self, s: String) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(s)))
            }
        }
        deserializer.deserialize_str(Words)
    }
}

/// The outermost object: an event of EventBridge, a notification of Auto Scaling, or an SNS
/// envelope.
#[derive(Deserialize)]
pub(super) struct Outer<'a> {
    #[serde(borrow)]
    pub version: Option<Text<'a>>,
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    #[serde(borrow, rename = "detail-type")]
    pub detail_type: Option<Text<'a>>,
    /// The spelling of `detail-type` that the documentation has for events about reservations (EC2
    /// user guide, "Monitor interruptible Capacity Reservations").
    #[serde(borrow, rename = "detail_type")]
    pub detail_type_too: Option<Text<'a>>,
    #[serde(borrow)]
    pub source: Option<Text<'a>>,
    #[serde(borrow)]
    pub time: Option<Text<'a>>,
    #[serde(borrow)]
    pub detail: Option<&'a RawValue>,

    #[serde(borrow, rename = "LifecycleTransition")]
    pub transition: Option<Text<'a>>,
    #[serde(borrow, rename = "Event")]
    pub event: Option<Text<'a>>,

    #[serde(borrow, rename = "Type")]
    pub kind: Option<Text<'a>>,
    #[serde(borrow, rename = "Message")]
    pub message: Option<Text<'a>>,
}

/// Text of a field whose form Sundown does not check: a string, or else the JSON in that place.
#[derive(Debug, Clone)]
pub(super) struct AnyText<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for AnyText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let text = serde_json::from_str::<Text<'de>>(raw);
        Ok(Self(text.map_or(Cow::Borrowed(raw), |text| text.0)))
    }
}

/// A lifecycle action: the `detail` of an event, or a whole native notification.
#[derive(Default, Deserialize)]
pub(super) struct Lifecycle<'a> {
    #[serde(borrow, rename = "LifecycleTransition")]
    pub transition: Option<Text<'a>>,
    #[serde(borrow, rename = "Event")]
    pub event: Option<Text<'a>>,
    #[serde(borrow, rename = "EC2InstanceId")]
    pub instance: Option<Text<'a>>,
    #[serde(borrow, rename = "AutoScalingGroupName")]
    pub group: Option<Text<'a>>,
    #[serde(borrow, rename = "LifecycleHookName")]
    pub hook: Option<Text<'a>>,
    #[serde(borrow, rename = "LifecycleActionToken")]
    pub token: Option<Text<'a>>,
    #[serde(borrow, rename = "Origin")]
    pub origin: Option<Text<'a>>,
    #[serde(borrow, rename = "Destination")]
    pub destination: Option<Text<'a>>,
    #[serde(borrow, rename = "Action")]
    pub action: Option<Text<'a>>,
    #[serde(borrow, rename = "NotificationMetadata")]
    pub metadata: Option<AnyText<'a>>,
    /// Native notifications only: used as the event's id.
    #[serde(borrow, rename = "RequestId")]
    pub request: Option<Text<'a>>,
    /// Native notifications only.
    #[serde(borrow, rename = "Time")]
    pub time: Option<Text<'a>>,
}

/// The `detail` of an event about an EC2 instance.
#[derive(Deserialize)]
pub(super) struct OfInstance<'a> {
    #[serde(borrow, rename = "instance-id")]
    pub id: Option<Text<'a>>,
    #[serde(borrow, rename = "instance-action")]
    pub action: Option<Text<'a>>,
    #[serde(borrow, rename = "instance-termination-time")]
    pub ends: Option<Text<'a>>,
    #[serde(borrow)]
    pub state: Option<Text<'a>>,
}

/// The `detail` of an event about a Capacity Block.
#[derive(Deserialize)]
pub(super) struct OfBlock<'a> {
    #[serde(borrow, rename = "capacity-reservation-id")]
    pub id: Option<Text<'a>>,
    #[serde(borrow, rename = "end-date")]
    pub ends: Option<Text<'a>>,
}

/// The part of a test event's `detail` that real events do not have.
#[derive(Deserialize)]
pub(super) struct OfTest {
    pub sundown: Option<Wish>,
}

/// The options of a test event.
#[derive(Deserialize)]
pub(super) struct Wish {
    #[serde(default)]
    pub real: bool,
}

/// The `detail` of an AWS Health event.
#[derive(Deserialize)]
pub(super) struct OfHealth<'a> {
    #[serde(borrow)]
    pub service: Option<Text<'a>>,
    #[serde(borrow, rename = "eventTypeCategory")]
    pub category: Option<Text<'a>>,
    #[serde(borrow, rename = "eventArn")]
    pub arn: Option<Text<'a>>,
    #[serde(borrow, rename = "communicationId")]
    pub communication: Option<Text<'a>>,
    #[serde(borrow, rename = "eventTypeCode")]
    pub code: Option<Text<'a>>,
    #[serde(borrow, rename = "startTime")]
    pub starts: Option<Text<'a>>,
    #[serde(borrow, rename = "lastUpdatedTime")]
    pub updated: Option<Text<'a>>,
    #[serde(borrow, rename = "statusCode")]
    pub status: Option<Text<'a>>,
    #[serde(borrow, rename = "eventRegion")]
    pub region: Option<AnyText<'a>>,
    #[serde(borrow, rename = "affectedAccount")]
    pub account: Option<AnyText<'a>>,
    #[serde(borrow)]
    pub actionability: Option<AnyText<'a>>,
    #[serde(borrow, rename = "affectedEntities")]
    pub entities: Option<Vec<&'a RawValue>>,
}

/// One of the `affectedEntities` of an AWS Health event.
#[derive(Deserialize)]
pub(super) struct Entity<'a> {
    #[serde(borrow, rename = "entityValue")]
    pub value: Option<Text<'a>>,
    #[serde(borrow)]
    pub status: Option<AnyText<'a>>,
}

/// Parses an object. (serde would also read an array into a struct, field by field, but no event is
/// an array.)
pub(super) fn object<'a, T: Deserialize<'a>>(
    text: &'a str,
    not_an_object: impl FnOnce() -> Reject,
) -> Result<T, Reject> {
    if text.trim_ascii_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|e| reject(&e));
    }
    match serde_json::from_str::<de::IgnoredAny>(text) {
        Ok(_) => Err(not_an_object()),
        Err(e) => Err(reject(&e)),
    }
}

/// Parses the object in a field.
pub(super) fn field<'a, T: Deserialize<'a>>(
    name: &'static str,
    raw: Option<&'a RawValue>,
) -> Result<T, Reject> {
    let raw = raw.ok_or(Reject::MissingField(name))?;
    object(raw.get(), || Reject::WrongType(format!("`{name}` is not an object")))
}

/// Most characters of a body to repeat in an error.
const QUOTED: usize = 160;

pub(super) fn quote(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}

fn reject(error: &serde_json::Error) -> Reject {
    let text = error.to_string();
    match error.classify() {
        serde_json::error::Category::Data if text.starts_with("duplicate field") => {
            Reject::DuplicateKey(quote(&text))
        }
        serde_json::error::Category::Data => Reject::WrongType(quote(&text)),
        serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof
        | serde_json::error::Category::Io => Reject::NotJson(quote(&text)),
    }
}
