//! The answer of `explain`, as people see it and as JSON.

use serde::Serialize;

use crate::{
    cli::status::model::BlockedPod,
    domain::{Moment, NodeName},
};

/// The whole answer. Also the JSON of `-o json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) time: Moment,
    pub(super) node: NodeName,
    pub(super) drain: DrainKind,
    /// The kinds of its interruptions, or the one that is assumed.
    pub(super) kinds: Vec<&'static str>,
    /// When the drain ends at the latest. `None`: when its node is empty.
    pub(super) deadline: Option<Moment>,
    /// Where the rules come from that are applied here. `None`: there are none, or they are not
    /// known.
    pub(super) rules: Option<String>,
    /// What is unusual about the node, and what is not known: sentences.
    pub(super) notes: Vec<String>,
    /// All pods on the node, or the one that was asked for.
    pub(super) pods: Vec<PodAnswer>,
    /// Whether the person asked about one pod, not about a node.
    #[serde(skip)]
    pub(super) is_one_pod: bool,
}

/// Whether the node is being drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DrainKind {
    /// The node is being drained. The answer shows how this drain treats the pods.
    Open,
    /// The node is not being drained. The answer shows how a drain that begins now would treat the
    /// pods.
    Assumed,
}

/// What a drain does with a pod, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodAnswer {
    pub(super) pod: String,
    pub(super) plan: Plan,
    /// What the drain does with the pod, what it waits for and until when, in sentences.
    pub(super) what: String,
    /// Until when the wait lasts at the latest, or the grace period of a terminating pod. `None`:
    /// no wait, or one without a limit.
    pub(super) until: Option<Moment>,
    /// What decides, in a sentence.
    pub(super) why: String,
    /// The rule that matches it.
    pub(super) rule: Option<Rule>,
    /// The grace period and where it comes from. `None`: it is not evicted.
    pub(super) grace_period: Option<String>,
    /// From when on it is deleted by force. `None`: never.
    pub(super) force_from: Option<Moment>,
    /// When it is forced, and what decides that, in words. `None`: it is not evicted.
    pub(super) force: Option<String>,
    /// What blocks its eviction now.
    pub(super) blocked: Option<BlockedPod>,
    /// What else may be surprising, in sentences.
    pub(super) notes: Vec<String>,
}

/// The plan in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Plan {
    Stay,
    Unknown,
    Terminating,
    WaitUntilFinished,
    WaitForGroups,
    Last,
    Evict,
}

/// A rule of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    pub(super) number: usize,
    pub(super) line: u64,
}
