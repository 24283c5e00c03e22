//! The audit log of one measurement.

use std::{collections::BTreeMap, fs, path::PathBuf};

use sundown::domain::Moment;

pub use crate::log::Call;
use crate::log::Log;

/// The log, from somewhere on.
pub struct Audit(Log);

impl Audit {
    /// What comes from now on.
    pub fn from_now(path: PathBuf) -> Self {
        let from = fs::metadata(&path).map_or(0, |m| m.len());
        Self(Log::from(path, from))
    }

    /// What has come so far, but for watches.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = self.0.calls();
        calls.retain(|c| c.verb != "watch");
        calls
    }

    /// How many of them are so. Looking often is cheap: what was read once is not read again.
    pub fn count(&self, of: impl Fn(&Call) -> bool) -> usize {
        self.0.look(|calls| calls.iter().filter(|c| of(c)).count())
    }
}

/// What Sundown had asked for and been answered by then.
pub fn kinds(calls: &[Call], until: Moment) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for call in calls.iter().filter(|c| c.is_by_sundown() && c.answered <= until) {
        *kinds.entry(format!("{} {} {}", call.verb, call.resource, call.code)).or_default() += 1;
    }
    kinds
}
