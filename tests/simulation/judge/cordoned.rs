//! The accept is one write: cordon, taint and record together, and neither cordon nor taint without a record.

use sundown::sim::kube::NodeState;

use super::{
    Judge, is_us,
    nodes::{Write, is_claimed_twice, open_record, taint},
};

impl Judge<'_> {
    pub(super) fn cordoned(&mut self) {
        let mut all: Vec<Write<'_>> = Vec::new();
        for write in self.writes.clone() {
            if is_us(write.by)
                && let Some((old, new)) = write.both()
            {
                let twin = is_claimed_twice(&all, &new.name, self.known_since(write.at), write.at);
                let wrong = wrong_of(old, new, twin, taken_away(&all, new).as_ref());
                for wrong in wrong {
                    self.broken(write.at, format!("{}: {wrong}", new.name));
                }
            }
            all.push(write);
        }
    }
}

/// What is wrong with a write of ours.
fn wrong_of(old: &NodeState, new: &NodeState, twin: bool, deleted: Option<&Vec<serde_json::Value>>) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let (was, is) = (open_record(old), open_record(new));
    let cordons = new.unschedulable && !old.unschedulable;
    let taints = taint(new).is_some() && taint(old).is_none();
    match (&was, &is) {
        // A person deleted the record, and it is written back: the annotation alone.
        (None, Some(is)) if deleted.is_some_and(|deleted| deleted == is) => {
            if cordons {
                wrong.push("its record was written back, and it was cordoned with that");
            }
        }
        (None, Some(_)) => {
            if !new.unschedulable {
                wrong.push("it was accepted and not cordoned with the same write");
            }
            if taint(new).is_none() {
                wrong.push("it was accepted and not tainted with the same write");
            }
        }
        (Some(was), Some(is)) => {
            if cordons {
                wrong.push("it was uncordoned by a person during its drain, and cordoned again");
            }
            if is.len() > was.len() && taint(new).is_none() {
                wrong.push("an interruption joined its record, and its taint is missing");
            }
        }
        (_, None) => {
            if cordons && !twin {
                wrong.push("it was cordoned without a record");
            }
            if taints {
                wrong.push("it was tainted without a record");
            }
        }
    }
    if let Some(is) = is.filter(|is| was.as_ref() != Some(is))
        && taint(new).is_some_and(|shown| Some(shown) != least_time(&is))
        && deleted != Some(&is)
    {
        wrong.push("its taint does not show the kind that leaves least time");
    }
    wrong
}

/// The kind in a record that leaves least time.
fn least_time(interruptions: &[serde_json::Value]) -> Option<&'static str> {
    let order = ["state-change", "spot", "capacity", "terminate-hook"];
    order.into_iter().find(|kind| interruptions.iter().any(|i| i["kind"] == *kind))
}

/// The open record that somebody else took from this Node before, with nothing of ours written since.
fn taken_away(before: &[Write<'_>], node: &NodeState) -> Option<Vec<serde_json::Value>> {
    let mut of_it = before.iter().rev().filter_map(|w| Some((w.by, w.both()?))).filter(|(_, (_, new))| new.uid == node.uid);
    let (_, (old, _)) = of_it.find(|(by, (old, new))| !is_us(by) && open_record(old).is_some() && open_record(new).is_none())?;
    open_record(old)
}
