//! The drain of one node and the dispatcher over all drains, as two state machines.
//!
//! [`Drain`] knows one node: which of its pods count, what is wanted for each (an eviction, a
//! forced delete, nothing), with which grace period, what blocks it, and when the drain is over.
//! [`Dispatcher`] knows all drains at once: how many orders may be under way, under which
//! disruption budget, whose turn it is, when a refused one is tried again, and the pause under
//! overload.
//!
//! How they are run:
//! 1. [`Drain::step`] gives effects; each [`Effect::Dispatch`] is fed to [`Dispatcher::step`] as it
//!    is, in order.
//! 2. For each [`DispatchEffect::Go`] the runner asks [`Drain::order`] *at the moment of sending*
//!    (the grace is computed then). `None`: it feeds [`DispatchInput::Withdrawn`]. Else it sends
//!    the order, and feeds the answer first to the dispatcher ([`DispatchInput::Answer`] with
//!    [`classify`]'s class), then to the drain ([`Input::Answer`]). Every order sent must be
//!    answered in the end (code 0 when the answer did not come in time), also when its drain has
//!    ended by then: the dispatcher counts what is under way.
//! 3. The dispatcher is told of all budgets before the first drain begins: what it does not know of
//!    it cannot keep to.
//! 4. Both give `next_wake`; at that moment they want a `Tick`.
//!
//! Both are synchronous and deterministic: the same inputs at the same moments give the same
//! effects.

mod answer;
mod comebacks;
mod daemon_sets;
mod dispatch;
mod dispatcher;
mod effect;
mod force;
mod gate;
mod held;

mod input;
mod lane;
mod lanes;

mod machine;
mod patience;
mod pod;

mod silence;
mod slots;
mod status;
mod turn;
mod view;
mod wanted;

#[cfg(test)]
pub(crate) mod tests;

pub use answer::{Class, classify};
pub use dispatch::{By, DispatchEffect, DispatchInput, DispatchSettings, DispatchStatus};
pub use dispatcher::Dispatcher;
pub use effect::{DeleteWhy, Effect, Note, Order, Outcome};
pub use held::{Held, held_by};
pub use input::{Input, NodeCondition, Settings, Start, WatchState};
pub use machine::Drain;
pub use silence::{Hearing, is_silent};
pub use status::{BlockReason, Blocked, Counts, LeftAlone, Phase, Status};
pub use turn::Turn;
