//! Has the shells count what they do.

use std::{sync::Arc, time::Duration};

use super::intake::{IntakeEvent, IntakeObserver};
use crate::{aws, cluster, cluster::lease::LeaseCall, observe::Metrics};

/// Counts on the metrics for every shell.
#[derive(Clone)]
pub(super) struct Counting(pub(super) Arc<Metrics>);

impl aws::CallObserver for Counting {
    fn called(&self, api: aws::Api, outcome: aws::Outcome, took: Duration) {
        let target = match api {
            aws::Api::ReceiveMessage | aws::Api::DeleteMessageBatch | aws::Api::ChangeMessageVisibilityBatch | aws::Api::GetQueueAttributes => "sqs",
            aws::Api::DescribeInstances => "ec2",
            _ => "autoscaling",
        };
        if api == aws::Api::ReceiveMessage {
            self.0.api_wait(target, api.as_str(), outcome.as_str());
        } else {
            self.0.api_call(target, api.as_str(), outcome.as_str(), took);
        }
    }
}

impl cluster::CallObserver for Counting {
    fn called(&self, target: cluster::Target, outcome: cluster::Outcome, took: Duration) {
        match target {
            cluster::Target::WatchNodes | cluster::Target::WatchPods | cluster::Target::WatchBudgets => {
                self.0.api_wait("kubernetes", target.as_str(), outcome.as_str());
                if outcome != cluster::Outcome::Ok {
                    self.0.watch_failed(target.as_str());
                }
            }
            _ => self.0.api_call("kubernetes", target.as_str(), outcome.as_str(), took),
        }
    }

    fn unreadable(&self, target: cluster::Target) {
        self.0.decode_failed(target.as_str());
    }
}

impl IntakeObserver for Counting {
    fn event(&self, _queue: &str, event: IntakeEvent) {
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

impl Counting {
    /// Counts calls on the Lease.
    pub(super) fn lease(&self) -> cluster::lease::OnCall {
        let metrics = Arc::clone(&self.0);
        Arc::new(move |call: LeaseCall| metrics.api_call("kubernetes", "lease", call.outcome, call.took))
    }
}
