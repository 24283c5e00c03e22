//! Pods leave in the order of their groups, pods that ask to wait are not asked to go before their
//! time, and an order to force a drain ends both waits.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::kube::{Entry, Fact, PodRef},
};

use super::{
    Judge, SLACK,
    excuses::{REMOVE_PODS, SEE_BUDGETS, SEE_NODES, SEE_PODS, Scope, WRITE_NODES},
    is_us,
    promises::Promise,
    settings::share,
    story::{Life, counts, is_open},
    traits::Wish,
};

/// A drain with no more time than this from its accept on waits for no pod. A little more than five
/// minutes, because the judge does not know to the second when the drain ends.
const SHORT: Duration = Duration::from_secs(310);
/// How long before its own grace period would have to begin a pod may be evicted.
const TIME_TO_EVICT: Duration = Duration::from_secs(10);
/// What has changed just before a request may not be known yet.
const KNOWN: Duration = Duration::from_secs(2);
/// A pod that is this much longer there than its grace period is stuck, and holds up no other.
const STUCK: Duration = Duration::from_secs(50);
/// By then a process asks each pod of a drain that a person forces. While AWS has not shown whether
/// the instance stays, half a minute, it forces none.
const FORCED: Duration = Duration::from_secs(40);

impl Judge<'_> {
    /// Looks at each pod that was asked to go. Says how often it had to wait, so that a test can see
    /// that the judge looks.
    pub(super) fn order(&mut self) -> usize {
        if !self.evidence.terms.has_order() {
            return 0;
        }
        let mut seen = 0;
        for Entry { at, fact, by } in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, again: false, .. } | Fact::Deleted { pod, again: false, .. }) =
                fact
            else {
                continue;
            };
            let is_deleted = matches!(fact, Fact::Deleted { .. });
            let sent = self.sent(*at, by, pod, is_deleted);
            if self.is_forced_by_hand(&pod.node, sent) {
                continue;
            }
            if let Some(until) = self.waits_until(pod, by, sent) {
                seen += 1;
                self.count(Promise::WaitKept, false);
                if sent + SLACK < until {
                    let what = format!("{by} asked {} to go", pod.name);
                    self.broken(*at, format!("{what}, which may wait until {until}"));
                }
            }
            // A pod is deleted at its own time.
            if !is_deleted {
                seen += self.in_order(*at, by, pod, sent);
            }
        }
        seen
    }

    /// Until when a drain leaves a pod alone that asks for it, or for which a rule does. `None`: the
    /// drain does not wait for it, or may not.
    fn waits_until(&self, pod: &PodRef, by: &str, at: Moment) -> Option<Moment> {
        let terms = &self.evidence.terms;
        let bound = self.story.pods.get(&pod.uid)?.bound;
        let wished = match terms.traits_of(pod).wish(&pod.namespace, terms)? {
            Wish::Wait => None,
            Wish::WaitUntilAge(age) => Some(bound + age),
            Wish::Last | Wish::Skip => return None,
        };
        let accepted = self.first_accept(&pod.node, at)?;
        let ends = self.ends_of(&pod.node, by, at)?;
        if ends.iter().any(|(_, end)| *end <= accepted + SHORT) {
            return None;
        }
        let own = Duration::from_secs(self.grace_of(pod)) + TIME_TO_EVICT;
        let half = ends.iter().map(|(gone, _)| half_of(accepted, *gone).min(*gone - own)).min()?;
        Some(wished.map_or(half, |wished| wished.min(half)))
    }

    /// When the first interruption for which the node is drained was accepted.
    fn first_accept(&self, node: &str, at: Moment) -> Option<Moment> {
        let instance = self.instance_of(node)?;
        self.story.recorded(instance, at).iter().map(|one| one.accepted).min()
    }

    /// By when the pods of a node are to be gone, and when its drain ends, by all that may count for
    /// this process then or just before.
    fn ends_of(&self, node: &str, by: &str, at: Moment) -> Option<Vec<(Moment, Moment)>> {
        let instance = self.instance_of(node)?;
        let all = [at, at - KNOWN].into_iter();
        let all = all.flat_map(|at| self.deadlines_for(at, by, node, instance));
        Some(all.map(|d| (d.at, d.end)).collect())
    }

    /// The pod was asked while a pod of an earlier group was there, and it was not its time yet.
    /// Returns how often there was such a pod.
    fn in_order(&mut self, at: Moment, by: &str, pod: &PodRef, sent: Moment) -> usize {
        let terms = &self.evidence.terms;
        let (group, groups) = terms.traits_of(pod).group(&pod.namespace, terms);
        let Some(accepted) = self.first_accept(&pod.node, sent).filter(|_| group > 0) else {
            return 0;
        };
        let earlier: Vec<String> = self
            .story
            .left(&pod.node, sent)
            .into_iter()
            .filter(|life| self.holds_up_others(life, sent))
            .filter(|life| terms.traits_of(&life.pod).group(&life.pod.namespace, terms).0 < group)
            .map(|life| life.pod.name.clone())
            .collect();
        let Some(ends) = self.ends_of(&pod.node, by, sent).filter(|_| !earlier.is_empty()) else {
            return 0;
        };
        let own = Duration::from_secs(self.grace_of(pod)) + TIME_TO_EVICT;
        let count = |n: usize| u32::try_from(n).unwrap();
        let begins = |gone: Moment| {
            let time = Duration::try_from(gone.duration_since(accepted)).unwrap_or_default();
            let share = time / 2 * count(group) / count(groups).max(1);
            (accepted + share).min(gone - own)
        };
        let Some(from) = ends.into_iter().map(|(gone, _)| begins(gone)).min() else { return 0 };
        let instance = self.instance_of(&pod.node).cloned().unwrap_or_default();
        let scope = Scope {
            needs: &[SEE_PODS, REMOVE_PODS],
            of: Some((&instance, &pod.node)),
            process: Some(by),
            without_leader: None,
        };
        let is_early = sent + SLACK < from;
        let excused = is_early && self.is_excused(scope, sent - KNOWN, sent);
        self.count(Promise::OrderKept, excused);
        if is_early && !excused {
            let what = format!("{by} asked {} to go while {earlier:?} were left", pod.name);
            self.broken(at, format!("{what}, which its group waits for until {from}"));
        }
        1
    }

    /// A pod for which later groups wait: it was there a moment before, and is not stuck.
    fn holds_up_others(&self, life: &Life, at: Moment) -> bool {
        let due = |e: &Entry| match &e.fact {
            Fact::Evicted { pod, grace, .. } | Fact::Deleted { pod, grace, .. }
                if pod.uid == life.pod.uid && e.at <= at =>
            {
                Some(e.at + Duration::from_secs(*grace))
            }
            _ => None,
        };
        let due = self.evidence.entries.iter().filter_map(due).min();
        life.bound + KNOWN <= at
            && life.gone.is_none_or(|gone| gone > at + KNOWN)
            && due.is_none_or(|due| at <= due + STUCK)
    }

    /// Each pod of a drain that a person forces is asked to go. Says how many pods it looked at.
    pub(super) fn forced_by_hand(&mut self) -> usize {
        let mut seen = 0;
        for (instance, node) in &self.evidence.nodes {
            for (from, to) in self.forced_times(node) {
                let until = from + FORCED;
                let needs = &[SEE_NODES, WRITE_NODES, SEE_PODS, SEE_BUDGETS, REMOVE_PODS];
                let scope = Scope::of_leader(needs).about(instance, node);
                let hangs = |(a, b): &(Moment, Moment)| *a <= until && *b >= from;
                let excused = self.is_excused(scope, from, until)
                    || self.is_meddled(node, from, until)
                    || self.drain_keeps_pods(node, from, until)
                    || self.evidence.evictions_hang.iter().any(hangs)
                    || self.machine_ends(instance, until);
                if until > to {
                    // It ended before.
                    self.count(Promise::ForceObeyed, excused);
                    continue;
                }
                let is_old = |life: &&Life| life.bound + KNOWN <= from;
                let all = self.story.left(node, until).into_iter().filter(is_old);
                let all: Vec<(String, bool)> =
                    all.map(|life| (life.pod.name.clone(), self.was_asked(life, until))).collect();
                for (name, was_asked) in all {
                    seen += 1;
                    self.count(Promise::ForceObeyed, excused);
                    if !excused && !was_asked {
                        let what = format!("a person forced the drain of {node} at {from}");
                        self.broken(until, format!("{what}, and nobody asked {name} to go"));
                    }
                }
            }
        }
        seen
    }

    fn machine_ends(&self, instance: &str, at: Moment) -> bool {
        self.evidence.changes.iter().any(|c| c.id == *instance && c.at <= at)
            && self.story.is_ending(instance, at)
    }

    /// From when to when a person forced a drain of this node that went on.
    fn forced_times(&self, node: &str) -> Vec<(Moment, Moment)> {
        let pages = self.story.pages_between(node, self.evidence.begun, self.evidence.ended);
        let mut all: Vec<(Moment, Moment)> = Vec::new();
        for (page, until) in pages {
            let forces = page.settings.get("force").is_some_and(|value| value == "true");
            if !(forces && is_open(page)) {
                continue;
            }
            match all.last_mut() {
                Some(last) if last.1 == page.at => last.1 = until,
                _ => all.push((page.at, until)),
            }
        }
        all
    }

    /// The longest grace period that a rule lets this pod have, in seconds.
    pub(super) fn grace_by_rule(&self, pod: &PodRef) -> Option<u64> {
        let terms = &self.evidence.terms;
        let traits = terms.traits_of(pod);
        let text = traits.rule(&pod.namespace, terms)?["maxGracePeriod"].as_str()?;
        super::sent::duration(text).map(|longest| longest.as_secs())
    }

    /// From which share of the time on a rule lets this pod be deleted. Infinite: never.
    pub(super) fn force_by_rule(&self, pod: &PodRef) -> Option<f64> {
        let terms = &self.evidence.terms;
        share(terms.traits_of(pod).rule(&pod.namespace, terms)?["forceAfter"].as_str()?)
    }

    /// The plan says nothing of what pods ask for.
    pub(super) fn has_no_traits(&self) -> bool {
        self.evidence.terms.traits.is_empty()
    }

    /// The pod asks for something that may delay its eviction, or a rule does.
    pub(super) fn may_be_delayed(&self, uid: &str) -> bool {
        let terms = &self.evidence.terms;
        self.story.pods.get(uid).is_none_or(|life| {
            let wish = terms.traits_of(&life.pod).wish(&life.pod.namespace, terms);
            matches!(wish, Some(Wish::Wait | Wish::WaitUntilAge(_)))
        })
    }

    /// The pod asks for something that has no meaning.
    pub(super) fn asks_for_nonsense(&self, uid: &str) -> bool {
        let terms = &self.evidence.terms;
        let of = |life: &Life| terms.traits_of(&life.pod).asks_for_nonsense(terms);
        self.story.pods.get(uid).is_none_or(of)
    }

    /// Some pod that counts waits for pods of an earlier group, or may.
    pub(super) fn has_groups(&self, node: &str, at: Moment) -> bool {
        let terms = &self.evidence.terms;
        let there = self.story.pods.values().filter(|life| life.pod.node == node);
        let mut there = there.filter(|life| life.bound <= at && counts(&life.pod));
        there.any(|life| terms.traits_of(&life.pod).group(&life.pod.namespace, terms).0 > 0)
    }
}

fn half_of(from: Moment, to: Moment) -> Moment {
    from + Duration::try_from(to.duration_since(from)).unwrap_or_default() / 2
}
