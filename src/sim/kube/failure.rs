//! Refusals, as the API server words them (apimachinery: pkg/api/errors/errors.go).

use serde_json::{Value, json};

use super::{json::Look, kinds::Kind};

/// A request that was refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) details: Value,
    /// The header `Retry-After`.
    pub(super) retry_after: Option<u32>,
    /// The body is the message as plain text, and no Status.
    pub(super) plain: bool,
}

impl Failure {
    pub(super) fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: Value::Null,
            retry_after: None,
            plain: false,
        }
    }

    pub(super) fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// Sets `Retry-After` and `details.retryAfterSeconds`; 0 sets neither, as on the real server.
    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        if seconds > 0 {
            self.details.put("retryAfterSeconds", seconds);
            self.retry_after = Some(seconds);
        }
        self
    }

    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.qualified()))
            .with_details(details(kind, name))
    }

    pub(super) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(json!({}))
    }

    pub(super) fn exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.qualified()))
            .with_details(details(kind, name))
    }

    /// A path that nobody serves: plain text, no Status.
    pub(super) fn no_such_page() -> Self {
        let mut f = Self::new(404, "NotFound", "404 page not found\n");
        f.plain = true;
        f
    }

    /// The resource is there, and takes no such verb.
    pub(super) fn no_such_method() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    /// A resourceVersion that is not reached yet.
    pub(super) fn too_new(wanted: u64, current: u64) -> Self {
        let details = json!({ "causes": [{ "reason": "ResourceVersionTooLarge", "message":
        "Too large resource version" }] });
        Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {wanted}, current: {current}"),
        )
        .with_details(details)
        .retry_after(1)
    }

    /// A UID or resourceVersion that a deletion or an eviction asks for is another one; here the
    /// server names the kind, not the resource.
    pub(super) fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let mut d = details(kind, name);
        d.put("kind", kind.kind.as_str());
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.whole()),
        )
        .with_details(d)
    }

    pub(super) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified()),
        )
        .with_details(details(kind, name))
    }

    /// The write named a resourceVersion that is not the newest.
    pub(super) fn stale(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        )
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The reason follows from how `why` begins, which must be as in the server's own text:
    /// `Invalid value`, `Required value`.
    pub(super) fn invalid(kind: &Kind, name: &str, field: &str, why: &str) -> Self {
        let reason = match why.split(':').next().unwrap_or_default() {
            "Required value" => "FieldValueRequired",
            "Unsupported value" => "FieldValueNotSupported",
            "Duplicate value" => "FieldValueDuplicate",
            "Too long" => "FieldValueTooLong",
            "Forbidden" => "FieldValueForbidden",
            _ => "FieldValueInvalid",
        };
        let mut d = details(kind, name);
        d.put("kind", kind.kind.as_str());
        d.put("causes", json!([{ "reason": reason, "message": why, "field": field }]));
        Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {field}: {why}", kind.whole()))
            .with_details(d)
    }

    pub(super) fn internal(message: &str) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .with_details(json!({ "causes": [{ "message": message }] }))
    }

    /// The `timeout` of the request is over (apiserver: endpoints/handlers/finisher).
    pub(super) fn timeout() -> Self {
        Self::new(
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout - context deadline \
             exceeded",
        )
        .with_details(json!({}))
    }

    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// API priority and fairness, and the limit of requests in flight: plain text, no Status.
    pub(super) fn overloaded(retry_after: u32) -> Self {
        let mut f =
            Self::new(429, "TooManyRequests", "Too many requests, please try again later.\n");
        f.retry_after = Some(retry_after);
        f.plain = true;
        f
    }

    /// The object `Status`.
    pub(super) fn status(&self) -> Value {
        let mut s = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code
        });
        if !self.reason.is_empty() {
            s.put("reason", self.reason.as_str());
        }
        if !self.details.is_null() {
            s.put("details", self.details.clone());
        }
        s
    }
}

/// `details` that name an object.
pub(super) fn details(kind: &Kind, name: &str) -> Value {
    let mut d = json!({ "kind": kind.plural });
    if !name.is_empty() {
        d.put("name", name);
    }
    if !kind.group.is_empty() {
        d.put("group", kind.group.as_str());
    }
    d
}
