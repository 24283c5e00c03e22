//! The volumes that are attached to a node, and which drains wait for them
//! (`--wait-for-volumes`).

use std::fmt;

/// Which drains wait until the volumes of their pods are detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitForVolumes {
    /// Those with a lifecycle action: Sundown completes it when the volumes are detached.
    #[default]
    Hooks,
    /// None.
    Never,
}

/// The volumes of drained pods that are attached to a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachedVolumes {
    /// How many there are.
    pub count: usize,
    /// The PersistentVolumes of the first [`AttachedVolumes::NAMED`] of them, in the order of their
    /// names. A volume without a PersistentVolume has the name of its VolumeAttachment.
    pub first: Vec<String>,
}

impl AttachedVolumes {
    /// How many volumes are named.
    pub const NAMED: usize = 3;

    /// Of all these volumes.
    #[must_use]
    pub fn of(mut names: Vec<String>) -> Self {
        let count = names.len();
        names.sort_unstable();
        names.truncate(Self::NAMED);
        Self { count, first: names }
    }
}

impl fmt::Display for AttachedVolumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let volumes = if self.count == 1 { "volume" } else { "volumes" };
        write!(f, "{} {volumes} ({}", self.count, self.first.join(", "))?;
        match self.count.saturating_sub(self.first.len()) {
            0 => f.write_str(")"),
            more => write!(f, " and {more} more)"),
        }
    }
}

/// What the API server shows of the volumes of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumesSeen {
    /// Volumes of drained pods are attached. `count` is 0 if none is.
    Attached(AttachedVolumes),
    /// Sundown lacks the permission to read them. The text is the error.
    Denied(String),
    /// There was no usable answer. The text is the error.
    Unanswered(String),
}

/// How the wait for the volumes of a node has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeWaitEnd {
    /// All are detached.
    Detached,
    /// The deadline of the drain was reached, and these volumes were attached.
    Deadline(AttachedVolumes),
    /// Sundown lacks the permission to read them. The text is the error.
    Denied(String),
    /// The API server gave no usable answer for too long. The text is the last error.
    Unanswered(String),
}

impl VolumeWaitEnd {
    /// Every label, to initialize metrics.
    pub const LABELS: [&'static str; 4] = ["detached", "deadline", "denied", "unanswered"];

    /// Label in metrics and logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Detached => "detached",
            Self::Deadline(_) => "deadline",
            Self::Denied(_) => "denied",
            Self::Unanswered(_) => "unanswered",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_counted_and_the_first_three_are_named() {
        let of = |names: &[&str]| {
            AttachedVolumes::of(names.iter().map(|name| (*name).to_owned()).collect()).to_string()
        };
        assert_eq!(of(&["pv-1"]), "1 volume (pv-1)");
        assert_eq!(of(&["pv-2", "pv-1"]), "2 volumes (pv-1, pv-2)");
        assert_eq!(of(&["e", "d", "c", "b", "a"]), "5 volumes (a, b, c and 2 more)");
    }
}
