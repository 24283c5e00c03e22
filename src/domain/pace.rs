//! How many nodes are drained at once for causes that can wait (`--max-drains-per-group`,
//! `--max-voluntary`).

use std::{fmt, str::FromStr};

/// The most nodes that either flag can name.
const MOST_NODES: usize = 100_000;

/// A number of nodes, or a share of the nodes that Sundown manages: a value of `--max-voluntary`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeShare {
    /// This many: 1 to 100 000.
    Count(usize),
    /// This many percent: 1 to 100.
    Percent(usize),
}

impl NodeShare {
    /// How many nodes that is of `managed` nodes. A percentage is rounded down, and is one node at
    /// least.
    #[must_use]
    pub fn of(self, managed: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (managed.saturating_mul(percent) / 100).max(1),
        }
    }
}

impl FromStr for NodeShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let given = text.trim();
        let (number, most) = match given.strip_suffix('%') {
            Some(percent) => (percent, 100),
            None => (given, MOST_NODES),
        };
        match number.parse::<usize>() {
            Ok(number) if (1..=most).contains(&number) && given.ends_with('%') => {
                Ok(Self::Percent(number))
            }
            Ok(number) if (1..=most).contains(&number) => Ok(Self::Count(number)),
            _ => Err(format!(
                "use a number of nodes from 1 to {MOST_NODES}, or a share of the managed nodes \
                 from 1% to 100%"
            )),
        }
    }
}

impl fmt::Display for NodeShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// The limits on drains that can wait, as the flags set them. Control-plane nodes are drained one
/// at a time without any flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaceLimits {
    /// `--max-drains-per-group`: nodes of one Auto Scaling group. `None`: no limit.
    pub per_group: Option<usize>,
    /// `--max-voluntary`: nodes in all. `None`: no limit.
    pub in_all: Option<NodeShare>,
}

impl PaceLimits {
    /// A flag sets a limit.
    #[must_use]
    pub const fn are_set(&self) -> bool {
        self.per_group.is_some() || self.in_all.is_some()
    }
}

/// Why a drain that can wait has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PaceHold {
    /// It was not decided yet, or the evictions wait for something else, too.
    Undecided,
    /// Another control-plane node is drained.
    ControlPlane,
    /// EC2 has not shown its Auto Scaling group yet (`--max-drains-per-group`).
    GroupUnknown,
    /// As many nodes of its group are drained as `--max-drains-per-group` allows.
    Group,
    /// As many nodes are drained as `--max-voluntary` allows.
    InAll,
}

impl PaceHold {
    /// The reason, after "because".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undecided => "other drains may go first",
            Self::ControlPlane => {
                "another control-plane node is being drained, and they are drained one at a time"
            }
            Self::GroupUnknown => {
                "EC2 has not shown its Auto Scaling group yet (--max-drains-per-group)"
            }
            Self::Group => {
                "as many nodes of its Auto Scaling group are being drained as \
                 --max-drains-per-group allows"
            }
            Self::InAll => "as many nodes are being drained as --max-voluntary allows",
        }
    }
}

/// What holds the evictions of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// Gates of its Node (`pre-drain.sundown.dev/NAME`).
    Gates,
    /// Other drains, which go first.
    Pace(PaceHold),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_or_a_percentage_and_its_mistakes_are_named() {
        for (text, expected) in [
            ("1", Some("1")),
            (" 25 ", Some("25")),
            ("100000", Some("100000")),
            ("1%", Some("1%")),
            ("100%", Some("100%")),
            ("0", None),
            ("0%", None),
            ("101%", None),
            ("100001", None),
            ("-1", None),
            ("half", None),
            ("%", None),
            ("", None),
        ] {
            match (text.parse::<NodeShare>(), expected) {
                (Ok(share), Some(expected)) => assert_eq!(share.to_string(), expected, "{text}"),
                (Err(error), None) => assert!(error.contains("from 1% to 100%"), "{text}: {error}"),
                (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_percentage_is_rounded_down_and_is_one_node_at_least() {
        for (share, managed, expected) in [
            ("3", 1, 3),
            ("10%", 100, 10),
            ("10%", 99, 9),
            ("10%", 9, 1),
            ("100%", 7, 7),
            ("1%", 0, 1),
        ] {
            let share: NodeShare = share.parse().unwrap();
            assert_eq!(share.of(managed), expected, "{share} of {managed}");
        }
    }
}
