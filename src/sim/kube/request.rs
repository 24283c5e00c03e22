//! A request for objects, understood.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::{
    failure::Failure,
    kinds::Kind,
    object::{Key, Shown},
    path::Query,
    rules::Asked,
};

/// A request for objects.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The client's tag.
    pub(super) by: Arc<str>,
    pub(super) verb: &'static str,
    pub(super) kind: Arc<Kind>,
    pub(super) key: Key,
    pub(super) subresource: String,
    pub(super) query: Query,
    pub(super) content_type: String,
    pub(super) accept: String,
    pub(super) body: Bytes,
}

impl Call {
    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value, Failure> {
        let media = self.content_type.split(';').next().unwrap_or_default().trim();
        if !(media.is_empty() || media.ends_with("json") || media.ends_with("yaml")) {
            return Err(Failure::new(
                415,
                "UnsupportedMediaType",
                format!(
                    "the body of the request was in an unknown format - accepted media types \
                     include: application/json: {media}"
                ),
            ));
        }
        serde_json::from_slice(&self.body)
            .map_err(|e| Failure::bad_request(format!("error decoding the body: {e}")))
    }

    /// The body as JSON; null if it is empty.
    pub(super) fn optional_json(&self) -> Result<Value, Failure> {
        if self.body.is_empty() { Ok(Value::Null) } else { self.json() }
    }

    /// `dryRun=All` in the query.
    pub(super) fn is_dry_run(&self) -> bool {
        !self.query.all("dryRun").is_empty()
    }

    pub(super) fn asked(&self) -> Asked {
        Asked {
            client: self.by.to_string(),
            verb: self.verb.into(),
            resource: self.kind.plural.clone(),
            group: self.kind.group.clone(),
            subresource: self.subresource.clone(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
        }
    }
}

/// An answer that is not a [`Failure`].
#[derive(Debug)]
pub(super) enum Reply {
    /// An object that is stored, as the client wants to see it.
    Stored(u16, Arc<Shown>),
    /// Another object, as the client wants to see it.
    Object(u16, Value),
    /// JSON as it is.
    Json(u16, Value),
    /// Bytes that are JSON.
    Bytes(Bytes),
    /// Plain text.
    Text(&'static str),
    /// The event stream of a watch.
    Watch(super::watch::Started),
}
