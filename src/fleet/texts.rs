//! Lists of pods and other things, for people.

use crate::domain::PodKey;

/// How many pods a log line or an Event names.
const NAMED: usize = 10;

/// "1 pod", "7 pods".
pub fn pods(count: usize) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

/// The first of many pods, for a log.
pub fn named(pods: &[PodKey]) -> Vec<String> {
    pods.iter().take(NAMED).map(ToString::to_string).collect()
}

/// The first of many things, and how many more there are.
pub fn list<T: ToString>(all: &[T]) -> String {
    let text = all.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if all.len() > NAMED { format!("{text} and {} more", all.len() - NAMED) } else { text }
}
