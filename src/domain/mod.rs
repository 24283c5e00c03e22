//! The types that all modules share: instances, nodes, pods, hooks, interruptions, disruption
//! budgets, moments.
//!
//! This module does no I/O and makes no decisions. Its types hold only valid values: input from
//! outside is parsed into them once, where it enters.

mod annotations;
mod answer;
mod budget;
mod causes;
mod compat;
mod drain_request;
mod duration;
mod eviction_start;
mod gates;
mod gone_nodes;
mod group_capacity;
mod hook;
mod impairment;
mod instance;
mod instance_status;
mod interruption;
mod interruption_facts;
mod keys;
mod labels;
mod moment;
mod node;
mod node_requests;
mod pace;
mod pod;
mod pod_order;
mod pod_rules;
mod pod_wish;
mod region;
mod reservation;
mod response;
mod rules;
mod scheduled_change;
mod selector;
mod settings;
mod skew;
mod volumes;
mod weekly_window;

pub use annotations::Annotations;
pub use answer::ApiAnswer;
pub use budget::{Budget, BudgetKey};
pub use causes::with_causes;
pub use compat::Compat;
pub use drain_request::{DrainRequest, MAX_REQUESTS, RequestProblem, RequestStage};
pub use duration::{duration_text, parse_duration};
pub use eviction_start::{EvictAfter, EvictAfterByKind, EvictionStart, KindEvictAfter};
pub use gates::{Gate, GateKind, NodeGates};
pub use gone_nodes::GoneNodes;
pub use group_capacity::GroupCapacity;
pub use hook::{
    GroupName, HookDescription, HookKey, HookName, HookResult, LifecycleAction, LifecycleToken,
    Transition, WaitPurpose, is_retained,
};
pub use impairment::{ImpairedStatus, Impairment, KindThen, LastSickness, Symptom};
pub use instance::{InstanceFacts, InstanceId, InstanceState, NotAnInstanceId};
pub use instance_status::{FailedCheck, InstanceStatus, ScheduledEvent, StatusCheck};
pub use interruption::{
    CapacityBlock, Cause, HookAction, HookPurpose, Interruption, Kind, PoolEnd, SpotAction,
    is_sweep_event_id, sweep_event_id,
};
pub use interruption_facts::{
    BLOCK_NOTICE, BLOCK_TERMINATION, ENDING_NOTICE, InterruptionFacts, SPOT_NOTICE, force_time,
};
pub use keys::*;
pub use labels::Labels;
pub use moment::{Moment, seconds};
pub use node::{
    Node, NodeName, Ready, ShownCondition, ShownDrain, ShownMaintenance, Taint, is_older_version,
};
pub use node_requests::{Asking, KeptRequest, NodeRequests};
pub use pace::{HeldBy, NodeShare, PaceHold, PaceLimits};
pub use pod::{DaemonSetName, NotADaemonSetName, Owner, Phase, Pod, PodKey, PodUid};
pub use pod_order::{CRITICAL_PRIORITY, MAX_POD_GROUPS, PodOrder, PriorityBands};
pub use pod_rules::{
    MAX_POD_RULES, NamespaceLabels, PodBehavior, PodMatch, PodRule, PodRules, RuleMatch, RulePlace,
    RulesOnNode,
};
pub use pod_wish::{PodWishes, Wish, WishSource};
pub use region::{is_region, region_of_host};
pub use reservation::{NotAReservationId, ReservationId};
pub use response::{KindResponse, Response, Responses, document as responses_document};
pub use rules::{DaemonSetState, Exclusion, ForceAfter, LimitSource, Limits, Verification};
pub use scheduled_change::{
    ChangeAction, ChangeFamily, ChangeSchedule, ChangeStatus, HealthNotice, is_ec2_event_id,
};
pub use selector::{BadSelector, Selector};
pub use settings::{
    AllowedSettings, DrainSettings, ReadSettings, Setting, SettingFault, SettingInForce,
    SettingProblem, SettingSource, document as settings_table, in_force,
};
pub use skew::{ClockSkew, SteadySkew};
pub use volumes::{AttachedVolumes, VolumeWaitEnd, VolumesSeen, WaitForVolumes};
pub use weekly_window::{Opening, WeeklyWindow};
