//! The audit log of one measurement.

use std::{collections::BTreeMap, fs, path::PathBuf};

use sundown::domain::Moment;

use crate::log;
pub use crate::log::Call;

/// The log, from somewhere on.
pub struct Audit {
    path: PathBuf,
    from: u64,
}

impl Audit {
    /// What comes from now on.
    pub fn from_now(path: PathBuf) -> Self {
        let from = fs::metadata(&path).map_or(0, |m| m.len());
        Self { path, from }
    }

    /// What has come so far, but for watches.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = log::read(&self.path, self.from);
        calls.retain(|c| c.verb != "watch");
        calls
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
