//! Events on nodes whose drain is paused or held back, whose pods are blocked or come back, whose
//! volumes are still attached, or whose lifecycle actions are kept open: which ones, and how often.

use std::time::Duration;

use super::{
    DrainEvent, Fleet, explained,
    facts::BudgetsOfTurn,
    texts::{came_back, list},
};
use crate::{
    domain::{Moment, NodeName, PaceHold, seconds},
    drain::{BlockedPod, Settings},
};

/// The most Events of this kind a second, for all nodes together. A thousand blocked nodes must not
/// crowd out the Events of accepts and ends.
const EVENTS_PER_SECOND: usize = 5;
/// The most nodes that are examined a second.
const NODES_PER_SECOND: usize = 100;
/// The interval between two Events about blocked pods, if other pods are blocked by then.
const INTERVAL_CHANGED: Duration = seconds(300);
/// The interval between two equal Events. The recorder counts equal Events of ten minutes as one;
/// an API server drops an Event after an hour.
pub(super) const INTERVAL_UNCHANGED: Duration = seconds(540);

/// The words around the end of a drain in the Event `Blocked`.
const ENDS_BEFORE: &str = "The drain ends at ";
const ENDS_AFTER: &str = " at the latest.";

/// When a drain ends at the latest, as the leader wrote it in the Event `Blocked` of the node;
/// `None` if the message has no such time. The leader knows the timeouts of the hooks, which
/// `sundown status` does not ask AWS for.
#[must_use]
pub fn end_in_event(message: &str) -> Option<Moment> {
    let (_, rest) = message.rsplit_once(ENDS_BEFORE)?;
    rest.strip_suffix(ENDS_AFTER)?.parse().ok()
}

/// What the last Events of a node have reported.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportedEvents {
    paused: bool,
    blocked: Option<(String, Moment)>,
    volumes: Option<(String, Moment)>,
    came_back: Option<Moment>,
    heartbeats: u64,
    kept_open: Option<Moment>,
}

/// The state of a node on which its next Event depends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CurrentState {
    paused: bool,
    /// Why other drains hold the drain, if that is to be reported again.
    held_back: Option<PaceHold>,
    /// The text of the Event about blocked pods; `None` if no pod is blocked.
    blocked: Option<String>,
    /// The text of the Event about volumes that are attached; `None` if the drain waits for none.
    volumes: Option<String>,
    /// The text of the Event about owners whose pods come back; `None` if no owner's pods do.
    came_back: Option<String>,
    /// The number of heartbeats that AWS has accepted.
    heartbeats: u64,
    /// When the first interruption was accepted.
    accepted: Moment,
}

/// The next Event of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NodeEvent {
    Paused,
    Resumed,
    HeldBack(PaceHold),
    Blocked(String),
    Volumes(String),
    ComeBack(String),
    KeptOpen,
}

/// Whether an Event with this text is due. `reported`: the last one of its kind.
fn is_text_due(reported: Option<&(String, Moment)>, text: &str, now: Moment) -> bool {
    reported.is_none_or(|(reported, at)| {
        now >= at.plus(if reported == text { INTERVAL_UNCHANGED } else { INTERVAL_CHANGED })
    })
}

impl ReportedEvents {
    /// The Event that is due now. If several are, the most important one comes first.
    fn next_event(&mut self, node: &CurrentState, now: Moment) -> Option<NodeEvent> {
        if self.paused != node.paused {
            self.paused = node.paused;
            return Some(if node.paused { NodeEvent::Paused } else { NodeEvent::Resumed });
        }
        if let Some(why) = node.held_back {
            return Some(NodeEvent::HeldBack(why));
        }
        if let Some(text) = node.blocked.as_ref().filter(|_| !node.paused)
            && is_text_due(self.blocked.as_ref(), text, now)
        {
            self.blocked = Some((text.clone(), now));
            return Some(NodeEvent::Blocked(text.clone()));
        }
        if let Some(text) = &node.volumes
            && is_text_due(self.volumes.as_ref(), text, now)
        {
            self.volumes = Some((text.clone(), now));
            return Some(NodeEvent::Volumes(text.clone()));
        }
        if let Some(text) = &node.came_back {
            // The drain itself reports the first one.
            let reported = *self.came_back.get_or_insert(now);
            if now >= reported.plus(INTERVAL_UNCHANGED) {
                self.came_back = Some(now);
                return Some(NodeEvent::ComeBack(text.clone()));
            }
        }
        // A short drain needs no such Event. The Event comes right after a heartbeat, so that its
        // time is that of the heartbeat.
        let is_due = now
            >= self.kept_open.map_or_else(
                || node.accepted.plus(INTERVAL_CHANGED),
                |at| at.plus(INTERVAL_UNCHANGED),
            );
        let has_new = std::mem::replace(&mut self.heartbeats, node.heartbeats) < node.heartbeats;
        if is_due && has_new {
            self.kept_open = Some(now);
            return Some(NodeEvent::KeptOpen);
        }
        None
    }
}

impl Fleet {
    /// Reports the Events that are due on some of the nodes. The next calls continue with the
    /// others.
    pub(super) fn report_nodes(&mut self, now: Moment) {
        let start = self.reported_last.take();
        let after = |name: &&NodeName| start.as_ref().is_none_or(|last| *name > last);
        let mut names: Vec<NodeName> = self.drains.keys().filter(after).cloned().collect();
        names.extend(self.drains.keys().filter(|name| !after(name)).cloned());
        let (mut reported, budgets) = (0, BudgetsOfTurn::default());
        for name in names.into_iter().take(NODES_PER_SECOND) {
            if reported == EVENTS_PER_SECOND {
                break;
            }
            reported += usize::from(self.report_node(&name, now, &budgets));
            self.reported_last = Some(name);
        }
    }

    /// Reports the Event that is due on this node. Returns whether there was one.
    fn report_node(&mut self, name: &NodeName, now: Moment, budgets: &BudgetsOfTurn) -> bool {
        let Some(node) = self.current_state(name, now, budgets) else { return false };
        let Some(state) = self.drains.get_mut(name) else { return false };
        let Some(event) = state.reported_events.next_event(&node, now) else { return false };
        let event = match event {
            NodeEvent::Paused => DrainEvent::Paused { by: state.paused_by },
            NodeEvent::Resumed => DrainEvent::Resumed { ends: state.limits.end_at },
            NodeEvent::HeldBack(why) => {
                let Some(until) = state.limits.held_until else { return false };
                state.pace.report(why, until, now)
            }
            NodeEvent::Blocked(text) => DrainEvent::Blocked(text),
            NodeEvent::Volumes(text) => DrainEvent::VolumesAttached(text),
            NodeEvent::ComeBack(text) => DrainEvent::PodsComeBack(text),
            NodeEvent::KeptOpen => {
                DrainEvent::HooksKeptOpen(self.lookup.open_actions(&state.record, &state.instance))
            }
        };
        self.out.report(name, event);
        true
    }

    /// `None` if the node has no drain, or its drain has ended.
    fn current_state(
        &self,
        name: &NodeName,
        now: Moment,
        budgets: &BudgetsOfTurn,
    ) -> Option<CurrentState> {
        let state = self.drains.get(name)?;
        let owners = state.drain()?.left_alone();
        let owners: Vec<_> =
            owners.iter().map(|left| came_back(&left.namespace, &left.owner, left.new)).collect();
        Some(CurrentState {
            paused: state.paused_by.is_paused(),
            held_back: state.pace.to_repeat(now).filter(|_| state.limits.held_until.is_some()),
            blocked: if state.paused_by.is_paused() {
                None
            } else {
                self.blocked_text(name, now, budgets)
            },
            volumes: self.volumes_text(name),
            came_back: (!owners.is_empty()).then(|| list(&owners)),
            heartbeats: self.lookup.facts.heartbeats(&state.node.name),
            accepted: state.limits.accepted,
        })
    }

    /// The text of the Event about volumes: which ones are attached, and until when the drain waits.
    /// `None` if it waits for none.
    fn volumes_text(&self, name: &NodeName) -> Option<String> {
        let state = self.drains.get(name)?;
        let attached = state.drain()?.attached_volumes()?;
        let are = if attached.count == 1 { "is" } else { "are" };
        let ends = self
            .lasting_limits(state)
            .unwrap_or(state.limits)
            .end_at
            .map_or_else(String::new, |at| format!(" {ENDS_BEFORE}{at:.0}{ENDS_AFTER}"));
        Some(format!("No pod is left. {attached} {are} still attached.{ends}"))
    }

    /// The text of the Event about blocked pods: which ones have been blocked for a while, by which
    /// budgets, and when they are deleted by force. `None` if no pod is.
    fn blocked_text(
        &self,
        name: &NodeName,
        now: Moment,
        budgets: &BudgetsOfTurn,
    ) -> Option<String> {
        let state = self.drains.get(name)?;
        let drain = state.drain()?;
        let a_while = Settings::default().report_blocked_after;
        let facts = &*self.lookup.facts;
        let explanation = drain.explain(now, |namespace| budgets.of(facts, namespace), |_| None);
        let is_reported = |b: &&BlockedPod| b.since.is_some_and(|since| since.plus(a_while) <= now);
        let blocked: Vec<&BlockedPod> = explanation.blocked.iter().filter(is_reported).collect();
        if blocked.is_empty() {
            return None;
        }
        // A heartbeat that is accepted again takes back a window that is about to expire.
        let ends = self
            .lasting_limits(state)
            .unwrap_or(state.limits)
            .end_at
            .map_or_else(String::new, |at| format!(" {ENDS_BEFORE}{at:.0}{ENDS_AFTER}"));
        Some(format!("{}{ends}", explained::blocked_event(&blocked)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Moment {
        Moment::UNIX_EPOCH.plus(seconds(s))
    }

    fn node(blocked: &str) -> CurrentState {
        CurrentState {
            paused: false,
            held_back: None,
            blocked: Some(blocked.to_owned()).filter(|b| !b.is_empty()),
            volumes: None,
            came_back: None,
            heartbeats: 0,
            accepted: at(0),
        }
    }

    #[test]
    fn the_end_of_a_drain_is_read_from_its_event() {
        let message = format!("1 pod is blocked: a/b (pdb). {ENDS_BEFORE}{:.0}{ENDS_AFTER}", at(9));
        assert_eq!(end_in_event(&message), Some(at(9)));
        for other in ["", "1 pod is blocked: a/b (pdb).", "The drain ends at noon at the latest."] {
            assert_eq!(end_in_event(other), None, "{other}");
        }
    }

    #[test]
    fn a_pause_and_its_end_are_reported_once_each() {
        let mut reported = ReportedEvents::default();
        let (paused, free) = (CurrentState { paused: true, ..node("a") }, node(""));
        let events: Vec<_> = [&free, &paused, &paused, &free, &free]
            .into_iter()
            .map(|node| reported.next_event(node, at(10)))
            .collect();
        assert_eq!(events, [None, Some(NodeEvent::Paused), None, Some(NodeEvent::Resumed), None]);
    }

    #[test]
    fn blocked_pods_are_reported_at_once_and_then_rarely() {
        let mut reported = ReportedEvents::default();
        let blocked = |text: &str| Some(NodeEvent::Blocked(text.to_owned()));
        for (s, text, expected) in [
            (0, "", None),
            (30, "a", blocked("a")),
            (31, "a", None),
            (60, "a b", None),
            (330, "a b", blocked("a b")),
            (331, "", None),
            (869, "a b", None),
            (870, "a b", blocked("a b")),
            (1170, "c", blocked("c")),
        ] {
            assert_eq!(reported.next_event(&node(text), at(s)), expected, "{s} {text}");
        }
    }

    #[test]
    fn volumes_are_reported_at_once_and_then_rarely() {
        let mut reported = ReportedEvents::default();
        for (s, text, expected) in
            [(0, "2", true), (1, "2", false), (2, "1", false), (300, "1", true), (839, "1", false)]
        {
            let node = CurrentState { volumes: Some(text.to_owned()), ..node("") };
            let event = expected.then(|| NodeEvent::Volumes(text.to_owned()));
            assert_eq!(reported.next_event(&node, at(s)), event, "{s} {text}");
        }
    }

    #[test]
    fn pods_that_come_back_are_reported_again_before_the_api_server_drops_the_event() {
        let mut reported = ReportedEvents::default();
        let node = CurrentState { came_back: Some("web".to_owned()), ..node("") };
        let again = || Some(NodeEvent::ComeBack("web".to_owned()));
        // The drain reports them at once.
        for (s, expected) in [(10, None), (549, None), (550, again()), (551, None), (1090, again())]
        {
            assert_eq!(reported.next_event(&node, at(s)), expected, "{s}");
        }
    }

    #[test]
    fn hooks_that_heartbeats_keep_open_are_reported_right_after_a_heartbeat_and_not_in_short_drains()
     {
        let mut reported = ReportedEvents::default();
        for (s, heartbeats, expected) in [
            (10, 1, None),
            (299, 2, None),
            (300, 2, None),
            (310, 3, Some(NodeEvent::KeptOpen)),
            (450, 4, None),
            (850, 4, None),
            (851, 5, Some(NodeEvent::KeptOpen)),
        ] {
            assert_eq!(
                reported.next_event(&CurrentState { heartbeats, ..node("") }, at(s)),
                expected,
                "{s}"
            );
        }
    }
}
