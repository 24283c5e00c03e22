//! Drain requests ([`DrainRequest`]) and the record of their Node: which request is accepted next,
//! which are refused, and what follows if one is gone.
//!
//! The annotations of the Node are the requests. A record holds an accepted request by its event
//! ID, which shows its name and what it asked for, so the Node alone shows whether a request still
//! asks ([`state_of`]):
//!
//! | if the annotation with its name now | the accepted request |
//! | --- | --- |
//! | asks for the same, even if its deadline has passed | asks |
//! | asks for something else that can be accepted | asks, until the new request replaces it |
//! | asks for something else whose deadline has passed, or is no request, or is not there | is gone |
//! | is not known, because the Node has more than [`MAX_REQUESTS`] | asks |
//!
//! What follows if requests are gone ([`request_changes`]):
//!
//! | if the record | then |
//! | --- | --- |
//! | is open | [`RequestChanges::Open`]: they no longer hold, and the drain goes on for what is left |
//! | is released, and has nothing but requests that are gone, recommendations, and scheduled changes that AWS has canceled or moved | [`RequestChanges::Over`]: the Node is restored, and may ask for the same again |
//! | anything else | nothing |
//!
//! All times are by AWS's clock.

use super::{
    Accept, AcceptOptions, PlanTime, Planned, Record, RecordStatus, VoidReason, accept,
    schema::{Entry, KnownEntry},
    status,
};
use crate::domain::{
    Asking, DrainRequest, InstanceId, Interruption, InterruptionFacts, Kind, MAX_REQUESTS, Moment,
    Node, RequestProblem, Response,
};

/// Whether a request that the record of the Node holds still asks, as the first table above shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    Asks,
    Gone,
}

/// What the requests on a Node change for its record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RequestChanges {
    /// Nothing.
    #[default]
    None,
    /// The record is open.
    Open {
        /// The event IDs of accepted requests that still ask.
        asking: Vec<String>,
        /// The event IDs of those that are gone.
        gone: Vec<String>,
    },
    /// The drain has ended, and nothing in its record keeps the node cordoned any longer.
    Over {
        /// The names of the requests that are gone.
        names: Vec<String>,
        /// Cordon and taint are still on the Node. If `false`, only the record is left.
        is_drained: bool,
    },
}

/// A request on a Node that Sundown does not obey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRequest {
    /// The key of its annotation after the `/`. For [`Refusal::TooMany`] such as `3 more`.
    pub name: String,
    /// Why, and what to do.
    pub why: Refusal,
}

/// Why Sundown does not obey a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The annotation is no request, or its deadline has passed.
    #[error(transparent)]
    Problem(#[from] RequestProblem),
    /// The Node has this many requests more than Sundown obeys.
    #[error(
        "the node has {0} requests more than the {MAX_REQUESTS} that Sundown obeys (the first by \
         name): remove some"
    )]
    TooMany(usize),
    /// The Node belongs to no EC2 instance.
    #[error("the node has no EC2 instance in its spec.providerID, so Sundown does not drain it")]
    NoInstance,
    /// `sundown.dev/ignore` is on the Node.
    #[error("the node has the annotation sundown.dev/ignore: remove it, or drain by hand")]
    Ignored,
}

fn state_of(node: &Node, event_id: &str, now: Moment) -> RequestState {
    let asking = DrainRequest::name_of_event(event_id).map(|name| node.asking(name));
    match asking {
        Some(Asking::For(request))
            if request.event_id() == event_id || request.check_deadline(now).is_ok() =>
        {
            RequestState::Asks
        }
        Some(Asking::NotKept) => RequestState::Asks,
        _ => RequestState::Gone,
    }
}

/// The first request of this Node, in the order of names, that [`accept`] would take now.
/// `instance`: the instance of the Node.
#[must_use]
pub fn next_request(node: &Node, instance: &InstanceId, now: Moment) -> Option<Interruption> {
    let requests = node.requests.as_ref()?.first().iter();
    let asking = requests.filter_map(|request| request.read.as_ref().ok());
    let would_accept = |request: &&DrainRequest| {
        let options =
            AcceptOptions { response: request.stage.response(), ..AcceptOptions::default() };
        let accepted = accept(node, &request.interruption(instance), now, &options);
        matches!(accepted, Accept::Patch { .. })
    };
    asking.into_iter().find(would_accept).map(|request| request.interruption(instance))
}

/// The requests on this Node that Sundown does not obey. A request whose deadline has passed since
/// it was accepted is not among them. `instance`: `None` if the Node belongs to no EC2 instance.
#[must_use]
pub fn refused_requests(
    node: &Node,
    instance: Option<&InstanceId>,
    now: Moment,
) -> Vec<RefusedRequest> {
    let Some(requests) = &node.requests else { return Vec::new() };
    let why_none = match instance {
        _ if node.ignored() => Some(Refusal::Ignored),
        None => Some(Refusal::NoInstance),
        Some(_) => None,
    };
    let record = node.record().and_then(|text| Record::read(text).ok());
    let was_accepted = |request: &DrainRequest| {
        let event = request.event_id();
        record.as_ref().is_some_and(|record| {
            Some(record.instance()) == instance && record.known().any(|known| known.event == event)
        })
    };
    let why = |read: &Result<DrainRequest, RequestProblem>| match read {
        Err(problem) => Some(problem.clone().into()),
        Ok(request) if was_accepted(request) => None,
        Ok(request) => {
            let is_past = request.check_deadline(now).err().map(Refusal::from);
            is_past.or_else(|| why_none.clone())
        }
    };
    let refused = requests.first().iter().filter_map(|request| {
        Some(RefusedRequest { name: request.name.to_string(), why: why(&request.read)? })
    });
    let too_many = Some(requests.more())
        .filter(|more| *more > 0)
        .map(|more| RefusedRequest { name: format!("{more} more"), why: Refusal::TooMany(more) });
    refused.chain(too_many).collect()
}

/// What follows for the record of this Node if its requests are gone or ask again. `planned`: the
/// scheduled changes of the Node, which show whether AWS has withdrawn one that the record has.
#[must_use]
pub fn request_changes(
    node: &Node,
    instance: &InstanceId,
    planned: Option<&Planned>,
    at: PlanTime,
) -> RequestChanges {
    if !node.record().is_some_and(|text| text.contains(Kind::Request.as_str())) {
        return RequestChanges::None;
    }
    let is_gone = |facts: &InterruptionFacts| {
        facts.is_request() && state_of(node, &facts.event_id, at.now) == RequestState::Gone
    };
    match status(node, Some(instance)) {
        RecordStatus::Open(record) | RecordStatus::Doubtful { record, .. } => {
            let requests = record.interruptions(instance).into_iter();
            let requests = requests.filter(InterruptionFacts::is_request);
            let (gone, asking): (Vec<_>, Vec<_>) = requests.partition(|facts| is_gone(facts));
            let ids = |all: Vec<InterruptionFacts>| all.into_iter().map(|facts| facts.event_id);
            RequestChanges::Open { asking: ids(asking).collect(), gone: ids(gone).collect() }
        }
        RecordStatus::Released { record, has_our_changes }
            if !record.has_unknown() && !record.is_held() =>
        {
            let facts = record.interruptions(instance);
            let is_over = |facts: &InterruptionFacts| match facts.kind {
                Some(Kind::Request) => is_gone(facts),
                Some(Kind::ScheduledChange) => {
                    planned.is_some_and(|planned| planned.is_withdrawn_after(&facts.event_id, at))
                }
                // A recommendation holds a node only until it expires (`--rebalance-ttl`).
                Some(kind) => kind.is_recommendation(),
                None => false,
            };
            let names = facts.iter().filter_map(|facts| facts.requester().map(str::to_owned));
            let names: Vec<String> = names.collect();
            if names.is_empty() || !facts.iter().all(is_over) {
                return RequestChanges::None;
            }
            RequestChanges::Over { names, is_drained: has_our_changes }
        }
        _ => RequestChanges::None,
    }
}

/// The strongest response with which [`accept`] may take this request. `None`: it may not, because
/// this version of the Node does not have it with the same fields, or its deadline has passed. `found`:
/// the record of the Node. If the record is void because the machine has booted, and names this very
/// request, the request still holds the node after its deadline, but evicts no more pods.
pub(super) fn asked(
    node: &Node,
    request: &DrainRequest,
    found: &RecordStatus,
    now: Moment,
) -> Option<Response> {
    let event = request.event_id();
    if !node.asks_with(&event) {
        return None;
    }
    if request.check_deadline(now).is_ok() {
        return Some(Response::Drain);
    }
    let RecordStatus::Void { record, why: VoidReason::Rebooted } = found else { return None };
    record.known().any(|known| known.event == event).then_some(Response::Cordon)
}

/// Whether the record has at least one request, and beside requests only recommendations: nothing
/// by which AWS has announced that the instance ends.
pub(super) fn is_only_requested(record: &Record) -> bool {
    let is_request = |known: &KnownEntry| kind(known) == Some(Kind::Request);
    let is_either =
        |known: &KnownEntry| is_request(known) || kind(known).is_some_and(Kind::is_recommendation);
    !record.has_unknown() && record.known().any(is_request) && record.known().all(is_either)
}

fn kind(known: &KnownEntry) -> Option<Kind> {
    Kind::from_word(&known.kind)
}

/// Adds to the record `fresh` those requests of the record `old` that still ask. `old` is released,
/// and `fresh` replaces it.
pub(super) fn with_requests_of(old: &Record, fresh: Record, node: &Node, now: Moment) -> Record {
    let is_kept = |entry: &&Entry| {
        let Entry::Known(known) = entry else { return false };
        kind(known) == Some(Kind::Request)
            && !fresh.known().any(|new| is_same_requester(new, known))
            && state_of(node, &known.event, now) == RequestState::Asks
    };
    let kept = old.interruptions.iter().filter(is_kept).cloned();
    let interruptions = kept.chain(fresh.interruptions.iter().cloned()).collect();
    Record { interruptions, ..fresh }
}

/// Whether a request of the record still asks. Deadlines before `now` do not count for a request that
/// was changed since.
pub(super) fn has_asking_request(record: &Record, node: &Node, now: Moment) -> bool {
    let asks = |known: &KnownEntry| {
        is_request(known) && state_of(node, &known.event, now) == RequestState::Asks
    };
    record.known().any(asks)
}

/// The record without the requests that are gone.
pub(super) fn without_gone_requests(mut record: Record, node: &Node, now: Moment) -> Record {
    record.interruptions.retain(|entry| match entry {
        Entry::Known(known) => {
            !is_request(known) || state_of(node, &known.event, now) == RequestState::Asks
        }
        Entry::Unknown(_) => true,
    });
    record
}

/// The entry is a request.
pub(super) fn is_request(known: &KnownEntry) -> bool {
    kind(known) == Some(Kind::Request)
}

/// Whether both are requests with the same name. If so, the later one replaces the earlier one.
pub(super) fn is_same_requester(one: &KnownEntry, other: &KnownEntry) -> bool {
    let name = |known: &KnownEntry| {
        let is_request = kind(known) == Some(Kind::Request);
        DrainRequest::name_of_event(&known.event).filter(|_| is_request).map(str::to_owned)
    };
    name(one).is_some_and(|name_of_one| Some(name_of_one) == name(other))
}

/// Which requests are dropped from the record when the Node is restored. Sundown can accept them
/// again, even with the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayAskAgain {
    /// All of them, unless a person has ended the drain.
    All,
    /// Those that are gone, because a person has ended the drain (`sundown release`). The others
    /// stay in the record, so that Sundown accepts them again only if they change.
    Gone,
}

/// The record without the requests that may ask again.
pub(super) fn without_requests(mut record: Record, node: &Node, which: MayAskAgain) -> Record {
    record.interruptions.retain(|entry| {
        let Entry::Known(known) = entry else { return true };
        if kind(known) != Some(Kind::Request) {
            return true;
        }
        which == MayAskAgain::Gone && node.asks_with(&known.event)
    });
    record
}
