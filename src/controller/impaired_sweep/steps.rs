//! Performs what was decided about sick instances.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::ImpairedSweep;
use crate::{
    aws::{AwsError, Outcome},
    cluster::{About, EventNote, EventReason, Severity},
    controller::{context::Term, decision::Decision},
    domain::{GroupName, Impairment, InstanceId, Kind, Node, NodeName, Symptom, seconds},
    fleet::Input,
    observe::ImpairedStep,
    record,
    triage::impaired::Suspect,
};

/// How long it may take to accept a sick instance. A later round finds it again.
const ACCEPT_WITHIN: std::time::Duration = seconds(30);

impl ImpairedSweep {
    /// Takes the node of a sick instance on.
    pub(super) async fn begin(&mut self, suspect: Suspect, group: GroupName) {
        let Suspect { node, instance, symptom, since } = suspect;
        let term = Arc::clone(&self.term);
        let at = term.skew().to_aws(since);
        let interruption =
            Impairment { symptom, since: at, group: group.clone() }.of(instance.clone());
        let give_up = CancellationToken::new();
        let mut decision =
            Decision::of_sick_instance(Arc::clone(&term), interruption, give_up.clone());
        {
            let deciding = decision.decide();
            tokio::pin!(deciding);
            tokio::select! {
                _ = &mut deciding => {}
                () = tokio::time::sleep(ACCEPT_WITHIN) => {
                    give_up.cancel();
                    deciding.await;
                }
            }
        }
        if !decision.is_accepted() {
            debug!(node = %node.name, %instance, "The sick instance was not accepted.");
            return;
        }
        self.begun.note(term.shared.clock.now(), instance.clone());
        term.shared.metrics.impaired(ImpairedStep::Begun);
        let what = match symptom {
            Symptom::StatusCheck => "a status check of EC2 fails",
            Symptom::NotReady => "the node is NotReady",
        };
        let response = term.shared.policy.responses.of(Kind::Impaired);
        warn!(
            node = %node.name, %instance, %group, symptom = symptom.as_str(),
            since = %format_args!("{since:.0}"), response = response.as_str(),
            "An instance is sick: its node is taken on."
        );
        let message = format!(
            "Instance {instance} of group {group} is sick: {what} since {since:.0} (--on \
             impaired={}).",
            response.as_str()
        );
        note(&term, &node.name, Severity::Warning, EventReason::InstanceImpaired, message);
    }

    /// Asks Auto Scaling to replace the instance.
    pub(super) async fn hand_over(&mut self, node: &Node, instance: &InstanceId) {
        let term = Arc::clone(&self.term);
        match term.shared.aws.autoscaling().set_unhealthy(instance).await {
            Ok(()) => {
                self.set_unhealthy.insert(instance.clone());
                term.shared.metrics.impaired(ImpairedStep::SetUnhealthy);
                info!(
                    node = %node.name, %instance,
                    "The drain of a sick instance has ended: Auto Scaling was told that the \
                     instance is unhealthy, and replaces it."
                );
                let message = format!(
                    "The drain of sick instance {instance} has ended: Auto Scaling was told that \
                     it is unhealthy, and replaces it."
                );
                let reason = EventReason::InstanceSetUnhealthy;
                note(&term, &node.name, Severity::Normal, reason, message);
            }
            Err(error) => not_handed_over(&term, node, instance, &error),
        }
    }
}

fn not_handed_over(term: &Term, node: &Node, instance: &InstanceId, error: &AwsError) {
    if error.outcome() != Outcome::Denied {
        term.shared.metrics.impaired(ImpairedStep::Failed);
        debug!(node = %node.name, %error, "Auto Scaling does not take an instance as unhealthy.");
        return;
    }
    term.shared.metrics.impaired(ImpairedStep::Denied);
    if term.is_first_report("SetInstanceHealth is denied") {
        warn!(
            node = %node.name, %instance, %error,
            "Sundown may not report a sick instance as unhealthy: the instance keeps running. Allow \
             autoscaling:SetInstanceHealth in the role's policy."
        );
    }
    if term.is_first_report(&format!("{instance} is not set unhealthy")) {
        let message = format!(
            "The drain of sick instance {instance} has ended, and Sundown may not report it as \
             unhealthy (autoscaling:SetInstanceHealth): it keeps running."
        );
        let reason = EventReason::InstanceNotSetUnhealthy;
        note(term, &node.name, Severity::Warning, reason, message);
    }
}

/// Puts the node of an instance back that is healthy again. Reads the Node from the API server,
/// because the index may be behind.
pub(super) async fn put_back(term: &Term, node: &Arc<Node>) {
    let fresh = match term.shared.nodes.fetch(&node.name).await {
        Ok(Some(fresh)) if fresh.uid == node.uid && fresh.ready == node.ready => fresh,
        Ok(_) => return,
        Err(error) => {
            debug!(node = %node.name, %error, "Cannot read a node that is healthy again.");
            return;
        }
    };
    let is_same = record::impaired_status(&fresh) == record::impaired_status(node);
    if is_same && term.manages(&fresh) {
        term.send(Input::Recovered(Arc::new(fresh)));
    }
}

fn note(term: &Term, node: &NodeName, severity: Severity, reason: EventReason, message: String) {
    term.note(EventNote { about: About::Node(node.clone()), severity, reason, message });
}
