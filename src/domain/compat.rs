//! Taints and labels of other handlers that external tools look for.

use std::str::FromStr;

/// The handler whose taints and labels Sundown sets in addition to its own (`--compat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compat {
    /// aws-node-termination-handler.
    Nth,
}

impl Compat {
    /// The handler's short name in flags and records.
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
