//! Settings of one drain that come from its lifecycle hook or its Node, not from a flag.
//!
//! A hook gives them in its `NotificationMetadata`, which arrives with the event:
//! `{"sundown":{"drain-timeout":"4h"}}`. A Node gives them as annotations, such as
//! `sundown.dev/drain-timeout: 4h`. `docs/settings.md` has the table of precedence.

mod read;
#[cfg(test)]
mod tests;

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use serde_json::{Map, Value};

use self::read::METADATA_KEY;
pub use self::read::{ReadSettings, SettingFault, SettingProblem};
use super::{ForceAfter, duration_text, keys, seconds};

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
            // As for `--drain-timeout`. 30 s is also the grace period that Kubernetes gives to a pod
            // that asks for nothing else.
            Self::DrainTimeout | Self::MaxGracePeriod => Some((seconds(30), LONGEST_ACTION)),
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

impl DrainSettings {
    /// Nothing is given.
    pub const NONE: Self = Self {
        drain_timeout: None,
        force_after: None,
        max_grace_period: None,
        complete_delay: None,
    };

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

/// One setting in force that comes from a hook or a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingInForce {
    /// The setting, such as `--drain-timeout`.
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

/// The settings in force that come from the Node, or else from its hooks. The flags allow them.
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
