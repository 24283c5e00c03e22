//! The facts of an accepted interruption that Sundown keeps after it deletes the message.

use std::time::Duration;

use super::{
    Cause, DrainRequest, DrainSettings, HookAction, InstanceId, InstanceState, Interruption, Kind,
    LifecycleAction, Moment, Response, seconds,
};

/// How long a spot instance has after its notice (EC2 user guide, "Spot Instance interruption
/// notices").
pub const SPOT_NOTICE: Duration = seconds(120);
/// How long pods have on an instance that is stopping or shutting down.
pub const ENDING_NOTICE: Duration = seconds(30);
/// How long before the end of a Capacity Block its warning comes (EC2 user guide, "Monitor Capacity
/// Blocks").
pub const BLOCK_NOTICE: Duration = seconds(40 * 60);
/// How long before the end of a Capacity Block EC2 begins to terminate its instances (EC2 user
/// guide, "Capacity Blocks for ML").
pub const BLOCK_TERMINATION: Duration = seconds(30 * 60);
/// A machine that ends this soon leaves no time to ask pods to go: the margin takes half of so
/// short a time, and the first eviction of a burst waits for up to 2 s.
const LEAST_TIME: Duration = seconds(4);

/// The facts of one accepted interruption, as its Node's record keeps them. Deadlines are derived
/// from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptionFacts {
    /// Its kind; `None` for a kind of a newer version.
    pub kind: Option<Kind>,
    /// The event's own id; empty when it had none.
    pub event_id: String,
    /// The event's time, else the time at which its message was sent, else `accepted`.
    pub time: Moment,
    /// When Sundown accepted it.
    pub accepted: Moment,
    /// The lifecycle action to complete; `None` unless a hook waits.
    pub hook: Option<LifecycleAction>,
    /// The `instance-termination-time` of [`Kind::CapacityReservation`], the `end-date` of
    /// [`Kind::CapacityBlock`], the start of a [`Kind::ScheduledChange`], or the deadline of a
    /// [`Kind::Request`]; `None` if not given.
    pub ends: Option<Moment>,
    /// The state in a [`Kind::StateChange`]; `None` for other kinds.
    pub state: Option<InstanceState>,
    /// Sundown accepted it late and without proof: it forces no pod until there is proof.
    pub stale: bool,
    /// What Sundown does about it: the response that `--on` set for its kind at the accept.
    pub response: Response,
    /// The settings in the NotificationMetadata of its hook, also those that the flags do not
    /// allow.
    pub settings: DrainSettings,
    /// Why a [`Kind::Request`] asks, in one line; `None`: it gives no reason, or another kind.
    pub reason: Option<Box<str>>,
}

impl InterruptionFacts {
    /// The facts to keep of an interruption that is accepted at `now`. If the event has no time,
    /// `sent` (when its message was sent) replaces it, else `now`. The hook is completed under
    /// `instance`, the Node's own. The response is [`Response::Drain`].
    #[must_use]
    pub fn new(
        interruption: &Interruption,
        instance: &InstanceId,
        sent: Option<Moment>,
        now: Moment,
        stale: bool,
    ) -> Self {
        let time = interruption.time.or(sent).unwrap_or(now);
        Self {
            kind: Some(interruption.kind()),
            event_id: interruption.event_id.clone(),
            time,
            accepted: now,
            hook: interruption.lifecycle_action(instance),
            ends: match &interruption.cause {
                Cause::CapacityReservation { ends } | Cause::CapacityBlock { ends } => *ends,
                Cause::ScheduledChange(notice) => notice.starts,
                Cause::Request(request) => request.deadline,
                _ => None,
            },
            state: match interruption.cause {
                Cause::StateChange(state) => Some(state),
                _ => None,
            },
            stale,
            response: Response::Drain,
            settings: interruption.hook().map_or(DrainSettings::NONE, HookAction::settings),
            reason: match &interruption.cause {
                Cause::Request(request) => request.reason.clone(),
                _ => None,
            },
        }
    }

    /// When its notice period began: the event's time, but never later than the accept, so that a
    /// clock that is ahead adds no time.
    #[must_use]
    pub fn began(&self) -> Moment {
        self.time.min(self.accepted)
    }

    /// When the pods should be gone from an instance that ends at `end`, if this interruption sets
    /// the deadline: see [`force_time`].
    #[must_use]
    pub fn forces_at(&self, end: Moment, margin: Duration) -> Moment {
        force_time(self.began(), end, margin)
    }

    /// The drain had time until this end of the machine when the interruption was accepted. If not,
    /// the end sets no deadline: it would end the drain before a pod was asked to go.
    #[must_use]
    pub fn leaves_time(&self, end: Moment) -> bool {
        end > self.accepted.plus(LEAST_TIME)
    }

    /// When the machine ends, from this interruption's own facts: for spot, 120 s after the notice;
    /// for a capacity reservation, the stated time, else as for spot; for a Capacity Block, 30 min
    /// before its end; for a scheduled change, its start; for `stopping` and `shutting-down`, 30 s after the event; for `stopped` and
    /// `terminated`, at the event's time. `None` if the end depends on more (a hook) or nothing
    /// ends.
    #[must_use]
    pub fn machine_ends_at(&self) -> Option<Moment> {
        let time = self.began();
        match self.kind? {
            Kind::Spot | Kind::SpotStop | Kind::SpotHibernate => Some(time.plus(SPOT_NOTICE)),
            Kind::ScheduledChange => self.ends,
            Kind::CapacityReservation => Some(self.ends.unwrap_or_else(|| time.plus(SPOT_NOTICE))),
            Kind::CapacityBlock => {
                let end = self.ends.unwrap_or_else(|| time.plus(BLOCK_NOTICE));
                Some(end.minus(BLOCK_TERMINATION))
            }
            Kind::StateChange => match self.state? {
                InstanceState::Stopping | InstanceState::ShuttingDown => {
                    Some(time.plus(ENDING_NOTICE))
                }
                InstanceState::Stopped | InstanceState::Terminated => Some(time),
                InstanceState::Pending | InstanceState::Running => None,
            },
            Kind::TerminateHook
            | Kind::RootVolume
            | Kind::LaunchHook
            | Kind::LaunchSuccessful
            | Kind::Rebalance
            | Kind::Impaired
            | Kind::Request => None,
        }
    }

    /// A person or another controller asks for the drain.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.kind == Some(Kind::Request)
    }

    /// Who asks for the drain; `None` unless it is a request.
    #[must_use]
    pub fn requester(&self) -> Option<&str> {
        DrainRequest::name_of_event(&self.event_id).filter(|_| self.is_request())
    }

    /// The instance is `stopped` or `terminated`: nothing runs on it, so Sundown evicts no pod and
    /// waits for none.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, Some(InstanceState::Stopped | InstanceState::Terminated))
    }

    /// The machine ends within minutes, whatever Sundown does: spot, capacity
    /// reservations and blocks, ending states.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        match self.kind {
            Some(Kind::CapacityReservation | Kind::CapacityBlock) => true,
            Some(Kind::StateChange) => self.state.is_some_and(InstanceState::is_ending),
            Some(kind) => kind.is_spot(),
            None => false,
        }
    }
}

/// When the pods should be gone if a deadline at `end` has been known since `start`: `margin`
/// before the deadline, but never earlier than halfway between the two, so that the margin does not
/// use up a short deadline.
#[must_use]
pub fn force_time(start: Moment, end: Moment, margin: Duration) -> Moment {
    end.minus(margin.min(end.since_or_zero(start) / 2))
}
