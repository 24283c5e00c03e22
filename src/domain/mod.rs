//! The words of the field: instances, nodes, pods, hooks, interruptions, disruption budgets,
//! moments.
//!
//! Nothing here talks to anybody and nothing here decides anything. A type of this room cannot hold
//! nonsense: what comes from outside is parsed into it once, at the edge.

mod answer;
mod budget;
mod causes;
mod compat;
mod hook;
mod instance;
mod interruption;
mod keys;
mod labels;
mod moment;
mod node;
mod pod;
mod region;
mod rules;
mod selector;
mod skew;
mod taken;

pub use answer::ApiAnswer;
pub use budget::{Budget, BudgetKey};
pub use causes::with_causes;
pub use compat::Compat;
pub use hook::{
    GroupName, HookDescription, HookKey, HookName, LifecycleAction, LifecycleToken, Transition,
};
pub use instance::{InstanceFacts, InstanceId, InstanceState, NotAnInstanceId};
pub use interruption::{
    HealthNotice, HookAction, HookPurpose, Interruption, Kind, PoolEnd, SpotAction, What,
};
pub use keys::*;
pub use labels::Labels;
pub use moment::{Moment, seconds};
pub use node::{Node, NodeName, Ready, Taint, is_older_version};
pub use pod::{Owner, Phase, Pod, PodKey, PodUid};
pub use region::{is_region, region_of_host};
pub use rules::{DaemonSetState, Exclusion, ForceAfter, Limits};
pub use selector::{BadSelector, Selector};
pub use skew::{ClockSkew, SteadySkew};
pub use taken::{ENDING_NOTICE, SPOT_NOTICE, Taken, force_time};
