//! Pods: which are touched, when, with which grace, and at whose cost.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::kube::{Entry, Fact, PodRef, Request},
};

use super::{
    Judge, Response, SLACK,
    clocks::AwsClock,
    excuses::{HEARTBEATS, LEASE, Needs, SEE_NODES, SEE_PODS, Scope, WRITE_NODES},
    is_us,
    promises::Promise,
    requests,
    story::{Deadline, RecordedInterruption, counts},
};

/// How long a pod that may be deleted waits for a slot for its first eviction.
const UNASKED: Duration = Duration::from_secs(2);
/// The shortest grace period: a pod that is to be gone by a deadline is deleted so long before it.
const LAST: Duration = Duration::from_secs(1);
/// How long a new leader may not know which heartbeats were accepted.
const UNKNOWN: Duration = Duration::from_secs(30);

impl Judge<'_> {
    /// Only the pods that count, only on nodes with an open record, each asked first, none forced
    /// too early, never without grace.
    pub(super) fn pods(&mut self) {
        self.untouchable();
        for Entry { at, fact, by } in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, grace, again, .. } | Fact::Deleted { pod, grace, again, .. }) =
                fact
            else {
                continue;
            };
            self.not_again(*at, pod, *again);
            let forced = matches!(fact, Fact::Deleted { .. });
            let sent = self.sent(*at, by, pod, forced);
            self.open_record(*at, sent, by, pod, forced);
            self.not_while_paused(*at, sent, pod);
            self.not_unconfirmed(*at, sent, by, pod);
            if !again && (*grace > 0 || !self.needs_no_grace(*at, sent, by, pod)) {
                self.measured(sent, by, pod, *grace, forced);
            }
            if forced && !again {
                self.forced(*at, by, pod);
            }
        }
    }

    /// What a drain leaves alone is never touched, and nothing gets no grace at all.
    pub(super) fn untouchable(&mut self) {
        for entry in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, grace, .. } | Fact::Deleted { pod, grace, .. }) = &entry.fact
            else {
                continue;
            };
            if !counts(pod) {
                self.broken(entry.at, format!("{} was touched", pod.name));
            }
            let sent =
                || self.sent(entry.at, &entry.by, pod, matches!(entry.fact, Fact::Deleted { .. }));
            if *grace == 0 && !self.needs_no_grace(entry.at, sent(), &entry.by, pod) {
                self.broken(entry.at, format!("{} got no grace", pod.name));
            }
        }
    }

    /// The pod finished before the request had its effect: the API server gives such a pod no
    /// grace, whatever was asked for. When the request was sent, its process could not know that.
    fn needs_no_grace(&self, at: Moment, sent: Moment, by: &str, pod: &PodRef) -> bool {
        let finished = self.story.pods.get(&pod.uid).and_then(|life| life.finished);
        let (needs, process): (&[Needs], _) = (&[SEE_PODS], Some(by));
        let sees = Scope { needs, of: None, process, without_leader: None };
        let is_unseen =
            |finished: Moment| self.longest_clear(sees, finished, sent.max(finished)) <= SLACK;
        finished.is_some_and(|finished| finished <= at && is_unseen(finished))
    }

    fn not_again(&mut self, at: Moment, pod: &PodRef, again: bool) {
        let outlives = |d: Deadline| {
            at + Duration::from_secs(1) >= d.at
                || self.leaves_by(pod, at).is_none_or(|end| end > d.at)
        };
        if again && self.evidence.terms.calm && !self.soonest(&pod.node, at).is_some_and(outlives) {
            self.broken(at, format!("{} was asked again while it was leaving in time", pod.name));
        }
    }

    /// Pods are touched on Nodes with an open record, and nowhere else.
    pub(super) fn open_records(&mut self) {
        for entry in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            if let Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. } = &entry.fact {
                let forced = matches!(entry.fact, Fact::Deleted { .. });
                let sent = self.sent(entry.at, &entry.by, pod, forced);
                self.open_record(entry.at, sent, &entry.by, pod, forced);
            }
        }
    }

    /// No call takes a request back that was sent while the record was open. But an eviction
    /// carries a time limit: it must not outlast a drain whose end was known when it was sent.
    fn open_record(&mut self, at: Moment, sent: Moment, by: &str, pod: &PodRef, forced: bool) {
        if self.keeps_its_pods(&pod.node, at) {
            let what = "although --on does not ask for its eviction";
            self.broken(at, format!("{} was touched on {}, {what}", pod.name, pod.node));
        }
        let was_open = |at: Moment| self.story.was_open(&pod.node, at);
        let is_unforeseen = || was_open(sent) && (forced || !self.ended_as_known(pod, sent, at));
        if !was_open(at) && !is_unforeseen() && !self.is_being_written_back(sent, by, &pod.node) {
            self.broken(
                at,
                format!("{} was touched on {}, which has no open record", pod.name, pod.node),
            );
        }
    }

    /// The record of this Node held a recommendation then, and nothing else.
    pub(super) fn was_recommended(&self, node: &str, at: Moment) -> bool {
        let Some(page) = self.story.page(node, at) else { return false };
        let mut recorded = page.recorded.iter();
        // A change that was canceled stays in the record.
        let is_over = |kind: &str| kind == "scheduled-change" && self.was_canceled(node, at);
        !page.recorded.is_empty()
            && recorded.all(|one| one.kind == "rebalance" || is_over(&one.kind))
    }

    /// A scheduled change of this Node's instance was announced by then.
    pub(super) fn was_announced(&self, node: &str, at: Moment) -> bool {
        let Some(instance) = self.instance_or_claimed(node, at) else { return false };
        let mut notices = self.story.notices.iter();
        let mut in_ec2 = self.evidence.scheduled.iter();
        notices.any(|n| n.event.change.is_some() && n.event.instance == instance && n.sent <= at)
            || in_ec2.any(|(since, of, _)| of == instance && *since <= at)
    }

    /// No interruption that a record of this Node's instance ever held is of a kind that is drained.
    pub(super) fn keeps_its_pods(&self, node: &str, at: Moment) -> bool {
        let Some(instance) = self.instance_of(node) else { return false };
        let recorded = self.story.recorded(instance, at);
        let is_kept = |r: &RecordedInterruption| {
            !r.is_made_up && self.evidence.terms.response(&r.kind) < Response::Drain
        };
        !recorded.is_empty() && recorded.iter().all(|recorded| is_kept(recorded))
    }

    /// Between these two moments there was a record of the node in which no interruption is of a
    /// kind that is drained. An instance that ends with the completion of its hook gets a new
    /// record at the same moment.
    pub(super) fn drain_keeps_pods(&self, node: &str, from: Moment, to: Moment) -> bool {
        let terms = &self.evidence.terms;
        // A change that AWS has canceled or moved stays in the record, and holds no longer.
        let is_withdrawn = self.was_canceled(node, to) || self.was_moved(node, to);
        self.story.pages_between(node, from, to).any(|(page, _)| {
            let all = page.record.as_ref().and_then(|record| record["interruptions"].as_array());
            let all = all.map(|all| requests::holding(all, &page.requests));
            let keeps = |all: &[Value]| !all.is_empty() && terms.strongest(all) < Response::Drain;
            let others = |all: &[Value]| -> Vec<Value> {
                all.iter().filter(|entry| entry["kind"] != "scheduled-change").cloned().collect()
            };
            all.is_some_and(|all| keeps(&all) || is_withdrawn && keeps(&others(&all)))
        })
    }

    /// A person deleted the open record for the first time, which may be a mistake: its drain goes
    /// on, and the process that drains writes the record back. At that moment it had not got it
    /// through, because its PATCHes of the Node failed all the time, or it could not see the Node.
    /// A second deletion ends the drain as soon as the process can see it.
    fn is_being_written_back(&self, at: Moment, by: &str, node: &str) -> bool {
        let Some(deleted) = self.story.record_deleted(node, at) else { return false };
        let Some(instance) = self.instance_of(node) else { return false };
        let needs: &[Needs] = if self.story.record_deleted_twice(node, at) {
            &[SEE_NODES]
        } else {
            &[WRITE_NODES, SEE_NODES]
        };
        let of = Some((instance.as_str(), node));
        let scope = Scope { needs, of, process: Some(by), without_leader: None };
        self.longest_clear(scope, deleted, at) <= SLACK
    }

    /// The drain ended between these moments, at a deadline that was known at the first one.
    fn ended_as_known(&self, pod: &PodRef, sent: Moment, at: Moment) -> bool {
        let Some(instance) = self.instance_of(&pod.node) else { return false };
        let mut pages = self.story.pages_between(&pod.node, sent, at).map(|(page, _)| page);
        let ended = pages
            .find(|page| {
                page.record.as_ref().is_some_and(|r| r["released"]["outcome"] == "deadline")
            })
            .map(|page| page.at);
        let known = self.story.deadlines(instance, sent);
        ended.is_some_and(|ended| {
            known.iter().any(|d| d.end <= ended + SLACK && ended <= d.end + SLACK)
        })
    }

    /// Nobody sends a request about a pod in a pause that whoever leads must know of. No call takes
    /// one back that was sent before.
    fn not_while_paused(&mut self, at: Moment, sent: Moment, pod: &PodRef) {
        let is_paused =
            self.story.pauses(&pod.node).iter().any(|(from, to)| *from <= sent && sent < *to);
        let known = self.known_pause(&pod.node, sent);
        if is_paused {
            self.count(Promise::PauseKept, known.is_none());
        }
        if let Some(from) = known {
            self.broken(
                at,
                format!(
                    "{} was touched on {}, which has been paused since {from}",
                    pod.name, pod.node
                ),
            );
        }
    }

    /// When the first request was sent that had its effect at this moment: a webhook may have held
    /// it, and the next one may have been sent at its answer. One that was sent before the pod came
    /// was about an earlier pod of its name.
    pub(super) fn sent(&self, at: Moment, by: &str, pod: &PodRef, forced: bool) -> Moment {
        let bound = self.story.pods.get(&pod.uid).map(|life| life.bound);
        let is_it = |r: &&Request| {
            let of_name =
                r.resource == "pods" && r.namespace == pod.namespace && r.name == pod.name;
            let of_pod = of_name && bound.is_none_or(|bound| bound <= r.at);
            // An eviction that was refused (429) had no effect, even if its answer came at the
            // moment at which the next one was sent.
            let same = if forced {
                r.verb == "delete"
            } else {
                r.subresource == "eviction" && r.status != 429
            };
            of_pod
                && same
                && r.client == by
                && r.at <= at
                && r.answered.is_none_or(|answered| answered >= at)
        };
        let all = || self.evidence.requests.iter().filter(is_it);
        all().find(|r| r.answered == Some(at)).or_else(|| all().next_back()).map_or(at, |r| r.at)
    }

    /// Since when a node has been paused, as whoever leads must know by then: two seconds in which
    /// it can see the Lease and the Node.
    pub(super) fn known_pause(&self, node: &str, at: Moment) -> Option<Moment> {
        const KNOWN: Duration = Duration::from_secs(2);
        let scope = Scope::of_leader(&[LEASE, SEE_NODES]).about("", node);
        let pauses = self
            .story
            .pauses(node)
            .into_iter()
            .filter(|(from, to)| *from + KNOWN <= at && at < *to);
        pauses.map(|(from, _)| from).find(|from| self.longest_clear(scope, *from, at) >= KNOWN)
    }

    /// The grace that a pod gets is its own, or what is left of a time that may rule.
    fn measured(&mut self, at: Moment, by: &str, pod: &PodRef, grace: u64, forced: bool) {
        let own = self.grace_of(pod);
        let Some(instance) = self.instance_of(&pod.node).cloned() else { return };
        let deadlines = self.deadlines_for(at, by, &pod.node, &instance);
        let left =
            |d: &Deadline| u64::try_from(d.at.duration_since(at).as_secs()).unwrap_or_default();
        // Its own, or the shorter one that the hook or the Node sets.
        // A rule may shorten it, too.
        let longest = self.longest_graces(by, &instance, at).into_iter();
        let capped = own.min(self.grace_by_rule(pod).unwrap_or(own));
        let owns: Vec<u64> = longest.map(|longest| capped.min(longest)).collect();
        let fits =
            |d: &Deadline| owns.iter().any(|own| grace.abs_diff(left(d).min(*own).max(1)) <= 2);
        // A successor cannot know which heartbeats of the one before were accepted: it reckons as
        // if the last one that was due had been.
        let heartbeats = Scope::of_leader(&[HEARTBEATS]).about(&instance, &pod.node);
        let excused = grace <= own
            && self.leaders.changes(self.evidence.begun, at) > 1
            && self.is_excused(heartbeats, at - UNKNOWN, at);
        self.count(Promise::Grace, excused);
        if excused {
            return;
        }
        // An eviction that no deadline forces, and a deadline that was over at the take-up, leave a
        // pod its own. So does a delete that only a person's order forces.
        let is_bound =
            forced && !self.is_forced_by_hand_alone((&instance, &pod.node), by, at, &deadlines);
        if !deadlines.iter().any(fits) && (is_bound || !owns.contains(&grace)) {
            self.broken(
                at,
                format!("{} got a grace of {grace} s, its own is {own} s: {deadlines:?}", pod.name),
            );
        }
    }

    /// The deadlines that may rule for a process: one that was surely over when it took the drain
    /// over is void. A process that AWS has not answered yet reads the times of the record by the
    /// API server's clock.
    pub(super) fn deadlines_for(
        &self,
        at: Moment,
        by: &str,
        node: &str,
        instance: &str,
    ) -> Vec<Deadline> {
        let mut all = self.story.deadlines(instance, at);
        if let AwsClock::Unknown { ahead, .. } = self.aws_clock(by, at)
            && !ahead.is_zero()
        {
            let read = |d: &Deadline| Deadline {
                at: d.at + ahead,
                end: d.end + ahead,
                accepted: d.accepted + ahead,
            };
            let by_api_server: Vec<_> = all.iter().map(read).collect();
            all.extend(by_api_server);
        }
        let seen_late = self.resumed_late(&all, at, by);
        all.extend(seen_late);
        for (take_over, old, new) in self.counted_anew(at, by, node, instance) {
            if old.at + SLACK <= take_over {
                all.retain(|d| (d.at, d.accepted) != (old.at, old.accepted));
            }
            all.push(new);
        }
        all.extend(self.counted_anew_by_aws(at, by, instance));
        all.extend(self.deadlines_by_confirmation(by, instance, at));
        all
    }

    /// A process that led when it did not know AWS's clock takes its drains up again when AWS
    /// answers: the deadlines of hooks that are over by then count from there.
    fn counted_anew_by_aws(&self, at: Moment, by: &str, instance: &str) -> Vec<Deadline> {
        let since = self.leaders.leads_since(by, at);
        let is_unknown =
            |since: &Moment| matches!(self.aws_clock(by, *since), AwsClock::Unknown { .. });
        let Some(since) = since.filter(is_unknown) else { return Vec::new() };
        let known = self.first_answer(by).filter(|known| (since..=at).contains(known));
        let anew = known.map(|known| self.story.counted_anew(instance, since, known));
        anew.into_iter().flatten().map(|(_, new)| new).collect()
    }

    /// Of these deadlines, those that count from the end of a pause, for a process whose watch of
    /// the Lease met a fault then: it sees that end when it next reads the Lease.
    fn resumed_late(&self, all: &[Deadline], at: Moment, by: &str) -> Vec<Deadline> {
        const READ: Duration = Duration::from_secs(2);
        let terms = &self.evidence.terms;
        let (timeout, margin) = (Duration::from_secs(terms.drain_timeout), terms.margin(""));
        let (needs, process): (&[Needs], _) = (&[LEASE], Some(by));
        let scope = Scope { needs, of: None, process, without_leader: None };
        let ends = self.evidence.pauses.iter().map(|(_, to)| *to);
        let late: Vec<_> = ends
            .filter(|to| *to <= at && self.is_excused(scope, *to, *to))
            .map(|to| Deadline::of(to, to + timeout, margin, to).at)
            .collect();
        let resumed = all.iter().filter(|d| late.contains(&d.at));
        resumed.map(|d| Deadline { at: d.at + READ, end: d.end + READ, ..*d }).collect()
    }

    /// When this process took the drain over, with each deadline that was over by then and the one
    /// that counts anew from there. It begins a drain that it takes over when it has read the Node:
    /// by the LIST of its term, or by a GET. Until then it touches no pod of it.
    fn counted_anew(
        &self,
        at: Moment,
        by: &str,
        node: &str,
        instance: &str,
    ) -> Vec<(Moment, Deadline, Deadline)> {
        let Some(since) = self.leaders.leads_since(by, at) else { return Vec::new() };
        let touches = |e: &&Entry| {
            matches!(
                &e.fact, Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. } if pod.node == node
            )
        };
        let touched = self
            .evidence
            .entries
            .iter()
            .filter(touches)
            .find(|e| e.by == by && e.at >= since)
            .map_or(at, |e| e.at.min(at));
        let reads = |r: &&Request| {
            let is_read = r.verb == "list" || (r.verb == "get" && r.name == node);
            is_read && r.client == by && r.resource == "nodes" && r.status == 200
        };
        let read = self.evidence.requests.iter().filter(reads).filter_map(|r| r.answered);
        let take_overs = read.filter(|read| *read >= since && *read <= touched);
        let of = |at: Moment| {
            self.story
                .counted_anew(instance, since, at)
                .into_iter()
                .map(move |(old, new)| (at, old, new))
        };
        take_overs.flat_map(of).collect()
    }

    /// By how much a process took AWS's clock to be ahead of what it was when it accepted for this
    /// instance, or released it: the answers of AWS give whole seconds. The times of the accept and
    /// of the release in the record are by that measurement. Every deadline of AWS is that much
    /// earlier for the process.
    fn measured_ahead(&self, instance: &str, by: &str) -> SignedDuration {
        let accepts =
            self.story.seen.iter().filter(|seen| seen.instance == instance && seen.by == by);
        let off = accepts.filter_map(|seen| {
            let says = seen.written.accepted - self.story.notices[seen.cause?].ahead;
            Some(says.duration_since(seen.accepted?))
        });
        let releases = self
            .story
            .written_pages
            .iter()
            .filter(|page| page.instance == instance && page.by == by)
            .filter_map(|page| Some(page.released?.duration_since(page.came_in)));
        // One that is further off breaks another promise.
        off.chain(releases)
            .max()
            .unwrap_or_default()
            .clamp(SignedDuration::ZERO, SignedDuration::from_secs(1))
    }

    /// By how much all times in the record may seem earlier to a process that took the drain over,
    /// or whose record a person wrote: it reads them by what it had measured of AWS's clock by then,
    /// which no record shows. The other process's measurement was off by half a second, too.
    fn read_ahead(&self, instance: &str, by: &str, at: Moment) -> SignedDuration {
        let mut of_it = self.story.seen.iter().filter(|s| s.instance == instance && s.at <= at);
        let is_made_up =
            || self.story.recorded(instance, at).iter().any(|recorded| recorded.is_made_up);
        let is_of_others = of_it.next().map_or_else(is_made_up, |first| first.by != by);
        SignedDuration::from_secs(i64::from(is_of_others))
    }

    /// By when a pod had to be gone, as far as it had been asked before this moment.
    fn leaves_by(&self, pod: &PodRef, before: Moment) -> Option<Moment> {
        let ends =
            self.evidence.entries.iter().filter(|e| e.at < before).filter_map(|e| match &e.fact {
                Fact::Evicted { pod: p, grace, .. } | Fact::Deleted { pod: p, grace, .. }
                    if p.uid == pod.uid =>
                {
                    Some(e.at + Duration::from_secs(*grace))
                }
                _ => None,
            });
        ends.min()
    }

    fn soonest(&self, node: &str, at: Moment) -> Option<Deadline> {
        self.story.deadlines(self.instance_of(node)?, at).into_iter().min_by_key(|d| d.at)
    }

    fn forced(&mut self, at: Moment, by: &str, pod: &PodRef) {
        let Some(instance) = self.instance_of(&pod.node).cloned() else { return };
        if self.is_forced_by_hand(&pod.node, at) {
            return;
        }
        let by_rule = self.force_by_rule(pod).map(|share| vec![share]);
        let shares = by_rule.unwrap_or_else(|| self.force_shares(by, &instance, at));
        let share = shares.into_iter().fold(f64::INFINITY, f64::min);
        if share.is_infinite() {
            let why = "which --force-after or a setting forbids";
            self.broken(at, format!("{} was deleted, {why}", pod.name));
            return;
        }
        // A StatefulSet gives a name to one pod after the other: what counts is what came after
        // this one was bound.
        let bound = self.story.pods.get(&pod.uid).map_or(self.evidence.begun, |life| life.bound);
        let about = |r: &&Request| {
            r.subresource == "eviction" && r.namespace == pod.namespace && r.name == pod.name
        };
        let asked =
            self.evidence.requests.iter().filter(about).any(|r| r.at <= at && r.at >= bound);
        let own = Duration::from_secs(self.grace_of(pod));
        let deadlines = self.deadlines_for(at, by, &pod.node, &instance);
        let from = |d: &Deadline| {
            let polite = d.accepted
                + Duration::try_from(d.at.duration_since(d.accepted))
                    .unwrap_or_default()
                    .mul_f64(share);
            (d.at - own).max(polite).min(d.at - LAST)
        };
        // One that could not be asked (no slot was free, or the API server had too much to do) has
        // two seconds more, but not longer than until the last second, in which nothing waits any
        // more.
        let ahead = self.measured_ahead(&instance, by);
        let read = self.read_ahead(&instance, by, at);
        let mut measured = deadlines.iter().map(|d| Deadline {
            at: d.at - ahead.max(read),
            accepted: d.accepted - read,
            ..*d
        });
        if !asked && !measured.any(|d| at >= (from(&d).max(bound) + UNASKED).min(d.at - LAST)) {
            self.broken(at, format!("{} was deleted and never asked to go", pod.name));
        }
        if !deadlines.iter().any(|d| at + SLACK >= from(d)) {
            self.broken(at, format!("{} was deleted too early: {deadlines:?}", pod.name));
        }
    }

    pub(super) fn grace_of(&self, pod: &PodRef) -> u64 {
        let terms = &self.evidence.terms;
        let single = terms.single_graces.iter().filter(|_| pod.namespace == "extra");
        let mut single = single.filter(|(name, _)| pod.name == *name);
        let mut graces = terms.graces.iter();
        single
            .next()
            .or_else(|| {
                graces.find(|(name, _)| pod.namespace == "load" && pod.name.starts_with(name))
            })
            .map_or(30, |(_, grace)| *grace)
    }
}
