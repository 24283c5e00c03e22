//! Reads JSON objects by path without panicking, and writes into them.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::domain::Moment;

static NULL: Value = Value::Null;

/// Paths are field names joined by dots. Keys that hold dots (labels, annotations) are asked for
/// one by one.
pub(super) trait Look {
    /// The value at this path; null if there is nothing.
    fn at(&self, path: &str) -> &Value;
    /// The string at this path; "" if there is no string.
    fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }
    /// The integer at this path; 0 if there is no integer.
    fn int(&self, path: &str) -> i64 {
        self.at(path).as_i64().unwrap_or_default()
    }
    /// The elements of the array at this path; none if there is no array.
    fn items(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }
    /// The RFC 3339 time at this path; `None` if there is nothing that parses as one.
    fn moment(&self, path: &str) -> Option<Moment> {
        self.text(path).parse().ok()
    }
    /// The value of an annotation of the object; `None` if it is not set.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.at("metadata.annotations").get(key).and_then(Value::as_str)
    }
    /// The status of a condition; "" if the condition is missing.
    fn condition(&self, kind: &str) -> &str {
        self.items("status.conditions")
            .iter()
            .find(|c| c.text("type") == kind)
            .map_or("", |c| c.text("status"))
    }
    /// Writes the value at this path, creating the objects above it.
    fn put(&mut self, path: &str, value: impl Into<Value>);
    /// Removes the value at this path.
    fn take_away(&mut self, path: &str);
    /// Sets a condition; `lastTransitionTime` moves only when the status changes.
    fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str, now: Moment);
}

impl Look for Value {
    fn at(&self, path: &str) -> &Value {
        path.split('.').try_fold(self, |v, key| v.get(key)).unwrap_or(&NULL)
    }

    fn put(&mut self, path: &str, value: impl Into<Value>) {
        let mut here = self;
        for key in path.split('.') {
            if !here.is_object() {
                *here = Value::Object(Map::new());
            }
            let Value::Object(map) = here else { return };
            here = map.entry(key).or_insert(Value::Null);
        }
        *here = value.into();
    }

    fn take_away(&mut self, path: &str) {
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        let parent = if parent.is_empty() {
            Some(self)
        } else {
            parent.split('.').try_fold(self, |v, key| v.get_mut(key))
        };
        if let Some(Value::Object(map)) = parent {
            map.remove(key);
        }
    }

    fn set_condition(
        &mut self,
        kind: &str,
        status: &str,
        reason: &str,
        message: &str,
        now: Moment,
    ) {
        let mut list = self.items("status.conditions").to_vec();
        let position = list.iter().position(|c| c.text("type") == kind);
        let old = position.map(|i| list.remove(i));
        let since = match &old {
            Some(old) if old.text("status") == status => old.at("lastTransitionTime").clone(),
            _ => Value::from(seconds(now)),
        };
        let mut new = old.unwrap_or_else(|| Value::Object(Map::new()));
        for (key, value) in [("type", kind), ("status", status), ("reason", reason)] {
            new.put(key, value);
        }
        new.put("lastTransitionTime", since);
        if message.is_empty() {
            new.take_away("message");
        } else {
            new.put("message", message);
        }
        list.insert(position.unwrap_or(list.len()).min(list.len()), new);
        self.put("status.conditions", list);
    }
}

/// A time as Kubernetes writes most of them: whole seconds.
pub(super) fn seconds(moment: Moment) -> String {
    Moment::from_second(moment.as_second()).unwrap_or(moment).to_string()
}

/// A duration as a text of seconds, for annotations.
pub(super) fn span_text(d: Duration) -> String {
    d.as_secs_f64().to_string()
}

/// The duration in an annotation.
pub(super) fn span(text: &str) -> Option<Duration> {
    text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok())
}

/// Now plus a number of whole seconds that a client gave.
pub(super) fn plus_seconds(now: Moment, n: i64) -> Moment {
    now.plus(Duration::from_secs(u64::try_from(n).unwrap_or(0)))
}

/// How long ago, as kubectl writes it.
pub(super) fn age(now: Moment, then: &str) -> String {
    let Ok(then) = then.parse::<Moment>() else { return "<unknown>".to_owned() };
    let s = now.since_or_zero(then).as_secs();
    match s {
        0..120 => format!("{s}s"),
        120..600 if !s.is_multiple_of(60) => format!("{}m{}s", s / 60, s % 60),
        120..10_800 => format!("{}m", s / 60),
        10_800..28_800 if s % 3600 / 60 != 0 => format!("{}h{}m", s / 3600, s % 3600 / 60),
        10_800..172_800 => format!("{}h", s / 3600),
        _ => format!("{}d", s / 86_400),
    }
}
