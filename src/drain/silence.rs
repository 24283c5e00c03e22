//! When a silent kubelet means that its node is unreachable.

use std::time::Duration;

use crate::domain::{Moment, Ready, seconds};

/// How long a kubelet must have been silent (`Ready` is `Unknown`) before its node counts as
/// unreachable.
const UNREACHABLE_AFTER: Duration = seconds(60);

/// Whether a kubelet has been silent long enough for its node to count as unreachable. `ready` and
/// `since`: the Node's `Ready` condition and its last transition.
#[must_use]
pub fn is_silent(ready: Ready, since: Option<Moment>, now: Moment) -> bool {
    ready == Ready::Unknown && since.is_some_and(|at| now >= at.plus(UNREACHABLE_AFTER))
}

/// How long after an outage of the API server silent kubelets are ignored: they could not report to
/// it either.
const AFTER_OUTAGE: Duration = seconds(120);

/// Facts that show whether kubelets are silent because of their own nodes, or because the API
/// server or the network between failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilenceEvidence {
    /// Since when the watch of Nodes has been failing; `None`: it works.
    pub watch_failing_since: Option<Moment>,
    /// When the watch of Nodes last failed; `None`: never.
    pub watch_failed_at: Option<Moment>,
    /// Number of Nodes in the cluster.
    pub nodes: usize,
    /// Number of Nodes with a silent kubelet (`Ready` is `Unknown`).
    pub silent: usize,
}

impl SilenceEvidence {
    /// Whether a silent kubelet means that its node is unreachable: the API server had no outage
    /// lately, and at most half of the nodes are silent. In a cluster of one or two nodes all may
    /// be silent.
    #[must_use]
    pub fn is_conclusive(&self, now: Moment) -> bool {
        let is_calm = self.watch_failing_since.is_none()
            && self.watch_failed_at.is_none_or(|at| now >= at.plus(AFTER_OUTAGE));
        let are_few = self.silent * 2 <= self.nodes || self.nodes <= 2;
        is_calm && are_few
    }
}

/// What a drain knows about the silence of its node's kubelet, and does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum KubeletSilence {
    /// The kubelet reports, as far as is known.
    #[default]
    Reporting,
    /// The kubelet is silent according to the index. The drain gives the pods half a minute more,
    /// from this moment on.
    Waiting(Moment),
    /// That wait is over. The watch of Nodes may be dead without a sign, so the Node is being read
    /// from the API server.
    ReadingNode(Moment),
}

impl KubeletSilence {
    /// From when on the pods are given half a minute more.
    pub(super) const fn since(self) -> Option<Moment> {
        match self {
            Self::Reporting => None,
            Self::Waiting(since) | Self::ReadingNode(since) => Some(since),
        }
    }

    /// The kubelet is silent according to the index.
    pub(super) const fn begin(&mut self, now: Moment) {
        if matches!(self, Self::Reporting) {
            *self = Self::Waiting(now);
        }
    }

    /// A pause or a hold of the evictions is over: the wait begins again.
    pub(super) const fn resumed(&mut self, now: Moment) {
        if !matches!(self, Self::Reporting) {
            *self = Self::Waiting(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_not_conclusive_after_an_outage_or_when_most_nodes_are_silent() {
        let at = |s: u64| Moment::UNIX_EPOCH.plus(seconds(s));
        for (failing, failed, nodes, silent, expected) in [
            (None, None, 10, 1, true),
            (None, None, 10, 5, true),
            (None, None, 10, 6, false),
            (None, None, 3, 2, false),
            (None, None, 2, 2, true),
            (None, None, 1, 1, true),
            (Some(at(990)), Some(at(990)), 10, 1, false),
            (None, Some(at(881)), 10, 1, false),
            (None, Some(at(880)), 10, 1, true),
            (None, Some(at(880)), 10, 6, false),
        ] {
            let evidence = SilenceEvidence {
                watch_failing_since: failing,
                watch_failed_at: failed,
                nodes,
                silent,
            };
            assert_eq!(evidence.is_conclusive(at(1000)), expected, "{evidence:?}");
        }
    }

    #[test]
    fn a_kubelet_is_silent_after_a_minute_of_ready_unknown() {
        let at = |s: i64| Moment::UNIX_EPOCH.plus(Duration::from_secs(s.unsigned_abs()));
        for (ready, since, now, expected) in [
            (Ready::Unknown, Some(100), 159, false),
            (Ready::Unknown, Some(100), 160, true),
            (Ready::Unknown, None, 1000, false),
            (Ready::True, Some(100), 1000, false),
            (Ready::False, Some(100), 1000, false),
        ] {
            assert_eq!(
                is_silent(ready, since.map(at), at(now)),
                expected,
                "{ready:?} since {since:?}, now {now}"
            );
        }
    }
}
