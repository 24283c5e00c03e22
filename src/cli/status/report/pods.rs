//! What is left on a node, what blocks it and until when, computed with the drain's own code.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Reader, events::blocked_since, gates};
use crate::{
    cli::{
        status::model::{BlockedPod, GateState, Held, NodeStatus, Pods},
        words::count,
    },
    config::DrainConfig,
    controller::drain_settings,
    domain::{EvictionStart, InterruptionFacts, Limits, Moment, Node, Pod, Wish, WishSource},
    drain::{
        self, BlockReason, Counts, Drain, Effect, Input, KnownBlock, Settings, Start,
        blocked_by_budgets,
    },
    fleet::limits_of,
    lifecycle::{ActionSeen, HookFacts, LimitSettings, can_wait_until, eviction_start},
};

/// A remark about the leader.
pub(in crate::cli) const FOLLOWS_RULES: &str = "The leader follows rules about pods \
    (--rules-file), which `sundown status` does not read: it may evict some pods later, force them \
    at another time, or leave them alone. `sundown explain NODE` shows what they decide.";
/// What a pod that asks to go last has.
const ASKS_LAST: &str = "sundown.dev/drain: last";

impl Reader<'_> {
    /// Computes the deadline, the forced deletion and the pods, with the drain's own code.
    pub(super) fn pods(
        &self,
        status: &mut NodeStatus,
        node: &Node,
        config: &DrainConfig,
        limits: &LimitSettings,
        interruptions: &[InterruptionFacts],
        accepted: Moment,
    ) {
        let now = self.facts.now;
        let resumed_at = self.resumed_at(node, accepted);
        let settings = limits;
        let limits = self.limits(node, settings, interruptions, accepted);
        let start = match limits.forced_at {
            Some(_) => EvictionStart::Now,
            None => eviction_start(&limits, interruptions, &settings.evict_after, false, now),
        };
        let evict_after = &settings.evict_after;
        let was_to_start = eviction_start(&limits, interruptions, evict_after, false, accepted);
        status.gates = gates::of_drain(node, &limits, interruptions, now);
        if status.hooks.is_empty() {
            status.gates.retain(|gate| gate.of != Held::Release);
        }
        status.remarks.extend(waiting_evictions(start));
        if config.rules_file.is_some() && limits.response.evicts() {
            status.follows_rules = true;
            status.remarks.push(FOLLOWS_RULES.to_owned());
        }
        status.deadline = limits.end_at;
        status.restore_at = limits.expires_at;
        if !limits.response.evicts() {
            return;
        }
        let Some(Ok(pods)) = self.facts.pods.get(&node.name) else { return };
        let hold_ended = self.hold_ended(node, accepted, was_to_start);
        let start = Start { node: node.name.clone(), cordoned_at: accepted, limits, own_pod: None };
        let of_drain = Arc::new(drain_settings(config));
        let mut drain = begun(start, Arc::clone(&of_drain), hold_ended);
        self.list_pods(&mut drain, pods);
        let explanation =
            drain.explain(now, |_| &self.facts.budgets[..], |pod| self.known_block(pod, accepted));
        let machine = drain.status(now);
        let asks_last = |pod: &&Pod| {
            pod.deletion.is_none()
                && matches!(pod.wishes.honored(&of_drain.honored), Some((_, Wish::Last)))
        };
        let last = drain.pods_left().filter(asks_last).count();
        let (later, next) = (machine.counts.later, machine.next_group_at);
        status.remarks.extend(waiting_groups(later, last, config.rules_file.is_some(), next));
        status.remarks.extend(left_alone(&drain.skipped()));
        let asked = explanation.asked_to_wait.iter().map(|asked| format!("{}.", asked.describe()));
        status.remarks.extend(asked);
        for pod in &explanation.blocked {
            status.blocked.push(BlockedPod::of(pod));
        }
        let Counts {
            left: count, waiting, later, asked_to_wait, unknown, blocked, leaving, ..
        } = explanation.counts;
        for gate in status.gates.iter_mut().filter(|gate| gate.state == GateState::Waits) {
            if count == 0 {
                gate.state = GateState::Holds;
            }
        }
        if count == 0 {
            status.remarks.extend(self.attached_volumes(node, resumed_at));
        }
        let left: Vec<&Pod> = drain.pods_left().collect();
        // Which drains have begun is known to the leader alone. What it has asked to go shows that
        // this one has.
        let may_wait = can_wait_until(&limits, interruptions).is_some_and(|until| now < until)
            && limits.forced_at.is_none()
            && left.iter().any(|pod| pod.deletion.is_none())
            && leaving == 0
            && !left.iter().any(|pod| self.blocked_event(pod, accepted).is_some());
        if may_wait {
            status.remarks.extend(self.held_back(node, accepted));
        }
        let waiting = waiting + later + asked_to_wait + unknown;
        status.pods = Some(Pods { left: count, waiting, blocked, leaving });
        status.nothing_to_force = unknown == 0 && left.iter().all(|pod| pod.deletion.is_some());
        status.force_from = left.iter().filter_map(|pod| drain.forced_from(pod)).min();
    }

    /// The deadlines of the drain of a node, as far as the cluster shows them.
    pub(in crate::cli) fn limits(
        &self,
        node: &Node,
        settings: &LimitSettings,
        interruptions: &[InterruptionFacts],
        accepted: Moment,
    ) -> Limits {
        let resumed_at = self.resumed_at(node, accepted);
        // The leader has AWS's answer within seconds.
        let confirmed = HookFacts { seen: ActionSeen::Open, ..HookFacts::default() };
        let hooks = interruptions.iter().filter_map(|facts| facts.hook.clone());
        let hooks: BTreeMap<_, _> = hooks.map(|hook| (hook, confirmed.clone())).collect();
        let mut limits =
            limits_of(settings, interruptions, &hooks, resumed_at, &BTreeSet::new(), None);
        // The timeouts of hooks are not known here, so this deadline may be too late, never too
        // early.
        if let Some((ours, end)) = limits.end_at.zip(self.end_by_leader(node, resumed_at))
            && end < ours
        {
            let margin = limits.force_at.map(|at| ours.since_or_zero(at));
            limits.end_at = Some(end);
            limits.force_at = margin.map(|margin| end.minus(margin));
        }
        // Whether a replacement is ready is known to the leader alone.
        limits.forced_at = Some(self.facts.now).filter(|_| node.forced_by_hand());
        limits
    }

    /// Gives a drain its pods, and what is known of their DaemonSets.
    pub(in crate::cli) fn list_pods(&self, drain: &mut Drain, pods: &[Pod]) {
        let now = self.facts.now;
        for effect in drain.step(now, Input::Listed(pods.to_vec())) {
            if let Effect::AskDaemonSet { namespace, name } = effect
                && let Some(state) = self.facts.daemon_sets.get(&(namespace.clone(), name.clone()))
            {
                drain.step(now, Input::DaemonSet { namespace, name, state: *state });
            }
        }
    }

    /// What the budgets or an Event show of a pod that the drain here, which sends no evictions,
    /// does not find to be blocked.
    pub(in crate::cli) fn known_block(&self, pod: &Pod, accepted: Moment) -> Option<KnownBlock> {
        let Some(held) = blocked_by_budgets(pod, &self.facts.budgets) else {
            let (reason, message, since) = self.reported_block(pod, accepted)?;
            return Some(KnownBlock { reason, message, since });
        };
        Some(KnownBlock {
            reason: held.reason,
            message: budget_words(held.reason, &held.budgets),
            since: self.blocked_event(pod, accepted).map(|e| blocked_since(e, accepted)),
        })
    }
}

impl BlockedPod {
    pub(in crate::cli) fn of(pod: &drain::BlockedPod) -> Self {
        Self {
            pod: pod.pod.to_string(),
            reason: pod.reason.as_str(),
            budgets: pod.budgets.iter().map(ToString::to_string).collect(),
            message: pod.message.clone(),
            since: pod.since,
            force_from: pod.forced_from,
            needs: pod.reason.needs(),
        }
    }
}

/// A drain that was held until `hold_ended`: its groups share the time that was left then.
pub(in crate::cli) fn begun(
    start: Start,
    settings: Arc<Settings>,
    hold_ended: Option<Moment>,
) -> Drain {
    let Some(ended) = hold_ended else { return Drain::new(start, settings) };
    let limits = start.limits;
    let held = Limits { held_until: Some(ended), ..limits };
    let mut drain = Drain::new(Start { limits: held, ..start }, settings);
    drain.step(ended, Input::Limits(limits));
    drain
}

fn waiting_evictions(start: EvictionStart) -> Option<String> {
    match start {
        EvictionStart::Now => None,
        EvictionStart::At(at) => Some(format!("Its pods stay until {at:.0} (--evict-after).")),
        EvictionStart::ReplacementReady(at) => Some(format!(
            "Its evictions begin when the leader finds a replacement, at {at:.0} at the latest \
             (--evict-after)."
        )),
    }
}

/// The pods that Sundown leaves alone because they ask for it.
fn left_alone(skipped: &BTreeMap<WishSource, usize>) -> Option<String> {
    let keys: Vec<String> = skipped.keys().map(|key| format!("{}: skip", key.as_str())).collect();
    let pods = skipped.values().sum();
    let are = if pods == 1 { "is" } else { "are" };
    (pods > 0).then(|| format!("{} {are} left alone ({}).", count(pods, "pod"), keys.join(", ")))
}

/// The pods that wait for those of earlier groups. `last`: how many of them ask to go last. `next`:
/// when the first of them is evicted at the latest.
fn waiting_groups(
    pods: usize,
    last: usize,
    follows_rules: bool,
    next: Option<Moment>,
) -> Option<String> {
    let at = next?;
    let by_flags = if follows_rules { "--pod-order or --rules-file" } else { "--pod-order" };
    let why = match (last, pods > last) {
        (0, _) => by_flags.to_owned(),
        (_, false) => ASKS_LAST.to_owned(),
        (_, true) => format!("{by_flags}; {last} of them: {ASKS_LAST}"),
    };
    let latest =
        if at == Moment::MAX { String::new() } else { format!(", or until {at:.0} at the latest") };
    let (pods, are) = (count(pods, "pod"), if pods == 1 { "is" } else { "are" });
    Some(format!("{pods} {are} not evicted until the earlier pod groups are gone{latest} ({why})."))
}

fn budget_words(reason: BlockReason, budgets: &[&crate::domain::Budget]) -> String {
    match (reason, budgets) {
        (BlockReason::TwoPdbs, _) => {
            "The API evicts no pod that more than one budget counts.".to_owned()
        }
        (BlockReason::PdbLagging, _) => "The budget's status is behind its spec.".to_owned(),
        (_, [budget, ..]) => {
            let healthy = usize::try_from(budget.healthy).unwrap_or_default();
            format!("{}, {} needed", count(healthy, "healthy pod"), budget.desired)
        }
        (_, []) => String::new(),
    }
}
