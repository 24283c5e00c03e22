//! The Kubernetes API server's answer to a write, reduced to what a decision needs.

use std::time::Duration;

/// An answer of the Kubernetes API to a write. The modules that do I/O create it, the pure modules
/// classify it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiAnswer {
    /// The HTTP status; 0 if there was no answer (connection error, our own deadline). A call
    /// without an answer may or may not have had an effect.
    pub code: u16,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// `status.details.causes[].reason` with its message.
    pub causes: Vec<(String, String)>,
    /// `status.details.retryAfterSeconds` or the `Retry-After` header; `None` if zero or absent.
    pub retry_after: Option<Duration>,
}

impl ApiAnswer {
    /// The `reason` of a call that this process did not send because it may not write now.
    pub const HELD_BACK: &'static str = "HeldBack";

    /// The status is 200 to 299.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.code >= 200 && self.code < 300
    }

    /// The call was never sent.
    #[must_use]
    pub fn was_held_back(&self) -> bool {
        self.code == 0 && self.reason == Self::HELD_BACK
    }

    /// One of the causes has this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes.iter().any(|(r, _)| r == reason)
    }
}
