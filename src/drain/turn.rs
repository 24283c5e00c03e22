//! Whose turn it is when a budget frees.

use crate::domain::Moment;

/// The place of a drain among all: urgent ones first, then the earliest deadline, then the node with the fewest pods left, so that nodes finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Not urgent.
    pub relaxed: bool,
    /// The deadline; the end of time where there is none.
    pub deadline: Moment,
    /// Pods that count and are still there.
    pub left: usize,
}
