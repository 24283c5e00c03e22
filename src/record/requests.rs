//! Drain requests ([`DrainRequest`]) and the record of their Node: which request is accepted next,
//! which are refused, and what follows if one is gone.
//!
//! The annotations of the Node are the requests. A record holds an accepted request by its event
//! ID, which shows its name and what it asked for, so the Node alone shows whether a request still
//! asks ([`state_of`]):
//!
//! | the annotation with its name | the accepted request |
//! | --- | --- |
//! | asks for the same, even if its deadline has passed | asks |
//! | asks for something else that can be accepted | asks, until the new request replaces it |
//! | asks for something else whose deadline has passed, or is no request, or is not there | is gone |
//! | may be there: the Node has too many requests | asks |
//!
//! What follows if requests are gone ([`request_changes`]):
//!
//! | the record | |
//! | --- | --- |
//! | is open | [`RequestChanges::Open`]: they no longer hold, and the drain goes on for what is left |
//! | is released, and holds nothing but such requests, recommendations, and scheduled changes that AWS has canceled or moved | [`RequestChanges::Over`]: the Node is restored, and may ask for the same again |
//! | anything else | nothing |
//!
//! All times are by AWS's clock.

use super::{
    Accept, AcceptOptions, PlanTime, Planned, Record, RecordStatus, accept,
    schema::{Entry, KnownEntry},
    status,
};
use crate::domain::{
    Asking, DrainRequest, InstanceId, Interruption, InterruptionFacts, Kind, MAX_REQUESTS, Moment,
    Node, RequestProblem,
};

/// Whether a request in a record still asks.
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
    /// The drain has ended, and nothing of the record holds any longer.
    Over {
        /// The names of the requests that are gone.
        names: Vec<String>,
        /// Cordon and taint are still on the Node. If `false`, only the record is left.
        is_drained: bool,
    },
}

/// Why an annotation of a Node is not obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRequest {
    /// Its key after the `/`.
    pub name: String,
    /// Why, and what to do.
    pub why: Refusal,
}

/// Why requests are not obeyed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The annotation is no request, or its deadline has passed.
    #[error(transparent)]
    Problem(#[from] RequestProblem),
    /// The Node has too many of them.
    #[error(
        "the node has {0} requests more than the {MAX_REQUESTS} that Sundown obeys (the first by \
         name): remove some"
    )]
    TooMany(usize),
    /// The Node is of no EC2 instance.
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

/// The first request of this Node, by name, that [`accept`] would take now. `instance`: the
/// instance of the Node.
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

/// The annotations of this Node that are not obeyed. A request whose deadline has passed since it
/// was accepted is not among them. `instance`: `None` if it is of no EC2 instance.
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

/// What requests that are gone, or ask again, change for the record of this Node. `planned`: its
/// scheduled changes.
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
                // Alone it would have expired.
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

/// Whether [`accept`] may take this request: the Node, in this very version, has it, and its
/// deadline is ahead.
pub(super) fn is_asked(node: &Node, request: &DrainRequest, now: Moment) -> bool {
    node.asks_with(&request.event_id()) && request.check_deadline(now).is_ok()
}

/// The record holds nothing but requests and recommendations, so no notice of AWS is swallowed by
/// it.
pub(super) fn is_only_requested(record: &Record) -> bool {
    let is_request = |known: &KnownEntry| kind(known) == Some(Kind::Request);
    let is_either =
        |known: &KnownEntry| is_request(known) || kind(known).is_some_and(Kind::is_recommendation);
    !record.has_unknown() && record.known().any(is_request) && record.known().all(is_either)
}

fn kind(known: &KnownEntry) -> Option<Kind> {
    Kind::from_word(&known.kind)
}

/// `fresh`, a record that replaces the released record `old`, with the requests of `old` that still
/// ask.
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

/// The two are requests of the same name: the later one replaces the earlier one.
pub(super) fn is_same_requester(one: &KnownEntry, other: &KnownEntry) -> bool {
    let name = |known: &KnownEntry| {
        let is_request = kind(known) == Some(Kind::Request);
        DrainRequest::name_of_event(&known.event).filter(|_| is_request).map(str::to_owned)
    };
    name(one).is_some_and(|name_of_one| Some(name_of_one) == name(other))
}

/// Which requests a restored Node may ask for again, although its record has held them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayAskAgain {
    /// All of them: nothing but the request itself would hold the node.
    All,
    /// Those that are gone. A person has ended the drain: the others stay in the record, and are
    /// accepted again only if they change.
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
