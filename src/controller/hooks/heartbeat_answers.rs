//! What AWS last answered to the heartbeats of each action, which a process remembers across its
//! terms.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::domain::{LifecycleAction, Moment, seconds};

/// The longest heartbeat timeout that AWS accepts (`PutLifecycleHook`).
const LONGEST_WINDOW: std::time::Duration = seconds(7200);
/// How many actions are remembered at most.
const MOST: usize = 10_000;

/// What AWS last answered to the heartbeats that this process sent for an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastAnswer {
    /// AWS accepted the heartbeat that was sent then.
    Accepted(Moment),
    /// AWS answered then that the action is not open.
    Over(Moment),
}

impl LastAnswer {
    const fn at(self) -> Moment {
        let (Self::Accepted(at) | Self::Over(at)) = self;
        at
    }
}

/// The last answer of AWS for each action that may be open. If a process loses the Lease, leads
/// again, and its first heartbeat then fails, it derives from this answer how long AWS waits at
/// least, or that AWS does not wait at all. Clones share the map.
#[derive(Debug, Clone, Default)]
pub(in crate::controller) struct HeartbeatAnswers(
    Arc<Mutex<BTreeMap<LifecycleAction, LastAnswer>>>,
);

impl HeartbeatAnswers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<LifecycleAction, LastAnswer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// AWS accepted a heartbeat for the action with these names, sent at `sent`.
    pub(super) fn accepted(&self, names: &[LifecycleAction], sent: Moment) {
        self.note(names.iter(), LastAnswer::Accepted(sent));
    }

    /// AWS answered at `now` that the action with these names is not open. A name without a token
    /// is not remembered: it could be that of a later action of the same hook and instance.
    pub(super) fn over(&self, names: &[LifecycleAction], now: Moment) {
        self.note(names.iter().filter(|name| name.token.is_some()), LastAnswer::Over(now));
    }

    fn note<'a>(&self, names: impl Iterator<Item = &'a LifecycleAction>, answer: LastAnswer) {
        let mut all = self.lock();
        if all.len() >= MOST {
            all.retain(|_, last| last.at().plus(LONGEST_WINDOW) > answer.at());
        }
        for name in names {
            if all.len() < MOST || all.contains_key(name) {
                all.insert(name.clone(), answer);
            }
        }
    }

    /// Whether the last answer under this name was that the action is over.
    pub(in crate::controller) fn is_over(&self, action: &LifecycleAction) -> bool {
        matches!(self.last(action), Some(LastAnswer::Over(_)))
    }

    /// The last answer for the action with this name. `None`: AWS has not answered, or the action
    /// was forgotten.
    pub(super) fn last(&self, action: &LifecycleAction) -> Option<LastAnswer> {
        self.lock().get(action).copied()
    }

    /// The action with these names is over, by our completion or by AWS's answer. Another leader
    /// may lead before the record shows that: a name with a token stays remembered as over, a name
    /// without one is forgotten.
    pub(super) fn ended(&self, names: &[LifecycleAction], now: Moment) {
        for name in names {
            self.lock().remove(name);
        }
        self.over(names, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::hooks::tests::named as action;

    #[test]
    fn the_last_answer_counts_and_a_name_without_a_token_is_never_over() {
        let at = |second: &str| format!("2026-01-05T09:00:{second}Z").parse::<Moment>().unwrap();
        let answers = HeartbeatAnswers::default();
        let (named, unnamed) = (action(Some("token")), action(None));
        let names = [named.clone(), unnamed.clone()];
        answers.accepted(&names, at("00"));
        assert_eq!(answers.last(&named), Some(LastAnswer::Accepted(at("00"))));
        answers.over(&names, at("10"));
        assert_eq!(answers.last(&named), Some(LastAnswer::Over(at("10"))));
        assert_eq!(answers.last(&unnamed), Some(LastAnswer::Accepted(at("00"))));
        assert_eq!(answers.last(&action(Some("another"))), None);
        answers.ended(&names, at("20"));
        assert_eq!(
            answers.last(&named),
            Some(LastAnswer::Over(at("20"))),
            "after a completion, too"
        );
        assert_eq!(answers.last(&unnamed), None);
    }
}
