//! The error of a flag that cannot be used.

use std::time::Duration;

use super::values::duration_text;

/// A flag that cannot be used, its value, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--{flag} ({variable}) is {value}: {remedy}")]
pub struct ConfigError {
    /// The flag, without its dashes.
    pub flag: &'static str,
    /// The flag's environment variable, `SUNDOWN_…`.
    pub variable: String,
    /// Its value, quoted, or `not given`.
    pub value: String,
    /// What is wrong with it, and what to do.
    pub remedy: String,
}

impl ConfigError {
    pub(super) fn new(flag: &'static str, value: Option<&str>, remedy: impl Into<String>) -> Self {
        let value = value.map_or_else(|| "not given".to_owned(), |v| format!("`{v}`"));
        Self { flag, variable: super::print::variable(flag), value, remedy: remedy.into() }
    }

    /// The error of a command that sends to a queue and has no `--queue-url`.
    #[must_use]
    pub fn no_queue() -> Self {
        Self::new(
            "queue-url",
            None,
            "give the URL of the queue that it is put on, as `aws sqs get-queue-url` prints it",
        )
    }

    /// The error if neither flags nor the environment name the region of the instances.
    #[must_use]
    pub fn no_region() -> Self {
        Self::new(
            "region",
            None,
            "neither the queue's URL nor the environment (AWS_REGION, the profile, the instance's \
             metadata) names a region; give that of the instances, such as eu-west-1",
        )
    }

    pub(super) fn duration(flag: &'static str, value: Duration, remedy: impl Into<String>) -> Self {
        Self::new(flag, Some(&duration_text(value)), remedy)
    }
}
