//! Builds the requests that create Events and raise their counts.

use http::Request as HttpRequest;
use kube::core::{
    Request,
    params::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{About, Entry, EventNote, Severity};
use crate::domain::Moment;

impl About {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Node(name) => name.as_str(),
            Self::Pod(key, _) => &key.name,
        }
    }

    /// The namespace of the Event. Events about a Node are in `default`.
    fn namespace(&self) -> &str {
        match self {
            Self::Node(_) => "default",
            Self::Pod(key, _) => &key.namespace,
        }
    }

    /// `involvedObject`. For a Node, the UID is its name: the kubelet writes it so, and
    /// `kubectl describe node` searches for it (kubectl `pkg/describe/describe.go`: "controller use
    /// node.uid, kubelet use node.name").
    fn reference(&self) -> Value {
        match self {
            Self::Node(name) => {
                json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": name})
            }
            Self::Pod(key, uid) => {
                json!({
                    "apiVersion": "v1", "kind": "Pod", "namespace": key.namespace, "name": key.name,
                    "uid": uid
                })
            }
        }
    }
}

impl Severity {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A valid object name: the name of the object, cut to 230 characters, and a number.
pub(super) fn event_name(object: &str, number: u64) -> String {
    let cut: String = object.chars().take(230).collect();
    format!("{}.{number:016x}", cut.trim_end_matches(['.', '-']))
}

fn events_of(note: &EventNote) -> Request {
    Request::new(format!("/api/v1/namespaces/{}/events", note.about.namespace()))
}

/// The longest message, in bytes (apimachinery's limit for notes).
const MESSAGE: usize = 1024;

/// Drops the fraction of a second, because `metav1.Time` has whole seconds.
fn whole_seconds(moment: Moment) -> String {
    Moment::from_second(moment.as_second()).unwrap_or(moment).to_string()
}

fn shortened(message: &str) -> &str {
    let end = (0..=message.len().min(MESSAGE)).rev().find(|end| message.is_char_boundary(*end));
    end.and_then(|end| message.get(..end)).unwrap_or_default()
}

pub(super) fn creation(
    note: &EventNote,
    entry: &Entry,
    name: &str,
    instance: &str,
) -> Option<HttpRequest<Vec<u8>>> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": note.about.namespace()},
        "involvedObject": note.about.reference(),
        "type": note.severity.as_str(),
        "reason": note.reason.as_str(),
        "message": shortened(&note.message),
        "count": entry.count,
        "firstTimestamp": whole_seconds(entry.first),
        "lastTimestamp": whole_seconds(entry.last),
        "source": {"component": "sundown"},
        "reportingComponent": "sundown",
        "reportingInstance": instance,
    });
    let body = serde_json::to_vec(&body).ok()?;
    events_of(note).create(&PostParams::default(), body).ok()
}

pub(super) fn counting(
    note: &EventNote,
    entry: &Entry,
    name: &str,
) -> Option<HttpRequest<Vec<u8>>> {
    let patch = json!({"count": entry.count, "lastTimestamp": whole_seconds(entry.last)});
    events_of(note).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).ok()
}
