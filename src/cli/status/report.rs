//! Makes the report about each drain from the facts. No I/O. Deadlines, pods and blocks come from
//! the code that the service runs.

mod after_drain;
mod events;
mod gates;
pub(in crate::cli) mod pods;
mod requests;
mod retained;

use self::after_drain::{AfterDrain, KEPT, LeaderHabits, over};
use super::{
    facts::{Facts, LeaseFacts},
    model::{
        self, Hook, Interruption, Leader, NodeStatus, PlannedChange, Report, State, Until,
        WaitingNode,
    },
};
use crate::{
    config::{DrainConfig, PublishedSweep},
    controller::limit_settings,
    domain::{
        Budget, ChangeSchedule, DrainSettings, InstanceId, InterruptionFacts, Moment, Node,
        NodeName, Response, Setting, in_force, seconds,
    },
    lifecycle::LimitSettings,
    record::{self, PlanTime, Planned, Record, RecordStatus, VoidReason},
};

/// Makes the report: about all drains, or about the node `only`.
pub(super) fn report(facts: &Facts, only: Option<&NodeName>) -> Report {
    let lease = facts.lease.as_ref();
    let mut notes = [facts.trouble.as_slice(), &facts.retained.trouble].concat();
    let leader = leader(facts, lease);
    let reader = Reader::new(facts);
    let wanted = |node: &&Node| only.is_none_or(|name| node.name == *name);
    let nodes: Vec<NodeStatus> = facts
        .nodes
        .iter()
        .filter(wanted)
        .filter_map(|node| reader.node(node, only.is_some()))
        .collect();
    let retained = retained::retained(facts);
    let is_retained = |node: &NodeName| retained.iter().any(|one| one.node.as_ref() == Some(node));
    let over = facts.nodes.iter().filter_map(|node| reader.waiting(node));
    let over = over.filter(|over| !is_retained(&over.node));
    let (drained, waiting): (Vec<_>, Vec<_>) =
        over.partition(|over| over.until == Until::InstanceGoes);
    if nodes.iter().any(|n| n.deadline.is_some()) {
        notes.extend(default_settings(lease));
    }
    Report {
        time: facts.now,
        leader,
        paused: lease.is_some_and(|l| l.is_paused),
        nodes,
        drained: drained.into_iter().map(|over| over.node).collect(),
        waiting,
        planned: reader.planned(facts.nodes.iter().filter(wanted)),
        retained,
        notes,
    }
}

/// That the settings of the leader are not known. `None`: they are.
pub(in crate::cli) fn default_settings(lease: Option<&LeaseFacts>) -> Option<String> {
    let why = match lease {
        Some(lease) if lease.settings.is_some() => return None,
        Some(_) => "The leader has not published its settings",
        None => "Without the Lease, the settings of the leader are not known",
    };
    Some(format!("{why}: deadlines are those of the default settings."))
}

/// The leader, if the Lease was renewed within twice its duration. Twice, because clocks may
/// differ.
pub(in crate::cli) fn leader(facts: &Facts, lease: Option<&LeaseFacts>) -> Leader {
    let is_alive =
        |l: &&LeaseFacts| l.renewed.is_some_and(|at| facts.now < at.plus(l.duration * 2));
    let alive = lease.filter(is_alive);
    Leader {
        lease: lease.map(|l| format!("{}/{}", l.namespace, l.name)),
        pod: alive.and_then(|l| l.holder.clone()),
        since: alive.filter(|l| l.holder.is_some()).and_then(|l| l.acquired),
        renewed: lease.and_then(|l| l.renewed),
    }
}

/// What a node waits for whose machine has booted since its drain.
fn booted(node: &Node) -> String {
    let pool = record::awaited_boot(node).and_then(|awaited| awaited.group);
    let runs = "EC2 reports the instance as running";
    let runs = match pool {
        Some(group) => format!("{runs}, and the instance has left the warm pool of {group}"),
        None => format!("and {runs}"),
    };
    let kept = if node.keeps_cordon() { KEPT } else { "" };
    format!(
        "The machine has booted since its drain. The node stays cordoned until it is Ready, its \
         kubelet has renewed its Lease, {runs}. Then Sundown restores it.{kept}"
    )
}

/// Whether a drain of this node may be open, so that its pods have to be read.
pub(super) fn has_drain(node: &Node) -> bool {
    match record::status(node, None) {
        RecordStatus::Open(_) => true,
        RecordStatus::Doubtful { record, .. } => record.released().is_none(),
        RecordStatus::None | RecordStatus::Damaged(_) => node.has_our_taint(),
        RecordStatus::Released { .. } | RecordStatus::Void { .. } => false,
    }
}

/// The settings of a drain that its Node, its hooks or else the flags give.
pub(in crate::cli) fn settings_in_force(
    config: &DrainConfig,
    limits: &LimitSettings,
    interruptions: &[InterruptionFacts],
) -> Vec<model::Setting> {
    let flags = DrainSettings {
        drain_timeout: config.timeout,
        force_after: Some(config.force_after),
        max_grace_period: None,
        complete_delay: Some(config.complete_delay),
    };
    let given = in_force(&limits.node, &limits.of_hooks(interruptions));
    let of = |setting: Setting| {
        let (value, source) = match given.iter().find(|given| given.setting == setting) {
            Some(given) => (given.value.clone(), given.source.as_str()),
            None => (flags.text(setting)?, "flag"),
        };
        Some(model::Setting { name: setting.as_str(), value, source })
    };
    Setting::ALL.into_iter().filter_map(of).collect()
}

/// Reads the facts about one node after the other.
pub(in crate::cli) struct Reader<'a> {
    facts: &'a Facts,
    lease: Option<&'a LeaseFacts>,
    /// `NotKnown`: nobody leads, or the leader has not published it.
    sweep: PublishedSweep,
    pub(in crate::cli) settings: Option<DrainConfig>,
}

impl<'a> Reader<'a> {
    pub(in crate::cli) fn new(facts: &'a Facts) -> Self {
        let lease = facts.lease.as_ref();
        let sweep = match (lease, leader(facts, lease).pod) {
            (Some(lease), Some(_)) => lease.service.sweep,
            _ => PublishedSweep::NotKnown,
        };
        let settings = lease.and_then(|lease| lease.settings.clone());
        let settings = settings.or_else(|| DrainConfig::from_published(""));
        Self { facts, lease, sweep, settings }
    }

    /// The moment for which it reads.
    pub(in crate::cli) const fn now(&self) -> Moment {
        self.facts.now
    }

    pub(in crate::cli) fn budgets(&self) -> &'a [Budget] {
        &self.facts.budgets
    }
}

impl Reader<'_> {
    /// The scheduled changes of these nodes that have not begun. Nodes without providerID show none.
    fn planned<'n>(&self, nodes: impl Iterator<Item = &'n Node>) -> Vec<PlannedChange> {
        let schedule = self.settings.as_ref().map(|settings| settings.changes);
        let schedule = schedule.unwrap_or(ChangeSchedule { lead: seconds(3600), window: None });
        let at = PlanTime { now: self.facts.now, schedule };
        let of_node = |node: &Node| {
            let instance = node.instance.as_ref()?;
            let planned = Planned::of(node, instance)?;
            let waiting = planned.waiting(at, node.boot_id.as_deref());
            let change = planned.announced(at.now)?;
            let drains = waiting.contains(&change).then(|| change.due_at(at));
            Some(PlannedChange {
                node: node.name.clone(),
                code: change.code.clone(),
                starts: change.starts,
                drains: drains.filter(|drains| *drains > at.now),
            })
        };
        let mut all: Vec<_> = nodes.filter_map(of_node).collect();
        all.sort_by(|one, other| (one.starts, &one.node).cmp(&(other.starts, &other.node)));
        all
    }

    /// What becomes of this Node, whose record is released.
    fn after_drain(&self, node: &Node, record: &Record, has_our_changes: bool) -> AfterDrain {
        let wanted = self.settings.as_ref().map(|settings| settings.gone_nodes);
        let habits = LeaderHabits { gone_nodes: wanted.unwrap_or_default(), sweep: self.sweep };
        AfterDrain::of(node, record, has_our_changes, habits, self.facts.now)
    }

    /// `None`: its drain is not over, or it is not cordoned, or retained.
    fn waiting(&self, node: &Node) -> Option<WaitingNode> {
        let RecordStatus::Released { record, has_our_changes } = record::status(node, None) else {
            return None;
        };
        let until = self.after_drain(node, &record, has_our_changes).until()?;
        Some(WaitingNode { node: node.name.clone(), until })
    }

    /// `None`: no drain is open, and the user did not name the node.
    pub(in crate::cli) fn node(&self, node: &Node, is_named: bool) -> Option<NodeStatus> {
        let mut status = match record::status(node, None) {
            RecordStatus::Open(record) => self.drain(node, &record, Vec::new()),
            RecordStatus::Doubtful { record, .. } if record.released().is_none() => self.drain(
                node,
                &record,
                vec!["The leader is finding out whether the record is of this machine.".to_owned()],
            ),
            RecordStatus::None | RecordStatus::Damaged(_) if node.has_our_taint() => {
                let remark = "Its record was deleted or is damaged; the leader may still know it. \
                    See operations.md, \"A record is damaged\".";
                Self::bare(node, State::RecordLost, remark)
            }
            RecordStatus::Void { why: VoidReason::Rebooted, .. } if node.has_our_taint() => {
                Self::bare(node, State::NotDraining, &booted(node))
            }
            _ if !is_named => return None,
            RecordStatus::None => Self::bare(
                node,
                State::NotDraining,
                "It has no record: nothing was announced for it.",
            ),
            RecordStatus::Released { record, has_our_changes } => {
                let next = self.after_drain(node, &record, has_our_changes);
                let remark = over(&record, &next, node.keeps_cordon());
                Self::bare(node, State::NotDraining, &remark)
            }
            RecordStatus::Void { .. } => Self::bare(
                node,
                State::NotDraining,
                "Its record is of another instance or of an earlier boot.",
            ),
            RecordStatus::Damaged(damage) => {
                Self::bare(node, State::NotDraining, &damage.to_string())
            }
            RecordStatus::Doubtful { record, .. } => {
                Self::bare(node, State::NotDraining, &over(&record, &AfterDrain::Serves, false))
            }
        };
        status.remarks.extend(self.retained_remark(node));
        status.remarks.extend(self.request_remarks(node));
        if node.ignored() {
            status
                .remarks
                .push("It carries sundown.dev/ignore: Sundown leaves it alone.".to_owned());
        }
        if status.state == State::NotDraining && node.paused() {
            status.remarks.push(
                "It carries sundown.dev/pause: its next drain waits until `sundown resume NODE`."
                    .to_owned(),
            );
        }
        Some(status)
    }

    fn bare(node: &Node, state: State, remark: &str) -> NodeStatus {
        NodeStatus {
            node: node.name.clone(),
            instance: node.instance.as_ref().map(ToString::to_string),
            state,
            remarks: vec![remark.to_owned()],
            interruptions: Vec::new(),
            since: None,
            deadline: None,
            restore_at: None,
            force_from: None,
            follows_rules: false,
            nothing_to_force: false,
            pods: None,
            blocked: Vec::new(),
            hooks: Vec::new(),
            gates: Vec::new(),
            settings: Vec::new(),
            events: Vec::new(),
        }
    }

    fn drain(&self, node: &Node, record: &Record, mut remarks: Vec<String>) -> NodeStatus {
        let now = self.facts.now;
        let instance = node.instance.as_ref().unwrap_or_else(|| record.instance());
        let interruptions = record.interruptions(instance);
        let accepted = record.accepted().unwrap_or(now);
        let paused = node.paused() || self.lease.is_some_and(|l| l.is_paused);
        let response = record.response();
        if response.cordons() && !node.unschedulable {
            remarks.push(
                "Somebody uncordoned it. Its taint keeps new pods away; Sundown goes on."
                    .to_owned(),
            );
        }
        match response {
            Response::Drain => {}
            Response::Cordon => {
                remarks.push("Only cordoned (--on, stage=cordon): its pods stay.".to_owned());
            }
            Response::Prefer | Response::Ignore => {
                remarks
                    .push("Only tainted with PreferNoSchedule (--on): its pods stay.".to_owned());
            }
        }
        if node.released_by_hand() {
            remarks.push("Its release was asked for.".to_owned());
        }
        if node.forced_by_hand() {
            let effect = if paused {
                "After the pause, Sundown ignores budgets, gates and other drains."
            } else {
                "Sundown no longer waits for budgets, gates or other drains."
            };
            remarks.push(format!("A person forces this drain (sundown.dev/force). {effect}"));
        }
        remarks.extend(gates::further(node));
        if interruptions.iter().all(|t| t.stale) && !interruptions.is_empty() {
            remarks.push(
                "Its interruption was read late: nothing is forced until AWS confirms it."
                    .to_owned(),
            );
        }
        let mut status = NodeStatus {
            node: node.name.clone(),
            instance: Some(instance.to_string()),
            state: match paused {
                true => State::Paused,
                false if response.evicts() => State::Draining,
                false => State::Marked,
            },
            remarks,
            interruptions: interruptions
                .iter()
                .map(|facts| Interruption::of(facts, node))
                .collect(),
            since: Some(accepted),
            deadline: None,
            restore_at: None,
            force_from: None,
            follows_rules: false,
            nothing_to_force: false,
            pods: None,
            blocked: Vec::new(),
            hooks: self.hooks(node, record, instance),
            gates: Vec::new(),
            settings: Vec::new(),
            events: self.last_events(node, accepted),
        };
        if let Some(config) = &self.settings {
            let limits = limit_settings(config);
            let (of_node, problems) = limits.of_node(node);
            let limits = LimitSettings { node: of_node, ..limits };
            status.settings = settings_in_force(config, &limits, &interruptions);
            status.remarks.extend(problems.into_iter().map(|problem| format!("{problem}.")));
            let holding = requests::holding(&interruptions, node);
            self.pods(&mut status, node, config, &limits, &holding, accepted);
        }
        if paused {
            status.force_from = None;
            status.blocked.iter_mut().for_each(|pod| pod.force_from = None);
        }
        status
    }

    fn hooks(&self, node: &Node, record: &Record, instance: &InstanceId) -> Vec<Hook> {
        let accepted = record.accepted().unwrap_or(self.facts.now);
        let actions = record.open_actions(instance);
        let hook = |hook: &crate::domain::LifecycleAction| {
            let both = format!("{}/{}", hook.key.group, hook.key.hook);
            let kept = self.events_of(node, accepted).filter(|e| {
                e.reason == "HookKeptOpen" && e.message.split([' ', ',']).any(|word| word == both)
            });
            Hook {
                group: hook.key.group.to_string(),
                name: hook.key.hook.to_string(),
                last_heartbeat: kept.map(|e| e.last).max(),
            }
        };
        actions.iter().map(hook).collect()
    }
}
