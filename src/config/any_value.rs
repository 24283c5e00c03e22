//! YAML values of any kind, for fields whose errors name the field and what to write instead.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_saphyr::Spanned;

/// A value.
#[derive(Debug)]
pub(super) enum Value {
    /// A text, also one without quotes that YAML takes for nothing else.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A list.
    List(Vec<Spanned<Self>>),
    /// Nothing, true or false, another number, or a map.
    Other,
}

impl Value {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Whole(_) | Self::List(_) | Self::Other => None,
        }
    }

    /// A whole number, also in quotes. `None`: it is none, or too large.
    pub(super) fn whole(&self) -> Option<i32> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Whole(number) => i32::try_from(*number).ok(),
            Self::List(_) | Self::Other => None,
        }
    }

    /// The value for an error, at most this many characters. `None`: a list, or not known.
    pub(super) fn shown(&self, most: usize) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.chars().take(most).collect()),
            Self::Whole(number) => Some(number.to_string()),
            Self::List(_) | Self::Other => None,
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Other, Value::Whole))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Value::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, Value>()?.is_some() {}
        Ok(Value::Other)
    }
}

/// A field that is there, also without a value.
pub(super) fn given<'de, D: Deserializer<'de>>(
    value: D,
) -> Result<Option<Spanned<Value>>, D::Error> {
    Spanned::deserialize(value).map(Some)
}

/// A list of rules. It may be empty, but not left out: a template that renders no value must not
/// remove all rules.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Vec<T>, D::Error> {
    value.deserialize_any(ListVisitor(PhantomData))
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rules")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

/// The conditions of a rule: a map, which may be empty, but not left without a value.
pub(super) fn map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    value.deserialize_any(MapVisitor(PhantomData))
}

struct MapVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MapVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("conditions, such as `podLabels: app=web`")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
