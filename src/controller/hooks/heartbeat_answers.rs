//! What AWS last answered to the heartbeats of each action, which a process remembers across its
//! terms.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::ended_actions::EndSeen;
use crate::{
    domain::{LifecycleAction, Moment, seconds},
    triage::ActionEndSeen,
};

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
    /// AWS accepted our completion then.
    Completed(Moment),
}

impl LastAnswer {
    const fn at(self) -> Moment {
        let (Self::Accepted(at) | Self::Over(at) | Self::Completed(at)) = self;
        at
    }
}

/// What is known of the end of an action. `ended`: from this term; `last`: from every term of this
/// process. A later answer to a heartbeat for an action that Sundown has completed changes nothing.
pub(super) const fn end_seen(ended: Option<EndSeen>, last: Option<LastAnswer>) -> ActionEndSeen {
    match (ended, last) {
        (Some(EndSeen::Completed), _) | (_, Some(LastAnswer::Completed(_))) => {
            ActionEndSeen::Completed
        }
        (Some(EndSeen::WasOpen { .. } | EndSeen::NeverOpen), _)
        | (_, Some(LastAnswer::Over(_))) => ActionEndSeen::Over,
        (None, Some(LastAnswer::Accepted(_)) | None) => ActionEndSeen::NotKnown,
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
        self.note_end(names, LastAnswer::Over(now));
    }

    fn note_end(&self, names: &[LifecycleAction], answer: LastAnswer) {
        self.note(names.iter().filter(|name| name.token.is_some()), answer);
    }

    fn note<'a>(&self, names: impl Iterator<Item = &'a LifecycleAction>, answer: LastAnswer) {
        let mut all = self.lock();
        if all.len() >= MOST {
            all.retain(|_, last| last.at().plus(LONGEST_WINDOW) > answer.at());
        }
        for name in names {
            // Of an action that Sundown has completed, AWS can only answer that it is over.
            let is_completed = matches!(all.get(name), Some(LastAnswer::Completed(_)));
            let is_kept = is_completed && matches!(answer, LastAnswer::Over(_));
            if !is_kept && (all.len() < MOST || all.contains_key(name)) {
                all.insert(name.clone(), answer);
            }
        }
    }

    /// The last answer for the action with this name. `None`: AWS has not answered, or the action
    /// was forgotten.
    pub(super) fn last(&self, action: &LifecycleAction) -> Option<LastAnswer> {
        self.lock().get(action).copied()
    }

    /// The action with these names is over, by our completion or by AWS's answer. Another leader
    /// may lead before the record shows that: a name with a token stays remembered, a name without
    /// one is forgotten.
    pub(super) fn ended(&self, names: &[LifecycleAction], now: Moment, seen: EndSeen) {
        for name in names.iter().filter(|name| name.token.is_none()) {
            self.lock().remove(name);
        }
        self.note_end(
            names,
            match seen {
                EndSeen::Completed => LastAnswer::Completed(now),
                EndSeen::WasOpen { .. } | EndSeen::NeverOpen => LastAnswer::Over(now),
            },
        );
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
        answers.ended(&names, at("20"), EndSeen::NeverOpen);
        assert_eq!(answers.last(&named), Some(LastAnswer::Over(at("20"))));
        assert_eq!(answers.last(&unnamed), None);
        answers.ended(&names, at("30"), EndSeen::Completed);
        answers.over(&names, at("40"));
        assert_eq!(answers.last(&named), Some(LastAnswer::Completed(at("30"))), "as before");
        assert_eq!(answers.last(&unnamed), None);
    }

    #[test]
    fn our_completion_of_an_action_counts_in_every_later_term() {
        use ActionEndSeen::{Completed, NotKnown, Over};
        let at = Moment::UNIX_EPOCH;
        let was_open = EndSeen::WasOpen { last_accepted: at };
        for (ended, last, expected) in [
            (None, None, NotKnown),
            (None, Some(LastAnswer::Accepted(at)), NotKnown),
            (None, Some(LastAnswer::Over(at)), Over),
            (None, Some(LastAnswer::Completed(at)), Completed),
            (Some(was_open), None, Over),
            (Some(EndSeen::NeverOpen), Some(LastAnswer::Accepted(at)), Over),
            (Some(EndSeen::NeverOpen), Some(LastAnswer::Completed(at)), Completed),
            (Some(EndSeen::Completed), None, Completed),
            (Some(EndSeen::Completed), Some(LastAnswer::Over(at)), Completed),
        ] {
            assert_eq!(end_seen(ended, last), expected, "{ended:?} {last:?}");
        }
    }
}
