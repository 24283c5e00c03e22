//! Performs what was decided about sick instances.

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::{Failing, ImpairedSweep};
use crate::{
    aws::{AwsError, Outcome},
    cluster::{About, EventNote, EventReason, Severity},
    controller::{context::Term, decision::Decision},
    domain::{GroupName, Impairment, InstanceId, Kind, Node, NodeName, Symptom, seconds},
    fleet::Input,
    observe::ImpairedStep,
    record,
    triage::impaired::{Suspect, WaitReason},
};

/// How long it may take to accept a sick instance. A later round finds it again.
const ACCEPT_WITHIN: std::time::Duration = seconds(30);

impl ImpairedSweep {
    /// Accepts the sick instance as an interruption of its node: its drain begins.
    pub(super) async fn begin(&mut self, suspect: Suspect, group: GroupName) {
        let Suspect { node, instance, symptom, since } = suspect;
        let term = Arc::clone(&self.term);
        let at = term.skew().to_aws(since);
        let interruption =
            Impairment { symptom, since: at, group: group.clone() }.of(instance.clone());
        let mut decision = Decision::of_sick_instance(Arc::clone(&term), interruption);
        decision.decide_within(ACCEPT_WITHIN).await;
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
            "An instance is sick: accepted as an interruption of its node."
        );
        let message = format!(
            "Instance {instance} of group {group} is sick: {what} since {since:.0} (--on \
             impaired={}).",
            response.as_str()
        );
        note(&term, &node.name, Severity::Warning, EventReason::InstanceImpaired, message);
    }

    /// Asks Auto Scaling to replace the instance, if the Node still allows that. Returns why it
    /// waits.
    pub(super) async fn set_unhealthy(
        &mut self,
        node: &Node,
        instance: &InstanceId,
        failing: Failing<'_>,
    ) -> Option<WaitReason> {
        if let Err(why) = self.may_set_unhealthy(node, failing).await {
            return why;
        }
        let term = Arc::clone(&self.term);
        match term.shared.aws.autoscaling().set_unhealthy(instance).await {
            Ok(()) => {
                let now = term.shared.clock.now();
                self.reported_unhealthy.insert(instance.clone(), now);
                self.reported.note(now, instance.clone());
                term.shared.metrics.impaired(ImpairedStep::SetUnhealthy);
                info!(
                    node = %node.name, %instance,
                    "The drain of a sick instance has ended: reported the instance to Auto Scaling \
                     as unhealthy. The group replaces it."
                );
                let message = format!(
                    "The drain of sick instance {instance} has ended. Sundown reported it to Auto \
                     Scaling as unhealthy, and the group replaces it."
                );
                let reason = EventReason::InstanceSetUnhealthy;
                note(&term, &node.name, Severity::Normal, reason, message);
            }
            Err(error) => {
                not_set_unhealthy(&term, node, &error);
                return Some(WaitReason::NotSetUnhealthy);
            }
        }
        None
    }

    /// Restores the node of an instance that is healthy again. Reads the Node from the API server,
    /// because the index may be behind.
    pub(super) async fn restore_node(&self, node: &Arc<Node>) {
        let term = &self.term;
        let fresh = match term.shared.nodes.fetch(&node.name).await {
            Ok(Some(fresh)) if fresh.uid == node.uid => fresh,
            Ok(_) => return,
            Err(error) => {
                debug!(node = %node.name, %error, "Cannot read a node that is healthy again.");
                return;
            }
        };
        let is_same = record::impaired_status(&fresh) == record::impaired_status(node);
        let is_healthy = self.history.is_healthy(&fresh, term.shared.clock.now());
        if is_same && is_healthy && term.manages(&fresh) {
            term.send(Input::Recovered(Arc::new(fresh)));
        }
    }
}

/// Writes an Event once for each reason that an instance is not replaced after its drain.
pub(super) fn not_replaced(term: &Term, node: &Node, instance: &InstanceId, why: WaitReason) {
    let key = format!("{instance} is not replaced: {}", why.as_str());
    if why.is_short() || !term.is_first_report(&key) {
        return;
    }
    let message = format!(
        "The drain of sick instance {instance} has ended, and it is not replaced: {}.",
        why.text()
    );
    let reason = EventReason::InstanceNotSetUnhealthy;
    note(term, &node.name, Severity::Warning, reason, message);
}

fn not_set_unhealthy(term: &Term, node: &Node, error: &AwsError) {
    let is_denied = error.outcome() == Outcome::Denied;
    let step = if is_denied { ImpairedStep::Denied } else { ImpairedStep::Failed };
    term.shared.metrics.impaired(step);
    if is_denied && term.is_first_report("SetInstanceHealth is denied") {
        warn!(
            node = %node.name, %error,
            "Sundown may not report a sick instance as unhealthy: the instance keeps running. Allow \
             autoscaling:SetInstanceHealth in the role's policy."
        );
    } else {
        debug!(node = %node.name, %error, "Auto Scaling does not take an instance as unhealthy.");
    }
}

fn note(term: &Term, node: &NodeName, severity: Severity, reason: EventReason, message: String) {
    term.note(EventNote { about: About::Node(node.clone()), severity, reason, message });
}
