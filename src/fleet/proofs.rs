//! What has to be asked before a record counts, or before a drain may force.

use std::{collections::BTreeSet, sync::Arc};

use super::{DrainEvent, Effect, Fleet, Question, node_state::Kubelet};
use crate::{
    domain::{InstanceId, LifecycleAction, Node, NodeName, Ready, Taken},
    drain::{self, Input, NodeCondition},
    record::{EndReason, Record},
};

impl Fleet {
    /// Which instance is a Node without providerID? DescribeInstances by private DNS name.
    pub(super) fn ask_name(&mut self, node: &Arc<Node>) {
        if !self.asking_name.insert(node.name.clone()) {
            return;
        }
        self.out.push(Effect::Ask(Question::InstanceOf(Arc::clone(node))));
    }

    /// The question which instance the Node is has ended: with an answer, or because the index did
    /// not show the Node.
    pub(super) fn name_asked(&mut self, name: &NodeName) {
        self.asking_name.remove(name);
        if let Some(node) = self.lookup.facts.node(name) {
            self.see(&node);
        }
    }

    /// The boot id differs: does one of the record's hooks still wait?
    pub(super) fn ask_hooks(&mut self, node: &Arc<Node>, instance: &InstanceId, record: &Record) {
        let taken = self.lookup.taken(record, instance);
        let event = |hook: &LifecycleAction| {
            taken
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

    /// Interruptions that were taken on without a proof are asked about until there is one.
    pub(super) fn prove_stale(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get_mut(name) else { return };
        if state.drain.is_none() {
            return;
        }
        let stale: Vec<Taken> = state
            .taken
            .iter()
            .filter(|t| t.stale && !state.proved.contains(&t.event_id))
            .cloned()
            .collect();
        for taken in stale {
            if state.verifying.insert(taken.event_id.clone()) {
                let (node, instance) = (name.clone(), state.instance.clone());
                self.out.push(Effect::Ask(Question::Verify {
                    node,
                    instance,
                    taken: Box::new(taken),
                }));
            }
        }
    }

    pub(super) fn proof(&mut self, name: &NodeName, event: &str, holds: bool) {
        let Some(state) = self.drains.get_mut(name) else { return };
        if holds {
            self.out.report(name, DrainEvent::Proved);
            state.proved.insert(event.to_owned());
            let over = state.is_over();
            self.refresh_limits(name);
            if over {
                self.feed(name, Input::Node(NodeCondition::InstanceOver));
            }
            return;
        }
        state.disproved.insert(event.to_owned());
        // The others hold, or are still being asked about: this one alone changes nothing.
        if !state.is_disproved() || state.drain.is_none() {
            self.out.report(name, DrainEvent::DisprovedOne);
            return;
        }
        state.end_reason = EndReason::NothingHolds;
        self.out.report(name, DrainEvent::Disproved);
        self.feed(name, Input::Release);
    }

    /// The instance of a node that is being drained is back in service: the drain ends, and the
    /// node is put back.
    pub(super) fn returned(&mut self, name: &NodeName, uid: &str, events: BTreeSet<String>) {
        let Some(state) =
            self.drains.get_mut(name).filter(|c| c.node.uid == uid && c.drain.is_some())
        else {
            return;
        };
        state.disproved.extend(events);
        if !state.is_disproved() {
            return;
        }
        state.end_reason = EndReason::NothingHolds;
        self.out.report(name, DrainEvent::InstanceReturned);
        self.feed(name, Input::Release);
    }

    /// A node is unreachable if its kubelet is silent for a minute, and that silence counts
    /// ([`drain::Hearing`]).
    pub(super) fn look_for_unreachable(&mut self) {
        let now = self.now;
        let silent: Vec<_> = self
            .drains
            .iter()
            .filter(|(_, c)| {
                c.drain.is_some()
                    && (c.node.ready == Ready::Unknown || c.kubelet == Kubelet::Silent)
            })
            .map(|(n, _)| n.clone())
            .collect();
        if silent.is_empty() {
            return;
        }
        // The index remembers outages, because an outage also ends the term.
        let counts = self.lookup.facts.hearing().counts(now);
        for name in silent {
            let Some(state) = self.drains.get_mut(&name) else { continue };
            let unreachable =
                drain::is_silent(state.node.ready, state.node.ready_since, now) && counts;
            if unreachable == (state.kubelet == Kubelet::Silent) {
                continue;
            }
            state.kubelet = if unreachable { Kubelet::Silent } else { Kubelet::Heard };
            let instance = state.instance.clone();
            if !unreachable {
                self.out.push(Effect::StopReadingSilent(name.clone()));
            }
            self.out.report(
                &name,
                if unreachable { DrainEvent::KubeletSilent } else { DrainEvent::KubeletHeard },
            );
            self.feed(
                &name,
                Input::Node(if unreachable {
                    NodeCondition::Unreachable
                } else {
                    NodeCondition::Fine
                }),
            );
            if unreachable {
                self.out.push(Effect::Ask(Question::InstanceState { node: name, instance }));
            }
        }
    }

    /// Asks for a read of a silent node at the API server, because the index may be behind. The
    /// drain goes on until the answer, at most until its deadline, if it has one.
    pub(super) fn ask_node(&mut self, name: &NodeName) {
        let Some(state) = self.drains.get(name) else { return };
        self.out.push(Effect::Ask(Question::SilentNode {
            node: name.clone(),
            uid: state.node.uid.clone(),
        }));
    }

    /// The Node of an unreachable node as it is now: its drain ends if the kubelet is silent, and
    /// goes on otherwise.
    pub(super) fn silent_node_read(&mut self, name: &NodeName, uid: &str, found: Option<&Node>) {
        let now = self.now;
        let Some(state) = self
            .drains
            .get_mut(name)
            .filter(|c| c.node.uid == uid && c.kubelet == Kubelet::Silent && c.drain.is_some())
        else {
            return;
        };
        // A Node that is deleted or replaced counts as silent. The index reports the deletion as
        // well.
        let is_silent = found.is_none_or(|found| {
            found.uid != uid || drain::is_silent(found.ready, found.ready_since, now)
        });
        if !is_silent {
            state.kubelet = Kubelet::Heard;
            self.out.report(name, DrainEvent::KubeletHeardByRead);
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

    /// EC2 reports that the instance stops or is stopped. The drain of a silent node ends at once.
    /// If the kubelet is heard, the drain goes on until the instance is stopped or terminated
    /// (`over`).
    pub(super) fn instance_ends(&mut self, name: &NodeName, instance: &InstanceId, over: bool) {
        if self
            .drains
            .get(name)
            .is_some_and(|c| c.instance == *instance && (over || c.kubelet == Kubelet::Silent))
        {
            self.feed(name, Input::Node(NodeCondition::InstanceOver));
        }
    }
}
