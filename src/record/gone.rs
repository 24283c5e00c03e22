//! The Node of an instance that is gone: when it gets the out-of-service taint, and when Sundown
//! deletes it (`--out-of-service-taint`, `--delete-node`).
//!
//! EC2 is asked only about Nodes in the last row of this table ([`awaited_termination`]):
//!
//! | the Node | is |
//! | --- | --- |
//! | has no released record that counts for its instance and its boot, or not Sundown's cordon and taint | left alone |
//! | was only cordoned or tainted (`--on`): Sundown has evicted nothing | left alone |
//! | an interruption of the record moves the instance into a warm pool, stops or hibernates it, or replaces its root volume; or this version cannot read it. A state change that shows a stop does not count beside a terminate hook | left alone: the instance may come back |
//! | no interruption of the record terminates the instance (only a rebalance recommendation, a scheduled change or a sickness) | left alone |
//! | has all that the flags ask for | left alone |
//! | anything else | asked about, until an hour after the end of its drain, and by each leader at least once ([`AwaitedTermination::is_given_up`]) |
//!
//! What follows from the answer ([`AwaitedTermination::next`]), the first row that applies:
//!
//! | EC2 | the Node | next |
//! | --- | --- | --- |
//! | shows a state other than `terminated` | | [`GoneStep::Wait`] |
//! | does not know the instance | | [`GoneStep::Wait`]: a wrong region or account would look like this, and EC2 shows a terminated instance for as long as Sundown asks |
//! | `terminated` | is not the only Node that claims the instance | [`GoneStep::Wait`]: its machine may be another one, and still write to its volumes |
//! | `terminated` | is Ready | [`GoneStep::Wait`]: another machine may have taken over its name |
//! | `terminated` | lacks the taint, and it is asked for | [`GoneStep::Taint`] |
//! | the same | is to be deleted, and has had the taint for less than a minute | [`GoneStep::Wait`]: Kubernetes deletes its pods and detaches its volumes first |
//! | the same | is to be deleted | [`GoneStep::Delete`] |
//! | the same | | [`GoneStep::Done`] |
//!
//! All times are by AWS's clock. EC2 never starts a terminated instance again. An instance that is
//! only stopped, or that rebooted, is never `terminated`, so no reboot leads here.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::{Record, RecordStatus, patch::NodePatch, schema::Entry, schema::KnownEntry, status};
use crate::domain::{
    GoneNodes, InstanceFacts, InstanceId, InstanceState, Kind, Moment, Node, OUT_OF_SERVICE, Ready,
    Taint, seconds,
};

const OUT_OF_SERVICE_VALUE: &str = "nodeshutdown";
/// How long after the end of its drain an instance is asked about: EC2 shows a terminated instance
/// for about that long.
const GIVE_UP_AFTER: Duration = Duration::from_hours(1);
/// How long the taint stays on a Node before the Node is deleted. The pod garbage collector looks
/// every 20 s.
const TAINTED_BEFORE_DELETE: Duration = seconds(60);

/// A Node whose drain has ended, and whose instance ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedTermination {
    /// The instance of the Node.
    pub instance: InstanceId,
    /// When the drain ended.
    since: Moment,
}

/// What to do with the Node now.
#[derive(Debug, Clone, PartialEq)]
pub enum GoneStep {
    /// Ask again later.
    Wait(GoneWait),
    /// Send this merge patch, which adds the taint.
    Taint(Value),
    /// Delete the Node, with its UID as the precondition.
    Delete,
    /// Nothing is left to do.
    Done,
}

/// Why the Node stays as it is for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoneWait {
    /// EC2 did not answer.
    Unanswered,
    /// The role may not call `ec2:DescribeInstances`.
    Denied,
    /// The API server did not take the change of the Node.
    NotChanged,
    /// Kubernetes' RBAC or an admission policy or webhook refuses the change of the Node.
    NotAllowed,
    /// EC2 shows the instance in this state.
    State(InstanceState),
    /// EC2 does not know the instance.
    NotKnown,
    /// The instance is terminated, and several Nodes claim it.
    SeveralNodes,
    /// The instance is terminated, and the Node is Ready.
    Ready,
    /// The Node has just got the taint.
    Tainted,
}

impl fmt::Display for GoneWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered => f.write_str("EC2 does not answer whether the instance is gone"),
            Self::Denied => f.write_str("the AWS role may not call ec2:DescribeInstances"),
            Self::NotChanged => f.write_str("the API server does not take the change of the node"),
            Self::NotAllowed => f.write_str(
                "Kubernetes does not let Sundown change or delete the node (RBAC, a policy or a \
                 webhook)",
            ),
            Self::State(state) => write!(f, "EC2 reports the instance as {}", state.as_str()),
            Self::NotKnown => f.write_str("EC2 does not know the instance (region, account?)"),
            Self::SeveralNodes => f.write_str("several nodes claim the instance (providerID)"),
            Self::Ready => f.write_str("EC2 has terminated the instance, but its node is Ready"),
            Self::Tainted => f.write_str("its node has had the out-of-service taint for a moment"),
        }
    }
}

/// The instance of `node`, if Sundown must ask EC2 about it (first table). `None`: it need not.
#[must_use]
pub fn awaited_termination(node: &Node, wanted: GoneNodes) -> Option<AwaitedTermination> {
    let is_left = wanted.delete || (wanted.taint && out_of_service(node).is_none());
    if !is_left {
        return None;
    }
    let RecordStatus::Released { record, has_our_changes: true } = status(node, None) else {
        return None;
    };
    let since = record.released.as_ref()?.at;
    let is_drained = node.instance.is_some() && record.response().evicts();
    let awaits = is_drained && ends_instance(&record);
    awaits.then(|| AwaitedTermination { instance: record.instance.clone(), since })
}

/// Whether the instance ends for good: an interruption of the record terminates it, and after none
/// of them it may come back. Beside a terminate hook a state change does not count, because the group
/// terminates the instance also if it stops.
#[must_use]
pub fn ends_instance(record: &Record) -> bool {
    let is_termination = |known: &KnownEntry| {
        Kind::from_word(&known.kind) == Some(Kind::TerminateHook) && !known.warm_pool
    };
    let terminates = record.known().any(is_termination);
    let ends = record.interruptions.iter().map(|entry| match entry {
        Entry::Known(known) if known.state.is_some() && terminates => InstanceEnd::NotKnown,
        Entry::Known(known) => end_of(known),
        Entry::Unknown(_) => InstanceEnd::MayComeBack,
    });
    let ends: Vec<InstanceEnd> = ends.collect();
    ends.contains(&InstanceEnd::Terminated) && !ends.contains(&InstanceEnd::MayComeBack)
}

/// What an interruption does to its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InstanceEnd {
    /// EC2 terminates the instance: it cannot start again.
    Terminated,
    /// It stops, or goes into a warm pool, or gets a new root volume.
    MayComeBack,
    /// The interruption alone does not end the instance.
    NotKnown,
}

fn end_of(known: &KnownEntry) -> InstanceEnd {
    let Some(kind) = Kind::from_word(&known.kind) else { return InstanceEnd::MayComeBack };
    let stops = || {
        let state = known.state.as_deref().and_then(|state| state.parse().ok());
        !matches!(state, Some(InstanceState::ShuttingDown | InstanceState::Terminated))
    };
    match kind {
        _ if known.warm_pool => InstanceEnd::MayComeBack,
        Kind::RootVolume | Kind::SpotStop | Kind::SpotHibernate => InstanceEnd::MayComeBack,
        Kind::StateChange if stops() => InstanceEnd::MayComeBack,
        Kind::TerminateHook
        | Kind::Spot
        | Kind::CapacityReservation
        | Kind::CapacityBlock
        | Kind::StateChange => InstanceEnd::Terminated,
        Kind::LaunchHook
        | Kind::LaunchSuccessful
        | Kind::Rebalance
        | Kind::ScheduledChange
        | Kind::Impaired
        | Kind::Request => InstanceEnd::NotKnown,
    }
}

impl AwaitedTermination {
    /// Sundown no longer waits for the end of the instance: the drain ended an hour ago.
    /// `was_asked`: this leader has asked EC2 at least once.
    #[must_use]
    pub fn is_given_up(&self, now: Moment, was_asked: bool) -> bool {
        was_asked && now >= self.since.plus(GIVE_UP_AFTER)
    }

    /// What to do with `node`, the Node in its current version, by EC2's answer: the second table.
    /// `found`: `None` if EC2 does not know the instance. `claims`: how many Nodes claim it.
    #[must_use]
    pub fn next(
        &self,
        node: &Node,
        found: Option<&InstanceFacts>,
        claims: usize,
        wanted: GoneNodes,
        now: Moment,
    ) -> GoneStep {
        match found.map(|found| found.state) {
            Some(InstanceState::Terminated) if claims > 1 => {
                return GoneStep::Wait(GoneWait::SeveralNodes);
            }
            Some(InstanceState::Terminated) if node.ready == Ready::True => {
                return GoneStep::Wait(GoneWait::Ready);
            }
            Some(InstanceState::Terminated) => {}
            Some(state) => return GoneStep::Wait(GoneWait::State(state)),
            None => return GoneStep::Wait(GoneWait::NotKnown),
        }
        let taint = out_of_service(node);
        if wanted.taint && taint.is_none() {
            let mut patch = NodePatch::new(node);
            patch.add_taint(&Taint {
                key: OUT_OF_SERVICE.to_owned(),
                value: Some(OUT_OF_SERVICE_VALUE.to_owned()),
                effect: "NoExecute".to_owned(),
                time_added: Some(format!("{now:.0}")),
            });
            return GoneStep::Taint(patch.body());
        }
        if !wanted.delete {
            return GoneStep::Done;
        }
        let added = taint.and_then(|taint| taint.time_added.as_ref()?.parse::<Moment>().ok());
        if added.is_some_and(|added| now < added.plus(TAINTED_BEFORE_DELETE) && added <= now) {
            return GoneStep::Wait(GoneWait::Tainted);
        }
        GoneStep::Delete
    }
}

/// The taint `node.kubernetes.io/out-of-service` of this Node. `None` if it does not have it.
fn out_of_service(node: &Node) -> Option<&Taint> {
    node.taints.iter().find(|taint| taint.key == OUT_OF_SERVICE)
}
