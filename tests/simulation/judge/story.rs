//! What happened, put in order: the life of every pod, and what was written on every Node when.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use jiff::SignedDuration;
use serde_json::Value;
use sundown::domain::Moment;
use sundown::sim::{
    aws::{ActionReport, Outcome, State},
    kube::{Entry, Fact, PodRef},
};

pub use super::written::RecordedInterruption;
use super::{
    Evidence,
    budgets::workload,
    clocks::sent_at,
    gates::is_gate,
    leaders::Leaders,
    requests, scheduled,
    sent::{self, Notice, setting},
    sick, swept,
    windows::last_of_each,
    written::{Header, Reader, Seen, Writing},
};

/// A pod's life.
pub struct Life {
    pub pod: PodRef,
    pub bound: Moment,
    pub finished: Option<Moment>,
    pub gone: Option<Moment>,
}

/// What is written on a Node from then on.
pub struct Page {
    pub at: Moment,
    pub node: String,
    /// Who wrote it.
    pub by: String,
    pub instance: String,
    pub record: Option<Value>,
    /// The interruptions in the record.
    pub recorded: Vec<Rc<RecordedInterruption>>,
    pub to_be_released: bool,
    pub paused: bool,
    /// The settings in the annotations of the Node, without their prefix.
    pub settings: BTreeMap<String, String>,
    /// The values of the annotations that ask for a drain, by who asks.
    pub requests: BTreeMap<String, String>,
    /// The annotations that hold a drain or its release.
    pub gates: BTreeSet<String>,
}

/// A time before which nothing may be forced, and one before which nothing may be given up.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// Pods are to be gone by then: the end, less its margin.
    pub at: Moment,
    /// The drain may be given up then.
    pub end: Moment,
    pub accepted: Moment,
}

/// How long before its end a drain may be given up: a completion that is sent then still counts.
const ONE_CALL: Duration = Duration::from_secs(2);

impl Deadline {
    /// Of what ends then and has been known since `start`: a margin is never more than half of the
    /// time there is.
    pub fn of(start: Moment, end: Moment, margin: Duration, accepted: Moment) -> Self {
        let half = Duration::try_from(end.duration_since(start)).unwrap_or_default() / 2;
        let at = end - margin.min(half);
        Self { at, end: (end - ONE_CALL).max(at), accepted }
    }
}

pub struct Story<'a> {
    pub evidence: &'a Evidence,
    pub leaders: Leaders<'a>,
    pub pods: BTreeMap<String, Life>,
    /// Every event that was sent.
    pub notices: Vec<Notice>,
    /// What Sundown wrote into records.
    pub seen: Vec<Seen>,
    pub written_pages: Vec<Header>,
    /// The interruptions of each instance, from when on they were written down.
    recorded: BTreeMap<String, Vec<(Moment, Rc<RecordedInterruption>)>>,
    pages: BTreeMap<String, Vec<Page>>,
    gone: BTreeMap<String, Vec<Moment>>,
    added: BTreeMap<String, Vec<Moment>>,
    /// From when on a Node is cordoned, or is not.
    cordons: BTreeMap<String, Vec<(Moment, bool)>>,
    machines_gone: BTreeMap<String, Moment>,
}

impl<'a> Story<'a> {
    pub fn of(evidence: &'a Evidence) -> Self {
        let mut story = Self {
            evidence,
            leaders: Leaders::of(evidence),
            pods: BTreeMap::new(),
            notices: Vec::new(),
            seen: Vec::new(),
            written_pages: Vec::new(),
            recorded: BTreeMap::new(),
            pages: BTreeMap::new(),
            gone: BTreeMap::new(),
            added: BTreeMap::new(),
            cordons: BTreeMap::new(),
            machines_gone: BTreeMap::new(),
        };
        let mut notices = sent::notices(&evidence.messages, &evidence.blocks);
        notices.extend(swept::notices(evidence, &notices));
        notices.extend(scheduled::notices(evidence));
        notices.extend(sick::notices(evidence, &notices));
        notices.extend(requests::notices(evidence, &notices));
        notices.sort_by_key(|notice| notice.sent);
        let mut reader = Reader::new(&notices, &evidence.requests, evidence.aws_ahead);
        for Entry { at, by, fact } in &evidence.entries {
            story.add(*at, by, fact, &mut reader);
        }
        story.seen = reader.seen;
        story.written_pages = reader.headers;
        story.notices = notices;
        story
    }

    fn add(&mut self, at: Moment, by: &str, fact: &Fact, reader: &mut Reader<'_>) {
        match fact {
            Fact::Bound(pod) => {
                self.pods.entry(pod.uid.clone()).or_insert(Life {
                    pod: pod.clone(),
                    bound: at,
                    finished: None,
                    gone: None,
                });
            }
            Fact::PodFinished(pod) => {
                if let Some(life) = self.pods.get_mut(&pod.uid) {
                    life.finished = Some(at);
                }
            }
            Fact::PodGone(pod) => {
                if let Some(life) = self.pods.get_mut(&pod.uid) {
                    life.gone = Some(at);
                }
            }
            Fact::Annotated { node, provider_id, annotations } => {
                let record: Option<Value> = annotations
                    .get("sundown.dev/record")
                    .and_then(|text| serde_json::from_str(text).ok());
                let is_true = |key: &str| annotations.get(key).is_some_and(|v| v == "true");
                let (to_be_released, paused) =
                    (is_true("sundown.dev/release"), is_true("sundown.dev/pause"));
                let mut instance = provider_id.rsplit('/').next().unwrap_or_default();
                // A Node without a providerID is known by its name. Only which of several instances
                // that had this name its record may tell.
                if instance.is_empty() {
                    let names = record.as_ref().and_then(|r| r["instance"].as_str());
                    let of_it = || {
                        self.evidence
                            .nodes
                            .iter()
                            .filter(|(_, name)| *name == node)
                            .map(|(id, _)| id.as_str())
                    };
                    instance = of_it()
                        .find(|id| Some(*id) == names)
                        .or_else(|| of_it().next())
                        .unwrap_or_default();
                }
                let instance = instance.to_owned();
                let recorded = reader.read(&Writing {
                    at,
                    by,
                    node,
                    instance: &instance,
                    record: record.as_ref(),
                });
                self.remember(&instance, at, &recorded);
                self.pages.entry(node.clone()).or_default().push(Page {
                    at,
                    node: node.clone(),
                    by: by.to_owned(),
                    instance,
                    record,
                    recorded,
                    to_be_released,
                    paused,
                    requests: requests::of(annotations),
                    gates: annotations.keys().filter(|key| is_gate(key)).cloned().collect(),
                    settings: annotations
                        .iter()
                        .filter_map(|(key, value)| {
                            Some((key.strip_prefix("sundown.dev/")?.to_owned(), value.clone()))
                        })
                        .collect(),
                });
            }
            Fact::NodeGone(node) => self.gone.entry(node.clone()).or_default().push(at),
            Fact::NodeAdded(node) => {
                self.added.entry(node.clone()).or_default().push(at);
                self.cordons.entry(node.clone()).or_default().push((at, false));
            }
            Fact::Cordoned(node) => self.cordons.entry(node.clone()).or_default().push((at, true)),
            Fact::Uncordoned(node) => {
                self.cordons.entry(node.clone()).or_default().push((at, false));
            }
            Fact::MachineGone(node) => drop(self.machines_gone.entry(node.clone()).or_insert(at)),
            _ => {}
        }
    }

    fn remember(&mut self, instance: &str, at: Moment, recorded: &[Rc<RecordedInterruption>]) {
        let all = self.recorded.entry(instance.to_owned()).or_default();
        for one in recorded {
            if !all.iter().any(|(_, other)| is_same(other, one)) {
                all.push((at, one.clone()));
            }
        }
    }

    /// What is written on a Node at a time, that moment included.
    pub fn page(&self, node: &str, at: Moment) -> Option<&Page> {
        self.pages.get(node)?.iter().rev().find(|p| p.at <= at)
    }

    /// What was written on the Nodes of an instance, one Node after the other.
    pub fn pages_of(&self, instance: &str) -> impl Iterator<Item = &Page> {
        self.pages.values().flatten().filter(move |page| page.instance == instance)
    }

    /// When a Node of this instance was there for the first time.
    pub fn registered(&self, instance: &str) -> Option<Moment> {
        self.pages_of(instance).map(|page| page.at).min()
    }

    /// Whether the record was open at that moment, or so shortly before that it could not be known
    /// better.
    pub fn was_open(&self, node: &str, at: Moment) -> bool {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        pages.iter().enumerate().any(|(i, page)| {
            let known_until = pages.get(i + 1).map(|next| next.at + Duration::from_secs(2));
            page.at <= at && known_until.is_none_or(|u| u >= at) && is_open(page)
        })
    }

    /// What was written on a Node at any time between these two moments, and until when.
    pub fn pages_between(
        &self,
        node: &str,
        from: Moment,
        to: Moment,
    ) -> impl Iterator<Item = (&Page, Moment)> {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        let until = move |i: usize| pages.get(i + 1).map_or(self.evidence.ended, |next| next.at);
        pages
            .iter()
            .enumerate()
            .map(move |(i, page)| (page, until(i)))
            .filter(move |(page, until)| page.at <= to && *until >= from)
    }

    /// Whether a Node was cordoned at any time between these two moments.
    pub fn cordoned_between(&self, node: &str, from: Moment, to: Moment) -> bool {
        let all = self.cordons.get(node).map(Vec::as_slice).unwrap_or_default();
        all.iter().enumerate().any(|(i, (at, is))| {
            *is && *at <= to && all.get(i + 1).is_none_or(|(next, _)| *next >= from)
        })
    }

    /// All interruptions that records of this instance held until then.
    pub fn recorded(&self, instance: &str, until: Moment) -> Vec<Rc<RecordedInterruption>> {
        let all = self.recorded.get(instance).into_iter().flatten();
        all.filter(|(since, _)| *since <= until).map(|(_, recorded)| recorded.clone()).collect()
    }

    /// Whether this entry of a record names a lifecycle action that never began: a person wrote it
    /// into the record, or made up its event.
    pub(super) fn names_no_action(&self, recorded: &RecordedInterruption) -> bool {
        let exists = |token: &String| self.evidence.actions.iter().any(|a| a.token == *token);
        recorded.is_made_up || recorded.token.as_ref().is_some_and(|token| !exists(token))
    }

    /// When a record of this instance first held this event.
    pub fn first_told(
        &self,
        instance: &str,
        event: &str,
        hook: Option<&(String, String)>,
    ) -> Option<Moment> {
        let all = self.recorded.get(instance).into_iter().flatten();
        all.filter(|(_, recorded)| recorded.event == event && recorded.hook.as_ref() == hook)
            .map(|(since, _)| *since)
            .min()
    }

    /// What the last record of this instance holds, on each Node that it has had; and what the one
    /// before held, if that was just now.
    pub(super) fn told_last(&self, instance: &str, now: Moment) -> Vec<Rc<RecordedInterruption>> {
        const KNOWN: Duration = Duration::from_secs(2);
        let mut all: Vec<Rc<RecordedInterruption>> = Vec::new();
        for pages in self.pages.values() {
            let of_it: Vec<&Page> = pages
                .iter()
                .filter(|p| p.instance == instance && p.at <= now && p.record.is_some())
                .collect();
            let until = |i: usize| of_it.get(i + 1).map_or(now, |next| next.at + KNOWN);
            let known = of_it
                .iter()
                .enumerate()
                .filter(|(i, _)| until(*i) >= now)
                .flat_map(|(_, page)| &page.recorded);
            for recorded in known {
                if !all.iter().any(|other| Rc::ptr_eq(other, recorded)) {
                    all.push(Rc::clone(recorded));
                }
            }
        }
        all
    }

    /// On a Node that this instance has had, the last record of the instance holds this
    /// interruption.
    pub(super) fn is_still_told(
        &self,
        instance: &str,
        one: &RecordedInterruption,
        now: Moment,
    ) -> bool {
        let is_it =
            |page: &&Page| page.instance == instance && page.at <= now && page.record.is_some();
        let mut last = self.pages.values().filter_map(|pages| pages.iter().rev().find(is_it));
        last.any(|page| page.recorded.iter().any(|other| is_same(other, one)))
    }

    /// How long the drain of an interruption may take: what the Node says, else its hook, else the
    /// flag.
    pub fn drain_timeout(
        &self,
        instance: &str,
        of: &RecordedInterruption,
        now: Moment,
    ) -> Duration {
        let terms = &self.evidence.terms;
        let flag = Duration::from_secs(terms.drain_timeout);
        // What the flags do not allow does not count. Without a flag, everything is allowed.
        let default = terms.longest("--drain-timeout", Duration::MAX);
        let most = terms.longest("--max-drain-timeout", default);
        let least = Duration::from_secs(30);
        let node = self.evidence.nodes.get(instance);
        let page = node.and_then(|node| self.page(node, now));
        let of_node = page.and_then(|page| setting(&page.settings, "drain-timeout"));
        // An event alone shortens nothing.
        let of_hook = setting(&of.settings, "drain-timeout")
            .filter(|own| *own >= flag || !self.is_unconfirmed(instance, of, now));
        let mut own = of_node.into_iter().chain(of_hook);
        own.find(|own| least <= *own && *own <= most).unwrap_or(flag)
    }

    /// This entry of a record names a lifecycle action that never began, and AWS has accepted no
    /// heartbeat for its hook since its event.
    fn is_unconfirmed(&self, instance: &str, of: &RecordedInterruption, now: Moment) -> bool {
        let Some((group, hook)) = &of.hook else { return false };
        let object = format!("{group}/{hook}/{instance}");
        let since = of.time.min(of.accepted);
        let is_accepted = self.evidence.calls.iter().any(|c| {
            c.api == "autoscaling:RecordLifecycleActionHeartbeat"
                && c.object == object
                && c.outcome == Outcome::Ok
                && (since..=now).contains(&c.at)
        });
        self.names_no_action(of) && !is_accepted
    }

    /// When pods of an instance's node may be forced at the earliest, and its drain given up, as
    /// seen at `now`: one for each thing that may rule.
    pub fn deadlines(&self, instance: &str, now: Moment) -> Vec<Deadline> {
        self.deadlines_of(instance, &self.told_last(instance, now), now)
    }

    /// The same of these interruptions of the instance alone.
    pub fn deadlines_of(
        &self,
        instance: &str,
        recorded: &[Rc<RecordedInterruption>],
        now: Moment,
    ) -> Vec<Deadline> {
        let terms = &self.evidence.terms;
        let margin = terms.margin("");
        let mut all = Vec::new();
        let may_force = terms.is_set("--requests-may-force");
        for one in recorded {
            if one.kind == requests::NAME && (!may_force || one.ends.is_none()) {
                // It forces nothing.
                continue;
            }
            let drain_timeout = self.drain_timeout(instance, one, now);
            // A clock that is ahead lends no time.
            let (time, accepted) = (one.time.min(one.accepted), one.accepted);
            let patience = Deadline::of(accepted, accepted + drain_timeout, margin, accepted);
            let notice = time + Duration::from_secs(120);
            let end = match one.kind.as_str() {
                "spot" | "spot-stop" | "spot-hibernate" => Some(notice),
                "capacity-reservation" => Some(one.ends.unwrap_or(notice)),
                "capacity-block" => Some(one.ends.map_or_else(
                    || time + Duration::from_secs(600),
                    |end| end - Duration::from_secs(1800),
                )),
                "state-change" => Some(time + Duration::from_secs(30)),
                "scheduled-change" | requests::NAME => one.ends,
                _ => None,
            };
            let own = end.map(|end| Deadline::of(time, end, terms.margin(&one.kind), accepted));
            // One that was over at its accept rules nothing, and neither does one that waits for
            // its proof.
            let rules = own.filter(|own| {
                own.at + super::SLACK > accepted && (!one.is_stale || self.is_ending(instance, now))
            });
            all.push(rules.unwrap_or(patience));
        }
        let first = recorded.iter().map(|t| t.accepted).min().unwrap_or(now);
        // The end of a pause is a take-up: a hook whose deadline was over by then is given its time
        // from there.
        let node =
            self.evidence.nodes.get(instance).filter(|_| recorded.iter().any(|t| t.hook.is_some()));
        let resumed = node
            .into_iter()
            .flat_map(|node| self.pauses(node))
            .map(|(_, to)| to)
            .filter(|to| *to > first && *to <= now);
        let resumed: Vec<Moment> = resumed.collect();
        for one in recorded.iter().filter(|one| one.hook.is_some()) {
            let timeout = self.drain_timeout(instance, one, now);
            all.extend(resumed.iter().map(|to| Deadline::of(*to, *to + timeout, margin, first)));
        }
        let names = |group: &str, hook: &str| {
            let of_it = recorded
                .iter()
                .filter(|one| one.hook.as_ref().is_some_and(|(g, h)| g == group && h == hook));
            of_it.map(|one| &one.token).collect::<BTreeSet<_>>().len()
        };
        let made_up = recorded.iter().filter_map(|one| Some((one, one.hook.as_ref()?))).flat_map(
            |(one, (group, hook))| self.made_up_windows(one, names(group, hook), instance, now),
        );
        all.extend(made_up.map(|(from, to)| Deadline::of(from, to, margin, first)));
        for action in self
            .evidence
            .actions
            .iter()
            .filter(|a| a.instance == instance && recorded.iter().any(|t| t.is_of(a)))
        {
            all.push(Deadline::of(
                action.started,
                action.global_end - Duration::from_secs(60),
                margin,
                first,
            ));
            // The last window that any process knew to be granted, once two thirds of it are over.
            // An answer that comes at this very moment may come too late, or just in time.
            let reported: Vec<(Moment, Moment)> = self.reported_heartbeats(action).collect();
            let of_last = |is_known: &dyn Fn(Moment, Moment) -> bool| {
                let known = reported.iter().filter(|(sent, answered)| is_known(*sent, *answered));
                let sent = known.map(|(sent, _)| *sent);
                let last = last_of_each(sent, names(&action.group, &action.hook));
                if last.is_empty() { vec![to_the_second(action.started)] } else { last }
            };
            let mut last = of_last(&|sent, _| sent <= now);
            last.extend(of_last(&|_, answered| answered < now));
            last.sort_unstable();
            last.dedup();
            let window =
                |from: Moment| Deadline::of(from, from + action.heartbeat_timeout, margin, first);
            last.retain(|from| is_lapsing(*from, action.heartbeat_timeout, now));
            all.extend(last.into_iter().map(window));
            all.extend(self.assumed_windows(action, now).into_iter().map(window));
        }
        all
    }

    /// The deadlines of hooks that were over when a process, which has led since `since`, took the
    /// drain over. Each with the one that counts from there instead, as does the part of it in
    /// which nobody is forced. One that it accepted itself it has not taken over.
    pub fn counted_anew(
        &self,
        instance: &str,
        since: Moment,
        take_over: Moment,
    ) -> Vec<(Deadline, Deadline)> {
        let terms = &self.evidence.terms;
        let margin = terms.margin("");
        let recorded = self.told_last(instance, take_over);
        let hooks = recorded
            .iter()
            .filter(|one| one.hook.is_some() && one.accepted < since)
            .map(|one| (one.accepted, self.drain_timeout(instance, one, take_over)));
        hooks
            .map(|(accepted, timeout)| {
                let from = |start: Moment| Deadline::of(start, start + timeout, margin, start);
                (from(accepted), from(take_over))
            })
            .filter(|(old, _)| old.at <= take_over + super::SLACK)
            .collect()
    }

    /// The heartbeats of an action whose acceptance was heard of: when each was sent, and when its
    /// answer came. AWS has granted a window from the first of these on at the earliest.
    fn reported_heartbeats(&self, action: &ActionReport) -> impl Iterator<Item = (Moment, Moment)> {
        let object = format!("{}/{}/{}", action.group, action.hook, action.instance);
        let heartbeats = self.evidence.calls.iter().filter(|c| {
            c.api == "autoscaling:RecordLifecycleActionHeartbeat" && c.outcome == Outcome::Ok
        });
        let (from, to) =
            (action.started, action.end.as_ref().map_or(self.evidence.ended, |e| e.at));
        heartbeats
            .filter(move |c| c.object == object && c.at >= from && c.at <= to)
            .map(|c| (sent_at(self.evidence, c), c.at))
    }

    /// Pods that count and are on the node at that moment.
    pub fn left(&self, node: &str, at: Moment) -> Vec<&Life> {
        self.there(node, at).into_iter().filter(|l| !self.came_back(l, at)).collect()
    }

    /// The same with those that came back again and again.
    pub fn there(&self, node: &str, at: Moment) -> Vec<&Life> {
        // What was bound just now nobody could have seen.
        let seen = at - Duration::from_secs(2);
        let there = |l: &&Life| {
            l.pod.node == node
                && l.bound <= seen
                && l.gone.is_none_or(|g| g > at)
                && l.finished.is_none_or(|f| f > at)
        };
        self.pods.values().filter(there).filter(|l| counts(&l.pod)).collect()
    }

    /// It is one of more than three pods of its owner that have come to its node since the accept
    /// of what the node is drained for: a drain may leave these alone.
    pub fn came_back(&self, life: &Life, at: Moment) -> bool {
        self.came_back_after(life, at, SignedDuration::ZERO)
    }

    /// The same for a process by whose clock the accept was later by this.
    pub fn came_back_after(&self, life: &Life, at: Moment, later: SignedDuration) -> bool {
        let page = self.page(&life.pod.node, life.bound).filter(|page| is_open(page));
        let terms = &self.evidence.terms;
        let drains = |one: &&Rc<RecordedInterruption>| {
            one.is_made_up || terms.response(&one.kind) == super::Response::Drain
        };
        let since =
            page.and_then(|page| page.recorded.iter().filter(drains).map(|one| one.accepted).min());
        let Some(since) = since.map(|since| since + later) else { return false };
        let owner = |pod: &PodRef| {
            (pod.namespace.clone(), workload(&pod.name).to_owned(), pod.node.clone())
        };
        let (own, new) = (owner(&life.pod), |l: &&Life| l.bound > since && l.bound <= at);
        // What the controller of a drained DaemonSet puts back is left alone at once.
        if new(&life) && terms.traits_of(&life.pod).is_drained_daemon {
            return true;
        }
        new(&life) && self.pods.values().filter(new).filter(|l| owner(&l.pod) == own).count() > 3
    }

    /// From when to when a node was paused: by itself, or with everything.
    pub fn pauses(&self, node: &str) -> Vec<(Moment, Moment)> {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        let end = |i: usize| pages.get(i + 1).map_or(self.evidence.ended, |next| next.at);
        // Neighbouring pages with the annotation are one pause.
        let mut all: Vec<(Moment, Moment)> = Vec::new();
        for (from, to) in
            pages.iter().enumerate().filter(|(_, p)| p.paused).map(|(i, p)| (p.at, end(i)))
        {
            match all.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => all.push((from, to)),
            }
        }
        all.extend(&self.evidence.pauses);
        all
    }

    /// When the record of an instance was released, if it was.
    pub fn released(&self, node: &str, instance: &str, from: Moment) -> Option<Moment> {
        let pages = self.pages.get(node)?.iter().filter(|p| p.at >= from && p.instance == instance);
        pages
            .filter(|p| p.record.as_ref().is_some_and(|r| !r["released"].is_null()))
            .map(|p| p.at)
            .next()
    }

    pub fn node_gone(&self, node: &str, at: Moment) -> bool {
        self.gone.get(node).is_some_and(|times| times.iter().any(|t| *t <= at))
    }

    /// When a Node went before that moment, if it did, and when it registered again, if it did.
    pub fn went(&self, node: &str, at: Moment) -> Option<(Moment, Option<Moment>)> {
        let went = *self.gone.get(node)?.iter().rev().find(|t| **t <= at)?;
        Some((
            went,
            self.added.get(node).into_iter().flatten().copied().find(|t| *t >= went && *t <= at),
        ))
    }

    /// A Node of this name registered after the first of these moments, and by the second.
    pub fn registered_between(&self, node: &str, after: Moment, until: Moment) -> bool {
        let mut all = self.added.get(node).into_iter().flatten();
        all.any(|at| *at > after && *at <= until)
    }

    /// When the Node of an instance went, or became another one's, from that moment on.
    pub fn left_at(&self, node: &str, instance: &str, from: Moment) -> Option<Moment> {
        let gone = self.gone.get(node).into_iter().flatten().copied();
        let of_others = self
            .pages
            .get(node)
            .into_iter()
            .flatten()
            .filter(|page| page.instance != instance)
            .map(|page| page.at);
        gone.chain(of_others).filter(|at| *at >= from).min()
    }

    /// The same of a kubelet that is silent: since when, and when it spoke again, if it did.
    pub fn fell_silent(&self, node: &str, at: Moment) -> Option<(Moment, Option<Moment>)> {
        let of_it = self.evidence.hands.iter().filter(|(t, n, _)| *t <= at && n == node);
        of_it.fold(None, |silence, (t, _, what)| match (*what, silence) {
            ("lost", None | Some((_, Some(_)))) => Some((*t, None)),
            ("back", Some((lost, None))) => Some((lost, Some(*t))),
            // One that is lost already goes on being silent.
            _ => silence,
        })
    }

    /// An instance's last change of state was towards its end.
    pub fn is_ending(&self, instance: &str, at: Moment) -> bool {
        let last = self
            .evidence
            .changes
            .iter()
            .filter(|c| c.id == instance && c.at <= at)
            .max_by_key(|c| c.at);
        last.is_some_and(|c| {
            matches!(
                c.state,
                State::Stopping | State::ShuttingDown | State::Stopped | State::Terminated
            )
        })
    }

    /// The instance is gone: EC2 knows neither its name nor its addresses any more.
    pub fn is_terminated(&self, instance: &str, at: Moment) -> bool {
        self.evidence
            .changes
            .iter()
            .any(|c| c.id == instance && c.at <= at && c.state == State::Terminated)
    }

    /// When the Node's object went, or somebody took its open record away.
    pub fn records_lost(&self, node: &str, until: Moment) -> Vec<Moment> {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        let taken_away =
            pages.windows(2).filter(|w| is_open(&w[0]) && w[1].record.is_none()).map(|w| w[1].at);
        self.gone
            .get(node)
            .into_iter()
            .flatten()
            .copied()
            .chain(taken_away)
            .filter(|t| *t <= until)
            .collect()
    }

    /// The processes that could see what was lost then, and lived on. To see it, a process must
    /// have listed the Nodes before.
    pub fn witnesses(&self, lost: Moment, until: Moment) -> BTreeSet<&str> {
        self.knew_nodes(lost, until)
            .into_iter()
            .filter(|process| !self.is_blind(process, lost))
            .collect()
    }

    /// The processes that had listed the Nodes before that moment, and lived on.
    pub fn knew_nodes(&self, before: Moment, until: Moment) -> BTreeSet<&str> {
        let lives = self.evidence.lives.iter().enumerate();
        // A process is named by its replica and by how many have started before it.
        let on: Vec<String> = lives
            .filter(|(_, (.., end))| end.is_none_or(|e| e >= until))
            .map(|(i, (replica, ..))| format!("sundown-{replica}-{}", i + 1))
            .collect();
        let lists =
            self.evidence.requests.iter().filter(|r| {
                (r.verb.as_str(), r.resource.as_str(), r.status) == ("list", "nodes", 200)
            });
        let in_time = lists.filter(|r| {
            !r.is_disturbed
                && on.contains(&r.client)
                && r.answered.is_some_and(|answered| answered < before)
        });
        in_time.map(|r| r.client.as_str()).collect()
    }

    /// The watch of Nodes of this process had gone silent before, and the process had not opened or
    /// listed them anew since.
    fn is_blind(&self, process: &str, at: Moment) -> bool {
        let silent =
            self.evidence.disturbances.iter().filter(|d| {
                d.is_silent && d.what == "watch nodes" && d.by == process && d.at <= at
            });
        let Some(since) = silent.map(|d| d.at).max() else { return false };
        let reads = |verb: &str| ["watch", "list"].contains(&verb);
        let mut anew = self.evidence.requests.iter().filter(|r| {
            r.client == process && r.resource == "nodes" && reads(&r.verb) && r.status == 200
        });
        !anew.any(|r| r.at >= since && r.answered.is_some_and(|answered| answered <= at))
    }

    pub fn machine_gone(&self, node: &str, at: Moment) -> bool {
        self.machine_gone_at(node).is_some_and(|t| t <= at)
    }

    /// When the machine of a Node was gone. `None`: it runs.
    pub fn machine_gone_at(&self, node: &str) -> Option<Moment> {
        self.machines_gone.get(node).copied()
    }

    /// When somebody deleted the open record of a node that has none at that moment.
    pub fn record_deleted(&self, node: &str, at: Moment) -> Option<Moment> {
        let (mut was_open, mut deleted) = (false, None);
        for entry in self.evidence.entries.iter().filter(|e| e.at <= at) {
            let Fact::Annotated { node: of, annotations, .. } = &entry.fact else { continue };
            if of != node {
                continue;
            }
            let record = annotations
                .get("sundown.dev/record")
                .and_then(|text| serde_json::from_str::<Value>(text).ok());
            if record.is_some() {
                deleted = None;
            } else if was_open {
                deleted = Some(entry.at).filter(|_| !super::is_us(&entry.by));
            }
            was_open = record.is_some_and(|r| r["released"].is_null());
        }
        deleted
    }

    /// Somebody deleted the open record of a node twice before that, which ends its drain: the
    /// first time may be a mistake. Sundown itself takes the record of another machine away.
    pub fn record_deleted_twice(&self, node: &str, at: Moment) -> bool {
        let (mut was_open, mut deletions) = (false, 0);
        for entry in self.evidence.entries.iter().filter(|e| e.at <= at) {
            let Fact::Annotated { node: of, annotations, .. } = &entry.fact else { continue };
            if of != node {
                continue;
            }
            let record = annotations
                .get("sundown.dev/record")
                .and_then(|text| serde_json::from_str::<Value>(text).ok());
            deletions += usize::from(was_open && record.is_none() && !super::is_us(&entry.by));
            was_open = record.is_some_and(|r| r["released"].is_null());
        }
        deletions > 1
    }

    /// Somebody asked before that for the release of the drain that went on then: not before its
    /// accept, which takes an older order away. A record that a person makes up takes none away.
    pub fn released_by_hand(&self, node: &str, at: Moment) -> bool {
        let pages = self.pages.get(node).map(Vec::as_slice).unwrap_or_default();
        // A released drain may have made room for another one at the same moment.
        let until = |i: usize| pages.get(i + 1).map_or(at, |next| next.at);
        let current = pages
            .iter()
            .enumerate()
            .filter(|(i, page)| page.at <= at && until(*i) >= at)
            .map(|(_, page)| page);
        let accepted = current.flat_map(|page| page.recorded.iter().map(|t| t.accepted)).min();
        pages.windows(2).any(|w| {
            let asked = !w[0].to_be_released && is_open(&w[0]);
            let made_up = !is_open(&w[0]) && is_open(&w[1]) && !super::is_us(&w[1].by);
            w[1].to_be_released
                && (asked || made_up)
                && w[1].at <= at
                && accepted.is_none_or(|accepted| w[1].at >= accepted)
        })
    }

    pub fn hand(&self, node: &str, what: &str, at: Moment) -> bool {
        self.evidence.hands.iter().any(|(t, n, w)| *t <= at && n == node && *w == what)
    }
}

/// Both are the same interruption, accepted once.
fn is_same(one: &RecordedInterruption, other: &RecordedInterruption) -> bool {
    (&one.event, &one.hook, one.accepted) == (&other.event, &other.hook, other.accepted)
}

/// Two thirds of a window that began then are over, as exactly as AWS's clock can be measured.
pub(super) fn is_lapsing(from: Moment, timeout: Duration, now: Moment) -> bool {
    now + super::SLACK >= from + timeout * 2 / 3
}

/// Events have their time in whole seconds.
fn to_the_second(at: Moment) -> Moment {
    Moment::from_second(at.as_second()).unwrap_or(at)
}

pub fn is_open(page: &Page) -> bool {
    page.record.as_ref().is_some_and(|r| r["released"].is_null())
}

/// Whether a drain has to wait for this pod.
pub fn counts(pod: &PodRef) -> bool {
    // What a pod is, its name says: in seeds `mirror-0`, in tests `fluentd-daemon` and the like.
    !["mirror", "finished", "tolerant", "tolerates-us", "daemon", "skipped"]
        .iter()
        .any(|k| pod.name.contains(k))
}
