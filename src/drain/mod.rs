//! The drain of one node, and the dispatcher over all drains: two state machines.
//!
//! [`Drain`] handles one node. It decides which of its pods count (Sundown evicts them and waits
//! for them), whether each is evicted or deleted, with which grace period, what blocks it, and when
//! the drain is over.
//!
//! [`Dispatcher`] handles all drains. It decides which request is sent next. It limits the requests
//! in flight, in all and for each disruption budget, orders them by priority, retries refused ones,
//! and pauses while the API server is overloaded.
//!
//! To run them:
//! 1. Call [`Drain::step`]. Pass each [`Effect::Dispatch`] to [`Dispatcher::step`], unchanged and
//!    in order.
//! 2. For each [`DispatchEffect::Send`], call [`Drain::order`] *at the moment of sending*, because
//!    it computes the grace period. If it returns `None`, pass [`DispatchInput::Withdrawn`] to the
//!    dispatcher. Otherwise send the order. Pass its answer first to the dispatcher
//!    ([`DispatchInput::Answer`] with the class from [`classify`]), then to the drain
//!    ([`Input::Answer`]). Every order that was sent needs an answer (code 0 if none came in time),
//!    even if its drain has ended, because the dispatcher counts the requests in flight.
//! 3. Pass all budgets to the dispatcher before the first drain begins: it cannot respect a budget
//!    that it does not know.
//! 4. Pass a `Tick` to each when its `next_wake` has come.
//!
//! Both are synchronous and deterministic: the same inputs at the same moments give the same
//! effects.

mod answer;
mod budget_block;
mod burst_gate;
mod comebacks;
mod daemon_sets;
mod dispatch;
mod dispatch_state;
mod dispatcher;
mod effect;
mod explain;
mod explain_pods;
mod force;
mod input;
mod machine;
mod order;
mod pod;
mod pod_queue;
mod request_queue;
mod request_queues;
mod retry_backoff;
mod silence;
mod slots;
mod status;
mod view;
mod volumes;
mod wish;

#[cfg(test)]
pub(crate) mod tests;

pub use answer::{Class, classify};
pub use budget_block::{BudgetBlock, blocked_by_budgets};
pub use dispatch::{DispatchEffect, DispatchInput, DispatchSettings, DispatchStatus, Method};
pub use dispatcher::Dispatcher;
pub use effect::{DeleteWhy, Effect, Note, Order, Outcome};
pub use explain::{BlockedPod, Blocker, Cause, Explanation, KnownBlock, Wait};
pub use explain_pods::{DecidedBy, MatchingRule, PodExplanation, PodPlan};
pub use input::{Input, NodeCondition, Settings, Start, WatchState};
pub use machine::Drain;
pub use pod_queue::NodePriority;
pub use silence::{SilenceEvidence, is_silent};
pub use status::{BlockReason, Blocked, Counts, LeftAlone, Phase, Status};
pub use wish::AskedToWait;
