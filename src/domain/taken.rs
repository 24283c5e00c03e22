//! An interruption that was taken on: the facts that outlive its message.

use std::time::Duration;

use super::{
    InstanceId, InstanceState, Interruption, Kind, LifecycleAction, Moment, What, seconds,
};

/// How long a spot instance has after its notice (EC2 user guide, "Spot Instance interruption
/// notices").
pub const SPOT_NOTICE: Duration = seconds(120);
/// How long pods are given on an instance that is being stopped or shut down.
pub const ENDING_NOTICE: Duration = seconds(30);

/// The facts of one interruption that was taken on, as its Node's record keeps them. Deadlines are
/// derived from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Its kind; `None` for a kind of a newer version.
    pub kind: Option<Kind>,
    /// The event's own id; empty when it had none.
    pub event_id: String,
    /// When AWS says that it happened.
    pub time: Moment,
    /// When it was taken on.
    pub accepted: Moment,
    /// The completion that it makes us owe.
    pub hook: Option<LifecycleAction>,
    /// The stated end (capacity).
    pub ends: Option<Moment>,
    /// The state (state change).
    pub state: Option<InstanceState>,
    /// It was taken on late and unproved: nothing is forced until it is proved.
    pub stale: bool,
}

impl Taken {
    /// What is kept of an interruption. `sent` (when its message was sent) stands in for an event
    /// time that is not said, and `now` for both. The hook is owed under `instance`, the Node's
    /// own.
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
            ends: match &interruption.what {
                What::Capacity { ends } => *ends,
                _ => None,
            },
            state: match interruption.what {
                What::StateChange(state) => Some(state),
                _ => None,
            },
            stale,
        }
    }

    /// Since when its time runs: when it happened, and never later than it was taken on (a clock
    /// that is ahead lends no time).
    #[must_use]
    pub fn began(&self) -> Moment {
        self.time.min(self.accepted)
    }

    /// By when pods are to be gone from an instance that ends at `end`, if this interruption rules:
    /// see [`force_time`].
    #[must_use]
    pub fn forces_at(&self, end: Moment, margin: Duration) -> Moment {
        force_time(self.began(), end, margin)
    }

    /// The moment at which the machine goes, from this interruption's own facts: spot its notice +
    /// 120 s; capacity the stated time, else as spot; an ending state 30 s after the event. `None`
    /// where that depends on more (a hook) or nothing ends. An instance that is over (`stopped`,
    /// `terminated`) went when the event says.
    #[must_use]
    pub fn machine_goes(&self) -> Option<Moment> {
        let time = self.began();
        match self.kind? {
            Kind::Spot => Some(time.plus(SPOT_NOTICE)),
            Kind::Capacity => Some(self.ends.unwrap_or_else(|| time.plus(SPOT_NOTICE))),
            Kind::StateChange => match self.state? {
                InstanceState::Stopping | InstanceState::ShuttingDown => {
                    Some(time.plus(ENDING_NOTICE))
                }
                InstanceState::Stopped | InstanceState::Terminated => Some(time),
                InstanceState::Pending | InstanceState::Running => None,
            },
            Kind::TerminateHook
            | Kind::LaunchHook
            | Kind::LaunchSuccessful
            | Kind::Rebalance
            | Kind::Health => None,
        }
    }

    /// It says that nothing runs on the instance any more: no pod is evicted, none waited for.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, Some(InstanceState::Stopped | InstanceState::Terminated))
    }

    /// Its machine goes within minutes, whatever we do: spot, capacity, ending states.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        match self.kind {
            Some(Kind::Spot | Kind::Capacity) => true,
            Some(Kind::StateChange) => self.state.is_some_and(InstanceState::is_ending),
            _ => false,
        }
    }
}

/// By when pods are to be gone if a deadline at `end` has been known since `start`: `margin` before
/// the deadline, but never earlier than half of the time between the two, because a margin must not
/// use up a short deadline.
#[must_use]
pub fn force_time(start: Moment, end: Moment, margin: Duration) -> Moment {
    end.minus(margin.min(end.since_or_zero(start) / 2))
}
