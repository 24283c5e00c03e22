//! For a lifecycle action that only a record names: asks AWS whether the instance waits, and logs
//! the result.

use std::sync::Arc;

use tracing::{debug, info, warn};

use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    controller::shared::Shared,
    domain::{GroupName, HookKey, HookName, InstanceId, Moment, Transition},
    lifecycle::Seen,
};

/// Asks DescribeAutoScalingGroups, and DescribeWarmPool if the group has a warm pool and does not
/// list the instance, whether it waits in a terminate hook, the only kind of hook that a record
/// holds. Returns when it asked, and the answer.
pub(super) async fn ask(shared: Arc<Shared>, key: HookKey) -> (Moment, Seen) {
    let asked = shared.clock.now();
    let since = tokio::time::Instant::now();
    let seen = match shared.lookups.members.state_since(&key.group, &key.instance, since).await {
        Ok(state) => {
            debug!(
                instance = %key.instance, group = %key.group,
                state = state.as_deref().unwrap_or("none"),
                "Read the instance's lifecycle state in its group."
            );
            if state.is_some_and(|state| Transition::Terminating.holds(&state)) {
                Seen::Waiting
            } else {
                Seen::NotWaiting
            }
        }
        Err(error) if error.is_forbidden() => Seen::Forbidden,
        Err(error) => {
            debug!(
                instance = %key.instance, group = %key.group, %error,
                "Cannot read whether the instance waits in its hook."
            );
            Seen::NoAnswer
        }
    };
    (asked, seen)
}

/// Warns that the action is completed although AWS did not answer whether the instance waits.
pub(super) fn warn_unconfirmed(shared: &Shared, key: &HookKey) {
    warn!(
        instance = %key.instance, group = %key.group, hook = %key.hook,
        "Auto Scaling does not answer whether the instance waits in its hook. Sundown completes the \
         action all the same, although only the node's record names it. Allow \
         autoscaling:DescribeAutoScalingGroups and autoscaling:DescribeWarmPool in the role's \
         policy."
    );
    if let Some(node) = shared.nodes.by_instance(&key.instance).first() {
        shared.recorder.note(EventNote {
            about: About::Node(node.name.clone()),
            severity: Severity::Warning,
            reason: EventReason::HookNotConfirmed,
            message: format!(
                "Lifecycle hook {} of {} is completed although only the node's record names it: \
                 Auto Scaling does not answer whether the instance waits. Allow \
                 autoscaling:DescribeAutoScalingGroups and autoscaling:DescribeWarmPool",
                key.hook, key.instance
            ),
        });
    }
}

/// Logs that the drain has ended, but AWS has not shown the instance waiting for a minute.
pub(super) fn report_doubt(key: &HookKey) {
    info!(
        instance = %key.instance, group = %key.group, hook = %key.hook,
        "The node's record names a lifecycle action, but AWS does not show the instance waiting \
         in the group. Sundown does not complete the action. It sends heartbeats and asks again \
         every 5 min, until the action is over."
    );
}

/// Logs that the last moment at which the action could be open has passed.
pub(super) fn report_over(key: &HookKey) {
    info!(
        instance = %key.instance, group = %key.group, hook = %key.hook,
        "The global timeout of the lifecycle action in the node's record has passed, and AWS does \
         not show the instance waiting. The action is over; Sundown does not complete it."
    );
}

/// Logs that AWS has shown another action of the hook open.
pub(super) fn report_replaced(key: &HookKey) {
    info!(
        instance = %key.instance, group = %key.group, hook = %key.hook,
        "The lifecycle action in the node's record is over: AWS keeps a later action of the same \
         hook open. Sundown completes that one when its drain has ended."
    );
}

/// Logs that a hook turned out to be another party's after its interruption was accepted.
pub(in crate::controller) fn report_of_others(
    group: &GroupName,
    hook: &HookName,
    instance: &InstanceId,
) {
    info!(
        group = %group, hook = %hook, instance = %instance,
        "The hook is not ours: the group has one whose name starts with sundown. Sundown sends it \
         no more heartbeats and does not complete its action."
    );
}
