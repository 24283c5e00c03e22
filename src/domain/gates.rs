//! Gates: annotations by which people and other tools hold the drain of a Node, or its release.

use std::fmt::{self, Write as _};

use super::keys;

/// The most gates of one kind whose names and values are kept. Further ones are counted.
const MOST: usize = 8;
/// The longest name that is kept, in characters: Kubernetes allows no longer one after the `/` of a
/// key.
const LONGEST_NAME: usize = 63;
/// The longest value that is kept, in characters.
const LONGEST_VALUE: usize = 80;

/// What a gate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateKind {
    /// `pre-drain.sundown.dev/NAME` holds the evictions of a drain.
    PreDrain,
    /// `pre-release.sundown.dev/NAME` holds the completion of the lifecycle actions of a node that
    /// is empty.
    PreRelease,
}

impl GateKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::PreDrain, Self::PreRelease];

    /// The key of such an annotation, up to its name.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::PreDrain => keys::PRE_DRAIN,
            Self::PreRelease => keys::PRE_RELEASE,
        }
    }

    /// The kind and the name of a gate with this annotation key; `None` if it is no gate.
    #[must_use]
    pub fn of_key(key: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|kind| Some((kind, key.strip_prefix(kind.prefix())?)))
    }
}

/// One gate: an annotation of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Whether it holds the evictions or the completion.
    pub kind: GateKind,
    /// Its key after the `/`, at most 63 characters.
    pub name: Box<str>,
    /// Its value in one line, at most 80 characters. It may be empty: the key alone holds.
    pub value: Box<str>,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.name)?;
        if self.value.is_empty() { Ok(()) } else { write!(f, " ({})", self.value) }
    }
}

/// The gates on a Node: the first eight of each kind by name, and the number of the others, which
/// hold as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeGates {
    pre_drain: Gates,
    pre_release: Gates,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Gates {
    first: Vec<Gate>,
    more: usize,
}

impl NodeGates {
    /// Adds the gate with this annotation key and value, if it is the key of a gate. The caller
    /// adds each key once.
    pub fn add(&mut self, key: &str, value: &str) {
        let Some((kind, name)) = GateKind::of_key(key) else { return };
        let gates = match kind {
            GateKind::PreDrain => &mut self.pre_drain,
            GateKind::PreRelease => &mut self.pre_release,
        };
        let gate =
            Gate { kind, name: shown(name, LONGEST_NAME), value: shown(value, LONGEST_VALUE) };
        let place = gates.first.partition_point(|other| other.name <= gate.name);
        if place < MOST {
            gates.first.insert(place, gate);
        }
        if gates.first.len() > MOST || place >= MOST {
            gates.first.truncate(MOST);
            gates.more = gates.more.saturating_add(1);
        }
    }

    /// There is no gate of any kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        GateKind::ALL.into_iter().all(|kind| self.of(kind).is_empty())
    }

    /// The gates of this kind that are kept, by name. Empty if the Node has none.
    #[must_use]
    pub fn of(&self, kind: GateKind) -> &[Gate] {
        &self.gates(kind).first
    }

    /// The number of further gates of this kind.
    #[must_use]
    pub const fn more(&self, kind: GateKind) -> usize {
        self.gates(kind).more
    }

    /// The gates of this kind in words, for logs and Events: their keys and values.
    #[must_use]
    pub fn text(&self, kind: GateKind) -> String {
        let all: Vec<String> = self.of(kind).iter().map(ToString::to_string).collect();
        let mut text = all.join(", ");
        if self.more(kind) > 0 {
            write!(text, " and {} more", self.more(kind)).ok();
        }
        text
    }

    const fn gates(&self, kind: GateKind) -> &Gates {
        match kind {
            GateKind::PreDrain => &self.pre_drain,
            GateKind::PreRelease => &self.pre_release,
        }
    }
}

/// The beginning of a text from outside, in one line.
fn shown(text: &str, longest: usize) -> Box<str> {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(longest).map(plain).collect::<String>().into()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests {
    use super::*;

    fn gates(all: &[(&str, &str)]) -> NodeGates {
        let mut gates = NodeGates::default();
        for (key, value) in all {
            gates.add(key, value);
        }
        gates
    }

    #[test]
    fn a_gate_is_known_by_the_prefix_of_its_key() {
        use GateKind::{PreDrain, PreRelease};
        for (key, expected) in [
            ("pre-drain.sundown.dev/backup", Some((PreDrain, "backup"))),
            ("pre-release.sundown.dev/logs", Some((PreRelease, "logs"))),
            ("pre-drain.sundown.dev", None),
            ("sundown.dev/pre-drain", None),
            ("my-pre-drain.sundown.dev/backup", None),
            ("sundown.dev/pause", None),
        ] {
            assert_eq!(GateKind::of_key(key), expected, "{key}");
            assert_eq!(gates(&[(key, "")]).is_empty(), expected.is_none(), "{key}");
        }
    }

    #[test]
    fn gates_are_told_in_the_order_of_their_names_whatever_order_they_came_in() {
        let (b, a) = (("pre-drain.sundown.dev/b", "by hand"), ("pre-drain.sundown.dev/a", ""));
        let release = ("pre-release.sundown.dev/c", "line 1\nline 2");
        let one = gates(&[b, release, a]);
        assert_eq!(one, gates(&[a, b, release]));
        let text = "pre-drain.sundown.dev/a, pre-drain.sundown.dev/b (by hand)";
        assert_eq!(one.text(GateKind::PreDrain), text);
        let text = "pre-release.sundown.dev/c (line 1 line 2)";
        assert_eq!(one.text(GateKind::PreRelease), text);
    }

    #[test]
    fn of_very_many_gates_the_first_eight_are_kept_and_the_others_counted() {
        let keys: Vec<String> =
            (0..1000).map(|n| format!("pre-drain.sundown.dev/g{n:03}")).collect();
        let forward: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "v")).collect();
        let backward: Vec<(&str, &str)> = forward.iter().rev().copied().collect();
        let kept = gates(&forward);
        assert_eq!(kept, gates(&backward));
        let names: Vec<&str> = kept.of(GateKind::PreDrain).iter().map(|gate| &*gate.name).collect();
        assert_eq!((names[0], names[7], names.len()), ("g000", "g007", 8));
        assert_eq!(kept.more(GateKind::PreDrain), 992);
        assert!(kept.text(GateKind::PreDrain).ends_with("/g007 (v) and 992 more"));
    }

    #[test]
    fn long_names_and_values_are_cut() {
        let long =
            gates(&[(&format!("pre-drain.sundown.dev/{}", "n".repeat(300)), &"é".repeat(300))]);
        let gate = &long.of(GateKind::PreDrain)[0];
        assert_eq!((gate.name.chars().count(), gate.value.chars().count()), (63, 80));
    }
}
