//! Whose an instance is, by the tags of the instance and of its group.

use std::collections::BTreeMap;

use super::{GroupAnswer, Knowledge, Policy};
use crate::domain::{InstanceFacts, InstanceState, Interruption};

/// Whose an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// This cluster's.
    Ours,
    /// No cluster's, or another's.
    Foreign,
    /// The tags that would tell have not been read yet.
    NotReadYet,
    /// Nobody can tell: the cluster has no name here.
    Nobody,
}

/// Which cluster tags name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Us,
    Others,
    Nobody,
}

/// Whose the instance is. The instance's own tags go first; those of a terminated one are soon
/// gone, and then its group's tell, which are asked for only when a hook is owed.
pub(super) fn owner(interruption: &Interruption, known: &Knowledge, policy: &Policy) -> Owner {
    let Some(cluster) = policy.cluster_name.as_deref() else { return Owner::Nobody };
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

/// The group's tags alone name us; `None` while they have not been read.
pub(super) fn group_is_ours(known: &Knowledge, cluster: &str) -> Option<bool> {
    known
        .group
        .as_ref()
        .map(|answer| matches!(answer, GroupAnswer::Tags(tags) if read(tags, cluster) == Names::Us))
}

/// These tags name another cluster and not ours.
pub(super) fn names_others(tags: &BTreeMap<String, String>, policy: &Policy) -> bool {
    policy.cluster_name.as_deref().is_some_and(|cluster| read(tags, cluster) == Names::Others)
}

/// These tags name us.
pub(super) fn names_us(tags: &BTreeMap<String, String>, policy: &Policy) -> bool {
    policy.cluster_name.as_deref().is_some_and(|cluster| read(tags, cluster) == Names::Us)
}

/// Which instance of those that have the private DNS name of a Node without providerID is meant:
/// one that names us before one that names nobody, one that is there before one that is terminated
/// (addresses are used again; a stopped instance keeps its own). Two networks of a region may have
/// the same addresses: where several are there and none of them names us, nobody can tell.
#[must_use]
pub fn called<'a>(namesakes: &'a [InstanceFacts], policy: &Policy) -> Option<&'a InstanceFacts> {
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

/// The tags that say of which cluster something is: those of the cloud provider and of EKS. The
/// role's policies name the same two. Those of the cluster autoscaler say which groups it scales,
/// and a role that is limited to tags could not answer the hooks of a group that has only them.
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

/// The instance has the tag that `--managed-tag` asks for; `None` while that is not known. The tags
/// of an instance that has ended are soon gone: then its group's count.
pub(super) fn has_managed_tag(known: &Knowledge, policy: &Policy, hook_owed: bool) -> Option<bool> {
    let Some(key) = policy.managed_tag.as_deref() else { return Some(true) };
    let facts = known.instance.as_ref()?.facts.as_ref();
    if facts.is_some_and(|f| f.tags.contains_key(key)) {
        return Some(true);
    }
    let tags_are_gone = facts.is_none_or(|f| f.state == InstanceState::Terminated);
    if !tags_are_gone || !hook_owed {
        return Some(false);
    }
    known
        .group
        .as_ref()
        .map(|answer| matches!(answer, GroupAnswer::Tags(tags) if tags.contains_key(key)))
}
