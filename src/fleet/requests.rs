//! Acts on drain requests in the annotations of Nodes: orders their accept, reports refusals, and
//! ends drains whose requests are gone. `record/requests.rs` decides each of these.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{DrainEvent, Effect, Fleet};
use crate::{
    domain::{DrainRequest, InstanceId, Interruption, Moment, Node, NodeName, seconds},
    drain::Input,
    record::{self, EndReason, Planned, RefusedRequest, RequestChanges},
};

/// If the Node does not show the accept this long after an [`Effect::BeginRequest`], the fleet
/// orders it again.
const AGAIN_AFTER: Duration = seconds(10);

/// What the fleet has done about the requests on each Node, and when it looks at the Node again.
#[derive(Debug, Default)]
pub(super) struct Requests {
    wakes: BTreeSet<(Moment, NodeName)>,
    by_node: BTreeMap<NodeName, Followed>,
}

/// What was done about the requests on one Node.
#[derive(Debug, Default)]
struct Followed {
    /// The event ID of the request whose accept was ordered last, and when that was. `None`: no
    /// accept is awaited.
    ordered: Option<(String, Moment)>,
    /// When to look at the Node again; also in [`Requests::wakes`].
    wake: Option<Moment>,
    /// The requests that were reported as refused.
    refused: Vec<RefusedRequest>,
}

impl Requests {
    pub(super) fn next_wake(&self) -> Moment {
        self.wakes.first().map_or(Moment::MAX, |(at, _)| *at)
    }

    pub(super) fn forget(&mut self, node: &NodeName) {
        if let Some(wake) = self.by_node.remove(node).and_then(|followed| followed.wake) {
            self.wakes.remove(&(wake, node.clone()));
        }
    }

    fn wake_at(&mut self, node: &NodeName, at: Option<Moment>) {
        let Some(followed) = self.by_node.get_mut(node) else { return };
        if let Some(before) = std::mem::replace(&mut followed.wake, at) {
            self.wakes.remove(&(before, node.clone()));
        }
        self.wakes.extend(at.map(|at| (at, node.clone())));
    }

    /// Stores what is refused on this Node now. Returns only what was not refused before, or for
    /// another reason.
    fn refuse(&mut self, node: &NodeName, refused: Vec<RefusedRequest>) -> Vec<RefusedRequest> {
        if refused.is_empty() && !self.by_node.contains_key(node) {
            return refused;
        }
        let followed = self.by_node.entry(node.clone()).or_default();
        let mut news = refused.clone();
        news.retain(|one| !followed.refused.contains(one));
        followed.refused = refused;
        news
    }
}

impl Fleet {
    /// Acts on the requests on a confirmed Node.
    pub(super) fn follow_requests(&mut self, node: &Arc<Node>) {
        let name = &node.name;
        if node.requests.is_none() && node.record().is_none() || !self.lookup.selects(node) {
            return self.requests.forget(name);
        }
        let instance = node.instance.clone().or_else(|| self.found_instances.get(name).cloned());
        if instance.is_none() && !node.is_elsewhere {
            if node.requests.is_some() {
                self.look_up_instance(node);
            }
            return;
        }
        let at = self.plan_time();
        let refused = record::refused_requests(node, instance.as_ref(), at.now);
        for RefusedRequest { name: request, why } in self.requests.refuse(name, refused) {
            self.out.report(name, DrainEvent::RequestRefused { request, why });
        }
        let Some(instance) = instance.filter(|_| self.lookup.manages(node)) else { return };
        if let Some(next) = record::next_request(node, &instance, at.now) {
            return self.begin_request(node, next);
        }
        self.requests.wake_at(name, None);
        if let Some(followed) = self.requests.by_node.get_mut(name) {
            followed.ordered = None;
        }
        self.follow_request_changes(node, &instance);
    }

    /// Orders the accept of this request, unless that was ordered less than [`AGAIN_AFTER`] ago:
    /// until the index has the PATCH, the Node still looks as if nothing had been ordered.
    fn begin_request(&mut self, node: &Arc<Node>, request: Interruption) {
        let now = self.now;
        let followed = self.requests.by_node.entry(node.name.clone()).or_default();
        let ordered = followed.ordered.as_ref().filter(|(event, _)| *event == request.event_id);
        let again_at = match ordered.map(|(_, at)| at.plus(AGAIN_AFTER)) {
            Some(again_at) if again_at > now => again_at,
            _ => {
                followed.ordered = Some((request.event_id.clone(), now));
                self.out.push(Effect::BeginRequest(Arc::clone(node), Box::new(request)));
                now.plus(AGAIN_AFTER)
            }
        };
        self.requests.wake_at(&node.name, Some(again_at));
    }

    fn follow_request_changes(&mut self, node: &Arc<Node>, instance: &InstanceId) {
        let planned = Planned::of(node, instance);
        match record::request_changes(node, instance, planned.as_ref(), self.plan_time()) {
            RequestChanges::None => {}
            RequestChanges::Open { asking, gone } => {
                self.requests_changed(&node.name, &asking, gone);
            }
            RequestChanges::Over { names, is_drained } => {
                self.restore_after_requests(node, names, is_drained);
            }
        }
    }

    /// Notes which requests of an open record still ask (`asking`, event IDs) and which do not
    /// (`gone`). If nothing else holds the node, its drain ends, and the node is restored.
    fn requests_changed(&mut self, name: &NodeName, asking: &[String], gone: Vec<String>) {
        let Some(state) = self.drains.get_mut(name).filter(|state| state.is_draining()) else {
            return;
        };
        let mut has_changed = false;
        for event in asking {
            has_changed |= state.disproved.remove(event);
        }
        let mut news = gone;
        news.retain(|event| state.disproved.insert(event.clone()));
        let nothing_holds = state.is_disproved() && !state.record.has_unknown();
        if !news.is_empty() {
            let names = news.iter().filter_map(|event| DrainRequest::name_of_event(event));
            let names = names.map(str::to_owned).collect();
            self.out.report(name, DrainEvent::RequestsWithdrawn { names, nothing_holds });
        } else if !has_changed {
            return;
        }
        if nothing_holds {
            state.end_reason = EndReason::NothingHolds;
            self.feed(name, Input::Release);
        } else {
            self.refresh_limits(name);
            self.verify_actions(name);
        }
    }

    /// Restores a Node whose drain has ended and whose last request is gone. Further calls neither
    /// report nor order it again.
    fn restore_after_requests(&mut self, node: &Arc<Node>, names: Vec<String>, is_drained: bool) {
        if self.drains.contains_key(&node.name) || self.is_reported_void(node) {
            return;
        }
        if is_drained {
            let nothing_holds = true;
            self.out.report(&node.name, DrainEvent::RequestsWithdrawn { names, nothing_holds });
            if node.keeps_cordon() {
                self.out.report(&node.name, DrainEvent::RestoreHeld);
            }
        }
        self.order_restore(node);
    }

    /// Considers again the Nodes for which an accept was ordered, and that do not show it by now.
    pub(super) fn look_at_requests(&mut self) {
        let now = self.now;
        let due = self.requests.wakes.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<NodeName> = due.map(|(_, name)| name.clone()).collect();
        for name in due {
            // If `consider_node` has to read the Node first, it acts only once the answer is there.
            self.requests.wake_at(&name, Some(now.plus(AGAIN_AFTER)));
            match self.lookup.facts.node(&name) {
                Some(node) => self.consider_node(&node),
                None => self.requests.forget(&name),
            }
        }
    }
}
