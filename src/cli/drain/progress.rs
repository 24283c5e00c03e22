//! What the Node shows of a requested drain, and when the wait for it is over. No I/O.

use crate::{
    cluster::{EventReason, RequestedNode},
    domain::{DrainRequest, Moment, NodeName, RequestStage},
    record::{self, RecordStatus},
};

/// A request that was written, and what shows its progress.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) node: NodeName,
    pub(super) uid: String,
    pub(super) request: DrainRequest,
    /// The value of its annotation.
    pub(super) value: String,
    /// The record before the request was written. While the Node still has this record, its end is
    /// that of an earlier drain. `None`: the Node had no record, or it had this very request
    /// already, so an end is that of this request.
    pub(super) record_before: Option<String>,
    /// Only Events from then on are about this request.
    pub(super) since: Moment,
}

impl Asked {
    /// `before` and `after`: the Node before and after the PATCH. `now`: by the API server's clock.
    pub(super) fn new(
        before: &RequestedNode,
        after: &RequestedNode,
        request: &DrainRequest,
        now: Moment,
    ) -> Self {
        let value = request.value();
        let was_there = before.requests.get(&*request.name) == Some(&value);
        let record = before.node.record().map(str::to_owned);
        Self {
            node: after.node.name.clone(),
            uid: after.node.uid.clone(),
            request: request.clone(),
            value,
            record_before: record.filter(|_| !was_there),
            // Events have whole seconds: one can look older than the request that it is about.
            since: if was_there { Moment::MIN } else { now.minus(crate::domain::seconds(2)) },
        }
    }
}

/// The progress of a requested drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// Sundown has not accepted it yet.
    Waiting,
    /// The node is cordoned, and its pods stay.
    Cordoned,
    /// Its pods are evicted.
    Draining,
    /// The annotation `sundown.dev/pause` of the Node holds its drain.
    Paused,
    /// The drain has ended, with this outcome in one word.
    Ended(String),
    /// The Node was deleted, or another one has its name.
    Gone,
    /// Somebody has removed the request.
    Removed,
    /// Somebody has replaced the request by another one of the same name.
    Replaced,
    /// Sundown has refused the request, for this reason.
    Refused(String),
}

/// How the wait for a node has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// What was asked for is done.
    Done,
    /// What was asked for is not done, and will not be done.
    Failed,
}

impl Progress {
    /// `found`: the Node now; `None`: there is none. `refusal`: the message of an Event that
    /// refuses the request.
    pub(super) fn of(found: Option<&RequestedNode>, asked: &Asked, refusal: Option<&str>) -> Self {
        let Some(found) = found.filter(|found| found.node.uid == asked.uid) else {
            return Self::Gone;
        };
        match found.requests.get(&*asked.request.name) {
            None => return Self::Removed,
            Some(value) if *value != asked.value => return Self::Replaced,
            Some(_) => {}
        }
        let node = &found.node;
        let is_old = asked.record_before.as_deref().is_some_and(|text| node.record() == Some(text));
        let waiting = || refusal.map_or(Self::Waiting, |why| Self::Refused(why.to_owned()));
        match record::status(node, None) {
            RecordStatus::Released { record, .. } if !is_old => {
                let outcome = record.released().map(|released| released.outcome.clone());
                Self::Ended(outcome.unwrap_or_default())
            }
            RecordStatus::Open(record) if !record.response().evicts() => {
                let event = asked.request.event_id();
                let accepted = record.interruptions(record.instance());
                // Until then, the cordon may be of an interruption that ends sooner.
                let is_accepted = accepted.iter().any(|facts| facts.event_id == event);
                if is_accepted && record.response().cordons() { Self::Cordoned } else { waiting() }
            }
            RecordStatus::Open(_) if node.paused() => Self::Paused,
            RecordStatus::Open(_) => Self::Draining,
            _ => waiting(),
        }
    }

    /// How the wait has ended. `None`: it goes on. `stage`: how far the request wants to go.
    pub(super) fn verdict(&self, stage: RequestStage) -> Option<Verdict> {
        match self {
            Self::Cordoned if stage == RequestStage::Cordon => Some(Verdict::Done),
            Self::Waiting | Self::Cordoned | Self::Draining | Self::Paused => None,
            Self::Gone => Some(Verdict::Done),
            Self::Ended(outcome) => Some(match (outcome.as_str(), stage) {
                ("empty" | "node_gone" | "instance_over", _)
                | ("not_evicted", RequestStage::Cordon) => Verdict::Done,
                _ => Verdict::Failed,
            }),
            Self::Removed | Self::Replaced | Self::Refused(_) => Some(Verdict::Failed),
        }
    }

    /// The line that reports it.
    pub(super) fn line(&self, node: &NodeName) -> String {
        match self {
            Self::Waiting => format!("{node}: waits until Sundown accepts the request"),
            Self::Cordoned => format!("{node}: is cordoned; its pods stay"),
            Self::Draining => {
                format!("{node}: is being drained; `sundown status {node}` shows its pods")
            }
            Self::Paused => {
                format!("{node}: its drain is paused; `sundown resume {node}` lets it go on")
            }
            Self::Ended(outcome) => format!("{node}: {}", ended(outcome)),
            Self::Gone => format!("{node}: the Node is gone"),
            Self::Removed => format!("{node}: somebody has removed the request"),
            Self::Replaced => {
                format!("{node}: somebody has replaced the request by another one of the same name")
            }
            Self::Refused(why) => format!("{node}: the request is refused: {why}"),
        }
    }
}

fn ended(outcome: &str) -> String {
    let text = match outcome {
        "empty" => "is drained: no pod is left that has to go",
        "deadline" => "its deadline has passed, and pods are left on it",
        "timed_out" => "the longest time of a drain has passed, and pods are left on it",
        "not_evicted" => "is cordoned; its pods stay",
        "released" => {
            "its drain was ended by hand (`sundown release`); a request with another reason or \
             deadline begins a new one"
        }
        "unreachable" => "is unreachable, so Sundown does not wait for its pods any longer",
        "instance_over" => "its instance has ended",
        "node_gone" => "the Node is gone",
        other => return format!("its drain has ended with the outcome `{other}`"),
    };
    text.to_owned()
}

/// A Warning of Sundown about a Node.
#[derive(Debug, Clone)]
pub(super) struct Warned {
    pub(super) node: NodeName,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) last: Moment,
}

/// The message of the last Warning that refuses this request: it names the key of the annotation.
pub(super) fn refusal<'a>(warned: &'a [Warned], asked: &Asked) -> Option<&'a str> {
    let key = asked.request.key();
    let is_of_it = |one: &&Warned| {
        one.node == asked.node
            && one.reason == EventReason::RequestRefused.as_str()
            && one.message.split_whitespace().any(|word| word == key)
            && one.last >= asked.since
    };
    let found = warned.iter().filter(is_of_it).max_by_key(|one| one.last);
    found.map(|one| one.message.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{PAUSE, RECORD};

    const NOW: &str = "2026-01-31T16:00:00Z";
    const OPEN: &str = r#"{"version":1,"instance":"i-0123456789abcdef0","interruptions":[
        {"kind":"spot","time":"2026-01-31T16:00:00Z","accepted":"2026-01-31T16:00:00Z"}]}"#;
    const PREFER: &str = r#"{"version":1,"instance":"i-0123456789abcdef0","interruptions":[
        {"kind":"rebalance","time":"2026-01-31T16:00:00Z","accepted":"2026-01-31T16:00:00Z",
        "response":"prefer"}]}"#;
    const CORDON: &str = r#"{"version":1,"instance":"i-0123456789abcdef0","interruptions":[
        {"kind":"rebalance","time":"2026-01-31T16:00:00Z","accepted":"2026-01-31T16:00:00Z",
        "response":"cordon"}]}"#;

    fn cordoned_for(asked: &Asked) -> String {
        let event = asked.request.event_id();
        format!(
            r#"{{"version":1,"instance":"i-0123456789abcdef0","interruptions":[
            {{"kind":"request","event":"{event}","time":"2026-01-31T16:00:00Z",
            "accepted":"2026-01-31T16:00:00Z","response":"cordon"}}]}}"#
        )
    }

    fn released(outcome: &str) -> String {
        format!(
            r#"{{"version":1,"instance":"i-0123456789abcdef0","interruptions":[],
            "released":{{"at":"2026-01-31T16:10:00Z","outcome":"{outcome}"}}}}"#
        )
    }

    fn node(record: Option<&str>, value: Option<&str>, is_paused: bool) -> RequestedNode {
        let mut annotations = Vec::new();
        annotations.extend(record.map(|text| (RECORD.to_owned(), text.to_owned())));
        annotations.extend(is_paused.then(|| (PAUSE.to_owned(), "true".to_owned())));
        let node = crate::domain::Node {
            instance: "i-0123456789abcdef0".parse().ok(),
            annotations: annotations.into_iter().collect(),
            ..crate::domain::Node::for_test("n")
        };
        let requests = value.map(|value| ("ann".to_owned(), value.to_owned()));
        RequestedNode { node, requests: requests.into_iter().collect() }
    }

    fn asked(before: &RequestedNode) -> Asked {
        let request = DrainRequest::read("ann", "stage=drain").unwrap();
        let after = node(before.node.record(), Some("stage=drain"), false);
        Asked::new(before, &after, &request, NOW.parse().unwrap())
    }

    #[test]
    fn the_progress_follows_from_the_record_and_the_request() {
        let fresh = asked(&node(None, None, false));
        let value = Some("stage=drain");
        for (record, value, is_paused, expected) in [
            (None, value, false, Progress::Waiting),
            (Some("damaged"), value, false, Progress::Waiting),
            (Some(OPEN), value, false, Progress::Draining),
            (Some(OPEN), value, true, Progress::Paused),
            (Some(PREFER), value, false, Progress::Waiting),
            (Some(CORDON), value, false, Progress::Waiting),
            (Some(&*cordoned_for(&fresh)), value, false, Progress::Cordoned),
            (Some(&*released("empty")), value, false, Progress::Ended("empty".to_owned())),
            (Some(OPEN), None, false, Progress::Removed),
            (Some(OPEN), Some("stage=cordon"), false, Progress::Replaced),
        ] {
            let found = node(record, value, is_paused);
            assert_eq!(Progress::of(Some(&found), &fresh, None), expected, "{record:?}");
        }
        assert_eq!(Progress::of(None, &fresh, None), Progress::Gone);
        let mut other = node(Some(OPEN), value, false);
        other.node.uid = "another".to_owned();
        assert_eq!(Progress::of(Some(&other), &fresh, None), Progress::Gone);
    }

    #[test]
    fn an_end_before_the_request_is_not_its_own_unless_the_request_was_there() {
        let record = released("empty");
        let now = node(Some(&record), Some("stage=drain"), false);
        for (before, expected) in [
            (None, Progress::Waiting),
            (Some("stage=cordon"), Progress::Waiting),
            (Some("stage=drain"), Progress::Ended("empty".to_owned())),
        ] {
            let asked = asked(&node(Some(&record), before, false));
            assert_eq!(Progress::of(Some(&now), &asked, None), expected, "{before:?}");
        }
    }

    #[test]
    fn a_refusal_counts_if_it_names_the_request_and_is_not_older() {
        let fresh = asked(&node(None, None, false));
        let warned = |node: &str, reason: &str, message: &str, last: &str| Warned {
            node: node.into(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last: last.parse().unwrap(),
        };
        let ours = "The request drain.sundown.dev/ann does not drain the node: why.";
        let other = "The request drain.sundown.dev/anna does not drain the node: why.";
        for (one, is_refusal) in [
            (warned("n", "RequestRefused", ours, NOW), true),
            (warned("n", "RequestRefused", ours, "2026-01-31T15:59:00Z"), false),
            (warned("n", "RequestRefused", other, NOW), false),
            (warned("m", "RequestRefused", ours, NOW), false),
            (warned("n", "Blocked", "pods of ann", NOW), false),
        ] {
            let all = [one.clone()];
            let refusal = refusal(&all, &fresh);
            assert_eq!(refusal.is_some(), is_refusal, "{one:?}");
            let (open, waiting) = (
                node(Some(OPEN), Some("stage=drain"), false),
                node(None, Some("stage=drain"), false),
            );
            assert_eq!(Progress::of(Some(&open), &fresh, refusal), Progress::Draining);
            let expected = refusal.map_or(Progress::Waiting, |w| Progress::Refused(w.to_owned()));
            assert_eq!(Progress::of(Some(&waiting), &fresh, refusal), expected);
        }
    }

    #[test]
    fn a_wait_ends_well_only_if_no_pod_is_left_or_none_had_to_go() {
        use RequestStage::{Cordon, Drain};
        use Verdict::{Done, Failed};
        let ended = |outcome: &str| Progress::Ended(outcome.to_owned());
        for (progress, stage, verdict, words) in [
            (Progress::Waiting, Drain, None, "n: waits until Sundown accepts"),
            (Progress::Draining, Drain, None, "n: is being drained"),
            (Progress::Paused, Drain, None, "sundown resume n"),
            (Progress::Cordoned, Drain, None, "n: is cordoned; its pods stay"),
            (Progress::Cordoned, Cordon, Some(Done), "n: is cordoned; its pods stay"),
            (Progress::Gone, Drain, Some(Done), "n: the Node is gone"),
            (Progress::Removed, Drain, Some(Failed), "has removed the request"),
            (Progress::Replaced, Drain, Some(Failed), "has replaced the request"),
            (Progress::Refused("why".to_owned()), Drain, Some(Failed), "is refused: why"),
            (ended("empty"), Drain, Some(Done), "n: is drained: no pod is left"),
            (ended("node_gone"), Drain, Some(Done), "the Node is gone"),
            (ended("instance_over"), Drain, Some(Done), "its instance has ended"),
            (ended("not_evicted"), Cordon, Some(Done), "its pods stay"),
            (ended("not_evicted"), Drain, Some(Failed), "its pods stay"),
            (ended("deadline"), Drain, Some(Failed), "n: its deadline has passed"),
            (ended("timed_out"), Drain, Some(Failed), "pods are left on it"),
            (ended("released"), Drain, Some(Failed), "ended by hand"),
            (ended("unreachable"), Drain, Some(Failed), "is unreachable"),
            (ended("new"), Drain, Some(Failed), "with the outcome `new`"),
        ] {
            assert_eq!(progress.verdict(stage), verdict, "{progress:?}");
            let line = progress.line(&"n".into());
            assert!(line.contains(words), "{line} instead of {words}");
        }
    }
}
