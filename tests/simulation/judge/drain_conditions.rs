//! The conditions `DrainInProgress` and `Drained` of a Node: Sundown writes them only with
//! `--drain-conditions`, never those of another writer, and not more often than it promises.

use std::{collections::BTreeMap, time::Duration};

use sundown::{domain::Moment, sim::kube::ConditionState};

use super::{Judge, is_us};

const FLAG: &str = "--drain-conditions";
const RECORD: &str = "sundown.dev/record";
/// The shortest time between two writes on one Node, less what a request may be on its way. A
/// condition shows when it was written. A removal leaves nothing, so a new leader does not know it.
const BETWEEN: Duration = Duration::from_secs(27);

struct LastWrite {
    at: Moment,
    /// It left no condition of Sundown.
    removes: bool,
}

impl Judge<'_> {
    pub(super) fn untrue_drain_conditions(&self) -> Vec<(Moment, String)> {
        let mut all = Vec::new();
        let mut last: BTreeMap<(&str, &str), LastWrite> = BTreeMap::new();
        for write in self.writes.iter().filter(|write| is_us(write.by)) {
            let Some((old, new)) = write.both() else { continue };
            if old.drain == new.drain {
                continue;
            }
            let changed = old.drain.iter().zip(&new.drain).filter(|(old, new)| old != new);
            let is_of_others =
                changed.into_iter().any(|(old, _)| old.as_ref().is_some_and(|c| !is_ours(c)));
            // If clocks differ, a process cannot know when another one wrote.
            let writer = if self.evidence.terms.clocks_differ { write.by } else { "" };
            let removes = !new.drain.iter().flatten().any(is_ours);
            let before = last.insert((&new.uid, writer), LastWrite { at: write.at, removes });
            let is_too_soon = |before: &LastWrite| {
                write.at < before.at + BETWEEN
                    && !(before.removes && self.leaders.changes(before.at, write.at) > 0)
            };
            let [in_progress, _] = &new.drain;
            let claims_drain = in_progress.as_ref().is_some_and(|c| c.status == "True");
            let wrong = if !self.evidence.terms.is_set(FLAG) {
                "a condition of its drain was set without --drain-conditions"
            } else if is_of_others {
                "a condition of its drain by another writer was changed"
            } else if before.as_ref().is_some_and(is_too_soon) {
                "the conditions of its drain were written again within 30 s"
            } else if claims_drain && !new.annotations.contains_key(RECORD) {
                "DrainInProgress is true without a record"
            } else {
                continue;
            };
            all.push((write.at, format!("{}: {wrong}", new.name)));
        }
        all
    }
}

/// The message of Sundown's condition names its annotation.
pub(super) fn is_ours(condition: &ConditionState) -> bool {
    condition.message.contains(RECORD)
}
