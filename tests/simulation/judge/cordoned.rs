//! The accept is one write: cordon, taint and record together, and neither cordon nor taint without
//! a record. The one exception is a Node that claims the instance of another one: it is cordoned,
//! and nothing else.

use std::{collections::BTreeMap, time::Duration};

use sundown::sim::kube::NodeState;

use super::{
    Judge, Response, Terms,
    excuses::{MESSAGES, SEE_NODES, Scope, WRITE_NODES},
    is_us,
    nodes::{Write, instance, is_claimed_twice, open_record, record, taint, taint_with},
};

impl Judge<'_> {
    pub(super) fn cordoned(&mut self) {
        let mut all: Vec<Write<'_>> = Vec::new();
        for write in self.writes.clone() {
            if is_us(write.by)
                && let Some((old, new)) = write.both()
            {
                let twin = is_claimed_twice(
                    &all,
                    &new.name,
                    self.known_since(write.by, write.at),
                    write.at,
                );
                let terms = &self.evidence.terms;
                let by_hand = was_uncordoned_by_hand(&all, old);
                let taken_away = taken_away(&all, new);
                let wrong = wrong_of(old, new, twin, by_hand, taken_away.as_ref(), terms);
                for wrong in wrong {
                    self.broken(write.at, format!("{}: {wrong}", new.name));
                }
            }
            all.push(write);
        }
        self.others_are_cordoned();
    }

    /// Where several Nodes claim the instance that an interruption is about, the one with the name
    /// that EC2 gives it is drained, and the others are cordoned.
    fn others_are_cordoned(&mut self) {
        const AT_ONCE: Duration = Duration::from_secs(3);
        let mut missed = Vec::new();
        for (i, write) in self.writes.iter().enumerate().filter(|(_, w)| is_us(w.by)) {
            let Some((old, new)) = write.both() else { continue };
            let id = instance(new);
            if open_record(old).is_some()
                || open_record(new).is_none()
                || self.evidence.nodes.get(id) != Some(&new.name)
            {
                continue;
            }
            let end = write.at + AT_ONCE;
            let mut last: BTreeMap<&str, Option<&NodeState>> = BTreeMap::new();
            for before in &self.writes[..i] {
                last.extend(
                    before.new.or(before.old).map(|state| (state.name.as_str(), before.new)),
                );
            }
            let others = last.into_values().flatten().filter(|other| {
                instance(other) == id && other.name != new.name && other.ready == "True"
            });
            for other in others {
                let scope = Scope::of_leader(&[MESSAGES, SEE_NODES, WRITE_NODES]);
                // It is cordoned once the API server has answered the accept.
                let is_excused = [&other.name, &new.name]
                    .into_iter()
                    .any(|name| self.is_excused(scope.about(id, name), write.at, end));
                let is_away = self.story.machine_gone(&other.name, end)
                    || self.story.node_gone(&other.name, end)
                    || end > self.evidence.ended;
                let cordoned =
                    other.unschedulable || self.story.cordoned_between(&other.name, write.at, end);
                // The one that reports is preferred to one whose kubelet is silent.
                let is_silent = new.ready != "True";
                if !cordoned && !is_away && !is_silent && !is_excused {
                    missed.push((end, other.name.clone(), new.name.clone()));
                }
            }
        }
        for (at, other, node) in missed {
            self.broken(
                at,
                format!(
                    "{other} claims the instance of {node}, which is drained, and was not cordoned"
                ),
            );
        }
    }
}

/// What is wrong with a write of ours. `by_hand`: see [`was_uncordoned_by_hand`].
fn wrong_of(
    old: &NodeState,
    new: &NodeState,
    twin: bool,
    by_hand: bool,
    deleted: Option<&Vec<serde_json::Value>>,
    terms: &Terms,
) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let (was, is) = (record_that_counts(old), record_that_counts(new));
    let cordons = new.unschedulable && !old.unschedulable;
    let taints = taint(new).is_some() && taint(old).is_none();
    match (&was, &is) {
        // A person deleted the record, and it is written back: the annotation alone.
        (None, Some(is)) if deleted.is_some_and(|deleted| deleted == is) => {
            if cordons {
                wrong.push("its record was written back, and it was cordoned with that");
            }
        }
        (None, Some(is)) if terms.strongest(is) < Response::Cordon => {
            if cordons {
                wrong.push("it was cordoned, although --on asks only for a taint");
            }
            if is_left_tainted(old) {
                if taint(new).is_none() {
                    wrong.push("its taint became weaker although its instance still goes");
                }
            } else if taint_with(new, "PreferNoSchedule").is_none()
                && (taint(old).is_none() || taint(new).is_none())
            {
                wrong.push("it was accepted and not tainted with the same write");
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
            let was_cordoned = by_hand || terms.strongest(was) >= Response::Cordon;
            let is_cordoned = by_hand || terms.strongest(is) >= Response::Cordon;
            if !was_cordoned && is_cordoned && !new.unschedulable {
                wrong.push("an interruption joined its record, and it was not cordoned");
            }
            if cordons && was_cordoned == is_cordoned {
                wrong.push("it was uncordoned by a person during its drain, and cordoned again");
            }
            if is.len() > was.len() && is_cordoned && taint(new).is_none() {
                wrong.push("an interruption joined its record, and its taint is missing");
            }
        }
        (_, None) if super::pooled::is_cordon_for_pool(old, new) => {
            if !new.unschedulable || taint(new) != Some("launch-hook") {
                wrong.push("it was cordoned for a warm pool, and not with one write");
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

/// The open record of this Node began while the Node still had our cordon of an earlier drain, and
/// keeps it (`response`), although `--on` may ask for less. A person has uncordoned the Node since.
fn was_uncordoned_by_hand(before: &[Write<'_>], node: &NodeState) -> bool {
    let keeps_cordon = |entry: &serde_json::Value| entry["response"] == "cordon";
    if !open_record(node).is_some_and(|all| all.iter().any(keeps_cordon)) {
        return false;
    }
    let of_it = before.iter().filter_map(|w| Some((w.by, w.both()?)));
    let of_it: Vec<_> = of_it.filter(|(_, (_, new))| new.uid == node.uid).collect();
    let begins = |(by, (old, new)): &(&str, (&NodeState, &NodeState))| {
        is_us(by) && record_that_counts(old).is_none() && record_that_counts(new).is_some()
    };
    let Some(begun) = of_it.iter().rposition(begins) else { return false };
    let (_, (old, new)) = of_it[begun];
    let is_our_cordon = record(new).is_some_and(|r| r["before"]["unschedulable"] == false);
    let mut since = of_it[begun..].iter();
    old.unschedulable
        && new.unschedulable
        && is_our_cordon
        && since.any(|(by, (old, new))| !is_us(by) && old.unschedulable && !new.unschedulable)
}

/// The open record of a Node, unless it is of another boot.
fn record_that_counts(node: &NodeState) -> Option<Vec<serde_json::Value>> {
    open_record(node).filter(|_| !is_of_another_boot(node))
}

/// An earlier drain of this boot has ended and left our taint with its full effect.
fn is_left_tainted(node: &NodeState) -> bool {
    let of_this_boot = record(node).filter(|_| !is_of_another_boot(node));
    of_this_boot.is_some_and(|r| !r["released"].is_null()) && taint(node).is_some()
}

/// Its record is of another boot and names no hook: it counts for nothing any more, and what is
/// accepted then begins a new drain.
fn is_of_another_boot(node: &NodeState) -> bool {
    let Some(record) = record(node) else { return false };
    let other_boot = record["boot"]
        .as_str()
        .is_some_and(|boot| !node.boot_id.is_empty() && boot != node.boot_id);
    let mut interruptions = record["interruptions"].as_array().into_iter().flatten();
    other_boot && interruptions.all(|i| i["hook"].is_null())
}

/// The kind in a record that leaves least time.
fn least_time(interruptions: &[serde_json::Value]) -> Option<&'static str> {
    let order = [
        "state-change",
        "spot",
        "spot-hibernate",
        "spot-stop",
        "capacity-reservation",
        "capacity-block",
        "terminate-hook",
        "root-volume",
        "scheduled-change",
        "impaired",
        "rebalance",
        "request",
    ];
    order.into_iter().find(|kind| interruptions.iter().any(|i| i["kind"] == *kind))
}

/// The open record that somebody else took from this Node before, with nothing of ours written
/// since.
fn taken_away(before: &[Write<'_>], node: &NodeState) -> Option<Vec<serde_json::Value>> {
    let mut of_it = before
        .iter()
        .rev()
        .filter_map(|w| Some((w.by, w.both()?)))
        .filter(|(_, (_, new))| new.uid == node.uid);
    let (_, (old, _)) = of_it.find(|(by, (old, new))| {
        !is_us(by) && open_record(old).is_some() && open_record(new).is_none()
    })?;
    open_record(old)
}
