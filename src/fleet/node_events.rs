//! Events on nodes that are paused, or whose pods are blocked, or whose hooks are kept open: what
//! is said, and how often.

use std::time::Duration;

use super::{DrainEvent, Fleet, node_state::NodeState, texts::list};
use crate::{
    domain::{Moment, NodeName, PodKey, seconds},
    drain::{Settings, held_by},
};

/// So many Events of this kind a second, over all nodes: a thousand blocked nodes must not crowd
/// out the Events of accepts and ends.
const PER_SECOND: usize = 5;
/// So many nodes are looked at in a second.
const LOOKED_AT: usize = 100;
/// Blocked pods are said again at the earliest after this, when others are blocked by then.
const CHANGED: Duration = seconds(300);
/// What has not changed is said again after this. The recorder counts equal Events up for ten
/// minutes; an API server drops an Event after an hour.
const REPEATED: Duration = seconds(540);

/// What the last Events of a node have said.
#[derive(Debug, Clone, Default)]
pub(super) struct LastSaid {
    paused: bool,
    blocked: Option<(String, Moment)>,
    heartbeats: u64,
    kept_open: Option<Moment>,
}

/// How a node is now.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeNow {
    paused: bool,
    /// Which pods are blocked, by what, until when; `None`: none is.
    blocked: Option<String>,
    /// Heartbeats that AWS has accepted so far.
    heartbeats: u64,
    accepted: Moment,
}

/// What is to be said of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum News {
    Paused,
    Resumed,
    Blocked(String),
    KeptOpen,
}

impl LastSaid {
    /// What is to be said now; the most important first, one at a time.
    fn news(&mut self, node: &NodeNow, now: Moment) -> Option<News> {
        if self.paused != node.paused {
            self.paused = node.paused;
            return Some(if node.paused { News::Paused } else { News::Resumed });
        }
        if let Some(text) = node.blocked.as_ref().filter(|_| !node.paused) {
            let is_due = self.blocked.as_ref().is_none_or(|(said, at)| {
                now >= at.plus(if said == text { REPEATED } else { CHANGED })
            });
            if is_due {
                self.blocked = Some((text.clone(), now));
                return Some(News::Blocked(text.clone()));
            }
        }
        // A drain that is short needs no such Event. The time of the Event is that of the
        // heartbeat.
        let is_due = now
            >= self.kept_open.map_or_else(|| node.accepted.plus(CHANGED), |at| at.plus(REPEATED));
        let has_new = std::mem::replace(&mut self.heartbeats, node.heartbeats) < node.heartbeats;
        if is_due && has_new {
            self.kept_open = Some(now);
            return Some(News::KeptOpen);
        }
        None
    }
}

impl Fleet {
    /// Says what has changed on some of the nodes, the others' turn comes in the next seconds.
    pub(super) fn report_nodes(&mut self, now: Moment) {
        let start = self.reported_last.take();
        let after = |name: &&NodeName| start.as_ref().is_none_or(|last| *name > last);
        let mut names: Vec<NodeName> = self.drains.keys().filter(after).cloned().collect();
        names.extend(self.drains.keys().filter(|name| !after(name)).cloned());
        let mut said = 0;
        for name in names.into_iter().take(LOOKED_AT) {
            if said == PER_SECOND {
                break;
            }
            said += usize::from(self.report_node(&name, now));
            self.reported_last = Some(name);
        }
    }

    /// Whether anything was said.
    fn report_node(&mut self, name: &NodeName, now: Moment) -> bool {
        let Some(node) = self.drains.get(name).and_then(|state| self.node_now(state, now)) else {
            return false;
        };
        let all = self.paused;
        let Some(state) = self.drains.get_mut(name) else { return false };
        let Some(news) = state.last_said.news(&node, now) else { return false };
        let event = match news {
            News::Paused => DrainEvent::Paused { all },
            News::Resumed => DrainEvent::Resumed { ends: state.limits.end_at },
            News::Blocked(text) => DrainEvent::Blocked(text),
            News::KeptOpen => {
                DrainEvent::HooksKeptOpen(self.lookup.open_actions(&state.record, &state.instance))
            }
        };
        self.out.report(name, event);
        true
    }

    /// `None`: its drain is over.
    fn node_now(&self, state: &NodeState, now: Moment) -> Option<NodeNow> {
        state.drain.as_ref()?;
        Some(NodeNow {
            paused: state.paused,
            blocked: if state.paused { None } else { self.blocked_text(state, now) },
            heartbeats: self.lookup.facts.heartbeats(&state.node.name),
            accepted: state.limits.accepted,
        })
    }

    /// Which pods have been blocked for a while, by which budgets, and until when.
    fn blocked_text(&self, state: &NodeState, now: Moment) -> Option<String> {
        let drain = state.drain.as_ref()?;
        let a_while = Settings::default().tell_blocked_after;
        let blocked: Vec<_> = drain
            .status(now)
            .blocked
            .into_iter()
            .filter(|b| b.since.plus(a_while) <= now)
            .collect();
        if blocked.is_empty() {
            return None;
        }
        let budgets = self.lookup.facts.budgets();
        let pod_of = |key: &PodKey| drain.pods_left().find(|pod| pod.key == *key);
        let words = |b: &crate::drain::Blocked| {
            let held = pod_of(&b.pod).and_then(|pod| held_by(pod, &budgets));
            let budgets = held
                .map(|h| h.budgets.iter().map(|budget| budget.key.to_string()).collect::<Vec<_>>())
                .unwrap_or_default();
            format!(
                "{} ({})",
                b.pod,
                [vec![b.reason.as_str().to_owned()], budgets].concat().join(" ")
            )
        };
        let force = blocked
            .iter()
            .filter_map(|b| pod_of(&b.pod))
            .filter_map(|pod| drain.forced_from(pod))
            .min();
        let until = force.map_or_else(
            || "None of them is deleted by force.".to_owned(),
            |at| format!("Deleted by force from {at:.0} on."),
        );
        let ends = state
            .limits
            .end_at
            .map_or_else(String::new, |at| format!(" The drain ends at {at:.0} at the latest."));
        let is = if blocked.len() == 1 { "pod does not go" } else { "pods do not go" };
        let named: Vec<String> = blocked.iter().map(words).collect();
        Some(format!("{} {is}: {}. {until}{ends}", named.len(), list(&named)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Moment {
        Moment::UNIX_EPOCH.plus(seconds(s))
    }

    fn node(blocked: &str) -> NodeNow {
        NodeNow {
            paused: false,
            blocked: Some(blocked.to_owned()).filter(|b| !b.is_empty()),
            heartbeats: 0,
            accepted: at(0),
        }
    }

    #[test]
    fn a_pause_and_its_end_are_said_once_each() {
        let mut said = LastSaid::default();
        let (paused, free) = (NodeNow { paused: true, ..node("a") }, node(""));
        let news: Vec<_> = [&free, &paused, &paused, &free, &free]
            .into_iter()
            .map(|node| said.news(node, at(10)))
            .collect();
        assert_eq!(news, [None, Some(News::Paused), None, Some(News::Resumed), None]);
    }

    #[test]
    fn blocked_pods_are_said_at_once_and_then_rarely() {
        let mut said = LastSaid::default();
        let blocked = |text: &str| Some(News::Blocked(text.to_owned()));
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
            assert_eq!(said.news(&node(text), at(s)), expected, "{s} {text}");
        }
    }

    #[test]
    fn a_hook_is_said_to_be_kept_open_when_a_heartbeat_was_accepted_and_not_in_short_drains() {
        let mut said = LastSaid::default();
        for (s, heartbeats, expected) in [
            (10, 1, None),
            (299, 2, None),
            (300, 2, None),
            (310, 3, Some(News::KeptOpen)),
            (450, 4, None),
            (850, 4, None),
            (851, 5, Some(News::KeptOpen)),
        ] {
            assert_eq!(said.news(&NodeNow { heartbeats, ..node("") }, at(s)), expected, "{s}");
        }
    }
}
