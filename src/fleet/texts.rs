//! Lists of pods and other things, for logs and Events.

use crate::domain::{Owner, PodKey};

/// How many pods a log line or an Event names.
const NAMED: usize = 10;

/// "1 pod", "7 pods".
pub fn pods(count: usize) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

/// The first ten pods, as `NAMESPACE/NAME`.
pub fn first_pods(pods: &[PodKey]) -> Vec<String> {
    pods.iter().take(NAMED).map(ToString::to_string).collect()
}

/// The first ten things, and the number of the rest: "a, b and 5 more".
pub fn list<T: ToString>(all: &[T]) -> String {
    let text = all.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if all.len() > NAMED { format!("{text} and {} more", all.len() - NAMED) } else { text }
}

/// That new pods of an owner came back on the node and are left alone. `new`: how many.
pub fn came_back(namespace: &str, owner: &Owner, new: usize) -> String {
    format!(
        "{} of {} {namespace}/{} came back since the cordon: its new pods are left alone and not \
         waited for",
        pods(new),
        owner.kind,
        owner.name
    )
}
