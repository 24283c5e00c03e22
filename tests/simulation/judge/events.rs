//! Events: each that was written is true by what the embedded servers stored, and each thing that
//! happened has its own.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use sundown::domain::Moment;
use sundown::sim::{
    aws::{ActionReport, HookResult, State, Transition, Verdict},
    kube::{Entry, Fact, PodRef, Request},
};

use super::{
    Judge, SLACK,
    clocks::AwsClock,
    excuses::{
        COMPLETIONS, EVENTS, LIST_PODS, Needs, SEE_NODES, SEE_PODS, SEE_VOLUMES, Scope, WRITE_NODES,
    },
    is_us,
    nodes::{RECORD, Write, is_claimed_twice, open_record, record},
    pooled::is_cordon_for_pool,
    promises::Promise,
    story::{Life, Page, is_open},
};

/// An Event that Sundown wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub reason: String,
    pub severity: String,
    /// The kind of the object that it is about.
    pub on: String,
    pub name: String,
    pub uid: String,
    /// When it was created, in whole seconds.
    pub first: Moment,
    /// When it was last written.
    pub last: Moment,
}

impl Event {
    /// Of one that Sundown wrote. The times in it are those of the clock of its process, which may
    /// be wrong, so those of the API server count.
    pub fn of(event: &Value, written: Moment) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["involvedObject"];
        let first: Moment = event["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
        (event["reportingComponent"] == "sundown").then(|| Self {
            reason: text(&event["reason"]),
            severity: text(&event["type"]),
            on: text(&object["kind"]),
            name: text(&object["name"]),
            uid: text(&object["uid"]),
            first,
            last: written,
        })
    }
}

/// What makes an Event true at this moment.
type Truth = fn(&Judge<'_>, &Event, Moment) -> bool;

/// A reason: its types, what it is about, and what makes it true.
type Row = (&'static str, &'static [&'static str], &'static [&'static str], Truth);

const NORMAL: &[&str] = &["Normal"];
const WARNING: &[&str] = &["Warning"];
const NODE: &[&str] = &["Node"];
const POD: &[&str] = &["Pod"];
const BOTH: &[&str] = &["Node", "Pod"];

/// Every reason that there is.
const ROWS: &[Row] = &[
    ("InterruptionAccepted", &["Normal", "Warning"], NODE, |j, e, at| {
        j.accepts(&e.name).iter().any(|a| j.is_soon(*a, at))
    }),
    ("EvictionsWait", NORMAL, NODE, |j, e, at| j.evictions_wait(&e.name, at)),
    ("DrainHeldBack", NORMAL, NODE, |j, e, at| j.may_be_held_back(&e.name, at + SECOND)),
    ("DrainBegins", NORMAL, NODE, |j, e, at| j.was_drained(&e.name, at)),
    ("GatesHold", WARNING, NODE, |j, e, at| j.was_gated(&e.name, at + SECOND)),
    ("GatesIgnored", NORMAL, NODE, |j, e, at| j.was_gated(&e.name, at + SECOND)),
    ("DrainForced", WARNING, NODE, |j, e, at| j.was_forced_by_hand(&e.name, at + SECOND)),
    ("SettingsIgnored", WARNING, NODE, |j, e, at| {
        j.was_given_bad_settings(&e.name, at - RETRIED, at + SECOND)
    }),
    ("TestReceived", NORMAL, NODE, |_, _, _| true),
    ("DuplicateProviderID", WARNING, NODE, |j, e, at| j.seems_claimed_twice(&e.name, at)),
    ("Evicted", NORMAL, POD, |j, e, at| {
        j.removed(e, at).any(|(f, _)| !matches!(f, Fact::Deleted { .. }))
    }),
    ("ShortenedGrace", WARNING, POD, |j, e, at| j.removed(e, at).any(|(_, is_short)| is_short)),
    ("EvictionDelayed", NORMAL, POD, |j, e, _| j.has_no_traits() || j.may_be_delayed(&e.uid)),
    ("PodSettingIgnored", WARNING, POD, |j, e, _| j.has_no_traits() || j.asks_for_nonsense(&e.uid)),
    ("Blocked", WARNING, BOTH, |j, e, at| j.is_held_up(e, at)),
    ("VolumesAttached", &["Normal", "Warning"], NODE, |j, e, at| {
        j.was_drained(&e.name, at) && j.is_empty_about(&e.name, at)
    }),
    ("VolumesDetached", NORMAL, NODE, |j, e, at| {
        j.was_drained(&e.name, at) && j.is_empty_about(&e.name, at)
    }),
    ("VolumesUnknown", WARNING, NODE, |j, _, at| {
        // The service gives up after two minutes at most.
        let scope = Scope { needs: &[SEE_VOLUMES], of: None, process: None, without_leader: None };
        j.is_excused(scope, at - Duration::from_secs(130), at + SECOND)
    }),
    ("Paused", WARNING, NODE, |j, e, at| j.was_paused(&e.name, true, at)),
    ("Resumed", NORMAL, NODE, |j, e, at| j.was_paused(&e.name, false, at)),
    ("HookKeptOpen", NORMAL, NODE, |j, e, at| {
        j.actions_of(&e.name).any(|a| a.heartbeats.iter().any(|b| *b <= at + SECOND))
    }),
    ("Forced", WARNING, BOTH, |j, e, at| {
        j.removed(e, at).any(|(f, _)| matches!(f, Fact::Deleted { .. }))
    }),
    ("OrphanedDaemonSetPod", WARNING, NODE, |_, _, _| true),
    ("PodsComeBack", WARNING, NODE, |j, e, at| {
        j.removed(e, at).filter(|(f, _)| !is_intercepted(f)).count() >= 3 || j.was_flooded(e, at)
    }),
    ("Uncordoned", WARNING, NODE, |j, e, at| {
        j.uncordoned(&e.name).iter().any(|a| *a <= at + SECOND) || j.has_made_up_record(&e.name, at)
    }),
    ("NoLongerManaged", WARNING, NODE, |j, e, at| j.was_changed_by_others(&e.name, at)),
    ("InterruptionDisproved", NORMAL, NODE, |j, e, at| {
        j.has_record_that(&e.name, at, |r| r.contains("\"stale\":true"))
    }),
    ("InterruptionContradicted", WARNING, NODE, |j, e, at| j.is_contradicted(&e.name, at)),
    ("ScheduledChange", NORMAL, NODE, |j, e, at| {
        j.was_announced(&e.name, at + SECOND) || j.seems_claimed_twice(&e.name, at)
    }),
    ("ScheduledChangeCanceled", NORMAL, NODE, |j, e, at| j.was_canceled(&e.name, at)),
    ("ScheduledChangeMoved", NORMAL, NODE, |j, e, at| j.was_moved(&e.name, at)),
    ("RequestRefused", WARNING, NODE, |j, e, at| j.may_be_refused(&e.name, at)),
    ("RequestWithdrawn", NORMAL, NODE, |j, e, at| j.was_withdrawn(&e.name, at + SECOND)),
    ("InstanceImpaired", WARNING, NODE, |j, e, at| j.looked_sick(&e.name, at)),
    ("InstanceRecovered", NORMAL, NODE, |j, e, at| !j.is_sick(&e.name, at)),
    ("InstanceSetUnhealthy", NORMAL, NODE, |j, e, at| j.was_handed_over(&e.name, true, at)),
    ("InstanceNotSetUnhealthy", WARNING, NODE, |j, e, at| {
        j.was_handed_over(&e.name, false, at) || j.is_sick(&e.name, at)
    }),
    ("InstanceReturned", NORMAL, NODE, |_, _, _| true),
    ("RestoreHeld", NORMAL, NODE, |_, _, _| true),
    ("RecommendationExpired", NORMAL, NODE, |j, e, at| j.was_recommended(&e.name, at + SECOND)),
    ("WarmPoolCordoned", NORMAL, NODE, |j, e, at| j.was_pooled(&e.name, at + SECOND)),
    ("ReturnNotShown", WARNING, NODE, |_, _, _| true),
    ("OutOfServiceTaintSet", NORMAL, NODE, |j, e, at| j.story.machine_gone(&e.name, at)),
    ("NodeDeleted", NORMAL, NODE, |j, e, at| j.story.machine_gone(&e.name, at)),
    ("NodeKept", WARNING, NODE, |j, e, at| j.was_drained(&e.name, at)),
    ("NotEvicted", NORMAL, NODE, |j, e, at| j.was_drained_without_evictions(&e.name, at)),
    ("Drained", NORMAL, NODE, |j, e, at| {
        j.story.machine_gone(&e.name, at)
            || j.is_dying(&e.name, at)
            || j.is_empty_about(&e.name, at)
    }),
    ("DrainEnded", WARNING, NODE, |j, e, at| {
        j.was_drained(&e.name, at) && (j.had_pods(&e.name, at) || j.pods_were_unknown(&e.name, at))
    }),
    ("LifecycleCompleted", NORMAL, NODE, |j, e, at| {
        j.actions_of(&e.name).any(|a| is_completed(a) && !is_abandoned(a) && has_ended(a, at))
    }),
    ("InstanceRetained", WARNING, NODE, |j, e, at| {
        let is_retained = |a: &ActionReport| j.evidence.terms.retaining.contains(&a.group);
        j.actions_of(&e.name).any(|a| is_abandoned(a) && is_retained(a) && has_ended(a, at))
    }),
    ("LifecycleOver", NORMAL, NODE, |j, e, at| {
        j.actions_of(&e.name).any(|a| has_ended(a, at))
            || j.has_made_up_record(&e.name, at)
            || j.has_record_of_no_action(&e.name, at)
    }),
    ("HooksNotChecked", WARNING, NODE, |j, e, at| {
        j.met_a_fault("autoscaling:DescribeLifecycleHooks", at) || j.has_made_up_record(&e.name, at)
    }),
    ("SeveralHooks", WARNING, NODE, |j, e, at| {
        j.hooks_of(&e.name, at) > 1 || j.has_made_up_record(&e.name, at)
    }),
    ("HookNotConfirmed", WARNING, NODE, |j, _, at| {
        j.met_a_fault("autoscaling:DescribeAutoScalingGroups", at)
            || j.met_a_fault("autoscaling:DescribeWarmPool", at)
    }),
    ("HookNotOurs", NORMAL, NODE, |j, e, _| {
        j.actions_of(&e.name).any(|a| !j.is_ours(&a.group, &a.hook))
    }),
    ("RecordDamaged", WARNING, NODE, |j, e, at| {
        j.has_record_that(&e.name, at, |r| serde_json::from_str::<Value>(r).is_err())
    }),
    ("RecordVoid", NORMAL, NODE, |j, e, at| j.is_another_machine(&e.name, at)),
    ("RecordRestored", WARNING, NODE, |j, e, at| j.lost_its_record(&e.name, at)),
];

/// Times of Events are whole seconds, and a fact may follow its Event.
const SECOND: Duration = Duration::from_millis(1100);
/// An Event follows its fact at the latest then, unless a call had to be tried again.
const LATE: Duration = Duration::from_secs(40);

/// For how long the call that writes an Event about settings may be tried again.
const RETRIED: Duration = Duration::from_secs(60);

/// Just before something happened.
const MOMENT: Duration = Duration::from_millis(1);

/// A pod is reported as blocked after half a minute.
const BLOCKED: Duration = Duration::from_secs(28);

fn row(event: &Event) -> Option<&'static Row> {
    let is_it = |(reason, types, on, _): &&Row| {
        *reason == event.reason
            && types.contains(&event.severity.as_str())
            && on.contains(&event.on.as_str())
    };
    ROWS.iter().find(is_it)
}

fn is_completed(action: &ActionReport) -> bool {
    action
        .end
        .as_ref()
        .is_some_and(|end| is_us(&end.by) && matches!(end.verdict, Verdict::Completed(_)))
}

/// ABANDON ended it, by a call or by a timeout.
fn is_abandoned(action: &ActionReport) -> bool {
    let end = action.end.as_ref();
    end.is_some_and(|end| end.verdict.result() == Some(HookResult::Abandon))
}

/// The Event about the completion of an action.
fn event_of_end(action: &ActionReport) -> &'static str {
    if is_abandoned(action) { "InstanceRetained" } else { "LifecycleCompleted" }
}

fn is_intercepted(fact: &Fact) -> bool {
    matches!(fact, Fact::EvictionIntercepted { .. })
}

fn has_ended(action: &ActionReport, at: Moment) -> bool {
    action.end.as_ref().is_some_and(|end| end.at <= at + SECOND)
}

impl Judge<'_> {
    /// Every Event is one that there is: its type, and what it is about.
    pub(super) fn events(&mut self) {
        for event in &self.evidence.events {
            if row(event).is_none() {
                self.broken(event.last, format!("there is no such Event: {event:?}"));
            }
        }
    }

    /// Every Event is true.
    pub(super) fn true_events(&mut self) {
        for event in &self.evidence.events {
            let Some((.., is_true)) = row(event) else { continue };
            for at in [event.first, event.last] {
                self.count(Promise::TrueEvents, false);
                if !is_true(self, event, at) {
                    self.broken(at, format!("an Event is not true: {event:?}"));
                }
            }
        }
    }

    /// Everything that happened has its Event.
    pub(super) fn each_has_its_event(&mut self) {
        let evidence = self.evidence;
        let mut expected: Vec<(Moment, &str, &str, &str)> = Vec::new();
        let all = |process: &str| self.evidence.terms.flag(process, "--pod-events") == Some("all");
        for Entry { at, by, fact } in evidence.entries.iter().filter(|e| is_us(&e.by)) {
            match fact {
                Fact::Deleted { pod, again: false, .. }
                    if self.may_have_been_evicted(*at, by, pod) =>
                {
                    self.count(Promise::EachHasItsEvent, true);
                }
                Fact::Deleted { pod, again: false, .. } => {
                    expected.push((*at, "Forced", &pod.name, &pod.uid));
                }
                Fact::Evicted { pod, again: false, .. }
                    if all(by) && self.is_answered(*at, by, pod) =>
                {
                    expected.push((*at, "Evicted", &pod.name, &pod.uid));
                }
                _ => {}
            }
        }
        for node in evidence.nodes.values() {
            expected.extend(
                self.accepts(node)
                    .into_iter()
                    .map(|at| (at, "InterruptionAccepted", node.as_str(), "")),
            );
            let pooled = self.pooled_at(node).into_iter();
            expected.extend(pooled.map(|at| (at, "WarmPoolCordoned", node.as_str(), "")));
            let during =
                self.uncordoned(node).into_iter().filter(|at| self.drain_goes_on(node, *at));
            expected.extend(during.map(|at| (at, "Uncordoned", node.as_str(), "")));
            // Where an instance has no Node yet, nobody writes Events about it.
            let had_node = |a: &&ActionReport| {
                self.story
                    .registered(&a.instance)
                    .is_some_and(|at| a.end.as_ref().is_some_and(|e| at <= e.at))
            };
            let own = |a: &&ActionReport| evidence.nodes.get(&a.instance) == Some(node);
            let completed = self.actions_of(node).filter(|a| {
                is_completed(a) && a.transition == Transition::Terminating && own(a) && had_node(a)
            });
            expected
                .extend(completed.filter_map(|a| {
                    Some((a.end.as_ref()?.at, event_of_end(a), node.as_str(), ""))
                }));
        }
        for (at, reason, name, uid) in expected {
            let is_end = matches!(reason, "LifecycleCompleted" | "InstanceRetained");
            let others = if is_end { self.drained_in_place_of(name, at) } else { Vec::new() };
            let name = others.first().map_or(name, String::as_str);
            let is_it = |e: &Event| {
                e.reason == reason
                    && (e.name == name || others.contains(&e.name))
                    && (uid.is_empty() || e.uid == uid)
            };
            let written = evidence
                .events
                .iter()
                .filter(|e| is_it(e))
                .any(|e| e.first <= at + LATE && e.last + SECOND + SECOND >= at);
            // A completion whose answer was lost is reported as an action that was over already.
            let needs: &[_] =
                if is_end { &[EVENTS, SEE_NODES, COMPLETIONS] } else { &[EVENTS, SEE_NODES] };
            let excused = self.is_excused(Scope::of_leader(needs), at, at + LATE)
                || at + LATE > evidence.ended;
            // Nobody writes Events about a Node that is gone.
            let excused = excused || (uid.is_empty() && self.story.node_gone(name, at + SECOND));
            let excused =
                excused || (reason == "InterruptionAccepted" && self.is_accept_unread(name, at));
            self.count(Promise::EachHasItsEvent, excused);
            if !written && !excused {
                self.broken(at, format!("{reason} of {name} has no Event"));
            }
        }
    }

    /// It happened just before the Event, whose call may have been tried again for a while.
    fn is_soon(&self, fact: Moment, event: Moment) -> bool {
        let scope = Scope { needs: &[EVENTS], of: None, process: None, without_leader: None };
        fact <= event + SECOND && self.longest_clear(scope, fact, event.max(fact)) <= LATE
    }

    /// Some process has `--evict-after`, the drain goes on, and the process that leads has removed no
    /// pod of the node in it before: a new leader waits once more for a replacement. The Event may
    /// be late while the calls of Events meet faults.
    fn evictions_wait(&self, node: &str, at: Moment) -> bool {
        let made_up = self.evidence.hands.iter().filter_map(|(at, name, what)| {
            (name == node && *what == "record made up").then_some(*at)
        });
        let begun = self.accepts(node).into_iter().chain(made_up);
        let accepted = begun.filter(|accepted| *accepted <= at + SECOND).max();
        let may_wait = !self.evidence.terms.each("--evict-after").is_empty();
        // Only so many Events are written in a second, and a replacement may be ready at once.
        let written = self.waits_since(at) - SECOND;
        let leads = self.leaders.at(at + SECOND).and_then(|holder| {
            let since = self.leaders.leads_since(holder.process?, at + SECOND);
            Some(since.unwrap_or(holder.at))
        });
        let has_removed = |since: Moment| {
            self.has_removed(node, leads.map_or(since, |at| at.max(since)), written)
        };
        may_wait && accepted.is_some_and(|since| !has_removed(since))
    }

    /// Since when an Event that was written at this moment may have waited for its call: since the
    /// calls of Events began to meet faults without a break until then. Each Event waits for those
    /// before it. Without such faults, it is this moment.
    fn waits_since(&self, at: Moment) -> Moment {
        let scope = Scope { needs: &[EVENTS], of: None, process: None, without_leader: None };
        self.excused_since(scope, at).unwrap_or(at)
    }

    /// Sundown has removed a pod of this node between these moments.
    fn has_removed(&self, node: &str, from: Moment, to: Moment) -> bool {
        self.evidence.entries.iter().filter(|e| is_us(&e.by) && from <= e.at && e.at < to).any(
            |e| {
                matches!(
                    &e.fact,
                    Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. } if pod.node == node
                )
            },
        )
    }

    /// When interruptions were written into records of this Node by us: not again, because a record
    /// was gone.
    fn accepts(&self, node: &str) -> Vec<Moment> {
        let mut known: Vec<Value> = Vec::new();
        let mut all = Vec::new();
        for write in self.writes.iter().filter(|w| w.new.is_some_and(|n| n.name == node)) {
            let Some(new) = write.new.and_then(record) else { continue };
            let interruptions = new["interruptions"].as_array().cloned().unwrap_or_default();
            let fresh: Vec<Value> =
                interruptions.into_iter().filter(|i| !known.contains(i)).collect();
            let is_pooled = write.both().is_some_and(|(old, new)| is_cordon_for_pool(old, new));
            if !fresh.is_empty() && is_us(write.by) && !is_pooled {
                all.push(write.at);
            }
            known.extend(fresh);
        }
        all
    }

    /// The answers to a forced delete and to an eviction before it were lost, so its process cannot
    /// know which of them ended the pod. A budget that refused an eviction in between would prove
    /// that none had an effect.
    fn may_have_been_evicted(&self, at: Moment, by: &str, pod: &PodRef) -> bool {
        let is_lost = |r: &Request| {
            let is_unreadable = r.is_disturbed && (200..300).contains(&r.status);
            r.answered.is_none() || r.status >= 500 || is_unreadable
        };
        let of_pod = self.evidence.requests.iter().filter(|r| {
            let is_it = (&r.namespace, &r.name) == (&pod.namespace, &pod.name);
            is_it && r.client == by && r.resource == "pods" && r.at <= at
        });
        let (mut eviction_lost, mut delete_lost) = (false, false);
        for request in of_pod {
            match (request.verb.as_str(), request.subresource.as_str()) {
                ("create", "eviction") if is_lost(request) => eviction_lost = true,
                ("create", "eviction") if request.status == 429 && !request.is_disturbed => {
                    eviction_lost = false;
                }
                ("delete", "") => delete_lost = is_lost(request),
                _ => {}
            }
        }
        eviction_lost && delete_lost
    }

    /// The answer to the PATCH that accepted an interruption then was lost, and the Node went
    /// before its process could read what it had written.
    fn is_accept_unread(&self, node: &str, at: Moment) -> bool {
        let is_it = |w: &&Write<'_>| w.at == at && w.new.is_some_and(|new| new.name == node);
        let write = self.writes.iter().find(is_it);
        let page = self.story.page(node, at);
        let Some((write, page)) = write.zip(page) else { return false };
        let Some(gone) = self.story.left_at(node, &page.instance, at) else { return false };
        let (needs, of): (&[Needs], _) = (&[WRITE_NODES], Some((&*page.instance, node)));
        let scope = Scope { needs, of, process: Some(write.by), without_leader: None };
        self.longest_clear(scope, at, gone) <= SLACK
    }

    /// When somebody else uncordoned a Node that was being drained.
    fn uncordoned(&self, node: &str) -> Vec<Moment> {
        let of_it =
            self.writes.iter().filter(|w| !is_us(w.by)).filter_map(|w| Some((w.at, w.both()?)));
        let flips = of_it.filter(|(_, (old, new))| {
            new.name == node
                && open_record(new).is_some()
                && old.unschedulable
                && !new.unschedulable
        });
        flips.map(|(at, _)| at).collect()
    }

    /// Pods have to go, and no deadline, person or end of the machine has ended the drain.
    fn drain_goes_on(&self, node: &str, at: Moment) -> bool {
        let story = &self.story;
        let Some(page) = story.page(node, at).filter(|page| is_open(page)) else { return false };
        let (id, later) = (page.instance.as_str(), at + SECOND);
        let is_over = page.recorded.iter().any(|recorded| recorded.is_over())
            || story.is_ending(id, later)
            || story.machine_gone(node, later);
        let by_hand =
            story.released_by_hand(node, later) || story.record_deleted_twice(node, later);
        let is_due = story.deadlines(id, later).iter().any(|deadline| deadline.end <= later);
        let is_lost = story.fell_silent(node, later).is_some();
        !(is_over || by_hand || is_due || is_lost || story.left(node, later).is_empty())
    }

    /// What we did to the pod, or to pods of the Node, that the Event is about (or were told that
    /// we did, by a webhook that intercepts evictions): and whether it got less than its own grace.
    fn removed<'s>(
        &'s self,
        event: &'s Event,
        at: Moment,
    ) -> impl Iterator<Item = (&'s Fact, bool)> + 's {
        self.evidence
            .entries
            .iter()
            .filter(move |e| is_us(&e.by) && e.at <= at + SECOND)
            .filter_map(move |e| match &e.fact {
                fact @ (Fact::Evicted { pod, grace, .. }
                | Fact::EvictionIntercepted { pod, grace }
                | Fact::Deleted { pod, grace, .. }) => {
                    let is_it = if event.on == "Pod" {
                        pod.uid == event.uid
                    } else {
                        pod.node == event.name
                    };
                    is_it.then(|| (fact, *grace < self.grace_of(pod)))
                }
                _ => None,
            })
    }

    /// Another Node named its instance just before the Event, or before one of them was deleted
    /// while the leader could not see Nodes.
    fn seems_claimed_twice(&self, node: &str, at: Moment) -> bool {
        if is_claimed_twice(&self.writes, node, at - LATE, at + SECOND) {
            return true;
        }
        let leader = self.leaders.at(at + SECOND).and_then(|holder| holder.process);
        let Some(leader) = leader else { return false };
        let needs: &[Needs] = &[SEE_NODES];
        let sees = Scope { needs, of: None, process: Some(leader), without_leader: None };
        let mut deletions = self.writes.iter().filter(|w| w.new.is_none() && w.at <= at);
        deletions.any(|deletion| {
            let before = deletion.at - MOMENT;
            is_claimed_twice(&self.writes, node, before, before)
                && self.longest_clear(sees, deletion.at, at) <= LATE
        })
    }

    /// The pod is still there, or one that counts is on the Node.
    fn is_held_up(&self, event: &Event, at: Moment) -> bool {
        if event.on == "Node" {
            let mut looks = [Duration::ZERO, LATE / 2, LATE].into_iter().map(|ago| at - ago);
            let held_up = |look: Moment| {
                self.holds_up(&event.name, look, at).any(|life| life.bound + BLOCKED <= at)
            };
            return looks.any(held_up)
                || self.held_up_just(&event.name, at)
                || self.is_left_on_dead_machine(&event.name, at);
        }
        self.story.pods.get(&event.uid).is_some_and(|life| {
            life.bound + BLOCKED <= at
                && life.gone.is_none_or(|gone| gone > at || self.may_seem_there(gone, at))
        })
    }

    /// The machine of the Node is gone, and a pod that counts has been there for a while: its object
    /// stays until the Node goes.
    fn is_left_on_dead_machine(&self, node: &str, at: Moment) -> bool {
        let mut of_it = self.story.pods.values().filter(|life| life.pod.node == node);
        self.story.machine_gone(node, at)
            && of_it.any(|life| {
                life.bound + BLOCKED <= at
                    && life.gone.is_none_or(|gone| gone > at)
                    && super::story::counts(&life.pod)
            })
    }

    /// A pod went just before the Event, or the watch of pods has not reported since: it went silent,
    /// or met another fault.
    fn may_seem_there(&self, went: Moment, event: Moment) -> bool {
        let scope =
            Scope { needs: &[EVENTS, SEE_PODS], of: None, process: None, without_leader: None };
        went <= event + SECOND && self.longest_clear(scope, went, event.max(went)) <= LATE
    }

    /// A pod that the drain of the Node waited for went just before the Event, whose call may have
    /// been tried again for a while.
    fn held_up_just(&self, node: &str, at: Moment) -> bool {
        let of_it = self
            .story
            .pods
            .values()
            .filter(|life| life.pod.node == node && life.bound + BLOCKED <= at);
        let mut went = of_it
            .filter_map(|life| Some((life, life.finished.into_iter().chain(life.gone).min()?)));
        // It was there a moment before it went.
        let was_there = |life: &Life, went: Moment| {
            self.holds_up(node, went - MOMENT, at).any(|other| other.pod.uid == life.pod.uid)
        };
        went.any(|(life, went)| self.may_seem_there(went, at) && was_there(life, went))
    }

    /// The pods that the drain of a node waits for: also one that came back again and again, where
    /// it was asked to go once more.
    fn holds_up(&self, node: &str, look: Moment, at: Moment) -> impl Iterator<Item = &Life> {
        self.story
            .there(node, look)
            .into_iter()
            .filter(move |life| !self.story.came_back(life, look) || self.was_asked(life, at))
    }

    /// The drain of the node or all drains were paused (or resumed) before.
    fn was_paused(&self, node: &str, set: bool, at: Moment) -> bool {
        let of_all = |e: &Entry| {
            e.at <= at + SECOND && matches!(e.fact, Fact::PausedAll { paused, .. } if paused == set)
        };
        let of_node = |(from, to): &(Moment, Moment)| {
            if set { *from <= at + SECOND } else { *to <= at + SECOND }
        };
        self.evidence.entries.iter().any(of_all) || self.story.pauses(node).iter().any(of_node)
    }

    /// Its kubelet is silent, and its instance does not run any more.
    fn is_dying(&self, node: &str, at: Moment) -> bool {
        let is_of = |instance: &str| self.evidence.nodes.get(instance).is_some_and(|n| n == node);
        let ends = self.evidence.changes.iter().any(|c| {
            c.at <= at + SECOND
                && c.state != State::Pending
                && c.state != State::Running
                && is_of(&c.id)
        });
        ends && self.story.fell_silent(node, at).is_some_and(|(_, back)| back.is_none())
    }

    /// The process could read the answer to its eviction of this pod.
    fn is_answered(&self, at: Moment, by: &str, pod: &PodRef) -> bool {
        let is_it = |r: &&Request| {
            r.client == by
                && r.resource == "pods"
                && r.subresource == "eviction"
                && r.namespace == pod.namespace
                && r.name == pod.name
        };
        self.evidence
            .requests
            .iter()
            .filter(is_it)
            .any(|r| r.at <= at && r.answered.is_some_and(|answered| answered >= at))
    }

    /// No pod was left just before the Event, whose call may have been tried again for a while.
    /// Others may have come since.
    fn is_empty_about(&self, node: &str, at: Moment) -> bool {
        const JUST: Duration = Duration::from_secs(10);
        let scope = Scope { needs: &[EVENTS], of: None, process: None, without_leader: None };
        let is_just = |went: &Moment| {
            *went <= at + SECOND && self.longest_clear(scope, *went, at.max(*went)) <= JUST
        };
        let of_it = self.story.pods.values().filter(|life| life.pod.node == node);
        let went =
            of_it.flat_map(|life| life.finished.into_iter().chain(life.gone)).filter(is_just);
        let looks = [0, 1, 2, 3, 5, 10].map(|ago| at + SECOND - Duration::from_secs(ago));
        looks.into_iter().chain(went).any(|look| self.seems_empty(node, look))
    }

    /// No pod is left on the node but those that the leader takes for pods that come back. A leader
    /// that AWS has not answered reads the time of the accept by the API server's clock, so pods
    /// from before the accept may count for it.
    fn seems_empty(&self, node: &str, at: Moment) -> bool {
        let seems_to_come_back = |life: &Life| {
            let leader = self.leaders.at(life.bound).and_then(|holder| holder.process);
            let clock = leader.map(|process| self.aws_clock(process, life.bound));
            let Some(AwsClock::Unknown { ahead, .. }) = clock else { return false };
            self.story.came_back_after(life, at, ahead)
        };
        self.story.left(node, at).into_iter().all(seems_to_come_back)
    }

    /// The Nodes that were drained for an action that was completed then, in place of the
    /// instance's own Node: others that claim the instance. The kubelet of the own Node was silent,
    /// or the own Node is left alone and EC2 cannot say any more whose the instance was, or could
    /// not say it when the action was accepted.
    fn drained_in_place_of(&self, node: &str, at: Moment) -> Vec<String> {
        let mut of_it = self.actions_of(node);
        let Some(action) =
            of_it.find(|a| is_completed(a) && a.end.as_ref().is_some_and(|end| end.at == at))
        else {
            return Vec::new();
        };
        let is_left_alone = || {
            let is_gone = self.story.is_terminated(&action.instance, at)
                && is_claimed_twice(&self.writes, node, at, at);
            let (group, hook, instance) = (&action.group, &action.hook, &action.instance);
            (is_gone && self.looks_like_ours(group, instance, at))
                || self.is_accepted_unconfirmed(group, hook, instance, at)
        };
        let is_named_by = |page: &&Page| {
            page.at <= at && page.recorded.iter().any(|recorded| recorded.is_of(action))
        };
        let drained: Vec<&str> = self
            .story
            .pages_of(&action.instance)
            .filter(is_named_by)
            .map(|page| page.node.as_str())
            .collect();
        // Of several Nodes that are drained for one action, the first one completes it.
        let are_several = drained.iter().any(|other| *other != node) && drained.contains(&node);
        let is_another = are_several
            || (!drained.contains(&node) && (self.is_passed_over(node, at) || is_left_alone()));
        drained.into_iter().filter(|_| is_another).map(str::to_owned).collect()
    }

    fn was_drained(&self, node: &str, at: Moment) -> bool {
        !self.accepts(node).is_empty() || self.has_made_up_record(node, at)
    }

    /// No interruption in the record of the Node was of a kind that is drained: just before the
    /// Event, or just before it may have begun to wait for its call. An instance that ends with the
    /// completion of its hook has a new record meanwhile.
    fn was_drained_without_evictions(&self, node: &str, at: Moment) -> bool {
        self.drain_keeps_pods(node, self.waits_since(at) - SECOND, at + SECOND)
    }

    fn had_pods(&self, node: &str, at: Moment) -> bool {
        self.story.pods.values().any(|life| life.pod.node == node && life.bound <= at + SECOND)
    }

    /// The process that leads could not list the pods of the Node from the last accept before the
    /// Event, or from when it began to lead, until the drain ended.
    fn pods_were_unknown(&self, node: &str, at: Moment) -> bool {
        let accepts = self.accepts(node).into_iter();
        let Some(accepted) = accepts.filter(|accepted| *accepted <= at + SECOND).max() else {
            return false;
        };
        let leader = self.leaders.at(at + SECOND).and_then(|holder| holder.process);
        let leads = leader.and_then(|process| self.leaders.leads_since(process, at + SECOND));
        let since = leads.map_or(accepted, |leads| leads.max(accepted));
        let pages = self.story.pages_between(node, since, at + SECOND).map(|(page, _)| page);
        let mut released = pages.filter(|page| page.record.is_some() && !is_open(page));
        let released = released.find(|page| page.at >= since).map_or(at, |page| page.at);
        let end = released.min(at).max(since);
        let scope = Scope { needs: &[LIST_PODS], of: None, process: leader, without_leader: None };
        self.longest_clear(scope, since, end) <= SECOND
    }

    /// A person wrote a hook into its record that never was: no action of it is open, and the Node
    /// may never have been cordoned.
    fn has_made_up_record(&self, node: &str, at: Moment) -> bool {
        self.story.hand(node, "record made up", at + SECOND)
    }

    /// A person made its record up, so it may not be cordoned: pods of one owner came from other
    /// nodes, and none had to be evicted before.
    fn was_flooded(&self, event: &Event, at: Moment) -> bool {
        let of_it = || {
            self.story
                .pods
                .values()
                .filter(|life| life.pod.node == event.name && life.bound <= at + SECOND)
        };
        self.has_made_up_record(&event.name, at)
            && of_it().any(|life| self.story.came_back(life, at + SECOND))
    }

    fn actions_of<'s>(&'s self, node: &'s str) -> impl Iterator<Item = &'s ActionReport> + 's {
        // Another Node may claim the instance.
        let names =
            move |instance: &str| self.story.pages_of(instance).any(|page| page.node == node);
        let is_of = move |a: &&ActionReport| {
            self.evidence.nodes.get(&a.instance).is_some_and(|n| n == node) || names(&a.instance)
        };
        self.evidence.actions.iter().filter(is_of)
    }

    /// A record of this Node's instance, or of the one that it claims, named an action that AWS
    /// never had: somebody made its event up.
    fn has_record_of_no_action(&self, node: &str, at: Moment) -> bool {
        let Some(instance) = self.instance_or_claimed(node, at + SECOND) else { return false };
        let recorded = self.story.recorded(instance, at + SECOND);
        recorded.iter().any(|recorded| {
            recorded.hook.is_some() && !self.evidence.actions.iter().any(|a| recorded.is_of(a))
        })
    }

    /// The Node had a record with a lifecycle action. None of its actions was open in the last 15 s,
    /// and its instance did not end.
    fn is_contradicted(&self, node: &str, at: Moment) -> bool {
        const LOOKED_TWICE: Duration = Duration::from_secs(14);
        // The Event may come late, and be about the time before an action began.
        let scope = Scope { needs: &[EVENTS], of: None, process: None, without_leader: None };
        let is_late = |began: Moment| {
            self.is_excused(scope, began, began) && self.longest_clear(scope, began, at) <= LATE
        };
        let is_open = |a: &ActionReport| {
            a.started + SECOND < at
                && a.end.as_ref().is_none_or(|end| end.at + LOOKED_TWICE > at)
                && !is_late(a.started)
        };
        let ends =
            self.instance_of(node).is_some_and(|i| self.story.is_ending(i, at - LOOKED_TWICE));
        let has_action = |r: &str| r.contains("terminate-hook") || r.contains("root-volume");
        self.has_record_that(node, at, has_action) && !ends && !self.actions_of(node).any(is_open)
    }

    /// How many terminate hooks the group of this Node's instance has.
    fn hooks_of(&self, node: &str, at: Moment) -> usize {
        let instance = self.instance_or_claimed(node, at);
        let group = instance.and_then(|instance| self.evidence.groups.get(instance));
        let of_plan = self.evidence.terms.heartbeat_timeouts.keys();
        let of_plan = of_plan.filter(|(of, _)| Some(of) == group).map(|(_, hook)| hook.as_str());
        // A scenario may add hooks.
        let of_actions = self.evidence.actions.iter().filter(|a| Some(&a.group) == group);
        of_plan.chain(of_actions.map(|a| a.hook.as_str())).collect::<BTreeSet<_>>().len()
    }

    fn met_a_fault(&self, api: &str, at: Moment) -> bool {
        self.evidence.disturbances.iter().any(|d| d.what == api && d.at <= at + SECOND)
    }

    fn has_record_that(&self, node: &str, at: Moment, holds: impl Fn(&str) -> bool) -> bool {
        let of_it = self
            .writes
            .iter()
            .filter(|w| w.at <= at + SECOND)
            .filter_map(|w| w.new)
            .filter(|n| n.name == node);
        of_it.filter_map(|n| n.annotations.get(RECORD)).any(|text| holds(text))
    }

    /// The Node is of another boot or instance than an earlier one of its name.
    fn is_another_machine(&self, node: &str, at: Moment) -> bool {
        let of_it = self
            .writes
            .iter()
            .filter(|w| w.at <= at + SECOND)
            .filter_map(|w| w.new)
            .filter(|n| n.name == node);
        of_it.map(|n| (&n.provider_id, &n.boot_id)).collect::<BTreeSet<_>>().len() > 1
    }

    fn was_changed_by_others(&self, node: &str, at: Moment) -> bool {
        let of_others = self
            .writes
            .iter()
            .filter(|w| !is_us(w.by) && w.at <= at + SECOND)
            .filter_map(|w| w.both());
        of_others
            .filter(|(_, new)| new.name == node)
            .any(|(old, new)| old.labels != new.labels || old.annotations != new.annotations)
    }

    /// Somebody else changed or took away its record.
    fn lost_its_record(&self, node: &str, at: Moment) -> bool {
        let of_others = self.writes.iter().filter(|w| !is_us(w.by) && w.at <= at + SECOND);
        let changed = |w: &&super::nodes::Write<'_>| {
            let text = |n: Option<&sundown::sim::kube::NodeState>| {
                n.filter(|n| n.name == node).and_then(|n| n.annotations.get(RECORD).cloned())
            };
            text(w.old).is_some() && text(w.old) != text(w.new)
        };
        of_others.filter(changed).count() > 0
    }
}
