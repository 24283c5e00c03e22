//! Questions to AWS and to the API server that decide whether a record counts and whether a drain
//! goes on, and what their answers change.

use std::{collections::BTreeSet, sync::Arc};

use super::{DrainEvent, Effect, Fleet, Question, node_state::Kubelet};
use crate::{
    domain::{DrainRequest, InstanceId, InterruptionFacts, LifecycleAction, Node, NodeName, Ready},
    drain::{self, Input, NodeCondition},
    record::{EndReason, Record},
};

impl Fleet {
    /// Asks which instance a Node without providerID is (DescribeInstances by private DNS name).
    pub(super) fn look_up_instance(&mut self, node: &Arc<Node>) {
        if !self.looking_up_instance.insert(node.name.clone()) {
            return;
        }
        self.out.push(Effect::Ask(Question::InstanceOf(Arc::clone(node))));
    }

    /// The instance of a Node was found, or is no longer looked up because the index does not show
    /// the Node.
    pub(super) fn instance_lookup_ended(&mut self, name: &NodeName) {
        self.looking_up_instance.remove(name);
        if let Some(node) = self.lookup.facts.node(name) {
            self.consider_node(&node);
        }
    }

    /// The boot ID differs from the record's: asks AWS whether one of the record's actions is open.
    pub(super) fn ask_hooks(&mut self, node: &Arc<Node>, instance: &InstanceId, record: &Record) {
        let interruptions = self.lookup.interruptions(record, instance);
        let event = |hook: &LifecycleAction| {
            interruptions
                .iter()
                .filter(|t| t.hook.as_ref() == Some(hook))
                .map(|t| t.time)
                .max()
                .unwrap_or(self.now)
        };
        let hooks = self
            .lookup
            .open_actions(record, instance)
            .into_iter()
            .map(|hook| (hook.clone(), event(&hook)))
            .collect();
        self.out.push(Effect::Ask(Question::OpenHooks { node: Arc::clone(node), hooks }));
    }

    /// Asks AWS about the stale interruptions of a drain until each is proved or disproved.
    pub(super) fn verify_stale(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        if !state.is_draining() {
            return;
        }
        let stale: Vec<InterruptionFacts> = state
            .interruptions
            .iter()
            .filter(|t| t.stale && !state.proved.contains(&t.event_id))
            .cloned()
            .collect();
        for interruption in stale {
            if state.verifying.insert(interruption.event_id.clone()) {
                let (node, instance) = (name.clone(), state.instance.clone());
                self.out.push(Effect::Ask(Question::Verify {
                    node,
                    instance,
                    interruption: Box::new(interruption),
                }));
            }
        }
    }

    pub(super) fn proof_arrived(&mut self, name: &NodeName, event: &str, holds: bool) {
        let Some(state) = self.drains.get_mut(name) else { return };
        if holds {
            self.out.report(name, DrainEvent::Proved);
            state.proved.insert(event.to_owned());
            let instance_has_ended = state.instance_has_ended();
            self.refresh_limits(name);
            if instance_has_ended {
                self.feed(name, Input::Node(NodeCondition::InstanceOver));
            }
            return;
        }
        state.disproved.insert(event.to_owned());
        // The drain goes on while another interruption holds or is being verified.
        if !state.is_disproved() || !state.is_draining() {
            self.out.report(name, DrainEvent::DisprovedOne);
            self.refresh_limits(name);
            // Only lifecycle actions may be left.
            return self.verify_actions(name);
        }
        state.end_reason = EndReason::NothingHolds;
        self.out.report(name, DrainEvent::Disproved);
        self.feed(name, Input::Release);
    }

    /// The instance of a node that is being drained is back in service: the drain ends, and the
    /// node is restored.
    pub(super) fn returned(&mut self, name: &NodeName, uid: &str, events: BTreeSet<String>) {
        let Some(state) =
            self.drains.get_mut(name).filter(|state| state.node.uid == uid && state.is_draining())
        else {
            return;
        };
        let is_request = |event: &String| DrainRequest::name_of_event(event).is_some();
        state.disproved.extend(events.into_iter().filter(|event| !is_request(event)));
        if !state.is_disproved() {
            return self.refresh_limits(name);
        }
        state.end_reason = EndReason::NothingHolds;
        self.out.report(name, DrainEvent::InstanceReturned);
        self.feed(name, Input::Release);
    }

    /// Finds nodes whose kubelet has become silent or reports again. A node is unreachable if its
    /// kubelet has been silent for a minute and the silence is conclusive: not too many kubelets are
    /// silent at once, and the API server had no outage lately ([`drain::SilenceEvidence`]).
    pub(super) fn look_for_unreachable(&mut self) {
        let now = self.now;
        let silent: Vec<_> = self
            .drains
            .iter()
            .filter(|(_, state)| {
                state.is_draining()
                    && (state.node.ready == Ready::Unknown || state.kubelet != Kubelet::Reporting)
            })
            .map(|(name, _)| name.clone())
            .collect();
        if silent.is_empty() {
            return;
        }
        // The index, not the fleet, remembers outages of the API server, because an outage also
        // ends the term.
        let is_conclusive = self.lookup.facts.silence_evidence().is_conclusive(now);
        for name in silent {
            let Some(state) = self.drains.get_mut(&name) else { continue };
            let is_silent = drain::is_silent(state.node.ready, state.node.ready_since, now);
            let kubelet = match (is_silent, is_conclusive) {
                (false, _) => Kubelet::Reporting,
                (true, false) => Kubelet::SilentWithMany,
                (true, true) => Kubelet::Silent,
            };
            let before = std::mem::replace(&mut state.kubelet, kubelet);
            let instance = state.instance.clone();
            self.pass_reachability(&name, before, kubelet);
            match (before, kubelet) {
                (Kubelet::Reporting, Kubelet::Reporting) => {}
                (Kubelet::Reporting, _) => {
                    self.out.push(Effect::Ask(Question::InstanceState { node: name, instance }));
                }
                (_, Kubelet::Reporting) => self.out.push(Effect::StopAskingState(name)),
                _ => {}
            }
        }
    }

    /// Passes it to the drain if its node has become unreachable or reachable.
    fn pass_reachability(&mut self, name: &NodeName, before: Kubelet, after: Kubelet) {
        let is_unreachable = after == Kubelet::Silent;
        if is_unreachable == (before == Kubelet::Silent) {
            return;
        }
        let (event, condition) = if is_unreachable {
            (DrainEvent::KubeletSilent, NodeCondition::Unreachable)
        } else {
            self.out.push(Effect::StopReadingSilent(name.clone()));
            (DrainEvent::KubeletReporting, NodeCondition::Fine)
        };
        self.out.report(name, event);
        self.feed(name, Input::Node(condition));
    }

    /// Reads the Node of a silent kubelet from the API server, because the index may be outdated.
    /// The drain goes on until the answer comes, or until its deadline if it has one.
    pub(super) fn ask_silent_node(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get(name) else { return };
        self.out.push(Effect::Ask(Question::SilentNode {
            node: name.clone(),
            uid: state.node.uid.clone(),
        }));
    }

    /// The API server has answered: the drain ends if the kubelet is still silent, and goes on
    /// otherwise.
    pub(super) fn silent_node_read(&mut self, name: &NodeName, uid: &str, found: Option<&Node>) {
        let now = self.now;
        let Some(state) = self.drains.get_mut(name).filter(|state| {
            state.node.uid == uid && state.kubelet == Kubelet::Silent && state.is_draining()
        }) else {
            return;
        };
        // A Node that is deleted or replaced counts as silent. The index reports the deletion as
        // well.
        let is_silent = found.is_none_or(|found| {
            found.uid != uid || drain::is_silent(found.ready, found.ready_since, now)
        });
        if !is_silent {
            state.kubelet = Kubelet::Reporting;
            self.out.report(name, DrainEvent::KubeletReportingByRead);
            self.out.push(Effect::StopAskingState(name.clone()));
        }
        self.feed(
            name,
            Input::Node(if is_silent {
                NodeCondition::StillUnreachable
            } else {
                NodeCondition::Fine
            }),
        );
    }

    /// EC2 reports that the instance stops, or has stopped (`has_ended`). If the kubelet is silent,
    /// alone or with many others, the drain ends at once. If it reports, the drain ends only when
    /// the instance has stopped.
    pub(super) fn instance_ends(
        &mut self,
        name: &NodeName,
        instance: &InstanceId,
        has_ended: bool,
    ) {
        if self.drains.get(name).is_some_and(|state| {
            state.instance == *instance && (has_ended || state.kubelet != Kubelet::Reporting)
        }) {
            self.feed(name, Input::Node(NodeCondition::InstanceOver));
        }
    }
}
