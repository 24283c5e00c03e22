//! Notifications: HTTP POSTs to a chat or another service when an interruption is accepted and when
//! a drain ends.
//!
//! Only the leader sends notifications, one for each of these events. It retries a failed one for a
//! minute at most, if a retry can help, and then counts and logs the failure. Drains never wait for
//! notifications.

mod http;
mod notice;
mod sender;
mod template;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, path::PathBuf, str::FromStr};

pub use self::{
    http::{Answer, AnswerFuture, Http, Post, Reply, Transport},
    notice::Notice,
    sender::{Notifier, NotifierParts},
    template::{BadTemplate, Facts, Fault, NAMES, Template},
};

pub(crate) use self::template::beginning;

#[cfg(feature = "otlp")]
pub(in crate::observe) use self::sender::headers;

/// The default template: the JSON object that Slack expects, which other chats accept too.
pub const DEFAULT_TEMPLATE: &str = r#"{"text":"Sundown: {{ summary }}"}"#;

/// A text that `Debug` does not show, because whoever knows the URL of a webhook can post to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Never put it into a log line or an error.
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

/// The events that cause a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum On {
    /// Sundown accepted an interruption: it wrote the record and begins the drain.
    Accepted,
    /// A drain ended: all pods are gone, the deadline has come, or a person released the node.
    Ended,
}

impl On {
    /// The value of `--webhook-on`, and of `{{ on }}` in a template.
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

/// Where the template of notifications comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateSource {
    /// The template itself (`--webhook-template`).
    Text(String),
    /// The path of a file with the template (`--webhook-template-file`).
    File(PathBuf),
}

/// The `--webhook-…` flags: where notifications go, when, and with which content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The URL that every notification is posted to.
    pub url: Secret,
    /// The events that cause a notification.
    pub on: BTreeSet<On>,
    /// The template of the body.
    pub template: TemplateSource,
    /// A file with more headers, one `Name: value` a line. It is read again for every notification,
    /// because a mounted Secret may change.
    pub headers: Option<PathBuf>,
    /// The URL of the proxy. `None`: the one in `HTTPS_PROXY` or `HTTP_PROXY`, if any.
    pub proxy: Option<Secret>,
}

/// The flags for notifications cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableSettings {
    /// The file with the template cannot be read.
    #[error(
        "--webhook-template-file {path}: cannot be read ({source}); mount it, or give the text \
         with --webhook-template"
    )]
    TemplateFile {
        /// The path of the file.
        path: String,
        /// Why it cannot be read.
        source: std::io::Error,
    },
    /// The template has an error.
    #[error("{flag}: the template of notifications cannot be used: {error}")]
    Template {
        /// The flag that gives the template, and the path of its file.
        flag: String,
        /// What is wrong with the template, and what to write instead.
        error: BadTemplate,
    },
    /// The file with headers cannot be used.
    #[error("--webhook-headers-file {path}: {why}; give one `Name: value` a line")]
    Headers {
        /// The path of the file.
        path: String,
        /// The reason, without the values of headers, which are secret.
        why: String,
    },
    /// `--webhook-proxy` is not a URL.
    #[error("--webhook-proxy: {0}; give a URL such as http://proxy.internal:3128")]
    Proxy(String),
}
