//! A kubelet from which nothing is heard.

use std::time::Duration;

use crate::domain::{Moment, Ready, seconds};

/// How long the kubelet must have been silent (`Ready` `Unknown`) before its node counts as unreachable.
const SILENT: Duration = seconds(60);

/// Whether a kubelet has been silent for so long that its node counts as unreachable, by the Node's `Ready` condition and when that changed.
#[must_use]
pub fn is_silent(ready: Ready, since: Option<Moment>, now: Moment) -> bool {
    ready == Ready::Unknown && since.is_some_and(|at| now >= at.plus(SILENT))
}

/// How far a drain is with a kubelet from which nothing is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Silence {
    /// The kubelet reports, as far as is known.
    #[default]
    Heard,
    /// The index says that it is silent: the drain gives the pods half a minute more, from this moment on.
    Waiting(Moment),
    /// That wait is over. The watch of Nodes may be dead without a sign, so the Node is being read past the index.
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
    fn a_kubelet_is_silent_after_a_minute_without_a_word() {
        let at = |s: i64| Moment::UNIX_EPOCH.plus(Duration::from_secs(s.unsigned_abs()));
        for (ready, since, now, expected) in [
            (Ready::Unknown, Some(100), 159, false),
            (Ready::Unknown, Some(100), 160, true),
            (Ready::Unknown, None, 1000, false),
            (Ready::True, Some(100), 1000, false),
            (Ready::False, Some(100), 1000, false),
        ] {
            assert_eq!(is_silent(ready, since.map(at), at(now)), expected, "{ready:?} since {since:?}, now {now}");
        }
    }
}
