//! The condition `MaintenancePlanned` of a Node (KEP-5683): AWS has announced a scheduled change.
//!
//! | the Node has | a change is announced | written |
//! | --- | --- | --- |
//! | no such condition, or `False` | yes | `True`, with the code and the start |
//! | `True`, by Sundown | yes | the same, if its text has changed |
//! | `True`, by Sundown | no | `False` |
//! | `True`, by another writer | yes or no | nothing: Sundown never changes it |
//! | no such condition, or `False` | no | nothing |

use serde_json::{Value, json};

use super::{PlanTime, Planned, PlannedChange};
use crate::domain::{ChangeAction, MAINTENANCE_PLANNED, Moment, Node, PLANNED};

/// The reason while no change is announced.
const NONE_PLANNED: &str = "NoMaintenancePlanned";

/// What a Node's condition `MaintenancePlanned` is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceCondition {
    /// `True`, else `False`.
    pub is_planned: bool,
    reason: String,
    message: String,
    /// The status changes, not only the text.
    is_transition: bool,
}

impl MaintenanceCondition {
    /// The strategic merge patch of the Node's status. It has only this condition: a JSON merge
    /// patch would replace the whole list. `now`: by our clock.
    #[must_use]
    pub fn patch(&self, uid: &str, now: Moment) -> Value {
        let time = format!("{now:.0}");
        let mut condition = json!({
            "type": MAINTENANCE_PLANNED,
            "status": if self.is_planned { "True" } else { "False" },
            "reason": self.reason,
            "message": self.message,
            "lastHeartbeatTime": time,
        });
        if let Some(fields) = condition.as_object_mut().filter(|_| self.is_transition) {
            fields.insert("lastTransitionTime".to_owned(), time.into());
        }
        json!({ "metadata": { "uid": uid }, "status": { "conditions": [condition] } })
    }
}

impl Planned {
    /// The change that the condition shows: of those that have not begun, the one that begins
    /// first.
    #[must_use]
    pub fn announced(&self, now: Moment) -> Option<&PlannedChange> {
        self.open().filter(|change| change.is_ahead(now)).min_by_key(|change| change.starts)
    }
}

impl PlannedChange {
    /// It asks for a drain, and its start is ahead or not known.
    fn is_ahead(&self, now: Moment) -> bool {
        ChangeAction::of_code(&self.code) != ChangeAction::Report
            && self.starts.is_none_or(|starts| starts > now)
    }

    /// The reason of a condition has only letters, digits and underscores.
    fn reason(&self) -> String {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.code.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect()
    }

    fn message(&self) -> String {
        let starts =
            self.starts.map_or_else(String::new, |at| format!(", which begins at {at:.0}"));
        format!("AWS announced {}{starts} (event {}, see {PLANNED})", self.code, self.arn)
    }
}

/// What the Node's condition must be set to. `planned`: its scheduled changes; `None`: it has none.
/// Returns `None` if the condition is right.
#[must_use]
pub fn maintenance_condition(
    node: &Node,
    planned: Option<&Planned>,
    at: PlanTime,
) -> Option<MaintenanceCondition> {
    let shown = node.maintenance.as_deref();
    let is_shown = shown.is_some_and(|shown| shown.is_true);
    // Several writers of this condition are not coordinated. Ours names our annotation.
    if is_shown && !shown.is_some_and(|shown| shown.message.contains(PLANNED)) {
        return None;
    }
    match planned.and_then(|planned| planned.announced(at.now)) {
        Some(change) => {
            let (reason, message) = (change.reason(), change.message());
            let is_right = is_shown
                && shown.is_some_and(|shown| shown.reason == reason && shown.message == message);
            let is_transition = !is_shown;
            let condition =
                MaintenanceCondition { is_planned: true, reason, message, is_transition };
            (!is_right).then_some(condition)
        }
        None => is_shown.then(|| MaintenanceCondition {
            is_planned: false,
            reason: NONE_PLANNED.to_owned(),
            message: "The scheduled change is over, has begun, or was canceled".to_owned(),
            is_transition: true,
        }),
    }
}
