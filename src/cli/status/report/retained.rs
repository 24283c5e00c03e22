//! The instances that Auto Scaling retains: as Auto Scaling shows them, and those that only the
//! record of a Node shows, because Sundown has completed a hook with ABANDON.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::{
        facts::{Facts, RetainedFact, Subject},
        model::RetainedInstance,
    },
    Reader,
};
use crate::{
    cluster::EventReason,
    domain::{GroupName, InstanceId, Moment, Node, seconds},
    record::{self, Record, RecordStatus},
};

/// How long after ABANDON Auto Scaling may show another state, such as `Terminating:Proceed`.
const SOON: std::time::Duration = seconds(600);

/// What the record of a Node shows after Sundown has completed its hook with ABANDON.
struct Abandoned {
    record: Record,
    at: Moment,
}

impl Abandoned {
    /// `None`: Sundown has not completed a hook of the Node in this way.
    fn of(node: &Node) -> Option<Self> {
        let RecordStatus::Released { record, .. } = record::status(node, None) else { return None };
        let at = record.released().filter(|released| released.abandoned)?.at;
        Some(Self { record, at })
    }

    fn groups(&self) -> BTreeSet<GroupName> {
        let facts = self.record.interruptions(self.record.instance()).into_iter();
        facts.filter_map(|facts| Some(facts.hook?.key.group)).collect()
    }

    /// Auto Scaling shows all retained instances of its groups.
    fn is_known_to_aws(&self, facts: &Facts) -> bool {
        let groups = self.groups();
        !groups.is_empty()
            && groups.is_subset(&facts.retained.known)
            && facts.now >= self.at.plus(SOON)
    }
}

/// Auto Scaling shows this instance as retained.
fn shown<'f>(facts: &'f Facts, instance: &InstanceId) -> Option<&'f RetainedFact> {
    facts.retained.instances.iter().find(|fact| fact.instance == *instance)
}

/// The retained instances, sorted by group and instance.
pub(super) fn retained(facts: &Facts) -> Vec<RetainedInstance> {
    let nodes: BTreeMap<&InstanceId, &Node> =
        facts.nodes.iter().filter_map(|node| Some((node.instance.as_ref()?, node))).collect();
    let mut all: Vec<RetainedInstance> = Vec::new();
    for fact in &facts.retained.instances {
        let node = nodes.get(&fact.instance).copied();
        all.push(RetainedInstance {
            instance: fact.instance.to_string(),
            node: node.map(|node| node.name.clone()),
            group: Some(fact.group.to_string()),
            state: Some(fact.state.clone()),
            since: node.and_then(|node| since(facts, node)),
        });
    }
    for node in &facts.nodes {
        let Some(abandoned) = Abandoned::of(node) else { continue };
        let instance = abandoned.record.instance();
        if shown(facts, instance).is_some() || abandoned.is_known_to_aws(facts) {
            continue;
        }
        all.push(RetainedInstance {
            instance: instance.to_string(),
            node: Some(node.name.clone()),
            group: abandoned.groups().pop_first().map(|group| group.to_string()),
            state: None,
            since: Some(abandoned.at),
        });
    }
    all.sort_by(|one, other| {
        (&one.group, &one.instance, &one.node).cmp(&(&other.group, &other.instance, &other.node))
    });
    all
}

/// Since when at least the instance of this Node is retained: since Sundown's ABANDON, or since the
/// leader's sweep first reported it.
fn since(facts: &Facts, node: &Node) -> Option<Moment> {
    let reported = facts.events.iter().filter(|event| {
        event.subject == Subject::Node(node.name.clone())
            && event.reason == EventReason::InstanceRetained.as_str()
    });
    let abandoned = Abandoned::of(node).map(|abandoned| abandoned.at);
    abandoned.or_else(|| reported.map(|event| event.first).min())
}

impl Reader<'_> {
    /// What Auto Scaling shows of the instance of this Node, if its record does not show the same.
    pub(super) fn retained_remark(&self, node: &Node) -> Option<String> {
        let abandoned = Abandoned::of(node);
        match (&abandoned, shown(self.facts, node.instance.as_ref()?)) {
            (None, Some(RetainedFact { group, state, .. })) => Some(format!(
                "The group {group} retains its instance ({state}), because a terminate hook timed \
                 out or another tool abandoned it. The instance costs money until somebody \
                 terminates it. See operations.md, \"Retained instances\"."
            )),
            (Some(abandoned), None) if abandoned.is_known_to_aws(self.facts) => {
                Some("Auto Scaling does not show its instance as retained any longer.".to_owned())
            }
            _ => None,
        }
    }
}
