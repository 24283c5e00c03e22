//! The result of a translation: values of our chart, things to do, and differences from NTH.

use serde_json::{Map, Value};

use super::{read::Given, table::Answer};

/// The translation of NTH's settings. Also the JSON of `-o json`.
#[derive(Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ours {
    /// NTH runs as a DaemonSet.
    pub(super) imds_mode: bool,
    /// Values for our chart.
    pub(super) values: Map<String, Value>,
    /// Steps that the user has to do, and values that the user has to fill in.
    pub(super) to_do: Vec<String>,
    /// Settings that were given and behave differently here.
    pub(super) changes: Vec<Explained>,
    /// Settings that were given and have no counterpart here.
    pub(super) missing: Vec<Explained>,
    /// The answer of the table for each setting that was given.
    pub(super) settings: Vec<Answered>,
    /// Settings that NTH does not know, or ignores in queue mode.
    pub(super) ignored: Vec<String>,
}

/// A setting with its value, and the explanation for the user.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Explained {
    pub(super) setting: String,
    pub(super) why: String,
}

/// A setting that was given, with the table's answer. Without its value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Answered {
    pub(super) setting: &'static str,
    pub(super) answer: &'static str,
    pub(super) here: &'static [&'static str],
}

impl Ours {
    /// Sets a value by its path: `config.drainTimeout`.
    pub(super) fn set(&mut self, path: &str, value: impl Into<Value>) {
        set(&mut self.values, path, value.into());
    }

    /// Adds to a list of values.
    pub(super) fn push(&mut self, key: &str, value: Value) {
        if let Value::Array(list) =
            self.values.entry(key).or_insert_with(|| Value::Array(Vec::new()))
        {
            list.push(value);
        }
    }

    pub(super) fn do_this(&mut self, what: impl Into<String>) {
        self.to_do.push(what.into());
    }

    pub(super) fn changes(&mut self, setting: impl Into<String>, why: impl Into<String>) {
        self.changes.push(Explained { setting: setting.into(), why: why.into() });
    }

    pub(super) fn misses(&mut self, setting: impl Into<String>, why: impl Into<String>) {
        self.missing.push(Explained { setting: setting.into(), why: why.into() });
    }
}

fn set(map: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(map.insert(path.to_owned(), value)),
        Some((key, rest)) => {
            if let Value::Object(below) =
                map.entry(key).or_insert_with(|| Value::Object(Map::new()))
            {
                set(below, rest, value);
            }
        }
    }
}

/// Adds the table's explanation for each setting that differs from NTH's default and is not among
/// `handled`.
pub(super) fn add_table_answers(given: &Given, handled: &[&str], ours: &mut Ours) {
    for (row, value) in given.rows().filter(|(row, _)| !handled.contains(&row.name())) {
        let text = super::read::plain(value);
        if text == row.default || (row.answer != Answer::Missing && is_empty(value)) {
            continue;
        }
        let setting = if text.len() > 60 || super::secrets::smells(row.name()) {
            row.name().to_owned()
        } else {
            format!("{}: {text}", row.name())
        };
        match row.answer {
            Answer::Same | Answer::Imds => {}
            Answer::Better | Answer::Dropped if row.why.is_empty() => {}
            Answer::Better | Answer::Dropped => ours.changes(setting, row.why),
            Answer::Missing if is_off(row.name(), &text) => {}
            Answer::Missing => ours.misses(setting, row.why),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        other => super::read::plain(other).is_empty(),
    }
}

/// Whether the value of a setting without counterpart switches it off.
fn is_off(name: &str, text: &str) -> bool {
    text.is_empty()
        || text == "false"
        || (name.ends_with("grace-period") || name.ends_with("GracePeriod"))
            && text.starts_with('-')
}
