//! Marks of other handlers that tools read.

use std::str::FromStr;

/// Whose marks are written beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compat {
    /// aws-node-termination-handler.
    Nth,
}

impl Compat {
    /// Its word, in flags and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nth => "nth",
        }
    }
}

impl FromStr for Compat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "nth" => Ok(Self::Nth),
            _ => Err("use nth (aws-node-termination-handler)".to_owned()),
        }
    }
}
