//! What becomes of a Node whose drain is over: for the text of `status NODE`, and for the summary of
//! `status`. The first row that applies decides:
//!
//! | the Node | is |
//! | --- | --- |
//! | its hook was completed with ABANDON | [`AfterDrain::Retained`] |
//! | Sundown's cordon and taint are not on it | [`AfterDrain::Serves`] |
//! | Sundown would restore it, and `sundown.dev/keep-cordoned` holds that | [`AfterDrain::Held`] |
//! | the same, and the annotation is gone | [`AfterDrain::RestoreDue`] |
//! | the leader taints or deletes it when its instance is gone ([`record::awaited_termination`]) | [`AfterDrain::Terminates`], [`AfterDrain::GivenUp`] |
//! | its instance was sick ([`record::impaired_status`]) | [`AfterDrain::Sick`] |
//! | AWS will show that its instance is back ([`record::awaited_return`]) | [`AfterDrain::Returns`] |
//! | an interruption ends its instance for good ([`record::ends_instance`]) | [`AfterDrain::Ends`] |
//! | a request for its drain is still on it | [`AfterDrain::Requested`] |
//! | it was drained for a scheduled change | [`AfterDrain::ScheduledChange`] |
//! | any other | [`AfterDrain::EndsOrBoots`]: each boot makes its record void |
//!
//! The leader finds an instance that is back, or healthy again, by its sweep. With the sweep off, an
//! event, a boot or a person must end the cordon.

use super::requests::asking;
use crate::{
    cli::status::model::Until,
    config::PublishedSweep,
    domain::{
        DRAIN_REQUEST, GoneNodes, GroupName, ImpairedStatus, KEEP_CORDONED, Kind, Moment, Node,
    },
    record::{self, Record},
};

/// A sentence about a node that Sundown would restore later.
pub(super) const KEPT: &str = " It carries sundown.dev/keep-cordoned: Sundown does not restore it \
    before a person removes the annotation.";

/// How a person restores a node, which the text of `status` names if there is no sweep.
const BY_HAND: &str = "restore it by hand once its instance is back (`kubectl uncordon NODE; kubectl \
    taint node NODE sundown.dev/interruption-`)";
/// It is not known whether a leader sweeps.
const IF_SWEPT: &str = " That takes a leader whose sweep is on (--sweep-interval); the Lease does not \
    show one.";

/// What the leader does after drains, by its settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaderHabits {
    /// What it does with the Nodes of instances that are gone.
    pub(super) gone_nodes: GoneNodes,
    /// `NotKnown`: nobody leads, or the leader has not published it.
    pub(super) sweep: PublishedSweep,
}

/// What becomes of a Node after its drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AfterDrain {
    /// AWS accepted ABANDON for its hook: the group retains its instance.
    Retained,
    /// It is no longer cordoned by Sundown.
    Serves,
    /// A person keeps it cordoned.
    Held,
    /// The leader restores it now.
    RestoreDue,
    /// The leader taints or deletes it once EC2 shows its instance as terminated.
    Terminates,
    /// The same, but the leader has stopped asking EC2.
    GivenUp,
    /// It stays cordoned until its instance is healthy or replaced.
    Sick {
        /// Pods were left at the end of the drain.
        pods_left: bool,
        /// The leader's sweep asks EC2 whether it is healthy.
        sweep: PublishedSweep,
    },
    /// It stays cordoned until AWS shows its instance back.
    Returns(Return),
    /// It stays cordoned until its instance goes.
    Ends,
    /// It stays cordoned until the annotations of these requests are removed.
    Requested(Vec<String>),
    /// It stays cordoned until the change is over.
    ScheduledChange,
    /// It stays cordoned until its instance goes, or has booted again.
    EndsOrBoots,
}

/// What must show that an instance is back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Return {
    away: Away,
    /// The group that must report it as `InService`.
    group: Option<GroupName>,
    /// EC2 must have started it again.
    needs_start: bool,
    /// The leader's sweep asks AWS for that.
    sweep: PublishedSweep,
}

/// Why an instance that may come back is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Away {
    /// It was launched into a warm pool. Its node was not drained.
    LaunchedIntoPool,
    /// It returns to its warm pool.
    ToPool,
    /// Its root volume is replaced.
    RootVolume,
    /// It stops or hibernates.
    Stop,
}

impl AfterDrain {
    /// `record`: the released record of the Node.
    pub(super) fn of(
        node: &Node,
        record: &Record,
        has_our_changes: bool,
        habits: LeaderHabits,
        now: Moment,
    ) -> Self {
        let released = record.released();
        if released.is_some_and(|released| released.abandoned) {
            return Self::Retained;
        }
        if !has_our_changes {
            return Self::Serves;
        }
        if released.is_some_and(|released| released.held) {
            return if node.keeps_cordon() { Self::Held } else { Self::RestoreDue };
        }
        if let Some(awaited) = record::awaited_termination(node, habits.gone_nodes) {
            return if awaited.is_given_up(now, true) { Self::GivenUp } else { Self::Terminates };
        }
        match record::impaired_status(node) {
            ImpairedStatus::Drained => {
                return Self::Sick { pods_left: false, sweep: habits.sweep };
            }
            ImpairedStatus::PodsLeft => {
                return Self::Sick { pods_left: true, sweep: habits.sweep };
            }
            _ => {}
        }
        let kinds = kinds(record);
        if let Some(back) = Return::of(node, &kinds, habits.sweep) {
            Self::Returns(back)
        } else if record::ends_instance(record) {
            Self::Ends
        } else if kinds.contains(&Some(Kind::Request)) && !asking(record, node).is_empty() {
            Self::Requested(asking(record, node))
        } else if kinds.iter().all(|kind| *kind == Some(Kind::ScheduledChange)) {
            Self::ScheduledChange
        } else {
            Self::EndsOrBoots
        }
    }

    /// What ends the cordon, for the summary. `None`: nothing is to be listed, or it is listed as
    /// retained.
    pub(super) const fn until(&self) -> Option<Until> {
        match self {
            Self::Retained | Self::Serves => None,
            Self::Terminates | Self::GivenUp | Self::Ends => Some(Until::InstanceGoes),
            Self::ScheduledChange | Self::EndsOrBoots => Some(Until::InstanceGoesOrBoots),
            Self::Returns(back) => Some(back.until()),
            Self::Sick { sweep: PublishedSweep::Off, .. } => Some(Until::PersonRestores),
            Self::Sick { .. } => Some(Until::InstanceIsHealthy),
            Self::Held => Some(Until::AnnotationIsRemoved),
            Self::RestoreDue => Some(Until::LeaderRestores),
            Self::Requested(_) => Some(Until::RequestIsRemoved),
        }
    }

    /// Sundown restores the Node when the wait ends.
    const fn ends_with_restore(&self) -> bool {
        matches!(
            self,
            Self::Sick { .. }
                | Self::Returns(_)
                | Self::Requested(_)
                | Self::ScheduledChange
                | Self::EndsOrBoots
        )
    }
}

fn kinds(record: &Record) -> Vec<Option<Kind>> {
    record.interruptions(record.instance()).into_iter().map(|facts| facts.kind).collect()
}

impl Return {
    /// `None`: nothing but a boot would show that the instance is back.
    fn of(node: &Node, kinds: &[Option<Kind>], sweep: PublishedSweep) -> Option<Self> {
        // With the annotation the leader does not look for the return, which comes all the same.
        let mut without_annotation = node.clone();
        without_annotation.annotations.remove(KEEP_CORDONED);
        let awaited = record::awaited_return(&without_annotation)?;
        let away = if kinds.contains(&Some(Kind::RootVolume)) {
            Away::RootVolume
        } else if kinds.iter().all(|kind| *kind == Some(Kind::LaunchHook)) {
            Away::LaunchedIntoPool
        } else if awaited.group.is_some() {
            Away::ToPool
        } else {
            Away::Stop
        };
        let needs_start = awaited.needs_instance();
        Some(Self { away, group: awaited.group, needs_start, sweep })
    }

    const fn until(&self) -> Until {
        match (self.sweep, self.away) {
            (PublishedSweep::On | PublishedSweep::NotKnown, _) => Until::InstanceIsBack,
            (PublishedSweep::Off, Away::LaunchedIntoPool | Away::ToPool) => Until::EventShowsReturn,
            // AWS sends no event when it comes back.
            (PublishedSweep::Off, Away::RootVolume | Away::Stop) => Until::InstanceGoesOrBoots,
        }
    }

    /// What restores the Node if the leader does not sweep.
    fn without_sweep(&self) -> String {
        let shown = match (self.away, &self.group) {
            (Away::LaunchedIntoPool | Away::ToPool, Some(group)) => {
                format!("if an event shows that the group {group} has launched it again")
            }
            (Away::RootVolume, _) => "once it has booted from the new volume".to_owned(),
            _ => "once it has booted again".to_owned(),
        };
        format!(
            "The sweep is off (--sweep-interval 0s), so Sundown does not look whether it is back. \
             Sundown restores the node {shown}. Otherwise {BY_HAND}."
        )
    }

    fn sentences(&self) -> String {
        let what = match self.away {
            Away::LaunchedIntoPool => "",
            Away::ToPool => " Its instance returns to its warm pool.",
            Away::RootVolume => " AWS replaces the root volume of its instance.",
            Away::Stop => " Its instance stops or hibernates.",
        };
        if self.sweep == PublishedSweep::Off {
            return format!("{what} The node stays cordoned. {}", self.without_sweep());
        }
        let boot = match self.away {
            Away::RootVolume => "it has booted from the new volume, or ",
            Away::LaunchedIntoPool | Away::ToPool | Away::Stop => "",
        };
        let mut shown = Vec::new();
        if let Some(group) = &self.group {
            shown.push(format!("the group {group} reports its instance as InService"));
        }
        if self.needs_start {
            shown.push("EC2 has started its instance again".to_owned());
        }
        format!(
            "{what} The node stays cordoned until {boot}{}, and its kubelet is up. Then Sundown \
             restores it.{}",
            shown.join(", "),
            if_swept(self.sweep)
        )
    }
}

fn if_swept(sweep: PublishedSweep) -> &'static str {
    if sweep == PublishedSweep::NotKnown { IF_SWEPT } else { "" }
}

/// What becomes of a Node whose instance was sick.
fn sick(pods_left: bool, sweep: PublishedSweep) -> String {
    let left = if pods_left { " Pods are left on it." } else { "" };
    if sweep == PublishedSweep::Off {
        return format!(
            "{left} It stays cordoned. The sweep is off (--sweep-interval 0s), so Sundown does not \
             look whether its sick instance is healthy: replace the instance, or {BY_HAND}."
        );
    }
    let replaced = if pods_left {
        "until a person replaces the instance: Sundown does not report an instance with pods to \
         Auto Scaling."
    } else {
        "until the instance is replaced: by Auto Scaling with --then impaired=unhealthy, otherwise \
         by a person."
    };
    format!(
        "{left} It stays cordoned until its sick instance is healthy again, and Sundown restores it, \
         or {replaced}{}",
        if_swept(sweep)
    )
}

/// The end of the drain, and what becomes of the Node, in a few sentences. `is_kept`: it carries
/// `sundown.dev/keep-cordoned`.
pub(super) fn over(record: &Record, next: &AfterDrain, is_kept: bool) -> String {
    let Some(released) = record.released() else { return "Its drain is over.".to_owned() };
    let ended = match next {
        AfterDrain::Returns(Return { away: Away::LaunchedIntoPool, .. }) => format!(
            "It was cordoned at {:.0}, because its instance was launched into a warm pool.",
            released.at
        ),
        _ => format!("Its drain ended at {:.0} ({}).", released.at, released.outcome),
    };
    let rest = match next {
        AfterDrain::Retained => {
            " Pods were left at the deadline, and its hook was completed with ABANDON: the group \
             retains its instance, which costs money until somebody terminates it."
        }
        AfterDrain::Terminates => {
            " The leader waits until EC2 shows its instance as terminated and the Node is not \
             Ready. Then it taints or deletes the Node (--out-of-service-taint, --delete-node)."
        }
        AfterDrain::GivenUp => {
            " The leader waited for an hour to taint or delete the Node, and no longer does: the \
             Event NodeKept says why. Once its instance has ended, delete the Node by hand."
        }
        AfterDrain::Ends => " It stays cordoned until its instance goes.",
        AfterDrain::EndsOrBoots => {
            " It stays cordoned until its instance goes, or has booted again. After a boot, Sundown \
             restores it once the instance is back."
        }
        AfterDrain::Requested(names) => &format!(
            " It stays cordoned until nobody asks for that any more: remove {}. Then Sundown restores \
             it.",
            names
                .iter()
                .map(|name| format!("{DRAIN_REQUEST}{name}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        AfterDrain::ScheduledChange => {
            " It stays cordoned until the scheduled change is over: the instance goes, or boots and \
             Sundown restores the node. Sundown also restores it if AWS cancels the change."
        }
        AfterDrain::Sick { pods_left, sweep } => &sick(*pods_left, *sweep),
        AfterDrain::Returns(back) => &back.sentences(),
        AfterDrain::Held => {
            " Sundown would restore it, but sundown.dev/keep-cordoned holds that. It stays cordoned \
             until a person removes the annotation."
        }
        AfterDrain::RestoreDue => {
            " sundown.dev/keep-cordoned held its restore, and is gone: the leader restores it now."
        }
        AfterDrain::Serves => "",
    };
    let kept = if is_kept && next.ends_with_restore() { KEPT } else { "" };
    format!("{ended}{rest}{kept}")
}
