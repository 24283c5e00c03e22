//! The record of a Node: what was taken on, as the annotation `sundown.dev/record`, and everything
//! else that is written to a Node: the cordon, the taint, the load balancer label.
//!
//! The record holds *facts* (what AWS said and when it was taken on); deadlines are derived from
//! them. Only "accepted" and "released" are ever written, all times by AWS's clock: draining
//! follows from the Node and its pods.
//!
//! | [`Standing`] | what it means | what happens |
//! | --- | --- | --- |
//! | `None` | no record | - |
//! | `Damaged` | not readable | left alone, told, replaced by the next interruption |
//! | `Open` | taken on and not released | it is drained; its hooks are owed |
//! | `Doubtful` | the boot id changed, a hook may still be open | one accepted beat makes it count, else it is void |
//! | `Released` | history | never joined; while our cordon and taint stand, most of what comes is a repeat |
//! | `Void` | of another instance or another boot | its drain ends, what is still ours is put back ([`restore`]) |
//!
//! Every write is a JSON merge patch (RFC 7386) that carries `metadata.resourceVersion` and
//! `metadata.uid`, so that the API server refuses it (409) when the Node has changed since: re-read
//! and build it again.

mod accept;
mod compat;
mod confirmed;
mod deleted;
mod ended;
mod life;
mod patch;
mod returned;
mod room;
mod schema;
mod status;
#[cfg(test)]
pub(crate) mod tests;

pub use accept::{Accept, AcceptOptions, accept, recognise};
pub use confirmed::{ConfirmedNodes, Trust};
pub use deleted::{HeldRecord, MissingRecord, OnDeletion, OnMissingRecord, RecordDeletion};
pub use ended::{EndReason, EndedDrain, OnEnd};
pub use life::{
    After, bring_back, carried_over, carry_over, release, reregister, restore, write_back,
    write_back_released,
};
pub use patch::{cordon, exclude};
pub use returned::{Returned, returned};
pub use room::LabelRoom;
pub use schema::{
    Before, Damage, MAX_BYTES, MAX_HOOKS, MAX_INTERRUPTIONS, Record, Released, VERSION,
};
pub use status::{Doubt, Ours, RecordStatus, VoidReason, ours, status};
