//! Liveness: where the machine goes soon, every pod that counts is asked to go while there is time.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::kube::{Fact, Request},
};

use super::{
    Belongs, Evidence, Judge, Response, Terms,
    budgets::workload,
    excuses::{MESSAGES, REMOVE_PODS, SEE_BUDGETS, SEE_NODES, SEE_PODS, Scope, WRITE_NODES},
    is_us,
    promises::Promise,
    sent::{Kind, Notice},
    story::{Life, counts, is_open},
};

/// Two minutes from the notice, less a margin of ten seconds. Where `--deadline-margin` or
/// `--spot-deadline-margin` is longer, less that.
const NOTICE: Duration = Duration::from_secs(110);
/// A machine that is shutting down lives for some seconds.
const AT_ONCE: Duration = Duration::from_secs(4);

/// The same where a webhook does not answer evictions: each has until half of the time is over,
/// then it is given up, and the pods that wait for it are asked.
const AT_HALF: Duration = Duration::from_secs(20);

/// Evictions of nodes that are interrupted at one moment are sent within this time.
const AT_THAT_MOMENT: Duration = Duration::from_secs(1);

/// How long after its own time everybody must have been asked, and how long it counts as fresh;
/// `None`: nothing presses.
fn presses(notice: &Notice, terms: &Terms) -> Option<(Duration, Duration)> {
    let kind = notice.event.kind;
    match (kind, notice.event.state.as_deref()) {
        (Kind::CapacityBlock, _) => {
            let window = notice.event.window().saturating_sub(terms.margin(kind.name()));
            Some((window, window / 2 + Duration::from_secs(5)))
        }
        (kind, _) if kind.is_spot() || kind == Kind::CapacityReservation => {
            let window =
                Duration::from_secs(120).saturating_sub(terms.margin(kind.name())).min(NOTICE);
            Some((window, window / 2 + Duration::from_secs(5)))
        }
        (Kind::StateChange, Some("stopping" | "shutting-down")) => {
            Some((AT_ONCE, Duration::from_secs(1)))
        }
        _ => None,
    }
}

/// A notice that presses, and the Node of its instance.
struct Pressing<'a> {
    node: &'a str,
    kind: &'static str,
    time: Moment,
    /// Everybody must have been asked by then.
    end: Moment,
    /// When it was written down; where it was not, when it was sent.
    known: Moment,
}

impl<'a> Judge<'a> {
    /// Of each spot and capacity notice and each state that ends a machine that was sent while it
    /// was fresh, and that nothing and nobody stood in the way of: all pods that count were asked.
    /// Says how many pods it looked at, so that a test can see that it looks.
    pub(super) fn asked(&mut self) -> usize {
        let pressing: Vec<_> = self.story.notices.iter().filter_map(|n| self.pressing(n)).collect();
        let looked_at = pressing.iter().map(|p| self.looked_at(p)).sum();
        let missed: Vec<_> =
            pressing.iter().map(|p| (p.end, p.node, p.kind, self.missed(p))).collect();
        for (end, node, kind, missed) in
            missed.into_iter().filter(|(.., missed)| !missed.is_empty())
        {
            self.broken(
                end,
                format!("a {kind} event was sent for {node}, and nobody asked {missed:?} to go"),
            );
        }
        looked_at
    }

    /// `None`: it does not press, something was broken, somebody interfered, or the machine was not
    /// there.
    fn pressing(&self, notice: &Notice) -> Option<Pressing<'a>> {
        let evidence: &'a Evidence = self.evidence;
        let (window, fresh) =
            presses(notice, &self.evidence.terms).filter(|_| self.is_meant(notice))?;
        let kind = notice.event.kind.name();
        if self.evidence.terms.response(kind) < Response::Drain {
            return None;
        }
        let (instance, node) = evidence.nodes.get_key_value(&notice.event.instance)?;
        let group = evidence.groups.get(instance).and_then(|g| self.belongs(g));
        let (time, sent) = (notice.time(), notice.sent);
        let window = self.despite_webhooks(time, window);
        let waits = self.waits_for_others(node, sent, time + window);
        let end = time + if waits { window.max(AT_HALF) } else { window };
        let known = self.story.first_told(instance, &notice.event.id, None).unwrap_or(sent);
        // One that was released before and sent again is history that stands (and its pods have
        // been asked then).
        let released =
            self.story.released(node, instance, evidence.begun).is_some_and(|at| at <= known);
        let needs = &[MESSAGES, SEE_NODES, WRITE_NODES, SEE_PODS, SEE_BUDGETS, REMOVE_PODS];
        let scope = Scope::of_leader(needs).about(instance, node);
        let excused = end > evidence.ended
            || released
            || self.is_meddled(node, time, end)
            || self.is_excused(scope, sent, end);
        let is_there = self.story.page(node, sent).is_some_and(|page| page.instance == *instance);
        let is_ours = group.is_none_or(|b| b == Belongs::Us);
        let presses = sent <= time + fresh && is_ours && is_there;
        if presses {
            self.count(Promise::AskedInTime, excused);
        }
        (presses && !excused).then(|| Pressing { node, kind, time, end, known })
    }

    fn despite_webhooks(&self, from: Moment, window: Duration) -> Duration {
        let hang =
            self.evidence.evictions_hang.iter().any(|(a, b)| *a <= from + window && *b >= from);
        if hang { window.max(AT_HALF) } else { window }
    }

    /// A pod of this node waits behind the eviction of a pod of the same workload on another node:
    /// it was sent before, or at once if both nodes were interrupted at that moment, and had no
    /// answer until the end. Where a budget allows nothing, only one eviction under it is under
    /// way.
    fn waits_for_others(&self, node: &str, sent: Moment, end: Moment) -> bool {
        let was_open = |r: &&Request| {
            let is_eviction = is_us(&r.client)
                && r.resource == "pods"
                && r.subresource == "eviction"
                && !r.dry_run;
            is_eviction && r.at <= sent + AT_THAT_MOMENT && r.ended.is_none_or(|ended| ended >= end)
        };
        let of = |namespace: &str, name: &str| (namespace.to_owned(), workload(name).to_owned());
        let has_budget = |(namespace, name): &(String, String)| {
            self.evidence.terms.budgets.iter().any(|(n, w)| n == namespace && w == name)
        };
        let there = self.story.there(node, sent);
        let is_here = |r: &Request| {
            there.iter().any(|life| life.pod.namespace == r.namespace && life.pod.name == r.name)
        };
        let others = self
            .evidence
            .requests
            .iter()
            .filter(was_open)
            .filter(|r| !is_here(r))
            .map(|r| of(&r.namespace, &r.name));
        let open: Vec<_> = others.filter(has_budget).collect();
        there.iter().any(|life| open.contains(&of(&life.pod.namespace, &life.pod.name)))
    }

    /// The pods of its node that were there.
    fn bound<'s>(&'s self, pressing: &'s Pressing<'a>) -> impl Iterator<Item = &'s Life> {
        self.story
            .pods
            .values()
            .filter(|l| l.pod.node == pressing.node && l.bound <= pressing.known)
    }

    /// Those that went in time were looked at too.
    fn looked_at(&self, pressing: &Pressing<'a>) -> usize {
        self.bound(pressing).filter(|l| l.gone.is_none_or(|g| g > pressing.time)).count()
    }

    /// The pods that are left at the end and that nobody asked to go.
    fn missed(&self, pressing: &Pressing<'a>) -> Vec<String> {
        let end = pressing.end;
        let left = self
            .bound(pressing)
            .filter(|l| l.gone.is_none_or(|g| g > end) && l.finished.is_none_or(|f| f > end));
        left.filter(|l| counts(&l.pod) && !self.story.came_back(l, end) && !self.was_asked(l, end))
            .filter(|l| !self.came_in_the_delay(l, pressing.known))
            .filter(|l| !self.waits_for_its_group(l, pressing))
            .map(|l| l.pod.name.clone())
            .collect()
    }

    /// It belongs to a group that may wait for pods of others for half of the time of the drain, and
    /// was asked by then. Nothing is known of it if the run, or the machine, ended before.
    fn waits_for_its_group(&self, life: &Life, pressing: &Pressing<'a>) -> bool {
        let terms = &self.evidence.terms;
        let end = pressing.end.max(pressing.time + AT_HALF);
        let has_group = terms.traits_of(&life.pod).group(&life.pod.namespace, terms).0 > 0;
        let needs = &[SEE_NODES, WRITE_NODES, SEE_PODS, SEE_BUDGETS, REMOVE_PODS];
        let instance = self.instance_of(pressing.node).map(String::as_str).unwrap_or_default();
        let scope = Scope::of_leader(needs).about(instance, pressing.node);
        has_group
            && (life.gone.is_some_and(|gone| gone <= end)
                || self.was_asked(life, end)
                || end > self.evidence.ended
                || self.story.machine_gone(pressing.node, end)
                || self.is_excused(scope, pressing.end, end))
    }

    /// The drain of its node had ended before the pod came, and `--complete-delay` was not over yet
    /// when the notice was known. What joins a drain that is over does not begin it anew, and what a
    /// controller puts there in the delay is not waited for.
    fn came_in_the_delay(&self, life: &Life, known: Moment) -> bool {
        let instance = self.instance_of(&life.pod.node).map(String::as_str).unwrap_or_default();
        let delay = self.longest_delay(instance, known);
        self.ended_before(life).iter().any(|ended| known <= *ended + delay)
    }

    /// The drain of its node had ended before the pod came, and its release was still under way when
    /// another interruption joined it.
    pub(super) fn came_in_the_release(&self, life: &Life, joined: Moment) -> bool {
        const JUST_BEFORE: Duration = Duration::from_millis(1);
        let before = self.story.page(&life.pod.node, joined - JUST_BEFORE);
        before.is_some_and(is_open) && self.ended_before(life).iter().any(|ended| *ended <= joined)
    }

    /// When the drain of its node may have ended before the pod came, because the node was empty.
    fn ended_before(&self, life: &Life) -> Vec<Moment> {
        let node = life.pod.node.as_str();
        let least = self.evidence.terms.shortest("--min-drain-time", Duration::from_secs(5));
        let of_node = self.story.pods.values().filter(|other| other.pod.node == node);
        let went = of_node.flat_map(|other| other.finished.into_iter().chain(other.gone));
        let ended = went.filter_map(|went| {
            let page = self.story.page(node, went).filter(|page| is_open(page))?;
            let accepted = page.recorded.iter().map(|t| t.accepted).min()?;
            Some(went.max(accepted + least))
        });
        ended
            .filter(|ended| *ended <= life.bound && self.story.left(node, *ended).is_empty())
            .collect()
    }

    /// We asked it, or somebody else made it go.
    pub(super) fn was_asked(&self, life: &Life, end: Moment) -> bool {
        let pod = &life.pod;
        let asks = self.evidence.requests.iter().any(|r| {
            let removes =
                r.subresource == "eviction" || (r.verb == "delete" && r.subresource.is_empty());
            is_us(&r.client)
                && r.resource == "pods"
                && removes
                && r.namespace == pod.namespace
                && r.name == pod.name
                && r.at >= life.bound
                && r.at <= end
        });
        asks || self.evidence.entries.iter().any(|e| {
            e.at <= end && matches!(&e.fact, Fact::Deleted { pod: p, .. } if p.uid == pod.uid)
        })
    }
}
