//! To which cluster an instance belongs, by its own tags and those of its group.

use std::collections::BTreeMap;

use super::{GroupAnswer, Knowledge, Policy};
use crate::domain::{InstanceFacts, InstanceState, Interruption};

/// To which cluster an instance belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// It belongs to this cluster.
    Ours,
    /// It belongs to another cluster, or to none.
    Foreign,
    /// The tags that decide this have not been read yet.
    NotReadYet,
    /// It cannot be found out without `--cluster-name`.
    Unknown,
}

/// Which cluster some tags name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Us,
    Others,
    Nobody,
}

/// To which cluster the instance belongs. Its own tags decide if they name a cluster. A terminated
/// instance soon loses its tags. Then those of its group decide, which are asked for only if there
/// is a hook to complete.
pub(super) fn owner(interruption: &Interruption, known: &Knowledge, policy: &Policy) -> Owner {
    let Some(cluster) = policy.cluster_name.as_deref() else { return Owner::Unknown };
    let instance = known
        .instance
        .as_ref()
        .map(|answer| answer.facts.as_ref().map_or(Names::Nobody, |f| read(&f.tags, cluster)));
    let group = known.group.as_ref().map(|answer| match answer {
        GroupAnswer::Tags(tags) => read(tags, cluster),
        GroupAnswer::NoSuchGroup => Names::Nobody,
    });
    match (instance, group) {
        (Some(Names::Others), _) => Owner::Foreign,
        (Some(Names::Us), _) | (_, Some(Names::Us)) => Owner::Ours,
        (None, _) => Owner::NotReadYet,
        (_, None) if interruption.hook().is_some() => Owner::NotReadYet,
        _ => Owner::Foreign,
    }
}

/// The group's tags name this cluster; `None` until they have been read.
pub(super) fn group_is_ours(known: &Knowledge, cluster: &str) -> Option<bool> {
    known
        .group
        .as_ref()
        .map(|answer| matches!(answer, GroupAnswer::Tags(tags) if read(tags, cluster) == Names::Us))
}

/// These tags name another cluster and not this one.
pub(super) fn names_others(tags: &BTreeMap<String, String>, policy: &Policy) -> bool {
    policy.cluster_name.as_deref().is_some_and(|cluster| read(tags, cluster) == Names::Others)
}

/// These tags name this cluster.
pub(super) fn names_us(tags: &BTreeMap<String, String>, policy: &Policy) -> bool {
    policy.cluster_name.as_deref().is_some_and(|cluster| read(tags, cluster) == Names::Us)
}

/// Chooses the instance of a Node without providerID from those with its private DNS name. One
/// whose tags name this cluster goes before one whose tags name none, and one that is not
/// terminated before one that is (addresses are used again; a stopped instance keeps its own).
///
/// Of equals, the one that was launched last is chosen. `None` if none is left, or if several are
/// not terminated and the tags of none name this cluster: two networks of a region may have the
/// same addresses.
#[must_use]
pub fn choose_namesake<'a>(
    namesakes: &'a [InstanceFacts],
    policy: &Policy,
) -> Option<&'a InstanceFacts> {
    let rank =
        |i: &InstanceFacts| (names_us(&i.tags, policy), i.state != InstanceState::Terminated);
    let mut all: Vec<_> = namesakes.iter().filter(|i| !names_others(&i.tags, policy)).collect();
    all.sort_by_key(|i| (rank(i), i.launched));
    let best = all.pop()?;
    let is_clear = names_us(&best.tags, policy)
        || best.state == InstanceState::Terminated
        || all.last().is_none_or(|next| rank(next) < rank(best));
    is_clear.then_some(best)
}

/// Reads which cluster the tags of the cloud provider and of EKS name. The policies of Sundown's
/// IAM role use the same two tags. Tags of the cluster autoscaler do not count: they only show
/// which groups it scales, and a role that is limited by tags could not complete hooks of a group
/// that has no others.
fn read(tags: &BTreeMap<String, String>, cluster: &str) -> Names {
    let named = tags.iter().filter_map(|(key, value)| {
        if key == "eks:cluster-name" {
            return Some(value.as_str());
        }
        key.strip_prefix("kubernetes.io/cluster/")
    });
    named.fold(Names::Nobody, |found, name| match found {
        Names::Us => Names::Us,
        _ if name == cluster => Names::Us,
        _ => Names::Others,
    })
}

/// The instance has the tag of `--managed-tag`; `None` until that is known. A terminated instance
/// soon loses its tags: then those of its group count if there is a hook to complete (`has_hook`).
pub(super) fn has_managed_tag(known: &Knowledge, policy: &Policy, has_hook: bool) -> Option<bool> {
    let Some(key) = policy.managed_tag.as_deref() else { return Some(true) };
    let facts = known.instance.as_ref()?.facts.as_ref();
    if facts.is_some_and(|f| f.tags.contains_key(key)) {
        return Some(true);
    }
    let tags_are_gone = facts.is_none_or(|f| f.state == InstanceState::Terminated);
    if !tags_are_gone || !has_hook {
        return Some(false);
    }
    known
        .group
        .as_ref()
        .map(|answer| matches!(answer, GroupAnswer::Tags(tags) if tags.contains_key(key)))
}
