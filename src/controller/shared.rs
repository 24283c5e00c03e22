//! What all tasks of the service share, whether this process leads or not.

use std::sync::Arc;

use tokio::sync::watch;

use super::{
    Board, Sinks, deleted_nodes::DeletedNodes, hooks::heartbeat_answers::HeartbeatAnswers,
    scheduled_events::EventsAreFound,
};
use crate::{
    aws::{Clients, Lookups},
    cluster::{BudgetWatch, Cluster, DaemonSets, NodeIndex, Recorder, lease::WriteGuard},
    config::Config,
    domain::{Moment, PodRules},
    observe::{Metrics, ReadyFlag},
    runtime::{Clock, Random, Spawner},
    triage,
};

/// What outlives a term: clients, caches, settings. All its owners share one, because thousands of
/// tasks need it.
pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    pub(super) policy: Arc<triage::Policy>,
    pub(super) cluster: Cluster,
    pub(super) nodes: NodeIndex,
    pub(super) budgets: BudgetWatch,
    pub(super) daemon_sets: DaemonSets,
    pub(super) recorder: Recorder,
    pub(super) aws: Clients,
    pub(super) lookups: Lookups,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) spawner: Spawner,
    pub(super) metrics: Arc<Metrics>,
    pub(super) board: Board,
    pub(super) guard: WriteGuard,
    pub(super) deleted_nodes: DeletedNodes,
    /// Kept from term to term: what AWS last answered to the heartbeats of each action.
    pub(super) heartbeat_answers: HeartbeatAnswers,
    /// The condition `records` of `/readyz`: this leader has listed the unschedulable Nodes, so it
    /// knows which ones its predecessor was draining. A standby fulfills it.
    pub(super) records_ready: ReadyFlag,
    /// Until when test events that ask for it are acted on (`--accept-real-tests`).
    pub(super) real_tests_until: Option<Moment>,
    pub(super) sinks: Sinks,
    /// The last good rules about pods (`--rules-file`).
    pub(super) pod_rules: watch::Sender<Arc<PodRules>>,
    /// Whether a scheduled change whose message is lost is found.
    pub(super) events_are_found: EventsAreFound,
}
