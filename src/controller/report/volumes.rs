//! Reports how the wait for the volumes of a node has ended.

use std::time::Duration;

use tracing::{info, warn};

use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    controller::context::Term,
    domain::{NodeName, VolumeWaitEnd},
};

/// The volumes that the Event `VolumesAttached` has named are detached.
const DETACHED: &str = "The volumes of the node's pods are detached.";

impl Term {
    pub(super) fn report_volumes(&self, node: &NodeName, end: &VolumeWaitEnd, took: Duration) {
        self.shared.metrics.volume_wait(end.as_str());
        match end {
            VolumeWaitEnd::Detached => {
                info!(%node, ?took, "The volumes of the node's pods are detached.");
            }
            VolumeWaitEnd::Deadline(attached) => warn!(
                %node, volumes = %attached, ?took,
                "Volumes of the node's pods were still attached at the end of its drain."
            ),
            VolumeWaitEnd::Denied(error) => warn!(
                %node, error, ?took,
                "Sundown lacks a permission to read volumes; the drain does not wait for them. Use \
                 the roles of the chart, or set --wait-for-volumes=never."
            ),
            VolumeWaitEnd::Unanswered(error) => warn!(
                %node, error, ?took,
                "The API server gave no usable answer about volumes; the drain no longer waits for \
                 them."
            ),
        }
        let (severity, reason, message) = match warning(end) {
            Some((reason, message)) => (Severity::Warning, reason, message),
            None => (Severity::Normal, EventReason::VolumesDetached, DETACHED.to_owned()),
        };
        self.note(EventNote { about: About::Node(node.clone()), severity, reason, message });
    }
}

/// The Event about a wait that did not end well; `None`: the volumes are detached.
fn warning(end: &VolumeWaitEnd) -> Option<(EventReason, String)> {
    match end {
        VolumeWaitEnd::Detached => None,
        VolumeWaitEnd::Deadline(attached) => {
            let (were, them) = if attached.count == 1 { ("was", "it") } else { ("were", "them") };
            let message = format!(
                "{attached} {were} still attached at the end of the drain. Pods that need {them} \
                 on another node may wait for 6 minutes."
            );
            Some((EventReason::VolumesAttached, message))
        }
        VolumeWaitEnd::Denied(error) => {
            let message = format!(
                "Sundown lacks a permission to read which volumes are attached, so the drain does \
                 not wait for them: {error}"
            );
            Some((EventReason::VolumesUnknown, message))
        }
        VolumeWaitEnd::Unanswered(error) => {
            let message = format!(
                "The API server gave no usable answer about volumes, so the drain no longer waits \
                 for them: {error}"
            );
            Some((EventReason::VolumesUnknown, message))
        }
    }
}
