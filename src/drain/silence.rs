//! A kubelet from which nothing is heard.

use std::time::Duration;

use crate::domain::{Moment, Ready, seconds};

/// How long the kubelet must have been silent (`Ready` `Unknown`) before its node counts as
/// unreachable.
const SILENT: Duration = seconds(60);

/// Whether a kubelet has been silent for so long that its node counts as unreachable, by the Node's
/// `Ready` condition and when that changed.
#[must_use]
pub fn is_silent(ready: Ready, since: Option<Moment>, now: Moment) -> bool {
    ready == Ready::Unknown && since.is_some_and(|at| now >= at.plus(SILENT))
}

/// For so long after the API server was away, what it says of kubelets counts for nothing: they
/// could not report to it either.
const AFTER_OUTAGE: Duration = seconds(120);

/// What tells whether the silence of kubelets is a fault of their nodes, or of what lies between
/// them and this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hearing {
    /// Since when the watch of Nodes has been failing; `None`: it works.
    pub watch_failing_since: Option<Moment>,
    /// When the watch of Nodes failed last; `None`: never.
    pub watch_failed_at: Option<Moment>,
    /// How many Nodes there are.
    pub nodes: usize,
    /// How many of them are silent (`Ready` `Unknown`).
    pub silent: usize,
}

impl Hearing {
    /// The silence of a kubelet counts: the API server was not away just now, and at most half of
    /// the nodes are silent. Of one or two nodes all may be.
    #[must_use]
    pub fn counts(&self, now: Moment) -> bool {
        let is_calm = self.watch_failing_since.is_none()
            && self.watch_failed_at.is_none_or(|at| now >= at.plus(AFTER_OUTAGE));
        let are_few = self.silent * 2 <= self.nodes || self.nodes <= 2;
        is_calm && are_few
    }
}

/// How far a drain is with a kubelet from which nothing is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Silence {
    /// The kubelet reports, as far as is known.
    #[default]
    Heard,
    /// The index says that it is silent: the drain gives the pods half a minute more, from this
    /// moment on.
    Waiting(Moment),
    /// That wait is over. The watch of Nodes may be dead without a sign, so the Node is being read
    /// past the index.
    Asked(Moment),
}

impl Silence {
    /// From when on the pods are given half a minute more.
    pub(super) const fn since(self) -> Option<Moment> {
        match self {
            Self::Heard => None,
            Self::Waiting(since) | Self::Asked(since) => Some(since),
        }
    }

    /// The index says that the kubelet is silent.
    pub(super) const fn began(&mut self, now: Moment) {
        if matches!(self, Self::Heard) {
            *self = Self::Waiting(now);
        }
    }

    /// A pause is over: the wait begins again.
    pub(super) const fn resumed(&mut self, now: Moment) {
        if !matches!(self, Self::Heard) {
            *self = Self::Waiting(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_for_nothing_just_after_an_outage_and_where_most_nodes_are_silent() {
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
            let hearing =
                Hearing { watch_failing_since: failing, watch_failed_at: failed, nodes, silent };
            assert_eq!(hearing.counts(at(1000)), expected, "{hearing:?}");
        }
    }

    #[test]
    fn a_kubelet_is_silent_after_a_minute_without_a_word() {
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
