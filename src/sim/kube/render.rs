//! Renders an object in the form that a client has requested.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{
    events,
    json::Look,
    kinds::Kind,
    object::Shown,
    request::Call,
    table::{self, Include},
    watch::Push,
};
use crate::runtime::Clock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Table(Include),
    Metadata,
}

/// How a client wants to see objects, by its `Accept` header and the group that it asks in.
#[derive(Debug, Clone)]
pub(super) struct Render {
    kind: Arc<Kind>,
    form: Form,
    clock: Clock,
}

impl Render {
    pub(super) fn of(call: &Call, clock: Clock) -> Self {
        let form = match call.accept.as_str() {
            a if a.contains("as=Table") => {
                Form::Table(Include::of(call.query.get("includeObject")))
            }
            a if a.contains("as=PartialObjectMetadata") => Form::Metadata,
            _ => Form::Plain,
        };
        Self { kind: Arc::clone(&call.kind), form, clock }
    }

    fn is_plain(&self) -> bool {
        self.form == Form::Plain && !events::is_newer(&self.kind)
    }

    /// One object.
    pub(super) fn object(&self, value: Value) -> Value {
        let value = if events::is_newer(&self.kind) { events::to_newer(value) } else { value };
        match self.form {
            Form::Plain => value,
            Form::Metadata => {
                json!({
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": value.at("metadata")
                })
            }
            Form::Table(include) => {
                table::table(&self.kind.plural, &[value], &json!({}), include, self.clock.now())
            }
        }
    }

    /// A stored object, as JSON.
    pub(super) fn bytes(&self, shown: &Shown) -> Bytes {
        if self.is_plain() {
            return shown.bytes.clone();
        }
        let value = serde_json::from_slice(&shown.bytes).unwrap_or_default();
        serde_json::to_vec(&self.object(value)).unwrap_or_default().into()
    }

    /// The body of a list answer.
    pub(super) fn list(&self, items: &[Arc<Shown>], metadata: &Value) -> Bytes {
        if let Form::Table(include) = self.form {
            let values: Vec<Value> = items
                .iter()
                .map(|s| serde_json::from_slice(&s.bytes).unwrap_or_default())
                .collect();
            let table =
                table::table(&self.kind.plural, &values, metadata, include, self.clock.now());
            return serde_json::to_vec(&table).unwrap_or_default().into();
        }
        let (kind, version) = match self.form {
            Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            _ => (self.kind.kind.as_str(), self.kind.api_version()),
        };
        let mut out =
            BytesMut::with_capacity(256 + items.iter().map(|s| s.bytes.len() + 1).sum::<usize>());
        out.put_slice(
            format!(
                "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
            ).as_bytes()
        );
        for (i, shown) in items.iter().enumerate() {
            if i > 0 {
                out.put_u8(b',');
            }
            out.put_slice(&self.bytes(shown));
        }
        out.put_slice(b"]}");
        out.freeze()
    }

    /// One line of a watch.
    pub(super) fn event(&self, push: &Push) -> Bytes {
        let (kind, object) = match push {
            Push::Event(kind, shown) => (*kind, self.bytes(shown)),
            Push::Bookmark { revision, initial } => {
                ("BOOKMARK", self.bookmark(*revision, *initial))
            }
            Push::Error(status) => ("ERROR", status.to_string().into()),
            Push::Silence | Push::Break => return Bytes::new(),
        };
        let mut line = BytesMut::with_capacity(object.len() + 40);
        line.put_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        line.put_slice(&object);
        line.put_slice(b"}\n");
        line.freeze()
    }

    fn bookmark(&self, revision: u64, initial: bool) -> Bytes {
        let mut object = json!({ "kind": self.kind.kind, "apiVersion": self.kind.api_version(),
            "metadata": { "resourceVersion": revision.to_string(), "creationTimestamp": null } });
        if initial {
            object.put("metadata.annotations", json!({ "k8s.io/initial-events-end": "true" }));
        }
        match self.form {
            Form::Plain => object,
            Form::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object.at("metadata")
            }),
            Form::Table(include) => table::table(
                &self.kind.plural,
                &[],
                object.at("metadata"),
                include,
                self.clock.now(),
            ),
        }
        .to_string()
        .into()
    }
}
