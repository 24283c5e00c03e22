//! Connects the shells to the metrics.

use std::sync::Arc;

use super::intake::IntakeEvent;
use crate::{
    aws::{self, ApiCall},
    cluster::{
        self, ClusterEvent,
        lease::{LeaseCall, Verb},
    },
    drain,
    interruption::Reject,
    observe::{Calls, LabelValues, Metrics},
    runtime::Observer,
    triage::impaired::WaitReason,
};

/// Passes what the shells observe on to the metrics.
#[derive(Clone)]
pub(super) struct Counting(pub(super) Arc<Metrics>);

impl Observer<ApiCall> for Counting {
    fn observe(&self, ApiCall { api, outcome, took }: ApiCall) {
        let target = api.service();
        if api == aws::Api::ReceiveMessage {
            self.0.api_wait(target, api.as_str(), outcome.as_str());
        } else {
            self.0.api_call(target, api.as_str(), outcome.as_str(), took);
        }
    }
}

impl Observer<ClusterEvent> for Counting {
    fn observe(&self, event: ClusterEvent) {
        match event {
            ClusterEvent::Called { target, outcome, .. } if target.is_watch() => {
                self.0.api_wait("kubernetes", target.as_str(), outcome.as_str());
                if outcome != cluster::Outcome::Ok {
                    self.0.watch_failed(target.as_str());
                }
            }
            ClusterEvent::Called { target, outcome, took } => {
                self.0.api_call("kubernetes", target.as_str(), outcome.as_str(), took);
            }
            ClusterEvent::WatchBroke(target) => self.0.watch_failed(target.as_str()),
            ClusterEvent::Unreadable(target) => self.0.decode_failed(target.as_str()),
        }
    }
}

impl Observer<LeaseCall> for Counting {
    fn observe(&self, call: LeaseCall) {
        let action = call.verb.action();
        if call.verb == Verb::Watch {
            self.0.api_wait("kubernetes", action, call.outcome);
            if call.outcome != "ok" {
                self.0.watch_failed(action);
            }
        } else {
            self.0.api_call("kubernetes", action, call.outcome, call.took);
        }
    }
}

impl Observer<IntakeEvent> for Counting {
    fn observe(&self, event: IntakeEvent) {
        let m = &self.0;
        match event {
            IntakeEvent::Received(n) => m.received(n as u64),
            IntakeEvent::Pollers(n) => m.set_pollers(n),
            IntakeEvent::Deleted(n) => m.deleted(n as u64),
            IntakeEvent::ReceiveFailed(_)
            | IntakeEvent::Redelivered
            | IntakeEvent::DeleteRetried(_)
            | IntakeEvent::DeleteRefused
            | IntakeEvent::DeleteGivenUp(_)
            | IntakeEvent::Extended(_)
            | IntakeEvent::ExtendRetried(_)
            | IntakeEvent::Lost(_)
            | IntakeEvent::HeldTooLong
            | IntakeEvent::MadeRoom(_)
            | IntakeEvent::Released(_)
            | IntakeEvent::ReleaseFailed(_) => m.intake(event.as_str(), event.count()),
        }
    }
}

/// The label values of all rooms, so that every counter starts at 0.
#[must_use]
pub fn label_values() -> LabelValues {
    let of_aws = aws::Api::ALL.iter().chain(&aws::Api::BY_FLAG).map(|api| Calls {
        target: api.service(),
        action: api.as_str(),
        outcomes: aws::Outcome::ALL.iter().map(|o| o.as_str()).collect(),
    });
    // Calls on the Lease have actions and outcomes of their own.
    let of_cluster = cluster::Target::ALL.iter().map(|target| Calls {
        target: "kubernetes",
        action: target.as_str(),
        outcomes: cluster::Outcome::WORDS.to_vec(),
    });
    let of_lease = Verb::ALL.iter().map(|verb| Calls {
        target: "kubernetes",
        action: verb.action(),
        outcomes: LeaseCall::OUTCOMES.to_vec(),
    });
    let watches = cluster::Target::ALL.iter().filter(|t| t.is_watch()).map(|t| t.as_str());
    LabelValues {
        rejections: Reject::LABELS.to_vec(),
        impaired_waits: WaitReason::ALL.iter().map(|waits| waits.as_str()).collect(),
        block_reasons: drain::BlockReason::ALL.iter().map(|r| r.as_str()).collect(),
        answers: drain::Class::WORDS.to_vec(),
        calls: of_aws.chain(of_cluster).chain(of_lease).collect(),
        watches: watches.chain([Verb::Watch.action()]).collect(),
        caches: [cluster::Target::WatchNodes, cluster::Target::WatchBudgets]
            .map(cluster::Target::as_str)
            .to_vec(),
        conditions: super::conditions::CONDITIONS.to_vec(),
        objects: cluster::Target::ALL.iter().map(|t| t.as_str()).collect(),
        intake: IntakeEvent::WORDS.to_vec(),
    }
}
