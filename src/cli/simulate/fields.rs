//! Reads the fields of a scenario. An error about a field has its path and what it may be.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::{Map, Value};

use super::ScenarioError;
use crate::config::{duration_text, parse_duration};

/// A value of the scenario and its path, such as `groups[0].nodes`.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    path: String,
    value: &'a Value,
}

/// A value with fields.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

/// The longest text that an error repeats, in characters.
const REPEATED: usize = 60;

impl<'a> Field<'a> {
    /// The scenario itself, with an empty path.
    pub(super) const fn whole(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    /// An error about this value. `remedy`: such as `use a number from 1 to 5000`.
    pub(super) fn wrong(&self, remedy: &str) -> ScenarioError {
        let path = if self.path.is_empty() { "the scenario" } else { &self.path };
        ScenarioError::Field(format!("{path} is {}: {remedy}", shown(self.value)))
    }

    /// Its fields. Errs if one is not among `known`.
    pub(super) fn fields(&self, known: &[&str]) -> Result<Fields<'a>, ScenarioError> {
        let list = known.join(", ");
        let map =
            self.value.as_object().ok_or_else(|| self.wrong(&format!("give it fields: {list}")))?;
        if let Some(unknown) = map.keys().find(|key| !known.contains(&key.as_str())) {
            let path = member(&self.path, unknown);
            return Err(ScenarioError::Field(format!("there is no field {path}: use {list}")));
        }
        Ok(Fields { path: self.path.clone(), map })
    }

    /// A list. Errs if its length is not in this range.
    pub(super) fn list(&self, entries: RangeInclusive<usize>) -> Result<Vec<Self>, ScenarioError> {
        let all = self.value.as_array().ok_or_else(|| self.wrong("use a list"))?;
        if !entries.contains(&all.len()) {
            let (least, most) = entries.into_inner();
            return Err(ScenarioError::Field(format!(
                "{} has {} entries: use {least} to {most}",
                self.path,
                all.len()
            )));
        }
        Ok(all
            .iter()
            .enumerate()
            .map(|(n, value)| Self { path: format!("{}[{n}]", self.path), value })
            .collect())
    }

    /// The value as text. A text without quotes may look like a number.
    fn as_text(&self) -> Option<String> {
        match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A text of 1 to `most` characters.
    pub(super) fn text(&self, most: usize) -> Result<String, ScenarioError> {
        let text =
            self.as_text().filter(|text| !text.trim().is_empty() && text.chars().count() <= most);
        text.ok_or_else(|| self.wrong(&format!("use a text of 1 to {most} characters")))
    }

    /// A name that Kubernetes accepts for objects and label values.
    pub(super) fn name(&self) -> Result<String, ScenarioError> {
        let of_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let is_name = |text: &str| {
            let ends = [text.bytes().next(), text.bytes().last()];
            ends.iter().all(|end| end.is_some_and(of_name))
                && text.len() <= 63
                && text.bytes().all(|b| of_name(b) || b == b'-')
        };
        let text = self.as_text().filter(|text| is_name(text));
        let remedy = "use 1 to 63 lower-case letters, digits and hyphens, with a letter or digit \
            at both ends";
        text.ok_or_else(|| self.wrong(remedy))
    }

    /// A whole number in this range.
    pub(super) fn count(&self, range: RangeInclusive<usize>) -> Result<usize, ScenarioError> {
        let number =
            self.value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| range.contains(n));
        number.ok_or_else(|| {
            self.wrong(&format!("use a number from {} to {}", range.start(), range.end()))
        })
    }

    /// A duration in this range, written with its unit.
    pub(super) fn duration(
        &self,
        range: RangeInclusive<Duration>,
    ) -> Result<Duration, ScenarioError> {
        let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
        let duration = self
            .value
            .as_str()
            .and_then(|text| parse_duration(text).ok())
            .filter(|duration| range.contains(duration));
        duration.ok_or_else(|| {
            self.wrong(&format!(
                "use a duration with its unit, from {least} to {most}, such as 90s or 1h30m"
            ))
        })
    }

    /// `true` or `false`.
    pub(super) fn switch(&self) -> Result<bool, ScenarioError> {
        self.value.as_bool().ok_or_else(|| self.wrong("use true or false"))
    }

    pub(super) const fn value(&self) -> &'a Value {
        self.value
    }
}

impl<'a> Fields<'a> {
    /// A field. Errs if it is missing.
    pub(super) fn get(&self, name: &str) -> Result<Field<'a>, ScenarioError> {
        let missing = || ScenarioError::Field(format!("{} is missing", member(&self.path, name)));
        self.find(name).ok_or_else(missing)
    }

    /// A field. `None`: it is missing.
    pub(super) fn find(&self, name: &str) -> Option<Field<'a>> {
        self.map.get(name).map(|value| Field { path: member(&self.path, name), value })
    }

    /// Reads an optional field.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(Field<'a>) -> Result<T, ScenarioError>,
    ) -> Result<Option<T>, ScenarioError> {
        self.find(name).map(read).transpose()
    }

    /// An error about the whole value.
    pub(super) fn wrong(&self, what: &str) -> ScenarioError {
        ScenarioError::Field(format!("{} {what}", self.path))
    }
}

fn member(path: &str, name: &str) -> String {
    let name: String = name.chars().take(REPEATED).collect();
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// A value as an error repeats it.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return "empty".to_owned(),
        Value::Array(_) => return "a list".to_owned(),
        Value::Object(_) => return "a group of fields".to_owned(),
        Value::String(text) => format!("`{text}`"),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    let mut short: String = text.chars().take(REPEATED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
