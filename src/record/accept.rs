//! Taking an interruption on.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    Before, MAX_BYTES, MAX_INTERRUPTIONS, Record, Standing, VERSION, ours,
    patch::{NodePatch, urgency},
    schema::{Entry, Known},
    standing,
};
use crate::domain::{EXCLUDE_FROM_LOAD_BALANCERS, EXCLUDED_BY_US, InstanceId, Interruption, Kind, Moment, MomentExt, Node, RECORD, Taken, seconds};

/// What else bears on an accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptOptions {
    /// Set the load balancer label in the same patch (if nobody else has set it).
    pub exclude: bool,
    /// It is taken on late and unproved, because nobody could be asked.
    pub stale: bool,
    /// When its message was sent: stands in for an event time that is not said.
    pub sent: Option<Moment>,
    /// `--drain-timeout`: the deadline of a hook counts as its accept plus this when asking whether a second interruption brings
    /// an earlier one.
    pub drain_timeout: Duration,
}

impl Default for AcceptOptions {
    fn default() -> Self {
        Self { exclude: false, stale: false, sent: None, drain_timeout: seconds(3600) }
    }
}

/// How an interruption is taken on.
#[derive(Debug, Clone, PartialEq)]
pub enum Accept {
    /// Send this merge patch; when it is accepted, the message has done its work.
    Patch {
        /// The merge patch, with `metadata.resourceVersion`.
        body: Value,
        /// The record as it will stand.
        record: Box<Record>,
        /// The patch writes the load balancer label.
        excludes: bool,
        /// It joins a drain that is under way.
        joins: bool,
    },
    /// The record holds all that it brings: the message is deleted, counted, and nothing is written.
    Repeat,
    /// The Node is another instance's (it was registered again under the same name): look the instance up again.
    OtherInstance,
    /// The record has no room for another hook. The message stays for the dead-letter queue.
    Full,
}

/// Takes `interruption` on for `node`, which the caller found to be its instance's.
///
/// - No record, a damaged or void one, or a released one whose cordon or taint is gone: a fresh record.
/// - An open record: it joins when it owes a new hook or brings an earlier deadline, else it is a repeat. A Node that somebody
///   uncordoned meanwhile is not cordoned again; the taint is written in any case.
/// - A released one whose cordon and taint stand: only an interruption that owes a hook action which the record does not name
///   replaces it, keeping the before-state.
/// - The same event twice is a repeat wherever the record is of this instance.
///
/// The taint shows the kind that leaves least time of all that have joined.
#[must_use]
pub fn accept(node: &Node, interruption: &Interruption, now: Moment, options: &AcceptOptions) -> Accept {
    todo!("{node:?} {interruption:?} {now} {options:?}")
}

/// An accept whose answer was lost had its effect: the re-read Node's record, of this instance, holds this very event.
#[must_use]
pub fn recognise(node: &Node, interruption: &Interruption) -> bool {
    todo!("{node:?} {interruption:?}")
}
