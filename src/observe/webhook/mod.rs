//! Telling a chat, or anything that takes a POST, what becomes of nodes.
//!
//! One message for each thing that happens, from the leader alone. It is tried again while that may
//! help, for a minute at most; what is not sent by then is counted and logged, and drains never
//! wait for it.

mod http;
mod notice;
mod sender;
mod template;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, path::PathBuf, str::FromStr};

pub use self::{
    http::{Answer, Answering, Http, Post, Reply, Transport},
    notice::Notice,
    sender::{Notifier, NotifierParts},
    template::{BadTemplate, Facts, NAMES, Template},
};

#[cfg(feature = "otlp")]
pub(in crate::observe) use self::sender::headers;

/// What a chat is sent where nobody says otherwise: Slack's shape, which others take too.
pub const DEFAULT_TEMPLATE: &str = r#"{"text":"Sundown: {{ summary }}"}"#;

/// A text that is never shown: webhooks are addressed by secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum On {
    /// An interruption is taken on.
    Accepted,
    /// A drain is over.
    Ended,
}

impl On {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Ended => "ended",
        }
    }
}

impl FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Accepted, Self::Ended]
            .into_iter()
            .find(|on| on.as_str() == text.trim())
            .ok_or_else(|| "use accepted, ended, or both".to_owned())
    }
}

/// Where the text of messages comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateSource {
    /// This text.
    Text(String),
    /// This file.
    File(PathBuf),
}

/// How messages are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to.
    pub url: Secret,
    /// What is told.
    pub on: BTreeSet<On>,
    /// What a message says.
    pub template: TemplateSource,
    /// A file with more headers, one `Name: value` a line; read anew for every message, so that a
    /// Secret may change.
    pub headers: Option<PathBuf>,
    /// The proxy; `None`: as the environment says.
    pub proxy: Option<Secret>,
}

/// Messages cannot be sent this way.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The template's file cannot be read.
    #[error(
        "--webhook-template-file {path}: cannot be read ({source}); mount it, or give the text \
         with --webhook-template"
    )]
    TemplateFile {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The template cannot be used.
    #[error("the webhook's template cannot be used: {0}")]
    Template(#[from] BadTemplate),
    /// The file with headers cannot be used.
    #[error("--webhook-headers-file {path}: {why}; give one `Name: value` a line")]
    Headers {
        /// Which.
        path: String,
        /// Why, without their values.
        why: String,
    },
    /// The proxy is none.
    #[error("--webhook-proxy: {0}; give a URL such as http://proxy.internal:3128")]
    Proxy(String),
}
