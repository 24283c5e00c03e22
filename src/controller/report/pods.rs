//! Reports about single pods: evictions, deletes, and what blocks them.

use tracing::{debug, info, warn};

use crate::{
    cluster::{About, EventNote, EventReason, Severity},
    config::PodEvents,
    controller::context::Term,
    domain::{Moment, NodeName, PodKey, PodUid, Wish, WishSource},
    drain::{Class, DeleteWhy, Note, Order},
    fleet::{DrainEvent, came_back},
};

impl Term {
    pub(super) fn report_pods(&self, node: &NodeName, event: &DrainEvent) {
        match event {
            DrainEvent::Answered { order, class, message } => {
                self.report_answer(node, order, *class, message);
            }
            DrainEvent::Noted(note) => self.report_note(node, note),
            _ => {}
        }
    }

    fn report_answer(&self, node: &NodeName, order: &Order, class: Class, message: &str) {
        debug!(node = %node, pod = %order.pod(), answer = class.as_str(), api_message = message,
            "The API server answered an eviction or a delete.");
        match order {
            Order::Evict { pod, uid, grace } => {
                self.shared.metrics.eviction(class.as_str());
                if class == Class::Accepted {
                    let now = self.shared.clock.now();
                    self.reported.trace(node, |trace| trace.evicted(now, pod));
                    self.note_eviction(node, pod, uid, *grace);
                }
            }
            Order::Delete { why, .. } => {
                self.shared.metrics.pod_delete(class.as_str());
                // A forced delete is counted when the drain reports it (`Note::Forced`).
                if class == Class::Accepted && *why == DeleteWhy::Shortened {
                    self.shared.metrics.forced();
                }
            }
        }
        self.shared.board.ordered(node, order, class);
    }

    /// Writes the Event about an accepted eviction, only with `--pod-events all`.
    fn note_eviction(&self, node: &NodeName, pod: &PodKey, uid: &PodUid, grace: Option<u32>) {
        if self.shared.config.service.pod_events != PodEvents::All {
            return;
        }
        let time =
            grace.map_or_else(|| "its own grace period".to_owned(), |grace| format!("{grace} s"));
        self.note(EventNote {
            about: About::Pod(pod.clone(), uid.clone()),
            severity: Severity::Normal,
            reason: EventReason::Evicted,
            message: format!("evicted with {time} to stop, because its node goes (node {node})"),
        });
    }

    fn report_note(&self, node: &NodeName, note: &Note) {
        match note {
            Note::Forced { pod, uid, grace, reason } => {
                let reason = reason.as_str();
                warn!(
                    %node, %pod, grace, reason,
                    "Deleted a pod by force: its eviction was refused, had no effect, or could not \
                     be sent.");
                self.shared.board.forced(node, pod);
                self.shared.metrics.forced();
                let now = self.shared.clock.now();
                self.reported.trace(node, |trace| trace.forced(now, pod, reason, *grace));
                let message = format!(
                    "deleted with a grace period of {grace} s, blocked by {reason}, because its \
                     node goes"
                );
                self.note_pod(node, pod, uid, EventReason::Forced, &message);
            }
            Note::ShortenedGrace { pod, uid, grace, own } => {
                let own = own.as_secs();
                info!(%pod, grace, own, "A pod gets less than its own grace period, because its \
                    node goes before that is over.");
                if self.shared.config.service.pod_events == PodEvents::All {
                    let message =
                        format!("has {grace} s to stop instead of {own} s, because its node goes");
                    self.note_pod(node, pod, uid, EventReason::ShortenedGrace, &message);
                }
            }
            Note::Blocked { pod, uid, reason, message, since } => {
                info!(
                    %pod, reason = reason.as_str(), api_message = message, %since,
                    "A pod has been blocked for a while."
                );
                self.note_pod(node, pod, uid, EventReason::Blocked, &reason.in_event(message));
            }
            Note::Malformed { pod, message } => {
                warn!(%pod, api_message = message, "The API server calls a request malformed. This \
                    is a fault of Sundown; please report it.");
            }
            Note::NamespaceUnknown { pod } => warn!(
                %node, %pod,
                "The labels of a pod's namespace are not known. Until they are, neither the rule \
                 that names them nor any rule after it applies to the pod."
            ),
            Note::CameBack { namespace, owner, new } => {
                let name = format!("{} {namespace}/{}", owner.kind, owner.name);
                warn!(%node, owner = name, new, "New pods of an owner come back on the node. \
                    Sundown leaves them alone and does not wait for them.");
                self.shared.metrics.owner_left_alone();
                let message = came_back(namespace, owner, *new);
                self.note_about_node(node, EventReason::PodsComeBack, message);
            }
            Note::VolumeWaitEnded { end, took } => self.report_volumes(node, end, *took),
            Note::Wish { pod, uid, key, wish, until } => {
                self.report_wish(node, (pod, uid), (*key, *wish), *until);
            }
            Note::UnknownWish { pod, uid, key, value } => {
                warn!(%pod, %key, value, "A pod's annotation or label has an unknown value, so it \
                    has no effect.");
                let message = format!(
                    "its node is being drained, and {key} is `{value}`, an unknown value without \
                     effect"
                );
                self.note_pod(node, pod, uid, EventReason::PodSettingIgnored, &message);
            }
            Note::OrphanedDaemonSet { pod, daemon_set } => {
                warn!(%pod, daemon_set, "A pod's DaemonSet does not exist; the pod is drained like \
                    any other.");
                let message =
                    format!("{pod} is drained: its DaemonSet {daemon_set} does not exist");
                self.note_about_node(node, EventReason::OrphanedDaemonSetPod, message);
            }
        }
    }

    fn report_wish(
        &self,
        node: &NodeName,
        (pod, uid): (&PodKey, &PodUid),
        (key, wish): (WishSource, Wish),
        until: Option<Moment>,
    ) {
        let until = match (wish, until) {
            (Wish::Skip, _) => {
                info!(%pod, %key, "A pod stays on the node, as its annotation or label or a \
                    rule asks.");
                return;
            }
            (Wish::Last, _) => {
                info!(%pod, %key, "A pod is evicted after all others, because it asks for that.");
                return;
            }
            (_, None) => {
                info!(%pod, %key, "A pod asks to wait, or a rule asks that, but its drain is \
                    too short.");
                return;
            }
            (_, Some(Moment::MAX)) => "until it has finished".to_owned(),
            (_, Some(until)) => format!("until {until:.0} at the latest"),
        };
        info!(%pod, %key, until, "A pod is not evicted yet, as its annotation or label or a rule \
            asks.");
        let key = key.of_waiting_pod();
        self.note(EventNote {
            about: About::Pod(pod.clone(), uid.clone()),
            severity: Severity::Normal,
            reason: EventReason::EvictionDelayed,
            message: format!(
                "its node is being drained, and the pod waits ({key}) {until} (node {node})"
            ),
        });
    }

    fn note_pod(
        &self,
        node: &NodeName,
        pod: &PodKey,
        uid: &PodUid,
        reason: EventReason,
        message: &str,
    ) {
        let about = About::Pod(pod.clone(), uid.clone());
        self.note(EventNote {
            about,
            severity: Severity::Warning,
            reason,
            message: format!("{message} (node {node})"),
        });
    }

    fn note_about_node(&self, node: &NodeName, reason: EventReason, message: String) {
        self.note(EventNote {
            about: About::Node(node.clone()),
            severity: Severity::Warning,
            reason,
            message,
        });
    }
}
