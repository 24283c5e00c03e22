//! Whether an instance is back in service although no event reports it. The Node has a released
//! record: its drain has ended.
//!
//! The interruptions of the record decide what AWS must show. If no row has one of them, or Sundown
//! cannot read it, Sundown does not restore the Node in this way. For example, after a spot notice,
//! a rebalance recommendation or a scheduled change, the instance stays `InService` while its node
//! is drained.
//!
//! | every interruption of the record is | AWS must show |
//! | --- | --- |
//! | an action that moves the instance into a warm pool (a launch or a terminate action), or that replaces its root volume | its group reports it as `InService` |
//! | a spot notice of a hibernation, or a state change `stopping` or `stopped` | EC2 reports it as `running`, and has stopped it since the notice: a state change in the record shows that, or a later launch time |
//! | a spot notice of a stop | the same, if the boot ID is not known. A known one must change, and then the record is void |
//!
//! While a drain request of the record still asks, it holds the node. One that is gone does not count.
//!
//! A record with interruptions of several rows needs the answers of all these rows. Its lifecycle
//! actions have ended, because Sundown releases a record only after that. The kubelet must have
//! renewed its Lease after the drain ended and after the stop, and the Node must be Ready. Two
//! checks must show all of that ([`ReturnSightings`]). All times come from AWS, except those of
//! Leases: this code assumes that the kubelet's clock agrees with AWS's.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Record, RecordStatus, ours,
    requests::{has_asking_request, is_request},
    schema::{Entry, KnownEntry},
    status,
};
use crate::domain::{
    GroupName, InstanceFacts, InstanceId, InstanceState, Kind, Moment, Node, Ready, seconds,
};

/// How long after the first answer the second one must be asked for. AWS's answers may be that old.
const LOOK_AGAIN: Duration = seconds(15);
/// The pause after a question without an answer.
const ASK_SOON: Duration = seconds(5);

/// What would show that the instance of a released record is back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedReturn {
    /// The instance of the Node.
    pub instance: InstanceId,
    /// The group that must report it as `InService`; `None`: no action of a group took it away.
    pub group: Option<GroupName>,
    stop: Option<Stop>,
    /// When the record was released.
    since: Moment,
}

/// A stop of the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stop {
    /// When the last interruption in the record happened.
    announced: Moment,
    /// When a state change in the record showed it; `None`: none has.
    shown: Option<Moment>,
}

/// What AWS has answered about the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AwsAnswer<'a> {
    /// Its `LifecycleState` in the list of the group; `None`: not asked, or not in the list: it is
    /// in no group, or in a warm pool.
    pub group_state: Option<&'a str>,
    /// The instance in EC2; `None`: not asked, or there is no such instance.
    pub instance: Option<&'a InstanceFacts>,
}

impl AwsAnswer<'_> {
    /// Its group reports the instance as `InService`.
    #[must_use]
    pub fn is_in_service(&self) -> bool {
        self.group_state == Some("InService")
    }
}

/// What would show that the instance of `node` is back. `None`: nothing of Sundown's is on the
/// Node, a person keeps it cordoned or asks for its drain, its record is not released or does not count, or the table has
/// no row for it.
#[must_use]
pub fn awaited_return(node: &Node) -> Option<AwaitedReturn> {
    let RecordStatus::Released { record, .. } = status(node, None) else { return None };
    let is_held = record.released.as_ref().is_some_and(|released| released.held);
    if node.keeps_cordon() || is_held || !ours(node, &record).any() {
        return None;
    }
    let since = record.released.as_ref()?.at;
    if has_asking_request(&record, node, since) {
        return None;
    }
    let mut groups = BTreeSet::new();
    let mut stops = Vec::new();
    for entry in &record.interruptions {
        let Entry::Known(known) = entry else { return None };
        if is_request(known) {
            continue;
        }
        match row(known, &record)? {
            Row::Group(group) => drop(groups.insert(group)),
            Row::Stop(shown) => stops.push((known.time, shown)),
        }
    }
    groups.extend(record.pool_group().cloned());
    let group = groups.pop_first();
    if !groups.is_empty() {
        return None;
    }
    let announced = stops.iter().map(|(time, _)| *time).max();
    let shown = stops.iter().filter_map(|(_, shown)| *shown).max();
    let stop = announced.map(|announced| Stop { announced, shown });
    (group.is_some() || stop.is_some()).then(|| AwaitedReturn {
        instance: record.instance.clone(),
        group,
        stop,
        since,
    })
}

/// What AWS must show for one interruption of a released record: a row of the table.
enum Row {
    /// This group must report the instance as `InService`.
    Group(GroupName),
    /// EC2 must have started the instance again. The field: when the instance stopped, by a state
    /// change. `None`: the interruption only announces the stop.
    Stop(Option<Moment>),
}

/// Every interruption of the record except requests has a row in the table.
pub(super) fn has_a_row_for_all(record: &Record) -> bool {
    record.interruptions.iter().all(|entry| match entry {
        Entry::Known(known) => is_request(known) || row(known, record).is_some(),
        Entry::Unknown(_) => false,
    })
}

fn row(known: &KnownEntry, record: &Record) -> Option<Row> {
    match Kind::from_word(&known.kind)? {
        Kind::TerminateHook | Kind::LaunchHook if known.warm_pool => {
            known.group.clone().map(Row::Group)
        }
        Kind::RootVolume => known.group.clone().map(Row::Group),
        Kind::SpotHibernate => Some(Row::Stop(None)),
        Kind::SpotStop if record.boot.is_none() => Some(Row::Stop(None)),
        Kind::StateChange => {
            let state = known.state.as_deref()?.parse().ok()?;
            matches!(state, InstanceState::Stopping | InstanceState::Stopped)
                .then_some(Row::Stop(Some(known.time)))
        }
        _ => None,
    }
}

impl AwaitedReturn {
    /// EC2 must be asked about the instance.
    #[must_use]
    pub const fn needs_instance(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether AWS shows that the instance is back. Returns the time after which its kubelet must
    /// have renewed its Lease.
    #[must_use]
    pub fn shown_by(&self, answer: &AwsAnswer<'_>) -> Option<Moment> {
        if self.group.is_some() && !answer.is_in_service() {
            return None;
        }
        let Some(stop) = self.stop else { return Some(self.since) };
        let instance = answer.instance.filter(|found| found.state == InstanceState::Running)?;
        let started = instance.launched.filter(|launched| *launched > stop.announced);
        started.into_iter().chain(stop.shown).max().map(|at| at.max(self.since))
    }
}

/// What the questions about a Node have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// AWS or the API server did not answer.
    Unanswered,
    /// The instance is not back, or its node is not up.
    Away,
    /// The instance is back, and its node is up.
    Back,
}

impl Look {
    /// What was seen of a Node whose instance is back by AWS's answers. `since`: of
    /// [`AwaitedReturn::shown_by`]; `renewed`: when the kubelet renewed the Lease, `None` if there
    /// is no Lease.
    #[must_use]
    pub fn of_node(node: &Node, since: Moment, renewed: Option<Moment>) -> Self {
        let is_up = node.ready == Ready::True && renewed.is_some_and(|renewed| renewed > since);
        if is_up { Self::Back } else { Self::Away }
    }
}

/// The Nodes whose instances were seen back once. A Node is restored if its instance is seen back
/// a second time, at least 15 s later, with the same record and not seen away in between.
#[derive(Debug, Default)]
pub struct ReturnSightings {
    /// By UID: the text of the record, and when the first sighting ended. AWS may answer a question
    /// long after it was asked.
    first: BTreeMap<String, (String, Moment)>,
}

impl ReturnSightings {
    /// Takes in what questions have shown of a Node. `asked`: when they began; `answered`: when the
    /// last one was answered. Returns whether the Node must be restored now.
    pub fn note(&mut self, node: &Node, look: Look, asked: Moment, answered: Moment) -> bool {
        let record = node.record().unwrap_or_default();
        let first = self.first.get(&node.uid).filter(|(seen, _)| seen == record);
        match (look, first) {
            (Look::Unanswered, _) => false,
            (Look::Away, _) => {
                self.first.remove(&node.uid);
                false
            }
            (Look::Back, Some((_, first))) if asked < first.plus(LOOK_AGAIN) => false,
            (Look::Back, Some(_)) => {
                self.first.remove(&node.uid);
                true
            }
            (Look::Back, None) => {
                self.first.insert(node.uid.clone(), (record.to_owned(), answered));
                false
            }
        }
    }

    /// Forgets the Nodes that no longer wait for a return.
    pub fn keep(&mut self, waiting: &[(std::sync::Arc<Node>, AwaitedReturn)]) {
        let uids: BTreeSet<&str> = waiting.iter().map(|(node, _)| node.uid.as_str()).collect();
        self.first.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// When to look again: `interval` after `now`, or sooner where an instance was seen back once.
    #[must_use]
    pub fn next_look(&self, now: Moment, interval: Duration) -> Moment {
        let second = self.first.values().map(|(_, first)| first.plus(LOOK_AGAIN)).min();
        let soonest = now.plus(ASK_SOON);
        second
            .map_or(now.plus(interval), |at| at.max(soonest).min(now.plus(interval.max(ASK_SOON))))
    }
}
