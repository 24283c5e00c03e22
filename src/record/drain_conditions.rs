//! The conditions `DrainInProgress` and `Drained` of a Node (KEP-5683).
//!
//! | the Node has | wanted | written |
//! | --- | --- | --- |
//! | no such condition | a status and a text | both |
//! | that of Sundown | another status or text | both |
//! | that of Sundown | none | Sundown removes it |
//! | that of another writer | anything | nothing: Sundown never changes it |

use serde_json::{Value, json};

use super::Released;
use crate::domain::{DRAIN_IN_PROGRESS, DRAINED, Moment, Node, RECORD, ShownCondition, ShownDrain};

/// The longest text of a message, in characters. The index keeps more of it.
const MAX_TEXT: usize = 900;

/// What both conditions show. They have one reason and one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainConditions {
    /// The status of `DrainInProgress` is `True`.
    pub is_in_progress: bool,
    /// The status of `Drained` is `True`.
    pub is_drained: bool,
    /// One word in CamelCase.
    pub reason: &'static str,
    message: String,
}

impl DrainConditions {
    /// Conditions with this text. A long text is cut.
    #[must_use]
    pub fn new(is_in_progress: bool, is_drained: bool, reason: &'static str, text: &str) -> Self {
        let cut = text.char_indices().nth(MAX_TEXT).and_then(|(end, _)| text.get(..end));
        let text = cut.map_or_else(|| text.to_owned(), |start| format!("{start}..."));
        let message = format!("{text} (see {RECORD})");
        Self { is_in_progress, is_drained, reason, message }
    }

    /// After the end of a drain. `None`: no pod was to leave.
    #[must_use]
    pub fn of_end(released: &Released) -> Option<Self> {
        let (is_drained, reason, why) = match released.outcome.as_str() {
            "empty" => (true, "DrainCompleted", "no pod is left"),
            "instance_over" => (true, "InstanceEnded", "its instance has stopped or is terminated"),
            "deadline" => (false, "DeadlineReached", "its deadline was reached"),
            "timed_out" => (false, "DrainTimedOut", "it has reached its drain timeout"),
            "unreachable" => (false, "NodeUnreachable", "its kubelet does not report"),
            "released" => (false, "DrainReleased", "a person or AWS has ended it early"),
            _ => return None,
        };
        let text = format!("The drain ended at {:.0}: {why}", released.at);
        Some(Self::new(false, is_drained, reason, &text))
    }
}

/// What is to be written into the conditions of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainConditionsChange(Vec<Change>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Set {
        kind: &'static str,
        is_true: bool,
        reason: &'static str,
        message: String,
        /// The status changes, not only the text.
        is_transition: bool,
    },
    Remove(&'static str),
}

impl DrainConditionsChange {
    /// The strategic merge patch of the Node's status. It has only the conditions that change: a
    /// JSON merge patch would replace the whole list. `now`: by our clock.
    #[must_use]
    pub fn patch(&self, uid: &str, now: Moment) -> Value {
        let time = format!("{now:.0}");
        let body = |change: &Change| match change {
            Change::Set { kind, is_true, reason, message, is_transition } => {
                let mut condition = json!({
                    "type": kind,
                    "status": if *is_true { "True" } else { "False" },
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": time,
                });
                if let Some(fields) = condition.as_object_mut().filter(|_| *is_transition) {
                    fields.insert("lastTransitionTime".to_owned(), time.clone().into());
                }
                condition
            }
            Change::Remove(kind) => json!({ "type": kind, "$patch": "delete" }),
        };
        let conditions: Vec<Value> = self.0.iter().map(body).collect();
        json!({ "metadata": { "uid": uid }, "status": { "conditions": conditions } })
    }
}

/// Sundown's conditions name its annotation.
fn is_ours(shown: &ShownCondition) -> bool {
    shown.message.contains(RECORD)
}

/// What must be written so that the Node shows `wanted`; `None` as `wanted`: neither condition of
/// Sundown. Returns `None` if it does already, as far as other writers let it.
#[must_use]
pub fn drain_conditions_change(
    node: &Node,
    wanted: Option<&DrainConditions>,
) -> Option<DrainConditionsChange> {
    let none = ShownDrain::default();
    let shown = node.drain_conditions.as_deref().unwrap_or(&none);
    let of = |kind, shown: Option<&ShownCondition>, is_true: fn(&DrainConditions) -> bool| {
        if shown.is_some_and(|shown| !is_ours(shown)) {
            return None;
        }
        let Some(wanted) = wanted else { return shown.map(|_| Change::Remove(kind)) };
        let DrainConditions { reason, message, .. } = wanted;
        let is_true = is_true(wanted);
        let is_transition = shown.is_none_or(|shown| shown.is_true != is_true);
        let is_right = !is_transition
            && shown.is_some_and(|shown| shown.reason == *reason && shown.message == *message);
        let (reason, message) = (*reason, message.clone());
        let set = Change::Set { kind, is_true, reason, message, is_transition };
        (!is_right).then_some(set)
    };
    let changes = [
        of(DRAIN_IN_PROGRESS, shown.in_progress.as_ref(), |wanted| wanted.is_in_progress),
        of(DRAINED, shown.drained.as_ref(), |wanted| wanted.is_drained),
    ];
    let changes: Vec<Change> = changes.into_iter().flatten().collect();
    (!changes.is_empty()).then_some(DrainConditionsChange(changes))
}

/// What Sundown's own conditions of the Node show. `None`: it has none of Sundown.
#[must_use]
pub fn own_drain_condition(node: &Node) -> Option<&ShownCondition> {
    let shown = node.drain_conditions.as_deref()?;
    [&shown.in_progress, &shown.drained].into_iter().flatten().find(|shown| is_ours(shown))
}
