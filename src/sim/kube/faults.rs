//! What may go wrong between a client and the server, and who may do what.

use std::time::Duration;

/// Which requests a rule is about. What is `None` matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// The tag or user agent of the client begins with this.
    pub client: Option<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: Option<String>,
    /// The plural name, `pods`.
    pub resource: Option<String>,
    /// The subresource; `Some("")`: only requests without one.
    pub subresource: Option<String>,
    /// Namespace of the request.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: Option<String>,
}

impl Match {
    /// Every request.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Requests with this verb for this resource: `pods`, or with a subresource `pods/eviction`.
    #[must_use]
    pub fn of(verb: &str, resource: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            verb: Some(verb.into()),
            resource: Some(resource.into()),
            subresource: Some(subresource.into()),
            ..Self::default()
        }
    }

    /// Evictions.
    #[must_use]
    pub fn evictions() -> Self {
        Self::of("create", "pods/eviction")
    }

    /// Only of this object.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only from this client.
    #[must_use]
    pub fn from(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This Status, and no effect.
    Status {
        /// HTTP status code, also `Status.code`.
        code: u16,
        /// `Status.reason`.
        reason: String,
        /// `Status.message`.
        message: String,
        /// `Retry-After` and `details.retryAfterSeconds`, in seconds.
        retry_after: Option<u32>,
    },
    /// 403 as RBAC words it.
    Forbidden,
    /// 401: the token is no longer valid.
    Unauthorized,
    /// 429 as API priority and fairness words it: plain text, `Retry-After`, no Status.
    Overloaded {
        /// `Retry-After`, in seconds.
        retry_after: u32,
    },
    /// Executed and answered this much later; if the request's `timeout` is shorter, it fails
    /// without effect.
    Slow(Duration),
    /// Executed at once, answered this much later.
    SlowAnswer(Duration),
    /// The connection fails before the request has an effect.
    Refused,
    /// The connection fails after the request had its effect.
    AnswerLost,
    /// No effect, and never an answer.
    Hang,
    /// It has its effect; there is never an answer.
    HangAfterEffect,
    /// It has its effect; the answer has status 200 and is not JSON.
    Garbled,
}

/// A fault for matching requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The requests that it applies to.
    pub matching: Match,
    /// What happens to them.
    pub fault: Fault,
    /// How often; `None`: until it is lifted.
    pub times: Option<usize>,
    /// How many matching requests pass before it applies.
    pub after: usize,
    /// The share of the matching requests that it hits, drawn from the seed.
    pub share: f64,
}

impl Rule {
    /// Every matching request, until it is lifted.
    #[must_use]
    pub const fn always(matching: Match, fault: Fault) -> Self {
        Self { matching, fault, times: None, after: 0, share: 1.0 }
    }

    /// The next `times` matching requests.
    #[must_use]
    pub const fn next(times: usize, matching: Match, fault: Fault) -> Self {
        Self { matching, fault, times: Some(times), after: 0, share: 1.0 }
    }
}

/// Names a rule that was put in, to lift it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub(super) u64);

/// How the whole server is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// Connections fail at once; open watches end.
    Refusing,
    /// Nothing is answered; open watches stay open and silent.
    Silent,
}

/// An admission webhook's decision on an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionVerdict {
    /// It passes.
    Allow,
    /// 403 with this message.
    Deny(String),
    /// The webhook cannot be called: 500 with this cause.
    Unreachable(String),
    /// 429 with this message and no cause (KubeVirt starts a migration this way).
    Busy(String),
    /// 201, but the pod is not deleted: another component handles its eviction.
    Intercept,
}

/// An admission webhook's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvictionReview {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// How many evictions of this pod it was asked about before.
    pub before: usize,
}
