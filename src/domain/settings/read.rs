//! Reads the settings of hooks and Nodes, and reports what is wrong with them.

use std::fmt;

use serde_json::{Map, Value};

use super::{AllowedSettings, DrainSettings, Setting, SettingSource};
use crate::domain::{Annotations, FORCE, ForceAfter, duration_text, parse_duration};

/// The key in a hook's NotificationMetadata. Other keys belong to other tools.
pub(super) const METADATA_KEY: &str = "sundown";
/// A longer NotificationMetadata is not read (Auto Scaling API: at most 4000 characters).
const LONGEST_METADATA: usize = 4000;
/// A longer value is not read.
const LONGEST_VALUE: usize = 40;
/// The most characters of a key or a value that are repeated in a text.
const QUOTED: usize = 40;
/// The most problems of one source that are reported.
pub(super) const MOST_PROBLEMS: usize = 8;

/// Why a setting is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingFault {
    /// The NotificationMetadata mentions Sundown and cannot be read as settings.
    Unreadable,
    /// No setting has this name.
    UnknownKey,
    /// The value has another form, or is out of the range of the setting.
    BadValue,
    /// A flag does not allow the value.
    NotAllowed,
}

impl SettingFault {
    /// Every fault.
    pub const ALL: [Self; 4] =
        [Self::Unreadable, Self::UnknownKey, Self::BadValue, Self::NotAllowed];

    /// Its name as a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::UnknownKey => "unknown_key",
            Self::BadValue => "bad_value",
            Self::NotAllowed => "not_allowed",
        }
    }
}

/// A setting that is not used: the drain goes on with the next source of the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingProblem {
    /// Where the setting was given.
    pub source: SettingSource,
    /// Why it is not used.
    pub fault: SettingFault,
    /// The setting, what is wrong with it, and what to write instead.
    pub text: String,
}

impl SettingProblem {
    /// The drain timeout in a Node's annotation has passed already when it is written.
    #[must_use]
    pub fn has_passed(value: &str) -> Self {
        let place = SettingSource::Node.place(Setting::DrainTimeout);
        let text = format!(
            "{place} is `{value}`, which has passed since the accept; use a longer time, or end the \
             drain with `sundown release NODE`"
        );
        Self { source: SettingSource::Node, fault: SettingFault::NotAllowed, text }
    }
}

impl SettingProblem {
    /// What is wrong with the value of the annotation `sundown.dev/force`, if the Node has it:
    /// anything but `true` and `false`.
    #[must_use]
    pub fn of_force_order(annotations: &Annotations) -> Option<Self> {
        let value = annotations.get(FORCE).filter(|value| !["true", "false"].contains(value))?;
        let text = format!(
            "the annotation {FORCE} is `{}`: use `true`, or remove the annotation",
            quoted(value)
        );
        Some(Self { source: SettingSource::Node, fault: SettingFault::BadValue, text })
    }
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Settings from one source, and what is wrong with it.
pub type ReadSettings = (DrainSettings, Vec<SettingProblem>);

impl DrainSettings {
    /// The settings in the NotificationMetadata of a hook; `None`: it has none for Sundown.
    #[must_use]
    pub fn in_metadata(text: &str) -> Option<Box<ReadSettings>> {
        let read = Self::of_metadata(text);
        (read != ReadSettings::default()).then(|| Box::new(read))
    }

    /// Reads the NotificationMetadata of a hook. Text without the key `sundown` belongs to other
    /// tools: it gives neither settings nor problems.
    #[must_use]
    pub fn of_metadata(text: &str) -> ReadSettings {
        let unreadable = |why: &str| {
            let text = format!(
                "the hook's NotificationMetadata {why}; write \
                 {{\"{METADATA_KEY}\":{{\"drain-timeout\":\"30m\"}}}}"
            );
            let fault = SettingFault::Unreadable;
            (Self::default(), vec![SettingProblem { source: SettingSource::Hook, fault, text }])
        };
        let is_meant = text.trim_ascii_start().starts_with('{') && text.contains(METADATA_KEY);
        if text.len() > LONGEST_METADATA {
            return if is_meant {
                unreadable(&format!("is longer than {LONGEST_METADATA} characters"))
            } else {
                Self::default_read()
            };
        }
        let value = match serde_json::from_str::<Value>(text) {
            Ok(value) => value,
            Err(_) if is_meant => return unreadable("is not JSON"),
            Err(_) => return Self::default_read(),
        };
        match value.get(METADATA_KEY) {
            None => Self::default_read(),
            Some(Value::Object(given)) => Self::of_object(given),
            Some(_) => unreadable(&format!("has a `{METADATA_KEY}` that is not an object")),
        }
    }

    fn default_read() -> ReadSettings {
        (Self::default(), Vec::new())
    }

    /// Reads the settings in an object: of NotificationMetadata, or of a record.
    #[must_use]
    pub fn of_object(given: &Map<String, Value>) -> ReadSettings {
        let (mut settings, mut problems) = Self::default_read();
        let source = SettingSource::Hook;
        for (key, value) in given {
            let Some(setting) = Setting::from_word(key) else {
                let text = format!(
                    "`{METADATA_KEY}.{}` in the hook's NotificationMetadata is no setting; use one \
                     of {}",
                    quoted(key),
                    Setting::ALL.map(Setting::as_str).join(", ")
                );
                problems.push(SettingProblem { source, fault: SettingFault::UnknownKey, text });
                continue;
            };
            let number = value.as_f64().map(|_| value.to_string());
            match value.as_str().map(str::to_owned).or(number) {
                Some(text) => problems.extend(settings.read(source, setting, &text)),
                None => problems.push(bad_value(source, setting, &value.to_string(), "use text")),
            }
        }
        problems.truncate(MOST_PROBLEMS);
        (settings, problems)
    }

    /// Reads the settings in the annotations of a Node.
    #[must_use]
    pub fn of_annotations(annotations: &Annotations) -> ReadSettings {
        let (mut settings, mut problems) = Self::default_read();
        for setting in Setting::ALL {
            if let Some(text) = annotations.get(setting.annotation()) {
                problems.extend(settings.read(SettingSource::Node, setting, text));
            }
        }
        (settings, problems)
    }

    fn read(
        &mut self,
        source: SettingSource,
        setting: Setting,
        text: &str,
    ) -> Option<SettingProblem> {
        self.set(setting, text).err().map(|remedy| bad_value(source, setting, text, &remedy))
    }

    /// Sets this setting to the value in `text`. Errs with the remedy.
    fn set(&mut self, setting: Setting, text: &str) -> Result<(), String> {
        if text.len() > LONGEST_VALUE {
            return Err(format!("use at most {LONGEST_VALUE} characters"));
        }
        let duration = || {
            let given = parse_duration(text)?;
            match setting.range() {
                Some((least, most)) if given < least || given > most => {
                    Err(format!("use {} to {}", duration_text(least), duration_text(most)))
                }
                _ => Ok(Some(given)),
            }
        };
        match setting {
            Setting::DrainTimeout => self.drain_timeout = duration()?,
            Setting::ForceAfter => self.force_after = Some(rounded(text.trim().parse()?)),
            Setting::MaxGracePeriod => self.max_grace_period = duration()?,
            Setting::CompleteDelay => self.complete_delay = duration()?,
        }
        Ok(())
    }

    /// The settings that the flags allow. The others are dropped, with the reason.
    #[must_use]
    pub fn allowed(mut self, source: SettingSource, allowed: &AllowedSettings) -> ReadSettings {
        let mut problems = Vec::new();
        let mut refuse = |setting: Setting, value: String, why: String| {
            let text = format!("{} is `{value}`: {why}", source.place(setting));
            problems.push(SettingProblem { source, fault: SettingFault::NotAllowed, text });
        };
        let longest = allowed.longest_drain_timeout;
        if let Some(timeout) = self.drain_timeout.filter(|timeout| *timeout > longest) {
            let longest = duration_text(longest);
            let why = format!(
                "the flags allow at most {longest}; use a shorter time, or set a longer \
                 --max-drain-timeout"
            );
            refuse(Setting::DrainTimeout, duration_text(timeout), why);
            self.drain_timeout = None;
        }
        let earliest = allowed.earliest_force;
        if let Some(force) = self.force_after.filter(|force| force.is_earlier_than(earliest)) {
            let why = format!("it is earlier than --force-after {earliest}; use a later one");
            refuse(Setting::ForceAfter, force.to_string(), why);
            self.force_after = None;
        }
        (self, problems)
    }
}

/// A share in whole thousandths, which are short to read and to write.
fn rounded(force: ForceAfter) -> ForceAfter {
    match force {
        ForceAfter::Share(share) => ForceAfter::Share((share * 1000.0).round() / 1000.0),
        other => other,
    }
}

fn bad_value(source: SettingSource, setting: Setting, value: &str, remedy: &str) -> SettingProblem {
    let text = format!("{} is `{}`: {remedy}", source.place(setting), quoted(value));
    SettingProblem { source, fault: SettingFault::BadValue, text }
}

/// The beginning of a text from outside, without control characters.
fn quoted(text: &str) -> String {
    text.chars().take(QUOTED).map(|c| if c.is_control() { '?' } else { c }).collect()
}
