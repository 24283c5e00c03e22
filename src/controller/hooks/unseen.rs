//! Whether AWS shows an instance waiting whose lifecycle action only a record names.

use tracing::{debug, info, warn};

use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    controller::context::Shared,
    domain::{HookKey, Moment, Transition},
    lifecycle::Seen,
};

/// Asks DescribeAutoScalingGroups: when it was asked, and the answer. Only terminate hooks are ever
/// written into a record.
pub(super) async fn ask(shared: Shared, key: HookKey) -> (Moment, Seen) {
    let asked = shared.clock.now();
    let since = tokio::time::Instant::now();
    let seen = match shared.lookups.members.state_since(&key.group, &key.instance, since).await {
        Ok(state) => {
            debug!(
                instance = %key.instance, group = %key.group,
                state = state.as_deref().unwrap_or("none"), "AWS says where the instance is."
            );
            if state.is_some_and(|state| Transition::Terminating.holds(&state)) {
                Seen::Waits
            } else {
                Seen::WaitsNot
            }
        }
        Err(error) if error.is_forbidden() => Seen::Forbidden,
        Err(error) => {
            debug!(
                instance = %key.instance, group = %key.group, %error,
                "Cannot ask whether the instance waits in its hook."
            );
            Seen::Nothing
        }
    };
    (asked, seen)
}

/// The action is completed although AWS could not be asked.
pub(super) fn warn_unseen(shared: &Shared, key: &HookKey) {
    warn!(
        instance = %key.instance, group = %key.group, hook = %key.hook,
        "DescribeAutoScalingGroups cannot be asked whether the instance waits in its hook. The \
         action, known only from the node's record, is completed all the same. Allow \
         autoscaling:DescribeAutoScalingGroups in the role's policy."
    );
    if let Some(node) = shared.nodes.by_instance(&key.instance).first() {
        shared.recorder.note(EventNote {
            about: About::Node(node.name.clone()),
            severity: Severity::Warning,
            reason: EventReason::HookNotConfirmed,
            message: format!(
                "Lifecycle hook {} of {} is completed on the word of the node's record alone: \
                 DescribeAutoScalingGroups could not be asked whether the instance waits. Allow \
                 autoscaling:DescribeAutoScalingGroups",
                key.hook, key.instance
            ),
        });
    }
}

/// The drain has ended, and for a minute AWS has not shown the instance waiting.
pub(super) fn report_doubt(key: &HookKey) {
    info!(
        instance = %key.instance, group = %key.group, hook = %key.hook,
        "The node's record names a lifecycle action, but AWS does not show the instance waiting \
         in the group. Sundown does not complete the action. It sends heartbeats and asks again \
         every 5 min, until the action is over."
    );
}

/// The last moment at which the action could be open has passed.
pub(super) fn report_over(key: &HookKey) {
    info!(
        instance = %key.instance, group = %key.group, hook = %key.hook,
        "The global timeout of the lifecycle action in the node's record has passed, and AWS does \
         not show the instance waiting. The action is over; Sundown does not complete it."
    );
}
