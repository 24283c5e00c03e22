//! When the evictions of a drain begin (`--evict-after`).

use std::{fmt, str::FromStr, time::Duration};

use super::{Kind, Moment, duration_text, parse_duration};

/// When a drain begins to evict, as `--evict-after` gives it for a kind of interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EvictAfter {
    /// As soon as the interruption is accepted.
    #[default]
    Accept,
    /// This long after the accept.
    Delay(Duration),
    /// When the group of the instance has a node that can take over the pods.
    ReplacementReady,
}

/// The longest [`EvictAfter::Delay`].
const MAX_DELAY: Duration = Duration::from_hours(24);

/// When a drain for one kind of interruption begins to evict: a value of `--evict-after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindEvictAfter {
    /// The kind of interruption.
    pub kind: Kind,
    /// When its drain begins to evict.
    pub evict_after: EvictAfter,
}

impl FromStr for KindEvictAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kind, after)) = text.split_once('=') else {
            return Err("not KIND=replacement-ready or KIND=DURATION, such as \
                        rebalance=replacement-ready"
                .to_owned());
        };
        let (kind, after) = (kind.trim(), after.trim());
        let kind = EvictAfterByKind::KINDS
            .into_iter()
            .find(|known| known.as_str() == kind)
            .ok_or_else(|| {
                let known = EvictAfterByKind::KINDS.map(Kind::as_str).join(", ");
                format!("evictions can only wait for these kinds: {known}; not for `{kind}`")
            })?;
        if after == "replacement-ready" {
            return Ok(Self { kind, evict_after: EvictAfter::ReplacementReady });
        }
        match parse_duration(after) {
            Ok(delay) if delay <= MAX_DELAY => {
                Ok(Self { kind, evict_after: EvictAfter::Delay(delay) })
            }
            _ => Err(format!("`{after}` is neither replacement-ready nor a duration up to 24h")),
        }
    }
}

impl fmt::Display for KindEvictAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        match self.evict_after {
            EvictAfter::Accept => write!(f, "{kind}=0s"),
            EvictAfter::Delay(delay) => write!(f, "{kind}={}", duration_text(delay)),
            EvictAfter::ReplacementReady => write!(f, "{kind}=replacement-ready"),
        }
    }
}

/// When drains begin to evict, by kind of interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EvictAfterByKind {
    terminate_hook: EvictAfter,
    rebalance: EvictAfter,
}

impl EvictAfterByKind {
    /// The kinds that leave time to wait.
    pub const KINDS: [Kind; 2] = [Kind::TerminateHook, Kind::Rebalance];

    /// Errs with the second of two different values for one kind.
    pub fn new(given: &[KindEvictAfter]) -> Result<Self, KindEvictAfter> {
        let mut chosen = Self::default();
        for (index, one) in given.iter().enumerate() {
            let same_kind = |other: &&KindEvictAfter| other.kind == one.kind;
            if given.iter().take(index).find(same_kind).is_some_and(|other| other != one) {
                return Err(*one);
            }
            match one.kind {
                Kind::TerminateHook => chosen.terminate_hook = one.evict_after,
                Kind::Rebalance => chosen.rebalance = one.evict_after,
                _ => {}
            }
        }
        Ok(chosen)
    }

    /// When the drain of an interruption of this kind begins to evict. `None`: a kind that only a
    /// newer version knows.
    #[must_use]
    pub const fn of(&self, kind: Option<Kind>) -> EvictAfter {
        match kind {
            Some(Kind::TerminateHook) => self.terminate_hook,
            Some(Kind::Rebalance) => self.rebalance,
            _ => EvictAfter::Accept,
        }
    }

    /// The kinds whose evictions wait.
    pub fn given(&self) -> impl Iterator<Item = KindEvictAfter> {
        let all = Self::KINDS.map(|kind| KindEvictAfter { kind, evict_after: self.of(Some(kind)) });
        all.into_iter().filter(|one| one.evict_after != EvictAfter::Accept)
    }
}

/// When the evictions of a drain begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionStart {
    /// They have begun, or may begin.
    Now,
    /// At this moment.
    At(Moment),
    /// When the group has a node that can take over the pods, or at this moment.
    ReplacementReady(Moment),
}

impl EvictionStart {
    /// When they begin at the latest; `None`: they may begin now.
    #[must_use]
    pub const fn at_latest(self) -> Option<Moment> {
        match self {
            Self::Now => None,
            Self::At(at) | Self::ReplacementReady(at) => Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_and_written_and_its_mistakes_are_named() {
        for (text, expected) in [
            ("rebalance=replacement-ready", Ok("rebalance=replacement-ready")),
            (" terminate-hook = 10m ", Ok("terminate-hook=10m")),
            ("terminate-hook=24h", Ok("terminate-hook=24h")),
            ("terminate-hook=25h", Err("`25h` is neither")),
            ("terminate-hook=soon", Err("`soon` is neither")),
            ("terminate-hook", Err("not KIND=replacement-ready")),
            ("spot=10s", Err("terminate-hook, rebalance; not for `spot`")),
            ("=10s", Err("not for ``")),
        ] {
            let read = text.parse::<KindEvictAfter>().map(|read| read.to_string());
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn two_different_values_for_one_kind_are_refused_and_two_equal_ones_are_not() {
        let given = |all: &[&str]| {
            let all: Vec<KindEvictAfter> = all.iter().map(|text| text.parse().unwrap()).collect();
            EvictAfterByKind::new(&all)
                .map(|all| all.given().map(|one| one.to_string()).collect::<Vec<_>>())
                .map_err(|second| second.to_string())
        };
        let text = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(given(&[]), Ok(text(&[])));
        assert_eq!(given(&["rebalance=1m", "rebalance=2m"]), Err("rebalance=2m".to_owned()));
        assert_eq!(given(&["rebalance=60s", "rebalance=1m"]), Ok(text(&["rebalance=1m"])));
        assert_eq!(
            given(&["rebalance=1m", "terminate-hook=replacement-ready"]),
            Ok(text(&["terminate-hook=replacement-ready", "rebalance=1m"]))
        );
    }
}
