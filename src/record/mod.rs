//! The record of a Node (annotation `sundown.dev/record`), and everything else that Sundown writes
//! to a Node: the cordon, the taint, the load balancer label.
//!
//! The record holds *facts*: which interruptions AWS reported, and when Sundown accepted them.
//! Deadlines are derived from them. Its only states are open and released, because the progress of
//! a drain follows from the Node and its pods. All times are by AWS's clock.
//!
//! To restore a Node is to undo what Sundown changed on it.
//!
//! | [`RecordStatus`] | what it means | what happens |
//! | --- | --- | --- |
//! | `None` | there is no record | - |
//! | `Damaged` | the annotation cannot be read | it is reported and left as it is until the next interruption replaces it |
//! | `Open` | accepted and not released | the node is drained, and its lifecycle actions are completed |
//! | `Doubtful` | the machine has booted since, and a hook may still be open | it counts once a heartbeat is accepted, and is void otherwise |
//! | `Released` | its drain has ended | no interruption joins it; while Sundown's cordon and taint are on the Node, most interruptions are repeats |
//! | `Void` | it belongs to another instance or an earlier boot | its drain ends, and the Node is restored ([`restore_node`]) |
//!
//! Every write is a JSON merge patch (RFC 7386) with `metadata.resourceVersion` and `metadata.uid`,
//! so that the API server refuses it (409) if the Node has changed since. The caller then reads the
//! Node again and builds a new patch.

mod accept;
mod before;
mod booted;
mod compat;
mod confirmed;
mod deleted;
mod drain_conditions;
mod ended;
mod exclusion_limit;
mod gone;
mod impaired;
mod life;
mod maintenance;
mod new_entry;
mod patch;
mod planned;
mod requests;
mod return_check;
mod returned;
mod schema;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod unreported_end;
mod warm_pool;

pub use accept::{
    Accept, AcceptOptions, accept, is_another_wait, is_before_last_drain, may_begin_change,
    recognize,
};
pub use booted::{AwaitedBoot, BootChecks, MissingOfBoot, awaited_boot};
pub use confirmed::{ConfirmedNodes, Trust};
pub use deleted::{HeldRecord, MissingRecord, OnDeletion, OnMissingRecord, RecordDeletion};
pub use drain_conditions::{
    DrainConditions, DrainConditionsChange, drain_conditions_change, own_drain_condition,
};
pub use ended::{EndReason, EndedDrain, OnEnd};
pub use exclusion_limit::ExclusionLimit;
pub use gone::{AwaitedTermination, GoneStep, GoneWait, awaited_termination, ends_instance};
pub use impaired::{impaired_status, last_sickness};
pub use life::{
    After, is_restore_due, kept_annotations, lacks_a_hook, merge_patch, merged_record, release,
    reregister, restore_node, restore_record, write_back, write_back_released,
};
pub use maintenance::{MaintenanceCondition, maintenance_condition};
pub use new_entry::ENDS_SOON;
pub use patch::{cordon, exclude};
pub use planned::{
    MAX_CHANGES, MAX_PLANNED_BYTES, Plan, PlanChange, PlanTime, Planned, PlannedChange, Withdrawal,
    WithdrawnChanges, holds_change, plan, withdrawn_changes,
};
pub use requests::{
    Refusal, RefusedRequest, RequestChanges, next_request, refused_requests, request_changes,
};
pub use return_check::{AwaitedReturn, AwsAnswer, Look, ReturnSightings, awaited_return};
pub use returned::{Returned, returned, waits_to_end_again};
pub use schema::{
    Before, Damage, MAX_BYTES, MAX_HOOKS, MAX_INTERRUPTIONS, Record, Released, VERSION,
};
pub use status::{Doubt, Ours, RecordStatus, VoidReason, ours, status};
pub use unreported_end::{MAX_ASKED, may_end_unreported, unreported_end};
pub use warm_pool::into_warm_pool;
