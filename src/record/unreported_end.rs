//! Instances that EC2 shuts down although no event reports it: which Nodes to ask EC2 about.
//!
//! A kubelet stops early in the shutdown of its machine, so only Nodes that are not Ready are asked
//! about. The first row that applies decides:
//!
//! | the Node | EC2 is asked |
//! | --- | --- |
//! | is Ready, or has no providerID of EC2 | no |
//! | has a record of drain requests alone | yes |
//! | has an open record, or one that may be open: its drain goes on | no |
//! | has a released record, and Sundown's cordon and taint | no |
//! | anything else | yes, and the answer `stopping` or `shutting-down` counts as its state change |
//!
//! Sundown does nothing about an instance that is already stopped or terminated: nothing runs
//! there, and the cloud controller deletes the Node.

use super::{RecordStatus, requests::is_only_requested, status};
use crate::domain::{
    Cause, InstanceId, InstanceState, Interruption, Moment, Node, Ready, sweep_event_id,
};

/// How many Nodes are asked about at once: as many as one DescribeInstances takes.
pub const MAX_ASKED: usize = 200;

/// Whether EC2 may be shutting the instance of this Node down.
#[must_use]
pub fn may_end_unreported(node: &Node) -> bool {
    if node.ready == Ready::True || node.instance.is_none() {
        return false;
    }
    match status(node, None) {
        RecordStatus::None | RecordStatus::Damaged(_) | RecordStatus::Void { .. } => true,
        RecordStatus::Released { record, has_our_changes } => {
            !has_our_changes || is_only_requested(&record)
        }
        RecordStatus::Open(record) => is_only_requested(&record),
        RecordStatus::Doubtful { .. } => false,
    }
}

/// The state change that EC2's answer shows. `at`: when EC2 was asked, on AWS's clock. `None`: the
/// instance is not about to end.
#[must_use]
pub fn unreported_end(
    instance: &InstanceId,
    state: InstanceState,
    at: Moment,
) -> Option<Interruption> {
    matches!(state, InstanceState::Stopping | InstanceState::ShuttingDown).then(|| Interruption {
        instance: instance.clone(),
        event_id: sweep_event_id(at, &state.as_str().into()),
        time: Some(at),
        cause: Cause::StateChange(state),
    })
}
