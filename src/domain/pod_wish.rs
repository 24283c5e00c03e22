//! What pods ask for when their node is drained, by an annotation or a label.

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

use super::{Labels, parse_duration};

/// The most characters of an unknown value that are kept.
const KEPT: usize = 40;

/// An annotation or label of pods by which they ask for something, or a rule about them. If several
/// of them do, the first one in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WishSource {
    /// The annotation of Sundown itself, which is always honored.
    Sundown,
    /// The label of Cluster API.
    ClusterApi,
    /// The annotation of Karpenter.
    Karpenter,
    /// The annotation of the Cluster Autoscaler.
    Autoscaler,
    /// A rule of the administrator (`--rules-file`).
    Rule,
}

impl WishSource {
    /// Every key of a pod, the first one that counts first.
    pub const ALL: [Self; 4] = [Self::Sundown, Self::ClusterApi, Self::Karpenter, Self::Autoscaler];

    /// The key in `metadata`, or the flag that gives the rules.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sundown => "sundown.dev/drain",
            Self::ClusterApi => "cluster.x-k8s.io/drain",
            Self::Karpenter => "karpenter.sh/do-not-disrupt",
            Self::Autoscaler => "cluster-autoscaler.kubernetes.io/safe-to-evict",
            Self::Rule => "--rules-file",
        }
    }

    /// The annotation or label, for a text about pods that wait because of it. The text has the
    /// value if only one value lets a pod wait.
    #[must_use]
    pub const fn of_waiting_pod(self) -> &'static str {
        match self {
            Self::Sundown => "sundown.dev/drain: wait",
            Self::ClusterApi => "cluster.x-k8s.io/drain: wait-completed",
            Self::Karpenter | Self::Autoscaler | Self::Rule => self.as_str(),
        }
    }

    /// Whether Sundown keeps a pod's annotation with this key. It keeps all labels.
    #[must_use]
    pub fn is_annotation(key: &str) -> bool {
        [Self::Sundown, Self::Karpenter, Self::Autoscaler].iter().any(|known| known.as_str() == key)
    }

    /// What a value of this key asks for. `None`: it does not ask for anything. `Err`: the value
    /// has no meaning.
    fn read(self, value: &str) -> Option<Result<Wish, Box<str>>> {
        let unknown = || Some(Err(value.chars().take(KEPT).collect::<String>().into_boxed_str()));
        let wish = match (self, value) {
            (Self::Sundown, "last") => Wish::Last,
            (Self::Sundown, "skip") => Wish::Skip,
            (Self::ClusterApi, _) if value.eq_ignore_ascii_case("skip") => Wish::Skip,
            (Self::ClusterApi, _) if value.eq_ignore_ascii_case("wait-completed") => Wish::Wait,
            (Self::Sundown, "wait")
            | (Self::Karpenter, "true")
            | (Self::Autoscaler, "false" | "on-completion") => Wish::Wait,
            (Self::Karpenter, "false") | (Self::Autoscaler, "true") => return None,
            (Self::Karpenter, _) if value.len() <= KEPT => match parse_duration(value) {
                Ok(age) => Wish::WaitUntilAge(age),
                Err(_) => return unknown(),
            },
            _ => return unknown(),
        };
        Some(Ok(wish))
    }
}

impl fmt::Display for WishSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parses a key that `--honor` enables.
impl FromStr for WishSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Self::ALL.into_iter().find(|key| key.as_str() == text) {
            Some(Self::Sundown) => {
                Err(format!("{} is always honored; leave it out", Self::Sundown))
            }
            Some(key) => Ok(key),
            None => Err(format!(
                "use {}, {} or {}",
                Self::ClusterApi,
                Self::Karpenter,
                Self::Autoscaler
            )),
        }
    }
}

/// What a pod asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Not to be evicted: the drain waits until it has finished.
    Wait,
    /// Not to be evicted before it has this age.
    WaitUntilAge(Duration),
    /// To be evicted after all other pods.
    Last,
    /// To be left alone: the drain does not wait for it either.
    Skip,
}

/// The annotations and the label by which a pod asks for something. Empty for almost all pods, and
/// then without any memory of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodWishes(Box<[PodWish]>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct PodWish {
    key: WishSource,
    /// `Err`: a value without a meaning, at most [`KEPT`] characters.
    value: Result<Wish, Box<str>>,
}

impl PodWishes {
    /// Reads what a pod asks for. `annotations`: the value of an annotation.
    pub fn read<'a>(annotations: impl Fn(&str) -> Option<&'a str>, labels: &Labels) -> Self {
        let wish = |key: WishSource| {
            let value = match key {
                WishSource::ClusterApi => labels.get(key.as_str()),
                WishSource::Rule => None,
                WishSource::Sundown | WishSource::Karpenter | WishSource::Autoscaler => {
                    annotations(key.as_str())
                }
            };
            Some(PodWish { key, value: key.read(value?)? })
        };
        Self(WishSource::ALL.into_iter().filter_map(wish).collect())
    }

    /// Whether the pod asks for nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the pod asks for, and by which key. `enabled`: the keys that are honored besides
    /// [`WishSource::Sundown`]. `None`: nothing that is honored.
    #[must_use]
    pub fn honored(&self, enabled: &BTreeSet<WishSource>) -> Option<(WishSource, Wish)> {
        self.of(enabled).find_map(|wish| Some((wish.key, *wish.value.as_ref().ok()?)))
    }

    /// The keys that are honored and have a value without a meaning, with at most 40 characters of
    /// the value.
    pub fn unknown(
        &self,
        enabled: &BTreeSet<WishSource>,
    ) -> impl Iterator<Item = (WishSource, &str)> {
        self.of(enabled).filter_map(|wish| Some((wish.key, &**wish.value.as_ref().err()?)))
    }

    /// The keys that the pod has and that are not honored.
    pub fn not_honored(&self, enabled: &BTreeSet<WishSource>) -> impl Iterator<Item = WishSource> {
        let keys = self.0.iter().map(|wish| wish.key);
        keys.filter(|key| *key != WishSource::Sundown && !enabled.contains(key))
    }

    fn of(&self, enabled: &BTreeSet<WishSource>) -> impl Iterator<Item = &PodWish> {
        let is_honored = |key: &WishSource| *key == WishSource::Sundown || enabled.contains(key);
        self.0.iter().filter(move |wish| is_honored(&wish.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::seconds;

    const CAPI: &str = "cluster.x-k8s.io/drain";
    const KARPENTER: &str = "karpenter.sh/do-not-disrupt";
    const AUTOSCALER: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

    fn of(pairs: &[(&str, &str)]) -> PodWishes {
        let find = |key: &str| pairs.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
        PodWishes::read(
            find,
            &pairs.iter().filter(|(key, _)| *key == CAPI).copied().collect::<Labels>(),
        )
    }

    fn all() -> BTreeSet<WishSource> {
        WishSource::ALL.into()
    }

    #[test]
    fn each_value_asks_for_what_its_tool_means_by_it() {
        for (key, value, wish) in [
            ("sundown.dev/drain", "wait", Some(Wish::Wait)),
            ("sundown.dev/drain", "last", Some(Wish::Last)),
            ("sundown.dev/drain", "skip", Some(Wish::Skip)),
            (CAPI, "skip", Some(Wish::Skip)),
            (CAPI, "Skip", Some(Wish::Skip)),
            (CAPI, "SKIP", Some(Wish::Skip)),
            (CAPI, "wait-completed", Some(Wish::Wait)),
            (KARPENTER, "true", Some(Wish::Wait)),
            (KARPENTER, "false", None),
            (KARPENTER, "1h30m", Some(Wish::WaitUntilAge(seconds(5400)))),
            (AUTOSCALER, "false", Some(Wish::Wait)),
            (AUTOSCALER, "on-completion", Some(Wish::Wait)),
            (AUTOSCALER, "true", None),
            ("example.com/drain", "wait", None),
        ] {
            let wishes = of(&[(key, value)]);
            let honored = wishes.honored(&all());
            assert_eq!(honored.map(|(_, wish)| wish), wish, "{key}: {value}");
            assert_eq!(wishes.unknown(&all()).count(), 0, "{key}: {value}");
        }
    }

    #[test]
    fn a_value_without_a_meaning_asks_for_nothing_and_is_kept_in_part() {
        let long = "x".repeat(5000);
        for (key, value) in [
            ("sundown.dev/drain", "Wait"),
            ("sundown.dev/drain", ""),
            (CAPI, "later"),
            (KARPENTER, "yes"),
            (KARPENTER, "-5m"),
            (KARPENTER, &long),
            (AUTOSCALER, "never"),
        ] {
            let wishes = of(&[(key, value)]);
            assert_eq!(wishes.honored(&all()), None, "{key}: {value}");
            let unknown: Vec<_> = wishes.unknown(&all()).collect();
            let [(found, kept)] = unknown[..] else { panic!("{key}: {value}") };
            assert!(found.as_str() == key && kept.chars().count() <= KEPT);
        }
    }

    #[test]
    fn only_the_own_annotation_counts_unless_others_are_enabled() {
        let wishes = of(&[(KARPENTER, "true"), (AUTOSCALER, "what")]);
        assert_eq!(wishes.honored(&BTreeSet::new()), None);
        assert_eq!(wishes.unknown(&BTreeSet::new()).count(), 0);
        let not_honored: Vec<_> = wishes.not_honored(&[WishSource::Karpenter].into()).collect();
        assert_eq!(not_honored, [WishSource::Autoscaler]);
        let karpenter = [WishSource::Karpenter].into();
        assert_eq!(wishes.honored(&karpenter), Some((WishSource::Karpenter, Wish::Wait)));
        assert_eq!(
            of(&[("sundown.dev/drain", "skip")]).honored(&BTreeSet::new()),
            Some((WishSource::Sundown, Wish::Skip))
        );
    }

    #[test]
    fn of_several_wishes_that_of_sundowns_own_key_counts() {
        let both = of(&[(KARPENTER, "true"), ("sundown.dev/drain", "last")]);
        assert_eq!(both.honored(&all()), Some((WishSource::Sundown, Wish::Last)));
        let bad = of(&[(KARPENTER, "true"), ("sundown.dev/drain", "later")]);
        assert_eq!(bad.honored(&all()), Some((WishSource::Karpenter, Wish::Wait)));
    }

    #[test]
    fn honor_takes_the_keys_of_other_tools_and_names_them() {
        for key in WishSource::ALL {
            assert_eq!(
                key.as_str().parse::<WishSource>().is_ok(),
                key != WishSource::Sundown,
                "{key}"
            );
        }
        let refused = "karpenter.sh/do-not-evict".parse::<WishSource>().unwrap_err();
        assert!(refused.contains(CAPI) && refused.contains(AUTOSCALER), "{refused}");
        let own = "sundown.dev/drain".parse::<WishSource>().unwrap_err();
        assert!(own.contains("always honored"), "{own}");
    }

    #[test]
    fn a_pod_that_asks_for_nothing_has_nothing_in_memory() {
        assert!(of(&[]).is_empty() && size_of::<PodWishes>() == 2 * size_of::<usize>());
    }
}
