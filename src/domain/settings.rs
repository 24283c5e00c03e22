//! Settings of one drain that come from its lifecycle hook or its Node, not from a flag.
//!
//! A hook gives them in its `NotificationMetadata`, which arrives with the event:
//! `{"sundown":{"drain-timeout":"4h"}}`. A Node gives them as annotations, such as
//! `sundown.dev/drain-timeout: 4h`. `docs/settings.md` has the table of precedence.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    time::Duration,
};

use serde_json::{Map, Value};

use super::{ForceAfter, duration_text, keys, parse_duration, seconds};

/// The key in a hook's NotificationMetadata. Other keys belong to other tools.
const METADATA_KEY: &str = "sundown";
/// A longer NotificationMetadata is not read (Auto Scaling API: at most 4000 characters).
const LONGEST_METADATA: usize = 4000;
/// A longer value is not read.
const LONGEST_VALUE: usize = 40;
/// The most characters of a key or a value that are repeated in a text.
const QUOTED: usize = 40;
/// The most problems of one source that are reported.
const MOST_PROBLEMS: usize = 8;

/// A setting that a hook or a Node can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// How long a drain under a lifecycle hook may take.
    DrainTimeout,
    /// When a pod whose eviction is refused is deleted.
    ForceAfter,
    /// The longest grace period that a pod gets.
    MaxGracePeriod,
    /// How long completion waits after the end of a drain.
    CompleteDelay,
}

impl Setting {
    /// Every setting.
    pub const ALL: [Self; 4] =
        [Self::DrainTimeout, Self::ForceAfter, Self::MaxGracePeriod, Self::CompleteDelay];

    /// Its key in NotificationMetadata, and its annotation without the prefix.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DrainTimeout => "drain-timeout",
            Self::ForceAfter => "force-after",
            Self::MaxGracePeriod => "max-grace-period",
            Self::CompleteDelay => "complete-delay",
        }
    }

    /// Its annotation on a Node.
    #[must_use]
    pub const fn annotation(self) -> &'static str {
        match self {
            Self::DrainTimeout => keys::DRAIN_TIMEOUT,
            Self::ForceAfter => keys::FORCE_AFTER,
            Self::MaxGracePeriod => keys::MAX_GRACE_PERIOD,
            Self::CompleteDelay => keys::COMPLETE_DELAY,
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.as_str() == word)
    }

    /// The shortest and the longest duration; `None` for a setting that is not a duration.
    const fn range(self) -> Option<(Duration, Duration)> {
        const LONGEST_ACTION: Duration = seconds(48 * 3600);
        match self {
            Self::DrainTimeout => Some((seconds(30), LONGEST_ACTION)),
            // 30 s is what Kubernetes gives to a pod that asks for nothing else.
            Self::MaxGracePeriod => Some((seconds(30), LONGEST_ACTION)),
            Self::CompleteDelay => Some((Duration::ZERO, seconds(3600))),
            Self::ForceAfter => None,
        }
    }
}

/// Where a setting that is in force comes from. A later variant takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingSource {
    /// The NotificationMetadata of a lifecycle hook.
    Hook,
    /// An annotation of the Node.
    Node,
}

impl SettingSource {
    /// Its name as a metric label and in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Node => "node",
        }
    }

    /// The place of a setting, as texts name it.
    fn place(self, setting: Setting) -> String {
        match self {
            Self::Hook => {
                format!("`{METADATA_KEY}.{}` in the hook's NotificationMetadata", setting.as_str())
            }
            Self::Node => format!("the annotation {}", setting.annotation()),
        }
    }
}

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

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What the flags allow hooks and Nodes to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedSettings {
    /// `--max-drain-timeout`, else `--drain-timeout`, else 48 h: the longest drain timeout.
    pub longest_drain_timeout: Duration,
    /// `--force-after`: no pod is forced earlier than that.
    pub earliest_force: ForceAfter,
}

impl Default for AllowedSettings {
    fn default() -> Self {
        Self { longest_drain_timeout: seconds(48 * 3600), earliest_force: ForceAfter::default() }
    }
}

/// The settings of a drain that a hook or a Node gives. `None`: not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainSettings {
    /// [`Setting::DrainTimeout`].
    pub drain_timeout: Option<Duration>,
    /// [`Setting::ForceAfter`].
    pub force_after: Option<ForceAfter>,
    /// [`Setting::MaxGracePeriod`].
    pub max_grace_period: Option<Duration>,
    /// [`Setting::CompleteDelay`].
    pub complete_delay: Option<Duration>,
}

/// Settings from one source, and what is wrong with it.
pub type ReadSettings = (DrainSettings, Vec<SettingProblem>);

impl DrainSettings {
    /// Nothing is given.
    pub const NONE: Self = Self {
        drain_timeout: None,
        force_after: None,
        max_grace_period: None,
        complete_delay: None,
    };

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
            return match is_meant {
                true => unreadable(&format!("is longer than {LONGEST_METADATA} characters")),
                false => Self::default_read(),
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
    pub fn of_annotations(annotations: &BTreeMap<String, String>) -> ReadSettings {
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

    /// Sets what `text` says. Errs with the remedy.
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

    /// The value of a setting, as it is written.
    #[must_use]
    pub fn text(&self, setting: Setting) -> Option<String> {
        match setting {
            Setting::DrainTimeout => self.drain_timeout.map(duration_text),
            Setting::ForceAfter => self.force_after.map(|force| force.to_string()),
            Setting::MaxGracePeriod => self.max_grace_period.map(duration_text),
            Setting::CompleteDelay => self.complete_delay.map(duration_text),
        }
    }

    /// The settings as an object that [`Self::of_object`] reads.
    #[must_use]
    pub fn to_object(&self) -> Map<String, Value> {
        let text =
            |setting: Setting| Some((setting.as_str().to_owned(), self.text(setting)?.into()));
        Setting::ALL.into_iter().filter_map(text).collect()
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
                "the flags allow {longest} at most; shorten it, or raise --max-drain-timeout"
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

    /// These settings, and those of `other` for what they do not give.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            drain_timeout: self.drain_timeout.or(other.drain_timeout),
            force_after: self.force_after.or(other.force_after),
            max_grace_period: self.max_grace_period.or(other.max_grace_period),
            complete_delay: self.complete_delay.or(other.complete_delay),
        }
    }

    /// The settings of two hooks of one node together: of each setting, the value that gives the
    /// pods more time.
    #[must_use]
    pub fn with_hook(self, other: Self) -> Self {
        let force_after = match (self.force_after, other.force_after) {
            (Some(one), Some(two)) if one.is_earlier_than(two) => Some(two),
            (one, two) => one.or(two),
        };
        Self {
            drain_timeout: self.drain_timeout.max(other.drain_timeout),
            force_after,
            max_grace_period: self.max_grace_period.max(other.max_grace_period),
            complete_delay: self.complete_delay.max(other.complete_delay),
        }
    }
}

/// One setting in force that no flag gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingInForce {
    /// The setting.
    pub setting: Setting,
    /// Its value, as it is written.
    pub value: String,
    /// Where it comes from.
    pub source: SettingSource,
}

impl fmt::Display for SettingInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.source {
            SettingSource::Hook => "the hook's NotificationMetadata",
            SettingSource::Node => "an annotation of the node",
        };
        write!(f, "{} {} from {place}", self.setting.as_str(), self.value)
    }
}

/// The settings in force that no flag gives: those of the Node, else those of its hooks. Both are
/// allowed by the flags.
#[must_use]
pub fn in_force(of_node: &DrainSettings, of_hooks: &DrainSettings) -> Vec<SettingInForce> {
    let from = |source: SettingSource, settings: &DrainSettings, setting: Setting| {
        settings.text(setting).map(|value| SettingInForce { setting, value, source })
    };
    Setting::ALL
        .into_iter()
        .filter_map(|setting| {
            from(SettingSource::Node, of_node, setting)
                .or_else(|| from(SettingSource::Hook, of_hooks, setting))
        })
        .collect()
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

/// The rows of the table of settings in `docs/settings.md`.
#[must_use]
pub fn document() -> String {
    let mut table = String::from(
        "| key in NotificationMetadata | annotation of the Node | flag | range | allowed by the \
         flags |\n| --- | --- | --- | --- | --- |\n",
    );
    for setting in Setting::ALL {
        let range = setting.range().map_or_else(
            || "`never`, `deadline` or a share from 0 to 1".to_owned(),
            |(least, most)| format!("{} to {}", duration_text(least), duration_text(most)),
        );
        let (flag, allowed) = match setting {
            Setting::DrainTimeout => (
                "`--drain-timeout`",
                "at most `--max-drain-timeout`; without it, at most `--drain-timeout`; without \
                 both, 48h",
            ),
            Setting::ForceAfter => ("`--force-after`", "not earlier than `--force-after`"),
            Setting::MaxGracePeriod => ("none: each pod has its own", "the whole range"),
            Setting::CompleteDelay => ("`--complete-delay`", "the whole range"),
        };
        writeln!(
            table,
            "| `{}` | `{}` | {flag} | {range} | {allowed} |",
            setting.as_str(),
            setting.annotation()
        )
        .ok();
    }
    table
}
