//! A fleet with facts that a test sets, and the names of its effects.

mod answers;
mod drain_conditions;
mod gates;
mod impaired;
mod pace;
mod pacing;
mod planned;
mod pod_rules;
mod properties;
mod replacement;
mod requests;
mod responses;
mod settings;
mod transitions;
mod verification;
mod volumes;

use std::sync::{Mutex, PoisonError};

use super::*;
use crate::{
    domain::{Budget, Node, Selector},
    drain::SilenceEvidence,
    lifecycle::{ActionSeen, Skew},
    record::tests::{INSTANCE, at, id},
};

/// What the fleet can look up. A test changes it between two steps.
#[derive(Clone, Default)]
pub(super) struct FakeFacts(Arc<Mutex<Known>>);

#[derive(Default)]
pub(super) struct Known {
    pub(super) nodes: BTreeMap<NodeName, Arc<Node>>,
    pub(super) closed_actions: BTreeSet<LifecycleAction>,
    /// AWS has answered in an earlier term that they are not open.
    pub(super) over_actions: BTreeSet<LifecycleAction>,
    pub(super) kept_alive: BTreeSet<LifecycleAction>,
    pub(super) deleted_nodes: Vec<LastKnownNode>,
    pub(super) budgets: Vec<Arc<Budget>>,
    /// How often all budgets were read.
    pub(super) budget_reads: usize,
    /// How many of the ten Nodes have a silent kubelet.
    pub(super) silent: usize,
}

impl FakeFacts {
    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut Known) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Facts for FakeFacts {
    fn node(&self, name: &NodeName) -> Option<Arc<Node>> {
        self.with(|known| known.nodes.get(name).cloned())
    }
    fn nodes_of(&self, instance: &InstanceId) -> Vec<Arc<Node>> {
        self.with(|known| {
            known
                .nodes
                .values()
                .filter(|node| node.instance.as_ref() == Some(instance))
                .cloned()
                .collect()
        })
    }
    fn all_nodes(&self) -> Vec<Arc<Node>> {
        self.with(|known| known.nodes.values().cloned().collect())
    }
    fn silence_evidence(&self) -> SilenceEvidence {
        let silent = self.with(|known| known.silent);
        SilenceEvidence { watch_failing_since: None, watch_failed_at: None, nodes: 10, silent }
    }
    fn budgets(&self) -> Vec<Arc<Budget>> {
        self.with(|known| {
            known.budget_reads += 1;
            known.budgets.clone()
        })
    }
    fn skew(&self) -> Skew {
        Skew::default()
    }
    fn is_closed(&self, action: &LifecycleAction) -> bool {
        self.with(|known| known.closed_actions.contains(action))
    }
    fn is_over(&self, action: &LifecycleAction) -> bool {
        self.is_closed(action) || self.with(|known| known.over_actions.contains(action))
    }
    fn is_kept_alive(&self, action: &LifecycleAction) -> bool {
        self.with(|known| known.kept_alive.contains(action))
    }
    fn deleted_node(&self, uid: &str) -> Option<LastKnownNode> {
        self.all_deleted_nodes().into_iter().find(|deleted| deleted.node.uid == uid)
    }
    fn all_deleted_nodes(&self) -> Vec<LastKnownNode> {
        self.with(|known| known.deleted_nodes.clone())
    }
    fn heartbeats(&self, _: &NodeName) -> u64 {
        0
    }
    fn failing_watch(&self, _: &NodeName) -> Option<(Moment, String)> {
        None
    }
}

/// A fleet at the beginning of its term.
pub(super) struct World {
    pub(super) fleet: Fleet,
    pub(super) facts: FakeFacts,
    pub(super) now: i64,
}

impl World {
    /// The LIST of the term has no answer yet.
    pub(super) fn unconfirmed() -> Self {
        Self::with(Exclusion::Never)
    }

    fn with(exclude: Exclusion) -> Self {
        let facts = FakeFacts::default();
        let settings = Settings {
            leads_since: at(0),
            policy: Arc::new(Policy::new(Selector::default())),
            drain: drain::Settings::default().into(),
            dispatch: drain::DispatchSettings::default(),
            limits: LimitSettings::default(),
            exclude: Some(exclude),
            pace: PaceLimits::default(),
            wait_for_volumes: WaitForVolumes::Never,
            complete_delay: Duration::ZERO,
            changes: crate::domain::ChangeSchedule { lead: Duration::from_hours(1), window: None },
            shows_maintenance: true,
            shows_drains: false,
            own_pod: None,
        };
        let mut world =
            Self { fleet: Fleet::new(settings, Box::new(facts.clone())), facts, now: 0 };
        assert!(world.step(Input::Begun).is_empty());
        world
    }

    /// The LIST of the term was answered, and there were no unschedulable Nodes.
    pub(super) fn confirmed() -> Self {
        Self::excluding(Exclusion::Never)
    }

    /// The same, where nodes leave load balancers at this time.
    pub(super) fn excluding(exclude: Exclusion) -> Self {
        let mut world = Self::with(exclude);
        assert!(
            world
                .step(Input::Unschedulable { version: "1".to_owned(), nodes: Vec::new() })
                .is_empty()
        );
        world
    }

    pub(super) fn step(&mut self, input: Input) -> Vec<Effect> {
        self.fleet.step(at(self.now), input)
    }

    /// The index shows this Node from now on.
    pub(super) fn shows(&mut self, node: &Node) -> Vec<&'static str> {
        let node = Arc::new(node.clone());
        self.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
        words(&self.step(Input::NodeApplied(node)))
    }

    /// An interruption was accepted: this Node has its record.
    pub(super) fn accepts(&mut self, node: &Node) -> Vec<&'static str> {
        let node = Arc::new(node.clone());
        self.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
        words(&self.step(Input::Accepted {
            node,
            instance: id(INSTANCE),
            instance_has_ended: false,
        }))
    }

    pub(super) fn deletes(&mut self, node: &Node) -> Vec<&'static str> {
        self.facts.with(|known| known.nodes.remove(&node.name));
        words(&self.step(Input::NodeDeleted(Arc::new(node.clone()))))
    }

    /// `seconds` pass, and the fleet gets its tick.
    pub(super) fn after(&mut self, seconds: i64) -> Vec<&'static str> {
        self.now += seconds;
        words(&self.step(Input::Tick))
    }

    /// AWS has answered a heartbeat for the action of this hook and token.
    pub(super) fn sees(&mut self, hook: &str, token: &str, seen: ActionSeen) -> Vec<&'static str> {
        let interruption = crate::record::tests::hook("e1", 0, hook, token);
        let action = interruption.lifecycle_action(&id(INSTANCE)).unwrap();
        words(&self.step(Input::Hook(action, HookFacts { seen, ..HookFacts::default() })))
    }

    pub(super) fn pods(&mut self, node: &Node, change: drain::Input) -> Vec<&'static str> {
        words(&self.step(Input::Pods(node.name.clone(), change)))
    }
}

/// The names of the effects that change something outside or ask a question. Reports are left out.
pub(super) fn words(effects: &[Effect]) -> Vec<&'static str> {
    effects.iter().filter_map(word).collect()
}

fn word(effect: &Effect) -> Option<&'static str> {
    Some(match effect {
        Effect::WatchPods(_) => "watch pods",
        Effect::UnwatchPods(_) => "unwatch pods",
        Effect::Send { .. } => "send",
        Effect::Ask(Question::InstanceOf(_)) => "ask which instance",
        Effect::Ask(Question::OpenHooks { .. }) => "ask for open actions",
        Effect::Ask(Question::Verify { .. }) => "verify",
        Effect::Ask(Question::Contradiction { .. }) => "ask whether it stays",
        Effect::Ask(Question::Replacement { .. }) => "ask for a replacement",
        Effect::Ask(Question::Group { .. }) => "ask for the group",
        Effect::Ask(Question::SilentNode { .. }) => "read the silent node",
        Effect::Ask(Question::InstanceState { .. }) => "ask for the instance",
        Effect::Ask(Question::Volumes(_)) => "ask for volumes",
        Effect::StopAskingState(_) => "stop asking for the instance",
        Effect::Ask(Question::Namespaces(_)) => "ask for namespaces",
        Effect::Ask(Question::Node(_)) => "read the node",
        Effect::Ask(Question::DaemonSet { .. }) => "ask for the DaemonSet",
        Effect::KeepAlive { .. } => "keep alive",
        Effect::StopKeepAlive(_) => "stop keep alive",
        Effect::RestoreRecord(_, RecordRestoration::WriteBack(_)) => "write back",
        Effect::RestoreRecord(_, RecordRestoration::Register(..)) => "register",
        Effect::RestoreRecord(_, RecordRestoration::CarryOver(_)) => "carry over",
        Effect::RestoreNode(_) => "restored",
        Effect::BeginChange(..) => "begin the change",
        Effect::BeginRequest(..) => "accept the request",
        Effect::SetMaintenance(..) => "set the condition",
        Effect::SetDrainConditions(..) => "set the conditions of the drain",
        Effect::Exclude(_) => "exclude",
        Effect::Complete(completion) if completion.actions.is_empty() => "write the end",
        Effect::Complete(_) => "complete",
        Effect::Report(..)
        | Effect::ReportFleet(_)
        | Effect::StopVerifying(_)
        | Effect::StopReadingSilent(_)
        | Effect::CompleteFrom(..)
        | Effect::CompleteNow(_)
        | Effect::ForgetDeletedNode(_)
        | Effect::DeadlineIs(..)
        | Effect::DrainResumed { .. }
        | Effect::VerifyActions { .. }
        | Effect::PausedAll(_) => return None,
    })
}
